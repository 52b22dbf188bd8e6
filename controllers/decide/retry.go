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

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// retryDelays are how long after an attempt at a Work that a cluster refuses the
// next one is asked for; the last one holds from then on. Karmada itself backs
// off up to 1000 s, and may keep a refusal although a retry of its own has
// succeeded (karmada#6858).
var retryDelays = []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second, 135 * time.Second, 5 * time.Minute}

// attempts are the fresh attempts that the controller has asked for at a Work.
type attempts struct {
	count int
	at    time.Time
	// ending: the last one was at the deletion of the Work.
	ending bool
}

// endingMark ends a note of an attempt at a deletion.
const endingMark = " deleting"

// attemptsOf reads what a nudge has noted on a Work; the zero value when there is
// nothing that can be read.
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
	return fmt.Sprintf("%d %s", a.count+1, now.UTC().Format(time.RFC3339))
}

// retryIn reports whether Karmada is to be asked for a fresh attempt at a Work,
// and in how long; 0 for now. That goes for what a cluster refuses and for what
// Karmada has re-created on it, from what may have been an older spec.
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
		// The clock of the cluster is ahead, so that this time says nothing.
		since = time.Time{}
	}
	switch {
	case since.After(last.at) && proof == Refused:
		// The attempt that was asked for last has succeeded; this is a new refusal.
		return remaining(observed.Now, since, retryDelays[0]), true
	case last.count == 0:
		return 0, true
	}
	return remaining(observed.Now, last.at, retryDelays[min(last.count, len(retryDelays)-1)]), true
}

// isRequested reports whether a user asks for an attempt that has not been made.
func isRequested(observed *Observed, work *workv1alpha1.Work) bool {
	return observed.Retry != "" && work.Annotations[propagationv1alpha1.RetryAnnotation] != observed.Retry
}

// retryNotes are what a retry leaves on a Work, for those that follow.
func retryNotes(observed *Observed, work *workv1alpha1.Work) map[string]string {
	last := attemptsOf(work)
	proof, applied := EvidenceOf(work)
	if proof == Refused && applied.LastTransitionTime.After(last.at) && !applied.LastTransitionTime.After(observed.Now) {
		last = attempts{}
	}
	notes := map[string]string{propagationv1alpha1.AttemptsAnnotation: last.next(observed.Now)}
	if isRequested(observed, work) {
		notes[propagationv1alpha1.AttemptsAnnotation] = attempts{}.next(observed.Now)
		notes[propagationv1alpha1.RetryAnnotation] = observed.Retry
	}
	return notes
}

// remaining is what is left of a duration that began at a time which a clock
// other than ours may have told. No clock makes anybody wait longer than twice
// the duration: a time that is further ahead than that is not believed.
func remaining(now, since time.Time, duration time.Duration) time.Duration {
	left := since.Add(duration).Sub(now)
	if left > 2*duration {
		return 0
	}
	return max(0, left)
}
