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
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// takenUpWithin is the time within which the controller takes over a released
// resource, on a busy machine.
const takenUpWithin = 20 * time.Second

func conflictWith(holder string) string {
	return fmt.Sprintf("ConfigMap settings is already propagated to this cluster by %s; this object takes over when that owner releases it", holder)
}

// Of two DirectPropagations for one resource, the first keeps the cluster, and the
// second reports the conflict. It takes the cluster over when the first releases it.
func TestTwoObjectsForOneResource(t *testing.T) {
	t.Parallel()
	for _, disputed := range members {
		t.Run(disputed.Mode, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			settings := testbed.ConfigMap("settings", "wanted twice")
			ns.Has(settings)
			first := ns.Propagates("first", settings).To(disputed)
			first.BecomesReady()
			second := ns.Propagates("second", settings).To(member1, member2)
			message := conflictWith("DirectPropagation " + ns.Name + "/first")
			second.RowSays(disputed.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonConflict, message)
			second.Says(propagationv1alpha1.ReasonConflict, fmt.Sprintf("1 of 2 clusters ready; %s: %s", disputed.Name, message))
			ns.NowRun(settings, members...)
			ns.staysQuiet(10 * time.Second)

			// The holder works as if the other object did not exist.
			testbed.Changes(ns.Namespace, settings, testbed.Saying("something new"))
			first.BecomesReady()

			freed := time.Now()
			first.IsDeleted()
			second.BecomesReady()
			if took := time.Since(freed); took > takenUpWithin {
				t.Errorf("it took %v to take over the released resource", took)
			}
		})
	}
}

// A resource that a policy propagates is left to the policy. The DirectPropagation
// takes over when the policy and its binding are gone.
func TestPolicyIsFirst(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", "by policy")
	ns.Has(settings)
	ns.NoteWork(testbed.ReferenceTo(settings))
	policy := ns.hasPolicyFor(settings)
	ns.ComeToRun(settings, members...)
	p := ns.Propagates("settings", settings).To(member1, member2)
	ns.isHeldByPolicy(p)
	ns.staysQuiet(10 * time.Second)
	testbed.Changes(ns.Namespace, settings, testbed.Saying("by policy, changed"))
	ns.ComeToRun(settings, members...)

	// Deleting the DirectPropagation does not affect what the policy propagates.
	p.IsDeleted()
	ns.Throughout(3*time.Second, "the members run what the policy propagates", func(ctx context.Context) error { return testbed.Run(ctx, settings, members...) })

	p = ns.Propagates("settings", settings).To(member1, member2)
	ns.isHeldByPolicy(p)
	ns.policyLetsGo(policy, settings)
	isTakenUp(p)
}

// A policy takes over what is propagated directly, because Karmada does not check
// for other owners. The controller reports the conflict and does not fight over the
// Works.
func TestPolicyComesLater(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", "direct")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).To(member1, member2)
	p.BecomesReady()
	policy := ns.hasPolicyFor(settings)
	ns.isHeldByPolicy(p)
	ns.staysQuiet(10 * time.Second)
	ns.NowRun(settings, members...)
	ns.policyLetsGo(policy, settings)
	isTakenUp(p)
}

func isTakenUp(p *Propagation) {
	p.NS.T.Helper()
	freed := time.Now()
	p.BecomesReady()
	if took := time.Since(freed); took > takenUpWithin {
		p.NS.T.Errorf("it took %v to take over the released resource", took)
	}
}

// hasPolicyFor creates a policy that propagates a ConfigMap to all members.
func (ns *Namespace) hasPolicyFor(resource *corev1.ConfigMap) *policyv1alpha1.PropagationPolicy {
	ns.T.Helper()
	policy := &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"},
		Spec: policyv1alpha1.PropagationSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: resource.Name}},
			Placement:         policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: testbed.NamesOf(members)}},
		},
	}
	ns.Has(policy)
	return policy
}

// isHeldByPolicy waits until every row names the policy.
func (ns *Namespace) isHeldByPolicy(p *Propagation) {
	ns.T.Helper()
	message := conflictWith("PropagationPolicy " + ns.Name + "/policy")
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonConflict, message)
	}
	p.Says(propagationv1alpha1.ReasonConflict, "0 of 2 clusters ready; member1: "+message)
}

// policyLetsGo deletes a policy and the binding that Karmada leaves behind, and
// waits until the binding is gone.
func (ns *Namespace) policyLetsGo(policy *policyv1alpha1.PropagationPolicy, resource client.Object) {
	ns.T.Helper()
	ns.Loses(policy)
	ns.Eventually("the policy has released the resource", func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(resource), resource); err != nil {
			return err
		}
		if resource.GetLabels()[policyv1alpha1.PropagationPolicyPermanentIDLabel] != "" {
			return errors.New("the resource still has the policy's label")
		}
		return nil
	})
	named := testbed.ReferenceTo(resource)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: names.GenerateBindingName(named.Kind, named.Name)}}
	ns.Eventually("the binding is gone", func(ctx context.Context) error {
		if err := karmada.Delete(ctx, binding.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it still exists: %v", err)
		}
		return nil
	})
}

// staysQuiet waits until the controller has nothing more to write for the namespace,
// and checks that this lasts.
func (ns *Namespace) staysQuiet(duration time.Duration) {
	ns.T.Helper()
	ns.comesToRest()
	mark := time.Now()
	ns.Throughout(duration, "nothing is written", func(context.Context) error { return noneOf(bed.Audit.Since(mark, ns.IsOurs)) })
}

// comesToRest waits until the controller has written nothing for several seconds,
// which is longer than it ever delays a status or waits between polls.
func (ns *Namespace) comesToRest() {
	ns.T.Helper()
	const rest = 6 * time.Second
	mark, since := time.Now(), time.Now()
	ns.Eventually("the controller stops writing", func(context.Context) error {
		if err := noneOf(bed.Audit.Since(mark, ns.IsOurs)); err != nil {
			mark, since = time.Now(), time.Now()
			return err
		}
		if quiet := time.Since(since); quiet < rest {
			return fmt.Errorf("no writes for only %v", quiet)
		}
		return nil
	})
}

func noneOf(written []testbed.Write) error {
	if len(written) == 0 {
		return nil
	}
	return fmt.Errorf("%d writes:\n%s", len(written), testbed.Listing(written))
}
