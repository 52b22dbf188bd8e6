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
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// benchCase is a case of the benchmark.
type benchCase struct {
	name string
	what string
	run  func(context.Context, *bench) error
}

var cases = []benchCase{
	// The order of execution: cases that leave much behind come last.
	{"a", "many objects × 2 clusters: create, update, delete", manyObjects},
	{"a1000", "the same, more objects", moreObjects},
	{"h", "many objects × 2 clusters, until the members have them and the users know", arrivalsOf},
	{"d", "one resource that changes all the time", burst},
	{"e", "many Secrets, few of them propagated", manySecrets},
	{"f", "from a change to the last Work, on a quiet system", latency},
	{"g", "how cost grows with objects and with clusters", growth},
	{"b", "one object × many clusters", manyClusters},
	{"c", "restart, upgrade and change of leader under many Works", restarts},
}

var everyPhase = []phase{phaseCreate, phaseUpdate, phaseDelete}

// bounds are limits for ratios: the targets of a full run, and the lower ones that a
// short run must reach on any machine.
type bounds struct{ bare, raised, limits float64 }

func (b *bench) bounds() bounds {
	if b.short {
		return bounds{bare: 0.5, raised: 1.2, limits: 3}
	}
	return bounds{bare: 0.9, raised: 5, limits: 15}
}

// beside returns entries for contenders that run next to Karmada with the given
// limits.
func beside(limits limits, names ...string) []entry {
	makers := map[string]func(*ground, *load) contender{nameBare: newBare, nameDirect: newDirect, nameOther: newDirect, namePolicy: newPolicy}
	entries := make([]entry, 0, len(names))
	for _, name := range names {
		entries = append(entries, entry{name: name, make: makers[name], limits: limits})
	}
	return entries
}

// warmUp is the name of races whose results are dropped.
const warmUp = "warm-up"

// manyObjects is case (a), on real members.
func manyObjects(ctx context.Context, b *bench) error {
	count := 200
	if b.short {
		count = 40
	}
	return b.races(ctx, "a",
		race{name: warmUp, objects: 20, phases: everyPhase, entries: beside(limitsRaised, nameBare, nameDirect), once: true},
		race{name: fmt.Sprintf("%d × 2, Karmada's limits raised", count), objects: count, phases: everyPhase, entries: beside(limitsRaised, nameBare, nameDirect, namePolicy)},
		race{name: fmt.Sprintf("%d × 2, Karmada's default limits", count), objects: count, phases: []phase{phaseCreate}, hasty: true, entries: beside(limitsDefault, nameBare, nameDirect, namePolicy)},
		race{name: fmt.Sprintf("%d × 2, nobody applies", count), objects: count, phases: []phase{phaseCreate}, played: true, mute: true, entries: beside(limitsOff, nameBare, nameDirect)},
	)
}

// moreObjects is case (a) with more objects.
func moreObjects(ctx context.Context, b *bench) error {
	count := 1000
	if b.short {
		count = 80
	}
	return b.races(ctx, "a1000",
		race{name: fmt.Sprintf("%d × 2, nobody applies", count), objects: count, phases: []phase{phaseCreate}, played: true, mute: true, entries: beside(limitsOff, nameBare, nameDirect)},
		race{name: fmt.Sprintf("%d × 2, Karmada's limits raised", count), objects: count, phases: everyPhase, entries: beside(limitsRaised, nameBare, nameDirect, namePolicy), once: true},
	)
}

// arrivalsOf is case (h), on real members.
func arrivalsOf(ctx context.Context, b *bench) error {
	count := 200
	if b.short {
		count = 20
	}
	races := []race{{name: warmUp, objects: 20, content: &deployments, phases: everyPhase, entries: beside(limitsRaised, nameDirect, namePolicy), once: true}}
	for _, limits := range []limits{limitsRaised, limitsDefault} {
		for _, of := range []*content{&deployments, &configMaps} {
			races = append(races, race{
				name: fmt.Sprintf("%d %ss × 2, Karmada's %s limits", count, of.kind, limits), objects: count, content: of, arrives: true,
				phases: []phase{phaseCreate, phaseUpdate}, entries: beside(limits, nameDirect, namePolicy),
			})
		}
	}
	return b.races(ctx, "h", races...)
}

// races runs races on the real members.
func (b *bench) races(ctx context.Context, label string, races ...race) error {
	for _, r := range b.chosen(races...) {
		r.label, r.clusters = label, []string{"member1", "member2"}
		if err := b.race(ctx, r); err != nil {
			return err
		}
		b.compare(&r)
	}
	return nil
}

// chosen returns the races that the flag -race selects.
func (b *bench) chosen(races ...race) []race {
	return slices.DeleteFunc(races, func(r race) bool { return r.name != warmUp && !strings.Contains(r.name, b.options.race) })
}

// compare compares DirectPropagation with the other contenders of a race.
func (b *bench) compare(r *race) {
	if r.arrives {
		b.compareArrivals(r)
		return
	}
	bound := b.bounds()
	for _, e := range r.entries {
		what := fmt.Sprintf("%s, create: Works a second, %s : %s", r.name, nameDirect, e.name)
		ratio := b.results.ratio(r.name, nameDirect, e.name)
		if most := b.results.ratio(r.name, nameBare, e.name); e.name == namePolicy && most > 0 {
			b.results.figure(r.label, fmt.Sprintf("%s, create: Works a second, %s : %s; the highest possible", r.name, nameBare, e.name), most, "")
		}
		switch {
		case r.name == warmUp || e.name == nameDirect:
		case e.name == nameBare:
			b.results.atLeast(r.label, what, ratio, bound.bare)
		case r.played: // a comparison without a target
			b.results.figure(r.label, what, ratio, "")
		case e.limits == limitsRaised:
			b.results.atLeast(r.label, what, ratio, bound.raised)
		default:
			b.results.atLeast(r.label, what, ratio, bound.limits)
		}
	}
}

// manyClusters is case (b), with simulated clusters and agents.
func manyClusters(ctx context.Context, b *bench) error {
	counts := []int{1000, 5000}
	if b.short {
		counts = []int{100}
	}
	for _, count := range counts {
		clusters, err := b.play(ctx, count)
		if err != nil {
			return err
		}
		mute := race{
			name: fmt.Sprintf("1 × %d, nobody answers", count), label: "b", objects: 1, clusters: clusters, played: true, mute: true,
			phases: []phase{phaseCreate}, entries: beside(limitsOff, nameBare, nameDirect),
			once: count > 1000, // a round takes two minutes
		}
		r := race{
			name: fmt.Sprintf("1 × %d", count), label: "b", objects: 1, clusters: clusters, played: true, phases: everyPhase,
			entries: beside(limitsOff, nameBare, nameDirect),
			once:    count > 1000, // a round takes five minutes
		}
		for _, r := range b.chosen(mute, r) {
			if err := b.race(ctx, r); err != nil {
				return err
			}
			b.compare(&r)
		}
		b.recordStatus(&r)
		if count != counts[0] || b.options.race != "" {
			continue
		}
		for _, limits := range []limits{limitsRaised, limitsDefault} {
			policies := race{
				name: fmt.Sprintf("1 × %d, Karmada's %s limits", count, limits), label: "b", objects: 1, clusters: clusters, played: true,
				phases: everyPhase, entries: beside(limits, namePolicy), once: true,
			}
			if err := b.race(ctx, policies); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordStatus records the number and size of writes of the object.
func (b *bench) recordStatus(r *race) {
	for _, s := range b.results.Samples {
		if s.Race == r.name && s.Contender == nameDirect && s.Round == 1 && s.Phase != phaseDelete {
			b.results.figure("b", fmt.Sprintf("%s, %s: writes of the status", r.name, s.Phase), s.Writes["PUT directpropagations/status"]+s.Writes["PATCH directpropagations/status"], "")
			b.results.figure("b", fmt.Sprintf("%s, %s: bytes of writes of the object", r.name, s.Phase),
				(s.Bytes["update directpropagations"]+s.Bytes["patch directpropagations"])/1024, "KiB")
		}
	}
}

// startProfiles takes CPU profiles of our controller and of the API server for a few
// seconds of the measurement.
func (b *bench) startProfiles(ctx context.Context, name string) (wait func()) {
	const seconds = 3
	var group sync.WaitGroup
	take := func(suffix, url string) {
		group.Go(func() {
			file, err := os.Create(name + "-" + suffix + ".pprof")
			if err != nil {
				b.say("  no profile: %v", err)
				return
			}
			defer file.Close()
			if err := download(ctx, b.http, url, file); err != nil {
				b.say("  no profile: %v", err)
			}
		})
	}
	take("apiserver", fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", b.config.Host, seconds))
	if b.direct != nil {
		take("controller", fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", b.profiles, seconds))
	}
	return group.Wait
}
