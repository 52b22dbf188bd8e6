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
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// decided is what the leader decides now. It writes nothing.
func (s *scene) decided() Decision {
	s.t.Helper()
	decided, err := Decide(s.observe(s.leader))
	if err != nil {
		s.t.Fatal(err)
	}
	return decided
}

// states are the states of all clusters.
func (s *scene) states() string {
	states := []string{}
	for _, a := range s.decided().Assignments {
		states = append(states, a.Cluster+":"+string(a.State))
	}
	return strings.Join(states, " ")
}

// collectEvents returns a list to which the Events of all decisions are added that are
// recorded.
func (s *scene) collectEvents() *[]string {
	events := &[]string{}
	s.decide = func(in *Input) (Decision, error) {
		decided, err := Decide(in)
		for _, event := range decided.Events {
			if line := event.Reason + ": " + event.Message; !slices.Contains(*events, line) {
				*events = append(*events, line)
			}
		}
		return decided, err
	}
	return events
}

func TestStates(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) {
		s.OnFailure, s.MaxFailures, s.Stages[1].SoakSeconds = FailureRollback, number(1), ptr.To[int32](3600)
	}), "canary1", "canary2", "rest1", "rest2", "rest3")
	s.each("rest3", isNotReady)
	s.each("canary2", isSick)
	s.request("r2")
	s.is("when it begins", s.states(), "canary1:Updating canary2:Updating rest1:Waiting rest2:Waiting rest3:Deferred")
	s.play(time.Minute)
	s.each("canary2", isSuspended)
	s.is("when one is suspended", s.states(), "canary1:Updated canary2:Deferred rest1:Updating rest2:Updating rest3:Deferred")
	s.each("canary2", isResumed)
	s.play(600 * time.Second)
	s.is("when one has failed", s.states(), "canary1:Updated canary2:Overdue rest1:Updated rest2:Updated rest3:Deferred")
	s.request("r1")
	s.is("when they return", s.states(), "canary1:Returning canary2:Returning rest1:Returning rest2:Returning rest3:Updated")
}

func TestReports(t *testing.T) {
	s := newScene(t, soaking(func(s *Strategy) { s.OnFailure, s.MaxConcurrency = FailureRollback, number(2) }), "canary1", "canary2", "canary3", "rest1", "rest2", "rest3", "rest4")
	reports := func(want Report) {
		t.Helper()
		if diff := cmp.Diff(want, s.decided().Report); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", s.now, diff)
		}
	}
	reports(Report{})
	s.each("canary3", isNotReady)
	s.request("r2")
	reports(Report{Reason: propagationv1alpha1.ReasonRolloutProgressing, Message: "stage canary: 0 of 3 clusters ready with revision r2, 1 cannot get it now"})
	s.play(time.Minute)
	reports(Report{Reason: propagationv1alpha1.ReasonRolloutSoaking, Message: "stage canary: 2 of 3 clusters ready with revision r2, 1 cannot get it now; good since 2026-01-01T12:00:51Z"})
	s.strategy.Paused = true
	reports(Report{Reason: propagationv1alpha1.ReasonRolloutPaused, Message: "the rollout is paused in stage canary: 2 of 3 clusters ready with revision r2, 1 cannot get it now"})
	s.strategy.Paused = false
	s.play(time.Hour)
	reports(Report{Reason: propagationv1alpha1.ReasonRolloutAwaitingApproval, Message: "stage canary: 2 of 3 clusters ready with revision r2, 1 cannot get it now; to continue, approve canary@r2"})
	s.command(func(c *Commands) { c.Approve = "canary@r2" })
	s.each("rest1 rest2", isSick)
	s.play(599 * time.Second)
	reports(Report{Reason: propagationv1alpha1.ReasonRolloutProgressing, Message: "stage rest: 0 of 4 clusters ready with revision r2"})
	s.now += 2 * time.Second
	failed := "revision r2 failed in stage rest on rest1, rest2"
	reports(Report{Reason: propagationv1alpha1.ReasonRolloutRollingBack, Message: failed + "; 3 of 7 clusters have revision r1 again"})
	s.each("rest1", isNotReady)
	s.each("rest2", isCured)
	s.play(11 * time.Minute)
	reports(Report{Stalled: true, Reason: propagationv1alpha1.ReasonRollbackFailed, Message: failed + "; not back at revision r1: rest1"})
	s.each("rest1", isReady)
	s.each("rest1 rest2", isCured)
	s.play(time.Minute)
	reports(Report{Stalled: true, Reason: propagationv1alpha1.ReasonRolledBack, Message: failed + "; every cluster has revision r1 again"})
}

func TestReportsOfFailures(t *testing.T) {
	s := newScene(t, canaryThenRest(nil), "canary1", "canary2", "canary3", "canary4", "canary5", "rest1")
	s.requestBad("r2")
	s.play(time.Hour)
	s.is("message", s.decided().Report.Message,
		"revision r2 failed in stage canary on canary1, canary2, canary3 and 2 more; nothing more starts: change the resource, or request a retry")
	s.loseStatus(0, 0)
	s.play(time.Second)
	s.is("message", s.decided().Report.Message,
		"the status of the rollout is lost, and every cluster keeps what it has; request a retry of revision r2 to begin with that")
}

func TestEvents(t *testing.T) {
	s := emptyScene(t, soaking(func(s *Strategy) { s.OnFailure = FailureRollback }), "canary1", "rest1")
	events := s.collectEvents()
	s.request("r1")
	s.command(func(c *Commands) { c.Approve = "canary@r1" })
	s.play(2 * time.Minute)
	s.isAt(Completed, "")
	s.request("r2")
	s.play(2 * time.Hour)
	s.requestBad("r3")
	s.command(func(c *Commands) { c.Abort = "r3/wrong" })
	s.play(time.Minute)
	s.command(func(c *Commands) { c.Approve = "canary@r3" })
	s.play(time.Minute)
	s.command(func(c *Commands) { c.Retry = "r3" })
	s.play(time.Hour)
	s.request("r1")
	s.play(time.Minute)
	s.command(func(c *Commands) { c.Retry = "r1" })
	s.play(time.Minute)
	want := []string{
		"RolloutStarted: revision r1 is rolled out to 2 clusters",
		"StageStarted: stage canary begins, with 1 cluster",
		"StageCompleted: stage canary has revision r1",
		"StageStarted: stage rest begins, with 1 cluster",
		"StageCompleted: stage rest has revision r1",
		"RolloutCompleted: revision r1 is the current one",
		"RolloutStarted: revision r2 is rolled out to 2 clusters",
		"ApprovalRequired: stage canary: 1 of 1 clusters ready with revision r2; to continue, approve canary@r2",
		"RolloutSuperseded: revision r3 replaces r2 before every cluster has it",
		"RolloutStarted: revision r3 is rolled out to 2 clusters",
		"RolloutAborted: the rollout of revision r3 was aborted",
		"RolledBack: revision r3 was aborted; every cluster has revision r1 again",
		"CommandRejected: approve: no rollout of this revision is in progress, or it has no stage canary",
		"ClusterFailed: cluster canary1 has not become healthy with revision r3 within 600 s",
		"RolloutFailed: revision r3 failed in stage canary on canary1",
		"RolledBack: revision r3 failed in stage canary on canary1; every cluster has revision r1 again",
		"RolloutCompleted: the clusters have returned to revision r1",
		"CommandRejected: retry: revision r1 has not failed",
	}
	if diff := cmp.Diff(want, *events); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReportsOfLateClusters(t *testing.T) {
	s := newScene(t, Strategy{MaxConcurrency: number(1)}, "a", "b", "c", "d")
	s.each("b c d", isNotReady)
	s.request("r2")
	s.play(time.Minute)
	s.isAt(Completed, "")
	s.strategy.Paused = true
	s.each("b c d", isReady)
	s.play(time.Minute)
	s.isAt(Completed, propagationv1alpha1.ReasonRolloutPaused)
	s.is("message", s.decided().Report.Message, "the rollout is paused; 3 clusters of stage default still to get revision r2")
	s.strategy.Paused = false
	s.each("b", isSick)
	s.play(time.Hour)
	s.isAt(Completed, propagationv1alpha1.ReasonRolloutFailed)
	s.is("message", s.decided().Report.Message,
		"of the clusters of stage default that came late, 1 failed with revision r2; 2 others do not begin before they recover")
	s.each("b", isCured)
	s.play(time.Minute)
	s.isAt(Completed, "")
	s.is("updated", s.with("r2"), "a b c d")
}

// Events about many clusters leave room for those about the rollout.
func TestManyEvents(t *testing.T) {
	names := []string{}
	for i := range 40 {
		names = append(names, "canary"+strconv.Itoa(i))
	}
	s := newScene(t, canaryThenRest(nil), names...)
	events := s.collectEvents()
	s.requestBad("r2")
	s.play(time.Hour)
	last := (*events)[len(*events)-1]
	if len(*events) > 2+maxEvents+1 || !strings.HasPrefix(last, propagationv1alpha1.ReasonRolloutFailed) {
		t.Errorf("%d events, the last one: %s", len(*events), last)
	}
	if got := len(s.status.Failure.ClusterNames); got != propagationv1alpha1.MaxFailedClusters || s.status.Failure.Clusters != 40 {
		t.Errorf("%d of %d names", got, s.status.Failure.Clusters)
	}
}

func TestEventsOfOldRevisions(t *testing.T) {
	s := newScene(t, canaryThenRest(func(s *Strategy) { s.SoakSeconds = 3600 }), "canary1", "rest1")
	s.request("r2")
	s.play(time.Minute)
	events := s.collectEvents()
	s.request("r1")
	s.complete()
	s.is("event", strings.Join(*events, "; "), "RolloutSuperseded: revision r1 replaces r2 before every cluster has it")
	s.play(time.Minute)
	s.requestBad("r3")
	s.play(time.Hour)
	s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
	s.request("r4")
	s.play(time.Minute)
	*events = nil
	s.request("r3")
	s.complete()
	s.is("event", strings.Join(*events, "; "), "RolloutSuperseded: revision r3 replaces r4 before every cluster has it")
	s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
}
