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
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/legible/legibletest"
)

// Whatever messages others send, and wherever they enter, each message of a status
// is legible and within its limit.
func TestMessagesOfAStatus(t *testing.T) {
	names := []string{"member1", "member2"}
	rapid.Check(t, func(t *rapid.T) {
		said := legibletest.Hostile().Draw(t, "said")
		refused := failed
		refused.Message = said
		quoted, _ := json.Marshal(said)
		sick := func(work *workv1alpha1.Work) {
			isConfirmed(work)
			work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
				Health: workv1alpha1.ResourceUnhealthy,
				Status: &runtime.RawExtension{Raw: []byte(`{"conditions":[{"type":"Ready","status":"False","reason":` + string(quoted) + `,"message":` + string(quoted) + `}]}`)},
			}}
		}
		scenes := []*Observed{
			scene(names, on("member1", conditions(dispatched, refused)), on("member2", sick)),
			scene(names, cluster("member1", Cluster{Exists: true, Message: said})),
			scene(names, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound, Message: said})),
			scene(names, problem(Problem{Reason: propagationv1alpha1.ReasonResourceReadFailed, Message: said, Err: errors.New(said)})),
			scene(names, problem(Problem{Reason: propagationv1alpha1.ReasonRenderFailed, Message: said, Stalled: true})),
			scene(names, func(o *Observed) { o.Holders["member1"] = said }),
			scene(names, func(o *Observed) {
				o.Denials = map[string]Denial{"member1": {Reason: propagationv1alpha1.ReasonForbidden, Message: said}}
			}),
			scene(nil, deleting, on("member1", terminating(now)), cluster("member1", Cluster{Exists: true, Message: said})),
		}
		for _, observed := range scenes {
			status := statusOf(observed, Outcome{Failures: map[string]error{rapid.SampledFrom(names).Draw(t, "failing"): errors.New(said)}})
			for _, row := range status.Clusters {
				legibletest.Check(t, row.Reason, row.Message, propagationv1alpha1.MaxMessageLength)
			}
			for _, condition := range status.Conditions {
				legibletest.Check(t, condition.Type, condition.Message, legible.MaxNote)
			}
		}
	})
}

// A row says that an object is created anew. That may be over before a status is
// written, so no end-to-end test can rely on seeing it.
func TestRowSaysThatItIsCreatedAnew(t *testing.T) {
	observed := scene(one, ofUID("u2"), on("member1", terminating(now), isInvalid, payload("0 u2 "+here), annotated(propagationv1alpha1.SupersedesAnnotation, "u1")))
	row := NewStatus(observed, &Outcome{}).Clusters[0]
	if row.Applied == "True" || !strings.Contains(row.Message, "deleted there and created anew") {
		t.Errorf("the row says %s %s: %s", row.Applied, row.Reason, row.Message)
	}
}

// An edited note of a revision is not repeated: the API server refuses a status with a
// long one, and it may not be legible.
func TestEditedRevisionIsNotReported(t *testing.T) {
	for noted, want := range map[string]string{older: older, strings.Repeat("a", 65): "", "\x1b[31mred": "", "": ""} {
		observed := scene(one, on("member1", annotated(propagationv1alpha1.ConfirmedRevisionAnnotation, noted)))
		if row := statusOf(observed, Outcome{}).Clusters[0]; row.Revision != want {
			t.Errorf("noted %q: the row has revision %q, want %q", noted, row.Revision, want)
		}
	}
}

// An edited count of attempts does not end them.
func TestEditedAttemptsAreCounted(t *testing.T) {
	work := liveWork(scene(nil), "member1", "web", annotated(propagationv1alpha1.AttemptsAnnotation, fmt.Sprintf("%d 2026-01-01T11:00:00Z", math.MaxInt)), isRefused)
	note := retryNotes(scene(one), work)[propagationv1alpha1.AttemptsAnnotation]
	annotated(propagationv1alpha1.AttemptsAnnotation, note)(work)
	if got := attemptsOf(work); got.count < 1 || !got.at.Equal(now) {
		t.Errorf("%q is read as %+v", note, got)
	}
}

// What somebody writes into a Work is confirmed by nothing: what Karmada says of the Work
// may still be about what it held before, even if what is written is right. If the resource
// can be read, the controller writes the Work itself, and until then it is not current.
func TestEditedWorkConfirmsNothing(t *testing.T) {
	for wrote, want := range map[string]metav1.ConditionStatus{current: metav1.ConditionTrue, older: metav1.ConditionUnknown, "": metav1.ConditionTrue} {
		wrote := annotated(propagationv1alpha1.RevisionAnnotation, wrote)
		observed := scene(one, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound}), on("member1", isConfirmed, isHealthy, wrote))
		row := statusOf(observed, Outcome{}).Clusters[0]
		if row.Applied != want || (row.Revision == "") == (want == metav1.ConditionTrue) {
			t.Errorf("%+v, want %s", row, want)
		}
		observed = scene(one, on("member1", isConfirmed, isHealthy, wrote))
		if row := statusOf(observed, Outcome{}).Clusters[0]; row.Applied != want {
			t.Errorf("edited into what is current: %+v, want %s", row, want)
		}
	}
}

// A row says which revision its cluster has confirmed last, also after Karmada has created the
// object again or could not, and that is noted when the Work is written.
func TestRevisionStaysAfterAnotherAttempt(t *testing.T) {
	remade, failed := applied, applied
	remade.Reason = reasonRecreated
	failed.Status = metav1.ConditionFalse
	for name, tc := range map[string]struct {
		attempted metav1.Condition
		row       string
		after     time.Duration
		edited    bool
		want      string
	}{
		"re-created":                 {remade, current, time.Minute, false, current},
		"refused":                    {failed, current, time.Minute, false, current},
		"of an earlier Work":         {failed, current, 0, false, older},
		"another revision before":    {failed, older, time.Minute, false, older},
		"somebody edits the content": {failed, current, time.Minute, true, older},
	} {
		t.Run(name, func(t *testing.T) {
			observed := scene(one, on("member1", revision(current), conditions(dispatched, tc.attempted), annotated(propagationv1alpha1.ConfirmedRevisionAnnotation, older)))
			work := observed.Work("member1")
			work.CreationTimestamp = metav1.NewTime(now)
			if tc.edited {
				work.Annotations[propagationv1alpha1.RevisionAnnotation] = older
			}
			observed.Status.Clusters = []propagationv1alpha1.ClusterStatus{{Name: "member1", Revision: tc.row, LastTransitionTime: metav1.NewTime(now.Add(tc.after))}}
			if row := statusOf(observed, Outcome{}).Clusters[0]; row.Revision != tc.want {
				t.Errorf("the row says %s, want %s", row.Revision, tc.want)
			}
			observed.Resource.Revision = "another"
			if writes := NewPlan(observed).Writes; len(writes) != 1 || writes[0].Confirmed != tc.want {
				t.Errorf("the write notes %v, want %s", writes, tc.want)
			}
		})
	}
}
