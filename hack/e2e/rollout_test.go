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
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A bad revision fails on the canary and is rolled back; the other cluster never gets it.
// The fix reaches the canary and then the other cluster. hack/rollouts has further tests.
func TestCanary(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := testbed.Deployment("web", "web:1", 1)
	ns.Has(web)
	p := ns.Propagates("web", web).With(func(object *DirectPropagation) {
		object.Spec.Rollout = &propagationv1alpha1.Rollout{
			Stages:          []propagationv1alpha1.RolloutStage{{Name: "canary", ClusterNames: []string{member1.Name}}},
			MinReadySeconds: ptr.To[int32](1), ProgressDeadlineSeconds: ptr.To[int32](300), OnFailure: propagationv1alpha1.RolloutFailureRollback,
		}
	}).To(members...)
	// Only what never becomes ready meets a short deadline on a busy machine, too.
	mustBeReadyWithin := func(seconds int32) {
		p.Changes(func(object *DirectPropagation) { object.Spec.Rollout.ProgressDeadlineSeconds = &seconds })
	}
	first := rolloutIs(p, propagationv1alpha1.RolloutPhaseCompleted).Status.Rollout.CurrentRevision

	others, err := ns.Work(ns.Ctx, web, member2)
	if err != nil {
		t.Fatal(err)
	}
	mustBeReadyWithin(10)
	changesDeployment(ns, web, func(web *appsv1.Deployment) {
		web.Spec.Template.Spec.NodeSelector = map[string]string{"role": "missing"}
	})
	failed := rolloutIs(p, propagationv1alpha1.RolloutPhaseRolledBack)
	if got := failed.Status.Rollout; got.CurrentRevision != first || got.FailedRevision != got.UpdateRevision {
		t.Errorf("the rollout is %+v", got)
	}
	ns.Eventually("the canary runs the first revision", func(ctx context.Context) error { return runsAnywhere(ctx, member1, web) })
	now, err := ns.Work(ns.Ctx, web, member2)
	if err != nil || now.Generation != others.Generation {
		t.Errorf("the Work of the cluster that waited was written: generation %d, before %d (%v)", now.Generation, others.Generation, err)
	}

	mustBeReadyWithin(300)
	changesDeployment(ns, web, func(web *appsv1.Deployment) {
		web.Spec.Template.Spec.NodeSelector, web.Spec.Template.Spec.Containers[0].Image = nil, "web:2"
	})
	p.Becomes("has completed the second rollout", func(object *DirectPropagation) error {
		if rollout := object.Status.Rollout; rollout.CurrentRevision == first || rollout.Phase != propagationv1alpha1.RolloutPhaseCompleted {
			return fmt.Errorf("the rollout is %s", rollout.Progress)
		}
		return nil
	})
	ns.ComeToRun(web, members...)
	p.BecomesReady()
}

// rolloutIs waits until the rollout of an object has a phase.
func rolloutIs(p *Propagation, phase propagationv1alpha1.RolloutPhase) *DirectPropagation {
	p.NS.T.Helper()
	return p.Becomes("has a rollout that is "+string(phase), func(object *DirectPropagation) error {
		if rollout := object.Status.Rollout; rollout == nil || rollout.Phase != phase {
			return fmt.Errorf("the rollout is %+v", rollout)
		}
		return nil
	})
}

func changesDeployment(ns *Namespace, web *appsv1.Deployment, mutate func(*appsv1.Deployment)) {
	ns.T.Helper()
	if err := testbed.Change(ns.Ctx, karmada, web, mutate); err != nil {
		ns.T.Fatal(err)
	}
}

// runsAnywhere returns an error unless a member has a Deployment that needs no special nodes.
func runsAnywhere(ctx context.Context, member *Member, web *appsv1.Deployment) error {
	found, err := member.Find(ctx, web)
	if err != nil {
		return err
	}
	deployment, _ := found.(*appsv1.Deployment)
	if selector := deployment.Spec.Template.Spec.NodeSelector; len(selector) > 0 {
		return fmt.Errorf("%s needs nodes with %v", member, selector)
	}
	return nil
}
