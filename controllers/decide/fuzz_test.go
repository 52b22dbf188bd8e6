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
	"errors"
	"slices"
	"testing"
	"time"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/legible/legibletest"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// choices turns the bytes of a fuzz target into decisions. Without any left, it always
// takes the first alternative.
type choices struct {
	bytes []byte
	// text is what members, webhooks and users say.
	text   string
	report []byte
}

// pick returns a number below n.
func (c *choices) pick(n int) int {
	if len(c.bytes) == 0 {
		return 0
	}
	first := c.bytes[0]
	c.bytes = c.bytes[1:]
	return int(first) % n
}

// seldom is true for one of four bytes.
func (c *choices) seldom() bool { return c.pick(4) == 3 }

func either[T any](c *choices, of ...T) T { return of[c.pick(len(of))] }

func (c *choices) time() time.Time {
	return either(c, now, now.Add(-time.Hour), now.Add(-10*time.Second), now.Add(-2*time.Second), now.Add(time.Second),
		now.Add(time.Hour), now.AddDate(200, 0, 0), time.Time{})
}

// observed is a scene with three clusters, each in any state.
func (c *choices) observed() *Observed {
	observed := scene(nil)
	observed.Deleting, observed.HasFinalizer = c.seldom(), !c.seldom()
	observed.Abandon, observed.Vanished = c.seldom(), c.seldom()
	observed.Retry, observed.Resource.UID = either(c, "", c.text), either(c, "", types.UID("u1"))
	if c.seldom() {
		observed.Resource = Resource{Problem: &Problem{
			Reason: propagationv1alpha1.ReasonResourceNotFound, Message: c.text, Stalled: c.seldom(), Poll: KindPoll, Err: either(c, nil, errors.New(c.text)),
		}}
	}
	observed.Spec.PreserveResourcesOnDeletion = either(c, nil, ptr.To(true))
	observed.Spec.Suspension.Dispatching = either(c, nil, nil, ptr.To(true))
	observed.Lost, observed.Setbacks, observed.Denials = map[string]time.Time{}, map[string]Setback{}, map[string]Denial{}
	for _, name := range []string{"member1", "member2", "member3"} {
		c.cluster(observed, name)
	}
	if c.seldom() {
		observed.Status = statusOf(observed, Outcome{})
	}
	if !observed.Deleting {
		observed.Target()
	}
	return observed
}

// cluster adds a cluster to what was observed.
func (c *choices) cluster(observed *Observed, name string) {
	switch c.pick(4) {
	case 0, 1:
		observed.Spec.Clusters = append(observed.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: name})
	case 2:
		observed.Selected = append(observed.Selected, name)
	}
	state := readyCluster
	state.Exists, state.Ready, state.Terminating, state.Message = !c.seldom(), !c.seldom(), c.seldom(), c.text
	state.API = either(c, clusterv1alpha1.APIEnabled, clusterv1alpha1.APIDisabled, clusterv1alpha1.APIUnknown)
	observed.Clusters[name] = state
	if !c.seldom() {
		c.work(observed, name, "web")
	}
	if c.seldom() {
		c.work(observed, name, "old")
	}
	if c.seldom() {
		observed.Holders[name] = either(c, UnknownHolder, c.text)
	}
	if c.seldom() {
		observed.Lost[name] = c.time()
	}
	if c.seldom() {
		observed.Denials[name] = Denial{Reason: propagationv1alpha1.ReasonForbidden, Message: c.text, Get: c.seldom()}
	}
	if c.seldom() {
		until := either(c, now.Add(-time.Second), now.Add(time.Minute))
		observed.Setbacks[name] = Setback{What: (&Write{Rendering: observed.Resource.On(name)}).What(observed), Until: until, Err: errors.New(c.text)}
	}
}

// work puts a Work on a cluster that anybody may have edited.
func (c *choices) work(observed *Observed, cluster, resource string) {
	work := liveWork(observed, cluster, resource,
		either(c, revision(current), revision(older), payload("4 u1 "+here), payload("4 u0 "+here+"!"), payload("4 u1 "+elsewhere), payload(c.text)))
	for _, key := range []string{
		propagationv1alpha1.AttemptsAnnotation, propagationv1alpha1.HealthFloorAnnotation, propagationv1alpha1.ConfirmedRevisionAnnotation,
		propagationv1alpha1.SupersedesAnnotation, propagationv1alpha1.RetryAnnotation, propagationv1alpha1.ClusterReadySinceAnnotation,
	} {
		if c.seldom() {
			work.Annotations[key] = either(c, c.text, "generation 7", "u0", "u0!", older, attempts{count: 3}.next(c.time()), attempts{}.next(c.time())+endingMark)
		}
	}
	work.Status.Conditions = c.conditions()
	if c.seldom() {
		work.DeletionTimestamp = ptr.To(metav1.NewTime(c.time()))
	}
	work.Spec.SuspendDispatching = either(c, nil, ptr.To(false), ptr.To(true))
	work.Spec.PreserveResourcesOnDeletion = either(c, nil, ptr.To(true))
	if !c.seldom() {
		health := either(c, workv1alpha1.ResourceHealthy, workv1alpha1.ResourceUnhealthy, workv1alpha1.ResourceUnknown)
		work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
			Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Kind: "Deployment"}, Health: health, Status: &runtime.RawExtension{Raw: c.report},
		}}
	}
	observed.Works[observed.WorkKey(cluster)] = work
	if resource != "web" {
		delete(observed.Works, observed.WorkKey(cluster))
		observed.Works[render.WorkKey(cluster, "Deployment", owner.Namespace, resource)] = work
	}
}

// conditions are those of a Work, in any order.
func (c *choices) conditions() []metav1.Condition {
	found := []metav1.Condition{}
	kinds := []string{workv1alpha1.WorkDispatching, workv1alpha1.WorkApplied, propagationv1alpha1.WorkConditionReset}
	if c.seldom() {
		slices.Reverse(kinds)
	}
	for _, kind := range kinds {
		if c.seldom() {
			continue
		}
		found = append(found, metav1.Condition{
			Type: kind, Status: either(c, metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown),
			Reason: either(c, "", "", reasonRecreated), LastTransitionTime: metav1.NewTime(c.time()),
			Message: either(c, c.text, resetPrefix+c.text, `Deployment.apps "web" is invalid: `+c.text),
		})
	}
	return found
}

// FuzzDecisions: whatever is observed, the plan touches only Works of the object, and
// the status is true and acceptable to the API server.
func FuzzDecisions(f *testing.F) {
	f.Add([]byte{}, "denied", []byte(`{"generation":7,"resourceTemplateGeneration":4}`))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, "\x1b[31mno\xff", []byte(`"text"`))
	for seed := range 40 {
		bytes := make([]byte, 200)
		for i := range bytes {
			bytes[i] = byte(seed*31 + i*(seed+7) + i*i)
		}
		f.Add(bytes, []string{"7 2026-01-01T11:00:00Z", "generation 9223372036854775807", "c0ffee", "€\u202e"}[seed%4], []byte(`{"generation":8,"conditions":[{"type":"Ready","status":"False"}]}`))
	}
	f.Fuzz(func(t *testing.T, bytes []byte, text string, report []byte) {
		observed := (&choices{bytes: bytes, text: text, report: report}).observed()
		again := (&choices{bytes: bytes, text: text, report: report}).observed()
		plan := NewPlan(observed)
		outcome := Outcome{Failures: plan.HeldBack}
		status, rows := StatusAndRows(observed, &outcome)
		if !equality.Semantic.DeepEqual(observed.Works, again.Works) || !equality.Semantic.DeepEqual(observed.Status, again.Status) || !equality.Semantic.DeepEqual(observed.Spec, again.Spec) {
			t.Fatal("a decision changes its argument")
		}
		if first, second := plan.Steps(), NewPlan(again).Steps(); !slices.Equal(first, second) {
			t.Errorf("planned twice: %q, then %q", first, second)
		}
		checkPlan(t, observed, plan)
		checkTruth(t, observed, rows)
		checkStatus(t, observed, status)
	})
}

// checkPlan: only Works of the object are written and removed, and no clock of others
// makes the controller wait long.
func checkPlan(t *testing.T, observed *Observed, plan *Plan) {
	t.Helper()
	for i := range plan.Writes {
		write := &plan.Writes[i]
		cluster := write.Target.Cluster
		if observed.Holders[cluster] != "" || !observed.Targeted(cluster) || !observed.Clusters[cluster].Exists || observed.Deleting {
			t.Errorf("%s, which is held by %q", write, observed.Holders[cluster])
		}
		if write.Live != observed.Work(cluster) {
			t.Errorf("%s is based on a Work that was not observed", write)
		}
	}
	for i := range plan.Removals {
		removal := &plan.Removals[i]
		found := false
		for key, work := range observed.Works {
			found = found || work == removal.Work && render.ClusterOf(key.Namespace) == removal.Cluster
		}
		if !found || removal.Work.UID == "" {
			t.Errorf("%s, whose Work was not observed", removal)
		}
	}
	if longest := 2 * retryDelays[len(retryDelays)-1]; plan.Wait < 0 || plan.Wait > longest {
		t.Errorf("the plan waits for %v, at most %v make sense", plan.Wait, longest)
	}
}

// checkTruth: a row is True only for what the cluster has confirmed.
func checkTruth(t *testing.T, observed *Observed, rows []propagationv1alpha1.ClusterStatus) {
	t.Helper()
	for i := range rows {
		row, work := &rows[i], observed.Work(rows[i].Name)
		if row.Applied != metav1.ConditionTrue {
			continue
		}
		state := observed.Clusters[row.Name]
		if work == nil || work.DeletionTimestamp != nil || !state.Exists || !state.Ready || observed.Holders[row.Name] != "" {
			t.Fatalf("%s without a Work on a cluster with contact", told(*row))
		}
		if observed.Resource.Problem == nil && row.Revision != observed.Resource.On(row.Name).Revision {
			t.Errorf("%s is not of the current revision", told(*row))
		}
		dispatching := slices.IndexFunc(work.Status.Conditions, func(c metav1.Condition) bool { return c.Type == workv1alpha1.WorkDispatching })
		confirming := slices.IndexFunc(work.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == workv1alpha1.WorkApplied && c.Status == metav1.ConditionTrue && c.Reason != reasonRecreated
		})
		if dispatching < 0 || confirming < dispatching {
			t.Errorf("%s is not proven by %+v", told(*row), work.Status.Conditions)
		}
	}
}

// checkStatus: the API server accepts the status, and people can read it.
func checkStatus(t *testing.T, observed *Observed, status *propagationv1alpha1.PropagationStatus) {
	t.Helper()
	for i := range status.Clusters {
		row := &status.Clusters[i]
		legibletest.Check(t, row.Name, row.Message, propagationv1alpha1.MaxMessageLength)
		legibletest.Check(t, row.Name+", revision", row.Revision, 64)
		if !slices.Contains(ReasonNamed(row.Reason).rows, row.Applied) {
			t.Errorf("reason %s is not one of rows that are %s", row.Reason, row.Applied)
		}
		if before := observed.rowBefore(row.Name); !row.LastTransitionTime.Time.Equal(now) && (before == nil || !before.LastTransitionTime.Equal(&row.LastTransitionTime)) {
			t.Errorf("%s is of %v", told(*row), row.LastTransitionTime)
		}
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		legibletest.Check(t, condition.Type, condition.Message, legible.MaxNote)
		before := meta.FindStatusCondition(observed.Status.Conditions, condition.Type)
		if changed := before == nil || before.Status != condition.Status; changed != condition.LastTransitionTime.Time.Equal(now) && (before == nil || !before.LastTransitionTime.Time.Equal(now)) {
			t.Errorf("%s is of %v, changed: %t", condition.Type, condition.LastTransitionTime, changed)
		}
	}
	sum := status.Summary
	if *sum.Applied+*sum.Failed+*sum.Pending+*sum.Unreachable != *sum.Clusters || *sum.Healthy > *sum.Applied {
		t.Errorf("the summary does not add up: %+v", sum)
	}
}

// FuzzNotes: what the controller notes on a Work can be read back, and nothing else is
// taken for a note.
func FuzzNotes(f *testing.F) {
	for _, note := range []string{
		"", "1 2026-01-01T12:00:00Z", "3 2026-01-01T12:00:00Z deleting", "-1 2026-01-01T12:00:00Z", "9223372036854775807 2026-01-01T12:00:00Z",
		"1 2026-01-01T12:00:00.5+01:00", "generation 7", "generation 9223372036854775807", "generation -1", "report none", "c0ffee", "u1!",
	} {
		f.Add(note, 1, int64(1767268800))
	}
	f.Fuzz(func(t *testing.T, note string, count int, seconds int64) {
		work := liveWork(scene(nil), "member1", "web", annotated(propagationv1alpha1.AttemptsAnnotation, note),
			annotated(propagationv1alpha1.ConfirmedRevisionAnnotation, note), annotated(propagationv1alpha1.HealthFloorAnnotation, note))
		found := attemptsOf(work)
		if found.count < 0 || (found.count == 0) != found.at.IsZero() && found.count == 0 {
			t.Errorf("%q is read as %+v", note, found)
		}
		checkNextAttempt(t, found)
		checkNextAttempt(t, attempts{count: max(count, 0)})
		if at := time.Unix(seconds, 0).UTC(); at.Year() > 0 && at.Year() < 10000 {
			work.Annotations[propagationv1alpha1.AttemptsAnnotation] = attempts{}.next(at) + endingMark
			if got := attemptsOf(work); !got.at.Equal(at) || !got.ending || got.count != 1 {
				t.Errorf("written for %v, read as %+v", at, got)
			}
		}
		confirmed := confirmedRevision(work)
		work.Status.Conditions = ResetConditions(work, confirmedRevision(work), now)
		delete(work.Annotations, propagationv1alpha1.ConfirmedRevisionAnnotation)
		if got := confirmedRevision(work); got != confirmed || len(got) > 64 {
			t.Errorf("revision %q is read as %q after a reset", confirmed, got)
		}
		if proof, _ := EvidenceOf(work); proof != pending || !attemptMissing(work) {
			t.Errorf("after a reset, the Work proves %s", proof)
		}
	})
}

// checkNextAttempt: a note counts one more than the note before.
func checkNextAttempt(t *testing.T, before attempts) {
	t.Helper()
	work := &workv1alpha1.Work{}
	work.Annotations = map[string]string{propagationv1alpha1.AttemptsAnnotation: before.next(now)}
	if got := attemptsOf(work); got.count <= 0 || got.count < before.count || !got.at.Equal(now) || got.ending {
		t.Errorf("after %+v, %+v is noted", before, got)
	}
}

// FuzzReports: whatever a cluster reports, the row explains it in text that the API
// server accepts, and a report on other content is not believed.
func FuzzReports(f *testing.F) {
	for _, tc := range refusalCases {
		f.Add("apps", "Deployment", tc.said, []byte(`{"replicas":3}`))
	}
	for _, kind := range []string{"Pod", "Job", "Service", "Deployment", "DaemonSet", "PersistentVolumeClaim", "PodDisruptionBudget", "Shop"} {
		for _, group := range []string{"", "apps", "batch", "policy", "example.org"} {
			f.Add(group, kind, "no", []byte(`{"phase":"Failed","failed":1,"conditions":[{"type":"Failed","status":"True","lastTransitionTime":"x","message":"`+kind+`"}],"containerStatuses":[{"state":{"waiting":{"reason":"No"}}}]}`))
		}
	}
	f.Fuzz(func(t *testing.T, group, kind, message string, report []byte) {
		for _, answer := range []func(*workv1alpha1.Work){isConfirmed, conditions(dispatched, refusalSaying(message))} {
			work := on("member1", answer, func(work *workv1alpha1.Work) {
				work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
					Identifier: workv1alpha1.ResourceIdentifier{Group: group, Kind: kind}, Health: workv1alpha1.ResourceUnhealthy, Status: &runtime.RawExtension{Raw: report},
				}}
			})
			observed := scene(one, work)
			status := statusOf(observed, Outcome{})
			checkStatus(t, observed, status)
			if row := status.Clusters[0]; row.Message == "" && message != "" && legible.Text(message) != "" && row.Applied == metav1.ConditionFalse {
				t.Errorf("nothing is said about %q", message)
			}
			if ready := meta.FindStatusCondition(status.Conditions, propagationv1alpha1.ConditionReady); ready.Status == metav1.ConditionTrue {
				t.Errorf("Ready although %s", told(status.Clusters[0]))
			}
		}
	})
}

func refusalSaying(message string) metav1.Condition {
	condition := failed
	condition.Message = message
	return condition
}
