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

package karmada

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// clockAt is a clock that the test moves.
type clockAt struct{ at time.Time }

func (c *clockAt) now() time.Time { return c.at }

func newClock() *clockAt { return &clockAt{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func named(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

// The fact is in workqueue.NewTypedItemExponentialFailureRateLimiter with Karmada's flags:
// 5 ms, doubled each time, up to 1000 s.
func TestBackoff(t *testing.T) {
	clock := newClock()
	q := newQueue[types.NamespacedName](clock.now, false)
	for i, want := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
		q.take(named("one"))
		q.retry(named("one"))
		if got := q.due[named("one")].Sub(clock.at); got != want {
			t.Errorf("retry %d after %v, want %v", i, got, want)
		}
	}
	for range 60 {
		q.take(named("one"))
		q.retry(named("one"))
	}
	if got := q.due[named("one")].Sub(clock.at); got != backoffMax {
		t.Errorf("at last, after %v", got)
	}
	q.forget(named("one"))
	q.take(named("one"))
	q.retry(named("one"))
	if got := q.due[named("one")].Sub(clock.at); got != backoffBase {
		t.Errorf("after a success, after %v", got)
	}
}

// The fact is in ratelimiterflag.DefaultControllerRateLimiter: after a hundred retries,
// all keys of a controller share ten a second.
func TestRetriesShareABucket(t *testing.T) {
	clock := newClock()
	q := newQueue[types.NamespacedName](clock.now, true)
	delay := func(name string) time.Duration {
		q.take(named(name))
		q.forget(named(name))
		q.retry(named(name))
		return q.due[named(name)].Sub(clock.at)
	}
	for range bucketSize {
		if got := delay("one"); got != backoffBase {
			t.Fatalf("within the burst, after %v", got)
		}
	}
	if got := delay("one"); got != 100*time.Millisecond {
		t.Errorf("the first beyond, after %v", got)
	}
	if got := delay("two"); got != 200*time.Millisecond {
		t.Errorf("another key, after %v", got)
	}
	clock.at = clock.at.Add(time.Minute)
	if got := delay("two"); got != backoffBase {
		t.Errorf("a minute later, after %v", got)
	}
}

// A key that is added twice is handled once, at the earlier time.
func TestQueueKeepsTheEarlierTime(t *testing.T) {
	clock := newClock()
	q := newQueue[types.NamespacedName](clock.now, false)
	q.addAfter(named("one"), time.Minute)
	q.add(named("one"))
	q.addAfter(named("one"), time.Hour)
	if got := q.ready(); len(got) != 1 {
		t.Errorf("ready: %v", got)
	}
}

// A key that is added while it is handled is handled again afterwards, and never twice
// at a time.
func TestControllerHandlesAKeyOnceAtATime(t *testing.T) {
	clock := newClock()
	passes := 0
	c := newController("test", clock.now, 5, false, func(types.NamespacedName) *step {
		return &step{name: "first", do: func(context.Context) (*step, error) {
			passes++
			return &step{name: "second", do: func(context.Context) (*step, error) { return nil, nil }}, nil
		}}
	})
	c.queue.add(named("one"))
	act := func() {
		t.Helper()
		actions := c.actions()
		if len(actions) != 1 {
			t.Fatalf("%d actions", len(actions))
		}
		if err := actions[0].Do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	act()
	c.queue.add(named("one"))
	act()
	act()
	act()
	if passes != 2 || len(c.actions()) != 0 {
		t.Errorf("%d passes, then %d actions", passes, len(c.actions()))
	}
}

// No more keys are handled at once than there are workers, and a failed pass is due again
// at the deadline.
func TestControllerWorkersAndDeadline(t *testing.T) {
	clock := newClock()
	c := newController("test", clock.now, 1, false, func(types.NamespacedName) *step {
		return &step{name: "first", do: func(context.Context) (*step, error) {
			return &step{name: "second", do: func(context.Context) (*step, error) { return nil, errors.New("no") }}, nil
		}}
	})
	c.queue.add(named("one"))
	c.queue.add(named("two"))
	if actions := c.actions(); len(actions) != 2 {
		t.Fatalf("%d actions", len(actions))
	}
	_ = c.actions()[0].Do(t.Context())
	if actions := c.actions(); len(actions) != 1 || actions[0].Name != "test /one: second" {
		t.Fatalf("actions %v", actions)
	}
	if err := c.actions()[0].Do(t.Context()); err == nil {
		t.Error("the error is lost")
	}
	at, ok := c.deadline()
	if !ok || at.Sub(clock.at) != backoffBase {
		t.Errorf("deadline %v, %v", at, ok)
	}
}
