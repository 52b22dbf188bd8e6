//go:build faults

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

package faults

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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func lower(kind string) string { return strings.ToLower(kind) }

func gvkOf(kind *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: kind.Spec.Group, Version: kind.Spec.Versions[0].Name, Kind: kind.Spec.Names.Kind}
}

// custom builds an object of a kind that no Go type stands for.
func custom(kind *apiextensionsv1.CustomResourceDefinition, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": "large"}}}
	object.SetGroupVersionKind(gvkOf(kind))
	object.SetName(name)
	return object
}

// installs installs a kind on planes until the end of the test, at the latest,
// and waits until it is served there.
func (s *space) installs(kind *apiextensionsv1.CustomResourceDefinition, planes ...client.Client) {
	s.t.Helper()
	s.t.Cleanup(func() { s.uninstalls(kind, planes...) })
	for _, plane := range planes {
		if plane == karmada {
			s.mayPropagate(kind)
		}
		if err := plane.Create(s.ctx, kind.DeepCopy()); err != nil {
			s.t.Fatalf("installing %s: %v", kind.Name, err)
		}
		if _, err := awaits(s.ctx, patience, func(ctx context.Context) error {
			nobody := custom(kind, "nobody")
			err := plane.Get(ctx, client.ObjectKey{Namespace: s.name, Name: "nobody"}, nobody)
			if apierrors.IsNotFound(err) && strings.Contains(err.Error(), `"nobody" not found`) {
				return nil
			}
			return fmt.Errorf("it is not served: %w", err)
		}); err != nil {
			s.t.Fatalf("installing %s: %v", kind.Name, err)
		}
	}
}

// mayPropagate lets the controller propagate a kind of users' own, as
// docs/install.md says.
func (s *space) mayPropagate(kind *apiextensionsv1.CustomResourceDefinition) {
	s.t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: kind.Name, Labels: map[string]string{"rbac.karmada-direct.io/aggregate-to-propagated": "true"}},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{kind.Spec.Group}, Resources: []string{kind.Spec.Names.Plural}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{kind.Spec.Group}, Resources: []string{kind.Spec.Names.Plural + "/status"}, Verbs: []string{"update"}},
		},
	}
	if err := karmada.Create(s.ctx, role); err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatalf("creating ClusterRole %s: %v", role.Name, err)
	}
	s.t.Cleanup(func() {
		if err := karmada.Delete(context.Background(), role); client.IgnoreNotFound(err) != nil {
			s.t.Error(err)
		}
	})
	if _, err := awaits(s.ctx, patience, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:karmada-system:karmada-direct",
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: kind.Spec.Group, Resource: kind.Spec.Names.Plural, Subresource: "status", Verb: "update",
			},
		}}
		if err := karmada.Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return errors.New("it may not")
		}
		return nil
	}); err != nil {
		s.t.Fatalf("waiting until the controller may propagate %s: %v", kind.Name, err)
	}
}

// uninstalls removes a kind from planes, and waits until it is gone.
func (s *space) uninstalls(kind *apiextensionsv1.CustomResourceDefinition, planes ...client.Client) {
	s.t.Helper()
	for _, plane := range planes {
		if _, err := awaits(context.Background(), patience, func(ctx context.Context) error {
			if err := plane.Delete(ctx, kind.DeepCopy()); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is there"), err)
			}
			return nil
		}); err != nil {
			s.t.Errorf("uninstalling %s: %v", kind.Name, err)
		}
	}
}
