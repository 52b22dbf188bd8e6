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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// users are the people who use the control plane and the members. What they do, they do
// at once.
type users struct {
	w *World
	// count numbers what they change, so that no two changes are the same.
	count int
	// kept are the places where objects stay that nobody wants anymore.
	kept map[place]bool
}

func newUsers(w *World) *users { return &users{w: w, kept: map[place]bool{}} }

// operation is something that users do. It returns what that was; empty if there was
// nothing to do.
type operation func(*users, context.Context) (string, error)

// operations are all of them. The first disturb the least.
var operations = []operation{
	(*users).changeResource, (*users).createPropagation, (*users).createResource, (*users).changeClusters,
	(*users).changeResource, (*users).changeResource, (*users).changeResource, (*users).changeClusters, (*users).renameResource, (*users).suspend, (*users).preserve,
	(*users).customize, (*users).deletePropagation, (*users).deleteResource, (*users).stripFinalizer,
	(*users).editWork, (*users).deleteWork, (*users).editOnMember, (*users).deleteOnMember,
}

// act does something.
func (u *users) act(ctx context.Context) error {
	done, err := oneOf(u.w.choices, operations)(u, ctx)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) {
		u.w.tell("a user fails to do something: %v", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("a user: %w", err)
	}
	if done != "" {
		u.w.tell("a user %s", done)
	}
	return nil
}

const namespace = "shop"

// resources are what users propagate: API version, kind and name.
var resources = []propagationv1alpha1.ResourceReference{
	{APIVersion: "v1", Kind: "ConfigMap", Name: "settings"},
	{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
	{APIVersion: "v1", Kind: "ConfigMap", Name: "web"},
}

// propagationNames are the DirectPropagations.
var propagationNames = []string{"one", "two", "three"}

func keyOf(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

func named(reference propagationv1alpha1.ResourceReference) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(reference.APIVersion)
	object.SetKind(reference.Kind)
	object.SetNamespace(namespace)
	object.SetName(reference.Name)
	return object
}

// filled gives an object content that it never had before.
func (u *users) filled(object *unstructured.Unstructured) error {
	u.count++
	if object.GetKind() == "ConfigMap" {
		return unstructured.SetNestedField(object.Object, fmt.Sprint(u.count), "data", "number")
	}
	labels := map[string]any{"app": object.GetName()}
	if _, found, _ := unstructured.NestedMap(object.Object, "spec"); found {
		return unstructured.SetNestedSlice(object.Object, []any{container(u.count)}, "spec", "template", "spec", "containers")
	}
	return unstructured.SetNestedMap(object.Object, map[string]any{
		"replicas": int64(2), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{container(u.count)}}},
	}, "spec")
}

func container(number int) any {
	return map[string]any{"name": "app", "image": fmt.Sprintf("app:%d", number)}
}

// begin creates every resource, and DirectPropagations for some of them.
func (u *users) begin(ctx context.Context) error {
	for _, reference := range resources {
		object := named(reference)
		if err := u.filled(object); err != nil {
			return err
		}
		if err := u.w.plane.Create(ctx, object); err != nil {
			return fmt.Errorf("creating a resource: %w", err)
		}
	}
	for i, name := range propagationNames[:2] {
		object := &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		object.Spec.Resource = resources[i]
		for _, member := range memberNames {
			object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: member})
		}
		if err := u.w.plane.Create(ctx, object); err != nil {
			return fmt.Errorf("creating a DirectPropagation: %w", err)
		}
	}
	return nil
}

func (u *users) createResource(ctx context.Context) (string, error) {
	reference := oneOf(u.w.choices, resources)
	object := named(reference)
	if err := u.filled(object); err != nil {
		return "", err //nolint:wrapcheck // a bug of the simulation
	}
	return fmt.Sprintf("creates %s %s number %d", reference.Kind, reference.Name, u.count), u.w.plane.Create(ctx, object) //nolint:wrapcheck // act wraps it
}

func (u *users) changeResource(ctx context.Context) (string, error) {
	reference := oneOf(u.w.choices, resources)
	object := named(reference)
	if err := u.w.plane.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return "", err //nolint:wrapcheck // act wraps it
	}
	if err := u.filled(object); err != nil {
		return "", err //nolint:wrapcheck // a bug of the simulation
	}
	return fmt.Sprintf("changes %s %s to number %d", reference.Kind, reference.Name, u.count), u.w.plane.Update(ctx, object) //nolint:wrapcheck // act wraps it
}

func (u *users) deleteResource(ctx context.Context) (string, error) {
	reference := oneOf(u.w.choices, resources)
	return fmt.Sprintf("deletes %s %s", reference.Kind, reference.Name), u.w.plane.Delete(ctx, named(reference)) //nolint:wrapcheck // act wraps it
}

// some chooses at least one cluster.
func (u *users) some() []propagationv1alpha1.TargetCluster {
	first := u.w.choices.below(len(memberNames))
	clusters := []propagationv1alpha1.TargetCluster{{Name: memberNames[first]}}
	for i, name := range memberNames {
		if i != first && u.w.choices.oneIn(2) {
			clusters = append(clusters, propagationv1alpha1.TargetCluster{Name: name})
		}
	}
	return clusters
}

func (u *users) createPropagation(ctx context.Context) (string, error) {
	object := &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: oneOf(u.w.choices, propagationNames)}}
	object.Spec.Resource, object.Spec.Clusters = oneOf(u.w.choices, resources), u.some()
	return fmt.Sprintf("creates DirectPropagation %s of %s %s to %s", object.Name, object.Spec.Resource.Kind, object.Spec.Resource.Name,
		listed(object.Spec.Clusters)), u.w.plane.Create(ctx, object) //nolint:wrapcheck // act wraps it
}

func listed(clusters []propagationv1alpha1.TargetCluster) string {
	names := ""
	for _, cluster := range clusters {
		names += " " + cluster.Name
	}
	return names[1:]
}

// change changes a DirectPropagation.
func (u *users) change(ctx context.Context, how func(*propagationv1alpha1.DirectPropagation) string) (string, error) {
	object := &propagationv1alpha1.DirectPropagation{}
	key := client.ObjectKey{Namespace: namespace, Name: oneOf(u.w.choices, propagationNames)}
	if err := u.w.plane.Get(ctx, key, object); err != nil {
		return "", err //nolint:wrapcheck // act wraps it
	}
	what := how(object)
	return fmt.Sprintf("changes DirectPropagation %s: %s", key.Name, what), u.w.plane.Update(ctx, object) //nolint:wrapcheck // act wraps it
}

func (u *users) changeClusters(ctx context.Context) (string, error) {
	return u.change(ctx, func(object *propagationv1alpha1.DirectPropagation) string {
		object.Spec.Clusters = u.some()
		return "clusters are " + listed(object.Spec.Clusters)
	})
}

func (u *users) renameResource(ctx context.Context) (string, error) {
	return u.change(ctx, func(object *propagationv1alpha1.DirectPropagation) string {
		object.Spec.Resource = oneOf(u.w.choices, resources)
		return "resource is " + object.Spec.Resource.Kind + " " + object.Spec.Resource.Name
	})
}
