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
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// generation gives a Work the current revision, made from a generation of the resource.
func generation(generation int) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) {
		setRevision(work, current)
		work.Spec.Workload.Manifests[0].Raw = fmt.Appendf(nil, "revision %s %d", current, generation)
	}
}

// reportsGeneration lets the cluster report a generation of the resource; 0 for a report
// without one.
func reportsGeneration(generation int) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) {
		raw := []byte(`{"replicas":1}`)
		if generation > 0 {
			raw = fmt.Appendf(nil, `{"resourceTemplateGeneration":%d}`, generation)
		}
		work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Health: workv1alpha1.ResourceHealthy, Status: &runtime.RawExtension{Raw: raw}}}
	}
}

// writtenWithoutReset is the note on a Work whose confirmation was not removed.
func writtenWithoutReset(at time.Time) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) {
		work.Annotations[propagationv1alpha1.ReportProofAnnotation] = ReportProof(current, work, at)
		work.Generation++
	}
}

func TestNeedsReset(t *testing.T) {
	highest := annotated(propagationv1alpha1.HighestGenerationAnnotation, "5")
	refused := metav1.Condition{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionFalse}
	remade := applied
	remade.Reason = reasonRecreated
	for name, tc := range map[string]struct {
		work []func(*workv1alpha1.Work)
		next int64
		want bool
	}{
		"a new generation":              {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(2)}, 3, false},
		"an old report":                 {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(1)}, 3, true},
		"an unproven True":              {[]func(*workv1alpha1.Work){conditions(applied, dispatched), reportsGeneration(2)}, 3, false},
		"the same generation":           {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(2)}, 2, true},
		"a generation that was sent":    {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(2), highest}, 5, true},
		"one above that":                {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(2), highest}, 6, false},
		"a generation that is reported": {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(4)}, 4, true},
		"no generation in the report":   {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(0)}, 3, true},
		"no report":                     {[]func(*workv1alpha1.Work){conditions(dispatched, applied)}, 3, true},
		"refused":                       {[]func(*workv1alpha1.Work){conditions(dispatched, refused), reportsGeneration(2)}, 3, true},
		"edited":                        {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(2), annotated(propagationv1alpha1.RevisionAnnotation, older)}, 3, true},
		"re-created":                    {[]func(*workv1alpha1.Work){conditions(dispatched, remade), reportsGeneration(2)}, 3, true},
		"no attempt has ended":          {[]func(*workv1alpha1.Work){conditions(dispatched), reportsGeneration(2)}, 3, true},
		"a kind without generations":    {[]func(*workv1alpha1.Work){generation(0), conditions(dispatched, applied), reportsGeneration(2)}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			observed := scene(one, on("member1", append([]func(*workv1alpha1.Work){generation(2)}, tc.work...)...))
			write := Write{Live: observed.Work("member1"), Reset: true, Update: true}
			if got := write.NeedsReset(tc.next); got != tc.want {
				t.Errorf("NeedsReset(%d) = %t", tc.next, got)
			}
			write.Update = false
			if !write.NeedsReset(tc.next) {
				t.Error("nothing is written that could be reported")
			}
			write.Reset = false
			if write.NeedsReset(tc.next) {
				t.Error("no reset was asked for")
			}
		})
	}
}

// A Work that was written without a reset is confirmed by a report on its generation, and by
// nothing else, until the next reset.
func TestReportIsTheProof(t *testing.T) {
	remade := applied
	remade.Reason = reasonRecreated
	refused := metav1.Condition{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionFalse}
	for name, tc := range map[string]struct {
		work []func(*workv1alpha1.Work)
		want Evidence
	}{
		"no report yet":       {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(2)}, unreported},
		"reported":            {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(3)}, Confirmed},
		"in any order":        {[]func(*workv1alpha1.Work){conditions(applied, dispatched), reportsGeneration(3)}, Confirmed},
		"a later generation":  {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(4)}, unreported},
		"without one":         {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(0)}, unreported},
		"refused":             {[]func(*workv1alpha1.Work){conditions(dispatched, refused), reportsGeneration(2)}, Refused},
		"re-created":          {[]func(*workv1alpha1.Work){conditions(dispatched, remade), reportsGeneration(3)}, recreated},
		"of another revision": {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(2), annotated(propagationv1alpha1.ReportProofAnnotation, older+" 9 "+since)}, Confirmed},
		"of an earlier Work":  {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(2), func(work *workv1alpha1.Work) { work.Generation = 0 }}, Confirmed},
		"not a note":          {[]func(*workv1alpha1.Work){conditions(dispatched, applied), reportsGeneration(2), annotated(propagationv1alpha1.ReportProofAnnotation, current+" soon "+since)}, Confirmed},
	} {
		t.Run(name, func(t *testing.T) {
			observed := scene(one, on("member1", append([]func(*workv1alpha1.Work){generation(3), writtenWithoutReset(now)}, tc.work...)...))
			work := observed.Work("member1")
			if got, _ := EvidenceOf(work); got != tc.want {
				t.Errorf("the evidence is %s, want %s", got, tc.want)
			}
			work.Status.Conditions = append(ResetConditions(work, confirmedRevision(work), now), dispatched, applied)
			if got, _ := EvidenceOf(work); got != Confirmed {
				t.Errorf("after a reset, the order of the conditions is the proof, but the evidence is %s", got)
			}
		})
	}
}

// If no report comes, another attempt is made, and then a reset finds out.
func TestOverdueReport(t *testing.T) {
	stillSuspended := metav1.Condition{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionFalse}
	hourAgo := conditionAt(dispatched, now.Add(-time.Hour))
	busy := []sceneOption{func(observed *Observed) { observed.Unreported = 600 }}
	const nothing, nudges, resets = "", "nudge member1 (UnprovenConfirmation)", "reset and nudge member1 (UnprovenConfirmation)"
	for name, tc := range map[string]struct {
		written    time.Duration
		reported   int
		conditions []metav1.Condition
		change     []sceneOption
		want       string
	}{
		"the report may still come":        {119 * time.Second, 2, []metav1.Condition{hourAgo, applied}, nil, nothing},
		"the member may not have answered": {2 * time.Minute, 2, []metav1.Condition{hourAgo, applied}, nil, nudges},
		"the report is overdue":            {5 * time.Minute, 2, []metav1.Condition{hourAgo, applied}, nil, resets},
		"reports have no generation now":   {time.Second, 0, []metav1.Condition{hourAgo, applied}, nil, resets},
		"the cluster cannot be reached": {
			time.Hour, 2, []metav1.Condition{hourAgo, applied},
			[]sceneOption{cluster("member1", Cluster{Exists: true, ReadySince: since})}, nothing,
		},
		"dispatching is suspended":             {time.Hour, 2, []metav1.Condition{hourAgo, applied}, []sceneOption{suspended}, "update member1 (TermsDiffer)"},
		"Karmada does not know the end":        {time.Hour, 2, []metav1.Condition{stillSuspended, applied}, nil, nothing},
		"dispatching was resumed":              {time.Hour, 2, []metav1.Condition{conditionAt(dispatched, now.Add(-time.Minute)), applied}, nil, nothing},
		"it was refused until now":             {time.Hour, 2, []metav1.Condition{hourAgo, conditionAt(applied, now)}, nil, nothing},
		"the time is that of another host":     {-time.Hour, 2, []metav1.Condition{hourAgo, applied}, nil, resets},
		"the clock of Karmada is ahead":        {119 * time.Second, 2, []metav1.Condition{conditionAt(dispatched, now.Add(time.Hour)), conditionAt(applied, now.Add(time.Hour))}, nil, nothing},
		"Karmada has many other reports":       {179 * time.Second, 2, []metav1.Condition{hourAgo, applied}, busy, nothing},
		"it has had enough time for an answer": {3 * time.Minute, 2, []metav1.Condition{hourAgo, applied}, busy, nudges},
		"it has had enough time for all":       {6 * time.Minute, 2, []metav1.Condition{hourAgo, applied}, busy, resets},
		"a user asks for another attempt":      {time.Second, 2, []metav1.Condition{hourAgo, applied}, []sceneOption{asking("now")}, nudges},
	} {
		t.Run(name, func(t *testing.T) {
			change := []func(*workv1alpha1.Work){
				generation(3), conditions(tc.conditions...), writtenWithoutReset(now.Add(-tc.written)), reportsGeneration(tc.reported),
			}
			observed := scene(one, append(tc.change, on("member1", change...))...)
			plan := NewPlan(observed)
			writes := ""
			for i := range plan.Writes {
				writes += plan.Writes[i].String()
			}
			if writes != tc.want {
				t.Errorf("the plan is to %v", plan.Steps())
			}
		})
	}
}

// The other attempt is asked for in time, and once.
func TestUnreportedIsAttemptedOnce(t *testing.T) {
	at := func(since time.Duration) *Observed {
		return scene(one, on("member1", generation(3), conditions(conditionAt(dispatched, now.Add(-time.Hour)), applied), writtenWithoutReset(now.Add(-since)), reportsGeneration(2)))
	}
	if plan := NewPlan(at(119 * time.Second)); plan.Wait != time.Second {
		t.Errorf("looks again in %v", plan.Wait)
	}
	observed := at(2 * time.Minute)
	maps.Copy(observed.Work("member1").Annotations, NewPlan(observed).Writes[0].Notes)
	for _, later := range []time.Duration{0, time.Second, 135 * time.Second, 179 * time.Second} {
		observed.Now = now.Add(later)
		if plan := NewPlan(observed); len(plan.Writes) > 0 || plan.Wait != 3*time.Minute-later {
			t.Errorf("%v after that, the plan is to %v", later, plan.Steps())
		}
	}
	observed = at(2 * time.Minute)
	attempted(5, now.Add(-time.Hour))(observed.Work("member1"))
	if plan := NewPlan(observed); len(plan.Writes) != 1 || !plan.Writes[0].Nudge {
		t.Errorf("after an old refusal, the plan is to %v", plan.Steps())
	}
}

// A report that is older than a return to an earlier generation proves nothing when the later
// one is sent again.
func TestReportsBeforeAReturn(t *testing.T) {
	w := newWorld()
	settles := func(content int) {
		t.Helper()
		w.changesTo(content)
		if err := w.settle(); err != nil {
			t.Fatal(err)
		}
	}
	settles(0)
	w.reporter.phase = idle
	w.changesTo(4)
	for range 10 { // the member has it, and Karmada has read that, but not reported it
		w.our.advance(w)
		w.our.decide(w)
		w.our.write(w)
		w.karmada.advance(w)
		w.karmada.step(w, false)
	}
	w.reporter.advance(w)
	w.reporter.step(w)
	if w.member != contents[4].Revision || w.reporter.read != contents[4].TemplateGeneration() {
		t.Fatalf("the member has %s, and Karmada has read generation %d", w.member, w.reporter.read)
	}
	late := w.reporter
	w.reporter.phase = idle
	w.changesTo(0)
	for range 20 {
		w.our.advance(w)
		w.our.decide(w)
		w.our.write(w)
		w.our.write(w)
		w.karmada.advance(w)
		w.karmada.step(w, false)
	}
	w.changesTo(4)
	w.our.advance(w)
	w.our.decide(w)
	w.our.write(w)
	w.our.write(w)
	w.reporter = late
	w.reporter.step(w)
	w.our.advance(w)
	w.our.advance(w)
	if err := w.lie(); err != nil {
		t.Error(err)
	}
}
