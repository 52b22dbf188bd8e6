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

package testbed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// Patience is the time limit for anything that must happen, even on a busy machine.
	// A test that is about a duration measures and limits it itself.
	Patience = 2 * time.Minute
	// Glance is the interval at which to poll what cannot be watched.
	Glance = 50 * time.Millisecond
)

// Await waits until check returns nil, for at most Patience. The error contains what
// was awaited and the last error of check.
func (b *Bed) Await(ctx context.Context, what string, check func(context.Context) error) error {
	_, err := b.AwaitFor(ctx, Patience, what, check)
	return err
}

// AwaitFor waits until check returns nil, for at most limit, and returns the time of
// that. It stops early if the controller has exited unexpectedly.
func (b *Bed) AwaitFor(ctx context.Context, limit time.Duration, what string, check func(context.Context) error) (time.Time, error) {
	return await(ctx, limit, what, b.controllerFault, check)
}

// controllerFault returns an error if the controller exited unexpectedly.
func (b *Bed) controllerFault() error {
	if b.Controller == nil {
		return nil
	}
	return b.Controller.Fault()
}

func await(ctx context.Context, limit time.Duration, what string, fault func() error, check func(context.Context) error) (time.Time, error) {
	var last error
	err := wait.PollUntilContextTimeout(ctx, Glance, limit, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err == nil {
			return true, nil
		}
		if ctx.Err() == nil {
			last = err
		}
		return false, fault()
	})
	switch {
	case err == nil:
		return time.Now(), nil
	case wait.Interrupted(err) && last != nil:
		return time.Time{}, fmt.Errorf("waited %v until %s: %w", limit, what, last)
	default:
		return time.Time{}, fmt.Errorf("waiting until %s: %w", what, errors.Join(err, last))
	}
}

// Throughout polls check for a duration and fails as soon as check returns an error.
func Throughout(ctx context.Context, duration time.Duration, what string, check func(context.Context) error) error {
	err := wait.PollUntilContextTimeout(ctx, Glance, duration, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if ctx.Err() != nil {
			return false, nil // an interrupted check proves nothing
		}
		return false, err
	})
	if !wait.Interrupted(err) {
		return fmt.Errorf("for %v, %s: %w", duration, what, err)
	}
	return nil
}

// LookFor starts to poll all given members at once. The returned function waits for
// one of them and returns when check returned nil for it.
func (b *Bed) LookFor(where []*Member, limit time.Duration, what string, check func(context.Context, *Member) error) func(*testing.T, *Member) time.Time {
	type found struct {
		at  time.Time
		err error
	}
	results := map[*Member]chan found{}
	for _, member := range where {
		result := make(chan found, 1)
		results[member] = result
		go func() {
			at, err := b.AwaitFor(context.Background(), limit, what, func(ctx context.Context) error { return check(ctx, member) })
			result <- found{at: at, err: err}
		}()
	}
	return func(t *testing.T, member *Member) time.Time {
		t.Helper()
		result := <-results[member]
		if result.err != nil {
			t.Fatalf("%s: %v", member, result.err)
		}
		return result.at
	}
}

// InParallel calls run concurrently for 0 to count-1 and joins the errors.
func InParallel(count int, run func(int) error) error {
	failures := make([]error, count)
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() { failures[i] = run(i) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// Eventually waits until check returns nil. If that takes too long, the test fails
// and dumps the namespace.
func (ns *Namespace) Eventually(what string, check func(context.Context) error) {
	ns.T.Helper()
	ns.Within(Patience, what, check)
}

// Within waits until check returns nil, for at most limit, and returns the time of
// that.
func (ns *Namespace) Within(limit time.Duration, what string, check func(context.Context) error) time.Time {
	ns.T.Helper()
	at, err := ns.Bed.AwaitFor(ns.Ctx, limit, what, check)
	if err != nil {
		ns.T.Fatalf("%v\n%s", err, ns.Dump())
	}
	return at
}

// Throughout polls check for a duration and fails the test as soon as check returns
// an error.
func (ns *Namespace) Throughout(duration time.Duration, what string, check func(context.Context) error) {
	ns.T.Helper()
	if err := Throughout(ns.Ctx, duration, what, check); err != nil {
		ns.T.Fatalf("%v\n%s", err, ns.Dump())
	}
}

// Now runs check once, without waiting: the condition must already hold.
func (ns *Namespace) Now(what string, check func(context.Context) error) {
	ns.T.Helper()
	if err := check(ns.Ctx); err != nil {
		ns.T.Fatalf("%s: %v\n%s", what, err, ns.Dump())
	}
}
