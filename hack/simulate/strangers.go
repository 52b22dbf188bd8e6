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

package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// guard is a finalizer of somebody else on a Work. It goes when Karmada's has gone.
const guard = "example.org/guard"

// isInSpace reports whether a Work belongs to a cluster. Tenants may write others.
func isInSpace(work *workv1alpha1.Work) bool {
	return strings.HasPrefix(work.Namespace, names.ExecutionSpacePrefix)
}

// createStrayWork creates a Work that belongs to no cluster, with the marks of an object.
func (u *users) createStrayWork(ctx context.Context) (string, error) {
	object := anObject(oneOf(u.w.choices, propagationNames))
	if err := u.w.plane.Get(ctx, keyOf(object), object); err != nil {
		return "creates a stray Work", err //nolint:wrapcheck // act wraps it
	}
	u.count++
	resource := named(resources[0], namespace)
	raw, err := json.Marshal(resource)
	if err != nil {
		return "", fmt.Errorf("marshaling a manifest: %w", err)
	}
	kind, _, _ := strings.Cut(titleOf(object), " ")
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprintf("stray-%d", u.count),
		Labels: map[string]string{propagationv1alpha1.OwnerUIDLabel: string(object.GetUID())},
		Annotations: map[string]string{
			propagationv1alpha1.OwnerKindAnnotation: kind, propagationv1alpha1.OwnerNameAnnotation: object.GetName(),
			propagationv1alpha1.OwnerNamespaceAnnotation: object.GetNamespace(),
		},
	}}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
	return fmt.Sprintf("creates Work %s with the marks of %s", keyOf(work), titleOf(object)), u.w.plane.Create(ctx, work) //nolint:wrapcheck // act wraps it
}

// stripMarks removes the annotations that name the owner of a Work.
func (u *users) stripMarks(ctx context.Context) (string, error) {
	work, err := u.aWork(ctx)
	if work == nil {
		return "", err
	}
	util.RemoveAnnotations(work, propagationv1alpha1.OwnerKindAnnotation, propagationv1alpha1.OwnerNamespaceAnnotation, propagationv1alpha1.OwnerNameAnnotation)
	return fmt.Sprintf("removes the name of the owner from Work %s", keyOf(work)), u.w.plane.Update(ctx, work) //nolint:wrapcheck // act wraps it
}

// guardWork adds a finalizer to a Work.
func (u *users) guardWork(ctx context.Context) (string, error) {
	work, err := u.aWork(ctx)
	if work == nil || work.DeletionTimestamp != nil || slices.Contains(work.Finalizers, guard) {
		return "", err
	}
	return fmt.Sprintf("adds a finalizer to Work %s", keyOf(work)), u.guarded(ctx, work)
}

func (u *users) guarded(ctx context.Context, work *workv1alpha1.Work) error {
	work.Finalizers = append(work.Finalizers, guard)
	return u.w.plane.Update(ctx, work) //nolint:wrapcheck // act wraps it
}

// unguard removes the finalizers of somebody else from Works that Karmada has let go.
func (w *World) unguard(ctx context.Context) error {
	for _, held := range sortedHoldings(w.truth.works) {
		work := held.work
		if work.DeletionTimestamp == nil || !slices.Contains(work.Finalizers, guard) || slices.Contains(work.Finalizers, util.ExecutionControllerFinalizer) {
			continue
		}
		work = work.DeepCopy()
		work.Finalizers = slices.DeleteFunc(work.Finalizers, func(name string) bool { return name == guard })
		if err := w.plane.Update(ctx, work); err != nil && !isRefusal(err) {
			return fmt.Errorf("removing a finalizer: %w", err)
		}
	}
	return nil
}

// checkGuard checks that the controller removes no finalizer of somebody else.
func (t *truth) checkGuard(write apiserver.Write) {
	if !isController(write.Client) || write.Before == nil || !slices.Contains(write.Before.GetFinalizers(), guard) {
		return
	}
	if write.After == nil || !slices.Contains(write.After.GetFinalizers(), guard) {
		t.violated("a foreign finalizer is removed", "the controller has removed the finalizer %s from Work %s", guard, write.Before.GetName())
	}
}

// hang brings about that Karmada cannot let a Work go: its object should stay, and is no
// longer there.
func (u *users) hang(ctx context.Context) (string, error) {
	object, member, work, err := u.aPropagation(ctx)
	if work == nil {
		return "", err
	}
	what := fmt.Sprintf("suspends %s, deletes what is on %s, and withdraws it so that it stays", titleOf(object), member.Name)
	if _, err := u.changeNamed(ctx, object.GetName(), func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.Suspension.Dispatching, spec.PreserveResourcesOnDeletion = ptr.To(true), ptr.To(true)
		return ""
	}); err != nil {
		return what, err
	}
	if err := u.w.undisturbed(ctx, 2*time.Second, false, never); err != nil {
		return what, err
	}
	if err := member.Delete(keyOfResource(object)); err != nil && !isRefusal(err) {
		return what, err //nolint:wrapcheck // act wraps it
	}
	if err := u.w.plane.Get(ctx, keyOf(work), work); err == nil && work.DeletionTimestamp == nil && u.w.choices.oneIn(2) {
		if err := u.guarded(ctx, work); err != nil {
			return what, err
		}
	}
	return what, u.w.plane.Delete(ctx, object) //nolint:wrapcheck // act wraps it
}

// aPropagation chooses an object that has a Work on a cluster, with that cluster; the Work
// is nil if there is none.
func (u *users) aPropagation(ctx context.Context) (cached.Object, *karmada.Member, *workv1alpha1.Work, error) {
	found := []*holding{}
	for _, held := range sortedHoldings(u.w.truth.works) {
		object := u.w.truth.desired.objects[ownerOf(held.work)]
		if isOurs(held.work) && held.work.DeletionTimestamp == nil && object != nil && object.GetDeletionTimestamp() == nil && keyOfResource(object) == held.where.key {
			found = append(found, held)
		}
	}
	if len(found) == 0 {
		return nil, nil, nil, nil
	}
	chosen := oneOf(u.w.choices, found)
	object := anObject(u.w.truth.desired.objects[ownerOf(chosen.work)].GetName())
	err := u.w.plane.Get(ctx, keyOf(object), object)
	return object, u.w.karmada.Member(chosen.where.member), chosen.work.DeepCopy(), err //nolint:wrapcheck // act wraps it
}
