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
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// tenant returns a client for a user who has a role of the API server in the
// namespace of the test, and no other permissions.
func (ns *Namespace) tenant(name, role string) client.Client {
	ns.T.Helper()
	config, err := bed.ConfigOf("karmada")
	if err != nil {
		ns.T.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	tenant, err := client.New(config, client.Options{Scheme: testbed.Scheme})
	if err != nil {
		ns.T.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	if err := karmada.Create(ns.Ctx, binding); err != nil {
		ns.T.Fatal(err)
	}
	ns.Eventually(name+" has the role", func(ctx context.Context) error {
		probe := testbed.NewDirectPropagation(ns.Name, "probe", testbed.Reference("v1", "ConfigMap", "probe"), "member1")
		return tenant.Create(ctx, probe, client.DryRunAll)
	})
	return tenant
}

func (ns *Namespace) isDenied(what string, err error, words string) {
	ns.T.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
		ns.T.Errorf("%s: the error is %v, want Forbidden with %q", what, err, words)
	}
}

// A tenant who may edit a namespace propagates what they may read there, but cannot
// label Works, send permissions to members, or abandon clusters.
func TestGuardrailsConfineATenant(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	editor, admin := ns.tenant("jane", "edit"), ns.tenant("root", "admin")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "login"}, StringData: map[string]string{"key": "value"}}
	if err := editor.Create(ns.Ctx, secret); err != nil {
		t.Fatal(err)
	}
	ns.NoteWork(testbed.ReferenceTo(secret))
	login := testbed.NewDirectPropagation(ns.Name, "login", testbed.ReferenceTo(secret), "member1", "member2")
	if err := editor.Create(ns.Ctx, login); err != nil {
		t.Fatal(err)
	}
	ns.Eventually("the Secret is on the members", func(ctx context.Context) error { return testbed.Run(ctx, secret, members...) })

	stolen := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns.Name, Name: "stolen", Labels: map[string]string{propagationv1alpha1.OwnerUIDLabel: string(login.UID)},
	}}
	ns.isDenied("marking a Work", karmadaAdmin(ns).Create(ns.Ctx, stolen), "only the controller may set, change or remove labels of propagation.karmada-direct.io on Works")
	binding := testbed.NewDirectPropagation(ns.Name, "jane", testbed.Reference("rbac.authorization.k8s.io/v1", "RoleBinding", "jane"), "member1")
	ns.isDenied("naming a RoleBinding", editor.Create(ns.Ctx, binding), fmt.Sprintf("needs the permission to bind clusterroles.rbac.authorization.k8s.io in namespace %q", ns.Name))

	letGo := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"propagation.karmada-direct.io/abandon-unreachable":"true"}}}`))
	ns.isDenied("abandoning", editor.Patch(ns.Ctx, login, letGo), `user "jane" needs the permission to abandon directpropagations.propagation.karmada-direct.io "login"`)
	drop := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	ns.isDenied("dropping the finalizer", editor.Patch(ns.Ctx, login, drop), `needs the permission to abandon`)
	ns.Eventually("an administrator of the namespace may abandon clusters", func(ctx context.Context) error { return admin.Patch(ctx, login, letGo) })
	if err := editor.Delete(ns.Ctx, login); err != nil {
		t.Fatal(err)
	}
	ns.ComeToLack(secret, members...)
}

// karmadaAdmin returns a client for the user that Karmada's components use. It may
// do everything, but it is not the controller.
func karmadaAdmin(ns *Namespace) client.Client {
	ns.T.Helper()
	config, err := bed.ConfigOf("karmada")
	if err != nil {
		ns.T.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: testbed.Scheme})
	if err != nil {
		ns.T.Fatal(err)
	}
	return admin
}

// The controller cannot read a kind that its roles do not include, and the object
// names the missing permission. A ClusterRole with the aggregation label adds the
// kind without a restart.
func TestKindBeyondTheDefaultRole(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	group := "e2e-" + rand.String(5) + ".example.org"
	kind := testbed.NewKind(group, "Widget")
	t.Cleanup(func() { ns.Uninstalls(kind, karmada, member1.Client, member2.Client) })
	for _, plane := range []client.Client{karmada, member1.Client, member2.Client} {
		ns.Serves(kind, plane)
	}
	widget := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"size": "large"})
	ns.Has(widget)
	p := ns.Propagates("widget", widget).To(member1, member2)
	p.Becomes("ResourceReadFailed, with the permission that is missing", func(object *DirectPropagation) error {
		ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
		if ready == nil || ready.Reason != propagationv1alpha1.ReasonResourceReadFailed || !strings.Contains(ready.Message, "widgets") ||
			!strings.Contains(ready.Message, group) || !strings.Contains(ready.Message, "forbidden") {
			return fmt.Errorf("Ready is %s", testbed.Say(ready))
		}
		return nil
	})
	ns.ControllerMayPropagate(kind)
	p.BecomesReady()
	p.IsDeleted()
}
