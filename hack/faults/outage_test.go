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
)

const (
	// outage is how long the members are gone.
	outage = 3 * time.Minute
	// policyPatience is how long a change through a policy is waited for after
	// the outage: Karmada backs off for up to 1000 s.
	policyPatience = 17 * time.Minute
)

// A push and a pull member are gone for three minutes, and a resource changes
// meanwhile. Beside it, a PropagationPolicy propagates a resource of its own to
// the same clusters, changed at the same moment.
func TestOutage(t *testing.T) {
	s := newSpace(t)
	s.hasBoth()
	gone := []*member{member1, member2}

	stopped := crashes(t, "member1", "member2")
	for _, m := range gone {
		notReady := readiness(t, m.Name, stopped, patience, false)
		lasted(t, m.Name+" gone → Karmada calls the Cluster not Ready", notReady.Sub(stopped), 0)
		row := s.until("direct", stopped, patience, rowSays(m.Name, metav1.ConditionUnknown, propagationv1alpha1.ReasonClusterNotReady))
		lasted(t, m.Name+": Cluster not Ready → row ClusterNotReady", row.Sub(notReady), 2*time.Second)
	}
	revision, changed := s.says("direct", "two")
	s.says("policy", "two")
	lasted(t, "changed while two of three are gone → row of member3 True", s.until("direct", changed, patience, applied("member3", revision)).Sub(changed), 10*time.Second)
	s.runs(member3, "direct")

	sayings := &bindingSayings{s: s, said: map[string]bool{}}
	still := all(unconfirmed("member1"), unconfirmed("member2"), applied("member3", revision))
	s.until("direct", changed, 5*time.Second, still)
	s.stays("direct", outage-time.Since(stopped), func(object *directPropagation) error { return errors.Join(still(object), sayings.note(t.Context())) })
	measured(t, "the ResourceBinding while the change is on neither of the two", sayings.String(), "")

	started := starts(t, "member1", "member2")
	arrived := looksFor(gone, policyPatience, func(ctx context.Context, m *member) error { return s.differs(ctx, m, "policy") })
	for _, m := range gone {
		s.comesBack(m, started, revision)
	}
	s.settled("direct", revision, changed, patience)
	for _, m := range gone {
		back := readiness(t, m.Name, started, patience, true)
		lasted(t, m.Name+" back: Cluster Ready → change of the PropagationPolicy on the member", arrived(t, m).Sub(back), 0)
	}
}

// hasBoth propagates two resources to all members, one in each way.
func (s *space) hasBoth() {
	s.t.Helper()
	revision, began := s.says("direct", "one")
	s.says("policy", "one")
	s.propagates("direct", configMap("direct"), "member1", "member2", "member3")
	s.hasPolicy("policy", "member1", "member2", "member3")
	s.settled("direct", revision, began, patience)
	for _, m := range members {
		if _, err := awaits(s.ctx, patience, func(ctx context.Context) error { return s.differs(ctx, m, "policy") }); err != nil {
			s.t.Fatalf("the PropagationPolicy does not propagate: %v", err)
		}
	}
}

// hasPolicy propagates a ConfigMap by a policy of the same name. At the end of
// the test, the policy and what Karmada made of it is deleted.
func (s *space) hasPolicy(name string, clusters ...string) *policyv1alpha1.PropagationPolicy {
	s.t.Helper()
	policy := &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1alpha1.PropagationSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: name}},
			Placement:         policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: clusters}},
		},
	}
	s.has(policy)
	s.t.Cleanup(func() {
		ctx := context.Background()
		key := metav1.ObjectMeta{Namespace: s.name, Name: name}
		err := errors.Join(
			client.IgnoreNotFound(karmada.Delete(ctx, &policyv1alpha1.PropagationPolicy{ObjectMeta: key})),
			client.IgnoreNotFound(karmada.Delete(ctx, &corev1.ConfigMap{ObjectMeta: key})),
		)
		bound := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: names.GenerateBindingName("ConfigMap", name)}}
		if err := errors.Join(err, client.IgnoreNotFound(karmada.Delete(ctx, bound))); err != nil {
			s.t.Errorf("deleting PropagationPolicy %s and what came of it: %v", name, err)
		}
	})
	return policy
}

// binding is what Karmada made of the policy of a ConfigMap.
func (s *space) binding(ctx context.Context, name string) (*workv1alpha2.ResourceBinding, error) {
	binding := &workv1alpha2.ResourceBinding{}
	err := karmada.Get(ctx, client.ObjectKey{Namespace: s.name, Name: names.GenerateBindingName("ConfigMap", name)}, binding)
	return binding, err
}

// comesBack measures how long a member that is back takes to confirm.
func (s *space) comesBack(m *member, started time.Time, revision string) {
	s.t.Helper()
	back := readiness(s.t, m.Name, started, 3*time.Minute, true)
	lasted(s.t, m.Name+" started again → Karmada calls the Cluster Ready", back.Sub(started), 0)
	confirmed := s.until("direct", started, patience, applied(m.Name, revision))
	s.runs(m, "direct")
	lasted(s.t, m.Name+" back: Cluster Ready → row True, change on the member", confirmed.Sub(back), 3*time.Second)
}

// bindingSayings is what the ResourceBinding of the policy said, each thing
// once.
type bindingSayings struct {
	s     *space
	said  map[string]bool
	order []string
}

func (b *bindingSayings) note(ctx context.Context) error {
	binding, err := b.s.binding(ctx, "policy")
	if ctx.Err() != nil {
		return nil //nolint:nilerr // cut off at the end of the observation
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
