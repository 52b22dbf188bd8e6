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
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// A kind that nobody serves yet is picked up when it is installed on the
// control plane, and on a member when it is installed there. When it vanishes
// from the control plane, members keep what they have; when it is back, so is
// everything else.
func TestKindComesAndGoes(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	group := "e2e-" + rand.String(5) + ".example.org"
	kind := widgetCRD(group)
	t.Cleanup(func() { uninstall(t, kind, karmada, member1.client, member2.client) })
	widget := custom(group+"/v1", "Widget", "widget", map[string]any{"size": "large"})
	p := ns.Propagates("widget", widget).To(member1, member2)
	unknown := fmt.Sprintf("spec.resource: the Karmada API server does not serve kind %q in %q; check the spelling, name a version that is served, or install its CustomResourceDefinition there", "Widget", group+"/v1")
	isStalled(t, p.Says(propagationv1alpha1.ReasonResourceKindNotFound, unknown), propagationv1alpha1.ReasonResourceKindNotFound, unknown)

	ns.installs(kind, karmada)
	missing := fmt.Sprintf("Widget %s/widget does not exist in the Karmada control plane", ns.Name)
	p.Says(propagationv1alpha1.ReasonResourceNotFound, missing)
	ns.Has(widget.DeepCopy())
	notThere := fmt.Sprintf("the cluster does not serve %s/v1 Widget; install it there", group)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonAPINotEnabled, notThere)
	}
	ns.installs(kind, member1.client)
	p.RowSays(member1.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
	p.RowSays(member2.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonAPINotEnabled, notThere)
	ns.installs(kind, member2.client)
	p.BecomesReady()

	// The control plane loses the kind, and with it every object of the kind.
	uninstall(t, kind, karmada)
	isStalled(t, p.Says(propagationv1alpha1.ReasonResourceKindNotFound, unknown), propagationv1alpha1.ReasonResourceKindNotFound, unknown)
	widget.SetNamespace(ns.Name)
	ns.throughout(5*time.Second, "the members keep it", func(ctx context.Context) error { return run(ctx, widget, members...) })

	ns.installs(kind, karmada)
	p.Says(propagationv1alpha1.ReasonResourceNotFound, missing)
	changed := custom(group+"/v1", "Widget", "widget", map[string]any{"size": "small"})
	ns.Has(changed)
	p.BecomesReady()
	p.IsDeleted()
	ns.comeToLack(changed, members...)
}

func widgetCRD(group string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// installs installs a CRD on a plane and waits until it is served there. The
// controller may propagate it.
func (ns *Namespace) installs(kind *apiextensionsv1.CustomResourceDefinition, plane client.Client) {
	ns.t.Helper()
	if plane == karmada {
		ns.controllerMayPropagate(kind)
	}
	ns.serves(kind, plane)
}

func (ns *Namespace) serves(kind *apiextensionsv1.CustomResourceDefinition, plane client.Client) {
	ns.t.Helper()
	installed := kind.DeepCopy()
	if err := plane.Create(ns.ctx, installed); err != nil {
		ns.t.Fatalf("installing %s: %v", kind.Name, err)
	}
	ns.eventually(kind.Name+" is served", func(ctx context.Context) error {
		if err := plane.Get(ctx, client.ObjectKeyFromObject(installed), installed); err != nil {
			return err
		}
		for _, condition := range installed.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				// Established is said a moment before the first request is served.
				listed := custom(kind.Spec.Group+"/v1", "Widget", "any", nil)
				listed.SetNamespace(ns.Name)
				err := plane.Get(ctx, client.ObjectKeyFromObject(listed), listed)
				if apierrors.IsNotFound(err) && strings.Contains(err.Error(), `"any" not found`) {
					return nil
				}
				return fmt.Errorf("it is established, but: %w", err)
			}
		}
		return errors.New("it is not established")
	})
}

// controllerMayPropagate lets the controller propagate a kind of users' own, as
// docs/install.md says.
func (ns *Namespace) controllerMayPropagate(kind *apiextensionsv1.CustomResourceDefinition) {
	ns.t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: kind.Name, Labels: map[string]string{"rbac.karmada-direct.io/aggregate-to-propagated": "true"}},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{kind.Spec.Group}, Resources: []string{kind.Spec.Names.Plural}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{kind.Spec.Group}, Resources: []string{kind.Spec.Names.Plural + "/status"}, Verbs: []string{"update"}},
		},
	}
	if err := karmada.Create(ns.ctx, role); err != nil && !apierrors.IsAlreadyExists(err) {
		ns.t.Fatalf("creating ClusterRole %s: %v", role.Name, err)
	}
	ns.t.Cleanup(func() {
		if err := karmada.Delete(context.Background(), role); client.IgnoreNotFound(err) != nil {
			ns.t.Error(err)
		}
	})
	ns.eventually("the controller may propagate "+kind.Name, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:karmada-system:karmada-direct",
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: kind.Spec.Group, Resource: kind.Spec.Names.Plural, Subresource: "status", Verb: "update",
			},
		}}
		if err := karmada.Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return errors.New("it may not")
		}
		return nil
	})
}

// uninstall removes a CRD from planes and waits until it is gone.
func uninstall(t *testing.T, kind *apiextensionsv1.CustomResourceDefinition, planes ...client.Client) {
	t.Helper()
	ctx := context.Background()
	for _, plane := range planes {
		err := awaits(ctx, kind.Name+" is gone", func(ctx context.Context) error {
			if err := plane.Delete(ctx, kind.DeepCopy()); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
