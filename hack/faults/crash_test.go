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
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

const (
	// defaultPairs is the number of pairs of operations during which the controller is
	// killed, unless FAULTS_CRASH_PAIRS says otherwise.
	defaultPairs = 8
	// still is for how long nothing changes in the end state of an operation that nothing
	// has disturbed: longer than the 3 s after which the controller restores a Work.
	still = 5 * time.Second
)

// crash is the end of the controller at a write.
type crash struct {
	// at is the number of the write, counted from 1.
	at int
	// forward: the write takes effect, and only its response is lost.
	forward bool
}

func (c crash) String() string {
	if c.forward {
		return fmt.Sprintf("after write %d", c.at)
	}
	return fmt.Sprintf("before write %d", c.at)
}

// The controller is killed at each write of each operation of the API, before or after
// the write takes effect, and restarted. In the end, the object, its Works and what the
// members run are the same as after the same operation without a crash.
func TestCrashAtEveryWrite(t *testing.T) {
	c := newCrashes(t)
	for _, each := range operations() {
		t.Run(each.name, func(t *testing.T) { c.in(t).everywhere(each) })
	}
	c.finish()
}

// The controller is killed at each write of two operations of users, one immediately
// after the other, unless the end depends on when it sees them.
func TestCrashDuringPairs(t *testing.T) {
	c := newCrashes(t)
	count := defaultPairs
	if text := os.Getenv("FAULTS_CRASH_PAIRS"); text != "" {
		given, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("reading FAULTS_CRASH_PAIRS: %v", err)
		}
		count = given
	}
	pairs, numbers := pairsOf(operations()), bed.Seeded(t)
	numbers.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	pairs = slices.DeleteFunc(pairs, func(pair pair) bool { return pair.first.races(pair.second) })
	for _, pair := range pairs[:min(count, len(pairs))] {
		both := pair.first.then(pair.second)
		t.Run(both.name, func(t *testing.T) { c.in(t).everywhere(both) })
	}
	c.finish()
}

// pair is an operation, and one that users can do next.
type pair struct{ first, second operation }

// pairsOf returns all pairs of operations.
func pairsOf(all []operation) []pair {
	var pairs []pair
	for _, first := range all {
		for _, second := range all {
			if first.from.kind == second.from.kind {
				pairs = append(pairs, pair{first, second})
			}
		}
	}
	return pairs
}

// crashing is what the cases of a test share.
type crashing struct {
	t          *testing.T
	ns         *Namespace
	controller *replica
	// count is the number of crashes, during so many operations.
	count, during *int
	// ends are the states in which the cases of an operation have ended, and must stay.
	ends []end
}

// end is the state in which a case ended.
type end struct {
	of    string
	wish  wish
	state string
}

func newCrashes(t *testing.T) *crashing {
	t.Helper()
	c := &crashing{t: t, count: new(int), during: new(int)}
	labelsMembers(t)
	withoutController(t)
	c.controller = newReplica(t, "crash")
	if err := c.controller.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.controller.Terminate(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// in returns the crashes for use in a subtest, with a namespace of its own.
func (c *crashing) in(t *testing.T) *crashing {
	t.Helper()
	inside := *c
	inside.t, inside.ns = t, newNamespace(t)
	t.Cleanup(inside.clears)
	return &inside
}

// clears deletes all objects, with a controller that is alive, and then what they have
// left on the members because users wanted it.
func (c *crashing) clears() {
	ctx := context.Background()
	c.controller.Kill()
	if err := c.controller.Start(); err != nil {
		c.t.Error(err)
	}
	inside := client.InNamespace(c.ns.Name)
	err := karmada.DeleteAllOf(ctx, &DirectPropagation{}, inside)
	err = errors.Join(err, bed.Await(ctx, "all objects are gone", func(ctx context.Context) error {
		list := &propagationv1alpha1.DirectPropagationList{}
		if err := karmada.List(ctx, list, inside); err != nil || len(list.Items) == 0 {
			return err
		}
		return fmt.Errorf("%d are left, the first: %s", len(list.Items), list.Items[0].Name)
	}))
	for _, member := range targets {
		for _, kind := range []client.Object{&corev1.ConfigMap{}, &appsv1.Deployment{}} {
			err = errors.Join(err, member.DeleteAllOf(ctx, kind, inside))
		}
	}
	if err != nil {
		c.t.Error(err)
	}
}

// everywhere does an operation without a crash, and then with one at each of its writes.
func (c *crashing) everywhere(op operation) {
	c.t.Helper()
	*c.during++
	want, writes := c.reference(op)
	for _, forward := range []bool{true, false} {
		for at := 1; c.survives(op, crash{at: at, forward: forward}, want); at++ {
			if at > 2*writes+2 {
				c.t.Fatalf("the operation never ends: it has %d writes without a crash", writes)
			}
			*c.count++
		}
	}
	for _, each := range c.ends {
		if err := c.equals(c.ns.Ctx, each.wish, each.state); err != nil {
			c.t.Errorf("%s: later, %v", each.of, err)
		}
	}
}

// reference does an operation without a crash. It returns the state in which it ends and
// the number of writes that it needs.
func (c *crashing) reference(op operation) (state string, writes int) {
	c.t.Helper()
	name := c.begins(op, "reference")
	began := time.Now()
	aim := c.brings(op, name, nil)
	var since time.Time
	c.ns.Eventually(fmt.Sprintf("nothing changes anymore after %q", op.name), func(ctx context.Context) error {
		now, err := c.snapshot(ctx, aim)
		if err != nil {
			return err
		}
		if now != state {
			state, since = now, time.Now()
		}
		if time.Since(since) < still {
			return fmt.Errorf("it has changed in the last %v", still)
		}
		return aim.isReported(ctx)
	})
	c.ends = append(c.ends, end{op.name + " without a crash", aim, state})
	return state, len(c.controller.audit.Since(began, nil))
}

// begins brings the state in which an operation begins, and returns the name of what it
// is about.
func (c *crashing) begins(op operation, of string) (name string) {
	c.t.Helper()
	name = fmt.Sprintf("crash-%d-%s", len(c.ends), of)
	start := op.from.named(c.ns, name)
	if err := start.brings(c.ns.Ctx); err != nil {
		c.t.Fatal(err)
	}
	c.ns.Eventually("the operation can begin", start.isSettled)
	return name
}

// brings lets users do an operation. If the controller has been killed, it starts again
// as soon as users have done what they can.
func (c *crashing) brings(op operation, name string, restart func() error) wish {
	c.t.Helper()
	aim := op.from.named(c.ns, name)
	for _, step := range op.steps {
		step(&aim)
		wanted := aim
		c.ns.Eventually("the API server accepts "+op.name, func(ctx context.Context) error {
			err := wanted.brings(ctx)
			if errors.Is(err, errTerminating) && restart != nil {
				return errors.Join(err, restart())
			}
			return err
		})
	}
	return aim
}

// survives kills the controller at a write of an operation. It reports whether the
// operation had that many writes.
func (c *crashing) survives(op operation, at crash, want string) bool {
	c.t.Helper()
	name := c.begins(op, fmt.Sprintf("%d-%v", at.at, at.forward))
	sprung := c.controller.audit.Set(&testbed.Trap{At: at.at, Forward: at.forward, Spring: c.controller.Kill})
	dead := true
	restart := func() error {
		select {
		case <-sprung:
		default:
			return nil
		}
		if !dead {
			return nil
		}
		dead = false
		return c.controller.Start()
	}
	aim := c.brings(op, name, restart)
	c.ns.Eventually("the controller is killed, or the operation is over", func(ctx context.Context) error {
		select {
		case <-sprung:
			return nil
		default:
			return c.equals(ctx, aim, want)
		}
	})
	fired := c.controller.audit.Disarm()
	if fired {
		<-sprung
		if err := restart(); err != nil {
			c.t.Fatal(err)
		}
	}
	c.ns.Eventually(fmt.Sprintf("%q ends as without a crash, after one %v", op.name, at), func(ctx context.Context) error { return c.equals(ctx, aim, want) })
	c.ends = append(c.ends, end{fmt.Sprintf("%s with a crash %v", op.name, at), aim, want})
	return fired
}

// equals returns an error unless the state is the same as without a crash.
func (c *crashing) equals(ctx context.Context, aim wish, want string) error {
	have, err := c.snapshot(ctx, aim)
	if err != nil {
		return err
	}
	if difference := cmp.Diff(strings.Split(want, "\n"), strings.Split(have, "\n")); difference != "" {
		return fmt.Errorf("the state differs (-without +with a crash):\n%s", difference)
	}
	return nil
}

// finish records the number of crashes.
func (c *crashing) finish() {
	if *c.count < 2**c.during {
		c.t.Errorf("the controller was killed only %d times during %d operations", *c.count, *c.during)
	}
	measured(c.t, fmt.Sprintf("kills of the controller at each write of %d operations, before and after it takes effect", *c.during),
		strconv.Itoa(*c.count), "each ends as without a crash")
}
