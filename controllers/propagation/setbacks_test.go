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

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// TestRefusedWritesDelayOnlyTheirCluster: a write or a removal that the API server
// refuses for one cluster delays no other cluster, and is retried less and less
// often.
func TestRefusedWritesDelayOnlyTheirCluster(t *testing.T) {
	b := newBench(t, append(aShop(), memberCluster("member3"))...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	passive := clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour)) // everything has settled
	b.Clock = passive
	attempted := 0
	b.refuse = func(write string) error {
		if strings.Contains(write, "karmada-es-member1") {
			attempted++
			return apierrors.NewForbidden(workv1alpha1.Resource("works"), "x", errors.New("not welcome"))
		}
		return nil
	}
	b.changeImage(t, "nginx:2")
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) {
		spec.Clusters = []propagationv1alpha1.TargetCluster{{Name: "member1"}, {Name: "member3"}}
	})
	for range 20 {
		if err := b.reconcile(t); err != nil {
			t.Fatalf("a refused write ends the reconcile: %v", err)
		}
	}
	if attempted != 1 {
		t.Errorf("%d attempts although no time has passed", attempted)
	}
	if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonWriteFailed || !strings.Contains(row.Message, "not welcome") {
		t.Errorf("the row says %s", described(row))
	}
	if work := b.workOn(t, "member2"); work.DeletionTimestamp == nil {
		t.Error("the removal from member2 waits for member1")
	}
	if work := b.workOn(t, "member3"); work == nil {
		t.Error("member3 waits for member1")
	}
	for range 100 {
		passive.SetTime(passive.Now().Add(time.Second))
		_ = b.reconcile(t)
	}
	if attempted < 5 || attempted > 10 {
		t.Errorf("%d attempts in 100 s", attempted)
	}
}

// TestRefusedWritesOfOneClusterBackOffSeparately: if several writes for one cluster
// are refused, each of them is retried less and less often.
func TestRefusedWritesOfOneClusterBackOffSeparately(t *testing.T) {
	other := webDeployment()
	other.Name, other.UID = "shop", types.UID("other")
	b := newBench(t, append(aShop(), other)...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	passive := clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour)) // everything has settled
	b.Clock = passive
	attempted := map[string]int{}
	refuseOn := func(verbs ...string) {
		b.refuse = func(write string) error {
			verb, what, _ := strings.Cut(write, " ")
			if strings.Contains(what, "Work karmada-es-member1") && slices.Contains(verbs, verb) {
				attempted[verb]++
				return apierrors.NewForbidden(workv1alpha1.Resource("works"), "x", errors.New("not welcome"))
			}
			return nil
		}
	}
	refuseOn("delete")
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.Resource.Name = "shop" })
	for range 3 {
		_ = b.reconcile(t)
	}
	refuseOn("delete", "update", "patch")
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.PreserveResourcesOnDeletion = ptr.To(true) })
	clear(attempted)
	for range 400 {
		passive.SetTime(passive.Now().Add(setbackDelay))
		_ = b.reconcile(t)
	}
	if total := attempted["update"] + attempted["delete"] + attempted["patch"]; attempted["update"] < 5 || total > 25 {
		t.Errorf("attempts in 100 s: %v", attempted)
	}
	b.refuse = nil
	b.settle(t)
	if left := b.memories.of(web).refused(); len(left) > 0 {
		t.Errorf("setbacks that are still remembered: %v", left)
	}
}

// TestWorkIsRemovedOnlyAfterItsReplacement: the replacement of a Work is written
// before the Work is removed.
func TestWorkIsRemovedOnlyAfterItsReplacement(t *testing.T) {
	other := webDeployment()
	other.Name, other.UID = "shop", types.UID("other")
	b := newBench(t, append(aShop(), other)...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	b.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour))
	b.refuse = func(write string) error {
		if strings.HasPrefix(write, "create") && strings.Contains(write, "karmada-es-member1") {
			return apierrors.NewForbidden(workv1alpha1.Resource("works"), "x", errors.New("not welcome"))
		}
		return nil
	}
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.Resource.Name = "shop" })
	for range 5 {
		_ = b.reconcile(t)
	}
	going := map[string]bool{}
	for _, work := range b.works(t) {
		if strings.HasPrefix(work.Name, "web-") {
			going[work.Namespace] = work.DeletionTimestamp != nil
		}
	}
	if going["karmada-es-member1"] || !going["karmada-es-member2"] {
		t.Errorf("clusters from which the Work is withdrawn: %v, want only member2", going)
	}
}

// TestRefusedRemovalIsRetriedDespiteMistake: a mistake in the spec is not retried.
// A removal that the API server refuses at the same time is.
func TestRefusedRemovalIsRetriedDespiteMistake(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) {
		spec.Clusters = spec.Clusters[:1]
		spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "Event", Name: "web"}
	})
	b.refuse = func(write string) error {
		if strings.HasPrefix(write, "delete Work ") {
			return apierrors.NewForbidden(workv1alpha1.Resource("works"), "web", errors.New("refused by a policy"))
		}
		return nil
	}
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	stalled := meta.FindStatusCondition(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionStalled)
	if stalled == nil || stalled.Reason != propagationv1alpha1.ReasonResourceNotPropagatable {
		t.Fatalf("Stalled is %+v: the test does not make the mistake that it should", stalled)
	}
	if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > time.Second {
		t.Errorf("after a removal was refused: %+v, %v; want a requeue within a second", result, err)
	}
}
