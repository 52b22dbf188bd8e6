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
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// takenUp is the time limit for taking over a released resource.
const takenUp = 15 * time.Second

// A policy and a DirectPropagation want the same resource, in both orders. In either
// case, the policy holds it, and the status says so. When the policy and its binding
// are gone, the DirectPropagation takes over.
func TestPolicyHoldsAndLetsGo(t *testing.T) {
	for _, order := range []string{"policy first", "policy second"} {
		t.Run(order, func(t *testing.T) {
			ns := newNamespace(t)
			revision, began := ns.Writes("settings", "wanted twice")
			if order == "policy first" {
				ns.hasPolicy("settings", "member1", "member2", "member3")
				ns.allRun("settings")
				ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2", "member3")
			} else {
				ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2", "member3")
				ns.Propagation("settings").Settles(revision, began)
				ns.hasPolicy("settings", "member1", "member2", "member3")
			}
			held := testbed.All(heldBy("member1", "PropagationPolicy"), heldBy("member2", "PropagationPolicy"), heldBy("member3", "PropagationPolicy"))
			ns.Propagation("settings").Until(began, held)
			ns.Propagation("settings").Stays(5*time.Second, held)
			ns.policyGoes(t, order)
			ns.takesUp(t, order)
		})
	}
}

// allRun waits until every member has the current ConfigMap.
func (ns *Namespace) allRun(name string) {
	ns.T.Helper()
	for _, m := range members {
		ns.Eventually(m.Name+" runs "+name, func(ctx context.Context) error { return ns.Differs(ctx, m, testbed.ConfigMap(name, "")) })
	}
}

// policyGoes deletes the policy of a ConfigMap. Karmada keeps the binding and its
// Works, which still hold the clusters.
func (ns *Namespace) policyGoes(t *testing.T, order string) {
	t.Helper()
	if err := karmada.Delete(t.Context(), &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "settings"}}); err != nil {
		t.Fatal(err)
	}
	ns.Eventually("the policy has released the resource", func(ctx context.Context) error {
		settings := testbed.ConfigMap("settings", "")
		if err := karmada.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "settings"}, settings); err != nil {
			return err
		}
		if settings.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel] != "" {
			return errors.New("the resource still has the policy's label")
		}
		return nil
	})
	ns.Throughout(5*time.Second, "Karmada keeps the binding of a policy that is gone", func(ctx context.Context) error {
		_, err := ns.binding(ctx, "settings")
		return err
	})
	ns.Propagation("settings").Until(time.Time{}, func(object *DirectPropagation) error {
		return errors.Join(heldBy("member1", "ResourceBinding")(object), heldBy("member2", "ResourceBinding")(object))
	})
	measured(t, order+", policy deleted, its binding kept by Karmada: the row says", testbed.RowOf(ns.Propagation("settings").Latest(), "member1").Message, "")
}

// takesUp deletes the remaining binding and measures how long it takes until the
// DirectPropagation is Ready.
func (ns *Namespace) takesUp(t *testing.T, order string) {
	t.Helper()
	binding, err := ns.binding(t.Context(), "settings")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	if err := karmada.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	revision := ns.Revision(testbed.ConfigMap("settings", ""))
	lasted(t, order+", policy deleted and its binding deleted → Ready True", ns.Propagation("settings").Settles(revision, at).Sub(at), takenUp)
}

func heldBy(cluster, holder string) testbed.Check {
	return func(object *DirectPropagation) error {
		if err := testbed.RowSays(cluster, metav1.ConditionFalse, propagationv1alpha1.ReasonConflict)(object); err != nil {
			return err
		}
		if row := testbed.RowOf(object, cluster); !strings.Contains(row.Message, " by "+holder+" ") {
			return fmt.Errorf("the row does not name the %s that holds it: %s", holder, row.Message)
		}
		return nil
	}
}

// Two DirectPropagations for one resource overlap in a cluster. The holder keeps it.
// When the holder is deleted, the other one takes over, and its other clusters are
// not affected.
func TestHolderOfAClusterGoes(t *testing.T) {
	ns := newNamespace(t)
	revision, began := ns.Writes("settings", "wanted twice")
	ns.Propagates("first", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2")
	ns.Propagation("first").Settles(revision, began)
	ns.Propagates("second", testbed.ConfigMap("settings", "")).ToClusters("member2", "member3")
	ns.Propagation("second").Until(began, testbed.All(heldBy("member2", "DirectPropagation"), testbed.Applied("member3", revision)))
	untouched := ns.uidOn(member3)

	revision, at := ns.Writes("settings", "changed meanwhile")
	ns.Propagation("first").Settles(revision, at)
	ns.Propagation("second").Until(at, testbed.All(heldBy("member2", "DirectPropagation"), testbed.Applied("member3", revision)))
	at = ns.Propagation("first").Deletes()
	lasted(t, "of two DirectPropagations the holder deleted → the other Ready", ns.Propagation("second").Settles(revision, at).Sub(at), takenUp)
	ns.comesToLack(member1, "settings")
	if ns.uidOn(member3) != untouched {
		t.Error("the object on member3 was deleted and recreated, although nothing changed there")
	}
}

func (ns *Namespace) uidOn(m *Member) types.UID {
	ns.T.Helper()
	found := &corev1.ConfigMap{}
	if err := m.Get(ns.Ctx, client.ObjectKey{Namespace: ns.Name, Name: "settings"}, found); err != nil {
		ns.T.Fatal(err)
	}
	return found.UID
}

// Some members already have an object that Karmada did not create. Abort leaves it
// alone and reports it, and Overwrite takes it over. Other members are not affected.
func TestObjectThatIsThere(t *testing.T) {
	ns := newNamespace(t)
	theirs := testbed.ConfigMap("settings", "")
	theirs.Namespace, theirs.Data = ns.Name, map[string]string{"says": "somebody else made this"}
	for _, m := range []*Member{member1, member2} {
		if err := m.Create(t.Context(), theirs.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	revision, began := ns.Writes("settings", "ours")
	ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2", "member3")
	refused := testbed.All(testbed.RowSays("member1", metav1.ConditionFalse, propagationv1alpha1.ReasonApplyFailed), testbed.RowSays("member2", metav1.ConditionFalse, propagationv1alpha1.ReasonApplyFailed))
	ns.Propagation("settings").Until(began, testbed.All(refused, testbed.Applied("member3", revision)))
	ns.Propagation("settings").Stays(5*time.Second, refused)
	for _, m := range []*Member{member1, member2} {
		found := &corev1.ConfigMap{}
		if err := m.Get(t.Context(), client.ObjectKeyFromObject(theirs), found); err != nil || found.Data["says"] != theirs.Data["says"] || found.Labels["karmada.io/managed"] != "" {
			t.Errorf("%s: Abort has changed the object: %v %v %v", m.Name, found.Data, found.Labels, err)
		}
	}
	ns.goesAndComes(refused)
	at := ns.Propagation("settings").Changes(func(object *DirectPropagation) {
		object.Spec.ConflictResolution = propagationv1alpha1.ConflictOverwrite
	})
	ns.Propagation("settings").Until(at, func(object *DirectPropagation) error {
		if condition := testbed.ConditionOf(object, propagationv1alpha1.ConditionReady); condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != object.Generation {
			return fmt.Errorf("Ready is %+v", condition)
		}
		return nil
	})
	for _, m := range members {
		ns.runs(m, "settings")
	}
}

// goesAndComes deletes the DirectPropagation and creates it again. The deletion must
// not delete the objects that it never owned.
func (ns *Namespace) goesAndComes(refused testbed.Check) {
	ns.T.Helper()
	at := ns.Propagation("settings").Deletes()
	ns.Propagation("settings").Goes(at)
	ns.comesToLack(member3, "settings")
	ns.Throughout(3*time.Second, "the objects of others stay", func(ctx context.Context) error {
		for _, m := range []*Member{member1, member2} {
			if err := ns.lacks(ctx, m, "settings"); err == nil {
				return fmt.Errorf("%s: it was deleted", m.Name)
			}
		}
		return nil
	})
	ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2", "member3")
	ns.Propagation("settings").Until(at, refused)
}
