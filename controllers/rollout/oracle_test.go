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
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// oracle checks what is written against the invariants. It has its own memory of what
// clusters have proven, and knows nothing of how a decision is made.
type oracle struct {
	// violations are what is wrong, by invariant.
	violations []violation
	// proofs are what clusters have proven in the current rollout.
	proofs map[string]*proof
	// goodSince is since when each stage has been good in the current rollout.
	goodSince map[string]time.Duration
	// approvals are those that have been followed.
	approvals map[string]bool
	// abandoned are the revisions that no cluster may begin to run, as of the last
	// complete round.
	abandoned map[string]bool
	// began are the stages in which clusters have begun in the current rollout, and limits
	// the most that may be in progress there.
	began  map[string]string
	limits map[string]int
	// most are the most clusters that the stages have had.
	most map[string]int32
	// late are clusters that a former leader has written since then.
	late map[string]bool
}

type violation struct{ invariant, text string }

// proof is what a cluster has proven.
type proof struct {
	good, done, relapsed bool
	// once: it was done before.
	once  bool
	since time.Duration
}

func (o *oracle) reset() {
	o.proofs, o.goodSince = map[string]*proof{}, map[string]time.Duration{}
	o.began, o.limits, o.most = map[string]string{}, map[string]int{}, map[string]int32{}
	if o.approvals == nil {
		o.approvals, o.abandoned, o.late = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
}

func (o *oracle) violated(invariant, format string, args ...any) {
	o.violations = append(o.violations, violation{invariant, fmt.Sprintf(format, args...)})
}

func same(a, b *Status) bool { return equality.Semantic.DeepEqual(a, b) }

// accept checks a status that the API server accepts, or that has not changed.
func (o *oracle) accept(w *world, seen sight, next *Status) {
	prev := seen.Status
	if next == nil {
		o.abandon()
		return
	}
	if seen.Strategy == nil {
		in := *seen.Input
		in.Strategy = &Strategy{ProgressDeadlineSeconds: ptr.To[int32](600)}
		seen.Input = &in
	}
	if prev == nil {
		o.checkLost(seen, next)
	}
	// It may have been abandoned before.
	delete(o.abandoned, next.UpdateRevision)
	renamed := isRenamed(seen, next)
	if next.Phase == Progressing && !renamed && (prev == nil || prev.Phase != Progressing || prev.UpdateRevision != next.UpdateRevision) {
		o.reset()
		prev = &Status{CurrentRevision: next.CurrentRevision, Handled: next.Handled, Turns: turnsTo(prev, next.CurrentRevision)}
		if seen.Status != nil {
			prev.Handled = seen.Status.Handled
		}
	}
	o.watch(w, seen, next)
	if prev == nil {
		return
	}
	o.checkApprovals(seen, prev, next)
	o.checkPassed(w, seen, prev, next)
	if !renamed {
		o.checkStarts(seen, prev, next)
		o.checkDeadlines(w, seen, prev, next)
	}
	o.checkBudgets(seen, next)
	o.checkCounts(seen, next)
	if before := seen.Status; before != nil && next.CurrentRevision != before.CurrentRevision && next.Phase != Completed && before.Phase != StateLost {
		o.violated("current", "%s becomes current, and the rollout is %s", next.CurrentRevision, next.Phase)
	}
}

// isRenamed reports whether a revision replaces another one that is the same for every
// cluster that has got it.
func isRenamed(seen sight, next *Status) bool {
	prev := seen.Status
	if prev == nil || !seen.Equivalent || prev.UpdateRevision == next.UpdateRevision || prev.Phase != Progressing && prev.Phase != Failed {
		return false
	}
	return len(turnsTo(prev, prev.UpdateRevision)) > 0 || slices.ContainsFunc(seen.Clusters, func(c Cluster) bool { return hasConfirmed(&c, next.UpdateRevision) })
}

// turnsTo are the turns to a revision.
func turnsTo(s *Status, revision string) []Turn {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Turns), func(t Turn) bool { return t.Revision != revision })
}

// turnOf is the turn of a cluster in a status; nil if there is none.
func turnOf(s *Status, cluster string) *Turn {
	if s == nil {
		return nil
	}
	for i := range s.Turns {
		if slices.Contains(s.Turns[i].ClusterNames, cluster) {
			return &s.Turns[i]
		}
	}
	return nil
}

func isRunning(t *Turn, revision string) bool {
	return t != nil && t.Revision == revision && !t.Failed && t.StoppedAt == nil
}

func (w *world) stageNames() []string {
	names := []string{}
	for i := range w.strategy.Stages {
		names = append(names, w.strategy.Stages[i].Name)
	}
	return append(names, DefaultStage)
}

// stageNamed is the stage of a strategy with a name.
func stageNamed(s *Strategy, name string) Stage {
	for i := range s.Stages {
		if s.Stages[i].Name == name {
			return s.Stages[i]
		}
	}
	return Stage{Name: DefaultStage}
}

// stageOf is the name of the stage of a cluster.
func stageOf(s *Strategy, c *Cluster) string {
	for i := range s.Stages {
		selector := s.Stages[i].ClusterSelector
		if slices.Contains(s.Stages[i].ClusterNames, c.Name) || selector != nil && (len(selector.MatchLabels) == 0 || selector.MatchLabels["ring"] == c.Labels["ring"]) {
			return s.Stages[i].Name
		}
	}
	return DefaultStage
}

// hasConfirmed and hasLost are not those of the decision, which may be wrong.
func hasConfirmed(c *Cluster, revision string) bool {
	return c.Assigned == revision && c.Confirmed == revision
}

func hasLost(c *Cluster, revision string) bool { return c.Assigned == "" && c.Confirmed == revision }

func isOut(c *Cluster) bool { return !c.Exists || c.Terminating || c.Conflict }

func isOff(c *Cluster) bool { return isOut(c) || c.Suspended || !c.Ready }

// watch updates what clusters have proven, and since when stages have been good.
func (o *oracle) watch(w *world, seen sight, next *Status) {
	if next.Phase != Progressing && next.Phase != Completed {
		return
	}
	update := next.UpdateRevision
	for i := range seen.Clusters {
		c := &seen.Clusters[i]
		p := o.proofs[c.Name]
		if p == nil {
			p = &proof{}
			o.proofs[c.Name] = p
		}
		runs := hasConfirmed(c, update)
		good := runs && c.Ready && c.Applied && c.Health == "Healthy"
		bad := c.Ready && !isOut(c) && !c.Suspended && (c.Refused || c.Applied && c.Health == "Unhealthy")
		if good && !p.good {
			p.since = seen.at
		}
		p.good = good
		switch {
		case good && seen.at-p.since >= minReady(seen.Strategy)-w.slack():
			p.done, p.relapsed, p.once = true, false, true
		case !runs:
			p.done, p.relapsed = false, false
		case p.done && bad:
			p.done, p.relapsed = false, true
		}
	}
	for _, name := range w.stageNames() {
		if !o.isGood(seen, name, next) {
			delete(o.goodSince, name)
		} else if _, known := o.goodSince[name]; !known {
			o.goodSince[name] = seen.at
		}
	}
}

func minReady(s *Strategy) time.Duration {
	return time.Duration(ptr.Deref(s.MinReadySeconds, 10)) * time.Second
}

// slack is how much clocks of different processes differ.
func (w *world) slack() time.Duration {
	if w.skewed {
		return 20 * time.Minute
	}
	return 0
}

// isGood reports whether every cluster of a stage that can have the revision has proven
// it, except for those that may fail.
func (o *oracle) isGood(seen sight, name string, next *Status) bool {
	done, failed, members := 0, 0, 0
	for i := range seen.Clusters {
		c := &seen.Clusters[i]
		if stageOf(seen.Strategy, c) != name {
			continue
		}
		members++
		t, p := turnOf(next, c.Name), o.proofs[c.Name]
		switch {
		case p.done && !isOut(c):
			done++
		case t != nil && t.Failed && t.Revision == next.UpdateRevision:
			failed++
		case isOff(c) && (!isRunning(t, next.UpdateRevision) || t.Kind == Late):
		case p.relapsed:
			failed++
		default:
			return false
		}
	}
	return (members == 0 || done > 0) && failed <= budget(seen.Strategy, next, name)
}

// budget is how many clusters of a stage may fail.
func budget(s *Strategy, status *Status, name string) int {
	base := 0
	for i := range status.Stages {
		if status.Stages[i].Name == name {
			base = int(status.Stages[i].ResolvedFor)
		}
	}
	switch {
	case s.MaxFailures == nil:
		return 0
	case strings.HasSuffix(s.MaxFailures.StrVal, "%"):
		return base * percentage(s.MaxFailures.StrVal) / 100
	}
	return min(base, s.MaxFailures.IntValue())
}

func percentage(text string) int {
	number, _ := strconv.Atoi(strings.TrimSuffix(text, "%"))
	return number
}

// limit is how many clusters of a stage may be in progress.
func limit(s *Strategy, status *StageStatus) int {
	value := s.MaxConcurrency
	if own := stageNamed(s, status.Name).MaxConcurrency; own != nil {
		value = own
	}
	switch {
	case value == nil:
		return max(1, int(status.ResolvedFor))
	case strings.HasSuffix(value.StrVal, "%"):
		return max(1, int(status.ResolvedFor)*percentage(value.StrVal)/100)
	}
	return max(1, value.IntValue())
}

// abandon forgets the rollout.
func (o *oracle) abandon() {
	o.reset()
	clear(o.abandoned)
	clear(o.approvals)
}
