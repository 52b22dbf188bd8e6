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

package propagation

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Until the status without a rollout is written, the snapshots stay that the recorded one
// names: another process may follow it.
func TestSnapshotsStayUntilTheStatusIsWritten(t *testing.T) {
	s := newStage(t, nil)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout = nil })
	// The new generation was reported already, so that the status can wait.
	object := s.propagation(t)
	object.Status.ObservedGeneration = &object.Generation
	for i := range object.Status.Conditions {
		object.Status.Conditions[i].ObservedGeneration = object.Generation
	}
	if err := s.server.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.memories.of(web).statusWritten = s.clock.Now()
	s.reconciles()
	if status := s.rollout(); status != nil && !slices.Contains(s.revisions(), status.CurrentRevision) {
		t.Errorf("the status names revision %s, and only these are stored: %q", status.CurrentRevision, s.revisions())
	}
	s.clock.SetTime(s.clock.Now().Add(2 * statusInterval))
	s.settle(t)
	if left := s.revisions(); s.rollout() != nil || len(left) > 0 {
		t.Errorf("the rollout has not ended: %+v; stored: %q", s.rollout(), left)
	}
}

// reconciles reconciles once.
func (s *stage) reconciles() {
	s.t.Helper()
	if _, err := s.Reconciler.reconcile(s.t.Context(), ctrl.Request{NamespacedName: web}); err != nil {
		s.t.Fatal(err)
	}
}

// deleteRevision deletes a stored revision, as an administrator may.
func (s *stage) deleteRevision(name string) {
	s.t.Helper()
	stored := &propagationv1alpha1.PropagationRevision{}
	stored.Namespace, stored.Name = web.Namespace, revisionName(s.propagation(s.t).UID, name)
	if err := s.server.Delete(s.t.Context(), stored); err != nil {
		s.t.Fatal(err)
	}
}

// The controller stores the requested revision again that somebody has deleted.
func TestDeletedRevisionIsStoredAgain(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.settle(t)
	update := s.rollout().UpdateRevision
	s.deleteRevision(update)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Rollout.OnFailure = propagationv1alpha1.RolloutFailureRollback
	})
	s.settle(t)
	if stored := s.revisions(); !slices.Contains(stored, update) {
		t.Errorf("revision %s is not stored again, only %q", update, stored)
	}
}

// Clusters that recover after too many have failed do not make a failed rollout Ready:
// somebody must request a retry.
func TestFailedRolloutIsNotReady(t *testing.T) {
	s := newStage(t, func(spec *propagationv1alpha1.Rollout) { spec.Stages = nil })
	s.changeImage(t, "nginx:2")
	s.settle(t)
	s.clock.SetTime(s.clock.Now().Add(101 * time.Second))
	s.settle(t)
	s.goesOn()
	s.images("nginx:2", "nginx:2")
	status := s.propagation(t).Status
	if meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionReady) || !meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionStalled) {
		t.Errorf("the rollout is %s, and the conditions are %+v", status.Rollout.Phase, status.Conditions)
	}
}
