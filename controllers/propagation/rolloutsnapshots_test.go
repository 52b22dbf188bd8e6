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
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// countingReader records which revisions are read.
type countingReader struct {
	client.Reader
	names *[]string
}

func (f countingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, is := object.(*propagationv1alpha1.PropagationRevision); is {
		*f.names = append(*f.names, key.Name)
	}
	return f.Reader.Get(ctx, key, object, options...)
}

// A revision that somebody deletes in the middle of its rollout is made again.
func TestDeletedRevisionIsMadeAgain(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.settle(t)
	s.KeepTemplateStatus = true
	reads := 0
	watched(t, s.bench, &reads)
	s.settle(t)
	update := s.rollout().UpdateRevision
	s.deleteRevision(update)
	for range 10 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(time.Second))
		s.confirmUnlessSuspended()
	}
	s.images("nginx:2", "nginx:2")
	s.restarts()
	s.goesOn()
	s.images("nginx:2", "nginx:2")
}

// An object that is deleted and created again at once is rolled out.
func TestRecreatedObjectRollsOut(t *testing.T) {
	s := newStage(t, nil)
	s.KeepTemplateStatus = true
	reads := 0
	watched(t, s.bench, &reads)
	s.settle(t)
	object := s.propagation(t)
	if err := s.server.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_ = s.reconcile(t)
		for _, work := range s.works(t) {
			if work.DeletionTimestamp != nil {
				work.Finalizers = nil
				_ = s.server.Update(t.Context(), &work)
				_ = s.ledger.Deleted("ours", &work)
				s.ledger.Gone(&work, "ours")
			}
		}
		if err := s.server.Get(t.Context(), web, object); err != nil {
			break
		}
	}
	again := webPropagation()
	again.UID = "other"
	again.Spec.Rollout = canaryFirst()
	if err := s.server.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(3 * time.Second))
		s.confirmUnlessSuspended()
	}
	if got := len(s.works(t)); got != 2 {
		t.Errorf("%d works; rows: %s / %s; revisions %v", got, described(s.rowOf(t, "member1")), described(s.rowOf(t, "member2")), s.revisions())
	}
}

// While a revision cannot be stored, the object says so, and no Work is written.
func TestRefusedRevisionIsReported(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.refuse = func(write string) error {
		if strings.Contains(write, "create PropagationRevision") {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "propagationrevisions"}, "x", errors.New("exceeded quota"))
		}
		return nil
	}
	for range 5 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(50 * time.Second))
	}
	status := s.propagation(t).Status
	if meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionReady) {
		t.Errorf("Ready is True; rollout %s; row %s %+v", status.Rollout.Progress, described(s.rowOf(t, "member1")), s.rowOf(t, "member1").Rollout)
	}
}

// One revision is stored after each rollout, also if it was the same for some clusters.
func TestOldRevisionsAreDeleted(t *testing.T) {
	s := newStage(t, nil)
	for i, cluster := range []int{0, 1, 0} {
		s.changes(func(object *propagationv1alpha1.DirectPropagation) {
			object.Spec.Clusters[cluster].Overriders = patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"site":"`+string(rune('a'+i))+`"}`)
		})
		s.goesOn()
		if left := s.revisions(); len(left) != 1 {
			t.Errorf("change %d: phase %s, stored: %v", i, s.rollout().Phase, left)
		}
	}
}

// While nothing changes, no revision is read.
func TestIdleRolloutReadsNothing(t *testing.T) {
	s := newFirstRollout(t)
	s.KeepTemplateStatus = true
	reads := 0
	watched(t, s.bench, &reads)
	s.settle(t)
	names := []string{}
	s.Live = countingReader{s.Live, &names}
	for range 3 {
		_ = s.reconcile(t)
	}
	if len(names) > 0 {
		t.Errorf("read while idle: %q", names)
	}
}

// When spec.rollout is added again, commands of the previous rollout are not followed again.
func TestOldCommandsAreNotFollowed(t *testing.T) {
	s := newStage(t, nil)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Annotations = map[string]string{propagationv1alpha1.RolloutPauseAnnotation: "may"}
	})
	s.goesOn()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Annotations[propagationv1alpha1.RolloutResumeAnnotation] = "may"
	})
	s.goesOn()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout = nil })
	s.goesOn()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout = canaryFirst() })
	s.goesOn()
	s.changeImage(t, "nginx:2")
	s.goesOn()
	if s.rollout().Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Errorf("phase %s, reason %s", s.rollout().Phase, s.rollout().Reason)
	}
}

// A process ends after it has recorded the end of a rollout, and before it deletes the
// revisions. The next one deletes them.
func TestOrphanedRevisionsAreDeleted(t *testing.T) {
	s := newStage(t, nil)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout = nil })
	s.refuse = func(write string) error {
		if strings.Contains(write, "delete PropagationRevision") {
			s.restarts()
			return apierrors.NewTimeoutError("the process ends", 1)
		}
		return nil
	}
	_ = s.reconcile(t)
	s.restarts()
	s.refuse = nil
	s.goesOn()
	if left := s.revisions(); len(left) > 0 {
		t.Errorf("still stored: %v", left)
	}
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout = canaryFirst() })
	s.changeImage(t, "nginx:2")
	s.goesOn()
	if s.rollout().Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Errorf("phase %s, reason %s", s.rollout().Phase, s.rollout().Reason)
	}
}

// A revision is stored, but the answer is lost, and then nobody needs it anymore. It is
// deleted.
func TestRevisionOfALostAnswerIsDeleted(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.loses = func(write string) bool { return strings.Contains(write, "create PropagationRevision") }
	_ = s.reconcile(t)
	s.loses = nil
	s.changeImage(t, "nginx:1")
	s.goesOn()
	if left := s.revisions(); len(left) != 1 {
		t.Errorf("stored: %v", left)
	}
}
