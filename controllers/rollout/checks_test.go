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
	"strings"
	"time"

	"k8s.io/utils/ptr"
)

// checkApprovals: a stage is approved only for the revision that a user has named, and
// not by a command that an earlier rollout has followed.
func (o *oracle) checkApprovals(seen sight, prev, next *Status) {
	for i := range next.Stages {
		s := &next.Stages[i]
		if s.ApprovedRevision == "" || s.ApprovedRevision == approvedBefore(prev, s.Name) || seen.Equivalent {
			continue
		}
		command := seen.Commands.Approve
		if !strings.HasPrefix(command+"/", s.Name+"@"+next.UpdateRevision+"/") || o.approvals[command] {
			o.violated("approval", "stage %s is approved for %s, and the command is %q", s.Name, s.ApprovedRevision, command)
		}
		o.approvals[command] = true
	}
}

func approvedBefore(s *Status, name string) string {
	for i := range s.Stages {
		if s.Stages[i].Name == name {
			return s.Stages[i].ApprovedRevision
		}
	}
	return ""
}

// checkPassed: a stage is passed only if it is done, soaked and approved.
func (o *oracle) checkPassed(w *world, seen sight, prev, next *Status) {
	was := map[string]bool{}
	for i := range prev.Stages {
		was[prev.Stages[i].Name] = prev.Stages[i].PassedAt != nil
	}
	for i := range next.Stages {
		s := &next.Stages[i]
		if s.PassedAt == nil || was[s.Name] {
			continue
		}
		since, good := o.goodSince[s.Name]
		if !good {
			o.violated("done", "stage %s is passed, and is not done", s.Name)
			continue
		}
		stage := stageNamed(seen.Strategy, s.Name)
		approved := s.ApprovedRevision == next.UpdateRevision
		soak := time.Duration(ptr.Deref(stage.SoakSeconds, seen.Strategy.SoakSeconds)) * time.Second
		if left := soak - (seen.at - since); left > w.slack() && !approved && s.Clusters > 0 {
			o.violated("soak", "stage %s is passed %v too early", s.Name, left)
		}
		if stage.Approval == ApprovalRequired && !approved {
			o.violated("approval", "stage %s is passed without an approval", s.Name)
		}
		if seen.Strategy.Paused || next.Paused {
			o.violated("paused", "stage %s is passed while the rollout is paused", s.Name)
		}
	}
}

// checkStarts: what starts is allowed to start.
func (o *oracle) checkStarts(seen sight, prev, next *Status) {
	started := map[string]string{}
	for i := range seen.Clusters {
		c := &seen.Clusters[i]
		t := turnOf(next, c.Name)
		had := turnOf(prev, c.Name)
		if o.began[c.Name] != stageOf(seen.Strategy, c) {
			delete(o.began, c.Name)
		}
		runs := t != nil && (hasConfirmed(c, t.Revision) || hasLost(c, t.Revision))
		abandons := t != nil && t.Revision == next.CurrentRevision && c.Assigned != c.Confirmed
		isOther := t != nil && (had == nil || had.Revision != t.Revision)
		if t == nil || t.Failed || t.StoppedAt != nil || isRunning(had, t.Revision) || isOther && (runs || abandons) || !isOther && had.StoppedAt != nil && c.Dispatched {
			continue
		}
		name := stageOf(seen.Strategy, c)
		started[name], o.began[c.Name] = c.Name, name
		if isOff(c) {
			o.violated("deferred", "the turn of %s begins, which cannot get anything", c.Name)
		}
		if seen.UpdateRevision == "" && (next.Phase == Progressing || next.Phase == Completed) {
			o.violated("unreadable", "the turn of %s begins, and the resource cannot be read", c.Name)
		}
		if seen.Strategy.Paused || next.Paused {
			o.violated("paused", "the turn of %s begins while the rollout is paused", c.Name)
		}
		if t.Revision == next.UpdateRevision && next.Phase == Progressing {
			o.checkOrder(next, name, c.Name)
		} else if t.Revision != next.CurrentRevision || next.Phase == Failed {
			o.violated("budget", "the turn of %s to %s begins in phase %s", c.Name, t.Revision, next.Phase)
		}
	}
	for i := range next.Stages {
		s := &next.Stages[i]
		o.limits[s.Name] = max(o.limits[s.Name], limit(seen.Strategy, s))
		if used := slotsUsed(seen, next, s.Name); started[s.Name] != "" && used > limit(seen.Strategy, s) {
			o.violated("slots", "the turn of %s begins, and then %d are in progress in stage %s", started[s.Name], used, s.Name)
		}
	}
}

// checkOrder: no cluster begins before the stages before its own are passed.
func (o *oracle) checkOrder(next *Status, name, cluster string) {
	for i := range next.Stages {
		if next.Stages[i].Name == name {
			return
		}
		if next.Stages[i].PassedAt == nil {
			o.violated("order", "the turn of %s begins, and stage %s is not passed", cluster, next.Stages[i].Name)
		}
	}
}

// slotsUsed counts the clusters of a stage that are in progress.
func slotsUsed(seen sight, next *Status, name string) int {
	used := 0
	for i := range seen.Clusters {
		c := &seen.Clusters[i]
		t := turnOf(next, c.Name)
		if stageOf(seen.Strategy, c) != name || t == nil || t.Failed || t.StoppedAt != nil && !c.Dispatched ||
			t.StoppedAt == nil && t.Revision == next.CurrentRevision && !c.Ready {
			continue
		}
		used++
	}
	return used
}

// checkDeadlines: a cluster fails at its deadline, not before, and not before the process
// has watched it.
func (o *oracle) checkDeadlines(w *world, seen sight, prev, next *Status) {
	deadline := time.Duration(*seen.Strategy.ProgressDeadlineSeconds) * time.Second
	for i := range seen.Clusters {
		c := &seen.Clusters[i]
		t, had := turnOf(next, c.Name), turnOf(prev, c.Name)
		if t == nil || had == nil || had.Failed || had.Revision != t.Revision || had.StoppedAt != nil {
			continue
		}
		counted := seen.Now
		if had.WithheldSince != nil {
			counted = had.WithheldSince.Time
		}
		over := counted.Sub(had.StartedAt.Time) >= deadline
		runs := c.Assigned == t.Revision && c.Confirmed == t.Revision && c.Applied && c.Ready && c.Health == "Healthy"
		if t.Failed && (!over || seen.Watched < time.Minute || c.Withheld) {
			o.violated("deadline", "%s has failed after %v, watched for %v", c.Name, seen.Now.Sub(had.StartedAt.Time), seen.Watched)
		}
		if !t.Failed && t.StoppedAt == nil && !c.Withheld && over && seen.Watched >= time.Minute && !runs && had.StartedAt.Equal(&t.StartedAt) {
			o.violated("deadline", "%s has not failed after %v", c.Name, seen.Now.Sub(had.StartedAt.Time))
		}
		if !w.skewed && t.StartedAt.Before(&had.StartedAt) {
			o.violated("deadline", "the turn of %s began at %v and now at %v", c.Name, had.StartedAt, t.StartedAt)
		}
	}
}

// checkBudgets: a rollout does not go on if more clusters of a stage have failed than
// may, and goes on only for another revision or on request.
func (o *oracle) checkBudgets(seen sight, next *Status) {
	failed := map[string]int{}
	for i := range seen.Clusters {
		c := &seen.Clusters[i]
		if t := turnOf(next, c.Name); t != nil && t.Failed && t.Revision == next.UpdateRevision && t.Kind != Late {
			failed[stageOf(seen.Strategy, c)]++
		}
	}
	for name, count := range failed {
		if next.Phase == Progressing && count > budget(seen.Strategy, next, name) {
			o.violated("budget", "%d clusters of stage %s have failed, and the rollout goes on", count, name)
		}
	}
	prev := seen.Status
	if prev != nil && prev.FailedRevision == next.UpdateRevision && next.Phase == Progressing && next.Handled.Retry == prev.Handled.Retry && !seen.Equivalent {
		o.violated("budget", "%s goes on after it has failed", next.UpdateRevision)
	}
}

// checkCounts: a cluster counts as ready only if it has confirmed the revision.
func (o *oracle) checkCounts(seen sight, next *Status) {
	if isPlaced := next.Stage != ""; isPlaced != (next.Phase == Progressing && len(seen.Clusters) > 0) {
		o.violated("position", "the rollout is %s in stage %q", next.Phase, next.Stage)
	}
	for i := range next.Stages {
		s := &next.Stages[i]
		confirmed, members, updated := int32(0), int32(0), int32(0)
		for j := range seen.Clusters {
			c := &seen.Clusters[j]
			if stageOf(seen.Strategy, c) != s.Name {
				continue
			}
			members++
			if c.Assigned == next.UpdateRevision {
				updated++
			}
			if hasConfirmed(c, next.UpdateRevision) {
				confirmed++
			}
		}
		if o.most[s.Name] = max(o.most[s.Name], members); s.ResolvedFor < members || s.ResolvedFor > o.most[s.Name] || s.StartedAt == nil && s.ResolvedFor != members {
			o.violated("base", "percentages of stage %s refer to %d clusters, of at most %d", s.Name, s.ResolvedFor, o.most[s.Name])
		}
		if s.Ready > confirmed || s.Updated != updated || s.Clusters != members || s.Ready+s.Failed+s.Deferred > members {
			o.violated("success", "%d of %d clusters of stage %s are ready, and %d have confirmed: %+v", s.Ready, members, s.Name, confirmed, *s)
		}
	}
}

// checkWrite: the content of a Work changes only in a recorded turn, or because the
// cluster has not confirmed a revision that is abandoned.
func (o *oracle) checkWrite(w *world, c *simulated, revision string, by *Status) {
	if w.isFormer {
		o.late[c.name] = true
		return
	}
	if by == nil {
		delete(o.abandoned, revision)
	}
	if by == nil || w.status == nil || c.work == nil || c.work.revision == revision {
		return
	}
	t := turnOf(w.status, c.name)
	isAbandoned := c.work.confirmed != c.work.revision && revision == w.status.CurrentRevision
	if !isAbandoned && (t == nil || t.Revision != revision) {
		o.violated("held", "the Work of %s, which is held at %s, gets %s", c.name, c.work.revision, revision)
	}
}

// checkWorks: whoever has written them, no more Works of a stage than allowed have the
// update revision without being done or failed.
func (o *oracle) checkWorks(w *world, written *simulated, by *Status) {
	name, began := o.began[written.name]
	if s := w.status; s == nil || by == nil || s.Phase != Progressing || !began || written.work.revision != s.UpdateRevision {
		return
	}
	used := 0
	for _, c := range w.clusters {
		t := turnOf(w.status, c.name)
		seen := c.observed()
		isMoved := stageOf(&w.strategy, &seen) != name
		isProven := o.proofs[c.name] != nil && o.proofs[c.name].once
		if o.began[c.name] == name && !isMoved && c.targeted && c.work != nil && c.work.revision == w.status.UpdateRevision && !c.work.isSuspended && !isProven && (t == nil || !t.Failed && t.Kind != Relapse) {
			used++
		}
	}
	if used > o.limits[name] {
		o.violated("slots", "the Work of %s is written, and then %d are in progress in stage %s", written.name, used, name)
	}
}

// afterRound notes which revisions are abandoned, after everything is written.
func (o *oracle) afterRound(w *world) {
	clear(o.abandoned)
	clear(o.late)
	s := w.status
	if s == nil || w.released || s.Phase == StateLost || w.former != nil && len(w.former.queue) > 0 {
		return
	}
	for i := 1; i <= w.revisions; i++ {
		revision := nameOfRevision(i)
		isWanted := revision == s.UpdateRevision && (s.Phase == Progressing || s.Phase == Failed || s.Phase == Completed)
		o.abandoned[revision] = revision != s.CurrentRevision && !isWanted
	}
}

// checkApply: a cluster does not begin to run an abandoned revision, unless nothing else can
// be written to its Work.
func (o *oracle) checkApply(c *simulated) {
	if o.abandoned[c.work.revision] && c.work.confirmed != c.work.revision && !o.late[c.name] && c.targeted && !c.terminating && !c.withheld {
		o.violated("return", "%s begins to run %s, which is abandoned", c.name, c.work.revision)
	}
}

// checkLost: if the status is lost in the middle of a rollout, nothing moves.
func (o *oracle) checkLost(seen sight, next *Status) {
	some, all := false, true
	for i := range seen.Clusters {
		c := &seen.Clusters[i]
		some = some || c.Assigned != ""
		all = all && hasConfirmed(c, next.UpdateRevision)
	}
	if seen.HasSnapshots && some && !all && next.Phase != StateLost {
		o.violated("lost", "the status is lost, and the rollout is %s", next.Phase)
	}
}
