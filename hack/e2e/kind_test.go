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
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// The controller detects a kind when it is installed on the control plane, and when
// it is installed on a member. When the kind is removed from the control plane,
// members keep what they have. When it is installed again, the propagation
// continues.
func TestKindComesAndGoes(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	group := "e2e-" + rand.String(5) + ".example.org"
	kind := testbed.NewKind(group, "Widget")
	t.Cleanup(func() { ns.Uninstalls(kind, karmada, member1.Client, member2.Client) })
	widget := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"size": "large"})
	p := ns.Propagates("widget", widget).To(member1, member2)
	unknown := fmt.Sprintf("spec.resource: the Karmada API server does not serve kind %q in %q; check the spelling, name a version that is served, or install its CustomResourceDefinition there", "Widget", group+"/v1")
	isStalled(t, p.Says(propagationv1alpha1.ReasonResourceKindNotFound, unknown), propagationv1alpha1.ReasonResourceKindNotFound, unknown)

	ns.Installs(kind, karmada)
	missing := fmt.Sprintf("Widget %s/widget does not exist in the Karmada control plane", ns.Name)
	p.Says(propagationv1alpha1.ReasonResourceNotFound, missing)
	ns.Has(widget.DeepCopy())
	notThere := fmt.Sprintf("the cluster does not serve %s/v1 Widget; install it there", group)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonAPINotEnabled, notThere)
	}
	ns.Installs(kind, member1.Client)
	p.RowSays(member1.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
	p.RowSays(member2.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonAPINotEnabled, notThere)
	ns.Installs(kind, member2.Client)
	p.BecomesReady()

	// The control plane loses the kind, and with it all its objects.
	ns.Uninstalls(kind, karmada)
	isStalled(t, p.Says(propagationv1alpha1.ReasonResourceKindNotFound, unknown), propagationv1alpha1.ReasonResourceKindNotFound, unknown)
	widget.SetNamespace(ns.Name)
	ns.Throughout(5*time.Second, "the members keep it", func(ctx context.Context) error { return testbed.Run(ctx, widget, members...) })

	ns.Installs(kind, karmada)
	p.Says(propagationv1alpha1.ReasonResourceNotFound, missing)
	changed := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"size": "small"})
	ns.Has(changed)
	p.BecomesReady()
	p.IsDeleted()
	ns.ComeToLack(changed, members...)
}
