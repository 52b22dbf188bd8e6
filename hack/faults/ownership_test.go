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
)

// takenUp is how long it may take to take up what somebody let go of.
const takenUp = 15 * time.Second

// A policy and a DirectPropagation want the same resource, in both orders. The
// policy has it either way, which is said; when policy and binding are gone,
// the DirectPropagation has it.
func TestPolicyHoldsAndLetsGo(t *testing.T) {
	for _, order := range []string{"policy first", "policy second"} {
		t.Run(order, func(t *testing.T) {
			s := newSpace(t)
			revision, began := s.says("settings", "wanted twice")
			if order == "policy first" {
				s.hasPolicy("settings", "member1", "member2", "member3")
				s.allRun("settings")
				s.propagates("settings", configMap("settings"), "member1", "member2", "member3")
			} else {
				s.propagates("settings", configMap("settings"), "member1", "member2", "member3")
				s.settled("settings", revision, began, patience)
				s.hasPolicy("settings", "member1", "member2", "member3")
			}
			held := all(heldBy("member1", "PropagationPolicy"), heldBy("member2", "PropagationPolicy"), heldBy("member3", "PropagationPolicy"))
			s.until("settings", began, patience, held)
			s.stays("settings", 5*time.Second, held)
			s.policyGoes(t, order)
			s.takesUp(t, order)
		})
	}
}

// allRun waits until every member has a ConfigMap as it is.
func (s *space) allRun(name string) {
	s.t.Helper()
	for _, m := range members {
		if _, err := awaits(s.ctx, patience, func(ctx context.Context) error { return s.differs(ctx, m, name) }); err != nil {
			s.t.Fatalf("%v\n%s", err, s.dump())
		}
	}
}

// policyGoes deletes the policy of a ConfigMap. Karmada keeps the binding and
// its Works, which hold the clusters on.
func (s *space) policyGoes(t *testing.T, order string) {
	t.Helper()
	if err := karmada.Delete(t.Context(), &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "settings"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := awaits(t.Context(), patience, func(ctx context.Context) error {
		settings := configMap("settings")
		if err := karmada.Get(ctx, client.ObjectKey{Namespace: s.name, Name: "settings"}, settings); err != nil {
			return err
		}
		if settings.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel] != "" {
			return errors.New("the resource is still claimed")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	throughout(t, 5*time.Second, "Karmada keeps the binding of a policy that is gone", func(ctx context.Context) error {
		_, err := s.binding(ctx, "settings")
		return err
	})
	s.until("settings", time.Time{}, patience, func(object *directPropagation) error {
		return errors.Join(heldBy("member1", "ResourceBinding")(object), heldBy("member2", "ResourceBinding")(object))
	})
	measured(t, order+", policy deleted, its binding kept by Karmada: the row says", rowOf(s.latest("settings"), "member1").Message, "")
}

// takesUp deletes the binding that is left, and measures how long it takes to
// take the resource up.
func (s *space) takesUp(t *testing.T, order string) {
	t.Helper()
	binding, err := s.binding(t.Context(), "settings")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	if err := karmada.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	revision := s.revision(configMap("settings"))
	lasted(t, order+", policy deleted and its binding deleted → Ready True", s.settled("settings", revision, at, patience).Sub(at), takenUp)
}

func heldBy(cluster, holder string) check {
	return func(object *directPropagation) error {
		if err := rowSays(cluster, metav1.ConditionFalse, propagationv1alpha1.ReasonConflict)(object); err != nil {
			return err
		}
		if row := rowOf(object, cluster); !strings.Contains(row.Message, " by "+holder+" ") {
			return fmt.Errorf("the row does not name the %s that holds it: %s", holder, row.Message)
		}
		return nil
	}
}

// Two DirectPropagations of one resource overlap in a cluster. Who has it keeps
// it; when it is deleted, the other takes it up, and nobody else is touched.
func TestHolderOfAClusterGoes(t *testing.T) {
	s := newSpace(t)
	revision, began := s.says("settings", "wanted twice")
	s.propagates("first", configMap("settings"), "member1", "member2")
	s.settled("first", revision, began, patience)
	s.propagates("second", configMap("settings"), "member2", "member3")
	s.until("second", began, patience, all(heldBy("member2", "DirectPropagation"), applied("member3", revision)))
	untouched := s.uidOn(member3)

	revision, at := s.says("settings", "changed meanwhile")
	s.settled("first", revision, at, patience)
	s.until("second", at, patience, all(heldBy("member2", "DirectPropagation"), applied("member3", revision)))
	at = s.deletes("first")
	lasted(t, "of two DirectPropagations the holder deleted → the other Ready", s.settled("second", revision, at, patience).Sub(at), takenUp)
	s.comesToLack(member1, "settings", patience)
	if s.uidOn(member3) != untouched {
		t.Error("the object on member3 was deleted and made anew, though nothing changed there")
	}
}

func (s *space) uidOn(m *member) types.UID {
	s.t.Helper()
	found := &corev1.ConfigMap{}
	if err := m.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: "settings"}, found); err != nil {
		s.t.Fatal(err)
	}
	return found.UID
}

// A cluster on which an object exists that Karmada did not make: Abort leaves
// it as it is and says so, Overwrite takes it over. The others go on.
func TestObjectThatIsThere(t *testing.T) {
	s := newSpace(t)
	theirs := configMap("settings")
	theirs.Namespace, theirs.Data = s.name, map[string]string{"says": "somebody else made this"}
	for _, m := range []*member{member1, member2} {
		if err := m.Create(t.Context(), theirs.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	revision, began := s.says("settings", "ours")
	s.propagates("settings", configMap("settings"), "member1", "member2", "member3")
	refused := all(rowSays("member1", metav1.ConditionFalse, propagationv1alpha1.ReasonApplyFailed), rowSays("member2", metav1.ConditionFalse, propagationv1alpha1.ReasonApplyFailed))
	s.until("settings", began, patience, all(refused, applied("member3", revision)))
	s.stays("settings", 5*time.Second, refused)
	for _, m := range []*member{member1, member2} {
		found := &corev1.ConfigMap{}
		if err := m.Get(t.Context(), client.ObjectKeyFromObject(theirs), found); err != nil || found.Data["says"] != theirs.Data["says"] || found.Labels["karmada.io/managed"] != "" {
			t.Errorf("%s: Abort touched it: %v %v %v", m.Name, found.Data, found.Labels, err)
		}
	}
	s.goesAndComes(refused)
	at := s.edits("settings", func(object *directPropagation) {
		object.Spec.ConflictResolution = propagationv1alpha1.ConflictOverwrite
	})
	s.until("settings", at, patience, func(object *directPropagation) error {
		if condition := conditionOf(object, propagationv1alpha1.ConditionReady); condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != object.Generation {
			return fmt.Errorf("Ready is %+v", condition)
		}
		return nil
	})
	for _, m := range members {
		s.runs(m, "settings")
	}
}

// goesAndComes deletes the DirectPropagation and makes it anew: going away, it
// must not delete what it never had.
func (s *space) goesAndComes(refused check) {
	s.t.Helper()
	at := s.deletes("settings")
	s.goes("settings", at, patience)
	s.comesToLack(member3, "settings", patience)
	throughout(s.t, 3*time.Second, "what is theirs stays", func(ctx context.Context) error {
		for _, m := range []*member{member1, member2} {
			if err := s.lacks(ctx, m, "settings"); err == nil {
				return fmt.Errorf("%s: it was deleted", m.Name)
			}
		}
		return nil
	})
	s.propagates("settings", configMap("settings"), "member1", "member2", "member3")
	s.until("settings", at, patience, refused)
}
