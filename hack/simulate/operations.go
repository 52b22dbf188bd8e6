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
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

func (u *users) suspend(ctx context.Context) (string, error) {
	return u.change(ctx, func(object *propagationv1alpha1.DirectPropagation) string {
		if isSuspended(object) {
			object.Spec.Suspension = propagationv1alpha1.Suspension{}
			return "not suspended"
		}
		object.Spec.Suspension.Dispatching = ptr.To(true)
		return "suspended"
	})
}

func (u *users) preserve(ctx context.Context) (string, error) {
	return u.change(ctx, func(object *propagationv1alpha1.DirectPropagation) string {
		object.Spec.PreserveResourcesOnDeletion = ptr.To(!ptr.Deref(object.Spec.PreserveResourcesOnDeletion, false))
		return fmt.Sprintf("preserveResourcesOnDeletion is %t", *object.Spec.PreserveResourcesOnDeletion)
	})
}

func (u *users) customize(ctx context.Context) (string, error) {
	return u.change(ctx, func(object *propagationv1alpha1.DirectPropagation) string {
		target := &object.Spec.Clusters[u.w.choices.below(len(object.Spec.Clusters))]
		target.Replicas = nil
		if replicas := u.w.choices.below(4); replicas > 0 {
			target.Replicas = ptr.To(int32(replicas)) //nolint:gosec // it is small
		}
		return fmt.Sprintf("replicas of %s are %d", target.Name, ptr.Deref(target.Replicas, -1))
	})
}

func (u *users) deletePropagation(ctx context.Context) (string, error) {
	object := &propagationv1alpha1.DirectPropagation{}
	object.Namespace, object.Name = namespace, oneOf(u.w.choices, propagationNames)
	return "deletes DirectPropagation " + object.Name, u.w.plane.Delete(ctx, object) //nolint:wrapcheck // act wraps it
}

// stripFinalizer removes all finalizers, as impatient people do.
func (u *users) stripFinalizer(ctx context.Context) (string, error) {
	return u.change(ctx, func(object *propagationv1alpha1.DirectPropagation) string {
		object.Finalizers = nil
		return "no finalizers"
	})
}

// aWork returns one of the controller's Works; nil if there is none.
func (u *users) aWork(ctx context.Context) (*workv1alpha1.Work, error) {
	list := &workv1alpha1.WorkList{}
	if err := u.w.plane.List(ctx, list, client.HasLabels{propagationv1alpha1.OwnerUIDLabel}); err != nil || len(list.Items) == 0 {
		return nil, err //nolint:wrapcheck // act wraps it
	}
	return &list.Items[u.w.choices.below(len(list.Items))], nil
}

func (u *users) editWork(ctx context.Context) (string, error) {
	work, err := u.aWork(ctx)
	if work == nil {
		return "", err
	}
	what := ""
	switch u.w.choices.below(4) {
	case 0:
		work.Spec.SuspendDispatching, what = ptr.To(true), "suspends"
	case 1:
		delete(work.Labels, propagationv1alpha1.OwnerUIDLabel)
		what = "removes the owner from"
	case 2:
		manifest := &unstructured.Unstructured{}
		if err := manifest.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
			return "", err //nolint:wrapcheck // act wraps it
		}
		if err := u.filled(manifest); err != nil {
			return "", err //nolint:wrapcheck // act wraps it
		}
		if work.Spec.Workload.Manifests[0].Raw, err = manifest.MarshalJSON(); err != nil {
			return "", err //nolint:wrapcheck // act wraps it
		}
		what = fmt.Sprintf("writes number %d into", u.count)
	case 3:
		work.Spec.PreserveResourcesOnDeletion, what = ptr.To(true), "preserves what is in"
	}
	return fmt.Sprintf("%s Work %s/%s", what, work.Namespace, work.Name), u.w.plane.Update(ctx, work) //nolint:wrapcheck // act wraps it
}

func (u *users) deleteWork(ctx context.Context) (string, error) {
	work, err := u.aWork(ctx)
	if work == nil {
		return "", err
	}
	return fmt.Sprintf("deletes Work %s/%s", work.Namespace, work.Name), u.w.plane.Delete(ctx, work) //nolint:wrapcheck // act wraps it
}

// aCopy returns an object on a member.
func (u *users) aCopy() (*karmada.Member, karmada.Key, bool) {
	member := u.w.karmada.Member(oneOf(u.w.choices, memberNames))
	keys := []karmada.Key{}
	for _, key := range member.Keys() {
		if key.Namespace == namespace {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, karmada.Key{}, false
	}
	return member, oneOf(u.w.choices, keys), true
}

func (u *users) editOnMember(context.Context) (string, error) {
	member, key, found := u.aCopy()
	if !found {
		return "", nil
	}
	return fmt.Sprintf("edits %s on %s", key, member.Name), member.Edit(key, func(object *unstructured.Unstructured) {
		_ = u.filled(object) // an object of another kind stays as it is
	})
}

func (u *users) deleteOnMember(context.Context) (string, error) {
	member, key, found := u.aCopy()
	if !found {
		return "", nil
	}
	return fmt.Sprintf("deletes %s on %s", key, member.Name), member.Delete(key)
}
