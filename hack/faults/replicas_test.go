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
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

const (
	// rollouts is the number of objects that change repeatedly.
	rollouts = 12
	// rounds is how often each object changes before the leader is stopped, and again
	// afterwards.
	rounds = 6
)

// replica is a controller whose writes are recorded.
type replica struct {
	*testbed.Controller
	audit *testbed.Audit
}

// Of two replicas, the leader is stopped during a series of changes, once cleanly
// and once by a crash. The other one takes over, nothing is written twice except
// what was in progress, and everything converges.
func TestLeaderEnds(t *testing.T) {
	for _, end := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{
		// A clean stop releases the lease. The other replica checks for it every 2 s to
		// 4.4 s, because client-go adds up to 120 % to its retry period. The limit is
		// longer than that, but much shorter than the lease, so it proves that the lease
		// was released.
		{syscall.SIGTERM, 8 * time.Second},
		// After a crash, the lease of 15 s must expire first.
		{syscall.SIGKILL, 22 * time.Second},
	} {
		t.Run(end.signal.String(), func(t *testing.T) {
			ns := newNamespace(t)
			first, second := startReplicas(t)
			leader, other := first, second
			began := time.Now()
			for i := range rollouts {
				name := fmt.Sprintf("rollout-%d", i)
				ns.Writes(name, "round 0")
				ns.Propagates(name, testbed.ConfigMap(name, "")).ToClusters("member1", "member2", "member3")
			}
			ns.converges(began)
			ns.neverWrote(other, began)
			idle := time.Now()
			ns.rolls(1, rounds)
			ended := time.Now()
			if err := leader.End(end.signal); err != nil {
				t.Errorf("the leader exited with %v", err)
			}
			ns.rolls(rounds+1, 2*rounds)
			taken := ns.takesOver(other, ended, end.limit)
			lasted(t, "leader ended by "+end.signal.String()+" → first write of the other", taken.Sub(ended), end.limit)
			ns.converges(ended)
			ns.neverWrote(leader, taken)
			ns.wroteOnlyWhatItHadTo(idle, leader, other)
		})
	}
}

// The leader is frozen in the middle of many writes, and continues when another one has
// led for a while. It writes nothing more, so it undoes nothing that its successor did.
func TestLeaderIsFrozen(t *testing.T) {
	ns := newNamespace(t)
	leader, other := startReplicas(t)
	began := time.Now()
	for i := range rollouts {
		name := fmt.Sprintf("rollout-%d", i)
		ns.Writes(name, "round 0")
		ns.Propagates(name, testbed.ConfigMap(name, "")).ToClusters("member1", "member2", "member3")
	}
	ns.converges(began)
	busy := time.Now()
	ns.rolls(1, 1)
	ns.takesOver(leader, busy, testbed.Patience) // it is in the middle of its work
	frozen := time.Now()
	leader.signals(t, syscall.SIGSTOP)
	taken := ns.takesOver(other, frozen, 22*time.Second)
	lasted(t, "leader frozen → first write of the other", taken.Sub(frozen), 22*time.Second)
	ns.converges(busy)
	ns.withdrawsAndDeletes(time.Now())
	resumed := time.Now()
	leader.signals(t, syscall.SIGCONT)
	ns.Eventually("the former leader exits", func(context.Context) error {
		if leader.Fault() == nil {
			return errors.New("it is running")
		}
		return nil
	})
	if writes := leader.audit.Since(resumed, nil); len(writes) > 0 {
		t.Errorf("the former leader goes on writing:\n%s", testbed.Listing(writes))
	}
	repairs := func(w testbed.Write) bool { return strings.HasPrefix(w.Resource, "works") && ours(ns)(w) }
	if writes := other.audit.Since(resumed, repairs); len(writes) > 0 {
		t.Errorf("its successor repairs:\n%s", testbed.Listing(writes))
	}
}

// withdrawsAndDeletes removes a cluster from one half of the objects and deletes the
// other half, and waits until this is done.
func (ns *Namespace) withdrawsAndDeletes(since time.Time) {
	ns.T.Helper()
	for i := range rollouts {
		if p := ns.Propagation(fmt.Sprintf("rollout-%d", i)); i%2 == 0 {
			p.Deletes()
		} else {
			p.Changes(func(object *DirectPropagation) { object.Spec.Clusters = testbed.Targets("member1") })
		}
	}
	for i := range rollouts {
		name := fmt.Sprintf("rollout-%d", i)
		if p := ns.Propagation(name); i%2 == 0 {
			p.Goes(since)
		} else {
			p.Settles(ns.Revision(testbed.ConfigMap(name, "")), since)
		}
	}
}

// signals sends a signal to the process of a replica.
func (r *replica) signals(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(r.PID(), signal); err != nil {
		t.Fatalf("sending %v to %s: %v", signal, r.Name, err)
	}
}

// startReplicas stops the controller of the other tests and starts two with leader
// election. The first one is the leader.
func startReplicas(t *testing.T) (leader, other *replica) {
	t.Helper()
	if err := bed.Controller.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bed.Controller.Start(); err != nil {
			t.Error(err)
		}
	})
	replicas := []*replica{}
	for _, name := range []string{"replica-a", "replica-b"} {
		r := newReplica(t, name)
		if err := r.Start("--leader-elect=true"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.End(syscall.SIGTERM) })
		replicas = append(replicas, r)
		holdsLease(t)
	}
	return replicas[0], replicas[1]
}

// withoutController stops the controller that all tests share until the test ends.
func withoutController(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if err := bed.Controller.Start(); err != nil {
			t.Error(err)
		}
	})
	if err := bed.Controller.Terminate(); err != nil {
		t.Fatal(err)
	}
}

// newReplica returns a controller whose writes are recorded, not yet started.
func newReplica(t *testing.T, name string) *replica {
	t.Helper()
	audit, err := bed.NewAudit()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = audit.Close() })
	controller, err := bed.NewController(name, audit)
	if err != nil {
		t.Fatal(err)
	}
	return &replica{Controller: controller, audit: audit}
}

// holdsLease waits until a replica holds the lease.
func holdsLease(t *testing.T) {
	t.Helper()
	if err := bed.Await(t.Context(), "a replica holds the lease", func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		if err := karmada.Get(ctx, client.ObjectKey{Namespace: "karmada-system", Name: "karmada-direct"}, lease); err != nil {
			return err
		}
		if ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			return errors.New("no replica holds the lease")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// rolls changes every object once per round.
func (ns *Namespace) rolls(from, to int) {
	ns.T.Helper()
	for round := from; round <= to; round++ {
		for i := range rollouts {
			ns.Writes(fmt.Sprintf("rollout-%d", i), fmt.Sprintf("round %d", round))
		}
	}
}

// converges waits until every object is Ready with the current resource.
func (ns *Namespace) converges(since time.Time) {
	ns.T.Helper()
	for i := range rollouts {
		name := fmt.Sprintf("rollout-%d", i)
		ns.Propagation(name).Settles(ns.Revision(testbed.ConfigMap(name, "")), since)
	}
}

// ours returns a filter for successful writes to DirectPropagations of the test and
// to their Works.
func ours(ns *Namespace) func(testbed.Write) bool {
	return func(w testbed.Write) bool {
		return w.Status < 300 && (w.Namespace == ns.Name || strings.HasPrefix(w.Resource, "works") && strings.HasPrefix(w.Name, "rollout-"))
	}
}

func (ns *Namespace) takesOver(r *replica, since time.Time, limit time.Duration) time.Time {
	ns.T.Helper()
	first := time.Time{}
	ns.Within(2*limit, "the other replica writes", func(context.Context) error {
		writes := r.audit.Since(since, ours(ns))
		if len(writes) == 0 {
			return fmt.Errorf("it has written nothing")
		}
		first = writes[0].At
		return nil
	})
	return first
}

// neverWrote checks that a replica that is not the leader writes nothing.
func (ns *Namespace) neverWrote(r *replica, since time.Time) {
	ns.T.Helper()
	if writes := r.audit.Since(since, ours(ns)); len(writes) > 0 {
		ns.T.Errorf("a replica wrote without the lease: %v", writes)
	}
}

// wroteOnlyWhatItHadTo checks that no Work is written more often than twice per
// change. The change of leaders may repeat the writes of one change.
func (ns *Namespace) wroteOnlyWhatItHadTo(since time.Time, replicas ...*replica) {
	ns.T.Helper()
	count, total := map[string]int{}, 0
	for _, r := range replicas {
		for _, w := range r.audit.Since(since, ours(ns)) {
			if strings.HasPrefix(w.Resource, "works") {
				count[w.Namespace+"/"+w.Name]++
				total++
			}
		}
	}
	for work, writes := range count {
		if bound := 2*2*rounds + 2; writes > bound {
			ns.T.Errorf("Work %s was written %d times in %d changes, more than %d", work, writes, 2*rounds, bound)
		}
	}
	measured(ns.T, fmt.Sprintf("writes of %d Works in %d changes of their resource, a change of leaders in between", len(count), 2*rounds),
		fmt.Sprint(total), fmt.Sprintf("≤ %d for each Work", 2*2*rounds+2))
}
