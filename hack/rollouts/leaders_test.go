//go:build rollouts

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

package rollouts

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// soak is how long the clusters of each stage must be good in these tests, so that a rollout
// lasts longer than several leaders.
const soak = 15 * time.Second

// The controller is killed every few seconds, and then leaders are paused and resumed,
// throughout the rollouts of many objects. The bounds hold, soaks neither restart nor
// shorten, and every rollout ends.
func TestRolloutsWhileControllersDie(t *testing.T) {
	ns := newNamespace(t)
	plays := make([]*play, 40)
	for i := range plays {
		plays[i] = ns.begins(testbed.ConfigMap(fmt.Sprintf("settings-%d", i), "1"), func(spec *propagationv1alpha1.Rollout) {
			spec.SoakSeconds = ptr.To(int32(soak / time.Second))
		})
	}
	for _, p := range plays {
		p.is(propagationv1alpha1.RolloutPhaseCompleted)
	}
	deaths := 0
	allRollOut(t, plays, "2", func(stop <-chan struct{}) (err error) {
		deaths, err = dies(stop)
		return err
	})
	t.Logf("the controller was killed %d times", deaths)

	replicas := startReplicas(t)
	deposed := 0
	allRollOut(t, plays, "3", func(stop <-chan struct{}) (err error) {
		deposed, err = freeze(replicas, stop)
		return err
	})
	t.Logf("%d leaders were deposed while they were paused", deposed)
	if deaths < 3 || deposed < 2 {
		t.Errorf("%d and %d changes of leaders prove too little", deaths, deposed)
	}
	for _, p := range plays {
		p.run(members...)
		p.isOrderly()
	}
}

// allRollOut changes all resources and waits until all rollouts have completed. Meanwhile,
// somebody disturbs the controller until there is nothing left to disturb.
func allRollOut(t *testing.T, plays []*play, what string, disturb func(stop <-chan struct{}) error) {
	t.Helper()
	before, changed := make([]string, len(plays)), time.Now()
	for i, p := range plays {
		before[i] = p.current()
		p.says(what)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- disturb(stop) }()
	for i, p := range plays {
		p.completes(before[i])
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, p := range plays {
		p.hasSoaked(changed, soak)
		p.hasSoakedOnce(changed)
	}
}

// hasSoakedOnce checks that the time since which the canary was good has never moved.
func (p *play) hasSoakedOnce(since time.Time) {
	p.t.Helper()
	began := map[string]time.Time{}
	for _, state := range p.States(since) {
		status := state.Status.Rollout
		if status == nil || len(status.Stages) == 0 || status.Stages[0].ReadySince == nil {
			continue
		}
		now := status.Stages[0].ReadySince.Time
		if before, had := began[status.UpdateRevision]; had && !before.Equal(now) {
			p.t.Errorf("the canary soaked since %v, and then since %v: %s", before, now, describe(status))
		}
		began[status.UpdateRevision] = now
	}
}

// dies kills the controller every 10 seconds and starts it again. It returns how often.
func dies(stop <-chan struct{}) (deaths int, err error) {
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for ; ; deaths++ {
		select {
		case <-stop:
			return deaths, nil
		case <-ticker.C:
			bed.Controller.Kill()
			if err := bed.Controller.Start(); err != nil {
				return deaths, err
			}
		}
	}
}

// startReplicas ends the controller of the other tests and starts two with leader election.
// The first one is the leader.
func startReplicas(t *testing.T) [2]*testbed.Controller {
	t.Helper()
	if err := bed.Controller.Terminate(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bed.Controller.Start(); err != nil {
			t.Error(err)
		}
	})
	replicas := [2]*testbed.Controller{}
	for i, name := range []string{"replica-a", "replica-b"} {
		replica, err := bed.NewController(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		replicas[i] = replica
		if err := replica.Start("--leader-elect=true"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = replica.Terminate() })
		if _, err := newHolder(""); err != nil {
			t.Fatal(err)
		}
	}
	return replicas
}

// newHolder waits until somebody else than before holds the lease of the leader.
func newHolder(before string) (holder string, err error) {
	err = bed.Await(context.Background(), "somebody else leads", func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		if err := karmada.Get(ctx, client.ObjectKey{Namespace: "karmada-system", Name: "karmada-direct"}, lease); err != nil {
			return err
		}
		if holder = ptr.Deref(lease.Spec.HolderIdentity, ""); holder == "" || holder == before {
			return fmt.Errorf("the leader is %q", holder)
		}
		return nil
	})
	return holder, err
}

// freeze pauses the leader every few seconds, until the other replica leads, and resumes it.
// It then exits, because it has lost its lease, and is started again. freeze returns how
// often.
func freeze(replicas [2]*testbed.Controller, stop <-chan struct{}) (deposed int, err error) {
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for leader := 0; ; leader = 1 - leader {
		select {
		case <-stop:
			return deposed, nil
		case <-ticker.C:
		}
		before, err := newHolder("")
		if err != nil {
			return deposed, err
		}
		if err := syscall.Kill(replicas[leader].PID(), syscall.SIGSTOP); err != nil {
			return deposed, fmt.Errorf("pausing %s: %w", replicas[leader].Name, err)
		}
		_, lost := newHolder(before)
		if err := errors.Join(lost, syscall.Kill(replicas[leader].PID(), syscall.SIGCONT)); err != nil {
			return deposed, fmt.Errorf("resuming %s: %w", replicas[leader].Name, err)
		}
		if err := bed.Await(context.Background(), replicas[leader].Name+" exits", func(context.Context) error {
			if replicas[leader].Fault() == nil {
				return errors.New("it runs")
			}
			return nil
		}); err != nil {
			return deposed, err
		}
		deposed++
		if err := replicas[leader].Start("--leader-elect=true"); err != nil {
			return deposed, err
		}
		ticker.Reset(10 * time.Second)
	}
}
