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
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"

	"time"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// TestWhatIsDeniedIsStillAttempted: for the revision that a cluster has, what needs
// no content is done, and nothing else. anAnswer is how long an answer is valid.
const anAnswer = 10 * time.Second

func TestWhatIsDeniedIsStillAttempted(t *testing.T) {
	lost := func(work *workv1alpha1.Work) {
		work.Annotations[propagationv1alpha1.ClusterReadySinceAnnotation] = "2026-01-01T09:00:00Z"
	}
	foreign := func(work *workv1alpha1.Work) { work.Labels[propagationv1alpha1.OwnerUIDLabel] = "theirs" }
	denied := func(observed *Observed) {
		observed.Denials = map[string]Denial{"a": {Reason: propagationv1alpha1.ReasonForbidden, Wait: anAnswer}}
	}
	for name, tc := range map[string]struct {
		observed *Observed
		want     []string
	}{
		"no Work":                             {scene([]string{"a"}, denied), nil},
		"an older revision":                   {scene([]string{"a"}, denied, on("a", revision(older))), nil},
		"contact regained":                    {scene([]string{"a"}, denied, on("a", revision(older), lost)), []string{"nudge a"}},
		"contact regained, overridden":        {scene([]string{"a"}, denied, on("a", revision(older), lost, annotated(util.AppliedOverrides, "[]"))), []string{"nudge a"}},
		"contact regained, of somebody else":  {scene([]string{"a"}, denied, on("a", revision(older), lost, foreign)), nil},
		"contact regained, to be suspended":   {scene([]string{"a"}, denied, suspended, on("a", revision(older), lost)), []string{"set the terms on a"}},
		"contact regained, nothing is denied": {scene([]string{"a"}, on("a", lost)), []string{"nudge a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, isDenied := tc.observed.Denials["a"]; isDenied {
				tc.want = append(tc.want, "look again in 10s")
			}
			if diff := cmp.Diff(tc.want, steps(NewPlan(tc.observed))); diff != "" {
				t.Errorf("NewPlan() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhoMayNotReadHoldsNobodyUp: an object without permissions is known to have no
// dependencies, unless it runs somewhere.
func TestWhoMayNotReadHoldsNobodyUp(t *testing.T) {
	denied := Denial{Reason: propagationv1alpha1.ReasonForbidden, Get: true}
	failed := Denial{Reason: propagationv1alpha1.ReasonReviewFailed, Get: true, Err: errors.New("slow")}
	other := Denial{Reason: propagationv1alpha1.ReasonForbidden}
	denial := func(denial Denial) sceneOption {
		return func(observed *Observed) { observed.Denials = map[string]Denial{"a": denial} }
	}
	for name, tc := range map[string]struct {
		observed *Observed
		want     bool
	}{
		"all is in order":                    {scene([]string{"a"}), false},
		"a problem":                          {scene([]string{"a"}, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound})), true},
		"a problem, and it never ran":        {scene([]string{"a"}, func(o *Observed) { o.HasFinalizer = false }, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound})), false},
		"a read fails, and it never ran":     {scene([]string{"a"}, func(o *Observed) { o.HasFinalizer = false }, problem(Problem{Err: errors.New("slow")})), true},
		"a problem, the finalizer stripped":  {scene([]string{"a"}, func(o *Observed) { o.HasFinalizer = false }, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound}), on("a")), true},
		"a problem that is concealed":        {scene([]string{"a"}, problem(Problem{Reason: propagationv1alpha1.ReasonForbidden})), false},
		"it may not be read":                 {scene([]string{"a"}, denial(denied)), false},
		"it may not be read and runs":        {scene([]string{"a"}, denial(denied), on("a")), true},
		"it is not known whether it may be":  {scene([]string{"a"}, denial(failed)), true},
		"it may be read, not sent somewhere": {scene([]string{"a"}, denial(other)), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.observed.FollowersUnknown(); got != tc.want {
				t.Errorf("unknown: %t, want %t", got, tc.want)
			}
		})
	}
}
