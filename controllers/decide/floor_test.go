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
	"fmt"
	"testing"
	"time"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// says gives a Work a healthy report.
func says(status string) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) {
		work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
			Health: workv1alpha1.ResourceHealthy, Status: &runtime.RawExtension{Raw: []byte(status)},
		}}
	}
}

// generationsOf is the report of a Deployment.
func generationsOf(member, template int) string {
	return fmt.Sprintf(`{"generation":%d,"resourceTemplateGeneration":%d}`, member, template)
}

func floored(floor string) func(*workv1alpha1.Work) {
	return annotated(propagationv1alpha1.HealthFloorAnnotation, floor)
}

// saidBefore adds a row to the observed status.
func saidBefore(health propagationv1alpha1.Health, revision string, ago time.Duration) sceneOption {
	return func(observed *Observed) {
		said := row("member1", metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
		said.Health, said.Revision, said.LastTransitionTime = health, revision, metav1.NewTime(now.Add(-ago))
		observed.Status.Clusters = append(observed.Status.Clusters, said)
	}
}

// refusedBefore is a row that has said for ten minutes that the cluster refuses the resource.
func refusedBefore(observed *Observed) {
	said := row("member1", metav1.ConditionFalse, propagationv1alpha1.ReasonApplyFailed, "denied by quota")
	said.LastTransitionTime = metav1.NewTime(now.Add(-10 * time.Minute))
	observed.Status.Clusters = append(observed.Status.Clusters, said)
}

// onMember puts a Work on the cluster that was applied just now, of a template that
// counts generations.
func onMember(change ...func(*workv1alpha1.Work)) sceneOption {
	return on("member1", append([]func(*workv1alpha1.Work){payload("4"), appliedAgo(0)}, change...)...)
}

// appliedAgo makes a Work confirmed for some time.
func appliedAgo(ago time.Duration) func(*workv1alpha1.Work) {
	condition := applied
	condition.LastTransitionTime = metav1.NewTime(now.Add(-ago))
	return conditions(dispatched, condition)
}

// oldReport is the report of a Deployment on which its last change is not seen yet,
// and then other changes.
func oldReport(change ...func(*workv1alpha1.Work)) sceneOption {
	return onMember(append([]func(*workv1alpha1.Work){floored("generation 7"), says(generationsOf(7, 4))}, change...)...)
}

// claimSays is the report of a claim that was bound before its last change.
func claimSays(status string) sceneOption {
	before := &workv1alpha1.Work{}
	says(`{"phase":"Bound"}`)(before)
	return onMember(floored("report "+digest(reportOn(before))), says(status))
}

const (
	unknown = propagationv1alpha1.HealthUnknown
	healthy = propagationv1alpha1.HealthHealthy
)

// healthCase is the health of a row, and when to look again.
type healthCase struct {
	options []sceneOption
	want    propagationv1alpha1.Health
	wait    time.Duration
}

func checkHealth(t *testing.T, cases map[string]healthCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			observed := scene([]string{"member1"}, tc.options...)
			if rows := statusOf(observed, Outcome{}).Clusters; rows[0].Health != tc.want || rows[0].Applied != metav1.ConditionTrue {
				t.Errorf("row: %s, want health %s", told(rows[0]), tc.want)
			}
			if wait := NewPlan(observed).Wait; wait != tc.wait {
				t.Errorf("looks again in %v, want %v", wait, tc.wait)
			}
		})
	}
}

// TestHealthIsOfTheContent: health comes from a report on the current content, or
// from what was trusted before.
func TestHealthIsOfTheContent(t *testing.T) {
	checkHealth(t, map[string]healthCase{
		"no floor":                              {[]sceneOption{onMember(says(generationsOf(7, 4)))}, healthy, 0},
		"the old report":                        {[]sceneOption{oldReport(), saidBefore(healthy, older, time.Hour)}, unknown, 10 * time.Second},
		"a report above the floor":              {[]sceneOption{onMember(floored("generation 7"), says(generationsOf(8, 4))), saidBefore(healthy, older, time.Hour)}, healthy, 0},
		"above the floor, of an older template": {[]sceneOption{onMember(floored("generation 7"), says(generationsOf(8, 3)))}, unknown, 0},
		"no report":                             {[]sceneOption{onMember(floored("generation 1")), saidBefore(unknown, current, 0)}, unknown, 10 * time.Second},
		"believed before":                       {[]sceneOption{oldReport(), saidBefore(healthy, current, 0)}, healthy, 0},
		"the same report of another kind":       {[]sceneOption{claimSays(`{"phase":"Bound"}`), saidBefore(unknown, current, time.Second)}, unknown, time.Second},
		"another report of another kind":        {[]sceneOption{claimSays(`{"phase":"Lost"}`), saidBefore(unknown, current, time.Second)}, healthy, 0},
	})
}

// TestHealthSettles: after a long enough wait by the controller's own clock, any
// report counts.
func TestHealthSettles(t *testing.T) {
	checkHealth(t, map[string]healthCase{
		"awaited for a while":           {[]sceneOption{oldReport(), saidBefore(unknown, current, 4*time.Second)}, unknown, 6 * time.Second},
		"awaited for long enough":       {[]sceneOption{oldReport(), saidBefore(unknown, current, 10*time.Second)}, healthy, 0},
		"another revision was awaited":  {[]sceneOption{oldReport(), saidBefore(unknown, older, time.Hour)}, unknown, 10 * time.Second},
		"a member's clock is ahead":     {[]sceneOption{oldReport(appliedAgo(-time.Hour)), saidBefore(unknown, current, 10*time.Second)}, healthy, 0},
		"a member's clock is behind":    {[]sceneOption{oldReport(appliedAgo(time.Hour)), saidBefore(healthy, older, time.Hour)}, unknown, 10 * time.Second},
		"no row, applied long ago":      {[]sceneOption{oldReport(appliedAgo(time.Hour))}, healthy, 0},
		"no row, applied just now":      {[]sceneOption{oldReport(appliedAgo(time.Second))}, unknown, 9 * time.Second},
		"no row, applied in the future": {[]sceneOption{oldReport(appliedAgo(-time.Second))}, healthy, 0},
		"another kind, for long enough": {[]sceneOption{claimSays(`{"phase":"Bound"}`), saidBefore(unknown, current, 2*time.Second)}, healthy, 0},
	})
}

// TestTheWaitForHealthBeginsWithTheRevision: a row with Unknown for another revision
// does not shorten the wait.
func TestTheWaitForHealthBeginsWithTheRevision(t *testing.T) {
	observed := scene([]string{"member1"}, on("member1", isConfirmed), saidBefore(propagationv1alpha1.HealthUnknown, older, time.Minute))
	observed.Status.Clusters[0].Reason = propagationv1alpha1.ReasonHealthUnknown
	if said := statusOf(observed, Outcome{}).Clusters[0]; !said.LastTransitionTime.Time.Equal(now) {
		t.Errorf("the row is of %v, want %v", said.LastTransitionTime, now)
	}
	observed.Status.Clusters[0].Revision = current
	if said := statusOf(observed, Outcome{}).Clusters[0]; !said.LastTransitionTime.Time.Equal(now.Add(-time.Minute)) {
		t.Errorf("the row of the same revision is of %v", said.LastTransitionTime)
	}
}

func TestNextFloor(t *testing.T) {
	deployment, claim := schema.FromAPIVersionAndKind("apps/v1", "Deployment"), schema.FromAPIVersionAndKind("v1", "PersistentVolumeClaim")
	template := payload("4")
	bound := &workv1alpha1.Work{}
	says(`{"phase":"Bound"}`)(bound)
	for name, tc := range map[string]struct {
		kind    schema.GroupVersionKind
		work    []func(*workv1alpha1.Work)
		before  []sceneOption
		healthy bool
		want    string
	}{
		"the report is current":                 {deployment, []func(*workv1alpha1.Work){template, says(generationsOf(7, 4))}, nil, true, "generation 7"},
		"the report is of an older template":    {deployment, []func(*workv1alpha1.Work){template, says(generationsOf(7, 3))}, nil, true, "generation 8"},
		"the last change is still to come":      {deployment, []func(*workv1alpha1.Work){template, says(generationsOf(7, 4)), floored("generation 7")}, nil, true, "generation 8"},
		"two changes are still to come":         {deployment, []func(*workv1alpha1.Work){template, says(generationsOf(7, 4)), floored("generation 8")}, nil, true, "generation 9"},
		"the last change has come":              {deployment, []func(*workv1alpha1.Work){template, says(generationsOf(8, 4)), floored("generation 7")}, nil, true, "generation 8"},
		"the last change changed nothing":       {deployment, []func(*workv1alpha1.Work){template, says(generationsOf(7, 4)), floored("generation 7")}, []sceneOption{saidBefore(propagationv1alpha1.HealthHealthy, current, 0)}, true, "generation 7"},
		"no report":                             {deployment, []func(*workv1alpha1.Work){template}, nil, true, "generation 1"},
		"no report, for the second time":        {deployment, []func(*workv1alpha1.Work){template, floored("generation 1")}, nil, true, "generation 2"},
		"another kind":                          {claim, []func(*workv1alpha1.Work){template, says(`{"phase":"Bound"}`)}, nil, true, "report " + digest(reportOn(bound))},
		"another kind, no report":               {claim, []func(*workv1alpha1.Work){template}, nil, true, "report none"},
		"another kind, without rules":           {claim, []func(*workv1alpha1.Work){template, says(`{"phase":"Bound"}`)}, nil, false, ""},
		"a kind that counts no generations":     {claim, []func(*workv1alpha1.Work){says(`{"phase":"Bound"}`)}, nil, true, ""},
		"a workload that reports no generation": {deployment, []func(*workv1alpha1.Work){template, says(`{"phase":"Bound"}`)}, nil, true, "report " + digest(reportOn(bound))},
	} {
		t.Run(name, func(t *testing.T) {
			observed := scene([]string{"member1"}, append(tc.before, on("member1", tc.work...))...)
			if got := NextFloor(observed, observed.Work("member1"), tc.kind, func() bool { return tc.healthy }); got != tc.want {
				t.Errorf("nextFloor() = %q, want %q", got, tc.want)
			}
		})
	}
}
