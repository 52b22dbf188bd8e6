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
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// heldUp is how much longer it may take to remove a member from Karmada when a
// DirectPropagation names the member. The object must be deleted there. Karmada
// checks every 10 s, its CleanupCheckInterval, whether that is done, so a deletion
// that takes one second longer can take a whole interval longer.
const heldUp = 10*time.Second + 5*time.Second

// A push and a pull member leave Karmada and join again while an object names them.
func TestMembersLeaveAndComeAgain(t *testing.T) {
	for _, m := range []*Member{member1, member2} {
		t.Run(m.Name, func(t *testing.T) {
			alone := leaves(t, m)
			joins(t, m)
			lasted(t, m.Name+" unjoined, no DirectPropagation", alone, 0)

			ns := newNamespace(t)
			revision, began := ns.Writes("settings", "for whoever is there")
			ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2", "member3")
			ns.Propagation("settings").Settles(revision, began)
			at := time.Now()
			lasted(t, m.Name+" unjoined while a DirectPropagation names it", leaves(t, m), alone+heldUp)
			ns.Propagation("settings").Until(at, testbed.RowSays(m.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonClusterNotFound))
			ns.wasTold(m, at)
			ns.comesToLack(m, "settings")

			at = time.Now()
			joins(t, m)
			joined := readiness(t, m.Name, at, testbed.Patience, true)
			lasted(t, m.Name+" joined again: Cluster Ready → row True", ns.Propagation("settings").Settles(revision, at).Sub(joined), 15*time.Second)
			for _, state := range ns.Propagation("settings").States(began.Add(time.Second)) {
				for _, other := range members {
					row := testbed.RowOf(state, other.Name)
					if other != m && row.Revision == revision && row.Applied != metav1.ConditionTrue {
						t.Errorf("%s was touched: %+v", other.Name, row)
					}
				}
			}
		})
	}
}

// A member leaves that has never got what is to be preserved there, because that is suspended.
// Karmada would keep the Work, and with it the Cluster, forever (karmada#7463).
func TestMemberLeavesWithoutTheObjectToPreserve(t *testing.T) {
	ns := newNamespace(t)
	ns.Writes("settings", "for later")
	object := ns.Propagates("settings", testbed.ConfigMap("settings", "")).With(func(object *testbed.DirectPropagation) {
		object.Spec.PreserveResourcesOnDeletion, object.Spec.Suspension.Dispatching = ptr.To(true), ptr.To(true)
	}).ToClusters("member1")
	at := time.Now()
	object.Until(at, testbed.RowSays("member1", metav1.ConditionUnknown, propagationv1alpha1.ReasonSuspended))
	at = time.Now()
	lasted(t, "member1 unjoined, with a Work to preserve whose object is missing", leaves(t, member1), time.Minute)
	object.Until(at, testbed.RowSays("member1", metav1.ConditionFalse, propagationv1alpha1.ReasonClusterNotFound))
}

// leaves removes a member from Karmada and returns how long that took. When the test
// ends, the member joins again.
func leaves(t *testing.T, m *Member, flags ...string) time.Duration {
	t.Helper()
	t.Cleanup(func() {
		joins(t, m)
		allReady(t)
	})
	return fleetDoes(t, append([]string{"unjoin", m.Name}, flags...)...)
}

func joins(t *testing.T, m *Member) time.Duration {
	t.Helper()
	return fleetDoes(t, "join", m.Name)
}

// wasTold checks that the row of a leaving member had only expected reasons.
func (ns *Namespace) wasTold(m *Member, since time.Time) {
	ns.T.Helper()
	said := map[string]bool{}
	for _, state := range ns.Propagation("settings").States(since) {
		row := testbed.RowOf(state, m.Name)
		said[row.Reason] = true
		switch row.Reason {
		case propagationv1alpha1.ReasonApplied, propagationv1alpha1.ReasonApplying, propagationv1alpha1.ReasonClusterTerminating,
			propagationv1alpha1.ReasonClusterNotReady, propagationv1alpha1.ReasonClusterNotFound:
		default:
			ns.T.Errorf("while %s left, its row said %+v", m.Name, row)
		}
	}
	ns.T.Logf("while %s left, its row said %v", m.Name, said)
}

// A member that cannot be reached is removed by force. When it joins again, the
// objects that are still there are taken over.
func TestUnjoinByForce(t *testing.T) {
	ns := newNamespace(t)
	old, began := ns.Writes("settings", "one")
	ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2", "member3")
	ns.Propagation("settings").Settles(old, began)

	crashes(t, "member3-kube-apiserver")
	at := time.Now()
	lasted(t, "member3, its API server gone, unjoined by force", leaves(t, member3, "--force"), 40*time.Second)
	ns.Propagation("settings").Until(at, testbed.RowSays("member3", metav1.ConditionFalse, propagationv1alpha1.ReasonClusterNotFound))
	revision, changed := ns.Writes("settings", "two")
	ns.Propagation("settings").Until(changed, testbed.All(testbed.Applied("member1", revision), testbed.Applied("member2", revision)))
	if work := ns.work("member3", "settings"); work != nil {
		t.Errorf("a Work was created for a removed cluster: %s", work.Name)
	}

	starts(t, "member3-kube-apiserver")
	at = time.Now()
	joins(t, member3)
	joined := readiness(t, "member3", at, testbed.Patience, true)
	lasted(t, "member3, unjoined by force, joined again: Cluster Ready → row True", ns.Propagation("settings").Settles(revision, changed).Sub(joined), 15*time.Second)
}

// A DirectPropagation names a cluster before it is registered, and is deleted while
// the cluster is not registered.
func TestNamedBeforeRegistered(t *testing.T) {
	leaves(t, member3)
	ns := newNamespaceOn(t, member1, member2)
	revision, began := ns.Writes("settings", "for who comes")
	ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member3")
	ns.Propagation("settings").Until(began, testbed.All(testbed.Applied("member1", revision), testbed.RowSays("member3", metav1.ConditionFalse, propagationv1alpha1.ReasonClusterNotFound)))
	at := time.Now()
	joins(t, member3)
	joined := readiness(t, "member3", at, testbed.Patience, true)
	lasted(t, "named before it was registered: Cluster Ready → row True", ns.Propagation("settings").Settles(revision, at).Sub(joined), 15*time.Second)

	leaves(t, member3)
	ns.Propagation("settings").Until(at, testbed.RowSays("member3", metav1.ConditionFalse, propagationv1alpha1.ReasonClusterNotFound))
	at = ns.Propagation("settings").Deletes()
	lasted(t, "deleted while a named cluster is not registered → gone", ns.Propagation("settings").Goes(at).Sub(at), 15*time.Second)
}
