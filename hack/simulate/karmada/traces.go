/*
Copyright The Karmada Direct Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package karmada

import "k8s.io/utils/ptr"

// What the conditions of Works say.
const (
	saysDispatching = "Dispatching=True Dispatching"
	saysSuspended   = "Dispatching=False SuspendDispatching"
	saysApplied     = "Applied=True AppliedSuccessful"
	saysFailed      = "Applied=False AppliedFailed"
	saysRecreated   = "Applied=True ReCreateSuccessful"
)

// Traces returns the histories in which the model and a real Karmada must agree.
func Traces() []Trace {
	confirmed := []string{saysDispatching, saysApplied}
	runs := func(says string) Observation { return Observation{Conditions: confirmed, Runs: says} }
	created := Step{Do: CreateWork, Says: "one", Then: Observation{Conditions: confirmed, Runs: "one", Healthy: true, Managed: ptr.To(true)}}
	withdrawn := Step{Do: DeleteWork, Then: Observation{WorkGone: true, Absent: true}}
	return append([]Trace{
		{Name: "create, update and delete", Steps: []Step{
			created, {Do: UpdateWork, Says: "two", Then: runs("two")}, withdrawn,
		}},
		{Name: "a workload", Steps: []Step{
			{Do: CreateWork, Kind: "Deployment", Says: "one", Then: Observation{Conditions: confirmed, Runs: "one", Healthy: true}},
			{Do: UpdateWork, Says: "two", Then: Observation{Conditions: confirmed, Runs: "two", Healthy: true}},
			{Do: DeleteWork, Then: Observation{WorkGone: true, Absent: true}},
		}},
		{Name: "reset, then update", Steps: []Step{
			created, {Do: ResetWork, Then: Observation{Conditions: []string{}, Runs: "one"}},
			{Do: UpdateWork, Says: "two", Then: runs("two")}, withdrawn,
		}},
		{Name: "suspend and resume", Steps: []Step{
			created,
			{Do: SuspendWork, Says: "two", Then: Observation{Conditions: []string{saysSuspended, saysApplied}, Runs: "one"}},
			{Do: DeleteThere, Then: Observation{Conditions: []string{saysSuspended, saysApplied}, Absent: true}},
			{Do: ResumeWork, Then: runs("two")}, withdrawn,
		}},
		{Name: "preserve", Steps: []Step{
			created, {Do: PreserveWork, Then: runs("one")},
			{Do: DeleteWork, Then: Observation{WorkGone: true, Runs: "one", Managed: ptr.To(false)}},
			{Do: DeleteThere, Then: Observation{Absent: true}},
		}},
		{Name: "an edit on the member", Steps: []Step{
			created, {Do: EditThere, Says: "edited", Then: runs("one")}, withdrawn,
		}},
		{Name: "the object deleted on the member", Steps: []Step{
			created,
			{Do: DeleteThere, Then: Observation{Conditions: []string{saysDispatching, saysRecreated}, Runs: "one"}},
			{Do: UpdateWork, Says: "two", Then: runs("two")}, withdrawn,
		}},
		{Name: "a kind that the member does not serve", Steps: []Step{
			{Do: CreateWork, Kind: WidgetKind, Says: "one", Then: Observation{Conditions: []string{saysDispatching, saysFailed}}},
			{Do: DeleteWork, Then: Observation{WorkGone: true}},
		}},
	}, append(tracesOfOthers(created, withdrawn, runs), tracesOfClusters(created, withdrawn, runs)...)...)
}

// tracesOfOthers are about what somebody else holds.
func tracesOfOthers(created, withdrawn Step, runs func(string) Observation) []Trace {
	return []Trace{
		{Name: "a conflict on the member", Steps: []Step{
			{Do: CreateThere, Says: "foreign", Then: Observation{Runs: "foreign"}},
			{Do: CreateWork, Says: "one", Then: Observation{
				Conditions: []string{saysDispatching, saysFailed}, Message: "Karmada will not manage this resource", Runs: "foreign", Managed: ptr.To(false),
			}},
			{Do: DeleteWork, Then: Observation{WorkGone: true, Runs: "foreign"}},
			{Do: DeleteThere, Then: Observation{Absent: true}},
		}},
		{Name: "a conflict on the member that is overwritten", Steps: []Step{
			{Do: CreateThere, Says: "foreign", Then: Observation{Runs: "foreign"}},
			{Do: CreateWork, Says: "one", Overwrite: true, Then: Observation{Runs: "one", Managed: ptr.To(true)}},
			withdrawn,
		}},
		{Name: "a conflict that the Work is told to resolve", Steps: []Step{
			{Do: CreateThere, Says: "foreign", Then: Observation{Runs: "foreign"}},
			{Do: CreateWork, Says: "one", Then: Observation{Conditions: []string{saysDispatching, saysFailed}, Runs: "foreign"}},
			{Do: ResetWork},
			{Do: UpdateWork, Says: "two", Overwrite: true, Then: runs("two")},
			withdrawn,
		}},
		{Name: "a Work that a binding takes over", Steps: []Step{
			created, {Do: CreateTemplate, Says: "theirs", Then: Observation{Runs: "theirs", Bound: true}},
			{Do: DeleteTemplate, Then: Observation{WorkGone: true, Absent: true}},
		}},
		{Name: "the namespace goes", Steps: []Step{
			{Do: CreateThere, Says: "made on the member", Then: Observation{Runs: "made on the member"}},
			{Do: DeleteNamespace, Then: Observation{Absent: true}},
		}},
	}
}

// tracesOfClusters are about a cluster that is not there.
func tracesOfClusters(created, withdrawn Step, runs func(string) Observation) []Trace {
	return []Trace{
		{Name: "the member is lost and found", Disturbs: true, Steps: []Step{
			created, {Do: Cut, Then: Observation{Ready: notReady}},
			{Do: UpdateWork, Says: "two", Then: Observation{Conditions: []string{saysDispatching, saysApplied}}},
			{Do: Mend, Then: Observation{Ready: "True"}},
			{Do: UpdateWork, Says: "three", Then: runs("three")}, withdrawn,
		}},
		{Name: "a deletion waits for the member", Disturbs: true, Steps: []Step{
			created, {Do: Cut, Then: Observation{Ready: notReady}},
			{Do: DeleteWork},
			{Do: Mend, Then: Observation{Ready: "True", WorkGone: true, Absent: true}},
		}},
		{Name: "the cluster leaves and comes back", Disturbs: true, Steps: []Step{
			created, {Do: Leave, Then: Observation{Ready: gone, WorkGone: true, Absent: true}},
			{Do: Join, Then: Observation{Ready: "True"}},
			created, withdrawn,
		}},
	}
}
