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

import "slices"

// start begins turns, and lets those continue that were stopped, as long as their stage
// has slots.
func (d *decision) start() {
	for i := range d.stages {
		s := &d.stages[i]
		d.returnAbandoned(s)
		if d.isPaused() || !d.mayStart() {
			continue
		}
		free := s.MaxConcurrency
		for _, m := range s.members {
			if d.takesSlot(m) {
				free--
			}
		}
		free = d.resume(s, free)
		for _, m := range d.candidates(s) {
			if free <= 0 {
				break
			}
			d.begin(m, d.goal(m), d.kindIn(s))
			free--
		}
	}
}

// mayStart reports whether anything may start. Without a readable resource, only
// snapshots of revisions that clusters have are known.
func (d *decision) mayStart() bool {
	switch d.next.Phase {
	case Progressing, Completed:
		return d.in.UpdateRevision != ""
	case RollingBack, RolledBack, Reverting:
		return true
	case Failed, StateLost:
	}
	return false
}

// goal is the revision that a cluster needs a turn to; empty if it needs none.
func (d *decision) goal(m *member) string {
	switch d.next.Phase {
	case Progressing:
		isReturning := d.strategy.OnFailure == FailureRollback && !d.in.NeverRollBack
		switch {
		case m.stage <= d.position && !m.has(d.next.UpdateRevision):
			return d.next.UpdateRevision
		case m.stage > d.position && m.has(d.next.FailedRevision) && isReturning:
			// A fix has replaced the failed revision before it was rolled back
			// everywhere. It may take hours until it is the turn of this stage.
			return d.next.CurrentRevision
		}
	case Completed, RollingBack, RolledBack, Reverting:
		if m.Assigned != "" && m.Assigned != d.next.CurrentRevision {
			return d.next.CurrentRevision
		}
	case Failed, StateLost:
	}
	return ""
}

// wantsTurn reports whether a cluster needs a turn that it does not have.
func (d *decision) wantsTurn(m *member) bool {
	goal := d.goal(m)
	return goal != "" && (!m.turn.exists() || m.turn.failed && m.turn.revision != goal)
}

// returnAbandoned begins the turns of clusters that return to the current revision
// without waiting for a slot, because they have not confirmed what they would return
// from. What is assigned to them has changed already; the turn is their deadline.
func (d *decision) returnAbandoned(s *stage) {
	if d.next.Phase == Progressing {
		return
	}
	for _, m := range s.members {
		if m.awaitsConfirmation() && d.wantsTurn(m) {
			d.begin(m, d.goal(m), d.kindIn(s))
		}
	}
}

// resume lets turns continue whose clusters are no longer suspended. Their time goes on
// where it was. It returns how many slots are left.
func (d *decision) resume(s *stage, free int32) int32 {
	for _, m := range s.members {
		isEarly := d.next.Phase == Progressing && m.turn.revision == d.next.UpdateRevision && m.stage > d.position
		if m.turn.stopped == 0 || isEarly || m.isDeferred() || free <= 0 && !d.takesSlot(m) {
			continue
		}
		if !d.takesSlot(m) {
			free--
		}
		m.turn.started += d.stamp() - m.turn.stopped
		m.turn.stopped = 0
		d.lookAgain(d.remaining(m.turn.started, d.deadline()))
	}
	return free
}

// candidates are the clusters of a stage that can begin a turn, by name. Those that are
// in trouble return first.
func (d *decision) candidates(s *stage) []*member {
	if d.kindIn(s) == Late && d.failedLate(s) > s.MaxFailures {
		return nil
	}
	var found []*member
	for _, m := range s.members {
		if d.wantsTurn(m) && !m.isDeferred() {
			found = append(found, m)
		}
	}
	if d.next.Phase == RollingBack || d.next.Phase == Reverting {
		slices.SortStableFunc(found, func(a, b *member) int { return rank(a) - rank(b) })
	}
	return found
}

func rank(m *member) int {
	if m.isBad() {
		return 0
	}
	return 1
}

// kindIn is the kind of the turns that begin in a stage now.
func (d *decision) kindIn(s *stage) TurnKind {
	if d.next.Phase == Completed || d.next.Phase == Progressing && s.PassedAt != nil {
		return Late
	}
	return Regular
}

// failedLate counts the clusters of a stage that have come late and failed.
func (d *decision) failedLate(s *stage) int32 {
	failed := int32(0)
	for _, m := range s.members {
		if m.turn.failed && m.turn.kind == Late {
			failed++
		}
	}
	return failed
}
