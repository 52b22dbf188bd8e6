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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// TestAttemptThatEndsSuspended: a user suspends dispatching while an attempt is in progress.
// Whether the member has answered it must still be known when Dispatching is False.
func TestAttemptThatEndsSuspended(t *testing.T) {
	began := now.Add(-time.Minute)
	begins := conditionAt(dispatched, began)
	noted, regainedAt := began.UTC().Format(time.RFC3339), began.Add(10*time.Second).UTC().Format(time.RFC3339)
	for name, tc := range map[string]struct {
		work []func(*workv1alpha1.Work)
		note string
	}{
		"an attempt is in progress":  {[]func(*workv1alpha1.Work){conditions(begins)}, noted},
		"contact was regained since": {[]func(*workv1alpha1.Work){conditions(begins), annotated(propagationv1alpha1.ClusterReadySinceAnnotation, regainedAt)}, regainedAt},
		"one may begin":              {nil, now.UTC().Format(time.RFC3339)},
		"it is refused so far":       {[]func(*workv1alpha1.Work){conditions(begins, conditionAt(failed, now))}, noted},
		"it has applied the content": {[]func(*workv1alpha1.Work){conditions(begins, conditionAt(applied, began))}, ""},
		"it is suspended already": {[]func(*workv1alpha1.Work){conditions(begins), annotated(propagationv1alpha1.AttemptingSinceAnnotation, noted), func(work *workv1alpha1.Work) {
			work.Spec.SuspendDispatching = ptr.To(true)
		}}, noted},
	} {
		t.Run(name, func(t *testing.T) {
			observed := scene(one, suspended, on("member1", tc.work...))
			write, _ := planWrite(observed, observed.Targets[0], observed.Resource.On("member1"), observed.Work("member1"))
			if write.Target.Attempting != tc.note {
				t.Errorf("the note is %q, want %q", write.Target.Attempting, tc.note)
			}
		})
	}
	ended := metav1.Condition{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(now)}
	for name, tc := range map[string]struct {
		note  string
		after time.Duration
		want  Evidence
	}{
		"the member has answered":               {noted, 30 * time.Second, Confirmed},
		"it may not have answered":              {noted, 32 * time.Second, unanswered},
		"it had answered when it was suspended": {"", time.Hour, Confirmed},
		"somebody has edited when it was begun": {"yesterday", time.Hour, Confirmed},
	} {
		t.Run(name, func(t *testing.T) {
			observed := scene(one, suspended, on("member1", conditions(ended, conditionAt(applied, began.Add(tc.after))),
				annotated(propagationv1alpha1.ClusterReadySinceAnnotation, regainedAt), annotated(propagationv1alpha1.AttemptingSinceAnnotation, tc.note)))
			if got, _ := EvidenceOf(observed.Work("member1")); got != tc.want {
				t.Errorf("the evidence is %s, want %s", got, tc.want)
			}
		})
	}
}

// TestSuspendedWhileAnAttemptIsInFlight: a user suspends dispatching and changes the
// resource while Karmada attempts the previous content. That attempt ends after the reset,
// so its True is in front of Dispatching. The new content must not be dispatched.
func TestSuspendedWhileAnAttemptIsInFlight(t *testing.T) {
	w := newWorld()
	w.content = 1
	w.our.decide(w)
	w.our.write(w)
	w.karmada.advance(w)
	w.karmada.step(w, false)
	w.karmada.step(w, false)
	w.suspended, w.content = true, 2
	for range 3 {
		w.our.advance(w)
	}
	w.our.decide(w)
	w.our.write(w)
	w.our.write(w)
	for range 5 {
		w.karmada.advance(w)
	}
	for w.karmada.phase != idle || w.karmada.queued {
		w.karmada.step(w, false)
		w.karmada.advance(w)
	}
	for range 10 {
		w.our.advance(w)
	}
	for range 5 {
		w.our.decide(w)
		w.our.write(w)
		w.our.write(w)
		w.karmada.advance(w)
		w.karmada.step(w, false)
	}
	if err := w.lie(); err != nil {
		t.Error(err)
	}
	if w.member != contents[1].Revision {
		t.Errorf("the member has %s", w.member)
	}
}

// Only contact that was regained makes an answer possible. Nothing notes when it was lost.
func TestLossOfContactIsNoContact(t *testing.T) {
	if got := scene(one, cluster("member1", regained)).Targets[0].ReadySince; got != regained.ReadySince {
		t.Errorf("noted: %q", got)
	}
	if got := scene(one, cluster("member1", lost)).Targets[0].ReadySince; got != "" {
		t.Errorf("noted: %q", got)
	}
}

// A re-created object may have an older content. The next attempt, after dispatching was
// resumed, must not make that look proven.
func TestRecreationIsResetWhenSuspended(t *testing.T) {
	plan := NewPlan(scene(one, suspended, on("member1", isRecreated)))
	if len(plan.Writes) != 1 || plan.Writes[0].String() != "reset and update member1 (TermsDiffer)" {
		t.Errorf("the plan is to %v", plan.Steps())
	}
}

// The result of an attempt that began before contact was lost may come after contact was
// regained. It proves nothing, so what it is written to is taken away first.
func TestAttemptBeforeContactWasLost(t *testing.T) {
	back := regained
	back.LostAt = now.Add(-2 * time.Hour)
	attempts := conditions(dispatched)
	writtenAt := func(at time.Time) func(*workv1alpha1.Work) {
		return func(work *workv1alpha1.Work) { work.CreationTimestamp = metav1.NewTime(at) }
	}
	before, during := writtenAt(back.LostAt), writtenAt(back.LostAt.Add(time.Second))
	for name, tc := range map[string]struct {
		observed *Observed
		want     []string
	}{
		"it may run":                        {scene(one, cluster("member1", back), on("member1", attempts, before)), []string{"reset and nudge member1"}},
		"it may run, the loss is unknown":   {scene(one, cluster("member1", regained), on("member1", attempts, during)), []string{"reset and nudge member1"}},
		"written without contact":           {scene(one, cluster("member1", back), on("member1", attempts, during)), []string{"nudge member1"}},
		"changed without contact":           {scene(one, cluster("member1", back), on("member1", conditions(resetAt(back.LostAt.Add(time.Second)), dispatched), before)), []string{"nudge member1"}},
		"not attempted yet":                 {scene(one, cluster("member1", back), on("member1", before)), []string{"nudge member1"}},
		"confirmed before":                  {scene(one, cluster("member1", back), on("member1", isConfirmed, before)), nil},
		"other terms":                       {scene(one, preserving, cluster("member1", back), on("member1", attempts, before)), []string{"reset and update member1"}},
		"other terms, of what nobody reads": {scene(one, preserving, problem(Problem{Reason: "ResourceReadFailed"}), cluster("member1", back), on("member1", attempts, before)), []string{"reset and set the terms on member1"}},
		"to be suspended":                   {scene(one, suspended, cluster("member1", back), on("member1", attempts, before)), []string{"update member1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, steps(NewPlan(tc.observed))); diff != "" {
				t.Errorf("NewPlan() (-want +got):\n%s", diff)
			}
		})
	}
}
