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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// A push and a pull member are gone when objects are deleted. One of them
// waits for the members, the other is told to let go of them. When the members
// are back, nothing is left on them of either.
func TestDeletionWhileMembersAreGone(t *testing.T) {
	s := newSpace(t)
	began := time.Now()
	for _, name := range []string{"waits", "abandons"} {
		revision, _ := s.says(name, "to be removed")
		s.propagates(name, configMap(name), "member1", "member2", "member3")
		s.settled(name, revision, began, patience)
	}
	stopped := crashes(t, "member1", "member2")
	readiness(t, "member1", stopped, patience, false)
	readiness(t, "member2", stopped, patience, false)

	at := s.deletes("waits")
	s.until("waits", at, patience, blockedOn("member1", "member2"))
	lasted(t, "deleted while two of three are gone → gone from member3", s.comesToLack(member3, "waits", patience).Sub(at), 15*time.Second)
	s.until("waits", at, patience, all(blockedOn("member1", "member2"), hasNoRow("member3")))
	s.stays("waits", 10*time.Second, all(blockedOn("member1", "member2"), hasNoRow("member3")))
	s.abandons(at)

	started := starts(t, "member1", "member2")
	gone := []*member{member1, member2}
	waited := looksFor(gone, removalPatience, func(ctx context.Context, m *member) error { return s.lacks(ctx, m, "waits") })
	abandoned := looksFor(gone, removalPatience, func(ctx context.Context, m *member) error { return s.lacks(ctx, m, "abandons") })
	for _, m := range gone {
		back := readiness(t, m.Name, started, 3*time.Minute, true)
		lasted(t, m.Name+" back: Cluster Ready → object that waited is gone from it", waited(t, m).Sub(back), 10*time.Second)
		lasted(t, m.Name+" back: Cluster Ready → object that was abandoned is gone from it, by Karmada alone", abandoned(t, m).Sub(back), 0)
	}
	s.goes("waits", at, patience)
	for _, name := range []string{"waits", "abandons"} {
		s.hasNoWorks(name)
	}
}

// removalPatience is how long Karmada may take by itself: it backs off from
// what it cannot reach for up to 1000 s.
const removalPatience = 17 * time.Minute

// abandons deletes an object and has it let go of the members that are gone.
func (s *space) abandons(since time.Time) {
	s.t.Helper()
	s.deletes("abandons")
	s.until("abandons", since, patience, blockedOn("member1", "member2"))
	s.comesToLack(member3, "abandons", patience)
	s.until("abandons", since, patience, hasNoRow("member3"))
	at := s.edits("abandons", func(object *directPropagation) {
		object.Annotations = map[string]string{propagationv1alpha1.AbandonUnreachableAnnotation: "true"}
	})
	lasted(s.t, "told to abandon → the object is gone", s.goes("abandons", at, patience).Sub(at), 5*time.Second)
	note := eventOf(s.t, s.name, "abandons", propagationv1alpha1.EventClustersAbandoned)
	if !strings.Contains(note, "member1") || !strings.Contains(note, "member2") || strings.Contains(note, "member3") {
		s.t.Errorf("the Event does not name the clusters that were abandoned: %q", note)
	}
	measured(s.t, "Event ClustersAbandoned", note, "")
}

// hasNoWorks waits until no Work of a ConfigMap is left.
func (s *space) hasNoWorks(name string) {
	s.t.Helper()
	if _, err := awaits(s.ctx, patience, func(context.Context) error {
		for _, m := range members {
			if work := s.work(m.Name, name); work != nil {
				return fmt.Errorf("Work %s/%s is left", work.Namespace, work.Name)
			}
		}
		return nil
	}); err != nil {
		s.t.Errorf("%v\n%s", err, s.dump())
	}
}

// blockedOn: the object is being deleted, held by its finalizer, and rows say
// of clusters that they cannot be reached.
func blockedOn(names ...string) check {
	return func(object *directPropagation) error {
		if object.DeletionTimestamp == nil || !slices.Contains(object.Finalizers, propagationv1alpha1.CleanupFinalizer) {
			return fmt.Errorf("it is not held by its finalizer: %v", object.Finalizers)
		}
		if condition := conditionOf(object, propagationv1alpha1.ConditionReady); condition.Status != metav1.ConditionFalse || condition.Reason != propagationv1alpha1.ReasonDeleting {
			return fmt.Errorf("Ready is %+v", condition)
		}
		for _, name := range names {
			if err := rowSays(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonRemovalBlocked)(object); err != nil {
				return err
			}
		}
		return nil
	}
}

func hasNoRow(cluster string) check {
	return func(object *directPropagation) error {
		if row := rowOf(object, cluster); row.Name != "" {
			return fmt.Errorf("there is a row: %+v", row)
		}
		return nil
	}
}

// With preserveResourcesOnDeletion, what a cluster has stays there when the
// cluster is taken off the list, and when the object is deleted.
func TestPreserve(t *testing.T) {
	s := newSpace(t)
	revision, began := s.says("kept", "to be kept")
	s.makes(preserving("kept", "member1", "member2", "member3"))
	s.settled("kept", revision, began, patience)

	at := s.edits("kept", func(object *directPropagation) { object.Spec.Clusters = targets("member2", "member3") })
	s.until("kept", at, patience, all(hasNoRow("member1"), ready(revision), isDone))
	at = s.deletes("kept")
	s.goes("kept", at, patience)
	s.hasNoWorks("kept")
	for _, m := range members {
		s.isLeft(m, "kept")
	}
}

func preserving(name string, clusters ...string) *directPropagation {
	return &directPropagation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: propagationv1alpha1.PropagationSpec{
		Resource: referenceTo(configMap(name)), Clusters: targets(clusters...), PreserveResourcesOnDeletion: ptr.To(true),
	}}
}

func isDone(object *directPropagation) error {
	if condition := conditionOf(object, propagationv1alpha1.ConditionReconciling); condition.Type != "" {
		return fmt.Errorf("Reconciling is %+v", condition)
	}
	return nil
}

// isLeft checks that a member still has a ConfigMap, that Karmada takes for
// nobody's, and removes it.
func (s *space) isLeft(m *member, name string) {
	s.t.Helper()
	left := configMap(name)
	if err := m.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: name}, left); err != nil {
		s.t.Errorf("%s was to keep it: %v", m.Name, err)
		return
	}
	if left.Labels["karmada.io/managed"] != "" {
		s.t.Errorf("%s keeps it as Karmada's: %v", m.Name, left.Labels)
	}
	if err := m.Delete(s.ctx, left); err != nil {
		s.t.Error(err)
	}
}

// Karmada waits for ever to let go of an object that somebody deleted on the
// member by hand (karmada#7463). The deletion does not.
func TestPreserveWhatIsGone(t *testing.T) {
	s := newSpace(t)
	revision, began := s.says("lost", "to be kept")
	s.makes(preserving("lost", "member1", "member2"))
	s.settled("lost", revision, began, patience)

	// With nobody to repair it, the object stays deleted.
	stops(t, karmadaControllers, agent2)
	for _, m := range []*member{member1, member2} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "lost"}}
		if err := m.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	at := s.deletes("lost")
	s.until("lost", at, patience, func(object *directPropagation) error {
		if object.DeletionTimestamp == nil {
			return errors.New("it is not being deleted")
		}
		return nil
	})
	starts(t, karmadaControllers, agent2)
	lasted(t, "deleted, to be preserved, and lost on both members → gone", s.goes("lost", at, patience).Sub(at), 30*time.Second)
	s.hasNoWorks("lost")
}

// Of an object that is to stay on members that are gone, and of one that is
// suspended there, the deletion ends when the members are back: the one stays as
// nobody's, so that no later propagation takes it for its own, and the other goes.
func TestPreservedOrSuspendedWhileMembersAreGone(t *testing.T) {
	s := newSpace(t)
	began := time.Now()
	revision, _ := s.says("kept", "to be kept")
	s.makes(preserving("kept", "member1", "member2"))
	s.settled("kept", revision, began, patience)
	held, _ := s.says("held", "to be removed")
	s.propagates("held", configMap("held"), "member1", "member2")
	s.settled("held", held, began, patience)
	at := s.edits("held", func(object *directPropagation) { object.Spec.Suspension.Dispatching = ptr.To(true) })
	s.until("held", at, patience, all(rowSays("member1", metav1.ConditionTrue, propagationv1alpha1.ReasonSuspended), rowSays("member2", metav1.ConditionTrue, propagationv1alpha1.ReasonSuspended)))

	stopped := crashes(t, "member1", "member2")
	readiness(t, "member1", stopped, patience, false)
	readiness(t, "member2", stopped, patience, false)
	at = s.deletes("kept")
	s.deletes("held")
	for _, name := range []string{"kept", "held"} {
		s.until(name, at, patience, blockedOn("member1", "member2"))
		s.stays(name, 10*time.Second, blockedOn("member1", "member2"))
	}

	started := starts(t, "member1", "member2")
	gone := []*member{member1, member2}
	removed := looksFor(gone, removalPatience, func(ctx context.Context, m *member) error { return s.lacks(ctx, m, "held") })
	for _, m := range gone {
		back := readiness(t, m.Name, started, 3*time.Minute, true)
		lasted(t, m.Name+" back: Cluster Ready → object that was suspended is gone from it", removed(t, m).Sub(back), 15*time.Second)
	}
	s.goes("kept", at, patience)
	s.goes("held", at, patience)
	for _, m := range gone {
		s.isLeft(m, "kept")
	}
}

// The controller is killed while it deletes, and nothing is left all the same.
func TestDeletionSurvivesACrash(t *testing.T) {
	s := newSpace(t)
	revision, began := s.says("settings", "to be removed")
	s.propagates("settings", configMap("settings"), "member1", "member2", "member3")
	s.settled("settings", revision, began, patience)
	at := s.deletes("settings")
	if err := manager.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := manager.start(); err != nil {
		t.Fatal(err)
	}
	s.goes("settings", at, patience)
	for _, m := range members {
		s.comesToLack(m, "settings", patience)
	}
}
