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

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// Two and five replicas become Available on the members, and their sum appears on
// the control plane, so that kubectl rollout status works there.
func TestReplicasAndRollout(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := testbed.Deployment("web", "web:1", 1)
	ns.Has(web)
	p := ns.Propagates("web", web).With(func(object *DirectPropagation) {
		object.Spec.Clusters[0].Replicas, object.Spec.Clusters[1].Replicas = ptr.To[int32](2), ptr.To[int32](5)
	}).To(members...)
	for i, member := range members {
		p.RowSays(member.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
		have := &appsv1.Deployment{}
		if err := member.Get(ns.Ctx, client.ObjectKeyFromObject(web), have); err != nil {
			t.Fatal(err)
		}
		if want := []int32{2, 5}[i]; *have.Spec.Replicas != want || have.Status.AvailableReplicas != want {
			t.Errorf("%s: %d of %d replicas available, want %d", member, have.Status.AvailableReplicas, *have.Spec.Replicas, want)
		}
	}
	ns.Eventually("the resource says that both have what it asks for", func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(web), web); err != nil {
			return err
		}
		if web.Status.AvailableReplicas != *web.Spec.Replicas || web.Status.ObservedGeneration != web.Generation {
			return fmt.Errorf("status: %+v", web.Status)
		}
		return nil
	})

	same := testbed.Deployment("same", "web:1", 1)
	ns.Has(same)
	ns.Propagates("same", same).To(members...).BecomesReady()
	ns.kubectl("", "rollout", "status", "deployment/same", "--timeout=60s").has("successfully rolled out")
	testbed.Changes(ns.Namespace, same, func(same *appsv1.Deployment) { same.Spec.Template.Spec.Containers[0].Image = "web:2" })
	ns.kubectl("", "rollout", "status", "deployment/same", "--timeout=60s").has("successfully rolled out")
	ns.NowRun(same, members...)

	settings := testbed.ConfigMap("settings", "no replicas")
	ns.Has(settings)
	none := ns.Propagates("settings", settings).With(func(object *DirectPropagation) {
		object.Spec.Clusters[1].Replicas = ptr.To[int32](2)
	}).To(members...)
	none.RowSays(member1.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
	none.RowSays(member2.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonRenderFailed,
		"spec.clusters, replicas of member2: Karmada's resource interpreter cannot revise the replicas of v1 ConfigMap; leave replicas out, or write a ResourceInterpreterCustomization with replicaRevision")
}
