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
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// reportLimit is how long to wait for the report of a cluster that Karmada reaches. The
// report comes a moment after the attempt, and the attempt when Karmada gets to it.
const reportLimit = 5 * time.Minute

// attemptLimit is how long to wait for it before asking for another attempt. Karmada gives
// up an attempt after 32 s. If it is only busy, another one would keep it busier.
const attemptLimit = 2 * time.Minute

// NeedsReset reports whether the confirmation of a Work must be removed before a manifest
// with this generation is written to it.
//
// It need not be removed if the report of the cluster will be the proof: Karmada reports
// which generation of the resource the object on the cluster was made from, for kinds such
// as Deployment. If the cluster was never sent that generation before, then a report on it
// is about the new manifest, because generation and content change in one request. A True
// from before does not matter then, but a refusal from before would look like one of the
// new manifest.
func (w *Write) NeedsReset(generation int64) bool {
	return w.Reset && (!w.Update || !willBeReported(w.Live, generation))
}

// willBeReported reports whether the cluster of a Work reports another generation only for
// what is written next.
func willBeReported(work *workv1alpha1.Work, generation int64) bool {
	return reportsInTime(work) && generation > render.HighestGeneration(work)
}

// reportsInTime reports whether the cluster of a Work has applied, and reported, the
// generation that the controller has written to it.
func reportsInTime(work *workv1alpha1.Work) bool {
	applied, report := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied), reportOn(work)
	if applied == nil || applied.Status != metav1.ConditionTrue || applied.Reason == reasonRecreated || report == nil || render.IsEdited(work) {
		return false
	}
	reported, reports := render.ReportedGeneration(report)
	return reports && reported == render.TemplateGeneration(work)
}

// ReportProof is the note on a Work that is written at a time, without a reset of its live
// version.
func ReportProof(revision string, live *workv1alpha1.Work, now time.Time) string {
	return fmt.Sprintf("%s %d %s", revision, live.Generation+1, now.UTC().Format(time.RFC3339))
}

// reportProofOf reads that note; the zero value unless it is about what the Work holds and
// nothing was reset since.
func reportProofOf(work *workv1alpha1.Work) (written time.Time, valid bool) {
	words := strings.Fields(work.Annotations[propagationv1alpha1.ReportProofAnnotation])
	if len(words) != 3 || words[0] != render.Revision(work) {
		return time.Time{}, false
	}
	generation, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil || generation > work.Generation {
		// It is about an earlier Work.
		return time.Time{}, false
	}
	reset := meta.FindStatusCondition(work.Status.Conditions, propagationv1alpha1.WorkConditionReset)
	if reset != nil && reset.ObservedGeneration >= generation {
		return time.Time{}, false
	}
	written, _ = time.Parse(time.RFC3339, words[2])
	return written, true
}

// reportProves reports whether what a Work holds is proven by the report of its cluster,
// and by nothing else.
func reportProves(work *workv1alpha1.Work) bool {
	_, valid := reportProofOf(work)
	return valid
}

// reported is the evidence in such a Work whose condition Applied is True.
func reported(work *workv1alpha1.Work, applied *metav1.Condition) Evidence {
	if applied.Reason == reasonRecreated {
		return recreated
	}
	if report := reportOn(work); report != nil {
		if generation, reports := render.ReportedGeneration(report); reports && generation == render.TemplateGeneration(work) {
			return Confirmed
		}
	}
	return unreported
}

// reportIn reports whether a cluster has yet to report what a Work holds, and after how
// long to remove the confirmation and ask for a new attempt instead; 0 means now. Somebody
// may have configured Karmada to report something else, or it may lack the permission to
// watch the kind on the cluster.
func reportIn(observed *Observed, target render.Target, work *workv1alpha1.Work) (time.Duration, bool) {
	cluster := observed.Clusters[target.Cluster]
	if proof, _ := EvidenceOf(work); proof != unreported || target.Suspend || !cluster.Ready || isStillSuspended(work) {
		return 0, false
	}
	if report := reportOn(work); report != nil {
		if _, reports := render.ReportedGeneration(report); !reports {
			return 0, true
		}
	}
	return remaining(observed.Now, attemptableSince(observed.Now, cluster, work), reportLimit+observed.patience()), true
}

// reportCost is how long Karmada needs for one Work with its default limits: 40 requests a
// second, of which a change of a workload takes three to five.
const reportCost = 100 * time.Millisecond

// patience is how much longer than usual a report may take, because Karmada has many other
// Works to report on. To ask for more attempts would only add to that.
func (o *Observed) patience() time.Duration { return time.Duration(o.Unreported) * reportCost }

// isStillSuspended reports whether Karmada has not seen yet that dispatching was resumed.
func isStillSuspended(work *workv1alpha1.Work) bool {
	return meta.IsStatusConditionFalse(work.Status.Conditions, workv1alpha1.WorkDispatching)
}

// attemptableSince is the time since which such a Work could be reported: when it was
// written, when contact was regained, when dispatching was resumed, or when it was applied
// after it had been refused. A time of a clock that is ahead says nothing.
func attemptableSince(now time.Time, cluster Cluster, work *workv1alpha1.Work) time.Time {
	since, _ := reportProofOf(work)
	if regained, err := time.Parse(time.RFC3339, cluster.ReadySince); err == nil && regained.After(since) {
		since = regained
	}
	for _, kind := range []string{workv1alpha1.WorkDispatching, workv1alpha1.WorkApplied} {
		condition := meta.FindStatusCondition(work.Status.Conditions, kind)
		if condition != nil && condition.LastTransitionTime.After(since) && !condition.LastTransitionTime.After(now) {
			since = condition.LastTransitionTime.Time
		}
	}
	return since
}

// unansweredIn reports whether the attempt at such a Work may have had no answer, in which
// case Karmada makes no other, and after how long to ask for one; 0 means now.
func unansweredIn(observed *Observed, target render.Target, work *workv1alpha1.Work) (time.Duration, bool) {
	due, awaited := reportIn(observed, target, work)
	if !awaited {
		return 0, false
	}
	if isRequested(observed, work) {
		return 0, true
	}
	since := attemptableSince(observed.Now, observed.Clusters[target.Cluster], work)
	if !attemptsOf(work).at.Before(since.Add(attemptLimit)) {
		return 0, false // it has been asked for
	}
	return max(0, due-(reportLimit-attemptLimit)), true
}

func isReportOverdue(observed *Observed, target render.Target, work *workv1alpha1.Work) bool {
	due, awaited := reportIn(observed, target, work)
	return awaited && due == 0
}
