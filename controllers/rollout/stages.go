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
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

var (
	hundredPercent = intstr.FromString("100%")
	none           = intstr.FromInt32(0)
)

// judge stops the rollout if more clusters of a stage have failed than may. Late ones do
// not count: they may have been in trouble before.
func (d *decision) judge() {
	if d.next.Phase != Progressing {
		return
	}
	for i := range d.stages {
		s := &d.stages[i]
		failure := &Failure{Stage: s.Name}
		for _, m := range s.members {
			if !m.turn.failed || m.turn.kind == Late || m.turn.revision != d.next.UpdateRevision {
				continue
			}
			failure.Clusters++
			if len(failure.ClusterNames) < propagationv1alpha1.MaxFailedClusters {
				failure.ClusterNames = append(failure.ClusterNames, m.Name)
			}
		}
		if failure.Clusters > s.MaxFailures {
			d.stop(failure, d.strategy.OnFailure == FailureRollback)
			d.event(propagationv1alpha1.ReasonRolloutFailed, d.failureMessage())
			return
		}
	}
}

// advance begins stages and passes them, one after the other. Without any clusters,
// nothing is proven.
func (d *decision) advance() {
	d.next.Stage = ""
	if d.next.Phase != Progressing || len(d.members) == 0 {
		return
	}
	for i := range d.stages {
		s := &d.stages[i]
		if s.PassedAt != nil {
			continue
		}
		d.next.Stage, d.position = s.Name, i
		d.holdAfter(i)
		if s.StartedAt == nil {
			s.StartedAt = d.stampTime()
			d.event(propagationv1alpha1.EventStageStarted, fmt.Sprintf("stage %s begins, with %s", s.Name, counted(len(s.members))))
		}
		if !d.passes(s) {
			return
		}
		s.PassedAt = d.stampTime()
		d.event(propagationv1alpha1.EventStageCompleted, fmt.Sprintf("stage %s has revision %s", s.Name, d.next.UpdateRevision))
	}
	d.next.Stage = ""
	d.complete()
}

// holdAfter ends the soaks of later stages. They may have begun if the order of the
// stages was different.
func (d *decision) holdAfter(position int) {
	for i := position + 1; i < len(d.stages); i++ {
		if d.stages[i].PassedAt == nil {
			d.stages[i].ReadySince = nil
		}
	}
}

// passes reports whether a stage is done, soaked and approved.
func (d *decision) passes(s *stage) bool {
	if !d.isGood(s) {
		s.ReadySince = nil
		return false
	}
	if s.ReadySince == nil || s.ReadySince.Unix() > d.stamp() {
		s.ReadySince = d.stampTime()
	}
	d.lookAgain(d.soakLeft(s))
	return !d.isPaused() && d.soakLeft(s) == 0 && !d.awaitsApproval(s)
}

// isGood reports whether a stage is done: every cluster that is not deferred has the
// update revision and is healthy with it, except for as many as may fail. At least one
// must have it, if there are any.
func (d *decision) isGood(s *stage) bool {
	done, bad := 0, int32(0)
	for _, m := range s.members {
		switch {
		case m.turn.failed && m.turn.revision == d.next.UpdateRevision:
			bad++
		case m.turn.isRunning() && m.turn.kind == Relapse:
			bad++
		case m.turn.isRunning():
			return false
		case d.isDone(m):
			done++
		case !m.isDeferred():
			return false
		}
	}
	return bad <= s.MaxFailures && (done > 0 || len(s.members) == 0)
}

// isDone reports whether the turn of a cluster to the update revision is over. A cluster
// without contact still is done.
func (d *decision) isDone(m *member) bool {
	return !m.turn.exists() && m.has(d.next.UpdateRevision) && m.Exists && !m.Terminating && !m.Conflict
}

// soakLeft returns how long a good stage must still be watched. An approval ends that.
func (d *decision) soakLeft(s *stage) time.Duration {
	if s.ReadySince == nil || len(s.members) == 0 || s.ApprovedRevision == d.next.UpdateRevision {
		return 0
	}
	seconds := ptr.Deref(s.spec.SoakSeconds, d.strategy.SoakSeconds)
	if seconds == 0 {
		return 0 // recorded times are up to a second in the future
	}
	return d.remaining(s.ReadySince.Unix(), seconds)
}

func (d *decision) awaitsApproval(s *stage) bool {
	return s.spec.Approval == ApprovalRequired && s.ApprovedRevision != d.next.UpdateRevision
}

func (d *decision) isPaused() bool { return d.strategy.Paused || d.next.Paused }

// finish ends a rollback or a revert when nothing is left to do. Clusters that have
// failed, or are deferred, do not hold it up.
func (d *decision) finish() {
	if d.next.Phase != RollingBack && d.next.Phase != Reverting {
		return
	}
	for i := range d.members {
		if m := &d.members[i]; m.turn.isRunning() || d.wantsTurn(m) && !m.isDeferred() {
			return
		}
	}
	if d.next.Phase == Reverting {
		d.next.Phase = Completed
		d.event(propagationv1alpha1.EventRolloutCompleted, fmt.Sprintf("the clusters have returned to revision %s", d.next.CurrentRevision))
		return
	}
	d.next.Phase = RolledBack
}

// summarize counts the clusters of a stage.
func (d *decision) summarize(s *stage) StageStatus {
	counted := s.StageStatus
	counted.Updated, counted.Ready, counted.Failed, counted.Deferred = 0, 0, 0, 0
	for _, m := range s.members {
		if m.Assigned == d.next.UpdateRevision {
			counted.Updated++
		}
		switch d.stateOf(m) {
		case Updated:
			counted.Ready++
		case Overdue:
			counted.Failed++
		case Deferred:
			counted.Deferred++
		case Updating, Returning, Waiting:
		}
	}
	return counted
}
