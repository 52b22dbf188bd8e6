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

package propagation

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

const (
	// settleTime bounds how long the deletion of a fresh Work waits until the
	// member's object is known to be visible to Karmada.
	settleTime = 10 * time.Second
	// releaseTime is how long Karmada gets to let go of a Work whose object is to
	// stay on the member, and once more after a nudge. It takes well under a
	// second, or forever.
	releaseTime = 3 * time.Second
	// homelessPoll is how often a cluster's execution namespace is looked for.
	homelessPoll = time.Second
	// restoreDelay is how long after somebody else has deleted a Work it is
	// restored. It exceeds the interval at which karmadactl unregister looks.
	restoreDelay = 3 * time.Second
	// requirementPoll is how often it is looked whether it is known by now what
	// follows every object.
	requirementPoll = 2 * time.Second
	// kindPoll is how often an unknown kind is looked for, beside the watch on
	// CustomResourceDefinitions, which does not see aggregated APIs.
	kindPoll = 15 * time.Second
	// watchPoll is how often a resource is read whose kind cannot be watched now.
	watchPoll = 10 * time.Second
	// renderPoll is how often a rendering that failed is tried again. It may have
	// asked a webhook of Karmada's resource interpreter, which no watch tells of.
	renderPoll = 30 * time.Second
)

// Plan is what has to be done.
type Plan struct {
	// AddFinalizer comes before all else.
	AddFinalizer bool
	// Writes are creations and changes of Works, one per cluster at most.
	Writes []Write
	// Removals are done once the Writes for the same cluster have been.
	Removals []Removal
	// HeldBack says, by cluster, what the API server has refused a moment ago and
	// is not tried again yet.
	HeldBack map[string]error
	// RemoveFinalizer lets the object go.
	RemoveFinalizer bool
	// Abandoned are the clusters left behind by letting it go.
	Abandoned []string
	// Wait is when to look again although nothing that is watched changes; 0
	// when there is no need.
	Wait time.Duration
}

// Write brings the Work of a cluster to what it should be.
type Write struct {
	Target render.Target
	// Live is the Work as it is, compact; nil when it has to be created.
	Live *workv1alpha1.Work
	// Reset takes the confirmation back first.
	Reset bool
	// Update writes metadata and spec.
	Update bool
	// Nudge makes the spec differ although its meaning does not, so that Karmada
	// attempts the Work afresh. It goes without Update.
	Nudge bool
	// Notes are annotations that the nudge leaves on the Work.
	Notes map[string]string
	// Superseded takes off the Work that the cluster may have the object of an earlier
	// life of the resource. It goes alone.
	Superseded bool
	// Confirmed is the revision that the cluster is known to run.
	Confirmed string
	// Rendering is what is written.
	Rendering Rendering
}

// Removal deletes a Work.
type Removal struct {
	Cluster string
	Work    *workv1alpha1.Work
	// Preserve, if set, is written to the Work first: what becomes of the
	// member's object is decided by the Work that is deleted.
	Preserve *bool
	// Nudge makes Karmada attempt the deletion afresh, and leaves Notes.
	Nudge bool
	Notes map[string]string
	// Release drops Karmada's finalizer from a Work that is being deleted,
	// because Karmada would not: only ever of a Work whose object is to stay.
	Release bool
}

// NeedsManifest tells whether carrying the plan out takes the resource itself
// rather than its revision.
func (p *Plan) NeedsManifest() bool {
	return slices.ContainsFunc(p.Writes, func(write Write) bool { return write.Update })
}

// group puts writes next to each other that write the same, so that it is
// rendered once.
func (p *Plan) group() {
	slices.SortStableFunc(p.Writes, func(a, b Write) int { return strings.Compare(a.Rendering.Variant, b.Rendering.Variant) })
}

func (p *Plan) wait(duration time.Duration) { p.Wait = sooner(p.Wait, duration) }

// sooner returns the shorter of two times to wait, of which 0 and less mean that
// there is no need to look again.
func sooner(one, other time.Duration) time.Duration {
	if other > 0 && (one == 0 || other < one) {
		return other
	}
	return one
}

// NewPlan decides what has to be done. It is pure: it reads nothing but its
// argument.
func NewPlan(observed *Observed) *Plan {
	plan := &Plan{}
	if observed.Deleting {
		planDeletion(observed, plan)
		return plan
	}
	if observed.Resource.Problem != nil {
		plan.wait(observed.Resource.Problem.Poll)
	} else {
		plan.wait(observed.Resource.Poll)
		plan.AddFinalizer = !observed.HasFinalizer
		for _, target := range observed.Targets {
			planTarget(observed, plan, target)
		}
	}
	for _, key := range observed.surplus() {
		if mayGo(observed, plan, key) {
			planRemoval(observed, plan, key)
		}
	}
	plan.group()
	return plan
}

// planTarget decides what the Work of one cluster needs.
func planTarget(observed *Observed, plan *Plan, target render.Target) {
	if _, held := observed.Holders[target.Cluster]; held {
		plan.wait(observed.ConflictPoll)
		return
	}
	cluster, rendering := observed.Clusters[target.Cluster], observed.Resource.on(target.Cluster)
	if !cluster.Exists || cluster.Terminating {
		// A terminating cluster's execution namespace may not get new Works, and
		// what is in it is on its way out.
		return
	}
	work := observed.work(target.Cluster)
	if denial, denied := observed.Denials[target.Cluster]; denied {
		plan.wait(denial.Wait)
		planDenied(observed, plan, target, work)
		return
	}
	if rendering.Reason != "" {
		// What the cluster has stays until this is mended.
		if !rendering.Retry.IsZero() {
			plan.wait(max(rendering.Retry.Sub(observed.Now), time.Millisecond))
		}
		return
	}
	target.Overrides = rendering.Overrides
	planWork(observed, plan, target, rendering, work)
}

// planWork decides what becomes of the Work of a cluster that gets a rendering.
func planWork(observed *Observed, plan *Plan, target render.Target, rendering Rendering, work *workv1alpha1.Work) {
	switch {
	case work == nil && restores(observed, target.Cluster) > 0:
		plan.wait(restores(observed, target.Cluster))
	case work == nil:
		if observed.Clusters[target.Cluster].API != clusterv1alpha1.APIDisabled {
			plan.write(observed, Write{Target: target, Rendering: rendering, Update: true})
		}
	case work.DeletionTimestamp != nil:
		// It is created anew when it is gone.
		planEnd(observed, plan, target.Cluster, work)
	case observed.holdsAnother(work), observed.Resource.ClaimedBy == namespaceSynchronization:
		planRemoval(observed, plan, observed.workKey(target.Cluster))
	case wantsReplacement(observed, target, work):
		plan.remove(observed, replacement(target.Cluster, work))
	default:
		if write, needed := planWrite(observed, target, rendering, work); needed {
			plan.write(observed, write)
		}
		plan.wait(refusalSettles(observed.Now, work))
		plan.wait(healthSettles(observed, work))
		if due, retried := retryIn(observed, target, work); retried {
			plan.wait(due)
		}
	}
}

// planDenied decides what the Work of a cluster needs to which nothing new may
// travel. What it has stays, and what takes no content is still done for it.
func planDenied(observed *Observed, plan *Plan, target render.Target, work *workv1alpha1.Work) {
	switch {
	case work == nil:
	case work.DeletionTimestamp != nil:
		planEnd(observed, plan, target.Cluster, work)
	case render.OwnerOf(work).UID == observed.Owner.UID:
		standing := Rendering{Revision: render.Revision(work)}
		target.Overrides = render.Overrides(work)
		if write, needed := planWrite(observed, target, standing, work); needed && !write.Update {
			plan.write(observed, write)
		}
	}
}

// write adds a write, unless the API server has refused the same a moment ago.
func (p *Plan) write(observed *Observed, write Write) {
	if !p.holdsBack(observed, write.Target.Cluster, write.slot(), write.what(observed)) {
		p.Writes = append(p.Writes, write)
	}
}

// remove adds a removal, unless the API server has refused one a moment ago.
func (p *Plan) remove(observed *Observed, removal Removal) {
	if !p.holdsBack(observed, removal.Cluster, removal.slot(), removal.what()) {
		p.Removals = append(p.Removals, removal)
	}
}

// slots are those of all that is to be written or removed.
func (p *Plan) slots() map[string]bool {
	slots := make(map[string]bool, len(p.Writes)+len(p.Removals))
	for i := range p.Writes {
		slots[p.Writes[i].slot()] = true
	}
	for i := range p.Removals {
		slots[p.Removals[i].slot()] = true
	}
	return slots
}

// holdsBack reports whether the API server has refused something a moment ago,
// and notes it.
func (p *Plan) holdsBack(observed *Observed, cluster, slot, what string) bool {
	setback, found := observed.Setbacks[slot]
	if !found || setback.What != what || !setback.Until.After(observed.Now) {
		return false
	}
	if p.HeldBack == nil {
		p.HeldBack = map[string]error{}
	}
	p.HeldBack[cluster] = setback.Err
	p.wait(setback.Until.Sub(observed.Now))
	return true
}

// holdsAnother reports whether the Work on a cluster holds another object than
// the one that the spec names: one with the same name in another API group, or
// one whose name differs in case only. A template that is served in two groups
// is one object, with one UID.
func (o *Observed) holdsAnother(work *workv1alpha1.Work) bool {
	held := render.IdentityOf(work)
	return held != "" && held != o.identity && (o.Resource.UID == "" || render.TemplateUID(work) != o.Resource.UID)
}

// wantsReplacement reports whether a cluster cannot make the object of a deleted
// resource into that of the one which was created under its name since, and the
// object may be deleted and created anew.
func wantsReplacement(observed *Observed, target render.Target, work *workv1alpha1.Work) bool {
	supersedes, replaceable := render.Supersedes(work)
	return supersedes && replaceable && !target.Suspend && observed.Clusters[target.Cluster].Ready &&
		render.Revision(work) == observed.Resource.on(target.Cluster).Revision && isRefusedAsInvalid(observed.Now, work)
}

// isRefusedAsInvalid reports whether a cluster has refused a Work because the
// object that it has cannot be changed like that. All that Kubernetes' validation
// refuses is worded like this, immutable fields among them.
func isRefusedAsInvalid(now time.Time, work *workv1alpha1.Work) bool {
	proof, applied := evidenceOf(work)
	return proof == refused && refusalSettles(now, work) == 0 && strings.Contains(applied.Message, " is invalid: ")
}

// replacement removes a Work so that the object goes, whatever the spec says of
// objects that are withdrawn: this one is not withdrawn.
func replacement(cluster string, work *workv1alpha1.Work) Removal {
	removal := Removal{Cluster: cluster, Work: work}
	if ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) {
		removal.Preserve = ptr.To(false)
	}
	return removal
}

// restores tells how long a Work that somebody else has deleted is not
// restored; 0 when there is none. karmadactl unregister deletes the Works of a
// pull cluster before it deletes the Cluster, and gives up unless it finds, in
// one of its looks a second apart, that none is left.
func restores(observed *Observed, cluster string) time.Duration {
	at, lost := observed.Lost[cluster]
	if !lost {
		return 0
	}
	return max(0, at.Add(restoreDelay).Sub(observed.Now))
}

// planWrite compares a live Work with what it should be.
func planWrite(observed *Observed, target render.Target, rendering Rendering, work *workv1alpha1.Work) (Write, bool) {
	write := Write{Target: target, Rendering: rendering, Live: work, Confirmed: confirmedRevision(work)}
	proof, _ := evidenceOf(work)
	suspended := ptr.Deref(work.Spec.SuspendDispatching, false)
	switch {
	case render.Revision(work) != rendering.Revision:
		write.Reset = wantsReset(work)
		write.Update = true
	case deviates(work, observed.Owner, target):
		write.Update = true
	case proof == premature:
		// The attempt at the present spec will come by itself and prove itself,
		// once the True that is not its own is out of the way.
		write.Reset = true
	case proof == ambiguous:
		write.Reset, write.Nudge = true, true
	case proof == confirmed && isSuperseding(work):
		// If it is refused some day, that has other causes.
		write.Superseded = true
	case suspended:
		// Nothing is attempted, whatever is written.
	default:
		write.Nudge, write.Notes = wantsNudge(observed, target, work, proof)
	}
	return write, write.Reset || write.Update || write.Nudge || write.Superseded
}

// wantsNudge reports whether Karmada is to attempt a Work afresh now, and what that
// leaves on it.
func wantsNudge(observed *Observed, target render.Target, work *workv1alpha1.Work, proof evidence) (bool, map[string]string) {
	if attemptMissing(work) || proof != confirmed && contactRegained(observed.Clusters[target.Cluster], work) {
		return true, nil
	}
	if due, retried := retryIn(observed, target, work); retried && due == 0 {
		return true, retryNotes(observed, work)
	}
	return false, nil
}

func isSuperseding(work *workv1alpha1.Work) bool {
	supersedes, _ := render.Supersedes(work)
	return supersedes
}

// deviates reports whether a Work differs, beside its manifest, from what its
// owner wants.
func deviates(work *workv1alpha1.Work, owner render.Owner, target render.Target) bool {
	return ptr.Deref(work.Spec.SuspendDispatching, false) != target.Suspend ||
		ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) != target.Preserve ||
		!render.IsClaimed(work, owner, target)
}

// contactRegained tells whether the cluster became Ready after the Work was
// written last. Karmada does not attempt such a Work by itself before its
// back-off of up to 1000 s has passed.
func contactRegained(cluster Cluster, work *workv1alpha1.Work) bool {
	return cluster.Ready && work.Annotations[propagationv1alpha1.ClusterReadySinceAnnotation] != cluster.ReadySince
}

// mayGo tells whether the time has come to remove a Work that is not wanted.
func mayGo(observed *Observed, plan *Plan, key types.NamespacedName) bool {
	cluster := clusterOf(key.Namespace)
	if !observed.targeted(cluster) {
		return true
	}
	wanted := observed.workKey(cluster)
	// The cluster now gets another resource. The old one stays until the Work
	// of the new one is there, or is about to be written.
	return observed.Works[wanted] != nil ||
		slices.ContainsFunc(plan.Writes, func(write Write) bool { return write.Target.Cluster == cluster })
}

func planDeletion(observed *Observed, plan *Plan) {
	left := []string{}
	for _, key := range observed.surplus() {
		planRemoval(observed, plan, key)
		cluster := clusterOf(key.Namespace)
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
	cluster := clusterOf(key.Namespace)
	if work.DeletionTimestamp != nil {
		planEnd(observed, plan, cluster, work)
		return
	}
	preserve := observed.keeps(work)
	if wait := settles(observed, cluster, work); wait > 0 && !preserve {
		plan.wait(wait)
		return
	}
	removal := Removal{Cluster: cluster, Work: work}
	if preserve != ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) {
		removal.Preserve = &preserve
	}
	plan.remove(observed, removal)
}

// keeps reports whether the member's object stays when a Work is deleted. For a
// dependency, the Work itself records what its requirers asked for.
func (o *Observed) keeps(work *workv1alpha1.Work) bool {
	if !o.Vanished && !o.Owner.Follows() {
		return ptr.Deref(o.Spec.PreserveResourcesOnDeletion, false)
	}
	_, kept := o.Kept[clusterOf(work.Namespace)]
	return kept || ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false)
}

// planEnd sees a deletion of a Work to its end.
//
// Karmada backs off, up to 1000 s, from a deletion that the cluster was not
// Ready for: it is nudged when the cluster is Ready again.
//
// A Work whose object is to stay is released when Karmada does not release it: it
// waits for ever for an object that is missing on the member or that it does not
// manage (karmada#7463). The second is no rare case: Karmada takes its marks off
// the object before it takes its finalizer off the Work, and when that second
// write meets a conflict, it starts over and finds an object without marks. While
// the cluster is out of reach, nothing is released: the marks would stay on the
// object, and with them anybody could take it over.
func planEnd(observed *Observed, plan *Plan, cluster string, work *workv1alpha1.Work) {
	state, nudged := observed.Clusters[cluster], attemptsOf(work)
	nudge := Removal{Cluster: cluster, Work: work, Nudge: true, Notes: map[string]string{
		propagationv1alpha1.ClusterReadySinceAnnotation: state.ReadySince,
		propagationv1alpha1.AttemptsAnnotation:          nudged.next(observed.Now) + endingMark,
	}}
	if contactRegained(state, work) {
		// The clocks of a pull cluster and of the API server may differ, so that
		// nothing but time shows that the deletion hangs.
		left := remaining(observed.Now, work.DeletionTimestamp.Time, settleTime)
		if left == 0 || state.ReadySince > work.DeletionTimestamp.UTC().Format(time.RFC3339) {
			plan.remove(observed, nudge)
			return
		}
		plan.wait(left)
	}
	if !ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) || !slices.Contains(work.Finalizers, util.ExecutionControllerFinalizer) ||
		!state.Exists || !state.Ready {
		return
	}
	if !nudged.ending {
		// Only our own clock tells how long Karmada has had: it runs from this nudge.
		if left := remaining(observed.Now, work.DeletionTimestamp.Time, releaseTime); left > 0 {
			plan.wait(left)
			return
		}
		plan.remove(observed, nudge)
		return
	}
	if left := remaining(observed.Now, nudged.at, releaseTime); left > 0 {
		plan.wait(left)
		return
	}
	plan.remove(observed, Removal{Cluster: cluster, Work: work, Release: true})
}

// settles tells how long the deletion of a Work has to wait; 0 when it need
// not. Karmada looks the object up in its cache of the member, and drops the
// Work when it finds nothing: deleted too soon after the object was created,
// the object would stay for ever. A collected status proves that the cache
// has seen the object.
func settles(observed *Observed, cluster string, work *workv1alpha1.Work) time.Duration {
	state := observed.Clusters[cluster]
	proof, applied := evidenceOf(work)
	switch {
	case !state.Exists, state.Terminating, !state.Ready,
		len(work.Status.ManifestStatuses) > 0,
		ptr.Deref(work.Spec.SuspendDispatching, false) && proof == pending:
		return 0
	}
	since := work.CreationTimestamp.Time
	if applied != nil && applied.LastTransitionTime.After(since) && !applied.LastTransitionTime.After(observed.Now) {
		since = applied.LastTransitionTime.Time
	}
	return remaining(observed.Now, since, settleTime)
}

// refusalGrace is how long a refusal is taken for a flap.
const refusalGrace = 2 * time.Second

// refusalSettles tells how long a refusal is still taken for a flap; 0 when
// there is none or it counts. Karmada may try to create what a stale cache
// has not shown it, and mends that at once.
func refusalSettles(now time.Time, work *workv1alpha1.Work) time.Duration {
	proof, applied := evidenceOf(work)
	if proof != refused {
		return 0
	}
	return remaining(now, applied.LastTransitionTime.Time, refusalGrace)
}
