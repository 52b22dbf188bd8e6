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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

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

// foreignWork is a Work that somebody made without any controller.
func (u *users) foreignWork() (*workv1alpha1.Work, error) {
	resource := named(oneOf(u.w.choices, resources), namespace)
	if err := u.filled(resource); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(resource)
	if err != nil {
		return nil, fmt.Errorf("marshaling a manifest: %w", err)
	}
	key := render.WorkKey(oneOf(u.w.choices, memberNames), resource.GetKind(), namespace, resource.GetName())
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Finalizers: []string{util.ExecutionControllerFinalizer}}}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
	return work, nil
}

func (u *users) createForeignWork(ctx context.Context) (string, error) {
	work, err := u.foreignWork()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("creates Work %s by hand", keyOf(work)), u.w.plane.Create(ctx, work) //nolint:wrapcheck // act wraps it
}

// deleteForeignWork deletes a Work that has no marks at all.
func (u *users) deleteForeignWork(ctx context.Context) (string, error) {
	list := &workv1alpha1.WorkList{}
	if err := u.w.plane.List(ctx, list); err != nil {
		return "", err //nolint:wrapcheck // act wraps it
	}
	foreign := []*workv1alpha1.Work{}
	for i := range list.Items {
		if work := &list.Items[i]; !isOurs(work) && !isBound(work) && metav1.GetControllerOf(work) == nil {
			foreign = append(foreign, work)
		}
	}
	if len(foreign) == 0 {
		return "", nil
	}
	work := oneOf(u.w.choices, foreign)
	return fmt.Sprintf("deletes Work %s by hand", keyOf(work)), u.w.plane.Delete(ctx, work) //nolint:wrapcheck // act wraps it
}

// policyID marks what belongs to the PropagationPolicy that comes and goes.
const policyID = "11111111-0000-4000-8000-000000000001"

// bind has a PropagationPolicy claim a resource, as Karmada's detector does.
func (u *users) bind(ctx context.Context) (string, error) {
	return u.bindTo(ctx, named(oneOf(u.w.choices, resources[:3]), namespace), u.some()...)
}

// bindTo has a PropagationPolicy claim a resource for clusters.
func (u *users) bindTo(ctx context.Context, object *unstructured.Unstructured, clusters ...string) (string, error) {
	what := fmt.Sprintf("has a PropagationPolicy claim %s %s", object.GetKind(), object.GetName())
	err := u.changed(ctx, object, func() error {
		util.MergeLabel(object, policyv1alpha1.PropagationPolicyPermanentIDLabel, policyID)
		util.MergeAnnotation(object, policyv1alpha1.PropagationPolicyNamespaceAnnotation, namespace)
		util.MergeAnnotation(object, policyv1alpha1.PropagationPolicyNameAnnotation, "policy")
		return nil
	})
	if err != nil {
		return what, err
	}
	u.count++
	id := fmt.Sprintf("22222222-0000-4000-8000-%012d", u.count)                     // each binding has its own
	return what, u.w.plane.Create(ctx, karmada.NewBinding(object, id, clusters...)) //nolint:wrapcheck // act wraps it
}

// unbind has the policy let go, with its binding or before it.
func (u *users) unbind(ctx context.Context) (string, error) {
	list := &workv1alpha2.ResourceBindingList{}
	if err := u.w.plane.List(ctx, list); err != nil || len(list.Items) == 0 {
		return "", err //nolint:wrapcheck // act wraps it
	}
	binding := &list.Items[u.w.choices.below(len(list.Items))]
	reference := binding.Spec.Resource
	object := named(propagationv1alpha1.ResourceReference{APIVersion: reference.APIVersion, Kind: reference.Kind, Name: reference.Name}, namespace)
	err := u.changed(ctx, object, func() error {
		util.RemoveLabels(object, policyv1alpha1.PropagationPolicyPermanentIDLabel)
		util.RemoveAnnotations(object, policyv1alpha1.PropagationPolicyNamespaceAnnotation, policyv1alpha1.PropagationPolicyNameAnnotation)
		return nil
	})
	what := fmt.Sprintf("has the PropagationPolicy let %s %s go", reference.Kind, reference.Name)
	if err != nil && !isRefusal(err) {
		return what, err
	}
	return what, u.w.plane.Delete(ctx, binding) //nolint:wrapcheck // act wraps it
}

// changePolicy creates, changes or deletes an OverridePolicy.
func (u *users) changePolicy(ctx context.Context) (string, error) {
	policy := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "site"}}
	found := u.w.plane.Get(ctx, keyOf(policy), policy)
	if found == nil && u.w.choices.oneIn(3) {
		return "deletes the OverridePolicy", u.w.plane.Delete(ctx, policy) //nolint:wrapcheck // act wraps it
	}
	u.count++
	names := u.some()
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
	policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{
		TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: names},
		Overriders: policyv1alpha1.Overriders{AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{
			Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"site": fmt.Sprint(u.count)},
		}}},
	}}
	what := fmt.Sprintf("has the OverridePolicy say %d to %v", u.count, names)
	if client.IgnoreNotFound(found) != nil {
		return what, found //nolint:wrapcheck // act wraps it
	}
	if found != nil {
		return what, u.w.plane.Create(ctx, policy) //nolint:wrapcheck // act wraps it
	}
	return what, u.w.plane.Update(ctx, policy) //nolint:wrapcheck // act wraps it
}

// refuseWrites has a webhook refuse what the controller writes for a cluster, or accept it
// again.
func (u *users) refuseWrites(context.Context) (string, error) {
	name := oneOf(u.w.choices, memberNames)
	if u.refused[name] {
		delete(u.refused, name)
		return "has the webhook accept Works for " + name + " again", nil
	}
	u.refused[name] = true
	return "has a webhook refuse Works for " + name, nil
}
