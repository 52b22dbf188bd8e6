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
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// mutation is a decision that is wrong, because it is based on something untrue, or
// because its outcome is changed.
type mutation struct {
	name string
	// invariant is what must be found to be violated.
	invariant string
	input     func(in *Input)
	output    func(in *Input, decided *Decision)
}

var mutations = []mutation{
	{name: "concurrency is ignored", invariant: "slots", input: func(in *Input) {
		in.Strategy.MaxConcurrency = nil
		for i := range in.Strategy.Stages {
			in.Strategy.Stages[i].MaxConcurrency = nil
		}
	}},
	{name: "a cluster of a later stage begins early", invariant: "order", output: beginEarly},
	{name: "a turn counts as over when it begins", invariant: "done", input: eachCluster(func(c *Cluster) {
		c.Confirmed, c.Applied, c.Health = c.Assigned, true, propagationv1alpha1.HealthHealthy
	})},
	{name: "health needs not last", invariant: "done", input: func(in *Input) { in.Strategy.MinReadySeconds = ptr.To[int32](0) }},
	{name: "stages do not soak", invariant: "soak", input: func(in *Input) {
		in.Strategy.SoakSeconds = 0
		for i := range in.Strategy.Stages {
			in.Strategy.Stages[i].SoakSeconds = nil
		}
	}},
	{name: "a soak counts from before the revision", invariant: "soak", output: func(_ *Input, decided *Decision) {
		eachStage(decided, func(s *StageStatus) {
			if s.ReadySince != nil {
				s.ReadySince = ptr.To(metav1.NewTime(epoch))
			}
		})
	}},
	{name: "no approval is needed", invariant: "approval", input: func(in *Input) {
		for i := range in.Strategy.Stages {
			in.Strategy.Stages[i].Approval = ""
		}
	}},
	{name: "an approval is for every revision", invariant: "approval", output: func(in *Input, decided *Decision) {
		eachStage(decided, func(s *StageStatus) {
			if in.Status != nil && approvedBefore(in.Status, s.Name) != "" {
				s.ApprovedRevision = decided.Status.UpdateRevision
			}
		})
	}},
	{name: "failures are unlimited", invariant: "budget", input: func(in *Input) { in.Strategy.MaxFailures = ptr.To(intstr.FromString("100%")) }},
	{name: "the stage is not cleared", invariant: "position", output: func(in *Input, decided *Decision) {
		if in.Status != nil && decided.Status != nil && decided.Status.Stage == "" {
			decided.Status.Stage = in.Status.Stage
		}
	}},
	{name: "a budget remains that of the last rollout", invariant: "base", output: func(_ *Input, decided *Decision) {
		eachStage(decided, func(s *StageStatus) { s.ResolvedFor++ })
	}},
	{name: "a failure is forgotten", invariant: "budget", input: func(in *Input) {
		if in.Status != nil && in.Status.Phase == Failed {
			in.Status.Phase, in.Status.FailedRevision = Progressing, ""
			in.Status.Turns = nil
		}
	}},
	{name: "clusters that cannot get anything begin", invariant: "deferred", input: eachCluster(func(c *Cluster) {
		c.Ready, c.Suspended, c.Conflict = true, false, false
	})},
	{name: "a deferred cluster counts as ready", invariant: "success", output: func(_ *Input, decided *Decision) {
		eachStage(decided, func(s *StageStatus) { s.Ready, s.Deferred = s.Ready+s.Deferred, 0 })
	}},
	{name: "a held cluster gets the update", invariant: "held", output: func(_ *Input, decided *Decision) {
		for i := range decided.Assignments {
			if a := &decided.Assignments[i]; a.State == Waiting && decided.Status != nil {
				a.Revision = decided.Status.UpdateRevision
			}
		}
	}},
	{name: "a Work is written before its turn is recorded", invariant: "held", output: func(_ *Input, decided *Decision) { decided.RecordFirst = false }},
	{name: "an abandoned revision stays", invariant: "return", output: func(in *Input, decided *Decision) {
		for i := range decided.Assignments {
			c := in.Clusters[i]
			if a := &decided.Assignments[i]; turnOf(decided.Status, a.Cluster) == nil && c.Assigned != "" {
				a.Revision, a.Suspend = c.Assigned, false
			}
		}
	}},
	{name: "an abandoned revision is not suspended", invariant: "return", output: func(_ *Input, decided *Decision) {
		for i := range decided.Assignments {
			decided.Assignments[i].Suspend = false
		}
	}},
	{name: "a process fails clusters that it has just begun to watch", invariant: "deadline", input: func(in *Input) { in.Watched = time.Hour }},
	{name: "clusters fail too early", invariant: "deadline", input: func(in *Input) { in.Strategy.ProgressDeadlineSeconds = ptr.To[int32](70) }},
	{name: "clusters never fail", invariant: "deadline", input: func(in *Input) { in.Strategy.ProgressDeadlineSeconds = ptr.To[int32](100_000) }},
	{name: "time counts against a cluster that is withheld", invariant: "deadline", input: func(in *Input) {
		for i := range in.Clusters {
			in.Clusters[i].Withheld = false
		}
	}},
	{name: "a process restarts the clocks", invariant: "deadline", output: func(in *Input, decided *Decision) {
		if decided.Status != nil && in.Watched < 10*time.Second {
			for i := range decided.Status.Turns {
				decided.Status.Turns[i].StartedAt = metav1.NewTime(in.Now.Add(-200 * time.Second))
			}
		}
	}},
	{name: "a pause is ignored", invariant: "paused", input: func(in *Input) {
		in.Strategy.Paused, in.Commands.Pause = false, ""
		if in.Status != nil {
			in.Status.Paused = false
		}
	}, output: func(in *Input, decided *Decision) {
		if decided.Status != nil {
			decided.Status.Paused = in.Commands.Pause != ""
		}
	}},
	{name: "something starts without a resource", invariant: "unreadable", input: func(in *Input) {
		if in.UpdateRevision == "" && in.Status != nil {
			in.UpdateRevision = in.Status.UpdateRevision
		}
	}},
	{name: "an abandoned revision becomes current", invariant: "current", output: func(in *Input, decided *Decision) {
		if in.Status != nil && decided.Status != nil && decided.Status.Phase == Progressing && in.Status.UpdateRevision != decided.Status.UpdateRevision {
			decided.Status.CurrentRevision = in.Status.UpdateRevision
		}
	}},
	{name: "the loss of the status goes unnoticed", invariant: "lost", input: func(in *Input) { in.HasSnapshots = false }},
	{name: "a decision changes what it gets", invariant: "pure", output: func(in *Input, _ *Decision) {
		if len(in.Clusters) > 0 {
			in.Clusters[0].Ready = !in.Clusters[0].Ready
		}
	}},
	{name: "a decision fails", invariant: "valid", input: func(in *Input) { in.Strategy.MaxFailures = ptr.To(intstr.FromString("some")) }},
	{name: "nobody looks again", invariant: "end", output: func(_ *Input, decided *Decision) { decided.Wait = 0 }},
	{name: "stopped turns do not go on", invariant: "end", input: eachCluster(func(c *Cluster) {
		c.Suspended = c.Suspended || c.Assigned != "" && !c.Dispatched
	})},
}

// eachCluster changes what is observed of each cluster.
func eachCluster(change func(*Cluster)) func(*Input) {
	return func(in *Input) {
		for i := range in.Clusters {
			change(&in.Clusters[i])
		}
	}
}

func eachStage(decided *Decision, change func(*StageStatus)) {
	if decided.Status != nil {
		for i := range decided.Status.Stages {
			change(&decided.Status.Stages[i])
		}
	}
}

// beginEarly gives a turn to a cluster of a stage that is not begun.
func beginEarly(in *Input, decided *Decision) {
	s := decided.Status
	if s == nil || s.Phase != Progressing || s.CurrentRevision == "" {
		return
	}
	for i := range in.Clusters {
		c := &in.Clusters[i]
		if turnOf(s, c.Name) == nil && !isOff(c) && stageOf(in.Strategy, c) != s.Stage && c.Assigned == s.CurrentRevision {
			s.Turns = append(s.Turns, Turn{Revision: s.UpdateRevision, StartedAt: metav1.NewTime(in.Now), ClusterNames: []string{c.Name}})
			return
		}
	}
}

// mutated is a decision with a mutation.
func (m *mutation) mutated(in *Input) (Decision, error) {
	changed := *in
	changed.Clusters, changed.Status = slices.Clone(in.Clusters), cloned(in.Status)
	if in.Strategy != nil {
		strategy := *in.Strategy
		strategy.Stages = slices.Clone(strategy.Stages)
		changed.Strategy = &strategy
		if m.input != nil {
			m.input(&changed)
		}
	}
	decided, err := Decide(&changed)
	if m.output != nil && in.Strategy != nil {
		m.output(in, &decided)
	}
	return decided, err
}

// TestMutations: every invariant can be violated, and is found to be violated.
func TestMutations(t *testing.T) {
	t.Parallel()
	for i := range mutations {
		m := &mutations[i]
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := range 1500 {
				h := newHistory(uint64(seed+1), lengthOf(seed)) //nolint:gosec // positive
				found := run(h, m.mutated)
				if slices.ContainsFunc(found.violations, func(v violation) bool { return v.invariant == m.invariant }) {
					t.Logf("found in history %d: %s", seed+1, found.violations[0].text)
					return
				}
			}
			t.Errorf("no history shows that %q is violated", m.invariant)
		})
	}
}
