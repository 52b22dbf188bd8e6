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

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// TestGoneBeforeTheFinalizer: an object that is deleted before it has our finalizer
// gets no Works, because nobody would remove them.
func TestGoneBeforeTheFinalizer(t *testing.T) {
	b := newBench(t, aShop()...)
	b.refuse = func(write string) error {
		if write == "patch DirectPropagation shop/web" {
			return apierrors.NewNotFound(propagationv1alpha1.Resource("directpropagations"), "web")
		}
		return nil
	}
	if err := b.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if works := b.works(t); len(works) > 0 {
		t.Errorf("%d Works without an owner", len(works))
	}
}

// TestVanishedObjectIsSwept: an object that disappeared although it had our
// finalizer leaves nothing behind, once this process has seen it disappear.
func TestVanishedObjectIsSwept(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	object := b.propagation(t)
	object.Finalizers = nil
	if err := b.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := b.server.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	for _, work := range b.works(t) {
		if work.DeletionTimestamp != nil {
			t.Errorf("Work %s is deleted although nobody saw its owner disappear", work.Namespace)
		}
	}
	b.vanished.Store(web, time.Now())
	b.settle(t)
	b.dropFinalizers(t)
	if left := b.works(t); len(left) > 0 {
		t.Errorf("%d Works are left", len(left))
	}
}

// TestRecreatedObjectCleansUp: an object that is recreated, and deleted before it
// has adopted the Works of its predecessor, removes them anyway.
func TestRecreatedObjectCleansUp(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	for _, work := range b.works(t) {
		work.Labels[propagationv1alpha1.OwnerUIDLabel] = "earlier"
		if err := b.server.Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	b.dropFinalizers(t)
	b.settle(t)
	if err := b.server.Get(t.Context(), web, webPropagation()); !apierrors.IsNotFound(err) {
		t.Errorf("the object is left: %v", err)
	}
}

// live takes shop/web through its life cycle: it is created, changed and deleted.
func live(t *testing.T, b *bench) {
	t.Helper()
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	b.changeImage(t, "nginx:2")
	b.settle(t)
	for _, work := range b.works(t) {
		if decide.WantsReset(&work) {
			t.Errorf("Work %s still says that the old content is applied", work.Namespace)
		}
		if !strings.Contains(string(work.Spec.Workload.Manifests[0].Raw), "nginx:2") {
			t.Errorf("Work %s has the old content", work.Namespace)
		}
	}
	b.confirm(t)
	b.settle(t)
	if !meta.IsStatusConditionTrue(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady) {
		t.Errorf("not Ready in the end: %+v", b.propagation(t).Status.Conditions)
	}
	if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	b.dropFinalizers(t)
	b.settle(t)
	if left := b.works(t); len(left) > 0 {
		t.Errorf("%d Works are left", len(left))
	}
	if err := b.server.Get(t.Context(), web, webPropagation()); !apierrors.IsNotFound(err) {
		t.Errorf("the object is left: %v", err)
	}
}

// TestPreservedWorkIsReleased: Karmada waits forever for an object that must stay
// on the member but does not exist there. The controller then releases the Work.
func TestPreservedWorkIsReleased(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	object := b.propagation(t)
	object.Spec.PreserveResourcesOnDeletion = ptr.To(true)
	if err := b.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if err := b.server.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if works := b.works(t); len(works) != 2 {
		t.Fatalf("%d Works, want 2: Karmada must have its time first", len(works))
	}
	after := func(duration time.Duration) {
		t.Helper()
		b.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(duration))
		for range 2 {
			b.ledger = cached.NewLedger(b.Clock)
			b.settle(t)
		}
	}
	after(time.Minute)
	if works := b.works(t); len(works) != 2 {
		t.Fatalf("%d Works, want 2: the clock of the API server alone must not decide how long Karmada has had", len(works))
	}
	after(2 * time.Minute)
	if works := b.works(t); len(works) != 0 {
		t.Errorf("%d Works are never released", len(works))
	}
	if err := b.server.Get(t.Context(), web, webPropagation()); !apierrors.IsNotFound(err) {
		t.Errorf("the object is left: %v", err)
	}
}

// TestOrphansAreAdopted: a Work whose owner lost its finalizer and is gone, or was
// recreated with the same name, belongs to nobody.
func TestOrphansAreAdopted(t *testing.T) {
	for name, ownerName := range map[string]string{"of an owner that is gone": "other", "of an earlier object with the same name": "web"} {
		t.Run(name, func(t *testing.T) {
			orphan := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
				Namespace: "karmada-es-member1", Name: "web-56d6c779bb", UID: "orphan",
				Labels: map[string]string{propagationv1alpha1.OwnerUIDLabel: "dead"},
				Annotations: map[string]string{
					propagationv1alpha1.OwnerKindAnnotation: "DirectPropagation", propagationv1alpha1.OwnerNamespaceAnnotation: "shop", propagationv1alpha1.OwnerNameAnnotation: ownerName,
				},
			}}
			b := newBench(t, append(aShop(), orphan)...)
			b.settle(t)
			taken := b.works(t)[0]
			if taken.UID != "orphan" || taken.Labels[propagationv1alpha1.OwnerUIDLabel] != "ours" || len(taken.Finalizers) != 1 {
				t.Errorf("not taken up: %+v", taken.ObjectMeta)
			}
		})
	}
}

// TestStrippedWorkIsAdopted: a Work of the controller that has lost all labels and
// annotations is still recognized by its content.
func TestStrippedWorkIsAdopted(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	work := b.works(t)[0]
	work.Labels, work.Annotations, work.Finalizers = nil, nil, nil
	if err := b.server.Update(t.Context(), &work); err != nil {
		t.Fatal(err)
	}
	b.ledger = cached.NewLedger(clock.RealClock{})
	b.settle(t)
	taken := b.works(t)[0]
	if taken.UID != work.UID || taken.Labels[propagationv1alpha1.OwnerUIDLabel] != "ours" || len(taken.Finalizers) != 1 {
		t.Errorf("not taken up: %+v", taken.ObjectMeta)
	}
}

// TestStrippedWorkThatCannotBeWritten: a Work of the controller that has lost its label, and
// cannot get it back, is not forgotten between two attempts. The row and the status stay as
// they are, also if a policy has meanwhile claimed the resource.
func TestStrippedWorkThatCannotBeWritten(t *testing.T) {
	for name, claim := range map[string]string{"of a resource that is free": "", "of a resource that a policy claims": "theirs"} {
		t.Run(name, func(t *testing.T) {
			b, passive := hasStrippedWork(t)
			if claim != "" {
				template := webDeployment()
				if err := b.server.Get(t.Context(), client.ObjectKeyFromObject(template), template); err != nil {
					t.Fatal(err)
				}
				template.Labels = map[string]string{policyv1alpha1.PropagationPolicyPermanentIDLabel: claim}
				if err := b.server.Update(t.Context(), template); err != nil {
					t.Fatal(err)
				}
			}
			said := map[string]int{}
			for range 60 {
				for range 5 {
					_ = b.reconcile(t)
					b.memories.of(web).statusWritten = time.Time{}
					said[described(b.rowOf(t, "member1"))]++
				}
				passive.SetTime(passive.Now().Add(30 * time.Second))
			}
			counts := map[string]int{}
			for _, write := range b.writes {
				counts[write]++
			}
			if creates, reports := counts["create Work karmada-es-member1/web-56d6c779bb"], counts["update status of DirectPropagation shop/web"]; creates > 1 || reports > 3 {
				t.Errorf("in half an hour, the controller creates the Work %d times and writes the status %d times; rows: %v", creates, reports, said)
			}
		})
	}
}

// TestStrippedWorkIsRemoved: a Work that has lost its label, and cannot get it back, goes with
// its object, and when it is withdrawn.
func TestStrippedWorkIsRemoved(t *testing.T) {
	for name, withdraw := range map[string]func(*bench){
		"the object is deleted": func(b *bench) {
			if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
				t.Fatal(err)
			}
		},
		"the cluster is withdrawn": func(b *bench) {
			b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.Clusters = spec.Clusters[1:] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, passive := hasStrippedWork(t)
			goesOn := func(rounds int) {
				for range rounds {
					_ = b.reconcile(t)
					passive.SetTime(passive.Now().Add(10 * time.Second))
				}
			}
			goesOn(10)
			withdraw(b)
			goesOn(10)
			if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonWriteFailed {
				t.Errorf("the deletion is refused, and the row says: %s", described(row))
			}
			refuse := b.refuse
			b.refuse = func(write string) error {
				if strings.HasPrefix(write, "delete") {
					return nil
				}
				return refuse(write)
			}
			goesOn(20)
			if b.workOn(t, "member1").DeletionTimestamp == nil {
				t.Errorf("the Work stays; the writes: %v", b.writes)
			}
			if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonRemoving {
				t.Errorf("the cluster still has the resource, and the row says: %s", described(row))
			}
		})
	}
}

// TestStrippedWorkIsRestored: a Work that has lost its label while somebody deletes it comes
// back. No watch event says that it is gone.
func TestStrippedWorkIsRestored(t *testing.T) {
	b, passive := hasStrippedWork(t)
	b.refuse = nil
	if err := b.server.Delete(t.Context(), b.workOn(t, "member1")); err != nil {
		t.Fatal(err)
	}
	for round := range 10 {
		if round == 3 {
			work := b.workOn(t, "member1")
			work.Finalizers = nil
			if err := b.server.Update(t.Context(), work); err != nil {
				t.Fatal(err)
			}
		}
		result, err := b.Reconciler.reconcile(t.Context(), ctrl.Request{NamespacedName: web})
		if err != nil {
			t.Fatal(err)
		}
		passive.SetTime(passive.Now().Add(result.RequeueAfter))
	}
	if work := b.workOn(t, "member1"); work.DeletionTimestamp != nil || work.Labels[propagationv1alpha1.OwnerUIDLabel] != "ours" {
		t.Errorf("not restored: %+v", work.ObjectMeta)
	}
}

// TestStrippedWorkThatSomebodyChanges: a Work that has lost its label, and that somebody has
// changed since, goes with its object only if it has its label again.
func TestStrippedWorkThatSomebodyChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*workv1alpha1.Work)
		goes   bool
	}{
		"somebody uses it for something else": {change: func(work *workv1alpha1.Work) {
			work.Labels, work.Annotations = map[string]string{"app": "theirs"}, nil
		}},
		"a write whose answer was lost labels it": {goes: true, change: func(work *workv1alpha1.Work) {
			work.Labels[propagationv1alpha1.OwnerUIDLabel] = "ours"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b, passive := hasStrippedWork(t)
			shown := b.Reconciler.works
			b.Reconciler.works = func(key string) ([]client.Object, error) {
				works, err := shown(key)
				return slices.DeleteFunc(works, func(work client.Object) bool { return work.GetNamespace() == "karmada-es-member1" }), err
			}
			_ = b.reconcile(t)
			work := b.workOn(t, "member1")
			tc.change(work)
			if err := b.server.Update(t.Context(), work); err != nil {
				t.Fatal(err)
			}
			b.refuse = nil
			if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				passive.SetTime(passive.Now().Add(31 * time.Second))
				_ = b.reconcile(t)
			}
			if gone := b.workOn(t, "member1").DeletionTimestamp != nil; gone != tc.goes {
				t.Errorf("deleted: %t; the writes: %v", gone, b.writes)
			}
		})
	}
}

// hasStrippedWork returns a bench whose Work on member1 has lost its label. The API server
// refuses all writes to Works, apart from new ones.
func hasStrippedWork(t *testing.T) (*bench, *clocktesting.FakePassiveClock) {
	t.Helper()
	b, passive := newBench(t, aShop()...), clocktesting.NewFakePassiveClock(time.Now())
	b.Clock, b.ledger = passive, cached.NewLedger(passive)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	work := b.workOn(t, "member1")
	delete(work.Labels, propagationv1alpha1.OwnerUIDLabel)
	if err := b.server.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	b.writes = nil
	b.refuse = func(write string) error {
		if strings.HasPrefix(write, "create") || strings.Contains(write, "DirectPropagation") {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "works"}, work.Name, errors.New("a webhook denies it"))
	}
	return b, passive
}
