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

package decide

import (
	"testing"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Karmada synchronizes every Namespace except default and those that opt out.
func TestNamespacesThatKarmadaSynchronizes(t *testing.T) {
	namespace := func(name string, labels map[string]string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		object.SetName(name)
		object.SetLabels(labels)
		return object
	}
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"any":        {namespace("shop", nil), namespaceSynchronization},
		"default":    {namespace("default", nil), ""},
		"skipped":    {namespace("shop", map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "True"}), ""},
		"not really": {namespace("shop", map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "no"}), namespaceSynchronization},
	} {
		if got := ClaimOf(tc.object); got != tc.want {
			t.Errorf("%s: claimed by %q, want %q", name, got, tc.want)
		}
	}
}
