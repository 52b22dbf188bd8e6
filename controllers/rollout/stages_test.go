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

	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Rule 9: a stage soaks as a whole, and the next one begins after that.
func TestSoak(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.Stages[0].SoakSeconds = ptr.To[int32](3600) }), "canary1", "canary2", "rest1")
	s.request("r2")
	s.play(time.Hour)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutSoaking)
	s.is("an hour after the change", s.assigned("r2"), "canary1 canary2")
	s.play(time.Minute)
	s.is("an hour after the stage was done", s.with("r2"), "canary1 canary2 rest1")
}

// Rules 9 and 16: a soak begins again when a cluster becomes unhealthy, but not when
// contact is lost, or when another process leads.
func TestWhatBreaksASoak(t *testing.T) {
	for _, tc := range []struct {
		name   string
		happen func(s *scene)
		breaks bool
	}{
		{"a cluster is unhealthy", func(s *scene) {
			s.each("canary1", isSick)
			s.play(10 * time.Second)
			s.each("canary1", isCured)
		}, true},
		{"contact is lost", func(s *scene) {
			s.each("canary1", isNotReady)
			s.play(10 * time.Second)
			s.each("canary1", isReady)
		}, false},
		{"another process leads", func(s *scene) { s.startProcess(0) }, false},
		{"the clock of the next process is behind", func(s *scene) {
			s.skewed = true
			s.startProcess(-20 * time.Minute)
			s.complete()
			s.startProcess(0)
		}, false},
		{"a Work is edited", func(s *scene) { s.disturbWork(0, 1) }, false},
		{"a cluster leaves", func(s *scene) { s.clusters["canary2"].targeted = false }, false},
		{"a cluster joins", func(s *scene) { s.join("canary3", "canary") }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds = 3600 }), "canary1", "canary2", "rest1")
			s.request("r2")
			s.play(30 * time.Minute)
			tc.happen(s)
			s.play(32 * time.Minute)
			if want := map[bool]string{true: "", false: "rest1"}[tc.breaks]; s.those(func(c *simulated) bool { return c.name == "rest1" && c.runs == "r2" }) != want {
				t.Errorf("after an hour, %s have r2", s.with("r2"))
			}
			s.play(35 * time.Minute)
			s.is("in the end", s.assigned("r1"), "")
		})
	}
}

// As many clusters as may fail do not break a soak.
func TestAToleratedRelapse(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds, s.MaxFailures = 3600, number(1) }), "canary1", "canary2", "rest1")
	s.request("r2")
	s.play(30 * time.Minute)
	s.each("canary1", isSick)
	s.play(31 * time.Minute)
	s.is("after an hour", s.with("r2"), "canary1 canary2 rest1")
}

// A relapse counts together with failures.
func TestARelapseAfterAFailure(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds, s.MaxFailures = 3600, number(1) }), "canary1", "canary2", "canary3", "rest1")
	s.each("canary1", isSick)
	s.request("r2")
	s.play(30 * time.Minute)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutSoaking)
	s.each("canary2", isSick)
	s.play(5 * time.Minute)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutProgressing)
	s.each("canary2", isCured)
	s.play(59 * time.Minute)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutSoaking)
	s.play(2 * time.Minute)
	s.is("after another hour", s.with("r2"), "canary1 canary2 canary3 rest1")
}

// A canary that becomes unhealthy later and stays so has failed, even after its stage.
func TestALateRelapse(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.MaxConcurrency, s.OnFailure = number(1), FailureRollback }), "canary1", "rest1", "rest2")
	s.each("rest1", isSick)
	s.request("r2")
	s.play(time.Minute)
	s.is("passed", s.assigned("r2"), "canary1 rest1")
	s.each("canary1", isSick)
	s.play(550 * time.Second)
	s.is("at the deadline of rest1", string(s.status.Phase), string(RollingBack))
	s.each("canary1 rest1", isCured)
	s.play(time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
}

// Rule 9: clusters that leave do not shrink the budget.
func TestBudgetsDoNotShrink(t *testing.T) {
	s := newScene(t, Strategy{MaxFailures: percent("25%")}, "a", "b", "c", "d")
	s.each("a b", isSick)
	s.request("r2")
	s.play(time.Minute)
	s.each("b", isCured)
	s.clusters["d"].targeted = false
	s.play(15 * time.Minute)
	s.isAt(Completed, "")
	s.is("failed", s.overdue(), "a")
}

// Rule 9: a cluster that joins gets the update at once only if its stage has begun.
func TestJoin(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds = 3600 }), "canary1", "rest1")
	s.request("r2")
	s.play(time.Minute)
	s.join("canary2", "canary")
	s.join("rest2", "rest")
	s.play(time.Minute)
	s.is("the update", s.with("r2"), "canary1 canary2")
	s.is("the current revision", s.with("r1"), "rest1 rest2")
}

// Rule 9: a stage that was passed does not open again: what comes late gets its turn, and
// nobody waits for it, or fails because of it.
func TestLateClusters(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) {
		s.MaxConcurrency, s.OnFailure, s.Stages[1].SoakSeconds = number(1), FailureRollback, ptr.To[int32](3600)
	}), "canary1", "canary2", "canary3", "canary4", "rest1")
	s.each("canary2 canary3 canary4", isNotReady)
	s.request("r2")
	s.play(time.Minute)
	s.each("canary2 canary3 canary4", isReady)
	s.each("canary2 canary3", isSick)
	s.play(5 * time.Minute)
	s.is("one at a time", s.assigned("r2"), "canary1 canary2 rest1")
	s.play(20 * time.Minute)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutSoaking)
	s.is("too many late failures start no more", s.assigned("r2"), "canary1 canary2 rest1")
	s.play(time.Hour)
	s.isAt(Completed, propagationv1alpha1.ReasonRolloutFailed)
}

// Late clusters that are in progress do not count as failed.
func TestLateClustersInProgress(t *testing.T) {
	s := newScene(t, Strategy{MaxConcurrency: number(2)}, "a", "b", "c", "d")
	s.each("b c d", isNotReady)
	s.request("r2")
	s.play(time.Minute)
	s.isAt(Completed, "")
	s.each("b c d", isReady)
	s.each("b", isSick)
	s.play(time.Minute)
	s.is("updated", s.with("r2"), "a b c d")
	s.is("in progress", s.inTurn("r2"), "b")
}

// A soak does not go on behind a stage that is not passed.
func TestReorderedStages(t *testing.T) {
	s := newScene(t, soaking(nil), "canary1", "canary2", "rest1")
	s.request("r2")
	s.play(30 * time.Minute)
	s.strategy.Stages[0], s.strategy.Stages[1] = s.strategy.Stages[1], s.strategy.Stages[0]
	s.strategy.Stages[1].Approval = ""
	s.each("rest1", isNotReady)
	s.play(40 * time.Minute)
	s.is("stage", s.status.Stage, "rest")
	s.each("rest1", isReady)
	s.play(30 * time.Minute)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutSoaking)
	s.play(time.Hour)
	s.isAt(Completed, "")
}

// A cluster that changes its label belongs to another stage.
func TestRelabel(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds = 3600 }), "canary1", "rest1", "rest2")
	s.request("r2")
	s.play(time.Minute)
	s.clusters["rest1"].ring = "canary"
	s.clusters["canary1"].ring = "rest"
	s.play(time.Minute)
	s.is("the update", s.with("r2"), "canary1 rest1")
	s.is("stage", s.status.Stage, "canary")
}

// The first stage that names or selects a cluster wins, and the rest is the last stage.
func TestStageOfACluster(t *testing.T) {
	index, err := newStageIndex([]Stage{
		{Name: "first", ClusterNames: []string{"a", "b"}},
		{Name: "second", ClusterNames: []string{"b", "c"}, ClusterSelector: ringed("canary")},
		{Name: "third", ClusterSelector: ringed("prod")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, ring string
		want       int
	}{
		{"a", "prod", 0}, {"b", "", 0}, {"c", "prod", 1}, {"d", "canary", 1}, {"d", "prod", 2}, {"d", "", 3},
	} {
		if got := index.of(&Cluster{Name: tc.name, Labels: map[string]string{"ring": tc.ring}}); got != tc.want {
			t.Errorf("%s with label %q is in stage %d, want %d", tc.name, tc.ring, got, tc.want)
		}
	}
}

// Rule 10: what is held stays as it is, even if somebody edits or deletes the Work.
func TestHeldClustersKeepWhatTheyHave(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds = 3600 }), "canary1", "rest1", "rest2")
	s.request("r2")
	s.play(time.Minute)
	s.disturbWork(0, 0)
	s.disturbWork(1, 0)
	s.disturbWork(2, 1)
	s.play(time.Minute)
	s.is("held", s.with("r1"), "rest1 rest2")
	s.is("updated", s.with("r2"), "canary1")
}

// A stage without clusters needs no soak, but an approval.
func TestEmptyStage(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds, s.Stages[0].Approval = 3600, ApprovalRequired }), "rest1")
	s.request("r2")
	s.play(time.Minute)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutAwaitingApproval)
	s.command(func(c *Commands) { c.Approve = "canary@r2" })
	s.play(time.Minute)
	s.is("updated", s.with("r2"), "rest1")
}

// Without clusters, a rollout is not complete: those that come later begin at the first
// stage.
func TestNoClusters(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds = 3600 }), "canary1", "rest1")
	s.request("r2")
	for _, c := range s.clusters {
		c.targeted = false
	}
	s.play(24 * time.Hour)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutProgressing)
	s.join("canary2", "canary")
	s.join("rest2", "rest")
	s.play(time.Minute)
	s.is("updated", s.with("r2"), "canary2")
}

// If somebody deletes the Work of a cluster that is done, the cluster gets the update
// again, without waiting for a slot.
func TestDeletedWorkOfAnUpdatedCluster(t *testing.T) {
	s := newScene(t, Strategy{MaxConcurrency: number(1)}, "a", "b", "c")
	s.each("b", isSick)
	s.request("r2")
	s.play(time.Minute)
	s.is("in progress", s.inTurn("r2"), "b")
	s.disturbWork(0, 0)
	s.complete()
	s.is("assigned", s.assigned("r2"), "a b")
	s.is("in progress, after the deletion", s.inTurn("r2"), "a b")
}

// After a failure without a rollback, too, each cluster keeps what it has.
func TestDeletedWorksAfterAFailure(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.OnFailure = FailurePause }), "canary1", "canary2", "rest1")
	s.each("canary1", isSick)
	s.request("r2")
	s.play(time.Hour)
	s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
	s.disturbWork(1, 0)
	s.disturbWork(2, 0)
	s.play(time.Minute)
	s.is("updated", s.with("r2"), "canary1 canary2")
	s.is("held", s.with("r1"), "rest1")
}
