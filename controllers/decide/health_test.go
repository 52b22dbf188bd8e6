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

package decide

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// ailmentCase is what Karmada collects of a kind, and the resulting message of a row.
type ailmentCase struct {
	group, kind, replicas, status, want string
}

func checkAilments(t *testing.T, cases map[string]ailmentCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ailment(reportedBy(tc.group, tc.kind, tc.replicas, tc.status))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAilmentsOfWorkloads(t *testing.T) {
	checkAilments(t, map[string]ailmentCase{
		"Deployment, no Pod ready":          {"apps", "Deployment", "3", `{"replicas":3,"updatedReplicas":3,"unavailableReplicas":3,"observedGeneration":1,"generation":1,"resourceTemplateGeneration":1}`, "0 of 3 replicas available"},
		"Deployment, no Pod can be created": {"apps", "Deployment", "3", `{"unavailableReplicas":3,"observedGeneration":1,"generation":1}`, "0 of 3 replicas available"},
		"Deployment, some are ready":        {"apps", "Deployment", "3", `{"replicas":3,"updatedReplicas":3,"readyReplicas":2,"availableReplicas":1}`, "1 of 3 replicas available"},
		"Deployment, update hangs":          {"apps", "Deployment", "3", `{"replicas":4,"updatedReplicas":1,"readyReplicas":3,"availableReplicas":3,"unavailableReplicas":1}`, "1 of 3 replicas updated, 3 available"},
		"Deployment, update of one hangs":   {"apps", "Deployment", "1", `{"replicas":2,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"unavailableReplicas":1}`, "1 of 2 replicas unavailable; an earlier one stays until the updated one is available"},
		"Deployment, update cannot begin":   {"apps", "Deployment", "3", `{"replicas":3,"readyReplicas":3,"availableReplicas":3}`, "0 of 3 replicas updated, 3 available"},
		"Deployment, not observed":          {"apps", "Deployment", "3", `{"replicas":3,"updatedReplicas":3,"availableReplicas":3,"observedGeneration":1,"generation":2}`, behind},
		"Deployment, scaled on the cluster": {"apps", "Deployment", "3", `{"replicas":7,"updatedReplicas":7,"availableReplicas":5}`, "5 of 7 replicas available"},
		"Deployment that asks for none":     {"apps", "Deployment", "", `{"replicas":2,"updatedReplicas":2,"availableReplicas":1}`, "1 of 2 replicas available"},
		"Deployment, with its conditions": {"apps", "Deployment", "1", `{"replicas":1,"updatedReplicas":1,"conditions":[{"type":"Available","status":"False"},{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"ReplicaSet \"web-1\" has timed out progressing."}]}`,
			`0 of 1 replicas available; ProgressDeadlineExceeded: ReplicaSet "web-1" has timed out progressing.`},
		"Deployment, refused by quota": {"apps", "Deployment", "2", `{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"exceeded quota: pods"}]}`,
			"0 of 2 replicas available; FailedCreate: exceeded quota: pods"},
		"Deployment, nothing reported": {"apps", "Deployment", "3", ``, "0 of 3 replicas available"},
		"Deployment of another group":  {"example.org", "Deployment", "3", `{"replicas":3}`, ""},
		"StatefulSet":                  {"apps", "StatefulSet", "3", `{"replicas":1,"availableReplicas":0,"currentReplicas":1,"updatedReplicas":1}`, "0 of 3 replicas available"},
		"StatefulSet, behind":          {"apps", "StatefulSet", "3", `{"replicas":3,"availableReplicas":3,"currentReplicas":3,"updatedReplicas":3,"readyReplicas":3}`, ""},
		"ReplicaSet":                   {"apps", "ReplicaSet", "2", `{"replicas":2,"readyReplicas":1,"availableReplicas":1,"observedGeneration":1,"generation":1}`, "1 of 2 replicas available"},
		"DaemonSet":                    {"apps", "DaemonSet", "", `{"currentNumberScheduled":4,"numberMisscheduled":0,"desiredNumberScheduled":4,"numberReady":1,"updatedNumberScheduled":4,"numberUnavailable":3,"observedGeneration":1,"generation":1}`, "1 of 4 nodes ready"},
		"DaemonSet, update hangs":      {"apps", "DaemonSet", "", `{"desiredNumberScheduled":4,"numberReady":4,"numberAvailable":4,"updatedNumberScheduled":1}`, "1 of 4 nodes updated, 4 ready"},
		"DaemonSet, minReadySeconds":   {"apps", "DaemonSet", "", `{"desiredNumberScheduled":4,"numberReady":4,"numberAvailable":2,"updatedNumberScheduled":4}`, "2 of 4 nodes available"},
		"DaemonSet, not observed":      {"apps", "DaemonSet", "", `{"desiredNumberScheduled":4,"numberReady":4,"observedGeneration":1,"generation":2}`, behind},
	})
}

func TestAilmentsOfOtherKindsOfKubernetes(t *testing.T) {
	checkAilments(t, map[string]ailmentCase{
		"claim":                     {"", "PersistentVolumeClaim", "", `{"phase":"Pending"}`, "claim is Pending"},
		"claim, lost":               {"", "PersistentVolumeClaim", "", `{"phase":"Lost"}`, "claim is Lost"},
		"load balancer":             {"", "Service", "", `{"loadBalancer":{}}`, "no load balancer address yet"},
		"Ingress":                   {"networking.k8s.io", "Ingress", "", `{"loadBalancer":{}}`, "no load balancer address yet"},
		"Ingress, nothing reported": {"networking.k8s.io", "Ingress", "", ``, "no load balancer address yet"},
		"Ingress with an address":   {"networking.k8s.io", "Ingress", "", `{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}`, ""},
		"PodDisruptionBudget":       {"policy", "PodDisruptionBudget", "", `{"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":2,"expectedPods":3}`, "1 of 2 Pods healthy"},
		"Job, failed":               {"batch", "Job", "", `{"failed":7,"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"Job has reached the specified backoff limit"}]}`, "Job has failed: BackoffLimitExceeded: Job has reached the specified backoff limit"},
		"Job, suspended":            {"batch", "Job", "", `{"conditions":[{"type":"Suspended","status":"True","reason":"JobSuspended"}]}`, "Job is suspended"},
		"Job, running":              {"batch", "Job", "", `{"active":1,"failed":2,"startTime":"2026-11-21T20:00:00Z"}`, "1 Pods active, 0 succeeded, 2 failed"},
		"Pod, no image": {"", "Pod", "", `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}],"containerStatuses":[{"name":"a","state":{"waiting":{"reason":"ContainerCreating"}}},{"name":"b","state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image \"nope\""}}}]}`,
			`Pod is Pending: ImagePullBackOff: Back-off pulling image "nope"`},
		"Pod, being created":  {"", "Pod", "", `{"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"ContainerCreating"}}}]}`, "Pod is Pending: ContainerCreating"},
		"Pod, no node":        {"", "Pod", "", `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available"}]}`, "Pod is Pending: Unschedulable: 0/1 nodes are available"},
		"Pod, crashing":       {"", "Pod", "", `{"phase":"Running","containerStatuses":[{"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}`, "Pod is Running, not ready: CrashLoopBackOff"},
		"Pod, failed":         {"", "Pod", "", `{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":1,"reason":"Error"}}}]}`, "Pod is Failed: Error"},
		"Pod, evicted":        {"", "Pod", "", `{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."}`, "Pod is Failed: Evicted: The node was low on resource: memory."},
		"Pod, init container": {"", "Pod", "", `{"phase":"Pending","initContainerStatuses":[{"state":{"waiting":{"reason":"ErrImagePull"}}}],"containerStatuses":[{"state":{"waiting":{"reason":"PodInitializing"}}}]}`, "Pod is Pending: ErrImagePull"},
	})
}

// A kind that the controller does not know says with its conditions, or else with
// its phase, what is wrong.
func TestAilmentsOfCustomKinds(t *testing.T) {
	checkAilments(t, map[string]ailmentCase{
		"Ready first":          {"helm.toolkit.fluxcd.io", "HelmRelease", "", `{"conditions":[{"type":"Stalled","status":"True","reason":"RetriesExceeded"},{"type":"Released","status":"False"},{"type":"Ready","status":"False","reason":"InstallFailed","message":"timed out","lastTransitionTime":"2026-11-21T20:00:00Z"}]}`, "Ready is False: InstallFailed: timed out"},
		"Available next":       {"example.org", "Shop", "", `{"conditions":[{"type":"Degraded","status":"True"},{"type":"Available","status":"False","reason":"Closed"}]}`, "Available is False: Closed"},
		"a negative one":       {"example.org", "Shop", "", `{"conditions":[{"type":"Ready","status":"True"},{"type":"Stalled","status":"False"},{"type":"Degraded","status":"True","message":"low on stock"}]}`, "Degraded is True: low on stock"},
		"any that is False":    {"example.org", "Shop", "", `{"conditions":[{"type":"Failed","status":"False"},{"type":"Progressing","status":"False"},{"type":"Stocked","status":"False","reason":"Empty"},{"type":"Open","status":"False"}]}`, "Stocked is False: Empty"},
		"progress has ended":   {"example.org", "Shop", "", `{"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}`, "Progressing is False: ProgressDeadlineExceeded"},
		"Ready not known":      {"example.org", "Shop", "", `{"conditions":[{"type":"Other","status":"Unknown"},{"type":"Ready","status":"Unknown","reason":"Reconciling"}]}`, "Ready is Unknown: Reconciling"},
		"no bad condition":     {"example.org", "Shop", "", `{"conditions":[{"type":"Ready","status":"True"}],"phase":"Failed","message":"see the log"}`, "phase is Failed: see the log"},
		"CustomResource CRD":   {"apiextensions.k8s.io", "CustomResourceDefinition", "", `{"conditions":[{"type":"NamesAccepted","status":"False","reason":"ListKindConflict","message":"in use"},{"type":"Established","status":"False","reason":"NotAccepted"}]}`, "Established is False: NotAccepted"},
		"conditions of a type": {"example.org", "Shop", "", `{"conditions":"none","phase":"Broken"}`, "phase is Broken"},
		"odd times":            {"example.org", "Shop", "", `{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":12}]}`, "Ready is False"},
		"no object":            {"example.org", "Shop", "", `["text"]`, ""},
		"nothing":              {"example.org", "Shop", "", ``, ""},
	})
}

func TestAilmentWithoutReport(t *testing.T) {
	if got := ailment(&workv1alpha1.Work{}); got != "" {
		t.Errorf("a Work without a report: %q", got)
	}
}

func reportedBy(group, kind, replicas, status string) *workv1alpha1.Work {
	work := &workv1alpha1.Work{}
	words := "c0ffee 1 u1 identity"
	if replicas != "" {
		words += " " + replicas
	}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte("revision " + words)}}}
	manifest := workv1alpha1.ManifestStatus{Health: workv1alpha1.ResourceUnhealthy, Identifier: workv1alpha1.ResourceIdentifier{Group: group, Kind: kind}}
	if status != "" {
		manifest.Status = &runtime.RawExtension{Raw: []byte(status)}
	}
	work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{manifest}
	return work
}

// A status that is too large for the cache still explains why.
func TestAilmentOfALargeStatus(t *testing.T) {
	padding := strings.Repeat("x", 4096)
	for name, tc := range map[string]struct{ group, kind, status, want string }{
		"Pod":        {"", "Pod", `{"phase":"Pending","hostIP":"` + padding + `","containerStatuses":[{"name":"a","state":{"waiting":{"reason":"ImagePullBackOff","message":"no"}}}]}`, "Pod is Pending: ImagePullBackOff: no"},
		"condition":  {"example.org", "Shop", `{"padding":"` + padding + `","conditions":[` + strings.Repeat(`{"type":"Fine","status":"True"},`, 20) + `{"type":"Ready","status":"False","reason":"Closed","message":"` + padding + `"}]}`, "Ready is False: Closed: " + padding[:160]},
		"Deployment": {"apps", "Deployment", `{"replicas":3,"updatedReplicas":3,"availableReplicas":1,"resourceTemplateGeneration":7,"padding":"` + padding + `"}`, "1 of 3 replicas available"},
		"text":       {"example.org", "Shop", `"` + padding + `"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			work := reportedBy(tc.group, tc.kind, "", tc.status)
			work.Spec.Workload.Manifests = nil
			if _, err := render.Compact(work); err != nil {
				t.Fatal(err)
			}
			status := &work.Status.ManifestStatuses[0]
			if size := len(status.Status.Raw); size > 2048 || !render.IsCut(status) {
				t.Errorf("%d bytes are kept, cut: %t", size, render.IsCut(status))
			}
			if got := ailment(work); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
