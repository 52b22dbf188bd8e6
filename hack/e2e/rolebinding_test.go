//go:build e2e

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

package e2e

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// Users of a namespace cannot change the role of a RoleBinding on a member through
// anything that they may write.
func TestNoRoleByOverriders(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}
	binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "team", Namespace: ns.Name}}
	ns.Has(binding)
	escalation := policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
		Path: "/roleRef/name", Operator: policyv1alpha1.OverriderOpReplace, Value: apiextensionsv1.JSON{Raw: []byte(`"cluster-admin"`)},
	}}}

	inline := testbed.NewDirectPropagation(ns.Name, "inline", testbed.ReferenceTo(binding), testbed.NamesOf(members)...)
	inline.Spec.Clusters[0].Overriders = &escalation
	const refused = `DirectPropagation.propagation.karmada-direct.io "inline" is invalid: spec.clusters: Invalid value: must not have overriders for a resource that grants permissions or limits what users of a namespace may do, which must be the same on every cluster; use a ClusterOverridePolicy`
	if err := karmada.Create(ns.Ctx, inline); !apierrors.IsInvalid(err) || refusal(err) != refused {
		t.Errorf("refused with\n  %v\nwant\n  %s", err, refused)
	}

	policy := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "escalation"}}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding", Name: binding.Name}}
	policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: escalation}}
	ns.Has(policy)
	p := ns.Propagates("team", binding).To(members...)
	says := fmt.Sprintf("OverridePolicy %s/escalation: RoleBinding grants permissions and must be the same on every cluster; use a ClusterOverridePolicy", ns.Name)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonOverrideFailed, says)
	}

	// Without the policy, the RoleBinding arrives unchanged. When the policy is back,
	// the RoleBinding stays unchanged.
	ns.Loses(policy)
	p.BecomesReady()
	ns.Has(policy)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonOverrideFailed, says)
		there, err := member.Find(ns.Ctx, binding)
		if err != nil {
			t.Fatal(err)
		}
		if role := there.(*rbacv1.RoleBinding).RoleRef.Name; role != "edit" { //nolint:forcetypeassert // a copy of the binding
			t.Errorf("%s: the role is %q, want edit", member, role)
		}
	}
	ns.Loses(policy)
	p.BecomesReady()
}
