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

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// widgetKind is a kind that comes and goes.
var widgetKind = karmada.Custom("factory.example.org", "v1", "Widget", "widgets")

// toyKind has the same name as widgetKind.
var toyKind = karmada.Custom("toys.example.org", "v1", widgetKind.Kind, "widgets")

// clusterRoleKind is a kind of members that is cluster-scoped.
var clusterRoleKind = karmada.Kind{GroupVersionKind: keyNamed(roles[0], "").GroupVersionKind, Plural: "clusterroles"}

// resources are what users propagate in the namespace.
var resources = []propagationv1alpha1.ResourceReference{
	{APIVersion: "v1", Kind: "ConfigMap", Name: "settings"},
	{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
	{APIVersion: "v1", Kind: "ConfigMap", Name: "web"},
	{APIVersion: "factory.example.org/v1", Kind: "Widget", Name: "gadget"},
	{APIVersion: "toys.example.org/v1", Kind: "Widget", Name: "gadget"},
}

// roles are what they propagate besides.
var roles = []propagationv1alpha1.ResourceReference{
	{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "reader"},
	{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "writer"},
}

func named(reference propagationv1alpha1.ResourceReference, namespace string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(reference.APIVersion)
	object.SetKind(reference.Kind)
	object.SetNamespace(namespace)
	object.SetName(reference.Name)
	return object
}

// aResource chooses one of all resources.
func (u *users) aResource() *unstructured.Unstructured {
	chosen := u.w.choices.below(len(resources) + len(roles))
	if chosen < len(resources) {
		return named(resources[chosen], namespace)
	}
	return named(roles[chosen-len(resources)], "")
}

// filled gives an object content that it never had before.
func (u *users) filled(object *unstructured.Unstructured) error {
	u.count++
	switch object.GetKind() {
	case team.Kind:
		util.MergeAnnotation(object, "number", fmt.Sprint(u.count))
		return nil
	case "ConfigMap":
		return unstructured.SetNestedField(object.Object, fmt.Sprint(u.count), "data", "number")
	case "Widget":
		if _, found := object.Object["data"]; found {
			return unstructured.SetNestedField(object.Object, fmt.Sprint(u.count), "data", "number")
		}
		return unstructured.SetNestedField(object.Object, int64(u.count), "spec", "number")
	case "ClusterRole":
		rule := map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "resourceNames": []any{fmt.Sprint(u.count)}, "verbs": []any{"get"}}
		return unstructured.SetNestedSlice(object.Object, []any{rule}, "rules")
	}
	labels := map[string]any{"app": object.GetName()}
	if _, found, _ := unstructured.NestedMap(object.Object, "spec"); found {
		return unstructured.SetNestedSlice(object.Object, []any{container(u.count)}, "spec", "template", "spec", "containers")
	}
	return unstructured.SetNestedMap(object.Object, map[string]any{
		"replicas": int64(2), "progressDeadlineSeconds": int64(progressDeadline), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{container(u.count)}}},
	}, "spec")
}

func container(number int) any {
	return map[string]any{"name": "app", "image": fmt.Sprintf("app:%d", number)}
}

func (u *users) createResource(ctx context.Context) (string, error) {
	object := u.aResource()
	if err := u.filled(object); err != nil {
		return "", err //nolint:wrapcheck // a bug of the simulation
	}
	return fmt.Sprintf("creates %s %s number %d", object.GetKind(), object.GetName(), u.count), u.w.plane.Create(ctx, object) //nolint:wrapcheck // act wraps it
}

// changed changes a resource.
func (u *users) changed(ctx context.Context, object *unstructured.Unstructured, how func() error) error {
	if err := u.w.plane.Get(ctx, keyOf(object), object); err != nil {
		return err //nolint:wrapcheck // act wraps it
	}
	before := object.DeepCopy()
	if err := how(); err != nil {
		return err
	}
	if isFrozen(before) && !equality.Semantic.DeepEqual(before.Object["data"], object.Object["data"]) {
		return apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), object.GetName(), field.ErrorList{field.Forbidden(field.NewPath("data"), "field is immutable")})
	}
	return u.w.plane.Update(ctx, object) //nolint:wrapcheck // act wraps it
}

func (u *users) changeResource(ctx context.Context) (string, error) {
	object := u.aResource()
	err := u.changed(ctx, object, func() error { return u.filled(object) })
	return fmt.Sprintf("changes %s %s to number %d", object.GetKind(), object.GetName(), u.count), err
}

// mount chooses the ConfigMaps that the Deployment needs.
func (u *users) mount(ctx context.Context) (string, error) {
	volumes := []any{}
	names := []string{}
	for _, name := range []string{"settings", "web", "missing"} {
		if u.w.choices.oneIn(2) {
			names = append(names, name)
			volumes = append(volumes, map[string]any{"name": name, "configMap": map[string]any{"name": name}})
		}
	}
	object := named(resources[1], namespace)
	err := u.changed(ctx, object, func() error {
		return unstructured.SetNestedSlice(object.Object, volumes, "spec", "template", "spec", "volumes")
	})
	return fmt.Sprintf("has Deployment %s mount the ConfigMaps %v", object.GetName(), names), err
}

func (u *users) deleteResource(ctx context.Context) (string, error) {
	object := u.aResource()
	return fmt.Sprintf("deletes %s %s", object.GetKind(), object.GetName()), u.w.plane.Delete(ctx, object) //nolint:wrapcheck // act wraps it
}

// widgetDefinition defines the kind that comes and goes.
func (u *users) widgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	unknown := true
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: u.plural + "." + widgetKind.Group}}
	definition.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: widgetKind.Group, Scope: u.scope,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: widgetKind.Kind, ListKind: widgetKind.Kind + "List", Plural: u.plural, Singular: "widget"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: widgetKind.Version, Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &unknown}},
		}},
	}
	return definition
}

func (u *users) removeKind(ctx context.Context) (string, error) {
	return "deletes the definition of Widgets, and all Widgets", u.w.plane.Delete(ctx, u.widgetDefinition()) //nolint:wrapcheck // act wraps it
}

func (u *users) restoreKind(ctx context.Context) (string, error) {
	if err := u.w.plane.Create(ctx, u.widgetDefinition()); err != nil || u.scope == apiextensionsv1.ClusterScoped {
		return "defines Widgets", err //nolint:wrapcheck // act wraps it
	}
	object := named(resources[3], namespace)
	if err := u.filled(object); err != nil {
		return "", err //nolint:wrapcheck // a bug of the simulation
	}
	return fmt.Sprintf("defines Widgets, and creates one with number %d", u.count), u.w.plane.Create(ctx, object) //nolint:wrapcheck // act wraps it
}
