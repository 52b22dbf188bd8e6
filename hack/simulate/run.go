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
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
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
	inBubble(t, func(t *testing.T) {
		t.Helper()
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

// inBubble runs a function on a virtual clock. It is like synctest.Test, which panics if
// goroutines stay behind, but accepts those of watch.Filter: they wait forever if their
// watch is stopped between receiving an event and handing it on.
func inBubble(t *testing.T, function func(*testing.T)) {
	t.Helper()
	defer func() {
		if reason := recover(); reason != nil && !onlyFilters(blocked()) {
			panic(reason)
		}
	}()
	synctest.Test(t, function)
}

// blocked returns the stacks of the goroutines that wait in bubbles for what cannot come.
func blocked() []string {
	stacks := make([]byte, 1<<20)
	for runtime.Stack(stacks, true) == len(stacks) {
		stacks = make([]byte, 2*len(stacks))
	}
	return slices.DeleteFunc(strings.Split(string(bytes.TrimRight(stacks, "\x00")), "\n\n"), func(stack string) bool {
		first, _, _ := strings.Cut(stack, "\n")
		return !strings.Contains(first, "synctest bubble")
	})
}

// onlyFilters reports whether all of some stacks are of watch.Filter.
func onlyFilters(stacks []string) bool {
	return len(stacks) > 0 && !slices.ContainsFunc(stacks, func(stack string) bool {
		first, _, _ := strings.Cut(stack, "\n")
		return !strings.Contains(stack, "watch.(*filteredWatch).loop(") || !strings.Contains(first, "chan send")
	})
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
