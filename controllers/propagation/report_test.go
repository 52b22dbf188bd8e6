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

package propagation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/legible/legibletest"
)

// TestEventsReportOnlyTrouble: success by itself causes no Event.
func TestEventsReportOnlyTrouble(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	if len(b.events.Events) != 0 {
		t.Errorf("an Event although all went well: %s", <-b.events.Events)
	}
	if err := b.server.Delete(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if got, want := <-b.events.Events, "Warning ResourceNotFound Deployment shop/web does not exist in the Karmada control plane"; got != want {
		t.Errorf("Event %q, want %q", got, want)
	}
	if len(b.works(t)) != 2 {
		t.Error("a missing resource must delete nothing")
	}
	if err := b.server.Create(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	if got := <-b.events.Events; !strings.HasPrefix(got, "Normal Propagated ") {
		t.Errorf("Event %q, want the end of the trouble", got)
	}
}

func TestStatusWritesAreBatched(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.Clock = clocktesting.NewFakePassiveClock(time.Now())
	b.memories.of(web).statusWritten = b.Clock.Now()
	works := b.works(t)
	works[0].Status.Conditions = []metav1.Condition{{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue, Reason: "x"}, {Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue, Reason: "x"}}
	if err := b.server.Status().Update(t.Context(), &works[0]); err != nil {
		t.Fatal(err)
	}
	b.writes = nil
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	if err != nil || len(b.writes) > 0 || result.RequeueAfter <= 0 || result.RequeueAfter > statusInterval {
		t.Errorf("one of two rows changed: %v written, requeued after %v, %v", b.writes, result.RequeueAfter, err)
	}
	b.confirm(t)
	if err := b.reconcile(t); err != nil || len(b.writes) != 1 {
		t.Errorf("Ready changed: %v written, %v", b.writes, err)
	}
}

// available has every cluster report how many of 100 replicas are available.
func (b *bench) available(t *testing.T, count int) {
	t.Helper()
	for _, work := range b.works(t) {
		work.Status.ManifestStatuses[0] = workv1alpha1.ManifestStatus{
			Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Kind: "Deployment"}, Health: workv1alpha1.ResourceUnhealthy,
			Status: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"replicas":100,"updatedReplicas":100,"availableReplicas":%d}`, count)},
		}
		if err := b.server.Status().Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDetailIsWrittenRarely: replicas become available one by one. The row counts
// them, but keeps its transition time and is not written each time.
func TestDetailIsWrittenRarely(t *testing.T) {
	b, clock := newBench(t, aShop()...), clocktesting.NewFakePassiveClock(time.Now())
	b.settle(t)
	b.confirm(t)
	b.Clock = clock
	b.available(t, 0)
	b.settle(t)
	began := b.propagation(t).Status
	b.memories.of(web).statusWritten = clock.Now()
	b.writes = nil
	const perSecond, seconds = 10, 9
	for step := range perSecond * seconds {
		b.available(t, step+1)
		if err := b.reconcile(t); err != nil {
			t.Fatal(err)
		}
		clock.SetTime(clock.Now().Add(time.Second / perSecond))
	}
	if got, want := words(b.writes, statusWrite), seconds/int(detailInterval/time.Second); got != want {
		t.Errorf("%d changes in %d s: %d writes of the status, want %d", perSecond*seconds, seconds, got, want)
	}
	clock.SetTime(clock.Now().Add(detailInterval))
	b.settle(t)
	b.countsReplicas(t, began)
	b.confirm(t)
	if err := b.reconcile(t); err != nil || words(b.writes, statusWrite) != 1 {
		t.Errorf("healthy: %v written, %v; want the status immediately", b.writes, err)
	}
}

// countsReplicas checks that the status counts 90 available replicas, with the
// transition times of an earlier status.
func (b *bench) countsReplicas(t *testing.T, began propagationv1alpha1.PropagationStatus) {
	t.Helper()
	row := b.rowOf(t, "member1")
	if want := "the cluster runs the current revision and reports it not healthy: 90 of 100 replicas available"; row.Message != want {
		t.Errorf("message %q, want %q", row.Message, want)
	}
	if !row.LastTransitionTime.Equal(&began.Clusters[0].LastTransitionTime) {
		t.Errorf("the row has lastTransitionTime %s, want %s", row.LastTransitionTime, began.Clusters[0].LastTransitionTime)
	}
	ready := meta.FindStatusCondition(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady)
	before := meta.FindStatusCondition(began.Conditions, propagationv1alpha1.ConditionReady)
	if !strings.HasSuffix(ready.Message, "90 of 100 replicas available") || !ready.LastTransitionTime.Equal(&before.LastTransitionTime) {
		t.Errorf("Ready is %+v, was %+v", ready, before)
	}
}

const statusWrite = "update status of DirectPropagation shop/web"

// look reconciles once, and forgets earlier writes.
func (b *bench) look(t *testing.T) ctrl.Result {
	t.Helper()
	b.writes = nil
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestFirstStatusWaitsForAnswers: a first status waits for the answers of clusters,
// for at most a second. A status that corrects an earlier one does not wait.
func TestFirstStatusWaitsForAnswers(t *testing.T) {
	t.Run("clusters answer", theyAnswer)
	t.Run("clusters do not answer", theyDoNotAnswer)
	t.Run("nothing can be sent", nothingCanBeSent)
	t.Run("clusters are not healthy yet", theyAreNotHealthyYet)
	t.Run("the previous status is now false", statusIsFalseNow)
}

// theyAnswer: the status is written once, with the answers.
func theyAnswer(t *testing.T) {
	t.Helper()
	b := newBench(t, aShop()...)
	b.Clock = clocktesting.NewFakePassiveClock(time.Now())
	result := b.look(t)
	if slices.Contains(b.writes, statusWrite) || result.RequeueAfter <= 0 || result.RequeueAfter > statusInterval || ptr.Deref(result.Priority, 0) != priorityReport {
		t.Errorf("%v written, requeued after %v with priority %d; want no status yet", b.writes, result.RequeueAfter, ptr.Deref(result.Priority, 0))
	}
	b.confirm(t)
	b.look(t)
	if want := []string{statusWrite}; !slices.Equal(b.writes, want) {
		t.Errorf("confirmed: %v written, want %v", b.writes, want)
	}
}

// theyDoNotAnswer: the status is written after a second.
func theyDoNotAnswer(t *testing.T) {
	t.Helper()
	b := newBench(t, aShop()...)
	b.look(t)
	b.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(statusInterval))
	b.look(t)
	if want := []string{statusWrite}; !slices.Equal(b.writes, want) {
		t.Errorf("after a second: %v written, want %v", b.writes, want)
	}
}

// nothingCanBeSent: trouble is reported immediately.
func nothingCanBeSent(t *testing.T) {
	t.Helper()
	b := newBench(t, aShop()...)
	if err := b.server.Delete(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	b.look(t)
	if !slices.Contains(b.writes, statusWrite) {
		t.Errorf("%v written, want the status immediately", b.writes)
	}
}

// theyAreNotHealthyYet: the status waits in this case too.
func theyAreNotHealthyYet(t *testing.T) {
	t.Helper()
	b := newBench(t, aShop()...)
	b.Clock = clocktesting.NewFakePassiveClock(time.Now())
	b.look(t)
	b.confirm(t)
	for _, work := range b.works(t) {
		work.Status.ManifestStatuses[0].Health = workv1alpha1.ResourceUnhealthy
		if err := b.server.Status().Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
	if b.look(t); len(b.writes) > 0 {
		t.Errorf("%v written, want no status yet", b.writes)
	}
}

// statusIsFalseNow: the status is corrected immediately.
func statusIsFalseNow(t *testing.T) {
	t.Helper()
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	for _, work := range b.works(t) {
		work.Finalizers = append(work.Finalizers, "example.com/holds-it")
		if err := b.server.Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
		t.Fatal(err)
	}
	if b.look(t); !slices.Contains(b.writes, statusWrite) {
		t.Errorf("deleted: %v written, want the status immediately", b.writes)
	}
}

// TestEventsAreLegible: the API refuses an Event that is too long.
func TestEventsAreLegible(t *testing.T) {
	b := newBench(t, aShop()...)
	recorder := events.NewFakeRecorder(1)
	b.Recorder = recorder
	b.event(b.propagation(t), "Reason", "\x1b[31m"+strings.Repeat("long\n", 1000))
	legibletest.Check(t, "Event", strings.TrimPrefix(<-recorder.Events, "Warning Reason "), legible.MaxNote)
}

// TestNewProcessAwaitsDependencies: a status that was written before the process started
// stays until the dependencies are checked, or for a while, unless anything else changes.
func TestNewProcessAwaitsDependencies(t *testing.T) {
	ticking := clocktesting.NewFakePassiveClock(now)
	statusWith := func(ready metav1.ConditionStatus, dependencies *propagationv1alpha1.Dependencies) *propagationv1alpha1.PropagationStatus {
		return &propagationv1alpha1.PropagationStatus{
			ObservedGeneration: ptr.To[int64](1), Dependencies: dependencies,
			Conditions: []metav1.Condition{{Type: propagationv1alpha1.ConditionReady, Status: ready}},
		}
	}
	unready := []propagationv1alpha1.UnreadyDependency{{APIVersion: "v1", Kind: "Secret", Name: "key", Reason: propagationv1alpha1.ReasonApplying, Message: "not checked yet"}}
	before := statusWith(metav1.ConditionTrue, &propagationv1alpha1.Dependencies{Total: ptr.To[int32](1), Ready: ptr.To[int32](1)})
	unchecked := statusWith(metav1.ConditionFalse, &propagationv1alpha1.Dependencies{Total: ptr.To[int32](1), Ready: ptr.To[int32](0), Unready: unready})
	failed := unchecked.DeepCopy()
	failed.Dependencies.Unready[0].Message = "member1: it is held by a policy"
	changed := unchecked.DeepCopy()
	changed.Clusters = []propagationv1alpha1.ClusterStatus{{Name: "member1"}}
	r := &Reconciler{Clock: ticking}
	object := &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}, Status: *before}
	for _, tc := range []struct {
		what  string
		after *propagationv1alpha1.PropagationStatus
		later time.Duration
		want  time.Duration
	}{
		{"not checked yet", unchecked, 0, dependencyPatience},
		{"checked, and not in place", failed, 0, 0},
		{"a row has changed, too", changed, 0, 0},
		{"not checked a second later", unchecked, time.Second, dependencyPatience - time.Second},
		{"never checked", unchecked, dependencyPatience, 0},
	} {
		ticking.SetTime(ticking.Now().Add(tc.later))
		if got := r.holdStatus(object, &decide.Plan{}, tc.after); got != tc.want {
			t.Errorf("%s: held back for %v, not %v", tc.what, got, tc.want)
		}
	}
}
