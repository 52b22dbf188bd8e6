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
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// vanish removes the object, with its finalizer, while two clusters have its Works.
// The process sees it go. Time stands still.
func vanish(t *testing.T) (*bench, *clocktesting.FakePassiveClock) {
	t.Helper()
	b, passive := newBench(t, aShop()...), clocktesting.NewFakePassiveClock(time.Now())
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	b.Clock, b.ledger = passive, cached.NewLedger(passive)
	object := b.propagation(t)
	object.Finalizers = nil
	if err := b.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := b.server.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.vanished.Store(web, passive.Now())
	return b, passive
}

// sweeps reconciles an object that is gone whenever the last reconcile asked for it,
// until none does, for ten minutes at most.
func (b *bench) sweeps(t *testing.T, passive *clocktesting.FakePassiveClock) {
	t.Helper()
	for end := passive.Now().Add(10 * time.Minute); passive.Now().Before(end); {
		result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
		if err != nil {
			t.Fatal(err)
		}
		b.finishDeletions(t)
		if result.RequeueAfter == 0 {
			return
		}
		passive.SetTime(passive.Now().Add(result.RequeueAfter))
	}
	t.Error("it is still looked at after ten minutes")
}

// finishDeletions drops the finalizers of the Works that are being deleted, as Karmada
// does.
func (b *bench) finishDeletions(t *testing.T) {
	t.Helper()
	for _, work := range b.works(t) {
		if work.DeletionTimestamp == nil {
			continue
		}
		work.Finalizers = nil
		if err := b.server.Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
}

// leavesNothing checks that nothing of an object that is gone is left.
func (b *bench) leavesNothing(t *testing.T) {
	t.Helper()
	for _, work := range b.works(t) {
		t.Errorf("Work %s is left, being deleted: %t", work.Namespace, work.DeletionTimestamp != nil)
	}
	if _, remembered := b.vanished.Load(web); remembered || len(b.memories.byObject) > 0 {
		t.Errorf("it is remembered as vanished: %t; memories: %d", remembered, len(b.memories.byObject))
	}
	if uid, _ := b.owners().goneUID(web); b.ledger.Pending(uid) {
		t.Error("the ledger keeps its Works")
	}
}

// The Works of an object that is gone are removed although the API server rejects
// deletions until long after the object went.
func TestSweepEndsInTheEnd(t *testing.T) {
	for name, refusal := range map[string]error{
		"conflict": apierrors.NewConflict(workv1alpha1.Resource("works"), "web", errors.New("changed")),
		"refusal":  apierrors.NewForbidden(workv1alpha1.Resource("works"), "web", errors.New("not now")),
	} {
		t.Run(name, func(t *testing.T) {
			b, passive := vanish(t)
			until := passive.Now().Add(3 * cached.LedgerTTL)
			b.refuse = func(write string) error {
				if strings.HasPrefix(write, "delete Work") && passive.Now().Before(until) {
					return refusal
				}
				return nil
			}
			b.sweeps(t, passive)
			b.leavesNothing(t)
		})
	}
}

// Works that the cache never shows being deleted are forgotten all the same.
func TestSweptWorksAreForgotten(t *testing.T) {
	b, passive := vanish(t)
	passive.SetTime(passive.Now().Add(time.Second))
	b.sweeps(t, passive)
	b.leavesNothing(t)
}

// Of a refusal that lasts, the log has one line for each cluster.
func TestSweepLogsARefusalOnce(t *testing.T) {
	b, passive := vanish(t)
	b.refuse = func(write string) error {
		if strings.HasPrefix(write, "delete Work") {
			return apierrors.NewForbidden(workv1alpha1.Resource("works"), "web", errors.New("not now"))
		}
		return nil
	}
	log := &chronicle{}
	for range 50 {
		passive.SetTime(passive.Now().Add(time.Second))
		result, err := b.Reconcile(logr.NewContext(t.Context(), log.logger(0)), ctrl.Request{NamespacedName: web})
		if err != nil || result.RequeueAfter == 0 {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	if count := words(log.lines, "refuses a write"); count != 2 {
		t.Errorf("%d lines for 2 clusters", count)
	}
}

// A Work that is to be replaced, because its cluster refuses the resource, is not
// deleted if the cluster has accepted the resource in the meantime. A Work that is
// not wanted anymore is.
func TestReasonOfADeletionIsGone(t *testing.T) {
	for why, deleted := range map[decide.Why]bool{decide.Replaced: false, decide.ClusterNotNamed: true} {
		t.Run(string(why), func(t *testing.T) {
			b := newBench(t, aShop()...)
			b.settle(t)
			stale := b.workOn(t, "member1")
			if _, err := render.Compact(stale); err != nil {
				t.Fatal(err)
			}
			b.confirm(t)
			err := b.remove(t.Context(), observedOn("member1"), &decide.Removal{Work: stale, Cluster: "member1", Why: why})
			if deleted == saysLookAgain(err) {
				t.Errorf("the error is %v", err)
			}
			if got := b.workOn(t, "member1").DeletionTimestamp != nil; got != deleted {
				t.Errorf("deleted: %t, want %t", got, deleted)
			}
		})
	}
}

// A Work that Karmada has just applied, which the cache does not show yet, is deleted only once
// Karmada is known to see what it has created.
func TestDeletionOfWhatWasJustApplied(t *testing.T) {
	for name, tc := range map[string]struct {
		ago  time.Duration
		want int
	}{
		"just now": {0, 1}, "long ago": {time.Hour, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, aShop()...)
			b.settle(t)
			work, attempts := b.workOn(t, "member1"), 0
			b.refuse = func(write string) error {
				if attempts++; !strings.HasPrefix(write, "delete Work") || attempts > 1 {
					return nil
				}
				changed := b.workOn(t, "member1")
				at := metav1.NewTime(now.Add(-tc.ago))
				for _, condition := range []string{workv1alpha1.WorkDispatching, workv1alpha1.WorkApplied} {
					changed.Status.Conditions = append(changed.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, LastTransitionTime: at})
				}
				if err := b.server.Status().Update(t.Context(), changed); err != nil {
					t.Fatal(err)
				}
				return apierrors.NewConflict(workv1alpha1.Resource("works"), "web", errors.New("changed"))
			}
			err := b.remove(t.Context(), observedOn("member1"), &decide.Removal{Work: work, Cluster: "member1", Why: decide.ClusterNotNamed})
			if attempts != tc.want || saysLookAgain(err) != (tc.want == 1) {
				t.Errorf("%d attempts, error %v", attempts, err)
			}
		})
	}
}

// A Work that has lost its label and is gone is forgotten at once: the cache does not show its
// end, and nothing else would end the attempts to help its deletion.
func TestStrippedWorkThatIsGone(t *testing.T) {
	b := newBench(t, aShop()...)
	gone := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-member1", Name: "web", UID: "gone", ResourceVersion: "7"}}
	if err := b.ledger.Wrote("ours", gone); err != nil {
		t.Fatal(err)
	}
	plan := &decide.Plan{Removals: []decide.Removal{{Cluster: "member1", Work: gone, Nudge: true, Why: decide.DeletionHangs}}}
	if _, err := b.apply(t.Context(), b.propagation(t), observedOn("member1"), plan, nil); err != nil || b.ledger.Pending("ours") {
		t.Errorf("the Work is remembered: %t, error %v", b.ledger.Pending("ours"), err)
	}
}

// After a conflict, the Work of a Namespace is observed again before it is deleted,
// also if it was written for its deletion first: Karmada may put the Namespace on
// the cluster by itself meanwhile.
func TestNamespaceIsObservedAgainAfterAConflict(t *testing.T) {
	b, work := newBench(t, aShop()...), &workv1alpha1.Work{}
	work.Namespace, work.Name, work.UID = "karmada-es-member1", "team", types.UID("team")
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{}}
	work.Spec.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}`)
	if err := b.server.Create(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	if _, err := render.Compact(work); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	b.refuse = func(write string) error {
		if !strings.HasPrefix(write, "delete Work") {
			return nil
		}
		attempts++
		return apierrors.NewConflict(workv1alpha1.Resource("works"), "team", errors.New("changed"))
	}
	err := b.remove(t.Context(), observedOn("member1"), &decide.Removal{Work: work, Cluster: "member1", Preserve: ptr.To(true), Why: decide.ClusterNotNamed})
	if !saysLookAgain(err) || attempts != 1 {
		t.Errorf("%d attempts, error %v", attempts, err)
	}
}

// Somebody removes the name of the owner from the Work of a dependency. The Work stays while it
// is required, and is removed when it is not.
func TestNamelessWorkOfADependencyIsRemoved(t *testing.T) {
	b := newBench(t, memberCluster("member1"), webDeployment())
	b.Kind = render.DependencyKind
	dependent := types.NamespacedName{Namespace: "shop", Name: "apps/v1/Deployment/web"}
	look := func(key types.NamespacedName) {
		t.Helper()
		b.writes = nil
		if _, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	b.requirements.Set(oneObject, dependency.Requirement{Dependencies: []types.NamespacedName{dependent}, Clusters: map[string]bool{"member1": false}})
	look(dependent)
	b.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(time.Minute)) // Karmada has seen its Works
	work := b.workOn(t, "member1")
	delete(work.Annotations, propagationv1alpha1.OwnerNameAnnotation)
	if err := b.server.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	look(types.NamespacedName{Namespace: "shop"}) // whom the Work names now
	if len(b.writes) > 0 {
		t.Errorf("while it is required: %v", b.writes)
	}
	b.requirements.Release(oneObject, nil)
	look(dependent)
	if want := []string{"delete Work karmada-es-member1/" + work.Name}; !slices.Equal(b.writes, want) {
		t.Errorf("writes %v, want %v", b.writes, want)
	}
}
