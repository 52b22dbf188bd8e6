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
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Evidence is what the status of a Work proves about its current spec.
type Evidence string

const (
	// pending: the cluster has not answered.
	pending Evidence = "Pending"
	// Confirmed means that the cluster has applied the current spec.
	Confirmed Evidence = "Confirmed"
	// Refused means that the cluster could not apply it.
	Refused Evidence = "Refused"
	// premature: Applied is True from an attempt that began before the current spec
	// was written. The attempt at the current spec is still to come.
	premature Evidence = "Premature"
	// ambiguous: Applied is True and the attempt at the current spec has begun, but
	// it is no longer possible to tell which attempt set True.
	ambiguous Evidence = "Ambiguous"
	// unanswered: Applied is True, but the attempt took so long that the member may not
	// have answered.
	unanswered Evidence = "Unanswered"
	// unreported: Applied is True, perhaps for an earlier spec, and the cluster has not
	// reported the current one.
	unreported Evidence = "Unreported"
	// recreated: Applied is True because Karmada has re-created an object that was
	// deleted on the cluster. It did so from its cache of the Work, which may have
	// been older than the current spec.
	recreated Evidence = "Recreated"
)

// reasonRecreated is the reason of Applied that Karmada's work status controller
// sets, the second writer of the condition. The execution controller sets another
// reason, even if the condition is already True.
const reasonRecreated = "ReCreateSuccessful"

// EvidenceOf reads the status of a Work.
//
// Applied alone proves nothing: it has no observedGeneration, and an attempt at an
// older spec that is in progress when the spec changes still sets it to True. The
// Dispatching condition distinguishes attempts: at the beginning of an attempt,
// Karmada's execution controller adds it if its cache shows that it is missing.
// Before the spec changes, the controller therefore removes both conditions, and
// writes the spec with the resourceVersion that this write returned:
//
//   - Dispatching there again means that Karmada has seen the new spec, because
//     it could only add the condition to an object as new as that;
//   - conditions are appended, so Applied behind Dispatching was added by an
//     attempt that began after it;
//   - Applied in front of Dispatching, or without it, was added by an attempt
//     that had begun before.
//
// Karmada makes one attempt at a Work at a time, which completes the proof for the
// execution controller. The work status controller also sets Applied when it
// re-creates an object, but with a different reason, which proves nothing. Nor does a
// True that came after so long that the member may not have answered.
//
// For a Work that was written without removing the conditions, the report of the cluster
// is the proof; see NeedsReset.
func EvidenceOf(work *workv1alpha1.Work) (Evidence, *metav1.Condition) {
	applied, dispatched := -1, -1
	for i := range work.Status.Conditions {
		switch work.Status.Conditions[i].Type {
		case workv1alpha1.WorkApplied:
			applied = i
		case workv1alpha1.WorkDispatching:
			dispatched = i
		}
	}
	if applied < 0 {
		return pending, nil
	}
	condition := &work.Status.Conditions[applied]
	switch {
	case condition.Status == metav1.ConditionFalse:
		return Refused, condition
	case condition.Status != metav1.ConditionTrue:
		return pending, condition
	case reportProves(work):
		return reported(work, condition), condition
	case dispatched < 0:
		return premature, condition
	case dispatched > applied:
		return ambiguous, condition
	case condition.Reason == reasonRecreated:
		return recreated, condition
	case tookTooLong(work, &work.Status.Conditions[dispatched], condition):
		return unanswered, condition
	default:
		return Confirmed, condition
	}
}

// answerTime is from when on the success of an attempt may be none. Karmada gives up
// a request to a member after 32 s, and takes that for a success: its retries end without
// an error if the error of an attempt is that of an exceeded deadline (client-go's
// retry.OnError). Its clock may be adjusted meanwhile. A member whose admission webhook does
// not answer, and may be ignored, accepts a request after 30 s.
const answerTime = 31 * time.Second

// tookTooLong reports whether True may mean that the member has not answered. Dispatching
// is as old as the first attempt, which may have been made without contact. A write after
// contact was regained has noted when that was. If attempts were refused in the meantime,
// True is as late for that reason, and is proven by another attempt, too.
func tookTooLong(work *workv1alpha1.Work, dispatching, applied *metav1.Condition) bool {
	began := beganAt(work, dispatching)
	return !began.IsZero() && applied.LastTransitionTime.Sub(began) >= answerTime
}

// beganAt is since when the attempts at a Work could be answered; the zero time if that is
// not known. That of a suspended Work is noted, unless it had a result when it was
// suspended.
func beganAt(work *workv1alpha1.Work, dispatching *metav1.Condition) time.Time {
	if dispatching.Status != metav1.ConditionTrue {
		noted, _ := time.Parse(time.RFC3339, work.Annotations[propagationv1alpha1.AttemptingSinceAnnotation])
		return noted
	}
	began := dispatching.LastTransitionTime.Time
	regained, err := time.Parse(time.RFC3339, work.Annotations[propagationv1alpha1.ClusterReadySinceAnnotation])
	if err == nil && !began.IsZero() && regained.After(began) {
		return regained
	}
	return began
}

// mayRunOn reports whether the result of an attempt that began before contact was lost may
// come after contact was regained, when it looks like that of an attempt since. A Work that was
// written without contact has no such attempt, and a report of the cluster on the current
// generation is none of an earlier attempt.
func mayRunOn(observed *Observed, target render.Target, work *workv1alpha1.Work) bool {
	cluster := observed.Clusters[target.Cluster]
	proof, _ := EvidenceOf(work)
	if target.Suspend || proof == Confirmed || reportProves(work) || !contactRegained(cluster, work) || !meta.IsStatusConditionTrue(work.Status.Conditions, workv1alpha1.WorkDispatching) {
		return false
	}
	written := work.CreationTimestamp.Time
	if reset := meta.FindStatusCondition(work.Status.Conditions, propagationv1alpha1.WorkConditionReset); reset != nil {
		written = reset.LastTransitionTime.Time
	}
	return cluster.LostAt.IsZero() || !written.After(cluster.LostAt)
}

// noteAttempt sets what a write of a Work notes about attempts. One that suspends the Work does
// not note contact: what an attempt from before a loss of contact still reports would count.
func noteAttempt(observed *Observed, target *render.Target, work *workv1alpha1.Work) {
	target.Attempting = attemptingSince(observed, *target, work)
	if target.Suspend && !ptr.Deref(work.Spec.SuspendDispatching, false) {
		target.ReadySince = ""
	}
}

// attemptingSince is what to note on a Work that has a target about an attempt that may be
// in progress: an attempt that has begun goes on when the Work is suspended, and its result
// comes before Dispatching is False.
func attemptingSince(observed *Observed, target render.Target, work *workv1alpha1.Work) string {
	if !target.Suspend {
		return ""
	}
	if ptr.Deref(work.Spec.SuspendDispatching, false) {
		return work.Annotations[propagationv1alpha1.AttemptingSinceAnnotation]
	}
	if proof, _ := EvidenceOf(work); proof == Confirmed {
		return ""
	}
	began := observed.Now
	dispatching := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkDispatching)
	if dispatching != nil && dispatching.Status == metav1.ConditionTrue && !dispatching.LastTransitionTime.IsZero() {
		began = beganAt(work, dispatching)
	}
	return began.UTC().Format(time.RFC3339)
}

// WantsReset reports whether a Work has conditions that must be removed before its
// content changes.
func WantsReset(work *workv1alpha1.Work) bool {
	return meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied) != nil ||
		meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkDispatching) != nil
}

// resetPrefix begins the message of the Reset condition of a Work that had
// confirmed a revision, which follows.
const resetPrefix = "Last confirmed revision: "

// The reasons of the Reset condition.
const (
	reasonRevisionPending = "RevisionPending"
	// reasonProofPending: the cluster had confirmed nothing, and may have the object
	// nevertheless.
	reasonProofPending = "ProofPending"
)

// ResetConditions returns the conditions of a Work without those about an attempt and
// an earlier reset, and with one that records the time and the generation at which they
// were removed, and the revision that the cluster had confirmed; empty for none. The next write contains
// the revision too, but may be refused.
func ResetConditions(work *workv1alpha1.Work, confirmed string, now time.Time) []metav1.Condition {
	kept := []metav1.Condition{}
	for _, condition := range work.Status.Conditions {
		switch condition.Type {
		case workv1alpha1.WorkApplied, workv1alpha1.WorkDispatching, propagationv1alpha1.WorkConditionReset:
		default:
			kept = append(kept, condition)
		}
	}
	message, reason := "Karmada Direct is waiting for the cluster to confirm the next write.", reasonRevisionPending
	if confirmed != "" {
		message = resetPrefix + confirmed
	} else if meta.IsStatusConditionTrue(work.Status.Conditions, workv1alpha1.WorkApplied) || awaitsProof(work) {
		reason = reasonProofPending
	}
	return append(kept, metav1.Condition{
		Type: propagationv1alpha1.WorkConditionReset, Status: metav1.ConditionTrue, Reason: reason,
		Message:            message,
		ObservedGeneration: work.Generation, LastTransitionTime: metav1.NewTime(now),
	})
}

// awaitsProof reports whether a reset has removed a True that proved nothing.
func awaitsProof(work *workv1alpha1.Work) bool {
	reset := meta.FindStatusCondition(work.Status.Conditions, propagationv1alpha1.WorkConditionReset)
	return reset != nil && reset.Reason == reasonProofPending
}

// attemptMissing reports whether a confirmation was reset and no spec was written
// after it, so that Karmada has no reason to attempt anything: the controller exited
// in between, and what it was going to write is no longer needed.
func attemptMissing(work *workv1alpha1.Work) bool {
	reset := meta.FindStatusCondition(work.Status.Conditions, propagationv1alpha1.WorkConditionReset)
	return reset != nil && reset.ObservedGeneration == work.Generation && !WantsReset(work)
}

// confirmedRevision is the last revision that the cluster is known to have applied;
// empty if none is known.
func confirmedRevision(work *workv1alpha1.Work) string {
	if proof, _ := EvidenceOf(work); proof == Confirmed && !render.IsEdited(work) {
		return render.Revision(work)
	}
	if noted := notedRevision(work); render.IsRevision(noted) {
		return noted
	}
	// Somebody has edited the note. The API server would refuse a status with it.
	return ""
}

// confirmedOn is the last revision that a cluster is known to have applied. The status knows
// more than the Work if Karmada has attempted the Work once more since the cluster confirmed
// it, for example because somebody deleted the object there.
func (o *Observed) confirmedOn(cluster string, work *workv1alpha1.Work) string {
	row := o.rowBefore(cluster)
	if row != nil && row.Revision == render.Revision(work) && !render.IsEdited(work) && row.LastTransitionTime.After(work.CreationTimestamp.Time) {
		return row.Revision
	}
	return confirmedRevision(work)
}

// notedRevision is what an earlier write has noted on a Work as the last confirmed
// revision.
func notedRevision(work *workv1alpha1.Work) string {
	reset := meta.FindStatusCondition(work.Status.Conditions, propagationv1alpha1.WorkConditionReset)
	if reset != nil && reset.ObservedGeneration == work.Generation {
		// The write after the reset was refused, or is still to come.
		if revision, found := strings.CutPrefix(reset.Message, resetPrefix); found {
			return revision
		}
	}
	return work.Annotations[propagationv1alpha1.ConfirmedRevisionAnnotation]
}

// healthOf is what the cluster reports about the health of the current spec of a
// confirmed Work.
func healthOf(observed *Observed, work *workv1alpha1.Work) propagationv1alpha1.Health {
	if len(work.Status.ManifestStatuses) == 0 {
		return propagationv1alpha1.HealthUnknown
	}
	status := &work.Status.ManifestStatuses[0]
	if generation, reported := render.ReportedGeneration(status); reported && generation != render.TemplateGeneration(work) {
		// The report is older than the current spec.
		return propagationv1alpha1.HealthUnknown
	}
	if healthSettles(observed, work) > 0 {
		return propagationv1alpha1.HealthUnknown
	}
	switch status.Health {
	case workv1alpha1.ResourceHealthy:
		// Karmada calls a Deployment healthy if it has as many updated replicas as it
		// wants, and as many available ones. With one replica, the only available one may
		// be an old one that waits for a new one which never becomes available.
		if render.UnavailableReplicas(status) > 0 {
			return propagationv1alpha1.HealthUnhealthy
		}
		return propagationv1alpha1.HealthHealthy
	case workv1alpha1.ResourceUnhealthy:
		return propagationv1alpha1.HealthUnhealthy
	default:
		return propagationv1alpha1.HealthUnknown
	}
}
