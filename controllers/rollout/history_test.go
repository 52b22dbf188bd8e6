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

package rollout

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

var (
	histories = flag.Int("histories", defaultHistories, "number of histories")
	firstSeed = flag.Uint64("seed", 1, "seed of the first history")
)

// TestHistories lets clusters, users and processes do what they like, and checks every
// write. A failure prints the shortest history that was found. To repeat one, run
// go test -run TestHistories -args -seed=7 -histories=1.
func TestHistories(t *testing.T) {
	t.Parallel()
	steps, decisions, reached := 0, 0, map[string]int{}
	counting := func(in *Input) (Decision, error) {
		decided, err := Decide(in)
		decisions++
		if decided.Status != nil && (in.Status == nil || in.Status.Phase != decided.Status.Phase) {
			reached[string(decided.Status.Phase)]++
		}
		if in.Status == nil || in.Status.Reason != decided.Report.Reason {
			reached[decided.Report.Reason]++
		}
		return decided, err
	}
	for i := range *histories {
		h := newHistory(*firstSeed+uint64(i), lengthOf(i)) //nolint:gosec // positive
		steps += len(h.steps)
		if found := run(h, counting); len(found.violations) > 0 {
			h = shortened(h, Decide, found.violations[0].invariant)
			t.Fatalf("seed %d:\n%s", h.seed, explained(h, Decide))
		}
	}
	t.Logf("%d histories, %d steps, %d decisions; reached: %v", *histories, steps, decisions, reached)
	for _, where := range []string{
		string(Progressing), string(Completed), string(Failed), string(RollingBack), string(RolledBack), string(Reverting), string(StateLost),
		propagationv1alpha1.ReasonRolloutProgressing, propagationv1alpha1.ReasonRolloutSoaking, propagationv1alpha1.ReasonRolloutAwaitingApproval,
		propagationv1alpha1.ReasonRolloutPaused, propagationv1alpha1.ReasonRolloutRollingBack, propagationv1alpha1.ReasonRolloutFailed,
		propagationv1alpha1.ReasonRolledBack, propagationv1alpha1.ReasonRollbackFailed, propagationv1alpha1.ReasonRolloutStateLost,
	} {
		if reached[where] == 0 && *histories >= defaultHistories {
			t.Errorf("no history reaches %s", where)
		}
	}
}

func lengthOf(i int) int { return []int{30, 80, 160}[i%3] }

// result is what a history has shown.
type result struct {
	violations []violation
	story      []string
}

// run plays a history until something is wrong or it ends well.
func run(h history, decide func(*Input) (Decision, error)) result {
	w := newWorld(seeded(h.seed), decide)
	for _, s := range h.steps {
		if did := actions[s.action].do(w, s.a, s.b); did != "" {
			w.tell("%s", did)
		}
		if len(w.oracle.violations) > 0 {
			return result{w.oracle.violations, w.story}
		}
	}
	w.end()
	return result{w.oracle.violations, w.story}
}

// end lets everybody behave, and checks that the rollout ends, and that nothing is
// written when it has.
func (w *world) end() {
	w.tell("from now on, everybody behaves")
	w.behave()
	for range 3 {
		w.settle()
		s := w.status
		switch {
		case len(w.oracle.violations) > 0:
			return
		case s == nil:
			w.oracle.violated("end", "there is no status")
			return
		case s.Phase == Failed || s.Phase == RolledBack || s.Phase == StateLost:
			w.checkReturned()
			w.commands.Retry = fmt.Sprintf("%s/%v", w.requested, w.now)
			continue
		}
		w.checkCompleted()
		return
	}
	w.oracle.violated("end", "a retry does not lead to an end: %s", told(w.status))
}

func (w *world) behave() {
	w.released, w.unreadable, w.former = false, false, nil
	clear(w.bad)
	w.strategy.Paused = false
	w.commands.Resume = fmt.Sprintf("end/%v", w.now)
	w.commands.Abort, w.commands.Pause = "", ""
	w.pick(0).targeted = true
	for _, name := range w.names() {
		c := w.clusters[name]
		c.exists, c.ready, c.terminating, c.suspended, c.conflict, c.sick, c.refuses, c.withheld = true, true, false, false, false, false, false, false
	}
	w.startProcess(0)
}

// settle decides only when something has changed, or when the last decision asked for it.
func (w *world) settle() {
	for range 2000 {
		version := w.statusVersion + w.versions
		w.complete()
		if len(w.oracle.violations) > 0 {
			return
		}
		changed := w.statusVersion+w.versions != version
		for _, name := range w.names() {
			changed = w.act(w.clusters[name]) || changed
		}
		switch {
		case w.approveIfAsked() || changed:
		case w.leader.wake > 0:
			w.now = max(w.leader.wake, w.now+time.Millisecond)
		default:
			return
		}
	}
	w.oracle.violated("end", "it never becomes quiet: %s", told(w.status))
}

func (w *world) approveIfAsked() bool {
	if w.status == nil || w.status.Reason != propagationv1alpha1.ReasonRolloutAwaitingApproval {
		return false
	}
	w.commands.Approve = fmt.Sprintf("%s@%s/%v", w.status.Stage, w.status.UpdateRevision, w.now)
	return true
}

// checkReturned: after a rollback, every cluster has the current revision.
func (w *world) checkReturned() {
	for _, name := range w.names() {
		if c := w.clusters[name]; w.status.Phase == RolledBack && c.runs != w.status.CurrentRevision {
			w.oracle.violated("end", "%s runs %q after a rollback to %s", name, c.runs, w.status.CurrentRevision)
		}
	}
}

// checkCompleted: every cluster runs what was requested, and nobody has a turn.
func (w *world) checkCompleted() {
	s := w.status
	if s.Phase != Completed || s.CurrentRevision != w.requested || len(s.Turns) > 0 {
		w.oracle.violated("end", "%s is requested: %s", w.requested, told(s))
	}
	for _, name := range w.names() {
		if c := w.clusters[name]; c.runs != w.requested || c.work.isSuspended {
			w.oracle.violated("end", "%s runs %q, and %s is requested", name, c.runs, w.requested)
		}
	}
}

// shortened leaves out steps as long as the same invariant is violated.
func shortened(h history, decide func(*Input) (Decision, error), invariant string) history {
	fails := func(steps []step) bool {
		found := run(history{h.seed, steps}, decide)
		return len(found.violations) > 0 && found.violations[0].invariant == invariant
	}
	for size := max(1, len(h.steps)/2); size > 0; size /= 2 {
		for at := 0; at < len(h.steps); {
			shorter := slices.Concat(h.steps[:at], h.steps[min(at+size, len(h.steps)):])
			if fails(shorter) {
				h.steps = shorter
			} else {
				at += size
			}
		}
	}
	return h
}

func explained(h history, decide func(*Input) (Decision, error)) string {
	found := run(h, decide)
	w := newWorld(seeded(h.seed), decide)
	lines := append([]string{fmt.Sprintf("the strategy: %s", described(&w.strategy))}, found.story...)
	for _, v := range found.violations {
		lines = append(lines, "violated: "+v.invariant+": "+v.text)
	}
	return strings.Join(lines, "\n")
}

func described(s *Strategy) string {
	text := fmt.Sprintf("concurrency %v, failures %v, soak %d, ready %d, on failure %s", s.MaxConcurrency, s.MaxFailures, s.SoakSeconds, ptr.Deref(s.MinReadySeconds, -1), s.OnFailure)
	for i := range s.Stages {
		text += fmt.Sprintf("; stage %s: %v %v %s %v", s.Stages[i].Name, s.Stages[i].ClusterNames, s.Stages[i].ClusterSelector, s.Stages[i].Approval, s.Stages[i].MaxConcurrency)
	}
	return text
}
