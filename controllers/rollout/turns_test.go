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

package rollout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Rule 5: which clusters begin is recorded before their Works are written, in the order
// of their names, and recorded clusters count.
func TestTurnsAreRecordedFirst(t *testing.T) {
	s := newScene(t, Strategy{MaxConcurrency: number(2)}, "d", "b", "a", "c")
	s.request("r2")
	decided, err := Decide(s.observe(s.leader))
	if err != nil || !decided.RecordFirst {
		t.Fatalf("the decision to begin: record first: %t, error: %v", decided.RecordFirst, err)
	}
	s.round(s.leader)
	s.carryOut(s.leader)
	s.is("recorded", s.inTurn("r2"), "a b")
	s.is("written", s.assigned("r2"), "")

	s.tell("the process ends before it has written a Work")
	s.startProcess(0)
	decided, _ = Decide(s.observe(s.leader))
	if decided.RecordFirst {
		t.Error("what is recorded already is to be recorded first")
	}
	s.complete()
	s.is("written by the next process", s.assigned("r2"), "a b")
}

// Rule 6: a cluster is done when it has been healthy for minReadySeconds, without
// interruption, since it confirmed the revision.
func TestDone(t *testing.T) {
	s := newScene(t, Strategy{MaxConcurrency: number(1), MinReadySeconds: ptr.To[int32](60)}, "a", "b")
	s.request("r2")
	s.play(50 * time.Second)
	s.is("after 50 s", s.inTurn("r2"), "a")
	s.each("a", isSick)
	s.play(5 * time.Second)
	s.each("a", isCured)
	s.play(50 * time.Second)
	s.is("50 s after an interruption", s.inTurn("r2"), "a")
	s.play(15 * time.Second)
	s.is("after another 15 s", s.inTurn("r2"), "b")
}

func TestLostContactInterruptsHealth(t *testing.T) {
	s := newScene(t, Strategy{MaxConcurrency: number(1), MinReadySeconds: ptr.To[int32](60)}, "a", "b")
	s.request("r2")
	s.play(50 * time.Second)
	s.each("a", isNotReady)
	s.play(time.Second)
	s.each("a", isReady)
	s.play(50 * time.Second)
	s.is("50 s after contact was lost", s.inTurn("r2"), "a")
}

// Rule 7: percentages.
func TestBudgets(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		concurrency, failures *intstr.IntOrString
		clusters              int32
		atOnce, tolerated     int32
	}{
		{"by default, all at once, and no failure", nil, nil, 7, 7, 0},
		{"5 % of 2 tolerates none", nil, percent("5%"), 2, 2, 0},
		{"50 % of 3 tolerates one", nil, percent("50%"), 3, 3, 1},
		{"25 % of 3 is at least one at once", percent("25%"), nil, 3, 1, 0},
		{"25 % of 7 is one at once", percent("25%"), nil, 7, 1, 0},
		{"0 is at least one at once", number(0), nil, 5, 1, 0},
		{"not more than there are", number(9), number(9), 5, 5, 5},
		{"of nothing", percent("50%"), percent("50%"), 0, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &decision{in: &Input{}, strategy: Strategy{MaxConcurrency: tc.concurrency, MaxFailures: tc.failures}}
			s := &stage{members: make([]*member, tc.clusters)}
			if err := d.resolve(s); err != nil || s.MaxConcurrency != tc.atOnce || s.MaxFailures != tc.tolerated {
				t.Errorf("%d at once, %d may fail, want %d and %d; error: %v", s.MaxConcurrency, s.MaxFailures, tc.atOnce, tc.tolerated, err)
			}
		})
	}
}

func TestInvalidStrategies(t *testing.T) {
	selector := ringed("no label value!")
	for name, strategy := range map[string]Strategy{
		"concurrency": {MaxConcurrency: percent("many")},
		"failures":    {MaxFailures: percent("some")},
		"stage":       {Stages: []Stage{{Name: "canary", MaxConcurrency: percent("x%")}}},
		"selector":    {Stages: []Stage{{Name: "canary", ClusterSelector: selector}}},
	} {
		if _, err := Decide(&Input{Strategy: &strategy, UpdateRevision: "r1", Clusters: make([]Cluster, 1)}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Rule 7: a cluster that has not become healthy fails at the deadline, and not before,
// even if it refuses the revision. The slot is free then.
func TestFailedAtTheDeadline(t *testing.T) {
	s := newScene(t, Strategy{MaxConcurrency: number(1), MaxFailures: number(1)}, "a", "b", "c")
	s.each("a", func(c *simulated) { c.refuses = true })
	s.each("b", func(c *simulated) { c.ready = true })
	s.request("r2")
	s.play(599 * time.Second)
	s.is("before the deadline", s.inTurn("r2")+", overdue "+s.overdue(), "a, overdue ")
	s.play(2 * time.Second)
	s.is("at the deadline", s.inTurn("r2")+", overdue "+s.overdue(), "b, overdue a")
	s.play(time.Minute)
	s.isAt(Completed, "")
	s.is("failed clusters", s.overdue(), "a")
	s.each("a", func(c *simulated) { c.refuses = false })
	s.play(time.Minute)
	s.is("failed clusters, in the end", s.overdue(), "")
}

// Rule 7: no time counts against a cluster that could not get what it should have.
func TestWithheldClustersDoNotFail(t *testing.T) {
	s := newScene(t, Strategy{}, "a")
	s.each("a", func(c *simulated) { c.withheld = true })
	s.requestBad("r2")
	s.play(24 * time.Hour)
	s.is("while it cannot be written", s.inTurn("r2")+", overdue "+s.overdue(), "a, overdue ")
	recorded := s.status
	s.play(24 * time.Hour)
	if !same(recorded, s.status) {
		t.Errorf("the status changes although nothing does:\n%+v\n%+v", recorded, s.status)
	}
	s.each("a", func(c *simulated) { c.withheld = false })
	s.play(539 * time.Second)
	s.is("before the deadline", s.overdue(), "")
	s.play(62 * time.Second)
	s.is("at the deadline", s.overdue(), "a")
}

// Rule 7: a cluster that gets its revision late has all the time that the others had, also if
// nobody looked at it before its deadline, and its turn had been stopped before.
func TestWithheldClustersBeginLate(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	began := metav1.NewTime(now.Add(-100 * time.Second))
	in := &Input{
		Now: now, Watched: time.Hour, Strategy: &Strategy{ProgressDeadlineSeconds: ptr.To[int32](90)}, UpdateRevision: "r2",
		Status: &Status{
			Phase: Progressing, CurrentRevision: "r1", UpdateRevision: "r2",
			Turns: []Turn{{Revision: "r2", StartedAt: began, StoppedAt: &began, ClusterNames: []string{"a"}}},
		},
		Clusters: []Cluster{{Name: "a", Exists: true, Ready: true, Assigned: "r1", Confirmed: "r1", Applied: true, Health: "Healthy", Dispatched: true, Withheld: true}},
	}
	for _, after := range []time.Duration{0, 90 * time.Second, 1000 * time.Second, 1089 * time.Second} {
		in.Now, in.Clusters[0].Withheld = now.Add(after), after < 1000*time.Second
		decided, err := Decide(in)
		if err != nil || len(decided.Status.Turns) != 1 || decided.Status.Turns[0].Failed {
			t.Fatalf("after %v: error: %v, turns: %+v", after, err, decided.Status.Turns)
		}
		if in.Clusters[0].Withheld && decided.Wait == 0 {
			t.Errorf("after %v: nothing ends the wait", after)
		}
		in.Status = decided.Status
	}
}

// Rule 7: more failures than are tolerated start nothing more.
func TestTooManyFailures(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.MaxConcurrency = number(1) }), "canary1", "canary2", "rest1")
	s.requestBad("r2")
	s.play(700 * time.Second)
	s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
	s.is("assigned", s.assigned("r2"), "canary1")
	s.is("failed revision", s.status.FailedRevision, "r2")
	s.play(24 * time.Hour)
	s.is("a day later", s.assigned("r2"), "canary1")
}

// Rule 7: after an outage of the control plane, every deadline has passed.
func TestNothingFailsUnwatched(t *testing.T) {
	s := newScene(t, Strategy{}, "a", "b")
	s.request("r2")
	s.complete()
	s.now += 15 * time.Minute
	s.startProcess(0)
	s.complete()
	s.is("failed", s.overdue(), "")
	s.play(time.Minute)
	s.isAt(Completed, "")
}

// Rule 7: suspension during a turn stops its clock and frees its slot. The turn goes on
// when there is a slot again.
func TestSuspensionInATurn(t *testing.T) {
	s := newScene(t, Strategy{MaxConcurrency: number(1)}, "a", "b", "c")
	s.each("a b", isSick)
	s.request("r2")
	s.play(400 * time.Second)
	s.each("a", isSuspended)
	s.play(100 * time.Second)
	s.is("after the suspension", s.inTurn("r2"), "b")
	s.each("a", isResumed)
	s.play(100 * time.Second)
	s.is("while there is no slot", s.inTurn("r2"), "b")
	s.is("suspended until then", s.those(func(c *simulated) bool { return c.work.isSuspended }), "a")
	s.each("b", isCured)
	s.play(20 * time.Second)
	s.is("when there is a slot", s.inTurn("r2"), "a")
	s.play(150 * time.Second)
	s.is("200 s are left", s.overdue(), "")
	s.play(50 * time.Second)
	s.is("when they are over", s.overdue(), "a")
}

// Rule 8: what a cluster cannot get now, it gets when it returns, and nobody waits for
// it.
func TestDeferred(t *testing.T) {
	for name, change := range map[string]func(c *simulated, isOff bool){
		"no contact":     func(c *simulated, isOff bool) { c.ready = !isOff },
		"suspended":      func(c *simulated, isOff bool) { c.suspended = isOff },
		"another owner":  func(c *simulated, isOff bool) { c.conflict = isOff },
		"not registered": func(c *simulated, isOff bool) { c.exists = !isOff },
		"unregistering":  func(c *simulated, isOff bool) { c.terminating = isOff },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, canaryThenRest(nil), "canary1", "canary2", "rest1")
			change(s.clusters["canary2"], true)
			s.request("r2")
			s.play(time.Minute)
			s.isAt(Completed, "")
			s.is("the rest", s.with("r2"), "canary1 rest1")
			if canary := s.status.Stages[0]; canary.Ready != 1 || canary.Deferred != 1 || canary.Failed != 0 {
				t.Errorf("the stage counts %+v", canary)
			}
			change(s.clusters["canary2"], false)
			s.play(time.Minute)
			s.is("in the end", s.with("r2"), "canary1 canary2 rest1")
		})
	}
}

func TestTheOnlyCanaryIsGone(t *testing.T) {
	s := newScene(t, canaryThenRest(nil), "canary1", "rest1")
	s.each("canary1", isNotReady)
	s.request("r2")
	s.play(24 * time.Hour)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutProgressing)
	s.is("promoted", s.assigned("r2"), "")
	s.each("canary1", isReady)
	s.play(time.Minute)
	s.isAt(Completed, "")
}

// Rule 8: a cluster that has not confirmed an abandoned revision never gets it.
func TestAbandonedRevisionsDoNotReturn(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure = FailureRollback }), "canary1", "canary2", "rest1")
	s.requestBad("r2")
	s.complete()
	s.each("canary2", isNotReady)
	s.play(700 * time.Second)
	s.isAt(RollingBack, propagationv1alpha1.ReasonRolloutRollingBack)
	s.is("assigned", s.assigned("r1"), "canary1 canary2 rest1")
	s.play(600 * time.Second)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRollbackFailed)
	s.is("not back", s.overdue(), "canary2")
	s.each("canary2", isReady)
	s.play(time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
}

// Rule 8: without a revision to return to, the Work is suspended.
func TestAbandonedFirstRevision(t *testing.T) {
	s := emptyScene(t, canaryThenRest(nil), "canary1", "rest1")
	s.requestBad("r1")
	s.complete()
	s.each("canary1", isNotReady)
	s.request("r2")
	s.play(time.Minute)
	s.is("suspended", s.those(func(c *simulated) bool { return c.work != nil && c.work.isSuspended }), "canary1")
	s.each("canary1", isReady)
	s.play(time.Minute)
	s.is("in the end", s.with("r2"), "canary1 rest1")
}

// Rule 16: if the clock of the next process is behind, what it counts starts again, and
// takes no longer than that.
func TestTheNextClockIsBehind(t *testing.T) {
	behind := func(s *scene) {
		s.skewed = true
		s.startProcess(-24 * time.Hour)
	}
	t.Run("while a cluster is healthy", func(t *testing.T) {
		s := newScene(t, Strategy{MinReadySeconds: ptr.To[int32](60)}, "a")
		s.request("r2")
		s.play(50 * time.Second)
		behind(s)
		s.play(59 * time.Second)
		s.isAt(Progressing, propagationv1alpha1.ReasonRolloutProgressing)
		s.play(2 * time.Second)
		s.isAt(Completed, "")
	})
	t.Run("until a deadline", func(t *testing.T) {
		s := newScene(t, Strategy{}, "a")
		s.requestBad("r2")
		s.play(500 * time.Second)
		behind(s)
		s.play(599 * time.Second)
		s.is("failed", s.overdue(), "")
		s.play(2 * time.Second)
		s.is("failed", s.overdue(), "a")
	})
	t.Run("while a turn is stopped", func(t *testing.T) {
		s := newScene(t, Strategy{}, "a")
		s.requestBad("r2")
		s.play(500 * time.Second)
		s.each("a", isSuspended)
		s.play(time.Minute)
		behind(s)
		s.play(time.Minute)
		s.each("a", isResumed)
		s.play(590 * time.Second)
		s.is("failed", s.overdue(), "")
		s.play(time.Minute)
		s.is("failed", s.overdue(), "a")
	})
}

// A decision asks for another one at the deadline of the turns that it begins.
func TestWaitForTheDeadline(t *testing.T) {
	s := newScene(t, Strategy{}, "a")
	s.request("r2")
	if wait := s.decided().Wait.Round(time.Second); wait != 600*time.Second {
		t.Errorf("when a turn begins: look again in %v", wait)
	}
	s.each("a", isSick)
	s.play(100 * time.Second)
	s.each("a", isSuspended)
	s.play(100 * time.Second)
	s.each("a", isResumed)
	if wait := s.decided().Wait.Round(time.Second); wait != 500*time.Second {
		t.Errorf("when a turn goes on: look again in %v", wait)
	}
}

// The shortest of several waits counts, and 0 is none.
func TestLookAgain(t *testing.T) {
	d := &decision{}
	for _, after := range []time.Duration{0, 10, 5, 0, 20} {
		d.lookAgain(after)
	}
	if d.wait != 5 {
		t.Errorf("look again in %d", d.wait)
	}
}
