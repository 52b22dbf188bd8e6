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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A change reaches the stages one after the other, each after the one before was confirmed,
// healthy and soaked, also for a kind whose health never changes.
func TestStagesInOrder(t *testing.T) {
	for name, resource := range map[string]client.Object{
		"Deployment": testbed.Deployment("web", "web:1", 2), "ConfigMap": testbed.ConfigMap("settings", "1"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			p := ns.rollsOut(resource, func(spec *propagationv1alpha1.Rollout) { spec.Stages[0].SoakSeconds = ptr.To[int32](5) })
			first, changed := p.current(), time.Now()
			p.says("web:2")
			p.completes(first)
			p.run(members...)
			p.isOrderly()
			p.hasSoaked(changed, 5*time.Second)
			ns.Eventually("one revision is stored", func(context.Context) error {
				if revisions := ns.revisions(); revisions != 1 {
					return fmt.Errorf("there are %d", revisions)
				}
				return nil
			})
		})
	}
}

// hasSoaked checks that the canary was good for a time before the next stage began.
func (p *play) hasSoaked(since time.Time, soak time.Duration) {
	p.t.Helper()
	for _, state := range p.States(since) {
		rollout := state.Status.Rollout
		if rollout == nil || rollout.Phase != propagationv1alpha1.RolloutPhaseProgressing || len(rollout.Stages) < 2 || rollout.Stages[1].StartedAt == nil {
			continue
		}
		good, began := rollout.Stages[0].ReadySince, rollout.Stages[1].StartedAt
		if good == nil || began.Sub(good.Time) < soak {
			p.t.Errorf("the second stage began at %v, the canary was good since %v", began, good)
		}
		return
	}
	p.t.Error("the second stage never began")
}

// revisions counts the stored revisions.
func (ns *Namespace) revisions() int {
	ns.T.Helper()
	list := &propagationv1alpha1.PropagationRevisionList{}
	if err := karmada.List(ns.Ctx, list, client.InNamespace(ns.Name)); err != nil {
		ns.T.Fatal(err)
	}
	return len(list.Items)
}

// A bad revision fails on the canary at its deadline, and is rolled back. No other Work is
// written.
func TestBadRevisionIsRolledBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	p := ns.rollsOut(testbed.Deployment("web", "web:1", 1), func(spec *propagationv1alpha1.Rollout) { spec.OnFailure = propagationv1alpha1.RolloutFailureRollback })
	first, others := p.current(), members[1:]
	before := p.generations(others...)
	p.breaks()
	object := p.is(propagationv1alpha1.RolloutPhaseRolledBack)
	if got := object.Status.Rollout.CurrentRevision; got != first {
		t.Errorf("the current revision is %s, want %s", got, first)
	}
	if stalled := testbed.ConditionOf(object, propagationv1alpha1.ConditionStalled); stalled.Status != metav1.ConditionTrue || stalled.Reason != propagationv1alpha1.ReasonRolledBack {
		t.Errorf("Stalled is %+v", stalled)
	}
	ns.Eventually("every member runs the first revision", func(ctx context.Context) error { return p.membersRun(ctx, "web:1", members...) })
	if diff := cmp.Diff(before, p.generations(others...)); diff != "" {
		t.Errorf("Works of clusters that waited were written (-before +after):\n%s", diff)
	}
	p.isOrderly()
	p.says("web:2")
	p.completes(first)
	ns.Eventually("every member runs the fix", func(ctx context.Context) error { return p.membersRun(ctx, "web:2", members...) })
}

// As many clusters may fail as the budget allows; one more stops the rollout. 5 % of two
// clusters is none.
func TestBudget(t *testing.T) {
	for _, test := range []struct {
		name   string
		budget intstr.IntOrString
		ends   propagationv1alpha1.RolloutPhase
	}{
		{"met", intstr.FromInt32(1), propagationv1alpha1.RolloutPhaseCompleted},
		{"exceeded", intstr.FromString("5%"), propagationv1alpha1.RolloutPhaseFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			p := ns.rollsOut(testbed.Deployment("web", "web:1", 1), func(spec *propagationv1alpha1.Rollout) {
				spec.MaxFailures, spec.MaxConcurrency = &test.budget, ptr.To(intstr.FromInt32(2))
			})
			p.failsOn(member2)
			p.says("web:2")
			object := p.becomes("ends "+string(test.ends), func(status *propagationv1alpha1.RolloutStatus) bool {
				return status.Phase == test.ends && status.UpdateRevision != "" && (status.CurrentRevision == status.UpdateRevision) == (test.ends == propagationv1alpha1.RolloutPhaseCompleted)
			})
			ring := object.Status.Rollout.Stages[1]
			if failed := ptr.Deref(ring.Failed, -1); failed != 1 {
				t.Errorf("%d clusters of the ring failed, want 1: %s", failed, describe(object.Status.Rollout))
			}
			p.isOrderly()
		})
	}
}

// failsOn makes whatever is rolled out next fail on a member.
func (p *play) failsOn(member *Member) {
	p.t.Helper()
	p.Changes(func(object *DirectPropagation) {
		for i := range object.Spec.Clusters {
			if object.Spec.Clusters[i].Name == member.Name {
				object.Spec.Clusters[i].Overriders = testbed.NodeSelectorOverrider("missing")
			}
		}
		object.Spec.Rollout.Paused = ptr.To(true)
	})
	p.says("web:2")
	p.Changes(func(object *DirectPropagation) { object.Spec.Rollout.Paused = nil })
}

// A stage that needs an approval waits for one that is about its revision.
func TestApproval(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	p := ns.rollsOut(testbed.ConfigMap("settings", "1"), nil)
	p.Changes(func(object *DirectPropagation) {
		object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	})
	first := p.current()
	p.says("2")
	waits := func() string {
		object := p.becomes("awaits an approval", func(status *propagationv1alpha1.RolloutStatus) bool {
			return status.Reason == propagationv1alpha1.ReasonRolloutAwaitingApproval && status.UpdateRevision != first
		})
		return object.Status.Rollout.UpdateRevision
	}
	second := waits()
	p.commands(propagationv1alpha1.RolloutApproveAnnotation, "canary@"+first)
	p.Stays(3*time.Second, func(object *DirectPropagation) error {
		if object.Status.Rollout.Stages[0].PassedAt != nil {
			return fmt.Errorf("an approval of another revision has passed the stage")
		}
		return nil
	})
	p.commands(propagationv1alpha1.RolloutApproveAnnotation, "canary@"+second)
	p.completes(first)
	p.run(members...)
	p.isOrderly()
}
