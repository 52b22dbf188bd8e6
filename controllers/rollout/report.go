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
	"strings"
	"time"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Report is what the conditions of the object say about the rollout.
type Report struct {
	// Stalled: a user must do something. Otherwise, if there is a reason, the object is
	// Reconciling.
	Stalled bool
	// Reason is empty if there is nothing to report.
	Reason  string
	Message string
}

// Event is an Event of the object.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// maxEvents is how many Events of one decision may be about single clusters.
const maxEvents = 16

// warnings are the reasons of Events that are warnings.
var warnings = []string{
	propagationv1alpha1.EventClusterFailed, propagationv1alpha1.EventCommandRejected,
	propagationv1alpha1.ReasonRolloutFailed, propagationv1alpha1.ReasonRollbackFailed,
}

func (d *decision) event(reason, message string) {
	if reason != propagationv1alpha1.EventClusterFailed || len(d.events) < maxEvents {
		d.events = append(d.events, Event{Warning: slices.Contains(warnings, reason), Reason: reason, Message: message})
	}
}

func (d *decision) reject(message string) { d.event(propagationv1alpha1.EventCommandRejected, message) }

func (d *decision) announceSuperseded(replaced string) {
	if d.next.Phase == Progressing {
		d.event(propagationv1alpha1.EventRolloutSuperseded, fmt.Sprintf("revision %s replaces %s before every cluster has it", d.next.UpdateRevision, replaced))
	}
}

// announce records what the rollout begins to wait for.
func (d *decision) announce(report Report) {
	if d.in.Status != nil && d.in.Status.Reason == report.Reason && d.in.Status.Stage == d.next.Stage {
		return
	}
	switch report.Reason {
	case propagationv1alpha1.ReasonRolloutAwaitingApproval:
		d.event(propagationv1alpha1.EventApprovalRequired, report.Message)
	case propagationv1alpha1.ReasonRolloutPaused, propagationv1alpha1.ReasonRolledBack, propagationv1alpha1.ReasonRollbackFailed:
		d.event(report.Reason, report.Message)
	}
}

// report explains where the rollout is.
func (d *decision) report() Report {
	s := &d.next
	switch s.Phase {
	case Progressing:
		return d.reportProgress()
	case Failed:
		return Report{Stalled: true, Reason: propagationv1alpha1.ReasonRolloutFailed, Message: d.failureMessage() + "; nothing more starts: change the resource, or request a retry"}
	case RollingBack, Reverting:
		if d.isPaused() {
			return Report{Reason: propagationv1alpha1.ReasonRolloutPaused, Message: "the return to revision " + s.CurrentRevision + " is paused"}
		}
		return d.reportReturn()
	case RolledBack:
		return d.reportReturned()
	case StateLost:
		return Report{Stalled: true, Reason: propagationv1alpha1.ReasonRolloutStateLost, Message: "the status of the rollout is lost, and every cluster keeps what it has; " +
			"request a retry of revision " + s.UpdateRevision + " to begin with that"}
	case Completed:
		return d.reportLate()
	}
	return Report{}
}

// reportLate is about clusters that come late and do not get the current revision.
func (d *decision) reportLate() Report {
	for i := range d.stages {
		s, waiting := &d.stages[i], 0
		for _, m := range s.members {
			if d.wantsTurn(m) && !m.isDeferred() {
				waiting++
			}
		}
		switch {
		case waiting == 0:
		case d.isPaused():
			return Report{Reason: propagationv1alpha1.ReasonRolloutPaused, Message: fmt.Sprintf("the rollout is paused; %s of stage %s still to get revision %s", counted(waiting), s.Name, d.next.CurrentRevision)}
		case d.failedLate(s) > s.MaxFailures:
			return Report{Stalled: true, Reason: propagationv1alpha1.ReasonRolloutFailed, Message: fmt.Sprintf("of the clusters of stage %s that came late, %d failed with revision %s; %s not begin before they recover",
				s.Name, d.failedLate(s), d.next.CurrentRevision, others(waiting))}
		}
	}
	return Report{}
}

func others(count int) string {
	if count == 1 {
		return "1 other does"
	}
	return fmt.Sprintf("%d others do", count)
}

// reportProgress is about the first stage that is not passed.
func (d *decision) reportProgress() Report {
	s := &d.stages[d.position]
	about := d.progress(s)
	switch {
	case d.isPaused():
		return Report{Reason: propagationv1alpha1.ReasonRolloutPaused, Message: "the rollout is paused in " + about}
	case s.ReadySince == nil:
		return Report{Reason: propagationv1alpha1.ReasonRolloutProgressing, Message: about}
	case d.soakLeft(s) > 0:
		return Report{Reason: propagationv1alpha1.ReasonRolloutSoaking, Message: about + "; good since " + s.ReadySince.UTC().Format(time.RFC3339)}
	case d.awaitsApproval(s):
		return Report{Reason: propagationv1alpha1.ReasonRolloutAwaitingApproval, Message: about + "; to continue, approve " + d.approval(s)}
	}
	return Report{Reason: propagationv1alpha1.ReasonRolloutProgressing, Message: about}
}

// approval is the value of an annotation that approves a stage. Each is followed once, so after
// a retry it must be another one.
func (d *decision) approval(s *stage) string {
	value := s.Name + "@" + d.next.UpdateRevision
	if d.next.Handled.Approve == value {
		value += "/again"
	}
	return value
}

// progress counts the clusters of a stage.
func (d *decision) progress(s *stage) string {
	summary := d.summarize(s)
	about := fmt.Sprintf("stage %s: %d of %d clusters ready with revision %s", s.Name, summary.Ready, summary.Clusters, d.next.UpdateRevision)
	if summary.Failed > 0 {
		about += fmt.Sprintf(", %d failed", summary.Failed)
	}
	if summary.Deferred > 0 {
		about += fmt.Sprintf(", %d cannot get it now", summary.Deferred)
	}
	return about
}

// failureMessage is where the failed revision failed.
func (d *decision) failureMessage() string {
	failure := d.next.Failure
	if failure == nil {
		return fmt.Sprintf("revision %s was aborted", d.next.FailedRevision)
	}
	return fmt.Sprintf("revision %s failed in stage %s on %s", d.next.FailedRevision, failure.Stage, Listed(failure.ClusterNames, int(failure.Clusters)))
}

func (d *decision) reportReturn() Report {
	back := 0
	for i := range d.members {
		if d.members[i].Assigned == d.next.CurrentRevision && !d.members[i].turn.exists() {
			back++
		}
	}
	about := fmt.Sprintf("%d of %d clusters have revision %s again", back, len(d.members), d.next.CurrentRevision)
	if d.next.Phase == Reverting {
		return Report{Reason: propagationv1alpha1.ReasonRolloutProgressing, Message: about}
	}
	return Report{Reason: propagationv1alpha1.ReasonRolloutRollingBack, Message: d.failureMessage() + "; " + about}
}

// reportReturned names the clusters that have not returned.
func (d *decision) reportReturned() Report {
	var missing []string
	for i := range d.members {
		if m := &d.members[i]; m.turn.exists() || m.Assigned == d.next.FailedRevision {
			missing = append(missing, m.Name)
		}
	}
	if len(missing) > 0 {
		return Report{Stalled: true, Reason: propagationv1alpha1.ReasonRollbackFailed, Message: fmt.Sprintf("%s; not back at revision %s: %s",
			d.failureMessage(), d.next.CurrentRevision, Listed(missing, len(missing)))}
	}
	return Report{Stalled: true, Reason: propagationv1alpha1.ReasonRolledBack, Message: fmt.Sprintf("%s; every cluster has revision %s again",
		d.failureMessage(), d.next.CurrentRevision)}
}

// Listed names the first three of several clusters.
func Listed(names []string, total int) string {
	shown := names[:min(3, len(names))]
	text := strings.Join(shown, ", ")
	if more := total - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func counted(clusters int) string {
	if clusters == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", clusters)
}
