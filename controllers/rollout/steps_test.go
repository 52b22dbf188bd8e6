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
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// choices chooses from a seed.
type choices struct{ random *rand.Rand }

func seeded(seed uint64) *choices {
	return &choices{rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // a seed makes the choices repeatable
}

func (c *choices) below(n int) int { return c.random.IntN(n) }

func oneOf[T any](c *choices, of ...T) T { return of[c.below(len(of))] }

// step is one thing that happens. What its numbers mean depends on the world, so that a
// history without some of its steps is one too.
type step struct{ action, a, b int }

// action is what may happen. It returns what it has done; nothing if there was nothing to
// do.
type action struct {
	weight int
	do     func(w *world, a, b int) string
}

var actions = []action{
	{14, func(w *world, _, _ int) string { w.complete(); return "" }},
	{8, (*world).goOn},
	{4, func(w *world, _, _ int) string { w.round(w.leader); return fmt.Sprintf("%s decides", w.leader.name) }},
	{6, func(w *world, _, _ int) string { return w.writeNext(w.leader) }},
	{3, (*world).writeFormer},
	{2, (*world).crash},
	{2, (*world).takeOver},
	{12, func(w *world, a, _ int) string { w.act(w.pick(a)); return "" }},
	{8, func(w *world, _, _ int) string { w.actAll(); return "" }},
	{10, (*world).wait},
	{3, func(w *world, a, _ int) string { return toggle(w.pick(a), "is ready", &w.pick(a).ready) }},
	{2, func(w *world, a, _ int) string { return toggle(w.pick(a), "is suspended", &w.pick(a).suspended) }},
	{1, func(w *world, a, _ int) string { return toggle(w.pick(a), "is withheld", &w.pick(a).withheld) }},
	{1, (*world).conflict},
	{2, func(w *world, a, _ int) string { return toggle(w.pick(a), "is sick", &w.pick(a).sick) }},
	{1, func(w *world, a, _ int) string { return toggle(w.pick(a), "refuses", &w.pick(a).refuses) }},
	{1, (*world).relabel},
	{2, (*world).joinOrLeave},
	{1, (*world).unregister},
	{4, (*world).change},
	{1, (*world).changeNothing},
	{4, (*world).approveStage},
	{3, (*world).command},
	{2, (*world).changeStrategy},
	{2, (*world).disturbWork},
	{1, func(w *world, _, _ int) string {
		w.unreadable = !w.unreadable
		return fmt.Sprintf("unreadable: %t", w.unreadable)
	}},
	{1, (*world).loseStatus},
	{1, (*world).releaseOrAdopt},
}

// history is a seed and the steps that follow from it.
type history struct {
	seed  uint64
	steps []step
}

func newHistory(seed uint64, length int) history {
	choose, total := seeded(seed^0x5eed), 0
	for _, action := range actions {
		total += action.weight
	}
	// Each history has only some of the rare actions, or else they all disturb each other.
	var without [64]bool
	for i := range actions {
		without[i] = actions[i].weight < 5 && choose.below(3) == 0
	}
	h := history{seed: seed}
	for len(h.steps) < length {
		chosen, at := choose.below(total), 0
		for chosen >= actions[at].weight {
			chosen -= actions[at].weight
			at++
		}
		s := step{at, choose.below(1000), choose.below(1000)}
		if !without[at] {
			h.steps = append(h.steps, s)
		}
	}
	return h
}

func (w *world) pick(a int) *simulated {
	names := w.names()
	if len(names) == 0 {
		w.join("c0", "prod")
		return w.clusters["c0"]
	}
	return w.clusters[names[a%len(names)]]
}

func toggle(c *simulated, what string, value *bool) string {
	*value = !*value
	return fmt.Sprintf("%s %s: %t", c.name, what, *value)
}

func (w *world) writeNext(p *process) string {
	if p == nil || len(p.queue) == 0 {
		return ""
	}
	about := p.queue[0].about
	w.carryOut(p)
	return fmt.Sprintf("%s writes %s", p.name, about)
}

func (w *world) writeFormer(_, _ int) string {
	w.isFormer = true
	defer func() { w.isFormer = false }()
	return w.writeNext(w.former)
}

func (w *world) crash(a, _ int) string {
	w.startProcess(time.Duration(a%600-300) * time.Second)
	return fmt.Sprintf("the leader ends, and %s leads", w.leader.name)
}

func (w *world) takeOver(a, _ int) string {
	w.former = w.leader
	w.startProcess(time.Duration(a%600-300) * time.Second)
	return fmt.Sprintf("%s leads, and %s has %d writes to make", w.leader.name, w.former.name, len(w.former.queue))
}

func (w *world) actAll() {
	for _, name := range w.names() {
		w.act(w.clusters[name])
	}
}

// goOn lets members, leader and time go on undisturbed.
func (w *world) goOn(a, _ int) string {
	for range 1 + a%4 {
		w.complete()
		w.actAll()
		w.complete()
		w.now += time.Duration(6+a%7*5) * time.Second
	}
	return ""
}

func (w *world) wait(a, b int) string {
	w.now += time.Duration([]int{1, 3, 5, 10, 20, 61, 125}[a%7]) * time.Second
	if b%5 == 0 {
		w.now += 400 * time.Millisecond
	}
	return ""
}

func (w *world) conflict(a, _ int) string {
	c := w.pick(a)
	if c.conflict = !c.conflict; c.conflict {
		c.work, c.runs, c.known = nil, "", ""
	}
	return fmt.Sprintf("%s is held by somebody else: %t", c.name, c.conflict)
}

func (w *world) relabel(a, b int) string {
	c := w.pick(a)
	c.ring = []string{"canary", "prod", "other"}[b%3]
	return fmt.Sprintf("%s is now %s", c.name, c.ring)
}

func (w *world) joinOrLeave(a, b int) string {
	name := fmt.Sprintf("c%d", a%8)
	if c, found := w.clusters[name]; found {
		c.targeted = false
		return name + " leaves"
	}
	w.join(name, []string{"canary", "prod"}[b%2])
	return name + " joins"
}

func (w *world) unregister(a, _ int) string {
	c := w.pick(a)
	switch {
	case !c.exists:
		c.exists, c.terminating = true, false
		return c.name + " is registered"
	case !c.terminating:
		c.terminating = true
		return c.name + " is being unregistered"
	}
	c.exists, c.work, c.runs, c.known = false, nil, "", ""
	return c.name + " is unregistered"
}

// change changes what the user requests: something new, or something old.
func (w *world) change(a, b int) string {
	switch s := w.status; {
	case a%4 == 0 && s != nil && s.CurrentRevision != "":
		w.requested = s.CurrentRevision
	case a%4 == 1:
		w.requested = nameOfRevision(1 + b%w.revisions)
	default:
		w.newRevision()
		w.bad[w.requested] = b%3 == 0
	}
	return fmt.Sprintf("a user requests %s, which is bad: %t", w.requested, w.bad[w.requested])
}

// changeNothing is a change that concerns only clusters that have not got the revision
// yet. The others have the new one already.
func (w *world) changeNothing(a, _ int) string {
	old := w.requested
	if w.status == nil || w.status.UpdateRevision != old || w.unreadable {
		return ""
	}
	isUpdated := len(turnsTo(w.status, old)) > 0 ||
		slices.ContainsFunc(w.observe(w.leader).Clusters, func(c Cluster) bool { return hasConfirmed(&c, old) })
	w.newRevision()
	w.bad[w.requested], w.equivalent, w.former = w.bad[old], true, nil
	w.leader.queue = nil
	for _, name := range w.names() {
		c := w.clusters[name]
		for _, revision := range []*string{&c.runs, &c.known, &c.workOrNone().revision, &c.workOrNone().confirmed} {
			if *revision == old {
				*revision = w.requested
			}
		}
	}
	if a%2 == 1 && isUpdated && (w.status.Phase == Progressing || w.status.Phase == Failed) {
		w.replaced = old
	}
	w.tell("a user requests %s, which is %s for the clusters that have that; called so: %t", w.requested, old, w.replaced != "")
	w.complete()
	w.equivalent, w.replaced = false, ""
	return ""
}

// named is what is observed, with the revisions as the caller calls them.
func (w *world) named(in *Input) *Input {
	if w.replaced == "" {
		return in
	}
	named := *in
	named.Clusters = slices.Clone(in.Clusters)
	for i := range named.Clusters {
		for _, revision := range []*string{&named.Clusters[i].Assigned, &named.Clusters[i].Confirmed} {
			if *revision == in.UpdateRevision {
				*revision = w.replaced
			}
		}
	}
	return &named
}

func (c *simulated) workOrNone() *work {
	if c.work == nil {
		return &work{}
	}
	return c.work
}

func (w *world) approveStage(a, b int) string {
	stage, revision := "canary", w.requested
	if w.status != nil && w.status.Stage != "" {
		stage = w.status.Stage
	}
	if a%5 == 0 {
		revision = nameOfRevision(1 + b%w.revisions)
	}
	if command := fmt.Sprintf("%s@%s/%d", stage, revision, b%3); command != w.commands.Approve {
		w.commands.Approve = command
		delete(w.oracle.approvals, command)
	}
	return "a user requests approve: " + w.commands.Approve
}

func (w *world) command(a, b int) string {
	value := fmt.Sprintf("%s/%d", w.requested, b%9)
	switch a % 6 {
	case 0, 1:
		w.commands.Retry = value
	case 2:
		w.commands.Abort = value
	case 3:
		w.commands.Pause = value
	case 4:
		w.commands.Resume = value
	case 5:
		w.commands = Commands{}
	}
	return fmt.Sprintf("a user requests %+v", w.commands)
}

func (w *world) changeStrategy(a, b int) string {
	s := &w.strategy
	switch a % 10 {
	case 0:
		s.Paused = !s.Paused
	case 1:
		s.OnFailure = []FailurePolicy{FailurePause, FailureRollback}[b%2]
	case 2:
		s.MaxConcurrency = []*intstr.IntOrString{nil, ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromString("50%"))}[b%3]
	case 3:
		if len(s.Stages) == 2 {
			s.Stages = []Stage{s.Stages[1], s.Stages[0]}
		}
	case 4:
		s.SoakSeconds = []int32{0, 30, 100}[b%3]
	case 5:
		s.MaxFailures = []*intstr.IntOrString{nil, ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromString("40%"))}[b%3]
	case 6:
		name := []string{"canary", "first"}[b%2]
		if len(s.Stages) > 0 && !slices.ContainsFunc(s.Stages, func(stage Stage) bool { return stage.Name == name }) {
			s.Stages = slices.Clone(s.Stages)
			s.Stages[0].Name = name
		}
	case 7:
		if len(s.Stages) > 1 {
			at := b % len(s.Stages)
			s.Stages = slices.Concat(s.Stages[:at], s.Stages[at+1:])
		}
	case 8:
		s.ProgressDeadlineSeconds = ptr.To([]int32{60, 120, 300}[b%3])
	case 9:
		s.MinReadySeconds = ptr.To([]int32{0, 5, 30}[b%3])
	}
	return fmt.Sprintf("a user changes the strategy: paused %t, on failure %s, concurrency %v", s.Paused, s.OnFailure, s.MaxConcurrency)
}

// disturbWork deletes or edits a Work.
func (w *world) disturbWork(a, b int) string {
	c := w.pick(a)
	if c.work == nil {
		return ""
	}
	if b%2 == 0 {
		if b%4 == 0 {
			c.known = c.work.confirmed
		}
		c.work, c.runs = nil, ""
		return "somebody deletes the Work of " + c.name
	}
	w.versions++
	c.work.edited, c.work.applied, c.work.version = true, false, w.versions
	return "somebody edits the Work of " + c.name
}

func (w *world) loseStatus(a, _ int) string {
	if a%4 != 0 {
		return ""
	}
	w.status = nil
	w.statusVersion++
	w.oracle.abandon()
	return "the status is lost"
}

func (w *world) releaseOrAdopt(a, _ int) string {
	if a%3 != 0 && !w.released {
		return ""
	}
	w.released = !w.released
	return fmt.Sprintf("a user removes the strategy: %t", w.released)
}
