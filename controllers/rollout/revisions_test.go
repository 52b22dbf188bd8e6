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
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// soaking is canaryThenRest in which the canary soaks for an hour and must be approved.
func soaking(change func(*Strategy)) Strategy {
	return canaryThenRest(func(s *Strategy) {
		s.Stages[0].SoakSeconds, s.Stages[0].Approval = ptr.To[int32](3600), ApprovalRequired
		if change != nil {
			change(s)
		}
	})
}

// Rule 11: a newer revision starts over at the first stage. Approvals and soaks are void,
// and a failure restores the revision that was completed last.
func TestSuperseded(t *testing.T) {
	s := newScene(t, soaking(func(s *Strategy) { s.OnFailure = FailureRollback }), "canary1", "rest1")
	s.request("r2")
	s.play(59 * time.Minute)
	s.requestBad("r3")
	s.command(func(c *Commands) { c.Approve = "canary@r2" })
	s.play(2 * time.Minute)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutProgressing)
	s.is("promoted", s.assigned("r3"), "canary1")
	s.play(10 * time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
	s.is("back at the first revision", s.with("r1"), "canary1 rest1")
}

// Rule 8: what a cluster has not confirmed is replaced at once when the next revision
// comes, even if it cannot be reached.
func TestSupersededWhileUnconfirmed(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.MaxConcurrency = number(2) }), "canary1", "canary2", "canary3")
	s.request("r2")
	s.complete()
	s.each("canary1", isNotReady)
	s.request("r3")
	s.complete()
	s.is("the newest", s.assigned("r3"), "canary2 canary3")
	s.is("the current one", s.assigned("r1"), "canary1")
	s.is("suspended", s.those(func(c *simulated) bool { return c.work.isSuspended }), "")
}

// Rule 11: a change that does not concern the clusters updated so far voids nothing.
func TestEquivalent(t *testing.T) {
	t.Run("the caller uses the new name", func(t *testing.T) { testEquivalent(t, 0) })
	t.Run("the caller uses the old name", func(t *testing.T) { testEquivalent(t, 1) })
}

func testEquivalent(t *testing.T, named int) {
	t.Run("a soak goes on", func(t *testing.T) {
		s := newScene(t, canaryThenRest(func(s *Strategy) { s.Stages[0].SoakSeconds = ptr.To[int32](3600) }), "canary1", "rest1")
		s.request("r2")
		s.play(59 * time.Minute)
		s.changeNothing(named, 0)
		s.play(2 * time.Minute)
		s.isAt(Completed, "")
		s.is("updated", s.with("r3"), "canary1 rest1")
	})
	t.Run("a turn goes on", func(t *testing.T) {
		s := newScene(t, canaryThenRest(nil), "canary1", "rest1")
		s.requestBad("r2")
		s.play(599 * time.Second)
		s.changeNothing(named, 0)
		s.play(2 * time.Second)
		s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
		s.is("failed revision", s.status.FailedRevision, "r3")
	})
	t.Run("a cluster that is about to be done is done", func(t *testing.T) {
		s := newScene(t, canaryThenRest(func(s *Strategy) { s.MinReadySeconds = ptr.To[int32](60) }), "canary1", "rest1")
		s.each("canary1", isSick)
		s.request("r2")
		s.play(590 * time.Second)
		s.each("canary1", isCured)
		s.play(11 * time.Second)
		s.changeNothing(named, 0)
		s.play(2 * time.Minute)
		s.isAt(Completed, "")
	})
	t.Run("an approval stays", func(t *testing.T) {
		s := newScene(t, soaking(nil), "canary1", "rest1")
		s.request("r2")
		s.command(func(c *Commands) { c.Approve = "canary@r2" })
		s.complete()
		s.changeNothing(named, 0)
		s.play(time.Minute)
		s.isAt(Completed, "")
	})
}

// But it is no approval, and no fix.
func TestEquivalentIsNoProgress(t *testing.T) {
	t.Run("what is not approved is not", func(t *testing.T) {
		s := newScene(t, soaking(nil), "canary1", "rest1")
		s.request("r2")
		s.play(2 * time.Hour)
		s.changeNothing(0, 0)
		s.play(time.Hour)
		s.isAt(Progressing, propagationv1alpha1.ReasonRolloutAwaitingApproval)
	})
	t.Run("a failure stays", func(t *testing.T) {
		s := newScene(t, canaryThenRest(nil), "canary1", "rest1")
		s.requestBad("r2")
		s.play(time.Hour)
		s.changeNothing(0, 0)
		s.play(time.Hour)
		s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
		s.is("failed revision", s.status.FailedRevision, "r3")
	})
	t.Run("but not after a rollback", func(t *testing.T) {
		s := newScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure = FailureRollback }), "canary1", "rest1")
		s.requestBad("r2")
		s.play(time.Hour)
		s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
		s.equivalent = true
		s.request("r3")
		s.play(time.Minute)
		s.isAt(Completed, "")
	})
}

// Rule 11: returning to the current revision needs no soak and no approval, but respects
// the concurrency.
func TestRevert(t *testing.T) {
	s := newScene(t, soaking(func(s *Strategy) { s.MaxConcurrency = number(1) }), "canary1", "canary2", "canary3", "rest1")
	s.request("r2")
	s.play(3 * time.Minute)
	s.is("before", s.with("r2"), "canary1 canary2 canary3")
	s.each("canary2", isSick)
	s.play(time.Second)
	s.request("r1")
	s.complete()
	s.isAt(Reverting, propagationv1alpha1.ReasonRolloutProgressing)
	if canary := s.status.Stages[0]; canary.StartedAt != nil || canary.ReadySince != nil {
		t.Errorf("the stage of the rollout that was left: %+v", canary)
	}
	s.is("the first one is in trouble", s.inTurn("r1"), "canary2")
	s.each("canary2", isCured)
	s.play(time.Minute)
	s.isAt(Completed, "")
	s.is("after", s.with("r1"), "canary1 canary2 canary3 rest1")
}

// Rule 12: a rollback returns every cluster, the failed ones first, within the
// concurrency, and is not tried again.
func TestRollback(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure = FailureRollback }), "canary1", "canary2", "rest1")
	s.each("canary1", func(c *simulated) { c.refuses = true })
	s.requestBad("r2")
	s.play(601 * time.Second)
	s.isAt(RollingBack, propagationv1alpha1.ReasonRolloutRollingBack)
	s.each("canary1", func(c *simulated) { c.refuses = false })
	s.play(time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
	s.is("back", s.with("r1"), "canary1 canary2 rest1")
	s.play(24 * time.Hour)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)

	s.tell("somebody requests a retry of what works now")
	clear(s.bad)
	s.command(func(c *Commands) { c.Retry = "r2/1" })
	s.play(time.Minute)
	s.isAt(Completed, "")
	s.is("failed revision", s.status.FailedRevision, "")
}

// Rule 12: a rollback proceeds around clusters without contact.
func TestRollbackAroundUnreachableClusters(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure, s.MaxConcurrency = FailureRollback, number(1) }), "canary1", "canary2", "canary3", "canary4")
	s.request("r2")
	s.play(25 * time.Second)
	s.is("updated", s.with("r2"), "canary1 canary2 canary3")
	s.command(func(c *Commands) { c.Abort = "r2" })
	s.complete()
	s.is("the first one to return", s.inTurn("r1"), "canary1")
	s.each("canary1", isNotReady)
	s.play(2 * time.Minute)
	s.is("back", s.with("r1"), "canary2 canary3 canary4")
	s.is("phase", string(s.status.Phase), string(RollingBack))
	s.play(10 * time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRollbackFailed)
	s.each("canary1", isReady)
	s.play(time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
}

// Rule 12: what cannot be rolled back pauses.
func TestNoRollback(t *testing.T) {
	t.Run("of the first revision", func(t *testing.T) {
		s := emptyScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure = FailureRollback }), "canary1", "rest1")
		s.requestBad("r1")
		s.play(time.Hour)
		s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
		s.is("assigned", s.assigned("r1"), "canary1")
	})
	t.Run("of what must not return", func(t *testing.T) {
		s := newScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure = FailureRollback }), "canary1", "rest1")
		s.decide = neverBack
		s.requestBad("r2")
		s.play(time.Hour)
		s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
		s.is("assigned", s.assigned("r2"), "canary1")
	})
}

// A user who changes onFailure after the failure gets a rollback.
func TestRollbackAfterwards(t *testing.T) {
	s := newScene(t, canaryThenRest(nil), "canary1", "rest1")
	s.requestBad("r2")
	s.play(time.Hour)
	s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
	s.strategy.OnFailure = FailureRollback
	s.play(time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
}

// A fix that replaces a bad revision does not leave the bad one in place until it is the
// turn of the last stage.
func TestFixDuringARollback(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure, s.MaxConcurrency, s.SoakSeconds = FailureRollback, number(1), 3600 }), "canary1", "rest1", "rest2")
	s.request("r2")
	s.play(61*time.Minute + 10*time.Second)
	s.is("both stages have begun", s.with("r2"), "canary1 rest1 rest2")
	s.each("rest1 rest2", isSick)
	s.play(601 * time.Second)
	s.is("phase", string(s.status.Phase), string(RollingBack))
	s.request("r3")
	s.each("rest1 rest2", isCured)
	s.play(time.Minute)
	s.is("the fix", s.with("r3"), "canary1")
	s.is("the others", s.with("r1"), "rest1 rest2")
}

// Where nothing is rolled back, a fix reaches each cluster in its turn.
func TestFixWithoutARollback(t *testing.T) {
	for name, change := range map[string]func(s *scene){
		"onFailure is Pause":           func(s *scene) { s.strategy.OnFailure = FailurePause },
		"the resource must not return": func(s *scene) { s.decide = neverBack },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure, s.SoakSeconds = FailureRollback, 600 }), "canary1", "rest1")
			change(s)
			s.request("r2")
			s.play(11 * time.Minute)
			s.is("updated", s.with("r2"), "canary1 rest1")
			s.each("rest1", isSick)
			s.play(15 * time.Minute)
			s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
			s.request("r3")
			s.play(time.Minute)
			s.is("the fix", s.with("r3"), "canary1")
			s.is("the failed revision", s.with("r2"), "rest1")
			s.each("rest1", isCured)
			s.play(time.Hour)
			s.isAt(Completed, "")
			s.is("the failed revision, in the end", s.status.FailedRevision, "")
			if s.status.Failure != nil {
				t.Errorf("a failure is left: %+v", s.status.Failure)
			}
		})
	}
}

func neverBack(in *Input) (Decision, error) {
	in.NeverRollBack = true
	return Decide(in)
}

// A failed revision that is requested again is not tried again.
func TestFailedRevisionRequestedAgain(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure, s.SoakSeconds = FailureRollback, 3600 }), "canary1", "rest1")
	s.requestBad("r2")
	s.play(15 * time.Minute)
	s.request("r3")
	s.play(time.Minute)
	s.is("the fix", s.with("r3"), "canary1")
	s.request("r2")
	s.play(time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
	s.is("everywhere", s.with("r1"), "canary1 rest1")
}

// Rule 14: without a readable resource, nothing starts. What has begun goes on.
func TestUnreadable(t *testing.T) {
	s := newScene(t, Strategy{MaxConcurrency: number(1)}, "a", "b", "c")
	s.request("r2")
	s.complete()
	s.unreadable = true
	s.play(time.Minute)
	s.is("updated", s.with("r2"), "a")
	s.is("next", s.inTurn("r2"), "")
	s.unreadable = false
	s.play(time.Minute)
	s.isAt(Completed, "")
}

// Before anything is recorded, Works stay as they are.
func TestUnreadableFromTheBeginning(t *testing.T) {
	s := emptyScene(t, Strategy{}, "a", "b")
	s.clusters["a"].work = &work{revision: "r1"}
	s.unreadable = true
	decided := s.decided()
	if decided.Status != nil || decided.RecordFirst {
		t.Errorf("something is recorded: %+v", decided)
	}
	for _, a := range decided.Assignments {
		if a.Suspend || a.Revision != map[string]string{"a": "r1"}[a.Cluster] {
			t.Errorf("%+v", a)
		}
	}
}

func TestRollbackWithoutAResource(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure = FailureRollback }), "canary1", "rest1")
	s.requestBad("r2")
	s.play(time.Minute)
	s.unreadable = true
	s.play(15 * time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
}

// Rule 15: adoption begins with what the clusters have.
func TestAdoption(t *testing.T) {
	for _, tc := range []struct {
		name    string
		has     string
		request string
		current string
		phase   Phase
	}{
		{"all have what is requested", "r1 r1 r1", "r1", "r1", Completed},
		{"all have something older", "r1 r1 r1", "r2", "r1", Progressing},
		{"some have nothing", "r1 - r1", "r2", "r1", Progressing},
		{"they differ", "r1 r2 r1", "r2", "", Progressing},
		{"nobody has anything", "- - -", "r1", "", Progressing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := emptyScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds = 3600 }), "canary1", "rest1", "rest2")
			for i, has := range strings.Fields(tc.has) {
				if has != "-" {
					c := s.clusters[s.names()[i]]
					c.runs, c.work = has, &work{revision: has, confirmed: has, applied: true, healthKnown: true, healthy: true}
				}
			}
			s.request(tc.request)
			if !s.decided().RecordFirst {
				t.Error("the first status is not recorded first")
			}
			s.round(s.leader)
			s.carryOut(s.leader)
			s.is("phase", string(s.status.Phase), string(tc.phase))
			s.is("current revision", s.status.CurrentRevision, tc.current)
			s.play(3 * time.Hour)
			s.isAt(Completed, "")
			s.is("in the end", s.with(tc.request), "canary1 rest1 rest2")
		})
	}
}

// Rule 15: if the status is lost during a rollout, every cluster keeps what it has.
func TestLostStatus(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds = 3600 }), "canary1", "rest1", "rest2")
	s.request("r2")
	s.play(time.Minute)
	s.loseStatus(0, 0)
	s.play(24 * time.Hour)
	s.isAt(StateLost, propagationv1alpha1.ReasonRolloutStateLost)
	s.is("kept", s.with("r1"), "rest1 rest2")
	s.request("r3")
	s.play(time.Hour)
	s.isAt(StateLost, propagationv1alpha1.ReasonRolloutStateLost)
	s.is("kept, also after a change", s.with("r1"), "rest1 rest2")
	s.command(func(c *Commands) { c.Retry = "r3" })
	s.play(3 * time.Hour)
	s.isAt(Completed, "")
}

// Rule 15: without a strategy, every cluster gets what is requested, unless that has
// failed.
func TestRelease(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds = 3600 }), "canary1", "rest1")
	s.request("r2")
	s.play(time.Minute)
	s.released = true
	s.play(time.Minute)
	s.is("released", s.with("r2"), "canary1 rest1")
	if s.status != nil {
		t.Errorf("a status is left: %s", told(s.status))
	}
	s.unreadable = true
	for _, a := range s.decided().Assignments {
		if a.Revision != "r2" || a.Suspend {
			t.Errorf("without a readable resource: %+v", a)
		}
	}
	s.unreadable, s.released = false, false
	s.requestBad("r3")
	s.play(15 * time.Minute)
	s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
	s.released = true
	s.play(time.Hour)
	s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
	s.is("held", s.with("r2"), "rest1")
	s.request("r4")
	s.play(time.Minute)
	s.is("released with a change", s.with("r4"), "canary1 rest1")
}
