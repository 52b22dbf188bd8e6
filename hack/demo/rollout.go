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

package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

const (
	// canary is the member that gets changes first, and other the one that follows.
	canary, other = "member1", "member2"
	// withRollout adds the spec.rollout of the demo, and noRollout removes it.
	withRollout = `{"spec":{"rollout":{"stages":[{"name":"canary","clusterNames":["` + canary + `"]}],"minReadySeconds":1,"progressDeadlineSeconds":10,"onFailure":"Rollback"}}}`
	noRollout   = `{"spec":{"rollout":null}}`
	// badChange asks for a node that no member has. goodChange no longer does.
	badChange  = `{"spec":{"template":{"spec":{"nodeSelector":{"role":"missing"},"containers":[{"name":"web","image":"` + lastImage + `"}]}}}}`
	goodChange = `{"spec":{"template":{"spec":{"nodeSelector":null}}}}`
)

// assignments shows which revision of the rollout each cluster gets.
var assignments = table{
	header: fmt.Sprintf("%-12s %-9s %-8s %-14s %-17s %s", "ROLLOUT", "CLUSTER", "APPLIED", "REASON", "ASSIGNED", "CONFIRMED"),
	row: func(object *propagationv1alpha1.DirectPropagation, row *propagationv1alpha1.ClusterStatus) string {
		progress, at := "", propagationv1alpha1.ClusterRollout{}
		if object.Status.Rollout != nil {
			progress = object.Status.Rollout.Progress
		}
		if row.Rollout != nil {
			at = *row.Rollout
		}
		return fmt.Sprintf("%-12s %-9s %-8s %-14s %-17s %s", progress, row.Name, row.Applied, row.Reason, at.AssignedRevision, at.ConfirmedRevision)
	},
}

// inPhase is the goal that a rollout is in a phase, which a condition explains.
func inPhase(phase propagationv1alpha1.RolloutPhase, condition string) goal {
	return goal{name: string(phase), condition: condition, reached: func(object *propagationv1alpha1.DirectPropagation) bool {
		status := object.Status
		return status.Rollout != nil && status.Rollout.Phase == phase && meta.IsStatusConditionTrue(status.Conditions, condition)
	}}
}

// rolloutSteps are the steps about spec.rollout.
func (s *story) rolloutSteps() []step {
	return []step{
		{
			"A canary that fails",
			"With spec.rollout, a change reaches member1 first. No node of the member has what this one asks for, so its Pods\n" +
				"      cannot start. After the deadline, member1 returns to what it had. In its first minute, the controller lets no\n" +
				"      cluster fail, so this takes up to a minute.",
			s.fail,
		},
		{
			"The fix: the canary first, then the other cluster",
			"It is another revision, so it begins with member1. When that has been healthy for a second, member2 gets it too.",
			s.fix,
		},
	}
}

// fail lets a change fail on the canary.
func (s *story) fail(ctx context.Context) error {
	completed := inPhase(propagationv1alpha1.RolloutPhaseCompleted, propagationv1alpha1.ConditionReady)
	if err := s.patch(ctx, "dp/"+deployment, withRollout, completed); err != nil {
		return err
	}
	before, err := s.deploymentOn(ctx, other)
	if err != nil {
		return err
	}
	rolledBack := inPhase(propagationv1alpha1.RolloutPhaseRolledBack, propagationv1alpha1.ConditionStalled)
	if err := s.patch(ctx, "deployment/"+deployment, badChange, rolledBack); err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.out, karmada, "-n", namespace, "get", "dp", deployment); err != nil {
		return err
	}
	after, err := s.deploymentOn(ctx, other)
	if err != nil {
		return err
	}
	if after.Generation != before.Generation {
		return fmt.Errorf("%w: %s got a change of the Deployment: generation %d, before %d", errUntrue, other, after.Generation, before.Generation)
	}
	s.out.line("On %s, the Deployment still has generation %d: it never got the change.", other, after.Generation)
	return s.verify(ctx, nextImage)
}

// fix requests a revision that works.
func (s *story) fix(ctx context.Context) error {
	completed := inPhase(propagationv1alpha1.RolloutPhaseCompleted, propagationv1alpha1.ConditionReady)
	if err := s.patch(ctx, "deployment/"+deployment, goodChange, completed); err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.out, karmada, "-n", namespace, "get", "dp", deployment); err != nil {
		return err
	}
	s.out.line("Without spec.rollout, changes reach all clusters at once again.")
	if err := s.kubectl(ctx, s.out, karmada, "-n", namespace, "patch", "dp/"+deployment, "--type", "merge", "-p", noRollout); err != nil {
		return err
	}
	return s.verify(ctx, lastImage)
}

// patch changes an object and shows rows until the rollout has come to its goal.
func (s *story) patch(ctx context.Context, object, change string, expected goal) error {
	arguments := []string{"-n", namespace, "patch", object, "-p", change}
	if object == "dp/"+deployment {
		arguments = append(arguments, "--type", "merge") // custom resources have no other
	}
	s.out.mark()
	if err := s.kubectl(ctx, s.out, karmada, arguments...); err != nil {
		return err
	}
	return s.follow(ctx, assignments, map[string]goal{deployment: expected})
}

// follow shows rows until goals are reached.
func (s *story) follow(ctx context.Context, shown table, expected map[string]goal) error {
	if err := awaitGoals(ctx, s.server, s.out, shown, expected); err != nil {
		return fmt.Errorf("%w\nthe end of %s:\n%s", err, s.controllerLog(), machine.Tail(s.controllerLog(), 20, nil))
	}
	return nil
}

// deploymentOn returns the Deployment on a member.
func (s *story) deploymentOn(ctx context.Context, member string) (*appsv1.Deployment, error) {
	server, err := s.connect(member, s.server.Scheme())
	if err != nil {
		return nil, err
	}
	deployed := &appsv1.Deployment{}
	if err := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: deployment}, deployed); err != nil {
		return nil, fmt.Errorf("reading Deployment %s from %s: %w", deployment, member, err)
	}
	return deployed, nil
}

// forgetRollout removes what a demo that was interrupted has left, so that the next one
// begins as the first did.
func (s *story) forgetRollout(ctx context.Context) error {
	at := metav1.ObjectMeta{Namespace: namespace, Name: deployment}
	for change, object := range map[string]client.Object{
		noRollout:  &propagationv1alpha1.DirectPropagation{ObjectMeta: at},
		goodChange: &appsv1.Deployment{ObjectMeta: at},
	} {
		if err := s.server.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(change))); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the rollout of an earlier demo: %w", err)
		}
	}
	return nil
}
