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

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// epoch is when every simulated world begins, in the middle of a second.
var epoch = time.Date(2026, 1, 1, 12, 0, 0, 300_000_000, time.UTC)

// world is a control plane with members, users and processes of the controller, as far as
// the decision sees them.
type world struct {
	decide func(*Input) (Decision, error)
	// versions counts the versions of Works.
	versions int
	// rounds counts the decisions.
	rounds int
	// now is the true time since the epoch.
	now      time.Duration
	strategy Strategy
	// released: the object does not ask for rollouts now.
	released   bool
	requested  string
	unreadable bool
	// neverBack: the resource must not return to an older revision.
	neverBack  bool
	equivalent bool
	// replaced is what the caller still calls the requested revision on Works that hold
	// the same under that name; empty if it knows the new name.
	replaced string
	commands Commands
	// revisions is how many revisions there have been, bad those that make every cluster
	// unhealthy.
	revisions int
	bad       map[string]bool
	clusters  map[string]*simulated

	status        *Status
	statusVersion int
	hasSnapshots  bool

	// leader is the process that leads, former one that led before and may still have
	// writes to make.
	leader, former *process
	// isFormer: the former leader acts now.
	isFormer bool
	skewed   bool
	started  int

	oracle oracle
	story  []string
}

// simulated is a member and its Work.
type simulated struct {
	name, ring                           string
	targeted, exists, ready, terminating bool
	suspended, conflict, sick, refuses   bool
	// withheld: the API server refuses to give the Work another revision.
	withheld bool
	work     *work
	// runs is what the member runs, and known what it has confirmed, without a Work.
	runs, known string
}

// work is the Work of a member.
type work struct {
	version              int
	revision, confirmed  string
	applied, refused     bool
	edited, isSuspended  bool
	healthKnown, healthy bool
}

// process is a process of the controller.
type process struct {
	name    string
	started time.Duration
	// skew is what its clock is wrong by.
	skew  time.Duration
	queue []write
	// wake is when it decides again although nothing has changed; 0 if never.
	wake time.Duration
}

// sight is what a process has seen, and when by the true time.
type sight struct {
	*Input
	at time.Duration
}

// write is a write that a process has decided on.
type write struct {
	about string
	// do returns false if the API server refuses it, and then the rest is not written.
	do func() bool
}

func newWorld(choose *choices, decide func(*Input) (Decision, error)) *world {
	w := &world{decide: decide, bad: map[string]bool{}, clusters: map[string]*simulated{}, skewed: choose.below(4) == 3, neverBack: choose.below(8) == 7}
	w.oracle.reset()
	w.strategy = Strategy{
		MaxConcurrency: oneOf(choose, nil, ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromString("50%")), ptr.To(intstr.FromInt32(2))),
		MaxFailures:    oneOf(choose, nil, ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromString("40%"))),
		SoakSeconds:    oneOf[int32](choose, 0, 30, 0, 100), MinReadySeconds: oneOf(choose, nil, ptr.To[int32](0), ptr.To[int32](5)),
		ProgressDeadlineSeconds: ptr.To[int32](120), OnFailure: oneOf(choose, FailurePause, FailureRollback),
	}
	switch choose.below(4) {
	case 1:
		w.strategy.Stages = []Stage{{Name: "canary", ClusterNames: []string{"c0"}}}
	case 2:
		w.strategy.Stages = []Stage{
			{Name: "canary", ClusterSelector: ringed("canary"), Approval: oneOf(choose, "", ApprovalRequired)},
			{Name: "rest", ClusterSelector: &metav1.LabelSelector{}, MaxConcurrency: ptr.To(intstr.FromString("34%"))},
		}
	case 3:
		w.strategy.Stages = []Stage{
			{Name: "canary", ClusterSelector: ringed("canary"), SoakSeconds: ptr.To[int32](60)},
			{Name: "early", ClusterNames: []string{"c1", "c2"}, Approval: ApprovalRequired},
		}
	}
	for i := range 3 + choose.below(4) {
		w.join(fmt.Sprintf("c%d", i), oneOf(choose, "canary", "prod", "prod"))
	}
	w.newRevision()
	w.startProcess(0)
	if choose.below(3) > 0 {
		w.install()
	}
	return w
}

// install gives every cluster the first revision, and requests the second one.
func (w *world) install() {
	for _, c := range w.clusters {
		c.runs, c.work = w.requested, &work{revision: w.requested, confirmed: w.requested, applied: true, healthKnown: true, healthy: true}
	}
	w.complete()
	w.newRevision()
}

func ringed(ring string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"ring": ring}}
}

func (w *world) join(name, ring string) {
	w.clusters[name] = &simulated{name: name, ring: ring, exists: true, ready: true, targeted: true}
}

func (w *world) newRevision() {
	w.revisions++
	w.requested = nameOfRevision(w.revisions)
}

func nameOfRevision(number int) string { return fmt.Sprintf("r%d", number) }

// startProcess starts a process that leads.
func (w *world) startProcess(skew time.Duration) {
	w.started++
	if !w.skewed {
		skew = 0
	}
	w.leader = &process{name: fmt.Sprintf("p%d", w.started), started: w.now, skew: skew}
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%6.0f s  ", w.now.Seconds())+fmt.Sprintf(format, args...))
}

// names are the clusters that exist in the world, in order.
func (w *world) names() []string {
	names := make([]string, 0, len(w.clusters))
	for name := range w.clusters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// observe is what a process sees now.
func (w *world) observe(p *process) *Input {
	in := &Input{
		Now: epoch.Add(w.now + p.skew), Watched: w.now - p.started, Status: cloned(w.status), UpdateRevision: w.requested,
		HasSnapshots: w.hasSnapshots, Commands: w.commands, Equivalent: w.equivalent, NeverRollBack: w.neverBack,
	}
	if w.unreadable {
		in.UpdateRevision = ""
	}
	if !w.released {
		strategy := w.strategy
		in.Strategy = &strategy
	}
	for _, name := range w.names() {
		if c := w.clusters[name]; c.targeted {
			seen := c.observed()
			t := turnOf(w.status, name)
			seen.Withheld = c.withheld && t != nil && seen.Assigned != t.Revision
			in.Clusters = append(in.Clusters, seen)
		}
	}
	return in
}

func (c *simulated) observed() Cluster {
	seen := Cluster{
		Name: c.name, Labels: map[string]string{"ring": c.ring}, Exists: c.exists, Terminating: c.terminating, Ready: c.ready && c.exists,
		Suspended: c.suspended, Conflict: c.conflict, Health: propagationv1alpha1.HealthUnknown,
	}
	if c.work == nil && !c.conflict && c.exists {
		seen.Confirmed = c.known
	}
	if c.work == nil || c.conflict || !c.exists {
		return seen
	}
	seen.Assigned, seen.Confirmed, seen.Applied, seen.Refused = c.work.revision, c.work.confirmed, c.work.applied, c.work.refused
	seen.Dispatched = !c.work.isSuspended
	if c.work.healthKnown && c.work.applied {
		seen.Health = propagationv1alpha1.HealthUnhealthy
		if c.work.healthy {
			seen.Health = propagationv1alpha1.HealthHealthy
		}
	}
	return seen
}

func cloned(status *Status) *Status {
	if status == nil {
		return nil
	}
	clone := *status
	clone.Stages, clone.Turns = slices.Clone(status.Stages), slices.Clone(status.Turns)
	return &clone
}

// round lets a process observe and decide, and queues what it writes.
func (w *world) round(p *process) {
	in := w.observe(p)
	decided, err := w.decide(w.named(in))
	if err != nil {
		w.oracle.violated("valid", "the decision fails: %v", err)
		return
	}
	if w.rounds++; w.rounds%32 == 0 {
		w.checkPure(p, in, &decided)
	}
	p.queue, p.wake = nil, 0
	if decided.Wait > 0 {
		p.wake = w.now + decided.Wait
	}
	base, seen := w.statusVersion, sight{in, w.now}
	record := write{about: "the status", do: func() bool { return w.record(seen, base, &decided) }}
	switch works := w.workWrites(seen, &decided); {
	case same(in.Status, decided.Status):
		w.oracle.accept(w, seen, decided.Status)
		p.queue = works
	case decided.RecordFirst:
		p.queue = append([]write{record}, works...)
	default:
		p.queue = slices.Concat(works, []write{record})
	}
}

// checkPure: a decision changes nothing that it gets, and is the same when it is repeated.
func (w *world) checkPure(p *process, in *Input, decided *Decision) {
	fresh := w.observe(p)
	if !same(in.Status, fresh.Status) || !slices.EqualFunc(in.Clusters, fresh.Clusters, func(a, b Cluster) bool { return equality.Semantic.DeepEqual(a, b) }) {
		w.oracle.violated("pure", "a decision changes what it gets")
	}
	if again, _ := w.decide(w.named(fresh)); !equality.Semantic.DeepEqual(&again, decided) {
		w.oracle.violated("pure", "a decision is another one when it is repeated")
	}
}

// record writes the status.
func (w *world) record(seen sight, base int, decided *Decision) bool {
	if w.statusVersion != base {
		return false
	}
	w.statusVersion++
	w.oracle.accept(w, seen, decided.Status)
	w.status = cloned(decided.Status)
	w.hasSnapshots = decided.Status != nil
	if decided.Status != nil {
		w.tell("status: %s", told(decided.Status))
	}
	return true
}

// workWrites are the writes of Works that a decision requires.
func (w *world) workWrites(in sight, decided *Decision) []write {
	writes := []write{}
	for i := range decided.Assignments {
		assigned := decided.Assignments[i]
		c := w.clusters[assigned.Cluster]
		seen := in.Clusters[slices.IndexFunc(in.Clusters, func(c Cluster) bool { return c.Name == assigned.Cluster })]
		version := 0
		if c.work != nil {
			version = c.work.version
		}
		suspend := assigned.Suspend || seen.Suspended
		if !c.exists || c.conflict || c.terminating || assigned.Revision == "" ||
			c.work != nil && c.work.revision == assigned.Revision && c.work.isSuspended == suspend && !c.work.edited {
			continue
		}
		if c.withheld && (c.work == nil || c.work.revision != assigned.Revision) {
			continue
		}
		writes = append(writes, write{about: c.name, do: func() bool {
			w.writeWork(c, version, assigned.Revision, suspend, decided.Status)
			return true
		}})
	}
	return writes
}

// writeWork writes the Work of a cluster, unless it has changed since it was seen.
func (w *world) writeWork(c *simulated, version int, revision string, suspend bool, by *Status) {
	has := 0
	if c.work != nil {
		has = c.work.version
	}
	if has != version || w.clusters[c.name] != c || c.conflict || !c.exists {
		return
	}
	w.oracle.checkWrite(w, c, revision, by)
	if c.work == nil {
		c.work = &work{confirmed: c.known}
	}
	c.known = ""
	w.tell("the Work of %s: %s%s", c.name, revision, map[bool]string{true: ", suspended"}[suspend])
	w.versions++
	c.work.version = w.versions
	c.work.isSuspended = suspend
	if c.work.revision != revision || c.work.edited {
		c.work.applied, c.work.refused, c.work.healthKnown, c.work.edited = false, false, false, false
		c.work.revision = revision
	}
	w.oracle.checkWorks(w, c, by)
}

// carryOut makes the next write of a process.
func (w *world) carryOut(p *process) {
	next := p.queue[0]
	p.queue = p.queue[1:]
	if !next.do() {
		p.queue = nil
	}
}

// complete lets the leader decide, and makes all of its writes.
func (w *world) complete() {
	w.round(w.leader)
	for len(w.leader.queue) > 0 {
		w.carryOut(w.leader)
	}
	w.removeWorks()
	w.oracle.afterRound(w)
}

// removeWorks removes the Works of clusters that are no targets.
func (w *world) removeWorks() {
	for _, name := range w.names() {
		if c := w.clusters[name]; !c.targeted || !c.exists {
			c.work, c.runs, c.known = nil, "", ""
			if !c.targeted {
				delete(w.clusters, name)
			}
		}
	}
}

// act lets a member act on its Work: it applies it, or reports its health.
func (w *world) act(c *simulated) bool {
	if c.work == nil || !c.ready || !c.exists || c.conflict {
		return false
	}
	if !c.work.applied && !c.work.isSuspended && !c.work.edited {
		if c.refuses {
			changed := !c.work.refused
			c.work.refused = true
			return changed
		}
		w.oracle.checkApply(c)
		c.work.applied, c.work.refused, c.work.confirmed, c.runs = true, false, c.work.revision, c.work.revision
		w.versions++
		c.work.version = w.versions
		return true
	}
	if healthy := !c.sick && !w.bad[c.work.revision]; c.work.applied && (!c.work.healthKnown || c.work.healthy != healthy) {
		c.work.healthKnown, c.work.healthy = true, healthy
		return true
	}
	return false
}

// told describes a status in one line.
func told(s *Status) string {
	parts := []string{fmt.Sprintf("%s, current %s, update %s, failed %s, stage %s", s.Phase, s.CurrentRevision, s.UpdateRevision, s.FailedRevision, s.Stage)}
	for i := range s.Turns {
		t := &s.Turns[i]
		text := fmt.Sprintf("%s → %s since %.0f %s", strings.Join(t.ClusterNames, ","), t.Revision, t.StartedAt.Sub(epoch).Seconds(), t.Kind)
		if t.StoppedAt != nil {
			text += " stopped"
		}
		if t.Failed {
			text += " failed"
		}
		if t.HealthySince != nil {
			text += fmt.Sprintf(" healthy since %.0f", t.HealthySince.Sub(epoch).Seconds())
		}
		parts = append(parts, text)
	}
	for i := range s.Stages {
		if s.Stages[i].PassedAt != nil {
			parts = append(parts, s.Stages[i].Name+" passed")
		}
	}
	return strings.Join(parts, "; ")
}
