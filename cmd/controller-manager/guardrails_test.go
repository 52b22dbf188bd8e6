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

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

const (
	controllerUser = "system:serviceaccount:karmada-system:karmada-direct"
	shop           = "shop"
	executionSpace = "karmada-es-member1"
	anyResource    = ""
)

// guarded is an API server with the guardrails.
type guarded struct {
	t           *testing.T
	environment *envtest.Environment
	admin       client.Client
}

// person is a user with a client certificate.
type person struct {
	client.Client
	guarded *guarded
	name    string
}

func startGuarded(t *testing.T) *guarded {
	t.Helper()
	environment, kubeconfig, admin := startServer(t)
	for _, command := range []string{"install-crds", "install-rbac", "install-guardrails"} {
		if _, err := call(t, command, "--kubeconfig", kubeconfig); err != nil {
			t.Fatal(err)
		}
	}
	g := &guarded{t: t, environment: environment, admin: admin}
	for _, name := range []string{shop, executionSpace} {
		if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	// The API server enforces a policy shortly after it has stored it.
	nobody := g.person("nobody")
	nobody.may("create", "propagation.karmada-direct.io", "directpropagations", anyResource)
	nobody.may("create", "work.karmada.io", "works", anyResource)
	abandoned := propagationOf("v1", "ConfigMap", "probe")
	abandoned.Annotations = map[string]string{propagationv1alpha1.AbandonUnreachableAnnotation: "true"}
	for _, probe := range []client.Object{markedWork(shop), propagationOf("v1", "Secret", "probe"), abandoned} {
		g.eventually("a policy is enforced", func(ctx context.Context) error {
			if err := nobody.Create(ctx, probe, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
				return fmt.Errorf("%T: %w", probe, err)
			}
			return nil
		})
	}
	return g
}

func (g *guarded) eventually(what string, check func(context.Context) error) {
	g.t.Helper()
	var complaint error
	err := wait.PollUntilContextTimeout(g.t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		complaint = check(ctx)
		return complaint == nil, nil
	})
	if err != nil {
		g.t.Fatalf("waiting until %s: %v", what, complaint)
	}
}

func (g *guarded) person(name string, groups ...string) *person {
	g.t.Helper()
	user, err := g.environment.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	own, err := client.New(user.Config(), client.Options{Scheme: g.admin.Scheme()})
	if err != nil {
		g.t.Fatal(err)
	}
	return &person{Client: own, guarded: g, name: name}
}

// may grants a person a permission in every namespace, and waits until the API
// server enforces it.
func (p *person) may(verb, group, resource, name string) {
	p.guarded.t.Helper()
	rule := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
	if name != anyResource {
		rule.ResourceNames = []string{name}
	}
	meta := metav1.ObjectMeta{GenerateName: "test-"}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}
	if err := p.guarded.admin.Create(p.guarded.t.Context(), role); err != nil {
		p.guarded.t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: p.name}},
	}
	if err := p.guarded.admin.Create(p.guarded.t.Context(), binding); err != nil {
		p.guarded.t.Fatal(err)
	}
	p.guarded.eventually(fmt.Sprintf("%s may %s %s", p.name, verb, resource), func(ctx context.Context) error {
		resource, subresource, _ := strings.Cut(resource, "/")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: shop, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
			},
		}}
		if err := p.Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return fmt.Errorf("denied: %s", review.Status.Reason)
		}
		return nil
	})
}

// editor is a person who may do everything that users do with these kinds, and
// nothing else.
func (g *guarded) editor(name string) *person {
	g.t.Helper()
	editor := g.person(name)
	for _, verb := range []string{"get", "create", "update", "delete"} {
		editor.may(verb, "propagation.karmada-direct.io", "directpropagations", anyResource)
		editor.may(verb, "propagation.karmada-direct.io", "clusterdirectpropagations", anyResource)
		editor.may(verb, "work.karmada.io", "works", anyResource)
	}
	editor.may("update", "work.karmada.io", "works/status", anyResource)
	editor.may("update", "propagation.karmada-direct.io", "directpropagations/status", anyResource)
	return editor
}

func allowed(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: refused: %v", what, err)
	}
}

func forbidden(t *testing.T, what string, err error, message string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), message) {
		t.Errorf("%s: the error is %v, want Forbidden with %q", what, err, message)
	}
}

func workIn(namespace string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, GenerateName: "web-", Labels: map[string]string{"own": "label"},
		Finalizers: []string{"karmada.io/execution-controller"},
	}}
}

func markedWork(namespace string) *workv1alpha1.Work {
	work := workIn(namespace)
	work.Labels[propagationv1alpha1.OwnerUIDLabel] = "1"
	work.Annotations = map[string]string{propagationv1alpha1.OwnerNameAnnotation: "web"}
	return work
}

func propagationOf(apiVersion, kind, name string) *propagationv1alpha1.DirectPropagation {
	return &propagationv1alpha1.DirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, GenerateName: "web-"},
		Spec: propagationv1alpha1.PropagationSpec{
			Resource: propagationv1alpha1.ResourceReference{APIVersion: apiVersion, Kind: kind, Name: name},
			Clusters: []propagationv1alpha1.TargetCluster{{Name: "member1"}},
		},
	}
}

func clusterPropagationOf(apiVersion, kind, name string) *propagationv1alpha1.ClusterDirectPropagation {
	return &propagationv1alpha1.ClusterDirectPropagation{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"}, Spec: propagationOf(apiVersion, kind, name).Spec,
	}
}

func TestGuardrails(t *testing.T) {
	g := startGuarded(t)
	t.Run("OnlyTheControllerMarksWorks", func(t *testing.T) { onlyTheControllerMarksWorks(t, g) })
	t.Run("OthersUpdateWorksWithoutTheMarks", func(t *testing.T) { othersUpdateWorksWithoutTheMarks(t, g) })
	t.Run("SecretsNeedGet", func(t *testing.T) { secretsNeedGet(t, g) })
	t.Run("RolesNeedEscalateAndBindingsBind", func(t *testing.T) { rolesNeedEscalateAndBindingsBind(t, g) })
	t.Run("UpdatesThatGrantNothingAreNotChecked", func(t *testing.T) { updatesThatGrantNothingAreNotChecked(t, g) })
	t.Run("OnlyTheControllerSavesRevisions", func(t *testing.T) { onlyTheControllerSavesRevisions(t, g) })
	t.Run("ApprovalsCannotBeAvoided", func(t *testing.T) { approvalsCannotBeAvoided(t, g) })
	t.Run("AbandonAndApproveAreVerbs", func(t *testing.T) { abandonAndApproveAreVerbs(t, g) })
	t.Run("ThousandsOfClustersAreAffordable", func(t *testing.T) { thousandsOfClustersAreAffordable(t, g) })
}

func onlyTheControllerMarksWorks(t *testing.T, g *guarded) {
	controller, tenant := g.person(controllerUser), g.editor("tenant")
	controller.may("create", "work.karmada.io", "works", anyResource)
	root := g.person("root", "system:masters")
	onlyLabel, onlyAnnotation := markedWork(shop), markedWork(shop)
	onlyLabel.Annotations, onlyAnnotation.Labels = nil, nil
	for _, namespace := range []string{shop, executionSpace} {
		allowed(t, "the controller in "+namespace, controller.Create(t.Context(), markedWork(namespace)))
		for _, other := range []*person{tenant, root} {
			forbidden(t, other.name+" in "+namespace, other.Create(t.Context(), markedWork(namespace)), `of propagation.karmada-direct.io on Works; user "`+other.name+`"`)
			allowed(t, other.name+" without marks", other.Create(t.Context(), workIn(namespace)))
		}
	}
	forbidden(t, "a label alone", tenant.Create(t.Context(), onlyLabel), "only the controller may set, change or remove labels")
	forbidden(t, "an annotation alone", tenant.Create(t.Context(), onlyAnnotation), "only the controller may set, change or remove annotations")
}

func othersUpdateWorksWithoutTheMarks(t *testing.T, g *guarded) {
	controller, karmada := g.person(controllerUser), g.editor("system:karmada:controller")
	work := markedWork(executionSpace)
	allowed(t, "the controller", controller.Create(t.Context(), work))
	for _, change := range []struct {
		name    string
		mutate  func(*workv1alpha1.Work)
		refused string
	}{
		{"a label of its own", func(w *workv1alpha1.Work) { w.Labels["work.karmada.io/other"] = "set" }, ""},
		{"an annotation of its own", func(w *workv1alpha1.Work) { w.Annotations["work.karmada.io/other"] = "set" }, ""},
		{"the spec", func(w *workv1alpha1.Work) { w.Spec.SuspendDispatching = new(bool) }, ""},
		{"a mark is changed", func(w *workv1alpha1.Work) { w.Labels[propagationv1alpha1.OwnerUIDLabel] = "2" }, "labels"},
		{"a mark is removed", func(w *workv1alpha1.Work) { delete(w.Labels, propagationv1alpha1.OwnerUIDLabel) }, "labels"},
		{"all labels are removed", func(w *workv1alpha1.Work) { w.Labels = nil }, "labels"},
		{"a mark is added", func(w *workv1alpha1.Work) { w.Annotations[propagationv1alpha1.OwnerKindAnnotation] = "x" }, "annotations"},
		{"an annotation is changed", func(w *workv1alpha1.Work) { w.Annotations[propagationv1alpha1.OwnerNameAnnotation] = "x" }, "annotations"},
		{"all annotations are removed", func(w *workv1alpha1.Work) { w.Annotations = nil }, "annotations"},
	} {
		changed := work.DeepCopy()
		change.mutate(changed)
		err := karmada.Update(t.Context(), changed)
		if change.refused != "" {
			forbidden(t, change.name, err, "only the controller may set, change or remove "+change.refused)
			continue
		}
		allowed(t, change.name, err)
		work = changed
	}
	work.Status.Conditions = []metav1.Condition{{Type: "Applied", Status: "True", Reason: "AppliedSuccessful", LastTransitionTime: metav1.Now()}}
	allowed(t, "the status", karmada.Status().Update(t.Context(), work))
	allowed(t, "deletion", karmada.Delete(t.Context(), work))
	allowed(t, "reading it again", karmada.Get(t.Context(), client.ObjectKeyFromObject(work), work))
	work.Finalizers = nil
	allowed(t, "the finalizer", karmada.Update(t.Context(), work))
	if err := karmada.Get(t.Context(), client.ObjectKeyFromObject(work), work); !apierrors.IsNotFound(err) {
		t.Errorf("the Work is still there: %v", err)
	}
}

func secretsNeedGet(t *testing.T, g *guarded) {
	editor := g.editor("without-secrets")
	const message = `spec.resource names a Secret: user "without-secrets" needs the permission to get secrets "login" in namespace "shop"`
	settings := propagationOf("v1", "ConfigMap", "login")
	allowed(t, "a ConfigMap", editor.Create(t.Context(), settings))
	forbidden(t, "a Secret", editor.Create(t.Context(), propagationOf("v1", "Secret", "login")), message)
	settings.Spec.Resource.Kind = "Secret"
	forbidden(t, "an update to a Secret", editor.Update(t.Context(), settings.DeepCopy()), message)
	editor.may("get", "", "secrets", "login")
	allowed(t, "a Secret that may be read", editor.Create(t.Context(), propagationOf("v1", "Secret", "login")))
	allowed(t, "an update to it", editor.Update(t.Context(), settings))
	forbidden(t, "another Secret", editor.Create(t.Context(), propagationOf("v1", "Secret", "other")), `get secrets "other"`)
}

func rolesNeedEscalateAndBindingsBind(t *testing.T, g *guarded) {
	const group = "rbac.authorization.k8s.io"
	for i, test := range []struct {
		object      client.Object
		permissions [][3]string // verb, resource, name
		messages    []string
	}{
		{
			propagationOf(group+"/v1", "Role", "reader"), [][3]string{{"escalate", "roles", "reader"}},
			[]string{`escalate roles.rbac.authorization.k8s.io "reader" in namespace "shop"`},
		}, {
			propagationOf(group+"/v1", "RoleBinding", "reader"), [][3]string{{"bind", "clusterroles", ""}, {"bind", "roles", ""}},
			[]string{`bind clusterroles.rbac.authorization.k8s.io in namespace "shop"`, `bind roles.rbac.authorization.k8s.io in namespace "shop"`},
		}, {
			clusterPropagationOf(group+"/v1", "ClusterRole", "reader"), [][3]string{{"escalate", "clusterroles", "reader"}},
			[]string{`escalate clusterroles.rbac.authorization.k8s.io "reader"`},
		}, {
			clusterPropagationOf(group+"/v1beta1", "ClusterRoleBinding", "reader"), [][3]string{{"bind", "clusterroles", ""}},
			[]string{`bind clusterroles.rbac.authorization.k8s.io`},
		},
	} {
		editor := g.editor(fmt.Sprintf("grants-%d", i))
		for j, permission := range test.permissions {
			object, _ := test.object.DeepCopyObject().(client.Object)
			forbidden(t, test.messages[j], editor.Create(t.Context(), object), fmt.Sprintf("user %q needs the permission to %s", editor.name, test.messages[j]))
			editor.may(permission[0], group, permission[1], permission[2])
		}
		allowed(t, test.messages[0], editor.Create(t.Context(), test.object))
	}
}

func updatesThatGrantNothingAreNotChecked(t *testing.T, g *guarded) {
	author, other := g.editor("author"), g.editor("other")
	author.may("get", "", "secrets", anyResource)
	object := propagationOf("v1", "Secret", "login")
	allowed(t, "the author", author.Create(t.Context(), object))
	object.Labels = map[string]string{"team": "shop"}
	allowed(t, "a label", other.Update(t.Context(), object))
	object.Spec.Suspension = propagationv1alpha1.Suspension{Dispatching: ptr.To(true)}
	allowed(t, "a suspension", other.Update(t.Context(), object))
	object.Status.ObservedGeneration = ptr.To(object.Generation)
	allowed(t, "the status", other.Status().Update(t.Context(), object))
	farther := object.DeepCopy()
	farther.Spec.Clusters = append(farther.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: "member2"})
	forbidden(t, "another cluster", other.Update(t.Context(), farther), `needs the permission to get secrets "login"`)
	allowed(t, "another cluster, by the author", author.Update(t.Context(), farther))
	// Without an account, the permissions of the controller apply.
	confined := farther.DeepCopy()
	confined.Spec.ServiceAccountName = "deployer"
	allowed(t, "an account, by the author", author.Update(t.Context(), confined))
	freed := confined.DeepCopy()
	freed.Spec.ServiceAccountName = ""
	forbidden(t, "without the account", other.Update(t.Context(), freed), `needs the permission to get secrets "login"`)
}

func abandonAndApproveAreVerbs(t *testing.T, g *guarded) {
	for _, test := range []struct{ key, verb string }{{propagationv1alpha1.AbandonUnreachableAnnotation, "abandon"}, {propagationv1alpha1.RolloutApproveAnnotation, "approve"}} {
		editor := g.editor("may-not-" + test.verb)
		for _, object := range []client.Object{propagationOf("v1", "ConfigMap", "settings"), clusterPropagationOf("v1", "Namespace", "shop")} {
			allowed(t, "without the annotation", editor.Create(t.Context(), object))
			object.SetAnnotations(map[string]string{test.key: "true", "propagation.karmada-direct.io/retry": "now"})
			message := fmt.Sprintf("annotation %s: user %q needs the permission to %s ", test.key, editor.name, test.verb)
			forbidden(t, "it is set", editor.Update(t.Context(), object.DeepCopyObject().(client.Object)), message)
			holder := g.editor(fmt.Sprintf("may-%s-%T", test.verb, object))
			holder.may(test.verb, "propagation.karmada-direct.io", "directpropagations", anyResource)
			holder.may(test.verb, "propagation.karmada-direct.io", "clusterdirectpropagations", object.GetName())
			allowed(t, "it is set by whoever may", holder.Update(t.Context(), object))
			object.SetLabels(map[string]string{"team": "shop"})
			allowed(t, "it stays", editor.Update(t.Context(), object))
			object.GetAnnotations()[test.key] = "other"
			forbidden(t, "it is changed", editor.Update(t.Context(), object.DeepCopyObject().(client.Object)), message)
			object.SetAnnotations(map[string]string{"propagation.karmada-direct.io/retry": "again"})
			allowed(t, "it is removed", editor.Update(t.Context(), object))
		}
	}
	finalizerNeedsAbandon(t, g)
}

func finalizerNeedsAbandon(t *testing.T, g *guarded) {
	editor, controller := g.editor("keeps-the-finalizer"), g.editor(controllerUser)
	for _, remover := range []*person{controller, g.person("root-abandons", "system:masters")} {
		object := propagationOf("v1", "ConfigMap", "settings")
		object.Finalizers = []string{propagationv1alpha1.CleanupFinalizer}
		allowed(t, "creation", editor.Create(t.Context(), object))
		object.Finalizers = nil
		forbidden(t, "the finalizer is removed", editor.Update(t.Context(), object.DeepCopy()), `needs the permission to abandon directpropagations.propagation.karmada-direct.io "`+object.Name+`" in namespace "shop"`)
		allowed(t, "the finalizer is removed by "+remover.name, remover.Update(t.Context(), object))
	}
}

// The cost of an expression must not grow with the number of clusters, or with what
// others have put on a Work.
func thousandsOfClustersAreAffordable(t *testing.T, g *guarded) {
	author := g.editor("author-of-many")
	author.may("get", "", "secrets", anyResource)
	author.may("bind", "rbac.authorization.k8s.io", "roles", anyResource)
	author.may("bind", "rbac.authorization.k8s.io", "clusterroles", anyResource)
	for _, object := range []*propagationv1alpha1.DirectPropagation{propagationOf("v1", "Secret", "login"), propagationOf("rbac.authorization.k8s.io/v1", "RoleBinding", "reader")} {
		object.Spec.Clusters = nil
		for i := range 5000 {
			object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: fmt.Sprintf("member-%d", i)})
		}
		allowed(t, "5,000 clusters", author.Create(t.Context(), object))
		object.Spec.Rollout = manyStages()
		allowed(t, "20 stages of 2,000 clusters", author.Update(t.Context(), object))
		object.Spec.Clusters[4999].Name = "other"
		allowed(t, "the last of 5,000 clusters", author.Update(t.Context(), object))
	}
	work := workIn(shop)
	work.Annotations = map[string]string{}
	for i := range 9000 {
		work.Annotations[fmt.Sprintf("propagation.karmada/%d", i)] = ""
	}
	if err := author.Create(t.Context(), work); err != nil {
		t.Fatalf("a Work with 9,000 annotations, which must be there for what follows: %v", err)
	}
	allowed(t, "its deletion", author.Delete(t.Context(), work))
	allowed(t, "reading it again", author.Get(t.Context(), client.ObjectKeyFromObject(work), work))
	work.Finalizers = nil
	allowed(t, "its finalizer", author.Update(t.Context(), work))
}
