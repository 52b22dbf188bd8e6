//go:build e2e

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

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// operation is a user operation during which the controller is killed.
type operation struct {
	name string
	// writes is the minimum number of writes that the controller needs for it.
	writes int
	// from is the state in which the operation begins, and to is the state in which it
	// ends.
	from, to testbed.Lane
}

var operations = []operation{
	{"create", 4, testbed.Lane{}, testbed.Lane{Clusters: testbed.NamesOf(members), Says: "version 1"}},
	{"change", 5, testbed.Lane{Clusters: testbed.NamesOf(members), Says: "version 1"}, testbed.Lane{Clusters: testbed.NamesOf(members), Says: "version 2"}},
	{"add a cluster", 2, testbed.Lane{Clusters: testbed.NamesOf(members[:1]), Says: "version 1"}, testbed.Lane{Clusters: testbed.NamesOf(members), Says: "version 1"}},
	{"remove the push cluster", 2, testbed.Lane{Clusters: testbed.NamesOf(members), Says: "version 1"}, testbed.Lane{Clusters: testbed.NamesOf(members[1:]), Says: "version 1"}},
	{"remove the pull cluster", 2, testbed.Lane{Clusters: testbed.NamesOf(members), Says: "version 1"}, testbed.Lane{Clusters: testbed.NamesOf(members[:1]), Says: "version 1"}},
	{"delete", 3, testbed.Lane{Clusters: testbed.NamesOf(members), Says: "version 1"}, testbed.Lane{Says: "version 1"}},
}

// The controller is killed at every write of an operation: the write reaches the API
// server, but the response is lost. After a restart, the controller completes the
// operation, whichever write it was.
func TestKilledAtEveryWrite(t *testing.T) {
	for _, operation := range operations {
		t.Run(operation.name, func(t *testing.T) {
			ns := newNamespace(t)
			at := 0
			for ns.survivesKill(operation, at) {
				at++
			}
			if at <= operation.writes {
				t.Errorf("the controller was killed at only %d writes, want at least %d", at-1, operation.writes)
			}
			t.Logf("killed before any write, and at each of %d", at-1)
		})
	}
}

// survivesKill kills the controller at the n-th write of an operation, or before the
// operation if n is 0. It reports whether the operation had that many writes.
func (ns *Namespace) survivesKill(operation operation, at int) bool {
	ns.T.Helper()
	state := operation.from.Named(ns.Namespace, fmt.Sprintf("settings-%d", at))
	if err := state.Brings(ns.Ctx); err != nil {
		ns.T.Fatal(err)
	}
	ns.Eventually("the operation can begin", state.IsReached)
	aim := operation.to.Named(ns.Namespace, state.Name)
	fired := true
	if at == 0 {
		bed.Controller.Kill()
		if err := aim.Brings(ns.Ctx); err != nil {
			ns.T.Fatal(err)
		}
	} else {
		sprung := bed.Audit.Set(&testbed.Trap{At: at, Forward: true, Spring: bed.Controller.Kill})
		if err := aim.Brings(ns.Ctx); err != nil {
			ns.T.Fatal(err)
		}
		ns.Eventually("the controller is killed, or the operation is over", func(ctx context.Context) error {
			select {
			case <-sprung:
				return nil
			default:
				return aim.IsReached(ctx)
			}
		})
		if fired = bed.Audit.Disarm(); fired {
			<-sprung
		}
	}
	if fired {
		if err := bed.Controller.Start(); err != nil {
			ns.T.Fatal(err)
		}
	}
	ns.Eventually(fmt.Sprintf("%q is complete after a kill at write %d", operation.name, at), aim.IsReached)
	return fired
}

// The controller is killed at random times while users change, move, delete and
// recreate objects, and they continue while it is dead.
func TestKilledAtRandomMoments(t *testing.T) {
	const lanes, rounds = 8, 8
	ns := newNamespace(t)
	numbers := bed.Seeded(t)
	states := make([]testbed.Lane, lanes)
	for i := range states {
		states[i] = testbed.Lane{Clusters: testbed.NamesOf(members), Says: "version 0"}.Named(ns.Namespace, fmt.Sprintf("settings-%d", i))
		if err := states[i].Brings(ns.Ctx); err != nil {
			t.Fatal(err)
		}
	}
	for round := 1; round <= rounds; round++ {
		for i := range states {
			states[i] = states[i].Next(numbers, round)
		}
		pause := time.Duration(numbers.IntN(1500)) * time.Millisecond
		killed := make(chan struct{})
		time.AfterFunc(pause, func() {
			bed.Controller.Kill()
			close(killed)
		})
		err := testbed.InParallel(lanes, func(i int) error { return states[i].Brings(ns.Ctx) })
		<-killed
		if err = errors.Join(err, bed.Controller.Start()); err != nil {
			t.Fatal(err)
		}
		for i := range states {
			ns.Eventually(fmt.Sprintf("%s is reached in round %d, after a kill at %v", states[i], round, pause), states[i].IsReached)
		}
	}
}
