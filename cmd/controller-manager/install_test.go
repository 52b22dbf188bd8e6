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

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// typed decodes an object as the API server would, and fails for unknown fields.
func typed[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[i].Object, into, true); err != nil {
		t.Fatalf("%s %s: %v", kind, name, err)
	}
	return into
}

func TestRBACObjectsAreInOneNamespace(t *testing.T) {
	objects, err := rbacObjects("elsewhere", propagatedRights{AggregateStatus: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if ns := object.GetNamespace(); ns != "" && ns != "elsewhere" {
			t.Errorf("%s %s is in namespace %s", object.GetKind(), object.GetName(), ns)
		}
		content, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "karmada-system") {
			t.Errorf("%s %s speaks of karmada-system: %s", object.GetKind(), object.GetName(), content)
		}
	}
	for _, name := range []string{account, propagatedRole, propagatedRole + "-more"} {
		binding := typed[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding", name)
		role := typed[rbacv1.ClusterRole](t, objects, "ClusterRole", binding.RoleRef.Name)
		if len(role.Rules) == 0 && role.AggregationRule == nil {
			t.Errorf("ClusterRole %s has no rules", role.Name)
		}
	}
}

func TestGuardrailsNameTheController(t *testing.T) {
	objects, err := guardrailObjects([]string{accountUser("elsewhere"), `a "quoted" user`})
	if err != nil {
		t.Fatal(err)
	}
	want := `!(request.userInfo.username in ["system:serviceaccount:elsewhere:karmada-direct", "a \"quoted\" user"])`
	named := 0
	for _, object := range objects {
		text, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "karmada-system") {
			t.Errorf("%s %s speaks of karmada-system: %s", object.GetKind(), object.GetName(), text)
		}
		if object.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		policy := typed[admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, object.GetKind(), object.GetName())
		if *policy.Spec.FailurePolicy != admissionregistrationv1.Fail {
			t.Errorf("%s lets pass what it cannot judge", policy.Name)
		}
		typed[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, objects, "ValidatingAdmissionPolicyBinding", policy.Name)
		for _, condition := range policy.Spec.MatchConditions {
			if condition.Expression == want {
				named++
			}
		}
	}
	if named != 3 {
		t.Errorf("%d policies let the controller pass, want 3", named)
	}
}

// Revisions can contain Secrets: the controller's role names them, and no role of users
// does, neither by a wildcard.
func TestOnlyTheControllerReadsRevisions(t *testing.T) {
	objects, err := rbacObjects("karmada-system", propagatedRights{AggregateStatus: true})
	if err != nil {
		t.Fatal(err)
	}
	guardrails, err := guardrailObjects([]string{"jane"})
	if err != nil {
		t.Fatal(err)
	}
	objects = append(objects, guardrails...)
	found := 0
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" && object.GetKind() != "Role" {
			continue
		}
		for _, rule := range typed[rbacv1.ClusterRole](t, objects, object.GetKind(), object.GetName()).Rules {
			isGroup := slices.ContainsFunc(rule.APIGroups, func(group string) bool { return group == "*" || group == propagationv1alpha1.GroupName })
			if !isGroup || !slices.ContainsFunc(rule.Resources, func(resource string) bool { return resource == "*" || resource == "propagationrevisions" }) {
				continue
			}
			found++
			if want := []string{"get", "list", "create", "delete"}; object.GetName() != account || !slices.Equal(rule.Verbs, want) {
				t.Errorf("%s %s grants %v on revisions", object.GetKind(), object.GetName(), rule.Verbs)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d rules are about revisions, want 1", found)
	}
}

// The default role reads no subresource, such as a proxy, and writes only the
// status of what it reads.
func TestDefaultRoleHasNoWildcard(t *testing.T) {
	role := propagatedRoleWith(t, propagatedRights{AggregateStatus: true})
	read := map[string]bool{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			if strings.Contains(group, "*") || strings.HasSuffix(group, "karmada.io") {
				t.Errorf("it speaks of group %s", group)
			}
			for _, resource := range rule.Resources {
				name, subresource, _ := strings.Cut(resource, "/")
				switch {
				case strings.Contains(resource, "*"):
					t.Errorf("it speaks of %s", resource)
				case subresource == "" && slices.Equal(rule.Verbs, []string{"get", "list", "watch"}):
					read[group+"/"+name] = true
				case subresource == "status" && slices.Equal(rule.Verbs, []string{"update"}) && read[group+"/"+name]:
				default:
					t.Errorf("it may %v %s of %q", rule.Verbs, resource, group)
				}
			}
		}
	}
	if len(read) < 30 {
		t.Errorf("it reads %d kinds only", len(read))
	}
}

func TestStatusRuleCanBeLeftOut(t *testing.T) {
	for _, kinds := range [][]string{nil, {"*.*"}, {"deployments.apps"}} {
		for _, rule := range propagatedRoleWith(t, propagatedRights{Kinds: kinds}).Rules {
			if !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) || strings.Contains(strings.Join(rule.Resources, " "), "/") {
				t.Errorf("with kinds %v it may %v %v", kinds, rule.Verbs, rule.Resources)
			}
		}
	}
}

func propagatedRoleWith(t *testing.T, rights propagatedRights) *rbacv1.ClusterRole {
	t.Helper()
	objects, err := rbacObjects("karmada-system", rights)
	if err != nil {
		t.Fatal(err)
	}
	return typed[rbacv1.ClusterRole](t, objects, "ClusterRole", propagatedRole)
}

func TestPropagatedKinds(t *testing.T) {
	for _, test := range []struct {
		name    string
		kinds   []string
		want    []rbacv1.PolicyRule
		wantErr string
	}{
		{name: "all", kinds: []string{"*.*"}, want: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"*"}, Resources: []string{"*/status"}, Verbs: []string{"update"}},
		}},
		{name: "some", kinds: []string{"deployments.apps", "configmaps", "statefulsets.apps"}, want: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps/status"}, Verbs: []string{"update"}},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments/status", "statefulsets/status"}, Verbs: []string{"update"}},
		}},
		{name: "a whole group", kinds: []string{"*.example.org"}, want: []rbacv1.PolicyRule{
			{APIGroups: []string{"example.org"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"example.org"}, Resources: []string{"*/status"}, Verbs: []string{"update"}},
		}},
		{name: "a group without a resource", kinds: []string{".apps"}, wantErr: `".apps" names no resource`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.wantErr != "" {
				_, err := rbacObjects("karmada-system", propagatedRights{Kinds: test.kinds})
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error %v, want one with %q", err, test.wantErr)
				}
				return
			}
			got := propagatedRoleWith(t, propagatedRights{Kinds: test.kinds, AggregateStatus: true}).Rules
			if difference := cmp.Diff(test.want, got); difference != "" {
				t.Errorf("rules (-want +got):\n%s", difference)
			}
		})
	}
}

func TestNewerRelease(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"v0.2.0", "v0.1.0", true},
		{"v0.10.0", "v0.9.3", true},
		{"v0.2.0-3-gabcdef0", "v0.1.0", true},
		{"v0.1.0", "v0.2.0", false},
		{"v0.1.0", "v0.1.0", false},
		{"v0.1.0-3-gabcdef0-dirty", "v0.1.0", false},
		{"v0.2.0", "dev", false},
		{"", "v0.1.0", false},
		{"c02c783", "v0.1.0", false},
	} {
		if got := isNewerRelease(test.a, test.b); got != test.want {
			t.Errorf("isNewerRelease(%q, %q) = %v, want %v", test.a, test.b, got, test.want)
		}
	}
}
