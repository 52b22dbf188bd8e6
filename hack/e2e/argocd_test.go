//go:build e2e && e2e_argocd

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
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// shopInGit returns a Deployment and its DirectPropagation to both members.
func shopInGit(image, wave string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
  annotations: {argocd.argoproj.io/sync-wave: %[2]q}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: shop, image: %[1]q}]
---
apiVersion: propagation.karmada-direct.io/v1alpha1
kind: DirectPropagation
metadata:
  name: shop
  annotations: {argocd.argoproj.io/sync-wave: %[2]q}
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, name: shop}
  clusters: [{name: member1}, {name: member2}]
`, image, wave)
}

// settingsInGit returns a ConfigMap and its DirectPropagation to both members.
func settingsInGit(says, wave string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  annotations: {argocd.argoproj.io/sync-wave: %[2]q}
data: {says: %[1]q}
---
apiVersion: propagation.karmada-direct.io/v1alpha1
kind: DirectPropagation
metadata:
  name: settings
  annotations: {argocd.argoproj.io/sync-wave: %[2]q}
spec:
  resource: {apiVersion: v1, kind: ConfigMap, name: settings}
  clusters: [{name: member1}, {name: member2}]
`, says, wave)
}

// membersRun returns a check that the members run what is in Git: the image of the
// shop, rolled out, and the settings. An empty string means that Git does not
// contain the object.
func (ns *Namespace) membersRun(image, says string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, member := range members {
			shop := &appsv1.Deployment{}
			err := member.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "shop"}, shop)
			switch {
			case image == "" && apierrors.IsNotFound(err):
			case image == "" || err != nil:
				return fmt.Errorf("%s: has the shop: %v, %w", member, err == nil, err)
			case shop.Spec.Template.Spec.Containers[0].Image != image:
				return fmt.Errorf("%s runs %s, not %s", member, shop.Spec.Template.Spec.Containers[0].Image, image)
			default:
				if err := testbed.IsAvailable(shop); err != nil {
					return fmt.Errorf("%s: %w", member, err)
				}
			}
			settings := &corev1.ConfigMap{}
			err = member.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "settings"}, settings)
			switch {
			case says == "" && apierrors.IsNotFound(err):
			case says == "" || err != nil:
				return fmt.Errorf("%s: has the settings: %v, %w", member, err == nil, err)
			case settings.Data["says"] != says:
				return fmt.Errorf("%s says %q, not %q", member, settings.Data["says"], says)
			}
		}
		return nil
	}
}

// A sync wave must not start before the members have confirmed the previous one. The
// agent of one member does not respond, so wave 0 cannot be confirmed and wave 1
// must wait, both for new objects and for changed ones.
//
// The test runs before the parallel tests because it stops a process that they need.
func TestArgoCDWaves(t *testing.T) {
	ns := newNamespace(t)
	ns.NoteWork(testbed.Reference("apps/v1", "Deployment", "shop"))
	ns.NoteWork(testbed.Reference("v1", "ConfigMap", "settings"))
	var app *Application
	for _, wave := range []struct{ image, says, before string }{
		{image: "nginx:1.27", says: "hello", before: ""},
		{image: "nginx:1.28", says: "good day", before: "nginx:1.27"},
	} {
		resume := pause(t, "member2-karmada-agent")
		files := map[string]string{"settings.yaml": settingsInGit(wave.says, "0"), "shop.yaml": shopInGit(wave.image, "1")}
		if app == nil {
			app = ns.newApplication(files, ns.membersRun(wave.image, wave.says))
		} else {
			app.Commits(files, ns.membersRun(wave.image, wave.says))
		}
		waits := func(status applicationStatus) bool {
			return status.OperationState.Phase == "Running" &&
				strings.Contains(status.OperationState.Message, "waiting for healthy state of propagation.karmada-direct.io/DirectPropagation/settings")
		}
		app.becomes("waiting for the settings", waits)
		// The row of member1 says that it has them, but that is not enough.
		settings := testbed.ConfigMap("settings", wave.says)
		settings.Namespace = ns.Name
		ns.ComeToRun(settings, member1)
		ns.Eventually("member1 has confirmed", func(context.Context) error {
			object := named(&DirectPropagation{}, "settings")
			ns.versionOf(object)
			if row := testbed.RowOf(object, "member1"); row.Applied != metav1.ConditionTrue {
				return fmt.Errorf("its row is %+v, not applied", row)
			}
			return nil
		})
		app.looksAgain("normal")
		if status := app.becomes("still waiting", waits); status.Health.Status == "Healthy" || status.Health.Status == "Degraded" {
			t.Errorf("the Application is %v", status)
		}
		ns.nextWaveHasNotBegun(wave.before)

		resume()
		app.Becomes("Healthy")
		app.wasFirst("Progressing")
	}
	ns.bearsNothingOfArgoCD(&corev1.ConfigMapList{}, &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{})
}

// nextWaveHasNotBegun checks that the shop, which belongs to wave 1, has the given
// image or, if that is empty, does not exist.
func (ns *Namespace) nextWaveHasNotBegun(before string) {
	ns.T.Helper()
	shop := &appsv1.Deployment{}
	err := karmada.Get(ns.Ctx, ns.Key("shop"), shop)
	switch {
	case before == "" && !apierrors.IsNotFound(err):
		ns.T.Errorf("wave 1 began before wave 0 was confirmed: reading the shop: %v", err)
	case before != "" && (err != nil || shop.Spec.Template.Spec.Containers[0].Image != before):
		ns.T.Errorf("wave 1 began before wave 0 was confirmed: the shop is %v, %v", shop.Spec, err)
	}
}

// A Deployment in Git is created, changed, repaired after somebody else has edited
// it, and deleted from the members when it is deleted from Git.
func TestArgoCDDelivers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.NoteWork(testbed.Reference("apps/v1", "Deployment", "shop"))
	app := ns.newApplication(map[string]string{"shop.yaml": shopInGit("nginx:1.27", "0")}, ns.membersRun("nginx:1.27", ""))
	app.Becomes("Healthy")
	app.wasFirst("Progressing")
	ns.bearsNothingOfArgoCD(&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{})

	app.Commits(map[string]string{"shop.yaml": shopInGit("nginx:1.28", "0")}, ns.membersRun("nginx:1.28", ""))
	app.Becomes("Healthy")
	app.wasFirst("Progressing")
	ns.nothingMore(app)

	ns.isRepairedByArgoCD(app)
	app.Becomes("Healthy")

	app.Commits(map[string]string{"shop.yaml": "", "settings.yaml": settingsInGit("hello", "0")}, ns.membersRun("", "hello"))
	app.Becomes("Healthy")
	ns.Eventually("the members lack what was deleted from Git", ns.membersRun("", "hello"))
	if err := karmada.Get(t.Context(), ns.Key("shop"), &DirectPropagation{}); !apierrors.IsNotFound(err) {
		t.Errorf("the DirectPropagation that was deleted from Git: %v", err)
	}
}

// isRepairedByArgoCD edits objects that come from Git and waits until Argo CD has
// reverted the edits.
func (ns *Namespace) isRepairedByArgoCD(app *Application) {
	ns.T.Helper()
	app.ClaimsNothing()
	shop := named(&appsv1.Deployment{}, "shop")
	shop.Namespace = ns.Name
	testbed.Changes(ns.Namespace, shop, func(shop *appsv1.Deployment) { shop.Spec.Template.Spec.Containers[0].Image = "nginx:by-hand" })
	byHand := shop.Generation
	ns.Eventually("Argo CD has repaired the shop", func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(shop), shop); err != nil {
			return err
		}
		if image := shop.Spec.Template.Spec.Containers[0].Image; image != "nginx:1.28" || shop.Generation == byHand {
			return fmt.Errorf("its image is %s", image)
		}
		return nil
	})
	object := &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "shop"}}
	testbed.Changes(ns.Namespace, object, func(object *DirectPropagation) { object.Spec.Clusters = testbed.Targets("member1") })
	byHand = object.Generation
	ns.Eventually("Argo CD has repaired the DirectPropagation", func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if len(object.Spec.Clusters) != 2 || object.Generation == byHand {
			return fmt.Errorf("its clusters are %v", object.Spec.Clusters)
		}
		return nil
	})
	ns.Eventually("the members run what is in Git", ns.membersRun("nginx:1.28", ""))
}

// nothingMore checks that Argo CD finds nothing to do, even after a hard refresh,
// and that nothing is written meanwhile.
func (ns *Namespace) nothingMore(app *Application) {
	ns.T.Helper()
	before := app.Becomes("Healthy")
	shop, object := named(&appsv1.Deployment{}, "shop"), named(&DirectPropagation{}, "shop")
	versions := ns.versionOf(shop) + " " + ns.versionOf(object)
	for range 3 {
		app.looksAgain("hard")
		after := app.Becomes("Healthy")
		if len(after.History) != len(before.History) || after.OperationState.StartedAt != before.OperationState.StartedAt {
			ns.T.Errorf("Argo CD has synced again with nothing to do:\nbefore: %v\nafter: %v", before, after)
		}
	}
	if now := ns.versionOf(shop) + " " + ns.versionOf(object); now != versions {
		ns.T.Errorf("the Deployment and the DirectPropagation had versions %s, and now have %s", versions, now)
	}
}

// One member refuses an image. After a while, the Application is Degraded and names
// the member.
func TestArgoCDBadImage(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct {
		name string
		// refuses is the kind that member1 refuses if it has the image, and field is the
		// path of its Pod spec.
		refuses, field string
		says           string
	}{
		{name: "no Pod with the image", refuses: "pods", field: "object.spec", says: "member1: Unhealthy"},
		{name: "no Deployment with the image", refuses: "deployments", field: "object.spec.template.spec", says: "member1: ApplyFailed"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			ns.NoteWork(testbed.Reference("apps/v1", "Deployment", "shop"))
			ns.refuses(member1, bad.refuses, bad.field+`.containers.all(c, c.image != "nginx:bad")`)
			app := ns.newApplication(map[string]string{"shop.yaml": shopInGit("nginx:1.27", "0")}, ns.membersRun("nginx:1.27", ""))
			app.Becomes("Healthy")

			never := func(context.Context) error { return errors.New("no member can run it") }
			app.Commits(map[string]string{"shop.yaml": shopInGit("nginx:bad", "0")}, never)
			app.Becomes("Progressing")
			object := &DirectPropagation{}
			ns.Eventually("the trouble has lasted", func(context.Context) error {
				ns.versionOf(named(object, "shop"))
				row := testbed.RowOf(object, "member1")
				if trouble := time.Since(row.LastTransitionTime.Time); trouble < (patienceInTests+1)*time.Second || row.Reason == propagationv1alpha1.ReasonApplied {
					return fmt.Errorf("the row has been %+v for %v", row, trouble)
				}
				return nil
			})
			// Time passes without an event, so Argo CD notices only when it refreshes.
			app.looksAgain("normal")
			status := app.Becomes("Degraded")
			message := status.messageOf("DirectPropagation")
			if !strings.HasPrefix(message, bad.says) || strings.Contains(message, "member2") {
				t.Errorf("the DirectPropagation says %q, want %q and nothing of member2", message, bad.says)
			}

			app.Commits(map[string]string{"shop.yaml": shopInGit("nginx:1.28", "0")}, ns.membersRun("nginx:1.28", ""))
			app.Becomes("Healthy")
		})
	}
}

// refuses makes a member refuse objects of this namespace that do not satisfy a CEL
// expression, as a company's policy would.
func (ns *Namespace) refuses(member *Member, resource, unless string) {
	ns.T.Helper()
	group := ""
	if resource == "deployments" {
		group = "apps"
	}
	policy, binding := ns.goodImages(group, resource, unless)
	for _, object := range []client.Object{policy, binding} {
		if err := member.Create(ns.Ctx, object); err != nil {
			ns.T.Fatalf("%s: creating %s: %v", member, testbed.Describe(object), err)
		}
		ns.T.Cleanup(func() {
			if err := member.Delete(context.Background(), object); err != nil {
				ns.T.Errorf("%s: deleting %s: %v", member, testbed.Describe(object), err)
			}
		})
	}
	// A policy takes effect shortly after it is created.
	probe := testbed.Deployment("probe", "nginx:bad", 1)
	probe.Namespace = ns.Name
	var object client.Object = probe
	if resource == "pods" {
		object = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "probe"}, Spec: probe.Spec.Template.Spec}
	}
	ns.Eventually(member.Name+" enforces the policy", func(ctx context.Context) error {
		err := member.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "images must be good") {
			return fmt.Errorf("the policy is not enforced yet: %w", err)
		}
		return nil
	})
}

// goodImages returns a policy that admits a resource of the namespace only if an
// expression is true.
func (ns *Namespace) goodImages(group, resource, unless string) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns.Name}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: unless, Message: "images must be good"}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: ns.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	return policy, binding
}
