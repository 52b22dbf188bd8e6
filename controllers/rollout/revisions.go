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

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// isFailed reports whether the requested revision has failed.
func (s *Status) isFailed(requested string) bool {
	return s != nil && s.FailedRevision != "" && s.FailedRevision == s.UpdateRevision && (requested == "" || requested == s.FailedRevision)
}

// release lets every cluster have the requested revision: the object does not ask for
// rollouts.
func release(in *Input) Decision {
	assigned := make([]Assignment, len(in.Clusters))
	for i := range in.Clusters {
		assigned[i] = Assignment{Cluster: in.Clusters[i].Name, Revision: in.UpdateRevision}
		if in.UpdateRevision == "" {
			assigned[i].Revision = in.Clusters[i].Assigned
		}
	}
	slices.SortFunc(assigned, compareAssignments)
	return Decision{Assignments: assigned}
}

// adopt begins with what the clusters have. If they all have the same revision, that is
// the current one.
func (d *decision) adopt() {
	d.next.UpdateRevision = d.in.UpdateRevision
	common, _ := d.commonRevision()
	if common != "" { // the object is older than its rollout
		d.next.Handled = d.in.Commands.before()
	}
	if common != "" && d.in.HasSnapshots && !d.isComplete() {
		d.next.Phase = StateLost
		// They may be older than the loss.
		d.next.Handled = d.in.Commands
		return
	}
	d.beginWith(d.commonRevision())
}

// isComplete reports whether every cluster has confirmed the requested revision.
func (d *decision) isComplete() bool {
	return !slices.ContainsFunc(d.members, func(m member) bool { return !m.has(d.next.UpdateRevision) })
}

// commonRevision returns a revision that some cluster has; empty if none has any. It
// reports whether all of them have that one.
func (d *decision) commonRevision() (revision string, agree bool) {
	for i := range d.members {
		has := d.members[i].Assigned
		if has != "" && revision != "" && has != revision {
			return has, false
		}
		if has != "" {
			revision = has
		}
	}
	return revision, true
}

// beginWith begins the first rollout that is recorded.
func (d *decision) beginWith(common string, agree bool) {
	if agree {
		d.next.CurrentRevision = common
	}
	if d.next.CurrentRevision == d.next.UpdateRevision {
		d.next.Phase = Completed
		return
	}
	d.startOver()
}

// followRevision does what a change of the requested revision requires.
func (d *decision) followRevision() {
	requested, replaced := d.in.UpdateRevision, d.next.UpdateRevision
	if requested == "" || requested == replaced {
		if d.next.Phase == Failed && d.strategy.OnFailure == FailureRollback {
			d.stop(d.next.Failure, true)
		}
		return
	}
	d.next.UpdateRevision = requested
	switch {
	case d.next.Phase == StateLost:
	case requested == d.next.CurrentRevision:
		d.announceSuperseded(replaced)
		d.next.Phase = Reverting
		d.resetStages()
		d.keepTurns(requested)
	case requested == d.next.FailedRevision:
		d.announceSuperseded(replaced)
		d.keepTurns(d.next.CurrentRevision)
		d.stop(d.next.Failure, d.strategy.OnFailure == FailureRollback)
	case d.isSame(replaced):
		d.rename(replaced)
	default:
		d.announceSuperseded(replaced)
		d.startOver()
	}
}

// isSame reports whether the new revision is, for every cluster that has got the replaced
// one, the same.
func (d *decision) isSame(replaced string) bool {
	return d.in.Equivalent && (d.next.Phase == Progressing || d.next.Phase == Failed) &&
		slices.ContainsFunc(d.members, func(m member) bool {
			return m.turn.revision == replaced || m.has(replaced) || m.has(d.next.UpdateRevision)
		})
}

// rename carries everything that is known about a revision over to one that is the same
// for every cluster that has got it. The caller may still call it by its old name.
func (d *decision) rename(replaced string) {
	if d.next.FailedRevision == replaced {
		d.next.FailedRevision = d.next.UpdateRevision
	}
	for i := range d.stages {
		if d.stages[i].ApprovedRevision == replaced {
			d.stages[i].ApprovedRevision = d.next.UpdateRevision
		}
	}
	for i := range d.members {
		m := &d.members[i]
		cluster := *m.Cluster
		for _, revision := range []*string{&m.turn.revision, &cluster.Assigned, &cluster.Confirmed} {
			if *revision == replaced {
				*revision = d.next.UpdateRevision
			}
		}
		m.Cluster = &cluster
	}
}

// startOver begins at the first stage. What clusters have confirmed before is not
// enough: those that have the update revision must prove it in a turn.
func (d *decision) startOver() {
	d.next.Phase = Progressing
	d.event(propagationv1alpha1.EventRolloutStarted, fmt.Sprintf("revision %s is rolled out to %s", d.next.UpdateRevision, counted(len(d.members))))
	d.resetStages()
	d.keepTurns(d.next.CurrentRevision)
	for i := range d.members {
		if m := &d.members[i]; m.has(d.next.UpdateRevision) {
			d.begin(m, d.next.UpdateRevision, Regular)
		}
	}
}

// resetStages voids soaks and approvals.
func (d *decision) resetStages() {
	for i := range d.stages {
		d.stages[i].StageStatus = StageStatus{Name: d.stages[i].Name}
	}
}

// keepTurns ends the turns to all revisions but one.
func (d *decision) keepTurns(revision string) {
	for i := range d.members {
		if m := &d.members[i]; m.turn.revision != revision {
			m.turn = turn{}
		}
	}
}

// stop starts nothing more with the update revision, and rolls back if possible.
func (d *decision) stop(failure *Failure, back bool) {
	d.next.FailedRevision, d.next.Failure = d.next.UpdateRevision, failure
	if back && d.next.CurrentRevision != "" && !d.in.NeverRollBack {
		d.next.Phase = RollingBack
		d.keepTurns(d.next.CurrentRevision)
		return
	}
	d.next.Phase = Failed
}

// complete makes the update revision the current one.
func (d *decision) complete() {
	d.next.Phase = Completed
	d.next.CurrentRevision = d.next.UpdateRevision
	d.next.FailedRevision, d.next.Failure = "", nil
	// What has failed, or was stopped, remains so.
	d.keepTurns(d.next.UpdateRevision)
	d.event(propagationv1alpha1.EventRolloutCompleted, fmt.Sprintf("revision %s is the current one", d.next.UpdateRevision))
}
