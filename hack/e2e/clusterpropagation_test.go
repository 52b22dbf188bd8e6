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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A CRD and its custom resources are propagated at the same time: users do not have
// to wait for the CRD first.
func TestCRDAndItsResources(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	group := "e2e-" + rand.String(5) + ".example.org"
	kind := testbed.NewKind(group, "Widget")
	ns.Installs(kind, karmada)
	t.Cleanup(func() { ns.Uninstalls(kind, karmada, member1.Client, member2.Client) })
	widget := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"size": "large"})
	ns.Has(widget)
	p := ns.Propagates("widget", widget).To(members...)
	direct := &propagationv1alpha1.ClusterDirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Name: kind.Name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: testbed.Reference("apiextensions.k8s.io/v1", "CustomResourceDefinition", kind.Name), Clusters: testbed.Targets(testbed.NamesOf(members)...)},
	}
	if err := karmada.Create(ns.Ctx, direct); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clusterPropagationGoes(t, direct) })
	ns.Eventually("the CRD is propagated", func(ctx context.Context) error { return clusterIsReady(ctx, direct) })
	p.BecomesReady()
	p.IsDeleted()
	ns.ComeToLack(widget, members...)
	clusterPropagationGoes(t, direct)
	for _, member := range members {
		ns.Eventually("the CRD is gone from "+member.Name, func(ctx context.Context) error {
			if err := member.Get(ctx, client.ObjectKeyFromObject(kind), kind.DeepCopy()); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it still exists: %v", err)
			}
			return nil
		})
	}

	// Each of the two kinds rejects what belongs to the other, and says so.
	wrong := ns.PropagatesReference("wrong", testbed.Reference("apiextensions.k8s.io/v1", "CustomResourceDefinition", kind.Name)).To(member1)
	wrong.Says(propagationv1alpha1.ReasonResourceScopeMismatch,
		"spec.resource: apiextensions.k8s.io/v1 CustomResourceDefinition is cluster-scoped; use a ClusterDirectPropagation for it, a DirectPropagation propagates a resource of its own namespace")
}

func clusterIsReady(ctx context.Context, object *propagationv1alpha1.ClusterDirectPropagation) error {
	if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != object.Generation {
		return fmt.Errorf("Ready: %s", testbed.Say(ready))
	}
	return nil
}

// clusterPropagationGoes deletes a ClusterDirectPropagation and waits until it is
// gone.
func clusterPropagationGoes(t *testing.T, object *propagationv1alpha1.ClusterDirectPropagation) {
	t.Helper()
	err := bed.Await(context.Background(), object.Name+" is gone", func(ctx context.Context) error {
		if err := karmada.Delete(ctx, object.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it still exists: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
