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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// TestSlowWritesLetOthersIn: an object whose writes take long gives its worker back while
// objects of other namespaces wait, makes progress each time, and reports at the end.
func TestSlowWritesLetOthersIn(t *testing.T) {
	b := newBench(t, aShop()...)
	ticking := clocktesting.NewFakePassiveClock(time.Now())
	b.Clock = ticking
	b.refuse = func(write string) error {
		if strings.Contains(write, "Work ") {
			ticking.SetTime(ticking.Now().Add(turnTime + time.Second))
		}
		return nil
	}
	others := true
	b.othersWait = func(namespace string) bool { return others && namespace == web.Namespace }
	expect := func(what string, want ...string) {
		t.Helper()
		if err := b.reconcile(t); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.writes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		b.writes = nil
	}
	const work1, work2 = "Work karmada-es-member1/web-56d6c779bb", "Work karmada-es-member2/web-56d6c779bb"
	const report = "update status of DirectPropagation shop/web"
	expect("first turn", "patch DirectPropagation shop/web", "create "+work1)
	expect("second turn", "create "+work2, report)
	b.confirm(t)
	expect("on confirmation", report)

	b.changeImage(t, "nginx:2")
	expect("a turn that others end", "patch status of "+work1, "update "+work1)
	others = false
	expect("a turn that nobody ends", "patch status of "+work2, "update "+work2, report)
	b.changeImage(t, "nginx:3")
	expect("both in one turn", "update "+work1, "update "+work2)

	others = true
	object := b.propagation(t)
	if err := b.server.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	expect("first removal", "delete "+work1)
	expect("second removal", "delete "+work2, report)
	if finalizers := b.propagation(t).Finalizers; len(finalizers) != 1 || finalizers[0] != propagationv1alpha1.CleanupFinalizer {
		t.Errorf("finalizers are %v before the Works are gone", finalizers)
	}
}

// TestInterruptedObjectKeepsItsPriority: with a lower one, it would not get another turn
// while any namespace has changes.
func TestInterruptedObjectKeepsItsPriority(t *testing.T) {
	b := newBench(t, aShop()...)
	ticking := clocktesting.NewFakePassiveClock(time.Now())
	b.Clock, b.othersWait = ticking, func(string) bool { return true }
	b.refuse = func(string) error {
		ticking.SetTime(ticking.Now().Add(turnTime + time.Second))
		return nil
	}
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	if err != nil || result.Priority != nil || result.RequeueAfter != soon {
		t.Errorf("the object goes back with %+v, %v", result, err)
	}
}

func TestOthersWait(t *testing.T) {
	queue := newTestQueue(t)
	queue.adds("large", 3, 0)
	if queue.othersWait("large") {
		t.Error("a namespace waits for itself")
	}
	queue.AddAfter(requestOf("small", 0), time.Hour)
	if queue.othersWait("large") {
		t.Error("somebody waits whose time has not come")
	}
	queue.adds("small", 1, priorityReport)
	if !queue.othersWait("large") || !queue.othersWait("third") {
		t.Error("nobody waits, although requests do")
	}
	for range 4 {
		request, _ := queue.Get()
		queue.Done(request)
	}
	if queue.othersWait("large") {
		t.Error("somebody waits, although nothing is left")
	}
}
