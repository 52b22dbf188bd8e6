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
	"sync"
)

// benchCase is a case of the benchmark.
type benchCase struct {
	name string
	what string
	run  func(context.Context, *bench) error
}

var cases = []benchCase{
	{"a", "many objects × 2 clusters: create, update, delete", manyObjects},
}

var everyPhase = []phase{phaseCreate, phaseUpdate, phaseDelete}

// The bounds of ratios: the targets, and what a short run on any machine must
// reach.
type bounds struct{ bare, raised, limits float64 }

func (b *bench) bounds() bounds {
	if b.short {
		return bounds{bare: 0.5, raised: 2, limits: 3}
	}
	return bounds{bare: 0.9, raised: 5, limits: 15}
}

// manyObjects is case (a), on members that are there.
func manyObjects(ctx context.Context, b *bench) error {
	members := []string{"member1", "member2"}
	bareAndDirect := []entry{
		{name: nameBare, make: newBare, limits: limitsRaised},
		{name: nameDirect, make: newDirect, limits: limitsRaised},
	}
	alone := []entry{
		{name: nameBare, make: newBare, limits: limitsOff},
		{name: nameDirect, make: newDirect, limits: limitsOff},
	}
	withPolicies := append(bareAndDirect[:2:2],
		entry{name: nameRaised, make: newPolicy, limits: limitsRaised},
		entry{name: namePolicy, make: newPolicy, limits: limitsDefault})
	small, big := 200, 1000
	if b.short {
		small, big = 40, 0
	}
	races := []race{
		{name: fmt.Sprintf("%d × 2", small), objects: small, phases: everyPhase, entries: withPolicies},
		{name: fmt.Sprintf("%d × 2, nobody applies", small), objects: small, phases: []phase{phaseCreate}, played: true, mute: true, entries: alone},
	}
	if big > 0 {
		races = append(races, race{
			name: fmt.Sprintf("%d × 2", big), objects: big, phases: everyPhase,
			entries: append(bareAndDirect[:2:2], entry{name: nameRaised, make: newPolicy, limits: limitsRaised, rounds: 1}),
		})
	}
	for _, r := range races {
		r.label, r.clusters = "a", members
		if err := b.race(ctx, r); err != nil {
			return err
		}
		bound := b.bounds()
		b.results.atLeast("a", r.name+", create: Works a second, DirectPropagation : bare limit", b.results.ratio(r.name, nameDirect, nameBare, phaseCreate), bound.bare)
		for _, e := range r.entries {
			switch e.name {
			case nameRaised:
				b.results.atLeast("a", r.name+", create: DirectPropagation : "+e.name, b.results.ratio(r.name, nameDirect, e.name, phaseCreate), bound.raised)
			case namePolicy:
				b.results.atLeast("a", r.name+", create: DirectPropagation : "+e.name, b.results.ratio(r.name, nameDirect, e.name, phaseCreate), bound.limits)
			}
		}
	}
	return nil
}

// startProfiles takes CPU profiles of our controller and of the API server, for
// as long as a few seconds of what is measured.
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
