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

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// phase is an operation on a load.
type phase string

const (
	phaseCreate phase = "create"
	phaseUpdate phase = "update"
	phaseDelete phase = "delete"
)

// contender is a way to propagate a load.
type contender interface {
	// before does what is not measured.
	before(ctx context.Context, p phase) error
	// do writes what the user of this contender writes. It calls sent with the index of
	// an object before it sends a write about that object.
	do(ctx context.Context, p phase, sent func(object int)) error
	// after cleans up.
	after(ctx context.Context) error
}

// The names of contenders.
const (
	nameBare   = "bare limit"
	nameDirect = "DirectPropagation"
	namePolicy = "PropagationPolicy"
	// nameOther is another build of the controller, given by the flag -against.
	nameOther = "another build"
)

// entry is a contender in a race.
type entry struct {
	name   string
	make   func(*ground, *load) contender
	limits limits // of Karmada's controllers
}

// race is a load that several contenders propagate, one after the other, in rounds.
type race struct {
	name     string
	label    string   // of the case
	content  *content // nil for ConfigMaps
	arrives  bool     // when the members have it, and the user knows, is measured, too
	objects  int
	clusters []string
	played   bool // no members behind the clusters
	mute     bool // and no agent answers
	hasty    bool // do not wait for what follows the last Work
	once     bool // only one round
	phases   []phase
	entries  []entry
}

// sample is one phase of one contender in one round.
type sample struct {
	Case      string             `json:"case"`
	Race      string             `json:"race"`
	Phase     phase              `json:"phase"`
	Contender string             `json:"contender"`
	Round     int                `json:"round"`
	Objects   int                `json:"objects"`
	Clusters  int                `json:"clusters"`
	Seconds   float64            `json:"seconds"`
	Latencies []float64          `json:"-"`
	P50       float64            `json:"p50Seconds"`
	P99       float64            `json:"p99Seconds"`
	Arrival   *arrival           `json:"arrival,omitempty"`
	Confirmed float64            `json:"confirmedSeconds,omitempty"`
	Writes    traffic            `json:"writes"`
	Bytes     traffic            `json:"bytes"`
	CPU       map[string]float64 `json:"cpuSeconds"`
	Peak      map[string]float64 `json:"peakMiB"`
}

// perSecond returns the number of Works written per second.
func (s *sample) perSecond() float64 { return float64(s.Objects*s.Clusters) / s.Seconds }

// race runs a race. Each round begins with a different contender.
func (b *bench) race(ctx context.Context, r race) error {
	rounds := b.rounds
	if r.once {
		rounds = 1
	}
	if i := slices.IndexFunc(r.entries, func(e entry) bool { return e.name == nameDirect }); i >= 0 && b.against != "" && r.name != warmUp {
		other := r.entries[i]
		other.name = nameOther
		// The comparison is between two builds, so leave out the policy, which takes a
		// minute per round.
		r.entries = slices.DeleteFunc(append(slices.Clone(r.entries), other), func(e entry) bool { return e.name == namePolicy })
	}
	for round := range rounds {
		for offset := range r.entries {
			e := r.entries[(round+offset)%len(r.entries)]
			if err := b.heat(ctx, &r, e, round); err != nil {
				return fmt.Errorf("%s, %s, round %d: %w", r.name, e.name, round+1, err)
			}
		}
	}
	return nil
}

// newLoad returns a load for a race.
func (b *bench) newLoad(r *race) *load {
	b.heats++
	l := &load{content: configMaps, namespace: realSpace, name: fmt.Sprintf("load-%d", b.heats), objects: r.objects, clusters: r.clusters}
	if r.content != nil {
		l.content = *r.content
	}
	if r.played {
		l.namespace = playedSpace
	}
	return l
}

// heat runs one contender for one round.
func (b *bench) heat(ctx context.Context, r *race, e entry, round int) error {
	l := b.newLoad(r)
	if err := b.stage(ctx, r, e); err != nil {
		return err
	}
	if err := l.createTemplates(ctx, b.client); err != nil {
		return err
	}
	c := e.make(b.ground, l)
	if r.arrives {
		stop, err := b.watchArrivals(ctx, l)
		if err != nil {
			return err
		}
		defer stop()
	}
	for _, p := range r.phases {
		s := &sample{
			Case: r.label, Race: r.name, Phase: p, Contender: e.name, Round: round + 1,
			Objects: r.objects, Clusters: len(r.clusters),
		}
		if err := b.measure(ctx, c, l, s, r.hasty); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if r.name != warmUp {
			b.results.add(s)
		}
		b.say("  %-36s %-18s round %d: %-6s %7.2f s  %6.0f Works/s  p50 %.2f s  p99 %.2f s", r.name, e.name, round+1, p, s.Seconds, s.perSecond(), s.P50, s.P99)
		if e.name == nameDirect && r.name != warmUp {
			b.count(l, s, r)
		}
	}
	if !slices.Contains(r.phases, phaseDelete) {
		if err := b.clear(ctx, c, l); err != nil {
			return err
		}
	}
	if err := l.deleteTemplates(ctx, b.client, func(int) {}); err != nil {
		return err
	}
	if b.arrivals != nil {
		if err := b.arrivals.left(ctx); err != nil {
			return err
		}
	}
	return c.after(ctx)
}

// clear deletes a load if deleting it is not a phase of the race.
func (b *bench) clear(ctx context.Context, c contender, l *load) error {
	if err := c.before(ctx, phaseDelete); err != nil {
		return err
	}
	if b.limits == limitsDefault {
		// With its default limits, Karmada would take a minute for this.
		if err := b.setKarmada(ctx, limitsRaised); err != nil {
			return err
		}
	}
	if b.answered() {
		return errors.Join(c.do(ctx, phaseDelete, func(int) {}), b.gone(ctx, l))
	}
	// Somebody must remove Karmada's finalizers.
	stop := serving(ctx, b.newAgents(l.clusters))
	return errors.Join(c.do(ctx, phaseDelete, func(int) {}), b.gone(ctx, l), stop())
}

// gone waits until all Works of a load are gone.
func (b *bench) gone(ctx context.Context, l *load) error {
	keys := l.keys()
	return until(ctx, "the Works are gone", func(context.Context) (bool, error) {
		for key := range keys {
			if b.watcher.work(key) != nil {
				return false, nil
			}
		}
		return true, nil
	})
}

// stage prepares the processes for a contender.
func (b *bench) stage(ctx context.Context, r *race, e entry) error {
	program := ""
	switch e.name {
	case nameDirect:
		program = b.controllerProgram()
	case nameOther:
		program = b.against
	}
	if err := b.setDirect(ctx, program); err != nil {
		return err
	}
	if r.mute {
		b.silence()
	} else if r.played {
		if err := b.serve(ctx); err != nil {
			return err
		}
	}
	return b.setKarmada(ctx, e.limits)
}

// measure measures one phase.
func (b *bench) measure(ctx context.Context, c contender, l *load, s *sample, hasty bool) error {
	if err := c.before(ctx, s.Phase); err != nil {
		return err
	}
	if err := b.quiet(ctx, time.Second); err != nil {
		return err
	}
	m, err := b.begin(ctx)
	if err != nil {
		return err
	}
	f := b.watcher.await(l.keys(), l.objects, b.crossed(l, s.Phase))
	stopProfile := b.profiled(ctx, s)
	started, sent := time.Now(), make([]time.Time, l.objects)
	if err := c.do(ctx, s.Phase, func(i int) { sent[i] = time.Now() }); err != nil {
		return err
	}
	last, err := b.watcher.wait(ctx, f)
	if err != nil {
		return err
	}
	stopProfile()
	s.Seconds = last.Sub(started).Seconds()
	for i := range sent {
		s.Latencies = append(s.Latencies, f.last[i].Sub(sent[i]).Seconds())
	}
	s.P50, s.P99 = quantile(s.Latencies, 0.5), quantile(s.Latencies, 0.99)
	if !hasty {
		if err := b.settle(ctx, l, s, started); err != nil {
			return err
		}
	}
	if err := l.check(ctx, b.client, s.Phase); err != nil {
		return err
	}
	if err := m.end(ctx, s); err != nil || b.arrivals == nil {
		return err
	}
	s.Arrival, err = b.arrivals.result(ctx, s, sent)
	return err
}

// crossed returns a function that reports whether a Work has reached the end of a
// phase.
func (b *bench) crossed(l *load, p phase) func(seen) bool {
	switch p {
	case phaseCreate:
		return func(work seen) bool { return !work.gone }
	case phaseUpdate:
		before := b.watcher.generations(l.keys())
		return func(work seen) bool { return work.generation > before[work.key] }
	default:
		return func(work seen) bool { return work.deleting || work.gone }
	}
}

// settle waits until everything that follows from a phase is finished.
func (b *bench) settle(ctx context.Context, l *load, s *sample, started time.Time) error {
	if s.Phase == phaseDelete {
		if err := b.gone(ctx, l); err != nil {
			return err
		}
	} else if (s.Contender == nameDirect || s.Contender == nameOther) && b.answered() {
		if err := b.confirmed(ctx, l, s, started); err != nil {
			return err
		}
	}
	return b.quiet(ctx, 1500*time.Millisecond)
}

// answered reports whether anyone currently responds to Works.
func (g *ground) answered() bool { return g.limits != limitsOff || g.agents != nil }

// confirmed waits until all objects are Ready.
func (b *bench) confirmed(ctx context.Context, l *load, s *sample, started time.Time) error {
	return until(ctx, "the objects are Ready", func(context.Context) (bool, error) {
		last := time.Time{}
		for i := range l.objects {
			state := b.watcher.object(types.NamespacedName{Namespace: l.namespace, Name: l.object(i)})
			if !state.ready {
				return false, nil
			}
			if state.at.After(last) {
				last = state.at
			}
		}
		s.Confirmed = last.Sub(started).Seconds()
		return true, nil
	})
}

// measurement holds the counts at the beginning of a phase.
type measurement struct {
	*ground
	writes, bytes traffic
	cpu           map[string]float64
}

func (b *bench) begin(ctx context.Context) (m *measurement, err error) {
	b.watcher.forgetObjects()
	m = &measurement{ground: b.ground, cpu: map[string]float64{}}
	if m.writes, err = b.writes(ctx); err != nil {
		return nil, err
	}
	if m.bytes, err = b.bytes(ctx); err != nil {
		return nil, err
	}
	for name, pid := range b.pids() {
		resetPeak(pid)
		m.cpu[name] = cpuSeconds(pid)
	}
	return m, nil
}

func (m *measurement) end(ctx context.Context, s *sample) error {
	s.CPU, s.Peak = map[string]float64{}, map[string]float64{}
	for name, pid := range m.pids() {
		s.CPU[name] = cpuSeconds(pid) - m.cpu[name]
		s.Peak[name] = memoryMiB(pid, "VmHWM")
	}
	writes, err := m.ground.writes(ctx)
	if err != nil {
		return err
	}
	bytes, err := m.ground.bytes(ctx)
	if err != nil {
		return err
	}
	s.Writes, s.Bytes = writes.minus(m.writes), bytes.minus(m.bytes)
	return nil
}

// count compares the writes of DirectPropagation with the exact numbers.
func (b *bench) count(l *load, s *sample, r *race) {
	n := float64(l.works())
	works := map[phase]map[string]float64{
		phaseCreate: {"POST works": n},
		phaseUpdate: {"PATCH works/status": n, "PUT works": n},
		phaseDelete: {"DELETE works": n},
	}
	if l.reported {
		works[phaseUpdate]["PATCH works/status"] = 0
	}
	for key, want := range works[s.Phase] {
		b.results.check(check{
			Case: s.Case, What: fmt.Sprintf("%s, %s: %s", s.Race, s.Phase, key),
			Got: fmt.Sprint(s.Writes[key]), Want: fmt.Sprintf("= %v", want), Holds: s.Writes[key] == want,
		})
	}
	if s.Phase == phaseDelete || r.hasty {
		return
	}
	// Three per object, and one for each additional second that its members take.
	worst, over := 0, 0
	for i := range l.objects {
		state := b.watcher.object(types.NamespacedName{Namespace: l.namespace, Name: l.object(i)})
		worst = max(worst, state.writes)
		if state.writes > 3+int(state.at.Sub(state.first).Seconds()) {
			over++
		}
	}
	b.results.check(check{
		Case: s.Case, What: fmt.Sprintf("%s, %s: objects with more writes than 3 and one a second (most writes to one: %d)", s.Race, s.Phase, worst),
		Got: fmt.Sprint(over), Want: "= 0", Holds: over == 0,
	})
}

// quantile returns the value at or below which a share of the values lies.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, min(len(sorted), int(math.Ceil(share*float64(len(sorted)))))-1)]
}

// profiled takes CPU profiles of a phase if -profile is set.
func (b *bench) profiled(ctx context.Context, s *sample) (stop func()) {
	if !b.profile || s.Round != 1 {
		return func() {}
	}
	name := filepath.Join(b.options.out, fmt.Sprintf("%s-%s-%s-%d", s.Case, s.Phase, s.Contender, s.Objects*s.Clusters))
	return b.startProfiles(ctx, name)
}
