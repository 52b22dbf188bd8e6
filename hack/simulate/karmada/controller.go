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
	"fmt"
	"time"
)

// Action is something that an actor can do now.
type Action struct {
	// Name says who does what to which object. It is unique among the actions that
	// are possible at one moment.
	Name string
	// Do does it, with at most one write. The error is what the actor met. The actor
	// has dealt with it as the real one does, for example by a retry: it is for the
	// story only.
	Do func(ctx context.Context) error
}

// step is a piece of a pass of a controller, with at most one write.
type step struct {
	// name says what the step does.
	name string
	// do does it, and returns the next step of the pass; nil ends the pass. An error
	// ends the pass, and the key is retried with back-off.
	do func(ctx context.Context) (*step, error)
	// wait is how long after the step before it this one is due.
	wait time.Duration
	// until, if set, makes the step due as soon as it reports true.
	until func() bool
}

// again is an error that ends a pass successfully, and asks for another one after a
// while.
type again struct{ after time.Duration }

func (a again) Error() string { return fmt.Sprintf("again after %v", a.after) }

// task is a pass over one key, between two of its steps.
type task struct {
	at  *step
	due time.Time
}

func (t *task) isDue(now time.Time) bool {
	return !t.due.After(now) || t.at.until != nil && t.at.until()
}

// controller handles keys, each in passes that are cut into steps.
type controller[K key] struct {
	name    string
	now     func() time.Time
	queue   *queue[K]
	workers int
	running map[K]*task
	begin   func(K) *step
}

// runner is a controller of any key.
type runner interface {
	actions() []Action
	deadline() (time.Time, bool)
}

func newController[K key](name string, now func() time.Time, workers int, limited bool, begin func(K) *step) *controller[K] {
	return &controller[K]{name: name, now: now, queue: newQueue[K](now, limited), workers: workers, running: map[K]*task{}, begin: begin}
}

// actions returns the steps that passes can take now, and the passes that can begin.
func (c *controller[K]) actions() []Action {
	var actions []Action
	now := c.now()
	for _, k := range sortedKeys(c.running) {
		if pass := c.running[k]; pass.isDue(now) {
			actions = append(actions, c.action(k, pass))
		}
	}
	if len(c.running) >= c.workers {
		return actions
	}
	for _, k := range c.queue.ready() {
		if c.running[k] == nil {
			actions = append(actions, c.action(k, &task{at: c.begin(k)}))
		}
	}
	return actions
}

func (c *controller[K]) action(k K, pass *task) Action {
	return Action{
		Name: fmt.Sprintf("%s %s: %s", c.name, k, pass.at.name),
		Do:   func(ctx context.Context) error { return c.advance(ctx, k, pass) },
	}
}

// advance takes one step of a pass, which may be its first or its last.
func (c *controller[K]) advance(ctx context.Context, k K, pass *task) error {
	if c.running[k] == nil {
		c.queue.take(k)
		c.running[k] = pass
	}
	next, err := pass.at.do(ctx)
	if err == nil && next != nil {
		pass.at, pass.due = next, c.now().Add(next.wait)
		return nil
	}
	delete(c.running, k)
	var later again
	switch {
	case errors.As(err, &later):
		c.queue.forget(k)
		c.queue.addAfter(k, later.after)
		return nil
	case err != nil:
		c.queue.retry(k)
		return fmt.Errorf("%s %s: %w", c.name, k, err)
	default:
		c.queue.forget(k)
		return nil
	}
}

// deadline returns the next moment at which something of the controller becomes due.
func (c *controller[K]) deadline() (time.Time, bool) {
	var next earliest
	now := c.now()
	for _, pass := range c.running {
		next.after(now, pass.due)
	}
	for k, at := range c.queue.due {
		if c.running[k] == nil {
			next.after(now, at)
		}
	}
	return next.at, next.known
}

// earliest is the earliest of some moments.
type earliest struct {
	at    time.Time
	known bool
}

// after takes a moment into account if it is still to come.
func (e *earliest) after(now, at time.Time) {
	if at.After(now) && (!e.known || at.Before(e.at)) {
		e.at, e.known = at, true
	}
}
