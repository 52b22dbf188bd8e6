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
	"slices"
	"time"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Removal deletes a Work.
type Removal struct {
	Cluster string
	Work    *workv1alpha1.Work
	// Preserve, if set, is written to the Work first: the deleted Work decides what
	// happens to the member's object.
	Preserve *bool
	// Nudge makes Karmada attempt the deletion again, and leaves Notes.
	Nudge bool
	Notes map[string]string
	// Release removes Karmada's finalizer from a Work that is being deleted if
	// Karmada does not: only for a Work whose object should stay.
	Release bool
	// Why is the reason of the removal, for the log.
	Why Why
}

// mayGo reports whether a Work that should not exist may be removed now. One that is being
// deleted goes in any case.
func mayGo(observed *Observed, plan *Plan, key types.NamespacedName) bool {
	cluster := render.ClusterOf(key.Namespace)
	if !observed.Targeted(cluster) || observed.Works[key].DeletionTimestamp != nil {
		return true
	}
	wanted := observed.WorkKey(cluster)
	// The cluster now gets another resource. The old one stays until the Work of the
	// new one exists or is about to be written.
	return observed.Works[wanted] != nil ||
		slices.ContainsFunc(plan.Writes, func(write Write) bool { return write.Target.Cluster == cluster })
}

func planDeletion(observed *Observed, plan *Plan) {
	left := []string{}
	for _, key := range observed.surplus() {
		planRemoval(observed, plan, key)
		cluster := render.ClusterOf(key.Namespace)
		if state := observed.Clusters[cluster]; state.Exists && !state.Terminating {
			left = append(left, cluster)
		}
	}
	if len(plan.Removals) > 0 || len(plan.HeldBack) > 0 || !observed.HasFinalizer {
		return
	}
	unreachable := slices.ContainsFunc(left, func(name string) bool { return !observed.Clusters[name].Ready })
	reachable := slices.ContainsFunc(left, func(name string) bool { return observed.Clusters[name].Ready })
	if !reachable && (!unreachable || observed.Abandon) {
		plan.RemoveFinalizer = true
		plan.Abandoned = slices.Compact(left)
	}
}

// planRemoval decides whether a Work can be deleted now.
func planRemoval(observed *Observed, plan *Plan, key types.NamespacedName) {
	work := observed.Works[key]
	cluster := render.ClusterOf(key.Namespace)
	if work.DeletionTimestamp != nil {
		planEnd(observed, plan, cluster, work)
		return
	}
	preserve := observed.Keeps(work)
	if wait := observed.settles(cluster, work); wait > 0 && !preserve {
		plan.wait(wait)
		return
	}
	removal := Removal{Cluster: cluster, Work: work, Why: ResourceNotNamed}
	switch {
	case observed.Deleting:
		removal.Why = ObjectDeleted
	case !observed.Targeted(cluster):
		removal.Why = ClusterNotNamed
	}
	if preserve != ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) {
		removal.Preserve = &preserve
	}
	plan.remove(observed, removal)
}

// Keeps reports whether the member's object stays when a Work is deleted. For a
// dependency, the Work itself records what its requirers asked for.
func (o *Observed) Keeps(work *workv1alpha1.Work) bool {
	if !o.Vanished && !o.Owner.Follows() {
		return ptr.Deref(o.Spec.PreserveResourcesOnDeletion, false)
	}
	_, kept := o.Kept[render.ClusterOf(work.Namespace)]
	return kept || ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false)
}

// planEnd completes the deletion of a Work.
//
// If the cluster was not Ready, Karmada retries a deletion with a back-off of up to
// 1000 s. The Work is nudged when the cluster is Ready again.
//
// A Work whose object should stay is released if Karmada does not release it:
// Karmada waits forever for an object that is missing on the member or that it does
// not manage (karmada#7463). The second case is not rare: Karmada removes its marks
// from the object before it removes its finalizer from the Work. If the second write
// has a conflict, it starts over and finds an object without marks. While the
// cluster is unreachable, nothing is released: the marks would stay on the object,
// and with them anybody could take it over.
func planEnd(observed *Observed, plan *Plan, cluster string, work *workv1alpha1.Work) {
	state, nudged := observed.Clusters[cluster], attemptsOf(work)
	if contactRegained(state, work) {
		// The clocks of a pull cluster and of the API server may differ, so only the
		// elapsed time shows that the deletion hangs.
		left := remaining(observed.Now, work.DeletionTimestamp.Time, settleTime)
		if left == 0 || state.ReadySince > work.DeletionTimestamp.UTC().Format(time.RFC3339) {
			plan.remove(observed, nudgedEnd(observed, cluster, work, attempts{}, ContactRegained))
			return
		}
		plan.wait(left)
	}
	if !ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) {
		planIgnored(observed, plan, cluster, work)
		return
	}
	if !slices.Contains(work.Finalizers, util.ExecutionControllerFinalizer) ||
		!state.Exists || !state.Ready {
		return
	}
	since, patience := nudged.at, releaseTime
	if !nudged.ending {
		since = work.DeletionTimestamp.Time
		if state.Terminating {
			patience = leaveTime
		}
	}
	// Only the controller's own clock measures how long Karmada has had: it runs from the
	// last nudge.
	if left := remaining(observed.Now, since, patience); left > 0 {
		plan.wait(left)
		return
	}
	if !nudged.ending || nudged.count < releaseNudges {
		plan.remove(observed, nudgedEnd(observed, cluster, work, attempts{count: releaseNudges - 1}, DeletionHangs))
		// Nothing that is watched may change until then, and if somebody has removed the
		// name of the owner from the Work, its changes wake nobody.
		plan.wait(releaseTime)
		return
	}
	plan.remove(observed, Removal{Cluster: cluster, Work: work, Release: true, Why: DeletionHangs})
}

// releaseNudges is the number in the note of the nudge that precedes a release. The first
// one is that on contact, which Karmada may ignore.
const releaseNudges = 2

// nudgedEnd makes Karmada attempt a deletion again, after the given attempts.
func nudgedEnd(observed *Observed, cluster string, work *workv1alpha1.Work, before attempts, why Why) Removal {
	return Removal{Cluster: cluster, Work: work, Nudge: true, Why: why, Notes: map[string]string{
		propagationv1alpha1.ClusterReadySinceAnnotation: observed.Clusters[cluster].ReadySince,
		propagationv1alpha1.AttemptsAnnotation:          before.next(observed.Now) + endingMark,
	}}
}

// planIgnored repeats a nudge of a deletion that Karmada has not answered.
func planIgnored(observed *Observed, plan *Plan, cluster string, work *workv1alpha1.Work) {
	nudged := attemptsOf(work)
	due, ignored := nudged.ignoredIn(observed.Now)
	switch {
	case !ignored || !nudged.ending || !observed.Clusters[cluster].Ready:
	case due == 0:
		plan.remove(observed, nudgedEnd(observed, cluster, work, nudged, ContactRegained))
	default:
		plan.wait(due)
	}
}

// MustSettle reports whether a Work must not be deleted yet, unless its object stays.
func (o *Observed) MustSettle(cluster string, work *workv1alpha1.Work) bool {
	return !ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) && o.settles(cluster, work) > 0
}

// settles returns how long the deletion of a Work must wait; 0 if it need not.
// Karmada looks for the object in its cache of the member, and releases the Work if
// it finds nothing. If the Work were deleted too soon after the object was created,
// the object would stay forever. A collected status proves that the cache has seen
// the object. Karmada may have created it when the Work was created, when it set
// Applied, before a reset removed that, and since a nudge on contact.
func (o *Observed) settles(cluster string, work *workv1alpha1.Work) time.Duration {
	state := o.Clusters[cluster]
	if !state.Exists || state.Terminating || !state.Ready || len(work.Status.ManifestStatuses) > 0 {
		return 0
	}
	proof, applied := EvidenceOf(work)
	wait, limit := resetSettles(o.Now, work), settleTime
	if proof == pending {
		if ptr.Deref(work.Spec.SuspendDispatching, false) {
			return wait
		}
		wait = max(wait, remaining(o.Now, attemptsOf(work).at, settleTime))
	}
	if applied != nil && isWithoutAnswer(applied.Message) {
		// The times of a refusal stay while Karmada repeats it.
		wait = max(wait, remaining(o.Now, attemptsOf(work).at, sightTime+answerTime))
	}
	if applied != nil && (applied.Status == metav1.ConditionTrue || isWithoutAnswer(applied.Message)) {
		limit = sightTime
		if row := o.rowBefore(cluster); row != nil {
			// By the controller's own clock, whatever the member's clock says.
			wait = max(wait, remaining(o.Now, row.LastTransitionTime.Time, limit))
		}
	}
	if applied != nil {
		wait = max(wait, remaining(o.Now, applied.LastTransitionTime.Time, limit))
	}
	return max(wait, remaining(o.Now, work.CreationTimestamp.Time, limit))
}

// resetSettles is the same after a reset has removed what said that the cluster had
// applied a Work.
func resetSettles(now time.Time, work *workv1alpha1.Work) time.Duration {
	reset := meta.FindStatusCondition(work.Status.Conditions, propagationv1alpha1.WorkConditionReset)
	if reset == nil || confirmedRevision(work) == "" && !awaitsProof(work) {
		return 0
	}
	return remaining(now, reset.LastTransitionTime.Time, sightTime)
}
