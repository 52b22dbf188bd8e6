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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// settled is how long a test watches for something that must not happen.
const settled = 5 * time.Second

// propagatesClusterWide creates a ClusterDirectPropagation to all members, which is
// deleted when the test ends.
func (ns *Namespace) propagatesClusterWide(reference propagationv1alpha1.ResourceReference) *propagationv1alpha1.ClusterDirectPropagation {
	ns.T.Helper()
	object := &propagationv1alpha1.ClusterDirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Name: ns.Name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: reference, Clusters: testbed.Targets(testbed.NamesOf(members)...)},
	}
	if err := karmada.Create(ns.Ctx, object); err != nil {
		ns.T.Fatal(err)
	}
	ns.T.Cleanup(func() { clusterPropagationGoes(ns.T, object) })
	return object
}

// conflictsEverywhere waits until every row of a ClusterDirectPropagation reports a
// conflict.
func (ns *Namespace) conflictsEverywhere(object *propagationv1alpha1.ClusterDirectPropagation) {
	ns.T.Helper()
	ns.Eventually("every row reports a conflict", func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if len(object.Status.Clusters) != len(members) {
			return fmt.Errorf("%d rows", len(object.Status.Clusters))
		}
		for _, row := range object.Status.Clusters {
			if row.Reason != propagationv1alpha1.ReasonConflict {
				return fmt.Errorf("%s: %s: %s", row.Name, row.Reason, row.Message)
			}
		}
		return nil
	})
}

// A Namespace that Karmada synchronizes belongs to Karmada. An object that names it
// says so, and does not remove anything when it is deleted.
func TestNamespaceThatKarmadaSynchronizes(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	treasure := testbed.ConfigMap("treasure", "made on the member")
	treasure.Namespace = ns.Name
	for _, member := range members {
		if err := member.Create(ns.Ctx, treasure.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	object := ns.propagatesClusterWide(testbed.Reference("v1", "Namespace", ns.Name))
	ns.conflictsEverywhere(object)
	clusterPropagationGoes(t, object)
	ns.staysOnMembers(treasure)
}

// staysOnMembers checks that an object that was created on the members stays there,
// and then removes it.
func (ns *Namespace) staysOnMembers(object client.Object) {
	ns.T.Helper()
	ns.Throughout(settled, "the members keep "+testbed.Describe(object), func(ctx context.Context) error {
		for _, member := range members {
			found, err := member.Find(ctx, object)
			if err != nil || found == nil || found.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s: %v: %w", member, found, err)
			}
		}
		return nil
	})
	for _, member := range members {
		if err := member.Delete(ns.Ctx, object.DeepCopyObject().(client.Object)); err != nil {
			ns.T.Error(err)
		}
	}
}

// A Namespace that Karmada starts to synchronize after it was propagated belongs to
// Karmada from then on.
func TestNamespaceThatKarmadaTakesOver(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	name := ns.Name + "-own"
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"}}}
	if err := karmada.Create(ns.Ctx, own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = karmada.Delete(context.Background(), own) })
	object := ns.propagatesClusterWide(testbed.Reference("v1", "Namespace", name))
	ns.Eventually("the Namespace is propagated", func(ctx context.Context) error { return clusterIsReady(ctx, object) })
	treasure := testbed.ConfigMap("treasure", "made on the member")
	treasure.Namespace = name
	for _, member := range members {
		if err := member.Create(ns.Ctx, treasure.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	if err := testbed.Change(ns.Ctx, karmada, own, func(own *corev1.Namespace) { own.Labels = map[string]string{"taken": "over"} }); err != nil {
		t.Fatal(err)
	}
	ns.conflictsEverywhere(object)
	clusterPropagationGoes(t, object)
	ns.staysOnMembers(treasure)
}
