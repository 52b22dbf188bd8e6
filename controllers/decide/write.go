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
	"maps"
	"slices"
	"strings"
	"time"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Write brings the Work of a cluster to what it should be.
type Write struct {
	Target render.Target
	// Live is the existing Work, compact; nil if it has to be created.
	Live *workv1alpha1.Work
	// Reset resets the confirmation first, unless NeedsReset says that the manifest needs
	// none.
	Reset bool
	// Update writes metadata and spec.
	Update bool
	// Terms writes what the owner specifies, except the manifest, which stays as it is. It
	// excludes Update and Nudge.
	Terms bool
	// Nudge changes the spec without changing its meaning, so that Karmada attempts
	// the Work again. It excludes Update.
	Nudge bool
	// Notes are annotations that the nudge leaves on the Work.
	Notes map[string]string
	// Superseded removes from the Work the note that the cluster may have the object
	// of a deleted resource. It excludes all others.
	Superseded bool
	// Confirmed is the revision that the cluster is known to run.
	Confirmed string
	// Rendering is what is written.
	Rendering Rendering
	// Why is the reason of the write, for the log.
	Why Why
}

// NeedsManifest reports whether carrying out the plan needs the resource itself
// rather than its revision.
func (p *Plan) NeedsManifest() bool {
	return slices.ContainsFunc(p.Writes, func(write Write) bool { return write.Update })
}

// planWork decides what to do with the Work of a cluster that gets a rendering.
func planWork(observed *Observed, plan *Plan, target render.Target, rendering Rendering, work *workv1alpha1.Work) {
	switch {
	case work == nil && restores(observed, target.Cluster) > 0:
		plan.wait(restores(observed, target.Cluster))
	case work == nil:
		if observed.Clusters[target.Cluster].API != clusterv1alpha1.APIDisabled {
			plan.write(observed, Write{Target: target, Rendering: rendering, Update: true, Why: WorkMissing})
		}
	case work.DeletionTimestamp != nil:
		// It is created again when it is gone.
		planEnd(observed, plan, target.Cluster, work)
	case observed.holdsAnother(work), observed.Resource.ClaimedBy == namespaceSynchronization:
		planRemoval(observed, plan, observed.WorkKey(target.Cluster))
	case wantsReplacement(observed, target, work):
		plan.remove(observed, replacement(target.Cluster, work))
	default:
		if write, needed := planWrite(observed, target, rendering, work); needed {
			plan.write(observed, write)
		}
		planWaits(observed, plan, target, work)
	}
}

// planWaits plans when to look again at a Work even if nothing that is watched changes.
func planWaits(observed *Observed, plan *Plan, target render.Target, work *workv1alpha1.Work) {
	plan.wait(refusalSettles(observed.Now, work))
	plan.wait(healthSettles(observed, work))
	if due, retried := retryIn(observed, target, work); retried {
		plan.wait(due)
	}
	if due, ignored := ignoredIn(observed, target, work); ignored {
		plan.wait(due)
	}
	if due, awaited := reportIn(observed, target, work); awaited {
		plan.wait(due)
		plan.Unreported++
	}
	if due, awaited := unansweredIn(observed, target, work); awaited {
		plan.wait(due)
	}
	plan.wait(answerIn(observed, target, work))
}

// planWrite compares a live Work with what it should be.
func planWrite(observed *Observed, target render.Target, rendering Rendering, work *workv1alpha1.Work) (Write, bool) {
	noteAttempt(observed, &target, work)
	write := Write{Target: target, Rendering: rendering, Live: work, Confirmed: observed.confirmedOn(target.Cluster, work)}
	proof, _ := EvidenceOf(work)
	switch {
	case render.Revision(work) != rendering.Revision, render.IsEdited(work):
		// What somebody else has written is not what the conditions are about, even if it
		// is right.
		write.Reset = WantsReset(work)
		write.Update, write.Why = true, RevisionDiffers
	case deviates(work, observed.Owner, target):
		// The conditions of the attempt that follows would make an unproven True look like
		// a proven one.
		write.Reset = isUnproven(proof) || proof == recreated
		write.Update, write.Why = true, TermsDiffer
	default:
		prove(observed, &write, proof)
	}
	write.startAfresh(observed)
	return write, write.isNeeded()
}

// planStanding decides what the Work of a cluster needs that gets no new content for now.
// What it has stays, and what needs no content is still done.
func planStanding(observed *Observed, plan *Plan, target render.Target, work *workv1alpha1.Work) {
	planKept(observed, plan, target, work, true)
}

// planKept does the same. If nothing is to be asked for the Work, Karmada is not asked to
// attempt it again.
func planKept(observed *Observed, plan *Plan, target render.Target, work *workv1alpha1.Work, asks bool) {
	switch {
	case work == nil:
		return
	case work.DeletionTimestamp != nil:
		planEnd(observed, plan, target.Cluster, work)
		return
	case render.OwnerOf(work).UID != observed.Owner.UID:
		return
	}
	another := observed.holdsAnother(work)
	target.Suspend = target.Suspend || observed.staysSuspended(work, target)
	noteAttempt(observed, &target, work)
	write := Write{Target: target, Rendering: Rendering{Revision: render.Revision(work)}, Live: work, Confirmed: observed.confirmedOn(target.Cluster, work)}
	proof, applied := EvidenceOf(work)
	// A True is about what somebody else has written, or will be when that is undone.
	misleading := render.IsEdited(work) && applied != nil && applied.Status == metav1.ConditionTrue
	switch {
	case deviatesInTerms(work, observed.Owner, target):
		write.Reset = isUnproven(proof) || proof == recreated || misleading
		write.Terms, write.Why = true, TermsDiffer
	case another || !asks:
		// Nothing is asked for it.
	case render.IsEdited(work):
		// Only the content corrects it.
		write.Reset, write.Why = misleading, StaleConfirmation
	default:
		prove(observed, &write, proof)
	}
	write.startAfresh(observed)
	if write.isNeeded() {
		plan.write(observed, write)
	}
	planWaits(observed, plan, target, work)
}

// staysSuspended reports whether a suspended Work must not be resumed, because nobody names or
// assigns what it holds anymore.
func (o *Observed) staysSuspended(work *workv1alpha1.Work, target render.Target) bool {
	return ptr.Deref(work.Spec.SuspendDispatching, false) && (o.holdsAnother(work) || o.mayBeAbandoned(work, target))
}

// abandons reports whether a write replaces what its cluster has not confirmed.
func (w *Write) abandons() bool {
	return w.Live != nil && w.Rendering.Revision != render.Revision(w.Live) && w.Confirmed != render.Revision(w.Live)
}

// startAfresh takes back the conditions of a Work that is written anyway if an attempt from
// before a loss of contact may still add to them.
func (w *Write) startAfresh(observed *Observed) {
	if w.isNeeded() && mayRunOn(observed, w.Target, w.Live) {
		w.Reset = true
	}
}

func (w *Write) isNeeded() bool { return w.Reset || w.Update || w.Terms || w.Nudge || w.Superseded }

// prove decides what makes a Work that is right, and now proves this, prove what its cluster
// runs.
func prove(observed *Observed, write *Write, proof Evidence) {
	work := write.Live
	switch {
	case proof == premature:
		// The attempt at the current spec will come by itself, and proves itself
		// once the True of another attempt is removed.
		write.Reset, write.Why = true, StaleConfirmation
	case isUnproven(proof):
		wantProof(observed, write, proof)
	case proof == Confirmed && isSuperseding(work):
		// If it is refused later, that has other causes.
		write.Superseded, write.Why = true, NewLifeConfirmed
	case ptr.Deref(work.Spec.SuspendDispatching, false):
		// Nothing is attempted, whatever is written.
	case isReportOverdue(observed, write.Target, work):
		write.Reset, write.Nudge, write.Why = true, true, UnprovenConfirmation
	default:
		write.Why, write.Notes = wantsNudge(observed, write.Target, work, proof)
		write.Nudge = write.Why != ""
		// Another True over this one would keep its time, and not show how long it took.
		write.Reset = write.Nudge && proof == recreated
	}
}

// isUnproven reports whether Applied is True from an attempt that proves nothing.
func isUnproven(proof Evidence) bool { return proof == ambiguous || proof == unanswered }

// wantProof takes back what is not proven and causes another attempt. While dispatching is
// suspended, it does not: a nudge would resume it.
func wantProof(observed *Observed, write *Write, proof Evidence) {
	work := write.Live
	if answerIn(observed, write.Target, work) > 0 {
		return
	}
	write.Reset, write.Why = true, UnprovenConfirmation
	write.Nudge = !ptr.Deref(work.Spec.SuspendDispatching, false)
	if proof == unanswered {
		write.Notes = retryNotes(observed, work)
	}
}

// wantsNudge says why Karmada is to attempt a Work again now, and what that leaves
// on it; empty when it is not to.
func wantsNudge(observed *Observed, target render.Target, work *workv1alpha1.Work, proof Evidence) (Why, map[string]string) {
	switch {
	case proof != Confirmed && contactRegained(observed.Clusters[target.Cluster], work):
		return ContactRegained, map[string]string{propagationv1alpha1.AttemptsAnnotation: attempts{}.next(observed.Now)}
	case attemptMissing(work):
		return AttemptMissing, nil
	}
	if due, ignored := ignoredIn(observed, target, work); ignored {
		if due > 0 {
			return "", nil
		}
		return ContactRegained, map[string]string{propagationv1alpha1.AttemptsAnnotation: attemptsOf(work).next(observed.Now)}
	}
	if due, awaited := unansweredIn(observed, target, work); awaited && due == 0 {
		return UnprovenConfirmation, retryNotes(observed, work)
	}
	due, retried := retryIn(observed, target, work)
	switch {
	case !retried || due > 0:
		return "", nil
	case isRequested(observed, work):
		return RetryRequested, retryNotes(observed, work)
	}
	return RetryDue, retryNotes(observed, work)
}

func isSuperseding(work *workv1alpha1.Work) bool {
	supersedes, _ := render.Supersedes(work)
	return supersedes
}

// deviates reports whether anything but the manifest of a Work differs from what its
// owner specifies.
func deviates(work *workv1alpha1.Work, owner render.Owner, target render.Target) bool {
	return deviatesInTerms(work, owner, target) || !render.IsClaimed(work, owner, target)
}

// deviatesInTerms reports the same of what does not depend on the manifest.
func deviatesInTerms(work *workv1alpha1.Work, owner render.Owner, target render.Target) bool {
	return ptr.Deref(work.Spec.SuspendDispatching, false) != target.Suspend ||
		ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) != target.Preserve ||
		!render.IsOwned(work, owner)
}

// DiffersFrom reports whether a Work, as the API server returned it, is not what was to be
// written.
func (w *Write) DiffersFrom(work *workv1alpha1.Work, owner render.Owner) bool {
	if w.Terms {
		return deviatesInTerms(work, owner, w.Target)
	}
	return render.Revision(work) != w.Rendering.Revision || render.IsEdited(work) || deviates(work, owner, w.Target)
}

// contactRegained reports whether the cluster became Ready after the Work was last
// written. Karmada does not attempt such a Work by itself before its back-off of up
// to 1000 s has passed.
func contactRegained(cluster Cluster, work *workv1alpha1.Work) bool {
	return cluster.Ready && work.Annotations[propagationv1alpha1.ClusterReadySinceAnnotation] != cluster.ReadySince
}

// AllNotes are the annotations that a nudge leaves on a Work.
func (w *Write) AllNotes() map[string]string {
	notes := map[string]string{}
	maps.Copy(notes, w.Notes)
	if w.Target.ReadySince != "" {
		notes[propagationv1alpha1.ClusterReadySinceAnnotation] = w.Target.ReadySince
	}
	if w.Confirmed != "" {
		notes[propagationv1alpha1.ConfirmedRevisionAnnotation] = w.Confirmed
	}
	return notes
}

// wantsReplacement reports whether a cluster cannot change the object of a deleted
// resource into that of its successor, and the object may be deleted and re-created.
func wantsReplacement(observed *Observed, target render.Target, work *workv1alpha1.Work) bool {
	supersedes, replaceable := render.Supersedes(work)
	return supersedes && replaceable && !target.Suspend && observed.Clusters[target.Cluster].Ready &&
		render.Revision(work) == observed.Resource.On(target.Cluster).Revision && isRefusedAsInvalid(observed.Now, work)
}

// isRefusedAsInvalid reports whether a cluster has refused a Work because its object
// cannot be changed that way. Kubernetes words all refusals of its validation like
// this, including those of immutable fields.
func isRefusedAsInvalid(now time.Time, work *workv1alpha1.Work) bool {
	proof, applied := EvidenceOf(work)
	return proof == Refused && refusalSettles(now, work) == 0 && strings.Contains(applied.Message, " is invalid: ")
}

// replacement removes a Work so that the object is deleted, whatever the spec says
// about withdrawn objects: this one is not withdrawn.
func replacement(cluster string, work *workv1alpha1.Work) Removal {
	removal := Removal{Cluster: cluster, Work: work, Why: Replaced}
	if ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) {
		removal.Preserve = ptr.To(false)
	}
	return removal
}

// holdsAnother reports whether the Work on a cluster holds a different object from
// the one that the spec names: one with the same name in another API group, or one
// whose name differs only in case. A template that is served in two groups is one
// object, with one UID.
func (o *Observed) holdsAnother(work *workv1alpha1.Work) bool {
	held := render.IdentityOf(work)
	return held != "" && held != o.identity && (o.Resource.UID == "" || render.TemplateUID(work) != o.Resource.UID)
}

// refusalGrace is how long a refusal counts as temporary.
const refusalGrace = 2 * time.Second

// refusalSettles returns how long a refusal still counts as temporary; 0 if there is
// none or it is final. Karmada may try to create what its stale cache does not show
// yet, and corrects that immediately.
func refusalSettles(now time.Time, work *workv1alpha1.Work) time.Duration {
	proof, applied := EvidenceOf(work)
	if proof != Refused {
		return 0
	}
	return remaining(now, applied.LastTransitionTime.Time, refusalGrace)
}

// refuses reports whether a cluster refuses a Work, and not just for a moment. What its row has
// said of this content already stays: if the clock of the cluster is ahead, the moment is yet to
// come.
func (o *Observed) refuses(cluster string, work *workv1alpha1.Work) bool {
	proof, _ := EvidenceOf(work)
	if proof != Refused || refusalSettles(o.Now, work) == 0 {
		return proof == Refused
	}
	before, written := o.rowBefore(cluster), work.CreationTimestamp.Time
	if reset := meta.FindStatusCondition(work.Status.Conditions, propagationv1alpha1.WorkConditionReset); reset != nil && reset.LastTransitionTime.After(written) {
		written = reset.LastTransitionTime.Time
	}
	return before != nil && before.Reason == propagationv1alpha1.ReasonApplyFailed && before.LastTransitionTime.After(written)
}
