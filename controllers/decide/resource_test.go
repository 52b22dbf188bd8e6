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

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// TestWhatMustNotTravel checks what is refused before anything is read.
func TestWhatMustNotTravel(t *testing.T) {
	const reserved, stays = propagationv1alpha1.ReasonNamespaceReserved, propagationv1alpha1.ReasonResourceNotPropagatable
	for _, tc := range []struct{ namespace, apiVersion, kind, name, want string }{
		{"shop", "apps/v1", "Deployment", "web", ""},
		{"kube-system", "apps/v1", "Deployment", "web", reserved},
		{"karmada-es-member1", "v1", "ConfigMap", "web", reserved},
		{"shop", "v1", "Event", "web", stays},
		{"shop", "work.karmada.io/v1alpha1", "Work", "web", stays},
		{"shop", "propagation.karmada-direct.io/v1alpha1", "DirectPropagation", "web", stays},
		{"", "v1", "Namespace", "shop", ""},
		{"", "v1", "Namespace", "karmada-cluster", reserved},
		{"", "v1", "Namespace", "kube-public", reserved},
		{"", "v1", "Node", "node1", stays},
		{"", "certificates.k8s.io/v1", "CertificateSigningRequest", "csr", stays},
		{"", "cluster.karmada.io/v1alpha1", "Cluster", "member1", stays},
		{"", "apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.org", ""},
		{"", "apiextensions.k8s.io/v1", "CustomResourceDefinition", "works.work.karmada.io", stays},
		{"", "apiextensions.k8s.io/v1", "CustomResourceDefinition", "directpropagations.propagation.karmada-direct.io", stays},
		{"", "rbac.authorization.k8s.io/v1", "ClusterRole", "a.karmada.io", ""},
	} {
		got := ""
		if problem := Forbidden(propagationv1alpha1.ResourceReference{APIVersion: tc.apiVersion, Kind: tc.kind, Name: tc.name}, tc.namespace); problem != nil {
			got = problem.Reason
		}
		if got != tc.want {
			t.Errorf("%s %s/%s: %q, want %q", tc.kind, tc.namespace, tc.name, got, tc.want)
		}
	}
}
