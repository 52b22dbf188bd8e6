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
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Suspended, rows say what the clusters run while the resource changes, and
// nothing more. Resumed, the change is applied.
func TestSuspension(t *testing.T) {
	for name, suspended := range map[string]struct {
		suspension         propagationv1alpha1.Suspension
		waiting, receiving []*member
	}{
		"all clusters": {propagationv1alpha1.Suspension{Dispatching: ptr.To(true)}, members, nil},
		"one cluster": {
			propagationv1alpha1.Suspension{DispatchingOnClusters: propagationv1alpha1.SuspendClusters{ClusterNames: []string{"member2"}}},
			[]*member{member2}, []*member{member1, member3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t)
			old, began := s.says("settings", "one")
			s.propagates("settings", configMap("settings"), "member1", "member2", "member3")
			s.settled("settings", old, began, patience)

			at := s.edits("settings", func(object *directPropagation) { object.Spec.Suspension = suspended.suspension })
			still := []check{}
			for _, m := range suspended.waiting {
				still = append(still, rowSays(m.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonSuspended), applied(m.Name, old))
			}
			s.until("settings", at, patience, all(append(still, ready(old))...))

			revision, changed := s.says("settings", "two")
			waits := []check{isNotReady}
			for _, m := range suspended.receiving {
				waits = append(waits, applied(m.Name, revision))
			}
			for _, m := range suspended.waiting {
				waits = append(waits, rowSays(m.Name, metav1.ConditionUnknown, propagationv1alpha1.ReasonSuspended), remembers(m.Name, old))
			}
			s.until("settings", changed, patience, all(waits...))
			s.stays("settings", 10*time.Second, all(waits...))
			for _, m := range suspended.waiting {
				if s.differs(t.Context(), m, "settings") == nil {
					t.Errorf("%s got the change although it is suspended", m.Name)
				}
			}

			at = s.edits("settings", func(object *directPropagation) { object.Spec.Suspension = propagationv1alpha1.Suspension{} })
			lasted(t, name+" resumed → Ready True with the change", s.settled("settings", revision, at, patience).Sub(at), 10*time.Second)
		})
	}
}

func isNotReady(object *directPropagation) error {
	if condition := conditionOf(object, propagationv1alpha1.ConditionReady); condition.Status != metav1.ConditionFalse {
		return fmt.Errorf("Ready is %+v", condition)
	}
	return nil
}

// remembers: the row of a cluster names the revision that it confirmed last.
func remembers(cluster, revision string) check {
	return func(object *directPropagation) error {
		if row := rowOf(object, cluster); row.Revision != revision {
			return errors.Join(fmt.Errorf("the row of %s is %+v, not with revision %s", cluster, row, revision))
		}
		return nil
	}
}

// A Work that was suspended from the start has never been on the member.
func TestSuspendedFromTheStart(t *testing.T) {
	s := newSpace(t)
	revision, began := s.says("settings", "one")
	object := &directPropagation{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
	object.Spec = propagationv1alpha1.PropagationSpec{
		Resource: referenceTo(configMap("settings")), Clusters: targets("member1", "member2"),
		Suspension: propagationv1alpha1.Suspension{Dispatching: ptr.To(true)},
	}
	s.makes(object)
	waits := all(isNotReady, rowSays("member1", metav1.ConditionUnknown, propagationv1alpha1.ReasonSuspended), rowSays("member2", metav1.ConditionUnknown, propagationv1alpha1.ReasonSuspended),
		remembers("member1", ""), remembers("member2", ""))
	s.until("settings", began, patience, waits)
	s.stays("settings", 5*time.Second, waits)
	for _, m := range []*member{member1, member2} {
		if err := s.lacks(t.Context(), m, "settings"); err != nil {
			t.Error(err)
		}
	}
	at := s.edits("settings", func(object *directPropagation) { object.Spec.Suspension = propagationv1alpha1.Suspension{} })
	s.settled("settings", revision, at, patience)
}
