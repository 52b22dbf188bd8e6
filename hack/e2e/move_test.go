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

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// hasDeploymentPolicy creates a policy that propagates a Deployment to all members.
// If preserve is set, the Deployment stays on the members when the policy is
// deleted.
func (ns *Namespace) hasDeploymentPolicy(name string, resolution policyv1alpha1.ConflictResolution, preserve bool) *policyv1alpha1.PropagationPolicy {
	ns.T.Helper()
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: name}}
	policy.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: testbed.NamesOf(members)}
	policy.Spec.PreserveResourcesOnDeletion = &preserve
	policy.Spec.ConflictResolution = resolution
	ns.Has(policy)
	return policy
}

// An application moves from a policy to a DirectPropagation and back without
// affecting its Pods.
func TestMoveFromPolicyAndBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := testbed.Deployment("web", "web:1", 2)
	ns.Has(web)
	ns.NoteWork(testbed.ReferenceTo(web))
	policy := ns.hasDeploymentPolicy("web", policyv1alpha1.ConflictOverwrite, true)
	pods := map[*Member]map[types.UID]bool{}
	for _, member := range members {
		ns.Eventually(member.Name+" runs web", func(ctx context.Context) (err error) {
			pods[member], err = readyPods(ctx, member, ns.Name, 2)
			return err
		})
	}
	p := ns.Propagates("web", web).With(func(object *DirectPropagation) {
		object.Spec.ConflictResolution = propagationv1alpha1.ConflictOverwrite
	}).To(members...)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonConflict,
			"Deployment web is already propagated to this cluster by PropagationPolicy "+ns.Name+"/web; this object takes over when that owner releases it")
	}
	ns.policyLetsGo(policy, web)
	began := time.Now()
	p.BecomesReady()
	t.Logf("taken over %v after the binding was deleted", time.Since(began).Round(time.Millisecond))
	ns.samePods(pods)
	testbed.Changes(ns.Namespace, web, func(web *appsv1.Deployment) { web.Annotations = map[string]string{"example.org/moved": "yes"} })
	p.BecomesReady()
	ns.samePods(pods)

	// On the way back, Karmada takes over the Works as they are.
	policy = ns.hasDeploymentPolicy("web", policyv1alpha1.ConflictOverwrite, false)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonConflict,
			"Deployment web is already propagated to this cluster by PropagationPolicy "+ns.Name+"/web; this object takes over when that owner releases it")
	}
	p.IsDeleted()
	ns.samePods(pods)
	ns.Throughout(3*time.Second, "its Pods stay", func(ctx context.Context) error { return ns.areSamePods(ctx, pods) })
	ns.policyLetsGo(policy, web)
}

func (ns *Namespace) samePods(pods map[*Member]map[types.UID]bool) {
	ns.T.Helper()
	ns.Now("the Pods are the same", func(ctx context.Context) error { return ns.areSamePods(ctx, pods) })
}

func (ns *Namespace) areSamePods(ctx context.Context, pods map[*Member]map[types.UID]bool) error {
	for member, before := range pods {
		now, err := readyPods(ctx, member, ns.Name, len(before))
		if err != nil {
			return err
		}
		if diff := cmp.Diff(before, now); diff != "" {
			return fmt.Errorf("%s: Pods (-before +now):\n%s", member, diff)
		}
	}
	return nil
}

// readyPods returns the UIDs of the Pods of a namespace. It returns an error unless
// there are count Pods and all are Ready.
func readyPods(ctx context.Context, member *Member, namespace string, count int) (map[types.UID]bool, error) {
	list := &corev1.PodList{}
	if err := member.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	pods := map[types.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				pods[pod.UID] = true
			}
		}
	}
	if len(pods) != count || len(list.Items) != count {
		return nil, fmt.Errorf("%s: %d Pods, %d of them Ready, want %d", member, len(list.Items), len(pods), count)
	}
	return pods, nil
}
