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
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
)

// TestWritesAreCounted: there are no more writes than necessary.
func TestWritesAreCounted(t *testing.T) {
	b := newBench(t, aShop()...)
	const work1, work2 = "Work karmada-es-member1/web-56d6c779bb", "Work karmada-es-member2/web-56d6c779bb"
	expect := func(what string, want ...string) {
		t.Helper()
		b.settle(t)
		if diff := cmp.Diff(want, b.writes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		b.writes = nil
	}
	expect("on create", "patch DirectPropagation shop/web", "create "+work1, "create "+work2, "update status of DirectPropagation shop/web")
	b.confirm(t)
	expect("on confirmation", "update status of DirectPropagation shop/web")
	if !meta.IsStatusConditionTrue(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady) {
		t.Errorf("not Ready: %+v", b.propagation(t).Status)
	}
	expect("when idle")

	b.changeImage(t, "nginx:2")
	expect("on update", "patch status of "+work1, "update "+work1, "patch status of "+work2, "update "+work2, "update status of DirectPropagation shop/web")
	b.confirm(t)
	expect("on confirmation of the update", "update status of DirectPropagation shop/web")

	b.memories.of(web).forgetResource()
	b.ledger = cached.NewLedger(clock.RealClock{})
	expect("after a restart")
}

// TestAnyWriteMayFail makes the n-th write in the life cycle of an object fail, for
// every n. In the end, everything is right, and nothing is left behind.
func TestAnyWriteMayFail(t *testing.T) {
	failures := map[string]error{
		"refused":  apierrors.NewForbidden(workv1alpha1.Resource("works"), "x", errors.New("quota")),
		"conflict": apierrors.NewConflict(workv1alpha1.Resource("works"), "x", errors.New("changed")),
		"timeout":  apierrors.NewTimeoutError("slow", 1),
	}
	for kind, failure := range failures {
		for n := range 14 {
			t.Run(fmt.Sprintf("%s, write %d", kind, n), func(t *testing.T) {
				b := newBench(t, aShop()...)
				count := 0
				b.refuse = func(string) error {
					if count++; count == n+1 {
						return failure
					}
					return nil
				}
				live(t, b)
			})
		}
	}
}

// TestRefusedUpdateKeepsTheConfirmedRevision: the status of a Work is reset, and
// the write that follows is refused. The row still says what the cluster runs, even
// after a restart, and the Work has the revision once the write succeeds.
func TestRefusedUpdateKeepsTheConfirmedRevision(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	before := b.rowOf(t, "member1").Revision
	b.refuse = func(write string) error {
		if write == "update Work karmada-es-member1/web-56d6c779bb" {
			return apierrors.NewForbidden(workv1alpha1.Resource("works"), "web-56d6c779bb", errors.New("refused by a policy"))
		}
		return nil
	}
	for _, image := range []string{"nginx:2", "nginx:3"} {
		b.changeImage(t, image)
		b.memories.of(web).forgetResource()
		b.ledger = cached.NewLedger(clock.RealClock{})
		for range 2 {
			b.memories.of(web).statusWritten = time.Time{}
			_ = b.reconcile(t) // whether a refused write is an error does not matter here
		}
		if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonWriteFailed || row.Revision != before {
			t.Errorf("row with %s: %s at %q, want %s at %q", image, row.Reason, row.Revision, propagationv1alpha1.ReasonWriteFailed, before)
		}
	}
	b.refuse = nil
	b.settle(t)
	if got := b.workOn(t, "member1").Annotations[propagationv1alpha1.ConfirmedRevisionAnnotation]; got != before {
		t.Errorf("revision on the Work: %q, want %q", got, before)
	}
	if got := b.rowOf(t, "member1").Revision; got != before {
		t.Errorf("revision of the row: %q, want %q", got, before)
	}
}
