//go:build e2e_helm

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

package helm

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The controller has the permissions of its roles and no others.
func TestLeastPrivilege(t *testing.T) {
	forgetInstallation(t)
	r := newRelease(t)
	r.hasSecret("karmada-controller-manager-config", "karmada.config", adminKubeconfig(t))
	r.installs(chartFolder(), "guardrails.enabled=true", "rbac.propagated={configmaps,deployments.apps,clusterroles.rbac.authorization.k8s.io}")
	running := r.startsOne()
	theWholeJourney(t)
	opensTheShop(t)
	roleIsPropagated(t)

	config, own := asController(t, running)
	who, err := run(t, "kubectl", "auth", "whoami", "--kubeconfig", config, "--output", "jsonpath={.status.userInfo.username}")
	if want := "system:serviceaccount:" + namespace + ":karmada-direct"; err != nil || who != want {
		t.Errorf("the controller is %q, %v; want %q", who, err, want)
	}
	sameRules(t, own)
	for action, want := range map[string]bool{
		"get configmaps": true, "list deployments.apps": true, "create works.work.karmada.io": true, "watch clusters.cluster.karmada.io": true,
		"update directpropagations.propagation.karmada-direct.io/status": true,
		"create propagationrevisions.propagation.karmada-direct.io":      true, "update propagationrevisions.propagation.karmada-direct.io": false,
		"get secrets": false, "list statefulsets.apps": false, "create deployments.apps": false, "update directpropagations.propagation.karmada-direct.io": false,
		"delete clusters.cluster.karmada.io": false, "create customresourcedefinitions.apiextensions.k8s.io": false, "get propagationpolicies.policy.karmada.io": false,
		"create serviceaccounts/token": false, "create clusterrolebindings.rbac.authorization.k8s.io": false,
	} {
		verb, resource, _ := strings.Cut(action, " ")
		resource, part, _ := strings.Cut(resource, "/")
		printed, err := run(t, "kubectl", "auth", "can-i", verb, resource, "--subresource", part, "--all-namespaces", "--kubeconfig", config)
		if answer := err == nil && strings.HasPrefix(strings.TrimSpace(lastLine(printed)), "yes"); answer != want {
			t.Errorf("the controller may %s: %v, want %v\n%s", action, answer, want, printed)
		}
	}

	secretsAreRefused(t)
}

// secretsAreRefused propagates a kind that the values do not list. The controller
// may not read it, and the object says so.
func secretsAreRefused(t *testing.T) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "helm-secret"}, StringData: map[string]string{"key": "value"}}
	if err := karmada.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = karmada.Delete(context.Background(), secret) })
	kubectl(t, "apply", "-f", writeFile(t, `
apiVersion: propagation.karmada-direct.io/v1alpha1
kind: DirectPropagation
metadata: {name: helm-secret, namespace: default}
spec:
  resource: {apiVersion: v1, kind: Secret, name: helm-secret}
  clusters: [{name: member1}]
`))
	eventually(t, "the object says that Secrets may not be read", func(context.Context) error {
		printed := kubectl(t, "get", "directpropagation", "helm-secret", "--namespace", "default", "--output", "wide")
		if !strings.Contains(printed, "ResourceReadFailed") || !strings.Contains(printed, "forbidden") {
			return fmt.Errorf("%s", printed)
		}
		return nil
	})
	kubectl(t, "delete", "directpropagation", "helm-secret", "--namespace", "default")
}

// opensTheShop propagates the example of the documentation: a Deployment and a
// ConfigMap.
func opensTheShop(t *testing.T) {
	t.Helper()
	shop := filepath.Join(bed.Root, "docs", "examples", "shop.yaml")
	kubectl(t, "apply", "-f", shop)
	kubectl(t, "wait", "directpropagations", "--all", "--namespace", "shop", "--for=condition=Ready", "--timeout=2m")
	kubectl(t, "delete", "directpropagations", "--all", "--namespace", "shop", "--timeout=2m")
	kubectl(t, "delete", "-f", shop, "--ignore-not-found", "--timeout=2m")
}

// roleIsPropagated propagates and withdraws a cluster-scoped resource.
func roleIsPropagated(t *testing.T) {
	t.Helper()
	role := writeFile(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: helm-reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
`)
	propagation := writeFile(t, `
apiVersion: propagation.karmada-direct.io/v1alpha1
kind: ClusterDirectPropagation
metadata: {name: helm-reader}
spec:
  resource: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: helm-reader}
  clusters: [{name: member1}, {name: member2}]
`)
	kubectl(t, "apply", "-f", role, "-f", propagation)
	kubectl(t, "wait", "clusterdirectpropagation", "helm-reader", "--for=condition=Ready", "--timeout=2m")
	have := func(ctx context.Context, want bool) error {
		for _, member := range members {
			err := member.Get(ctx, client.ObjectKey{Name: "helm-reader"}, &rbacv1.ClusterRole{})
			if client.IgnoreNotFound(err) != nil || (err == nil) != want {
				return fmt.Errorf("%s has it: %v (%v), want %v", member.Name, err == nil, err, want)
			}
		}
		return nil
	}
	if err := have(t.Context(), true); err != nil {
		t.Error(err)
	}
	kubectl(t, "delete", "-f", propagation, "--timeout=2m")
	eventually(t, "the members lack it", func(ctx context.Context) error { return have(ctx, false) })
	kubectl(t, "delete", "-f", role)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range slices.Backward(lines) {
		if line == "yes" || line == "no" || strings.HasPrefix(line, "no ") {
			return line
		}
	}
	return lines[len(lines)-1]
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// asController returns a kubeconfig with the Pod's identity, and a client that uses
// it.
func asController(t *testing.T, running *runningPod) (string, client.Client) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(running.volumes["own-kubeconfig"], "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(config.BearerTokenFile)
	if err != nil {
		t.Fatal(err)
	}
	path := writeFile(t, string(tokenKubeconfig(t, config, string(token))))
	own, err := client.New(config, client.Options{Scheme: karmada.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return path, own
}

// sameRules asks the API server which rules the controller has, and compares them
// with the rules of its roles. It ignores what every authenticated user may do:
// asking who they are and what they may do.
func sameRules(t *testing.T, own client.Client) {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := own.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, rule := range review.Status.ResourceRules {
		if slices.ContainsFunc(rule.Resources, func(resource string) bool { return strings.HasPrefix(resource, "selfsubject") }) {
			// Everybody may ask about themselves.
			continue
		}
		for permission := range permissions(rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs) {
			have[permission] = true
		}
	}
	want := map[string]bool{}
	controller, propagated, local := &rbacv1.ClusterRole{}, &rbacv1.ClusterRole{}, &rbacv1.Role{} // the aggregated role has no rules of its own
	for key, role := range map[client.ObjectKey]client.Object{
		{Name: "karmada-direct"}: controller, {Name: "karmada-direct-propagated"}: propagated, {Namespace: namespace, Name: "karmada-direct"}: local,
	} {
		if err := karmada.Get(t.Context(), key, role); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range slices.Concat(controller.Rules, propagated.Rules, local.Rules) {
		maps.Copy(want, permissions(rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs))
	}
	if len(want) < 20 {
		t.Fatalf("the roles give only %d permissions", len(want))
	}
	for permission := range have {
		if !want[permission] {
			t.Errorf("the controller may %s, which none of its roles allows", permission)
		}
	}
	for permission := range want {
		if !have[permission] {
			t.Errorf("the controller may not %s", permission)
		}
	}
}

func permissions(groups, resources, names, verbs []string) map[string]bool {
	if len(names) == 0 {
		names = []string{""}
	}
	all := map[string]bool{}
	for _, group := range groups {
		for _, resource := range resources {
			for _, name := range names {
				for _, verb := range verbs {
					all[verb+" "+resource+"."+group+"/"+name] = true
				}
			}
		}
	}
	return all
}

// Karmada's users get access to the new kinds through the roles that they already
// have.
func TestUsersRoles(t *testing.T) {
	forgetInstallation(t)
	kubectl(t, "apply", "--server-side", "-f", filepath.Join(bed.Root, "cmd", "controller-manager", "install", "install.yaml"))
	for _, role := range []string{"view", "edit", "admin"} {
		user := "helm-" + role
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		}
		if err := karmada.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = karmada.Delete(context.Background(), binding) })
		for verb, want := range map[string]bool{"get": true, "list": true, "watch": true, "create": role != "view", "delete": role != "view", "patch": role != "view"} {
			eventually(t, fmt.Sprintf("%s may %s: %v", role, verb, want), func(ctx context.Context) error { return mayIs(ctx, user, verb, "directpropagations", want) })
		}
		// The content of a revision can be a Secret, which view must not reveal.
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
			if err := mayIs(t.Context(), user, verb, "propagationrevisions", false); err != nil {
				t.Errorf("%s: %s revisions: %v", role, verb, err)
			}
		}
	}
}

// mayIs returns an error unless a user has, or lacks, a permission in the namespace
// default.
func mayIs(ctx context.Context, user, verb, resource string, want bool) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "default", Verb: verb, Group: "propagation.karmada-direct.io", Resource: resource,
		},
	}}
	if err := karmada.Create(ctx, review); err != nil {
		return err
	}
	if review.Status.Allowed != want {
		return fmt.Errorf("allowed: %v, %s", review.Status.Allowed, review.Status.Reason)
	}
	return nil
}
