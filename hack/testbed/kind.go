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

package testbed

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewKind builds a CustomResourceDefinition of a namespaced kind with an arbitrary
// schema.
func NewKind(group, kind string) *apiextensionsv1.CustomResourceDefinition {
	singular := strings.ToLower(kind)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// KindOf returns the kind that a CustomResourceDefinition defines, in its first
// version.
func KindOf(kind *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: kind.Spec.Group, Version: kind.Spec.Versions[0].Name, Kind: kind.Spec.Names.Kind}
}

// ObjectOf builds an object of a kind.
func ObjectOf(kind *apiextensionsv1.CustomResourceDefinition, name string) *unstructured.Unstructured {
	gvk := KindOf(kind)
	return Custom(gvk.GroupVersion().String(), gvk.Kind, name, map[string]any{"size": "large"})
}

// Installs installs a kind on control planes and waits until they serve it. If the
// Karmada control plane is one of them, the controller is allowed to propagate the
// kind.
func (ns *Namespace) Installs(kind *apiextensionsv1.CustomResourceDefinition, planes ...client.Client) {
	ns.T.Helper()
	for _, plane := range planes {
		if plane == ns.Bed.Karmada {
			ns.ControllerMayPropagate(kind)
		}
		ns.Serves(kind, plane)
	}
}

// Serves installs a kind on one control plane and waits until it serves the kind.
func (ns *Namespace) Serves(kind *apiextensionsv1.CustomResourceDefinition, plane client.Client) {
	ns.T.Helper()
	if err := plane.Create(ns.Ctx, kind.DeepCopy()); err != nil {
		ns.T.Fatalf("installing %s: %v", kind.Name, err)
	}
	ns.Eventually(kind.Name+" is served", func(ctx context.Context) error {
		installed := kind.DeepCopy()
		if err := plane.Get(ctx, client.ObjectKeyFromObject(installed), installed); err != nil {
			return err
		}
		for _, condition := range installed.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return ns.answersFor(ctx, kind, plane)
			}
		}
		return errors.New("it is not Established")
	})
}

// answersFor returns an error unless the kind is served, which is the case shortly
// after it is Established.
func (ns *Namespace) answersFor(ctx context.Context, kind *apiextensionsv1.CustomResourceDefinition, plane client.Client) error {
	err := plane.Get(ctx, ns.Key("any"), ObjectOf(kind, "any"))
	if apierrors.IsNotFound(err) && strings.Contains(err.Error(), `"any" not found`) {
		return nil
	}
	return fmt.Errorf("it is Established, but: %w", err)
}

// ControllerMayPropagate allows the controller to propagate a custom kind, as
// docs/install.md describes.
func (ns *Namespace) ControllerMayPropagate(kind *apiextensionsv1.CustomResourceDefinition) {
	ns.T.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: kind.Name, Labels: map[string]string{"rbac.karmada-direct.io/aggregate-to-propagated": "true"}},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{kind.Spec.Group}, Resources: []string{kind.Spec.Names.Plural}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{kind.Spec.Group}, Resources: []string{kind.Spec.Names.Plural + "/status"}, Verbs: []string{"update"}},
		},
	}
	if err := ns.Bed.Karmada.Create(ns.Ctx, role); err != nil && !apierrors.IsAlreadyExists(err) {
		ns.T.Fatalf("creating ClusterRole %s: %v", role.Name, err)
	}
	ns.T.Cleanup(func() {
		if err := ns.Bed.Karmada.Delete(context.Background(), role); client.IgnoreNotFound(err) != nil {
			ns.T.Error(err)
		}
	})
	ns.Eventually("the controller may propagate "+kind.Name, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: ControllerAccount,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: kind.Spec.Group, Resource: kind.Spec.Names.Plural, Subresource: "status", Verb: "update",
			},
		}}
		if err := ns.Bed.Karmada.Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return errors.New("it is not allowed")
		}
		return nil
	})
}

// Uninstalls removes a kind from control planes and waits until it is gone.
func (ns *Namespace) Uninstalls(kind *apiextensionsv1.CustomResourceDefinition, planes ...client.Client) {
	ns.T.Helper()
	for _, plane := range planes {
		err := ns.Bed.Await(context.Background(), kind.Name+" is gone", func(ctx context.Context) error {
			if err := plane.Delete(ctx, kind.DeepCopy()); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it still exists"), err)
			}
			return nil
		})
		if err != nil {
			ns.T.Error(err)
		}
	}
}
