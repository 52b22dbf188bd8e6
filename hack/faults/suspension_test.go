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
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// While an object is suspended and the resource changes, rows still say what the
// clusters run. When the object is resumed, the change is applied.
func TestSuspension(t *testing.T) {
	for name, suspended := range map[string]struct {
		suspension         propagationv1alpha1.Suspension
		waiting, receiving []*Member
	}{
		"all clusters": {propagationv1alpha1.Suspension{Dispatching: ptr.To(true)}, members, nil},
		"one cluster": {
			propagationv1alpha1.Suspension{DispatchingOnClusters: propagationv1alpha1.SuspendClusters{ClusterNames: []string{"member2"}}},
			[]*Member{member2}, []*Member{member1, member3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			old, began := ns.Writes("settings", "one")
			ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2", "member3")
			ns.Propagation("settings").Settles(old, began)

			at := ns.Propagation("settings").Changes(func(object *DirectPropagation) { object.Spec.Suspension = suspended.suspension })
			still := []testbed.Check{}
			for _, m := range suspended.waiting {
				still = append(still, testbed.RowSays(m.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonSuspended), testbed.Applied(m.Name, old))
			}
			ns.Propagation("settings").Until(at, testbed.All(append(still, testbed.ReadyWith(old))...))

			revision, changed := ns.Writes("settings", "two")
			waits := []testbed.Check{testbed.NotReady}
			for _, m := range suspended.receiving {
				waits = append(waits, testbed.Applied(m.Name, revision))
			}
			for _, m := range suspended.waiting {
				waits = append(waits, testbed.RowSays(m.Name, metav1.ConditionUnknown, propagationv1alpha1.ReasonSuspended), remembers(m.Name, old))
			}
			ns.Propagation("settings").Until(changed, testbed.All(waits...))
			ns.Propagation("settings").Stays(10*time.Second, testbed.All(waits...))
			for _, m := range suspended.waiting {
				if ns.Differs(t.Context(), m, testbed.ConfigMap("settings", "")) == nil {
					t.Errorf("%s has the change although it is suspended", m.Name)
				}
			}

			at = ns.Propagation("settings").Changes(func(object *DirectPropagation) { object.Spec.Suspension = propagationv1alpha1.Suspension{} })
			lasted(t, name+" resumed → Ready True with the change", ns.Propagation("settings").Settles(revision, at).Sub(at), 10*time.Second)
		})
	}
}

// remembers checks that the row of a cluster has the revision that the cluster
// confirmed last.
func remembers(cluster, revision string) testbed.Check {
	return func(object *DirectPropagation) error {
		if row := testbed.RowOf(object, cluster); row.Revision != revision {
			return errors.Join(fmt.Errorf("the row of %s is %+v, not with revision %s", cluster, row, revision))
		}
		return nil
	}
}

// A Work that is suspended from the start never reaches the member.
func TestSuspendedFromTheStart(t *testing.T) {
	ns := newNamespace(t)
	revision, began := ns.Writes("settings", "one")
	object := &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
	object.Spec = propagationv1alpha1.PropagationSpec{
		Resource: testbed.ReferenceTo(testbed.ConfigMap("settings", "")), Clusters: testbed.Targets("member1", "member2"),
		Suspension: propagationv1alpha1.Suspension{Dispatching: ptr.To(true)},
	}
	ns.Makes(object)
	waits := testbed.All(testbed.NotReady, testbed.RowSays("member1", metav1.ConditionUnknown, propagationv1alpha1.ReasonSuspended), testbed.RowSays("member2", metav1.ConditionUnknown, propagationv1alpha1.ReasonSuspended),
		remembers("member1", ""), remembers("member2", ""))
	ns.Propagation("settings").Until(began, waits)
	ns.Propagation("settings").Stays(5*time.Second, waits)
	for _, m := range []*Member{member1, member2} {
		if err := ns.lacks(t.Context(), m, "settings"); err != nil {
			t.Error(err)
		}
	}
	at := ns.Propagation("settings").Changes(func(object *DirectPropagation) { object.Spec.Suspension = propagationv1alpha1.Suspension{} })
	ns.Propagation("settings").Settles(revision, at)
}
