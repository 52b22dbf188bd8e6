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
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// scene is a world in which only happens what a test says. The invariants are checked
// there, too.
type scene struct {
	*world
	t *testing.T
}

// newScene is a world in which every cluster has r1. The names of clusters begin with
// the name of their stage.
func newScene(t *testing.T, strategy Strategy, clusters ...string) *scene {
	t.Helper()
	s := emptyScene(t, strategy, clusters...)
	s.request("r1")
	if s.strategy.Stages != nil {
		s.command(func(c *Commands) { c.Approve = "canary@r1" })
	}
	s.settle()
	if s.status.Phase != Completed {
		t.Fatalf("r1 is not complete: %s", told(s.status))
	}
	s.commands = Commands{}
	return s
}

// emptyScene is a world in which no cluster has anything.
func emptyScene(t *testing.T, strategy Strategy, clusters ...string) *scene {
	t.Helper()
	s := &scene{t: t, world: &world{decide: Decide, bad: map[string]bool{}, clusters: map[string]*simulated{}, strategy: strategy}}
	s.oracle.reset()
	if s.strategy.ProgressDeadlineSeconds == nil {
		s.strategy.ProgressDeadlineSeconds = ptr.To[int32](600)
	}
	for _, name := range clusters {
		s.join(name, strings.TrimRight(name, "0123456789"))
	}
	s.startProcess(0)
	t.Cleanup(func() {
		for _, v := range s.oracle.violations {
			t.Errorf("violated: %s: %s", v.invariant, v.text)
		}
		if t.Failed() {
			t.Log(strings.Join(s.story, "\n"))
		}
	})
	return s
}

// canaryThenRest has two stages.
func canaryThenRest(change func(*Strategy)) Strategy {
	s := Strategy{Stages: []Stage{{Name: "canary", ClusterSelector: ringed("canary")}, {Name: "rest", ClusterSelector: ringed("rest")}}}
	if change != nil {
		change(&s)
	}
	return s
}

func number(n int32) *intstr.IntOrString { return ptr.To(intstr.FromInt32(n)) }

func percent(text string) *intstr.IntOrString { return ptr.To(intstr.FromString(text)) }

// request requests a revision.
func (s *scene) request(revision string) {
	s.requested = revision
	s.revisions = max(s.revisions, int(revision[1]-'0'))
	s.tell("a user requests %s", revision)
}

// requestBad requests a revision with which no cluster is healthy.
func (s *scene) requestBad(revision string) {
	s.bad[revision] = true
	s.request(revision)
}

func (s *scene) command(change func(*Commands)) { change(&s.commands) }

// play lets everybody act until nothing changes without waiting, and then time pass.
func (s *scene) play(passes time.Duration) {
	end := s.now + passes
	for {
		version := s.statusVersion + s.versions
		s.complete()
		acted := false
		for _, name := range s.names() {
			acted = s.act(s.clusters[name]) || acted
		}
		switch next := s.leader.wake; {
		case acted || s.statusVersion+s.versions != version:
		case next > s.now && next <= end:
			s.now = next
		case s.now < end:
			s.now = end
		default:
			return
		}
	}
}

// with are the clusters that run a revision.
func (s *scene) with(revision string) string {
	return s.those(func(c *simulated) bool { return c.runs == revision })
}

// assigned are the clusters whose Work has a revision.
func (s *scene) assigned(revision string) string {
	return s.those(func(c *simulated) bool { return c.work != nil && c.work.revision == revision })
}

// inTurn are the clusters that have a turn to a revision.
func (s *scene) inTurn(revision string) string {
	return s.those(func(c *simulated) bool { return isRunning(turnOf(s.status, c.name), revision) })
}

// overdue are the clusters that have failed.
func (s *scene) overdue() string {
	return s.those(func(c *simulated) bool { t := turnOf(s.status, c.name); return t != nil && t.Failed })
}

func (s *scene) those(are func(*simulated) bool) string {
	names := slices.DeleteFunc(s.names(), func(name string) bool { return !are(s.clusters[name]) })
	return strings.Join(names, " ")
}

// is compares what is with what should be.
func (s *scene) is(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("at %v: %s: %q, want %q", s.now, what, got, want)
	}
}

// isAt checks the phase and the reason.
func (s *scene) isAt(phase Phase, reason string) {
	s.t.Helper()
	s.is("phase", string(s.status.Phase), string(phase))
	s.is("reason", s.status.Reason, reason)
}

// each sets something on several clusters.
func (s *scene) each(names string, change func(*simulated)) {
	for name := range strings.FieldsSeq(names) {
		change(s.clusters[name])
	}
}

func isNotReady(c *simulated)  { c.ready = false }
func isReady(c *simulated)     { c.ready = true }
func isSuspended(c *simulated) { c.suspended = true }
func isResumed(c *simulated)   { c.suspended = false }
func isSick(c *simulated)      { c.sick = true }
func isCured(c *simulated)     { c.sick = false }
