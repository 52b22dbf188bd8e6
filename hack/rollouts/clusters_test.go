//go:build rollouts

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

package rollouts

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// contact is how long Karmada may take to notice that it has lost or regained contact with
// a cluster.
const contact = 4 * time.Minute

// stops stops a member until the test ends, if not before, and waits until Karmada has
// noticed.
func stops(t *testing.T, member *Member) {
	t.Helper()
	t.Cleanup(func() { starts(t, member) })
	fleetDoes(t, "stop", member.Name)
	awaitContact(t, member, false)
}

// starts starts a member and waits until Karmada has contact with it.
func starts(t *testing.T, member *Member) {
	t.Helper()
	fleetDoes(t, "start", member.Name)
	awaitContact(t, member, true)
}

func awaitContact(t *testing.T, member *Member, want bool) {
	t.Helper()
	if _, err := bed.AwaitFor(context.Background(), contact, fmt.Sprintf("contact with %s: %t", member.Name, want), func(ctx context.Context) error {
		cluster := &clusterv1alpha1.Cluster{}
		if err := karmada.Get(ctx, client.ObjectKey{Name: member.Name}, cluster); err != nil {
			return err
		}
		if is := meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady); is != want {
			return fmt.Errorf("Ready is %t", is)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A cluster that is stopped before its turn does not hold up the rollout, and follows when
// it returns.
func TestStoppedBeforeItsTurn(t *testing.T) {
	ns := newNamespace(t)
	p := ns.rollsOut(testbed.ConfigMap("settings", "1"), nil)
	first := p.current()
	stops(t, member4)
	p.says("2")
	second := p.completes(first)
	p.run(slices.DeleteFunc(slices.Clone(members), func(m *Member) bool { return m == member4 })...)
	if row := testbed.RowOf(p.Latest(), member4.Name); row.Applied == "True" {
		t.Errorf("the row of the stopped cluster is %+v", row)
	}
	starts(t, member4)
	p.run(member4)
	p.becomes("has returned everywhere", func(status *propagationv1alpha1.RolloutStatus) bool {
		return status.CurrentRevision == second && len(status.Turns) == 0
	})
	p.isOrderly()
}

// A cluster that is stopped after its Work was written counts as failed at its deadline.
func TestStoppedDuringItsTurn(t *testing.T) {
	ns := newNamespace(t)
	p := ns.rollsOut(testbed.ConfigMap("settings", "1"), func(spec *propagationv1alpha1.Rollout) { spec.OnFailure = propagationv1alpha1.RolloutFailureRollback })
	first := p.current()
	t.Cleanup(func() { starts(t, member2) })
	// Karmada has not noticed yet that the member is gone when its turn begins.
	fleetDoes(t, "stop", "--signal", "KILL", member2.Name)
	p.says("2")
	object := p.is(propagationv1alpha1.RolloutPhaseRolledBack)
	if failure := object.Status.Rollout.Failure; failure == nil || !slices.Equal(failure.ClusterNames, []string{member2.Name}) {
		t.Errorf("the failure is %+v", failure)
	}
	if got := object.Status.Rollout.CurrentRevision; got != first {
		t.Errorf("the current revision is %s, want %s", got, first)
	}
	starts(t, member2)
	p.ns.Eventually("every member has the first revision", func(ctx context.Context) error {
		for _, member := range members {
			if err := member.Runs(ctx, p.before()); err != nil {
				return err
			}
		}
		return nil
	})
	p.isOrderly()
}

// before is the ConfigMap as it was at first.
func (p *play) before() client.Object {
	before := testbed.ConfigMap(p.resource.GetName(), "1")
	before.Namespace = p.ns.Name
	return before
}

// If the only canary is stopped, nothing is promoted.
func TestOnlyCanaryStopped(t *testing.T) {
	ns := newNamespace(t)
	p := ns.rollsOut(testbed.ConfigMap("settings", "1"), nil)
	first := p.current()
	stops(t, member1)
	p.says("2")
	p.becomes("waits for the canary", func(status *propagationv1alpha1.RolloutStatus) bool {
		return status.UpdateRevision != first && ptr.Deref(status.Stages[0].Deferred, 0) == 1
	})
	p.Stays(20*time.Second, func(object *DirectPropagation) error {
		if len(object.Status.Rollout.Turns) > 0 {
			return fmt.Errorf("a turn has begun: %s", describe(object.Status.Rollout))
		}
		return nil
	})
	for _, member := range members[1:] {
		p.ns.Now(member.Name+" has the first revision", func(ctx context.Context) error { return member.Runs(ctx, p.before()) })
	}
	starts(t, member1)
	p.completes(first)
	p.run(members...)
	p.isOrderly()
}

// Clusters join, leave and change their stage in the middle of a rollout.
func TestClustersComeAndGo(t *testing.T) {
	ns := newNamespace(t)
	p := ns.rollsOut(testbed.ConfigMap("settings", "1"), nil, members[:5]...)
	p.Changes(func(object *DirectPropagation) {
		object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	})
	first := p.current()
	p.says("2")
	object := p.becomes("awaits an approval", func(status *propagationv1alpha1.RolloutStatus) bool {
		return status.Reason == propagationv1alpha1.ReasonRolloutAwaitingApproval && status.UpdateRevision != first
	})
	p.Changes(func(object *DirectPropagation) {
		// member6 joins, member5 leaves, and member4 becomes a member of the ring.
		object.Spec.Clusters = testbed.Targets(member1.Name, member2.Name, member3.Name, member4.Name, member6.Name)
		object.Spec.Rollout.Stages[1].ClusterNames = append(object.Spec.Rollout.Stages[1].ClusterNames, member4.Name)
	})
	ns.Eventually("a cluster that joins before its turn gets the current revision", func(ctx context.Context) error { return member6.Runs(ctx, p.before()) })
	ns.ComeToLack(p.resource, member5)
	p.commands(propagationv1alpha1.RolloutApproveAnnotation, "canary@"+object.Status.Rollout.UpdateRevision)
	p.completes(first)
	p.run(member1, member2, member3, member4, member6)
	p.Changes(func(object *DirectPropagation) {
		object.Spec.Clusters = append(object.Spec.Clusters, testbed.Targets(member5.Name)...)
	})
	p.run(member5)
}

// A cluster whose labels change in the middle of a stage comes to it, and gets the update
// revision in it, or leaves it, and keeps what it has.
func TestLabelsChangeDuringAStage(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	for _, member := range []*Member{member2, member3} {
		ns.labels(member, true)
	}
	p := ns.rollsOut(testbed.ConfigMap("settings", "1"), func(spec *propagationv1alpha1.Rollout) {
		spec.Stages[1] = propagationv1alpha1.RolloutStage{
			Name: "ring", ClusterSelector: &propagationv1alpha1.StageSelector{MatchLabels: map[string]string{ns.Name: "ring"}},
		}
	})
	p.Changes(func(object *DirectPropagation) {
		object.Spec.Rollout.Stages[1].Approval = propagationv1alpha1.RolloutApprovalRequired
	})
	first, ring := p.current(), int32(2)
	p.says("2")
	awaits := func(what string, clusters int32) string {
		return p.becomes(what, func(status *propagationv1alpha1.RolloutStatus) bool {
			stage := status.Stages[1]
			return status.UpdateRevision != first && status.Reason == propagationv1alpha1.ReasonRolloutAwaitingApproval &&
				ptr.Deref(stage.Clusters, 0) == clusters && ptr.Deref(stage.Ready, 0) == clusters
		}).Status.Rollout.UpdateRevision
	}
	awaits("awaits the approval of the ring", ring)
	ns.labels(member4, true)
	awaits("awaits the approval of a larger ring", ring+1)
	ns.NowRun(p.resource, member1, member2, member3, member4)
	ns.labels(member3, false)
	second := awaits("awaits the approval of the smaller ring", ring)
	ns.NowRun(p.resource, member1, member2, member3, member4)
	for _, member := range []*Member{member5, member6} {
		ns.Now(member.Name+" waits", func(ctx context.Context) error { return member.Runs(ctx, p.before()) })
	}
	p.commands(propagationv1alpha1.RolloutApproveAnnotation, "ring@"+second)
	p.completes(first)
	p.run(members...)
}

// labels sets a label of a cluster that only this test uses, or removes it.
func (ns *Namespace) labels(member *Member, isSet bool) {
	ns.T.Helper()
	change := func(cluster *clusterv1alpha1.Cluster) {
		delete(cluster.Labels, ns.Name)
		if isSet {
			metav1.SetMetaDataLabel(&cluster.ObjectMeta, ns.Name, "ring")
		}
	}
	if err := testbed.Change(context.Background(), karmada, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member.Name}}, change); err != nil {
		ns.T.Fatal(err)
	}
	if isSet {
		ns.T.Cleanup(func() { ns.labels(member, false) })
	}
}
