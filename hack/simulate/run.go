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

package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// Result is how a run ended.
type Result struct {
	// Violation is what must not happen and did; empty if nothing did. Invariant names
	// what was violated, whatever the object.
	Violation, Invariant string
	// Steps is how many steps were made.
	Steps int
	// Choices can be replayed.
	Choices [][]int
	// Theme is the theme that was asked for.
	Theme string
	// Story is what happened.
	Story []line
}

// violation is something that must not happen and did.
type violation struct{ invariant, what string }

func (v *violation) Error() string { return v.what }

func violated(invariant, format string, arguments ...any) *violation {
	return &violation{invariant: invariant, what: fmt.Sprintf(format, arguments...)}
}

// run makes all steps, and then waits until nothing happens anymore.
func run(t *testing.T, choices *choices) Result {
	t.Helper()
	return play(t, choices, (*World).live)
}

// play has a world live, and compares it in the end with one in which only what is then
// desired ever happened.
func play(t *testing.T, choices *choices, live func(*World, context.Context) error) Result {
	t.Helper()
	result, painted, sketched := playOnce(t, choices, live)
	if painted == nil {
		return result
	}
	fresh, differs := afresh(t, sketched)
	if differs == nil {
		differs = painted.compare(fresh)
	}
	if differs != nil {
		result.Violation, result.Invariant = differs.what, differs.invariant
	}
	return result
}

// playOnce has a world live. It returns what the world looks like in the end, and what is
// desired in it, unless the run fails.
func playOnce(t *testing.T, choices *choices, live func(*World, context.Context) error) (result Result, painted *portrait, sketched *sketch) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		choices.begin()
		w, err := newWorld(ctx, choices)
		if err != nil {
			t.Fatal(err)
		}
		err = live(w, ctx)
		result = Result{Steps: w.steps, Choices: choices.made, Theme: choices.theme, Story: w.story}
		if err == nil {
			painted, sketched = w.paint(), w.sketch()
		}
		if err := w.end(ctx); err != nil {
			t.Error(err)
		}
		if broken, ok := errors.AsType[*violation](err); ok {
			result.Violation, result.Invariant = broken.what, broken.invariant
		} else if err != nil {
			t.Errorf("the simulation itself fails: %v", err)
		}
	})
	return result, painted, sketched
}

func (w *World) live(ctx context.Context) error {
	if err := w.settle(ctx); err != nil { // all clusters join
		return err
	}
	if err := w.users.begin(ctx); err != nil {
		return err
	}
	w.begins(0)
	for made := 1; w.choices.step(); made++ {
		if err := w.step(ctx); err != nil {
			return err
		}
		if made%w.habits.round != 0 {
			continue
		}
		calm := w.settle
		if w.habits.outages {
			calm = w.pause
		}
		if err := calm(ctx); err != nil {
			return err
		}
		w.begins(made / w.habits.round)
	}
	for _, repair := range []operation{(*users).unhinder, (*users).restoreVersion, (*users).repairWorkloads, (*users).mendStatus, (*users).acceptAll, (*users).endRollouts} {
		if err := w.users.perform(ctx, repair); err != nil {
			return err
		}
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	if len(w.users.staged()) > 0 { // something has failed meanwhile
		if err := w.users.perform(ctx, (*users).endRollouts); err != nil {
			return err
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	return w.rest(ctx)
}

// String tells the end of the story.
func (r Result) String() string {
	told := &strings.Builder{}
	fmt.Fprintf(told, "after %d steps: %s\n", r.Steps, r.Violation)
	for _, line := range r.Story {
		if !line.detail {
			fmt.Fprintln(told, line)
		}
	}
	return told.String()
}
