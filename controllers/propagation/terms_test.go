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

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// barriers are what keeps new content from the clusters, while they keep what they have.
var barriers = map[string]func(t *testing.T, b *bench){
	"the resource is missing": func(t *testing.T, b *bench) {
		t.Helper()
		if err := b.server.Delete(t.Context(), webDeployment()); err != nil {
			t.Fatal(err)
		}
		b.memories.of(web).forgetResource()
	},
	"the account may not send a change": func(t *testing.T, b *bench) {
		t.Helper()
		b.may = func(string) (bool, error) { return false, nil }
		b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.ServiceAccountName = "nobody" })
		b.changeImage(t, "nginx:2")
	},
	"an override fails": func(t *testing.T, b *bench) {
		t.Helper()
		b.change(t, func(spec *propagationv1alpha1.PropagationSpec) {
			spec.Clusters[0].Overriders = patch(policyv1alpha1.OverriderOpReplace, "/spec/nothing/here", `1`)
		})
	},
}

// TestTermsNeedNoContent: users suspend a cluster, preserve its resources, and resume, while
// it can get no new content. Each takes one write, which leaves the content as it is.
func TestTermsNeedNoContent(t *testing.T) {
	for name, raise := range barriers {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, aShop()...)
			b.settle(t)
			b.confirm(t)
			b.settle(t)
			raise(t, b)
			b.settle(t)
			manifest, before := b.manifestOn(t, "member1"), b.workOn(t, "member1")
			for _, step := range []struct{ suspended, preserved bool }{{true, false}, {true, true}, {false, true}, {false, false}} {
				b.change(t, func(spec *propagationv1alpha1.PropagationSpec) {
					spec.Suspension.DispatchingOnClusters.ClusterNames = map[bool][]string{true: {"member1"}}[step.suspended]
					spec.PreserveResourcesOnDeletion = ptr.To(step.preserved)
				})
				b.settle(t)
				work := b.workOn(t, "member1")
				if suspended := ptr.Deref(work.Spec.SuspendDispatching, false); suspended != step.suspended {
					t.Errorf("%+v: suspended is %t", step, suspended)
				}
				if preserved := ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false); preserved != step.preserved {
					t.Errorf("%+v: preserved is %t", step, preserved)
				}
				if diff := cmp.Diff(manifest, b.manifestOn(t, "member1")); diff != "" || work.Annotations[propagationv1alpha1.RevisionAnnotation] != before.Annotations[propagationv1alpha1.RevisionAnnotation] {
					t.Errorf("%+v: the content has changed:\n%s", step, diff)
				}
				if diff := cmp.Diff(before.Status, work.Status); diff != "" {
					t.Errorf("%+v: the confirmation has changed:\n%s", step, diff)
				}
				written := slices.DeleteFunc(b.writes, func(write string) bool { return !strings.HasSuffix(write, workOnFirst) })
				if diff := cmp.Diff([]string{"patch " + workOnFirst}, written); diff != "" {
					t.Errorf("%+v: written (-want +got):\n%s", step, diff)
				}
			}
		})
	}
}

// TestSuspendedRowIsTrue: the row says that changes are held back only once they are.
func TestSuspendedRowIsTrue(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	barriers["the resource is missing"](t, b)
	b.refuse = func(write string) error {
		if write == "patch "+workOnFirst {
			return apierrors.NewForbidden(workv1alpha1.Resource("works"), "x", errors.New("not welcome"))
		}
		return nil
	}
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.Suspension.Dispatching = ptr.To(true) })
	for range 2 {
		b.memories.of(web).statusWritten = time.Time{}
		_ = b.reconcile(t) // whether a refused write is an error does not matter here
	}
	if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonWriteFailed || row.Applied != metav1.ConditionUnknown {
		t.Errorf("with the write refused: %s", described(row))
	}
	if row := b.rowOf(t, "member2"); row.Reason != propagationv1alpha1.ReasonSuspended {
		t.Errorf("with the write made: %s", described(row))
	}
	b.refuse = nil
	b.settle(t)
	if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonSuspended || !ptr.Deref(b.workOn(t, "member1").Spec.SuspendDispatching, false) {
		t.Errorf("in the end: %s", described(row))
	}
}
