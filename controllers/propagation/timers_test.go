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
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// A mistake in the spec is not retried. A removal that the API server refuses at
// the same time is.
func TestRefusedRemovalIsRetriedBesideAMistake(t *testing.T) {
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
		t.Errorf("after a removal was refused: %+v, %v; want to look again within a second", result, err)
	}
}
