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

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Rule 13: an approval is for one stage and one revision. It ends the soak, and is
// latched.
func TestApproval(t *testing.T) {
	s := newScene(t, soaking(nil), "canary1", "rest1")
	s.request("r2")
	s.play(2 * time.Hour)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutAwaitingApproval)
	for _, wrong := range []string{"canary@r1", "rest@r2", "canary", "@r2", "canary@", "r2", "canary@r22"} {
		s.command(func(c *Commands) { c.Approve = wrong })
		s.play(time.Minute)
		s.is("after "+wrong, s.status.Reason, propagationv1alpha1.ReasonRolloutAwaitingApproval)
	}
	s.command(func(c *Commands) { c.Approve = "canary@r2" })
	s.play(time.Minute)
	s.isAt(Completed, "")
}

func TestApprovalEndsTheSoak(t *testing.T) {
	s := newScene(t, soaking(nil), "canary1", "rest1")
	s.request("r2")
	s.complete()
	s.command(func(c *Commands) { c.Approve = "canary@r2/please" })
	s.complete()
	s.command(func(c *Commands) { *c = Commands{} })
	s.play(time.Minute)
	s.isAt(Completed, "")
}

// Rule 13: an approval is void after a retry, even if the annotation is still there.
func TestApprovalsAreFollowedOnce(t *testing.T) {
	s := newScene(t, soaking(nil), "canary1", "rest1")
	s.request("r2")
	s.each("canary1", isSick)
	s.command(func(c *Commands) { c.Approve = "canary@r2" })
	s.play(15 * time.Minute)
	s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
	s.each("canary1", isCured)
	s.command(func(c *Commands) { c.Retry = "r2" })
	s.play(2 * time.Hour)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutAwaitingApproval)
	s.is("message", s.decided().Report.Message, "stage canary: 1 of 1 clusters ready with revision r2; to continue, approve canary@r2/again")
	s.command(func(c *Commands) { c.Approve = "canary@r2/again" })
	s.play(time.Minute)
	s.isAt(Completed, "")
}

// Rule 13: aborting returns the clusters, whatever onFailure says.
func TestAbort(t *testing.T) {
	s := newScene(t, soaking(nil), "canary1", "rest1")
	s.request("r2")
	s.play(time.Minute)
	s.command(func(c *Commands) { c.Abort = "r1" })
	s.play(time.Minute)
	s.is("an abort of another revision", s.with("r2"), "canary1")
	s.command(func(c *Commands) { c.Abort = "r2" })
	s.play(time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
	s.command(func(c *Commands) { c.Retry = "r2" })
	s.play(time.Minute)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutSoaking)
	s.is("an old abort is not followed again", s.with("r2"), "canary1")
}

// After a failure without a rollback, an abort returns the clusters.
func TestAbortAfterAFailure(t *testing.T) {
	s := newScene(t, canaryThenRest(nil), "canary1", "rest1")
	s.requestBad("r2")
	s.play(time.Hour)
	s.isAt(Failed, propagationv1alpha1.ReasonRolloutFailed)
	s.command(func(c *Commands) { c.Abort = "r2" })
	s.play(time.Minute)
	s.isAt(RolledBack, propagationv1alpha1.ReasonRolledBack)
	s.is("message", s.decided().Report.Message, "revision r2 failed in stage canary on canary1; every cluster has revision r1 again")
}

// Rule 13: a pause stops what has not begun, also a rollback, until somebody resumes.
func TestPause(t *testing.T) {
	for name, set := range map[string]func(s *scene, paused bool){
		"in the spec": func(s *scene, paused bool) { s.strategy.Paused = paused },
		"by command": func(s *scene, paused bool) {
			if paused {
				s.command(func(c *Commands) { c.Pause = "1" })
			} else {
				s.command(func(c *Commands) { c.Resume = "1" })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, canaryThenRest(nil), "canary1", "rest1")
			s.request("r2")
			s.complete()
			set(s, true)
			s.play(time.Hour)
			s.isAt(Progressing, propagationv1alpha1.ReasonRolloutPaused)
			s.is("the turn that had begun is over", s.with("r2"), "canary1")
			s.request("r1")
			s.play(time.Hour)
			s.isAt(Reverting, propagationv1alpha1.ReasonRolloutPaused)
			s.is("nothing returns", s.with("r2"), "canary1")
			set(s, false)
			s.play(time.Minute)
			s.isAt(Completed, "")
		})
	}
}

// Removing the annotation does not resume.
func TestAPauseIsLatched(t *testing.T) {
	s := newScene(t, canaryThenRest(nil), "canary1", "rest1")
	s.command(func(c *Commands) { c.Pause = "1" })
	s.request("r2")
	s.play(time.Minute)
	s.command(func(c *Commands) { *c = Commands{} })
	s.play(time.Hour)
	s.isAt(Progressing, propagationv1alpha1.ReasonRolloutPaused)
	s.is("updated", s.with("r2"), "")
}
