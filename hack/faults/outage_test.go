//go:build faults

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

package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

const (
	// outage is how long the members are stopped.
	outage = 3 * time.Minute
	// policyPatience is how long a test waits, after the outage, for a change that a
	// policy propagates. Karmada's back-off is up to 1000 s.
	policyPatience = 17 * time.Minute
)

// A push and a pull member are stopped for three minutes, and a resource changes in
// the meantime. For comparison, a PropagationPolicy propagates another resource to
// the same clusters, which changes at the same time.
func TestOutage(t *testing.T) {
	ns := newNamespace(t)
	ns.hasBoth()
	gone := []*Member{member1, member2}

	stopped := crashes(t, "member1", "member2")
	for _, m := range gone {
		notReady := readiness(t, m.Name, stopped, testbed.Patience, false)
		lasted(t, m.Name+" gone → Karmada calls the Cluster not Ready", notReady.Sub(stopped), 0)
		row := ns.Propagation("direct").Until(stopped, testbed.RowSays(m.Name, metav1.ConditionUnknown, propagationv1alpha1.ReasonClusterNotReady))
		lasted(t, m.Name+": Cluster not Ready → row ClusterNotReady", row.Sub(notReady), 2*time.Second)
	}
	revision, changed := ns.Writes("direct", "two")
	ns.Writes("policy", "two")
	lasted(t, "changed while two of three are gone → row of member3 True", ns.Propagation("direct").Until(changed, testbed.Applied("member3", revision)).Sub(changed), 10*time.Second)
	ns.runs(member3, "direct")

	sayings := &bindingSayings{ns: ns, said: map[string]bool{}}
	still := testbed.All(testbed.Unconfirmed("member1"), testbed.Unconfirmed("member2"), testbed.Applied("member3", revision))
	ns.Propagation("direct").UntilWithin(changed, 5*time.Second, still)
	ns.Propagation("direct").Stays(outage-time.Since(stopped), func(object *DirectPropagation) error { return errors.Join(still(object), sayings.note(t.Context())) })
	measured(t, "the ResourceBinding while the change is on neither of the two", sayings.String(), "")

	started := starts(t, "member1", "member2")
	arrived := bed.LookFor(gone, policyPatience, "the change of the PropagationPolicy arrives", func(ctx context.Context, m *Member) error { return ns.Differs(ctx, m, testbed.ConfigMap("policy", "")) })
	for _, m := range gone {
		ns.comesBack(m, started, revision)
	}
	ns.Propagation("direct").Settles(revision, changed)
	for _, m := range gone {
		back := readiness(t, m.Name, started, testbed.Patience, true)
		lasted(t, m.Name+" back: Cluster Ready → change of the PropagationPolicy on the member", arrived(t, m).Sub(back), 0)
	}
}

// hasBoth propagates two resources to all members, one directly and one with a
// policy.
func (ns *Namespace) hasBoth() {
	ns.T.Helper()
	revision, began := ns.Writes("direct", "one")
	ns.Writes("policy", "one")
	ns.Propagates("direct", testbed.ConfigMap("direct", "")).ToClusters("member1", "member2", "member3")
	ns.hasPolicy("policy", "member1", "member2", "member3")
	ns.Propagation("direct").Settles(revision, began)
	for _, m := range members {
		ns.Eventually("the PropagationPolicy propagates to "+m.Name, func(ctx context.Context) error { return ns.Differs(ctx, m, testbed.ConfigMap("policy", "")) })
	}
}

// hasPolicy propagates a ConfigMap with a policy of the same name. When the test
// ends, the policy and what Karmada created for it are deleted.
func (ns *Namespace) hasPolicy(name string, clusters ...string) *policyv1alpha1.PropagationPolicy {
	ns.T.Helper()
	policy := &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1alpha1.PropagationSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: name}},
			Placement:         policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: clusters}},
		},
	}
	ns.Has(policy)
	ns.T.Cleanup(func() {
		ctx := context.Background()
		key := metav1.ObjectMeta{Namespace: ns.Name, Name: name}
		err := errors.Join(
			client.IgnoreNotFound(karmada.Delete(ctx, &policyv1alpha1.PropagationPolicy{ObjectMeta: key})),
			client.IgnoreNotFound(karmada.Delete(ctx, &corev1.ConfigMap{ObjectMeta: key})),
		)
		bound := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: names.GenerateBindingName("ConfigMap", name)}}
		if err := errors.Join(err, client.IgnoreNotFound(karmada.Delete(ctx, bound))); err != nil {
			ns.T.Errorf("deleting PropagationPolicy %s and what Karmada created for it: %v", name, err)
		}
	})
	return policy
}

// binding reads the ResourceBinding of a ConfigMap that a policy propagates.
func (ns *Namespace) binding(ctx context.Context, name string) (*workv1alpha2.ResourceBinding, error) {
	binding := &workv1alpha2.ResourceBinding{}
	err := karmada.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: names.GenerateBindingName("ConfigMap", name)}, binding)
	return binding, err
}

// comesBack measures how long a member takes to confirm after it is back.
func (ns *Namespace) comesBack(m *Member, started time.Time, revision string) {
	ns.T.Helper()
	back := readiness(ns.T, m.Name, started, 3*time.Minute, true)
	lasted(ns.T, m.Name+" started again → Karmada calls the Cluster Ready", back.Sub(started), 0)
	confirmed := ns.Propagation("direct").Until(started, testbed.Applied(m.Name, revision))
	ns.runs(m, "direct")
	lasted(ns.T, m.Name+" back: Cluster Ready → row True, change on the member", confirmed.Sub(back), 3*time.Second)
}

// bindingSayings collects the different states of the policy's ResourceBinding.
type bindingSayings struct {
	ns    *Namespace
	said  map[string]bool
	order []string
}

func (b *bindingSayings) note(ctx context.Context) error {
	binding, err := b.ns.binding(ctx, "policy")
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the observation has ended
	}
	if err != nil {
		return fmt.Errorf("reading the ResourceBinding: %w", err)
	}
	saying := ""
	if full := meta.FindStatusCondition(binding.Status.Conditions, workv1alpha2.FullyApplied); full != nil {
		saying = "FullyApplied " + string(full.Status)
	}
	for _, item := range binding.Status.AggregatedStatus {
		saying += fmt.Sprintf(", %s applied: %t", item.ClusterName, item.Applied)
	}
	if !b.said[saying] {
		b.said[saying] = true
		b.order = append(b.order, saying)
	}
	return nil
}

func (b *bindingSayings) String() string {
	out := ""
	for i, saying := range b.order {
		if i > 0 {
			out += "; then "
		}
		out += saying
	}
	return out
}
