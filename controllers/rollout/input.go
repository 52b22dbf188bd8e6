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
	"time"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Input is everything that a decision depends on.
type Input struct {
	// Now is the time. Within a process it must not jump: take the time at the start of
	// the process, plus what has passed since then by the monotonic clock.
	Now time.Time
	// Watched is how long this process has watched the clusters without interruption, by
	// the monotonic clock.
	Watched time.Duration
	// Strategy is nil if the object does not ask for rollouts.
	Strategy *Strategy
	// Status is what is recorded; nil if nothing is. Decide does not change it. It must be
	// the newest: with an older one, a cluster whose turn is not known yet would get the
	// current revision again. Read it from the API server after taking over, and then
	// remember what was written.
	Status *Status
	// UpdateRevision is the requested revision; empty if the resource cannot be read.
	UpdateRevision string
	// Equivalent: the update revision has changed, but not for any of the clusters that
	// have a turn or are done.
	Equivalent bool
	// HasSnapshots: the object has revisions that were recorded for a rollout.
	HasSnapshots bool
	// NeverRollBack: the resource must not return to an older revision, for example a
	// CustomResourceDefinition.
	NeverRollBack bool
	Commands      Commands
	// Clusters are the targets, in any order.
	Clusters []Cluster
}

// Cluster is what is observed of one target.
type Cluster struct {
	Name   string
	Labels map[string]string
	// Exists: the cluster is registered. Terminating: it is being unregistered.
	Exists, Terminating bool
	// Ready: Karmada has contact with the cluster.
	Ready bool
	// Suspended: the spec suspends dispatching to the cluster.
	Suspended bool
	// Conflict: another owner holds the Work on the cluster.
	Conflict bool
	// Withheld: the Work does not hold the revision of the turn of the cluster, and that
	// cannot be written now.
	Withheld bool

	// Assigned is the revision that the object's Work was last given; empty if there is
	// no such Work. A Work that somebody has edited still counts as the revision that it
	// was given. If several revisions are the same for the cluster, it is the one of its
	// turn, or else the update revision while that is rolled out, or else the current one,
	// all as recorded in the status.
	Assigned string
	// Dispatched: the Work exists and is not suspended, so that Karmada may apply it.
	Dispatched bool
	// Confirmed is the last revision that the cluster has confirmed, even if the Work has
	// been written again since then, or somebody has deleted it; empty if none is known.
	Confirmed string
	// Applied: the cluster has confirmed what the Work holds now.
	Applied bool
	// Refused: the cluster refuses what the Work holds now.
	Refused bool
	// Health is what the cluster reports about what it has applied.
	Health propagationv1alpha1.Health
}

// has reports whether the cluster has confirmed a revision and still has it.
func (c *Cluster) has(revision string) bool {
	return revision != "" && c.Assigned == revision && c.Confirmed == revision
}

// hasLost reports whether somebody has deleted the Work of a cluster that had a revision.
func (c *Cluster) hasLost(revision string) bool {
	return revision != "" && c.Assigned == "" && c.Confirmed == revision
}

// isGood reports whether the cluster runs a revision and is healthy.
func (c *Cluster) isGood(revision string) bool {
	return c.Exists && c.Ready && c.Applied && c.has(revision) && c.Health == propagationv1alpha1.HealthHealthy
}

// isBad reports whether the cluster refuses what its Work holds, or is not healthy with
// it. A cluster without contact, and one that has not reported, is neither good nor bad.
func (c *Cluster) isBad() bool {
	return c.Exists && c.Ready && (c.Refused || c.Applied && c.Health == propagationv1alpha1.HealthUnhealthy)
}

// isStopped reports whether no time counts against the cluster.
func (c *Cluster) isStopped() bool {
	return !c.Exists || c.Terminating || c.Conflict || c.Suspended
}

// isDeferred reports whether the cluster cannot begin a turn now.
func (c *Cluster) isDeferred() bool { return c.isStopped() || !c.Ready }

// awaitsConfirmation reports whether the cluster has never confirmed the revision in its
// Work.
func (c *Cluster) awaitsConfirmation() bool {
	return c.Assigned != "" && c.Confirmed != c.Assigned
}
