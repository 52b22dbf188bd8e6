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
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Decision is what to record, what each cluster gets, and what to report.
type Decision struct {
	// Status is what to record; nil if there is no rollout to remember.
	Status *Status
	// RecordFirst: the assignments depend on what is new in the status. Write a Work only
	// after the API server has accepted the status.
	RecordFirst bool
	// Assignments has an entry for each target, by name.
	Assignments []Assignment
	Report      Report
	Events      []Event
	// Wait is when to decide again even if nothing that is observed changes; 0 if there
	// is no need.
	Wait time.Duration
}

// decision is a decision in the making.
type decision struct {
	in       *Input
	strategy Strategy
	// next is the new status. Its Turns are in members until the end.
	next    Status
	members []member
	stages  []stage
	// position is the index of the first stage that is not passed.
	position int
	events   []Event
	wait     time.Duration
}

// member is a target in a rollout.
type member struct {
	*Cluster
	stage int
	// turn is the turn of the cluster, and recorded the one that the recorded status
	// has.
	turn, recorded turn
}

// stage is a stage of the strategy with its members, by name.
type stage struct {
	StageStatus
	spec    Stage
	members []*member
}

// Decide decides about one object. It returns an error if the strategy is not valid;
// then nothing may be written. Its time is proportional to the number of clusters.
func Decide(in *Input) (Decision, error) {
	if in.Strategy == nil && !in.Status.isFailed(in.UpdateRevision) {
		return release(in), nil
	}
	d, err := newDecision(in)
	if err != nil {
		return Decision{}, err
	}
	switch {
	case in.Status == nil && in.UpdateRevision == "":
		// There is nothing to begin with.
		return Decision{Assignments: d.assignments(), Report: d.report()}, nil
	case in.Status == nil:
		d.adopt()
	default:
		d.followRevision()
	}
	d.followCommands()
	if err := d.resolveBudgets(); err != nil {
		return Decision{}, err
	}
	d.observeTurns()
	d.judge()
	d.advance()
	d.start()
	d.finish()
	return d.outcome(), nil
}

// newDecision sorts the clusters into stages and turns.
func newDecision(in *Input) (*decision, error) {
	d := &decision{in: in}
	if in.Strategy != nil {
		d.strategy = *in.Strategy
	}
	if in.Status != nil {
		d.next = *in.Status
	}
	index, err := newStageIndex(d.strategy.Stages)
	if err != nil {
		return nil, err
	}
	d.members = make([]member, len(in.Clusters))
	for i := range in.Clusters {
		d.members[i] = member{Cluster: &in.Clusters[i], stage: index.of(&in.Clusters[i])}
	}
	slices.SortFunc(d.members, func(a, b member) int { return strings.Compare(a.Name, b.Name) })
	d.takeTurns()
	d.gatherStages()
	return d, nil
}

// gatherStages sets stages, with what is recorded about the stages of the same names.
func (d *decision) gatherStages() {
	strategies := slices.Clone(d.strategy.Stages)
	if len(strategies) == 0 || slices.ContainsFunc(d.members, func(m member) bool { return m.stage == len(strategies) }) {
		strategies = append(strategies, Stage{Name: DefaultStage})
	}
	recorded := make(map[string]StageStatus, len(d.next.Stages))
	for i := range d.next.Stages {
		recorded[d.next.Stages[i].Name] = d.next.Stages[i]
	}
	d.stages = make([]stage, len(strategies))
	for i := range strategies {
		d.stages[i] = stage{spec: strategies[i], StageStatus: recorded[strategies[i].Name]}
		d.stages[i].Name = strategies[i].Name
	}
	for i := range d.members {
		of := &d.stages[d.members[i].stage]
		of.members = append(of.members, &d.members[i])
	}
}

// resolveBudgets resolves the percentages of all stages.
func (d *decision) resolveBudgets() error {
	for i := range d.stages {
		if err := d.resolve(&d.stages[i]); err != nil {
			return err
		}
	}
	return nil
}

// resolve sets how many clusters of a stage may be in progress, and how many may fail.
// A percentage refers to the highest number of clusters since the stage began, so that
// clusters that leave do not shrink the budget.
func (d *decision) resolve(s *stage) error {
	s.Clusters = int32(len(s.members)) //nolint:gosec // bounded by the schema
	if s.StartedAt == nil {
		s.ResolvedFor = 0
	}
	s.ResolvedFor = max(s.ResolvedFor, s.Clusters)
	limit := d.strategy.MaxConcurrency
	if s.spec.MaxConcurrency != nil {
		limit = s.spec.MaxConcurrency
	}
	concurrency, err := resolve(limit, hundredPercent, s.ResolvedFor)
	if err != nil {
		return fmt.Errorf("stage %s: maxConcurrency: %w", s.Name, err)
	}
	s.MaxConcurrency = max(1, concurrency)
	if s.MaxFailures, err = resolve(d.strategy.MaxFailures, none, s.ResolvedFor); err != nil {
		return fmt.Errorf("maxFailures: %w", err)
	}
	return nil
}

// outcome puts the decision together.
func (d *decision) outcome() Decision {
	report := d.report()
	d.announce(report)
	d.next.Reason = report.Reason
	d.next.Stages = make([]StageStatus, len(d.stages))
	for i := range d.stages {
		d.next.Stages[i] = d.summarize(&d.stages[i])
	}
	d.next.Turns = grouped(d.members)
	decided := Decision{Status: &d.next, Assignments: d.assignments(), Report: report, Events: d.events, Wait: d.wait}
	decided.RecordFirst = d.in.Status == nil
	for i := range d.members {
		m := &d.members[i]
		revision, suspend := assign(d.in.Status, &m.recorded, m.Cluster)
		decided.RecordFirst = decided.RecordFirst || revision != decided.Assignments[i].Revision || suspend != decided.Assignments[i].Suspend
	}
	return decided
}

// stamp is the current time as it is recorded: in whole seconds, rounded up, so that
// nothing that is counted from it ends early.
func (d *decision) stamp() int64 {
	seconds := d.in.Now.Unix()
	if d.in.Now.Nanosecond() > 0 {
		seconds++
	}
	return seconds
}

func (d *decision) stampTime() *metav1.Time { return ptr.To(metav1.Unix(d.stamp(), 0)) }

// remaining returns what is left of a number of seconds that began at a recorded time.
func (d *decision) remaining(since int64, seconds int32) time.Duration {
	return max(0, time.Unix(since, 0).Add(time.Duration(seconds)*time.Second).Sub(d.in.Now))
}

// lookAgain asks for another decision after a time.
func (d *decision) lookAgain(after time.Duration) {
	if after > 0 && (d.wait == 0 || after < d.wait) {
		d.wait = after
	}
}
