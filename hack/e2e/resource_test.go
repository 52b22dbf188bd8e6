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
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A resource that does not exist yet is propagated when it is created. When it is
// deleted, members keep what they run, and the status says that it is missing. When
// it is created again, they get it.
func TestResourceComesAndGoes(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", "first")
	p := ns.Propagates("settings", settings).To(member1, member2)
	missing := fmt.Sprintf("ConfigMap %s/settings does not exist in the Karmada control plane", ns.Name)
	p.Says(propagationv1alpha1.ReasonResourceNotFound, missing)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonResourceNotFound, missing)
	}

	ns.Has(settings)
	first := p.BecomesReady()

	kept := settings.DeepCopy()
	ns.Loses(settings)
	p.Says(propagationv1alpha1.ReasonResourceNotFound, missing)
	ns.Throughout(3*time.Second, "the members keep it", func(ctx context.Context) error { return testbed.Run(ctx, kept, members...) })
	for _, member := range members {
		// They run the last revision, and their rows say so.
		row := testbed.RowOf(p.RowSays(member.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, ""), member.Name)
		if row.Revision != first.Status.Clusters[0].Revision {
			t.Errorf("%s: revision %s, want %s", member, row.Revision, first.Status.Clusters[0].Revision)
		}
	}

	settings = testbed.ConfigMap("settings", "second")
	ns.Has(settings)
	p.BecomesReady()
	ns.NowRun(settings, members...)

	// When the DirectPropagation is deleted too, the members remove the resource.
	ns.Loses(settings)
	p.Says(propagationv1alpha1.ReasonResourceNotFound, missing)
	p.IsDeleted()
	ns.ComeToLack(settings, members...)
}

// Somebody suspends a cluster for maintenance while the resource is missing. Karmada then
// leaves alone what the cluster runs, until the suspension ends. The other cluster is not
// affected.
func TestSuspendedWhileTheResourceIsMissing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", "as it should be")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).To(member1, member2)
	p.BecomesReady()
	kept := settings.DeepCopy()
	ns.Loses(settings)
	p.IsBecause(propagationv1alpha1.ReasonResourceNotFound)

	p.Changes(func(object *DirectPropagation) {
		object.Spec.Suspension.DispatchingOnClusters.ClusterNames = []string{member2.Name}
	})
	p.RowSays(member2.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonSuspended, "the cluster runs the current revision; changes are held back while propagation is suspended")
	p.RowSays(member1.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
	work, err := ns.Work(ns.Ctx, kept, member2)
	if err != nil {
		t.Fatal(err)
	}
	if !ptr.Deref(work.Spec.SuspendDispatching, false) {
		t.Error("the row says that changes are held back, and the Work is not suspended")
	}
	edited := kept.DeepCopy()
	testbed.Saying("edited during the maintenance")(edited)
	if err := testbed.Change(ns.Ctx, member2.Client, kept.DeepCopy(), testbed.Saying("edited during the maintenance")); err != nil {
		t.Fatal(err)
	}
	tampersOnMember(ns, member1, kept.DeepCopy(), func(settings *corev1.ConfigMap) { settings.Data = nil })
	ns.Throughout(5*time.Second, "the suspended cluster is left alone", func(ctx context.Context) error { return testbed.Run(ctx, edited, member2) })

	p.Changes(func(object *DirectPropagation) { object.Spec.Suspension = propagationv1alpha1.Suspension{} })
	ns.ComeToRun(kept, members...)
	p.RowSays(member2.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
	p.IsBecause(propagationv1alpha1.ReasonResourceNotFound)
}
