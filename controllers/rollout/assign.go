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

import "strings"

// Assignment is what a cluster gets.
type Assignment struct {
	Cluster string
	// Revision is what the Work of the cluster must hold; empty if the cluster must not
	// have a Work. The Work may exist nevertheless: it is then left as it is.
	Revision string
	// Confirmed is the last revision that the cluster has confirmed; empty if none is known.
	Confirmed string
	// Suspend: Karmada must not apply the Work now, even if the spec does not suspend the
	// cluster.
	Suspend bool
	// Stage is the name of the stage of the cluster.
	Stage string
	// State is where the cluster stands in the rollout.
	State State
}

// State is where a cluster stands in a rollout.
type State string

const (
	// Updated clusters are done.
	Updated State = "Updated"
	// Updating clusters have a turn to the update revision.
	Updating State = "Updating"
	// Returning clusters have a turn back to the current revision.
	Returning State = "Returning"
	// Waiting clusters keep what they have until it is their turn.
	Waiting State = "Waiting"
	// Deferred clusters keep what they have because they cannot get anything else now.
	Deferred State = "Deferred"
	// Overdue clusters were not done before the deadline.
	Overdue State = "Overdue"
)

// assign returns what a cluster gets. It depends only on what is recorded and on the
// Work of the cluster.
func assign(status *Status, recorded *turn, c *Cluster) (revision string, suspend bool) {
	switch {
	case status == nil || status.Phase == StateLost:
		return c.Assigned, false
	case recorded.exists():
		// A turn that was stopped goes on when there is a slot for it.
		return recorded.revision, recorded.stopped != 0
	case c.Assigned == "":
		return restored(status, c), false
	case !c.awaitsConfirmation() || c.Assigned == status.CurrentRevision:
		return c.Assigned, false
	case status.CurrentRevision != "":
		// The cluster must not apply an abandoned revision when it returns.
		return status.CurrentRevision, false
	default:
		// There is nothing that it could have instead.
		return c.Assigned, true
	}
}

// restored is what a cluster without a Work and without a turn gets: what it had, if it
// had the failed revision that is not rolled back, or if there is no current one.
func restored(status *Status, c *Cluster) string {
	if status.Phase == Failed && c.hasLost(status.UpdateRevision) || status.CurrentRevision == "" {
		return c.Confirmed
	}
	return status.CurrentRevision
}

// assignments assigns a revision to each member.
func (d *decision) assignments() []Assignment {
	status := &d.next
	if d.in.Status == nil && status.Phase == "" {
		status = nil
	}
	assigned := make([]Assignment, len(d.members))
	for i := range d.members {
		m := &d.members[i]
		assigned[i] = Assignment{Cluster: m.Name, Stage: d.stages[m.stage].Name, State: d.stateOf(m), Confirmed: m.Confirmed}
		assigned[i].Revision, assigned[i].Suspend = assign(status, &m.turn, m.Cluster)
	}
	return assigned
}

func (d *decision) stateOf(m *member) State {
	switch {
	case m.turn.failed:
		return Overdue
	case m.turn.stopped != 0:
		return Deferred
	case m.turn.exists() && m.turn.revision == d.next.CurrentRevision && d.next.Phase != Completed:
		return Returning
	case m.turn.exists():
		return Updating
	case m.has(d.next.UpdateRevision):
		return Updated
	case m.isDeferred():
		return Deferred
	}
	return Waiting
}

func compareAssignments(a, b Assignment) int { return strings.Compare(a.Cluster, b.Cluster) }
