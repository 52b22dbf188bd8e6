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

package propagation

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// bindingShop returns a bench on which shop/web propagates a RoleBinding.
func bindingShop(t *testing.T, more ...client.Object) *bench {
	t.Helper()
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: "binding"}}
	binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}
	object := webPropagation()
	object.Spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding", Name: web.Name}
	b := newBench(t, append(more, binding, object, memberCluster("member1"), memberCluster("member2"))...)
	b.Mapper.(*meta.DefaultRESTMapper).Add(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), meta.RESTScopeNamespace) //nolint:forcetypeassert // newBench made it
	return b
}

func (b *bench) roleOn(t *testing.T, cluster string) string {
	t.Helper()
	role, _, _ := unstructured.NestedString(b.manifestOn(t, cluster).Object, "roleRef", "name")
	return role
}

// TestOverridersGrantNothing: an object that was stored before the API server
// refused such objects has no effect. The cluster keeps what it has.
func TestOverridersGrantNothing(t *testing.T) {
	b := bindingShop(t)
	b.settle(t)
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) {
		spec.Clusters[1].Overriders = patch(policyv1alpha1.OverriderOpReplace, "/roleRef/name", `"cluster-admin"`)
	})
	b.settle(t)
	row := b.rowOf(t, "member2")
	const want = "spec.clusters, overriders of member2: RoleBinding grants permissions and must be the same on every cluster; use a ClusterOverridePolicy"
	if row.Reason != propagationv1alpha1.ReasonOverrideFailed || row.Message != want {
		t.Errorf("row: %s: %s, want %s", row.Reason, row.Message, want)
	}
	if got := b.roleOn(t, "member2"); got != "edit" {
		t.Errorf("role on member2 = %s", got)
	}
	if row := b.rowOf(t, "member1"); row.Reason == propagationv1alpha1.ReasonOverrideFailed {
		t.Errorf("member1 is affected: %s", row.Message)
	}
}

// TestOverridePoliciesGrantNothing: a policy that users of a namespace can write
// does not change a RoleBinding. A policy that does not concern the RoleBinding
// does not block it, and a policy of an administrator can change it.
func TestOverridePoliciesGrantNothing(t *testing.T) {
	escalation := policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{
		Overriders: *patch(policyv1alpha1.OverriderOpReplace, "/roleRef/name", `"cluster-admin"`),
	}}}
	images := policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: registry()}}}
	named := metav1.ObjectMeta{Namespace: web.Namespace, Name: "grant", UID: "policy"}
	for name, tc := range map[string]struct {
		policy client.Object
		role   string
		row    string
	}{
		"an OverridePolicy that grants": {
			&policyv1alpha1.OverridePolicy{ObjectMeta: named, Spec: escalation}, "",
			"OverrideFailed: OverridePolicy shop/grant: RoleBinding grants permissions and must be the same on every cluster; use a ClusterOverridePolicy",
		},
		"an OverridePolicy about images": {&policyv1alpha1.OverridePolicy{ObjectMeta: named, Spec: images}, "edit", "Applying: "},
		"a ClusterOverridePolicy": {
			&policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "grant", UID: "policy"}, Spec: escalation}, "cluster-admin", "Applying: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bindingShop(t, tc.policy)
			b.settle(t)
			row := b.rowOf(t, "member1")
			if got := row.Reason + ": " + row.Message; !strings.HasPrefix(got, tc.row) {
				t.Errorf("row: %s, want %s", got, tc.row)
			}
			if works := b.works(t); tc.role == "" {
				if len(works) > 0 {
					t.Errorf("%d Works were written", len(works))
				}
			} else if got := b.roleOn(t, "member1"); got != tc.role {
				t.Errorf("role on member1 = %s, want %s", got, tc.role)
			}
		})
	}
}
