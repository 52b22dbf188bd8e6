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
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// retryDelays are the times between attempts at a Work that a cluster refuses. The
// last one is used from then on. Karmada itself backs off for up to 1000 s, and may
// keep reporting a refusal although one of its retries has succeeded (karmada#6858).
var retryDelays = []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second, 135 * time.Second, 5 * time.Minute}

// attempts are the new attempts at a Work that the controller has requested.
type attempts struct {
	count int
	at    time.Time
	// ending: the last one was an attempt to delete the Work.
	ending bool
}

// endingMark ends the note of an attempt to delete a Work.
const endingMark = " deleting"

// attemptsOf reads what a nudge has noted on a Work; the zero value if there is no
// readable note.
func attemptsOf(work *workv1alpha1.Work) attempts {
	note, ending := strings.CutSuffix(work.Annotations[propagationv1alpha1.AttemptsAnnotation], endingMark)
	count, at, found := strings.Cut(note, " ")
	if !found {
		return attempts{}
	}
	noted, err := strconv.Atoi(count)
	since, malformed := time.Parse(time.RFC3339, at)
	if err != nil || malformed != nil || noted < 1 {
		return attempts{}
	}
	return attempts{count: noted, at: since, ending: ending}
}

// next is the note that one more attempt leaves.
func (a attempts) next(now time.Time) string {
	// The note that was read may have been edited.
	return fmt.Sprintf("%d %s", min(a.count, math.MaxInt-1)+1, now.UTC().Format(time.RFC3339))
}

// retryIn reports whether to ask Karmada for a new attempt at a Work, and after how
// long; 0 means now. This applies if a cluster refuses the Work, and if Karmada has
// re-created the object, possibly from an older spec.
func retryIn(observed *Observed, target render.Target, work *workv1alpha1.Work) (time.Duration, bool) {
	proof, applied := EvidenceOf(work)
	if target.Suspend || !observed.Clusters[target.Cluster].Ready || proof != Refused && proof != recreated {
		return 0, false
	}
	if isRequested(observed, work) {
		return 0, true
	}
	last, since := attemptsOf(work), applied.LastTransitionTime.Time
	if since.After(observed.Now) {
		// The clock of the cluster is ahead, so this time is meaningless.
		since = time.Time{}
	}
	switch {
	case since.After(last.at) && proof == Refused:
		// The last requested attempt has succeeded; this is a new refusal.
		return remaining(observed.Now, since, retryDelays[0]), true
	case last.count == 0:
		return 0, true
	}
	return remaining(observed.Now, last.at, retryDelays[min(last.count, len(retryDelays)-1)]), true
}

// answerIn returns how long to wait before another attempt at a Work to which the member may
// not have answered; 0 if there is no need to wait. An attempt without an answer occupies one
// of Karmada's few workers for half a minute, during which it delays all other clusters.
func answerIn(observed *Observed, target render.Target, work *workv1alpha1.Work) time.Duration {
	proof, _ := EvidenceOf(work)
	last := recentAttempts(observed.Now, work)
	if proof != unanswered || last.count == 0 || target.Suspend || isRequested(observed, work) || contactRegained(observed.Clusters[target.Cluster], work) {
		return 0
	}
	return remaining(observed.Now, last.at, retryDelays[min(last.count, len(retryDelays)-1)])
}

// recentAttempts are the new attempts that belong to the present trouble: between two of
// them, there are not more than the longest delay and the time of one attempt.
func recentAttempts(now time.Time, work *workv1alpha1.Work) attempts {
	last := attemptsOf(work)
	if now.Sub(last.at) > 2*retryDelays[len(retryDelays)-1] {
		return attempts{}
	}
	return last
}

// ignoredIn reports whether Karmada has not answered since a nudge after contact was
// regained, and after how long to nudge the Work again; 0 means now. Karmada ignores a nudge
// that it sees before it sees that the cluster is Ready, and goes on backing off for up to
// 1000 s. It may also just be busy, so the time is long.
func ignoredIn(observed *Observed, target render.Target, work *workv1alpha1.Work) (time.Duration, bool) {
	last := attemptsOf(work)
	proof, _ := EvidenceOf(work)
	if target.Suspend || !observed.Clusters[target.Cluster].Ready || proof != pending || last.ending {
		return 0, false
	}
	reset := meta.FindStatusCondition(work.Status.Conditions, propagationv1alpha1.WorkConditionReset)
	if reset != nil && reset.LastTransitionTime.After(last.at) {
		return 0, false
	}
	return last.ignoredIn(observed.Now)
}

// maxIgnored is how often a Work is nudged on contact. Karmada then tries again by itself.
const maxIgnored = 5

func (a attempts) ignoredIn(now time.Time) (time.Duration, bool) {
	if a.count == 0 || a.count >= maxIgnored {
		return 0, false
	}
	return remaining(now, a.at, retryDelays[min(a.count+2, len(retryDelays)-1)]), true
}

// isRequested reports whether a user has requested an attempt that has not been
// made.
func isRequested(observed *Observed, work *workv1alpha1.Work) bool {
	return observed.Retry != "" && work.Annotations[propagationv1alpha1.RetryAnnotation] != observed.Retry
}

// retryNotes are the annotations that a retry leaves on a Work for the next one.
func retryNotes(observed *Observed, work *workv1alpha1.Work) map[string]string {
	last := attemptsOf(work)
	proof, applied := EvidenceOf(work)
	if proof == Refused && applied.LastTransitionTime.After(last.at) && !applied.LastTransitionTime.After(observed.Now) {
		last = attempts{}
	}
	if proof == unanswered {
		last = recentAttempts(observed.Now, work)
	}
	notes := map[string]string{propagationv1alpha1.AttemptsAnnotation: last.next(observed.Now)}
	if isRequested(observed, work) {
		notes[propagationv1alpha1.AttemptsAnnotation] = attempts{}.next(observed.Now)
		notes[propagationv1alpha1.RetryAnnotation] = observed.Retry
	}
	return notes
}

// remaining is what is left of a duration that began at a time by a clock that may
// not be the controller's own. No clock causes a wait longer than twice the
// duration: a time that is further ahead is ignored.
func remaining(now, since time.Time, duration time.Duration) time.Duration {
	left := since.Add(duration).Sub(now)
	if left > 2*duration {
		return 0
	}
	return max(0, left)
}
