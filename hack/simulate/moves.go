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
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// names has one of two objects name a resource, on all clusters.
func (u *users) names(ctx context.Context, reference propagationv1alpha1.ResourceReference) (string, error) {
	return u.changeNamed(ctx, oneOf(u.w.choices, propagationNames[:2]), func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.Resource, spec.Suspension = reference, propagationv1alpha1.Suspension{}
		for _, name := range memberNames {
			if !slices.ContainsFunc(spec.Clusters, func(target propagationv1alpha1.TargetCluster) bool { return target.Name == name }) {
				spec.Clusters = append(spec.Clusters, propagationv1alpha1.TargetCluster{Name: name})
			}
		}
		return "resource is " + reference.APIVersion + " " + reference.Kind + " " + reference.Name + ", on all clusters"
	})
}

func (u *users) nameWidget(ctx context.Context) (string, error) { return u.names(ctx, resources[3]) }

func (u *users) nameDeployment(ctx context.Context) (string, error) {
	return u.names(ctx, resources[1])
}

// nameTwin has an object name one of two kinds with the same name.
func (u *users) nameTwin(ctx context.Context) (string, error) {
	return u.names(ctx, oneOf(u.w.choices, twins()))
}

// twins are resources whose Works have the same name.
func twins() []propagationv1alpha1.ResourceReference { return resources[3:5] }

func (u *users) changeTwin(ctx context.Context) (string, error) {
	key := keyNamed(oneOf(u.w.choices, twins()), namespace)
	return fmt.Sprintf("changes %s", key), u.changeAt(ctx, key)
}

// renewable are resources that may be immutable. A Widget may hold data.
func renewable() []propagationv1alpha1.ResourceReference {
	return []propagationv1alpha1.ResourceReference{resources[0], resources[2], resources[3]}
}

func (u *users) nameRenewed(ctx context.Context) (string, error) {
	return u.names(ctx, oneOf(u.w.choices, renewable()))
}

// renew deletes a resource, and creates an immutable one with the same name.
func (u *users) renew(ctx context.Context) (string, error) {
	return u.renewAt(ctx, oneOf(u.w.choices, renewable()))
}

func (u *users) renewAt(ctx context.Context, reference propagationv1alpha1.ResourceReference) (string, error) {
	object := named(reference, namespace)
	what := fmt.Sprintf("creates %s %s anew", object.GetKind(), object.GetName())
	if err := u.w.plane.Delete(ctx, object); err != nil && !isRefusal(err) {
		return what, err //nolint:wrapcheck // act wraps it
	}
	object = named(reference, namespace)
	object.Object["immutable"] = true
	if err := unstructured.SetNestedField(object.Object, fmt.Sprint(u.count), "data", "number"); err != nil {
		return what, err //nolint:wrapcheck // a bug of the simulation
	}
	if err := u.filled(object); err != nil {
		return what, err
	}
	return fmt.Sprintf("%s, immutable, with number %d", what, u.count), u.w.plane.Create(ctx, object) //nolint:wrapcheck // act wraps it
}

// isFrozen reports whether the content of an object cannot be changed.
func isFrozen(object *unstructured.Unstructured) bool {
	frozen, _, _ := unstructured.NestedBool(object.Object, "immutable")
	return frozen
}

// holdsData reports whether an object of a kind must not be deleted to replace it.
func holdsData(key karmada.Key) bool { return key.Kind == "Widget" || key.Kind == team.Kind }

// yieldToRenewal creates a resource anew. When the controller is about to have the object
// on a member deleted, somebody there does so, and the member accepts the new one.
func (u *users) yieldToRenewal(ctx context.Context) (string, error) {
	what, err := u.renewAt(ctx, renewable()[u.w.choices.below(2)])
	if err != nil {
		return what, err
	}
	call, err := u.w.reach(ctx, 30*time.Second, true, deletes("", ""))
	if call == nil {
		return what, err
	}
	held := u.w.truth.works[nameOfCall(call)]
	if held == nil {
		return what, nil
	}
	if err := u.w.karmada.Member(held.where.member).Delete(held.where.key); err != nil && !isRefusal(err) {
		return what, err //nolint:wrapcheck // act wraps it
	}
	return what + ", and somebody deletes the old one on " + held.where.member, u.w.dawdle(ctx, 25, contains(held.where.member))
}

// rollOut changes the Deployment, and mostly how many replicas a cluster gets.
func (u *users) rollOut(ctx context.Context) (string, error) {
	if err := u.changeAt(ctx, keyNamed(resources[1], namespace)); err != nil {
		return "changes the Deployment", err
	}
	what := fmt.Sprintf("changes the Deployment to number %d", u.count)
	if u.w.choices.oneIn(3) {
		return what, nil
	}
	if err := u.w.undisturbed(ctx, 300*time.Millisecond, u.w.choices.oneIn(2), never); err != nil {
		return what, err
	}
	also, err := u.scale(ctx)
	return what + "; " + also, err
}

// scale changes how many replicas of the Deployment a cluster gets.
func (u *users) scale(ctx context.Context) (string, error) {
	for _, title := range sortedNames(u.w.truth.desired.objects) {
		object := u.w.truth.desired.objects[title]
		if object.GetSpec().Resource != resources[1] {
			continue
		}
		return u.changeNamed(ctx, object.GetName(), func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
			target := u.aTarget(spec)
			if target == nil {
				return "nothing"
			}
			target.Replicas = ptr.To(1 + (ptr.Deref(target.Replicas, 1)+int32(u.w.choices.below(2)))%4) //nolint:gosec // it is small
			return fmt.Sprintf("replicas of %s are %d", target.Name, *target.Replicas)
		})
	}
	return u.nameDeployment(ctx)
}

// scaleAtOnce does so, and Karmada and the member follow at once.
func (u *users) scaleAtOnce(ctx context.Context) (string, error) {
	what, err := u.scale(ctx)
	if err != nil {
		return what, err
	}
	return what, u.w.undisturbed(ctx, time.Second, true, never)
}

// share has two objects name the Deployment, each on clusters of its own, with what it
// needs.
func (u *users) share(ctx context.Context) (string, error) {
	first := u.w.choices.below(len(memberNames))
	for i, name := range propagationNames[:2] {
		clusters := []string{memberNames[first]}
		if i == 1 {
			clusters = slices.DeleteFunc(slices.Clone(memberNames), func(name string) bool { return name == memberNames[first] })
		}
		what, err := u.changeNamed(ctx, name, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
			spec.Resource, spec.Clusters, spec.PropagateDeps = resources[1], listOfClusters(clusters), ptr.To(true)
			spec.Suspension = propagationv1alpha1.Suspension{}
			return ""
		})
		if err != nil && !isRefusal(err) {
			return what, err
		}
	}
	return "has two objects name the Deployment with its dependencies, one of them on " + memberNames[first], nil
}

// correct undoes all mistakes in an object, mostly in one that has some.
func (u *users) correct(ctx context.Context) (string, error) {
	name := oneOf(u.w.choices, propagationNames)
	for _, title := range sortedNames(u.w.truth.desired.objects) {
		object := u.w.truth.desired.objects[title]
		if u.w.wrongAsAWhole(object, u.w.truth.desired.latest(keyOfResource(object))) != "" && !u.w.choices.oneIn(4) {
			name = object.GetName()
		}
	}
	return u.changeNamed(ctx, name, func(object cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		if keyOfResource(object).Name == "missing" || !isPropagated(keyOfResource(object)) || (object.GetNamespace() == "") != isClusterWide(keyOfResource(object)) {
			spec.Resource = u.aReference(object)
		}
		if selectsNothing(object) {
			spec.ClusterSelector = nil
		}
		spec.Clusters = listOfClusters(u.some())
		return "all mistakes are corrected"
	})
}
