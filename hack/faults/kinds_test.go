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

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
