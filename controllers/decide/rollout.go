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

package decide

import (
	"fmt"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/controllers/rollout"
)

// Rollout is what a rollout has decided about the targets.
type Rollout struct {
	rollout.Decision
	// Assigned is, by cluster, what was assigned.
	Assigned map[string]*rollout.Assignment
	// Followers are, by dependency, the clusters whose revisions need it, if these are not
	// all.
	Followers map[types.NamespacedName]map[string]bool
	// FollowersUnknown: it cannot be read what follows one of the revisions.
	FollowersUnknown bool
}

// NewRollout prepares a decision for use.
func NewRollout(decision rollout.Decision) *Rollout {
	made := &Rollout{Decision: decision, Assigned: make(map[string]*rollout.Assignment, len(decision.Assignments))}
	for i := range decision.Assignments {
		made.Assigned[decision.Assignments[i].Cluster] = &decision.Assignments[i]
	}
	return made
}

// follow makes the targets what the rollout has assigned to them.
func (o *Observed) follow() {
	for i := range o.Targets {
		target := &o.Targets[i]
		assigned := o.Rollout.Assigned[target.Cluster]
		target.Rollout, target.ConfirmedRollout = assigned.Revision, assigned.Confirmed
		target.Suspend = target.Suspend || assigned.Suspend
		if rendering := o.Resource.Renderings[target.Cluster]; rendering != nil && rendering.Resolution != "" {
			target.ConflictResolution = rendering.Resolution
		}
	}
}

// Follow lets the targets follow a rollout. renderings are, by cluster, what was
// assigned.
func (o *Observed) Follow(decided *Rollout, renderings map[string]*Rendering) {
	o.Rollout, o.Resource.Renderings = decided, renderings
	o.follow()
}

// isRenderable reports whether it is known what the targets should get. A rollout knows
// without the resource.
func (o *Observed) isRenderable() bool { return o.Resource.Problem == nil || o.Rollout != nil }

// Held is the rendering of a cluster that must not have a Work yet.
func Held(message string) *Rendering {
	return &Rendering{Held: true, Reason: propagationv1alpha1.ReasonWaiting, Message: message}
}

// ConfirmedBefore returns, by cluster, the revisions of the rollout that clusters have
// confirmed according to the rows of the recorded status.
func (o *Observed) ConfirmedBefore() map[string]string {
	confirmed := map[string]string{}
	for i := range o.Status.Clusters {
		if row := &o.Status.Clusters[i]; row.Rollout != nil && !ReasonNamed(row.Reason).departing {
			confirmed[row.Name] = row.Rollout.ConfirmedRevision
		}
	}
	return confirmed
}

// MemberOf returns what a rollout needs to know about a target. assigned is the revision
// that its Work was given, and confirmed the one that was confirmed last if the Work does
// not say.
func (o *Observed) MemberOf(target render.Target, labels map[string]string, assigned, confirmed string) rollout.Cluster {
	state, work := o.Clusters[target.Cluster], o.Work(target.Cluster)
	_, held := o.Holders[target.Cluster]
	member := rollout.Cluster{
		Name: target.Cluster, Labels: labels,
		Exists: state.Exists, Terminating: state.Terminating, Ready: state.Ready,
		Suspended: target.Suspend, Conflict: held,
		Confirmed: confirmed, Health: propagationv1alpha1.HealthUnknown,
	}
	if work == nil || work.DeletionTimestamp != nil {
		return member
	}
	member.Assigned = assigned
	if confirmed != assigned { // what it has confirmed stays so, whatever becomes of the proof
		member.Confirmed = confirmedRollout(work, assigned)
	}
	member.Dispatched = !ptr.Deref(work.Spec.SuspendDispatching, false)
	if render.IsEdited(work) {
		return member
	}
	proof, _ := EvidenceOf(work)
	member.Applied = proof == Confirmed
	member.Refused = proof == Refused && refusalSettles(o.Now, work) == 0
	if member.Applied {
		member.Health = healthOf(o, work)
	}
	return member
}

// confirmedRollout is the revision of a rollout that the cluster of a Work has confirmed
// last. assigned is the one that the Work was given.
func confirmedRollout(work *workv1alpha1.Work, assigned string) string {
	switch confirmedRevision(work) {
	case "":
		return ""
	case render.Revision(work):
		return assigned
	}
	return work.Annotations[propagationv1alpha1.ConfirmedRolloutRevisionAnnotation]
}

// inRollout adds to a row where its cluster stands in the rollout. A cluster that runs
// another revision than the requested one waits, however well it is.
func (o *Observed) inRollout(current propagationv1alpha1.ClusterStatus) propagationv1alpha1.ClusterStatus {
	if o.KeepsRollout() {
		return o.asBefore(current)
	}
	if o.Rollout == nil || o.Rollout.Status == nil {
		return current
	}
	assigned := o.Rollout.Assigned[current.Name]
	current.Rollout = &propagationv1alpha1.ClusterRollout{
		Stage: assigned.Stage, AssignedRevision: assigned.Revision, ConfirmedRevision: assigned.Confirmed,
	}
	if assigned.Revision == o.Rollout.Status.UpdateRevision || current.Applied != metav1.ConditionTrue {
		return current
	}
	current.Applied, current.Reason = metav1.ConditionUnknown, propagationv1alpha1.ReasonWaiting
	current.Message = o.whyWaits(assigned)
	return current
}

// asBefore adds to a row what the row before says about a rollout about which nothing could
// be decided now.
func (o *Observed) asBefore(current propagationv1alpha1.ClusterStatus) propagationv1alpha1.ClusterStatus {
	before := o.rowBefore(current.Name)
	if before == nil || before.Rollout == nil {
		return current
	}
	current.Rollout = before.Rollout
	if before.Reason == propagationv1alpha1.ReasonWaiting && current.Applied == metav1.ConditionTrue {
		current.Applied, current.Reason, current.Message = before.Applied, before.Reason, before.Message
	}
	return current
}

// whyWaits explains why a cluster runs another revision than the requested one.
func (o *Observed) whyWaits(assigned *rollout.Assignment) string {
	status := o.Rollout.Status
	switch status.Phase {
	case rollout.RollingBack, rollout.RolledBack, rollout.Failed:
		return fmt.Sprintf("the cluster runs revision %s; revision %s failed and is not propagated", assigned.Revision, status.UpdateRevision)
	case rollout.StateLost:
		return fmt.Sprintf("the cluster keeps revision %s, because the status of the rollout is lost", assigned.Revision)
	}
	if assigned.State == rollout.Deferred {
		return fmt.Sprintf("the cluster runs revision %s; it cannot get revision %s now", assigned.Revision, status.UpdateRevision)
	}
	return fmt.Sprintf("the cluster runs revision %s; revision %s waits for the turn of stage %s", assigned.Revision, status.UpdateRevision, assigned.Stage)
}

// report returns what the conditions say about the rollout.
func (o *Observed) report() rollout.Report {
	if o.Rollout == nil || o.Deleting {
		return rollout.Report{}
	}
	return o.Rollout.Report
}

// rolloutStatus is what the status says about rollouts. If nothing could be decided, that
// stays as it is.
func (o *Observed) rolloutStatus() *propagationv1alpha1.RolloutStatus {
	switch {
	case o.Rollout != nil && o.Rollout.Status != nil:
		return o.Rollout.Status.API()
	case o.Deleting, o.KeepsRollout():
		return o.Status.Rollout
	}
	return nil
}

// mayBeAbandoned reports whether a Work may hold a revision that its cluster has not
// confirmed, and that the rollout does not assign to it anymore.
func (o *Observed) mayBeAbandoned(work *workv1alpha1.Work, target render.Target) bool {
	return o.Rollout != nil && confirmedRevision(work) != render.Revision(work) &&
		work.Annotations[propagationv1alpha1.RolloutRevisionAnnotation] != target.Rollout
}

// KeepsRollout reports whether nothing could be decided about a rollout that may go on
// later.
func (o *Observed) KeepsRollout() bool {
	return o.Rollout == nil && !o.Deleting && (o.Resource.Problem != nil || o.Spec.Rollout != nil)
}
