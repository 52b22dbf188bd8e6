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

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// heldUp is how much longer than without any DirectPropagation it may take to
// take a member out of Karmada. Its object has to be deleted there, and Karmada
// looks every 10 s, its CleanupCheckInterval, whether that is done: what takes a
// second more may take a whole interval more.
const heldUp = 10*time.Second + 5*time.Second

// A push and a pull member leave Karmada and come again while they are named.
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

// leaves takes a member out of Karmada until the end of the test, at the
// latest, and returns how long it took.
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

// wasTold checks that the row of a member that left said only what is true of
// it.
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

// A member that cannot be reached is taken out by force. What it had is still
// there when it is back, and is taken up.
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
		t.Errorf("a Work was made for a cluster that is gone: %s", work.Name)
	}

	starts(t, "member3-kube-apiserver")
	at = time.Now()
	joins(t, member3)
	joined := readiness(t, "member3", at, testbed.Patience, true)
	lasted(t, "member3, unjoined by force, joined again: Cluster Ready → row True", ns.Propagation("settings").Settles(revision, changed).Sub(joined), 15*time.Second)
}

// A cluster is named before it is registered, and a DirectPropagation is
// deleted while a cluster that it names is not.
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
