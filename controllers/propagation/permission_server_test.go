//go:build integration

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
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// TestReviewsOfARealServer: the answers are what the roles grant, and the role that
// the controller is installed with allows it to ask.
func TestReviewsOfARealServer(t *testing.T) {
	env := &envtest.Environment{}
	config, err := env.Start()
	if err != nil {
		t.Fatalf("starting an API server: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin := clientOf(t, config)
	for _, object := range roles() {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	controller, err := env.AddUser(envtest.User{Name: "controller"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	asker := newReviews(clientOf(t, controller.Config()), clock.RealClock{})
	asked := question{account: types.NamespacedName{Namespace: "shop", Name: "named"}, verb: verbPropagate, group: clusterv1alpha1.GroupName, version: "v1alpha1", resource: "clusters"}
	if denial := asker.ask(t.Context(), asked, deniedFor); denial == nil || denial.Err == nil || !strings.Contains(denial.Message, "subjectaccessreviews") {
		t.Errorf("without its role, the controller is told %+v", denial)
	}
	installRole(t, admin)
	awaitRoles(t, asker)
	for _, tc := range reviewCases() {
		t.Run(tc.name, func(t *testing.T) {
			denial := asker.ask(t.Context(), tc.asked, deniedFor)
			if denial != nil && denial.Reason != propagationv1alpha1.ReasonForbidden {
				t.Fatalf("no answer: %+v", denial)
			}
			if (denial == nil) != tc.allowed {
				t.Errorf("denial %+v, want allowed %t", denial, tc.allowed)
			}
		})
	}
}

// awaitRoles waits until the server knows every role: it learns about them through
// its own watches.
func awaitRoles(t *testing.T, asker *reviews) {
	t.Helper()
	for _, tc := range reviewCases() {
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
			return !tc.allowed || newReviews(asker.client, asker.clock).ask(ctx, tc.asked, deniedFor) == nil, nil
		})
		if err != nil {
			t.Fatalf("%s: never allowed: %v", tc.name, err)
		}
	}
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	made, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

type reviewCase struct {
	name    string
	asked   question
	allowed bool
}

func reviewCases() []reviewCase {
	to := func(namespace, account, cluster string) question {
		return question{
			account: types.NamespacedName{Namespace: namespace, Name: account}, verb: verbPropagate,
			group: clusterv1alpha1.GroupName, version: "v1alpha1", resource: "clusters", name: cluster,
		}
	}
	get := func(account, namespace, name string) question {
		return question{
			account: types.NamespacedName{Namespace: "shop", Name: account}, verb: verbGet,
			version: "v1", resource: "secrets", namespace: namespace, name: name,
		}
	}
	return []reviewCase{
		{"a cluster that the role names", to("shop", "named", "member1"), true},
		{"another cluster", to("shop", "named", "member2"), false},
		{"all clusters, with a role that names one", to("shop", "named", ""), false},
		{"all clusters, with a role that names none", to("shop", "everywhere", ""), true},
		{"one cluster, with a role that names none", to("shop", "everywhere", "member9"), true},
		{"an account with the same name in another namespace", to("other", "everywhere", "member1"), false},
		{"an account with a role through the group of its namespace", to("team", "anybody", "member1"), true},
		{"a role that may only get clusters", to("shop", "reader", "member1"), false},
		{"a resource that a role names", get("named", "shop", "db"), true},
		{"another resource", get("named", "shop", "tls"), false},
		{"the resource in another namespace", get("named", "other", "db"), false},
		{"an unknown account", get("nobody", "shop", "db"), false},
	}
}

// roles returns what a platform grants to its tenants.
func roles() []client.Object {
	role := func(name string, verb string, clusters ...string) client.Object {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters"}, Verbs: []string{verb}, ResourceNames: clusters,
		}}}
	}
	bound := func(role string, subject rbacv1.Subject) client.Object {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
	}
	account := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "shop", Name: name}
	}
	return []client.Object{
		role("to-member1", verbPropagate, "member1"), bound("to-member1", account("named")),
		role("everywhere", verbPropagate), bound("everywhere", account("everywhere")),
		role("team", verbPropagate, "member1"), bound("team", rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:team"}),
		role("reads", verbGet), bound("reads", account("reader")),
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{verbGet}, ResourceNames: []string{"db"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Subjects: []rbacv1.Subject{account("named")},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "db"},
		},
	}
}

// installRole gives the controller the ClusterRole that it is installed with.
func installRole(t *testing.T, admin client.Client) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("..", "..", "cmd", "controller-manager", "install", "controller.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	document, _, _ := bytes.Cut(file, []byte("\n---\n"))
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(document, role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "controller"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	for _, object := range []client.Object{role, binding} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}
