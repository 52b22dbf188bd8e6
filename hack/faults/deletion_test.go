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
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A push and a pull member are unreachable when two objects are deleted. One
// deletion waits for the members, and the other abandons them. When the members are
// back, both resources are removed from them.
func TestDeletionWhileMembersAreGone(t *testing.T) {
	ns := newNamespace(t)
	began := time.Now()
	for _, name := range []string{"waits", "abandons"} {
		revision, _ := ns.Writes(name, "to be removed")
		ns.Propagates(name, testbed.ConfigMap(name, "")).ToClusters("member1", "member2", "member3")
		ns.Propagation(name).Settles(revision, began)
	}
	stopped := crashes(t, "member1", "member2")
	readiness(t, "member1", stopped, testbed.Patience, false)
	readiness(t, "member2", stopped, testbed.Patience, false)

	at := ns.Propagation("waits").Deletes()
	ns.Propagation("waits").Until(at, blockedOn("member1", "member2"))
	lasted(t, "deleted while two of three are gone → gone from member3", ns.comesToLack(member3, "waits").Sub(at), 15*time.Second)
	ns.Propagation("waits").Until(at, testbed.All(blockedOn("member1", "member2"), testbed.NoRow("member3")))
	ns.Propagation("waits").Stays(10*time.Second, testbed.All(blockedOn("member1", "member2"), testbed.NoRow("member3")))
	ns.abandons(at)

	started := starts(t, "member1", "member2")
	gone := []*Member{member1, member2}
	waited := bed.LookFor(gone, removalPatience, "what waited is gone", func(ctx context.Context, m *Member) error { return ns.lacks(ctx, m, "waits") })
	abandoned := bed.LookFor(gone, removalPatience, "what was abandoned is gone", func(ctx context.Context, m *Member) error { return ns.lacks(ctx, m, "abandons") })
	for _, m := range gone {
		back := readiness(t, m.Name, started, 3*time.Minute, true)
		lasted(t, m.Name+" back: Cluster Ready → object that waited is gone from it", waited(t, m).Sub(back), 10*time.Second)
		lasted(t, m.Name+" back: Cluster Ready → object that was abandoned is gone from it, by Karmada alone", abandoned(t, m).Sub(back), 0)
	}
	ns.Propagation("waits").Goes(at)
	for _, name := range []string{"waits", "abandons"} {
		ns.hasNoWorks(name)
	}
}

// removalPatience is how long Karmada may take on its own: its back-off for a
// cluster that it cannot reach is up to 1000 s.
const removalPatience = 17 * time.Minute

// abandons deletes an object and makes it abandon the unreachable members.
func (ns *Namespace) abandons(since time.Time) {
	ns.T.Helper()
	ns.Propagation("abandons").Deletes()
	ns.Propagation("abandons").Until(since, blockedOn("member1", "member2"))
	ns.comesToLack(member3, "abandons")
	ns.Propagation("abandons").Until(since, testbed.NoRow("member3"))
	at := ns.Propagation("abandons").Changes(func(object *DirectPropagation) {
		object.Annotations = map[string]string{propagationv1alpha1.AbandonUnreachableAnnotation: "true"}
	})
	lasted(ns.T, "told to abandon → the object is gone", ns.Propagation("abandons").Goes(at).Sub(at), 5*time.Second)
	note := ns.Event("abandons", propagationv1alpha1.EventClustersAbandoned)
	if !strings.Contains(note, "member1") || !strings.Contains(note, "member2") || strings.Contains(note, "member3") {
		ns.T.Errorf("the Event does not name the abandoned clusters: %q", note)
	}
	measured(ns.T, "Event ClustersAbandoned", note, "")
}

// hasNoWorks waits until no Work of a ConfigMap is left.
func (ns *Namespace) hasNoWorks(name string) {
	ns.T.Helper()
	if err := bed.Await(ns.Ctx, "no Work of "+name+" is left", func(context.Context) error {
		for _, m := range members {
			if work := ns.work(m.Name, name); work != nil {
				return fmt.Errorf("Work %s/%s is left", work.Namespace, work.Name)
			}
		}
		return nil
	}); err != nil {
		ns.T.Errorf("%v\n%s", err, ns.Dump())
	}
}

// blockedOn checks that the object is being deleted, that its finalizer holds it,
// and that rows report these clusters as unreachable.
func blockedOn(names ...string) testbed.Check {
	return func(object *DirectPropagation) error {
		if object.DeletionTimestamp == nil || !slices.Contains(object.Finalizers, propagationv1alpha1.CleanupFinalizer) {
			return fmt.Errorf("it is not held by its finalizer: %v", object.Finalizers)
		}
		if condition := testbed.ConditionOf(object, propagationv1alpha1.ConditionReady); condition.Status != metav1.ConditionFalse || condition.Reason != propagationv1alpha1.ReasonDeleting {
			return fmt.Errorf("Ready is %+v", condition)
		}
		for _, name := range names {
			if err := testbed.RowSays(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonRemovalBlocked)(object); err != nil {
				return err
			}
		}
		return nil
	}
}

// With preserveResourcesOnDeletion, a cluster keeps the resource when the cluster is
// removed from the list, and when the object is deleted.
func TestPreserve(t *testing.T) {
	ns := newNamespace(t)
	revision, began := ns.Writes("kept", "to be kept")
	ns.Makes(preserving("kept", "member1", "member2", "member3"))
	ns.Propagation("kept").Settles(revision, began)

	at := ns.Propagation("kept").Changes(func(object *DirectPropagation) { object.Spec.Clusters = testbed.Targets("member2", "member3") })
	ns.Propagation("kept").Until(at, testbed.All(testbed.NoRow("member1"), testbed.ReadyWith(revision), isDone))
	at = ns.Propagation("kept").Deletes()
	ns.Propagation("kept").Goes(at)
	ns.hasNoWorks("kept")
	for _, m := range members {
		ns.isLeft(m, "kept")
	}
}

func preserving(name string, clusters ...string) *DirectPropagation {
	return &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: propagationv1alpha1.PropagationSpec{
		Resource: testbed.ReferenceTo(testbed.ConfigMap(name, "")), Clusters: testbed.Targets(clusters...), PreserveResourcesOnDeletion: ptr.To(true),
	}}
}

func isDone(object *DirectPropagation) error {
	if condition := testbed.ConditionOf(object, propagationv1alpha1.ConditionReconciling); condition.Type != "" {
		return fmt.Errorf("Reconciling is %+v", condition)
	}
	return nil
}

// isLeft checks that a member still has a ConfigMap, but without the label by which
// Karmada manages it. It then deletes the ConfigMap.
func (ns *Namespace) isLeft(m *Member, name string) {
	ns.T.Helper()
	left := testbed.ConfigMap(name, "")
	if err := m.Get(ns.Ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, left); err != nil {
		ns.T.Errorf("%s has not kept it: %v", m.Name, err)
		return
	}
	if left.Labels["karmada.io/managed"] != "" {
		ns.T.Errorf("%s has kept it, but Karmada still manages it: %v", m.Name, left.Labels)
	}
	if err := m.Delete(ns.Ctx, left); err != nil {
		ns.T.Error(err)
	}
}

// If somebody has deleted an object manually on the member, Karmada waits forever to
// release it (karmada#7463). The deletion of the DirectPropagation does not.
func TestPreserveWhatIsGone(t *testing.T) {
	ns := newNamespace(t)
	revision, began := ns.Writes("lost", "to be kept")
	ns.Makes(preserving("lost", "member1", "member2"))
	ns.Propagation("lost").Settles(revision, began)

	// While nobody repairs it, the object stays deleted.
	stops(t, karmadaControllers, agent2)
	for _, m := range []*Member{member1, member2} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "lost"}}
		if err := m.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	at := ns.Propagation("lost").Deletes()
	ns.Propagation("lost").Until(at, func(object *DirectPropagation) error {
		if object.DeletionTimestamp == nil {
			return errors.New("it is not being deleted")
		}
		return nil
	})
	starts(t, karmadaControllers, agent2)
	lasted(t, "deleted, to be preserved, and lost on both members → gone", ns.Propagation("lost").Goes(at).Sub(at), 30*time.Second)
	ns.hasNoWorks("lost")
}

// One object is to be preserved on members that are unreachable, and one is
// suspended there. When the members are back, both deletions finish. The preserved
// object stays without Karmada's label, so that no later propagation treats it as
// its own, and the suspended one is removed.
func TestPreservedOrSuspendedWhileMembersAreGone(t *testing.T) {
	ns := newNamespace(t)
	began := time.Now()
	revision, _ := ns.Writes("kept", "to be kept")
	ns.Makes(preserving("kept", "member1", "member2"))
	ns.Propagation("kept").Settles(revision, began)
	held, _ := ns.Writes("held", "to be removed")
	ns.Propagates("held", testbed.ConfigMap("held", "")).ToClusters("member1", "member2")
	ns.Propagation("held").Settles(held, began)
	at := ns.Propagation("held").Changes(func(object *DirectPropagation) { object.Spec.Suspension.Dispatching = ptr.To(true) })
	ns.Propagation("held").Until(at, testbed.All(testbed.RowSays("member1", metav1.ConditionTrue, propagationv1alpha1.ReasonSuspended), testbed.RowSays("member2", metav1.ConditionTrue, propagationv1alpha1.ReasonSuspended)))

	stopped := crashes(t, "member1", "member2")
	readiness(t, "member1", stopped, testbed.Patience, false)
	readiness(t, "member2", stopped, testbed.Patience, false)
	at = ns.Propagation("kept").Deletes()
	ns.Propagation("held").Deletes()
	for _, name := range []string{"kept", "held"} {
		ns.Propagation(name).Until(at, blockedOn("member1", "member2"))
		ns.Propagation(name).Stays(10*time.Second, blockedOn("member1", "member2"))
	}

	started := starts(t, "member1", "member2")
	gone := []*Member{member1, member2}
	removed := bed.LookFor(gone, removalPatience, "what was suspended is gone", func(ctx context.Context, m *Member) error { return ns.lacks(ctx, m, "held") })
	for _, m := range gone {
		back := readiness(t, m.Name, started, 3*time.Minute, true)
		lasted(t, m.Name+" back: Cluster Ready → object that was suspended is gone from it", removed(t, m).Sub(back), 15*time.Second)
	}
	ns.Propagation("kept").Goes(at)
	ns.Propagation("held").Goes(at)
	for _, m := range gone {
		ns.isLeft(m, "kept")
	}
}

// The controller is killed during a deletion, and still nothing is left.
func TestDeletionSurvivesACrash(t *testing.T) {
	ns := newNamespace(t)
	revision, began := ns.Writes("settings", "to be removed")
	ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2", "member3")
	ns.Propagation("settings").Settles(revision, began)
	at := ns.Propagation("settings").Deletes()
	if err := bed.Controller.End(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := bed.Controller.Start(); err != nil {
		t.Fatal(err)
	}
	ns.Propagation("settings").Goes(at)
	for _, m := range members {
		ns.comesToLack(m, "settings")
	}
}
