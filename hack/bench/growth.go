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
	"math"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
)

// place propagates a load with the controller and waits until everything is Ready
// and quiet.
func (b *bench) place(ctx context.Context, l *load) error {
	if err := b.setDirect(ctx, b.controllerProgram()); err != nil {
		return err
	}
	if err := l.createTemplates(ctx, b.client); err != nil {
		return err
	}
	b.watcher.forgetObjects()
	f := b.watcher.await(l.keys(), l.objects, func(work seen) bool { return !work.gone })
	if err := l.createPropagations(ctx, b.client, func(int) {}); err != nil {
		return err
	}
	if _, err := b.watcher.wait(ctx, f); err != nil {
		return err
	}
	return b.well(ctx, l)
}

// well waits until all objects of a load are Ready and nothing is written.
func (b *bench) well(ctx context.Context, l *load) error {
	ignored := &sample{}
	if err := b.confirmed(ctx, l, ignored, time.Now()); err != nil {
		return err
	}
	return b.quiet(ctx, 1500*time.Millisecond)
}

// withdraw deletes a load.
func (b *bench) withdraw(ctx context.Context, l *load) error {
	if err := l.deletePropagations(ctx, b.client, func(int) {}); err != nil {
		return err
	}
	if err := b.gone(ctx, l); err != nil {
		return err
	}
	return l.deleteTemplates(ctx, b.client, func(int) {})
}

// playedLoad prepares the processes for a load on simulated clusters.
func (b *bench) playedLoad(ctx context.Context, objects, clusters int) (*load, error) {
	if err := b.setKarmada(ctx, limitsOff); err != nil {
		return nil, err
	}
	played, err := b.play(ctx, clusters)
	if err != nil {
		return nil, err
	}
	b.heats++
	return &load{content: configMaps, namespace: playedSpace, name: fmt.Sprintf("load-%d", b.heats), objects: objects, clusters: played}, nil
}

// burst is case (d).
func burst(ctx context.Context, b *bench) error {
	const pace, clusters = 100 * time.Millisecond, 4
	changes := 100
	if b.short {
		changes = 20
	}
	l, err := b.playedLoad(ctx, 1, clusters)
	if err != nil {
		return err
	}
	if err := b.place(ctx, l); err != nil {
		return err
	}
	m, err := b.begin(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for revision := 2; revision < changes+2; revision++ {
		<-tick.C
		if err := l.setOne(ctx, b.client, 0, revision); err != nil {
			return err
		}
	}
	changed := time.Now()
	err = until(ctx, "the Works carry the last revision", func(ctx context.Context) (bool, error) {
		return l.verify(ctx, b.client, changes+1) == nil, ctx.Err()
	})
	if err != nil {
		return err
	}
	took := time.Since(changed)
	if err := b.well(ctx, l); err != nil {
		return err
	}
	s := &sample{}
	if err := m.end(ctx, s); err != nil {
		return err
	}
	b.say("  %v", s.Writes)
	name := fmt.Sprintf("%d changes in %v × %d clusters", changes, time.Duration(changes)*pace, clusters)
	b.judgeBurst(name, s, changes, clusters, took)
	return b.withdraw(ctx, l)
}

// judgeBurst checks the cost of a burst of changes.
func (b *bench) judgeBurst(name string, s *sample, changes, clusters int, took time.Duration) {
	works := s.Writes["PUT works"] + s.Writes["PATCH works/status"]
	object := s.Writes["PATCH directpropagations"] + s.Writes["PUT directpropagations/status"] + s.Writes["PATCH directpropagations/status"]
	b.results.check(check{Case: "d", What: name + ": the Works end at the last revision", Got: "yes", Want: "yes", Holds: true})
	b.results.atMost("d", name+": writes of Works", works, float64(2*changes*clusters))
	b.results.atMost("d", name+": writes of the object", object, float64(2*changes+3))
	b.results.figure("d", name+": from the last change to its last Work, by polling", took.Seconds(), "s")
	b.results.figure("d", name+": writes that were refused by a conflict", s.Writes.sum(func(key string) bool { return len(key) > 7 && key[:7] == "refused" }), "")
}

// latency is case (f).
func latency(ctx context.Context, b *bench) error {
	times := 20
	if b.short {
		times = 5
	}
	if err := b.setDirect(ctx, ""); err != nil {
		return err
	}
	trip, err := b.roundTrip(ctx, 5*times)
	if err != nil {
		return err
	}
	b.results.figure("f", "one write of a Work, there and back, p50", 1000*trip, "ms")
	for _, count := range []int{1, 10, 100} {
		limit, err := b.changes(ctx, count, times, false)
		if err != nil {
			return err
		}
		ours, err := b.changes(ctx, count, times, true)
		if err != nil {
			return err
		}
		for _, share := range []float64{0.5, 0.99} {
			b.results.figure("f", fmt.Sprintf("change to last Work, %d clusters, bare limit, p%.0f", count, 100*share), 1000*quantile(limit, share), "ms")
			b.results.figure("f", fmt.Sprintf("change to last Work, %d clusters, DirectPropagation, p%.0f", count, 100*share), 1000*quantile(ours, share), "ms")
		}
		name := fmt.Sprintf("change to last Work, %d clusters: times of one write", count)
		median := quantile(ours, 0.5) / trip
		if count > 10 || b.short {
			b.results.figure("f", name, median, "")
		} else {
			b.results.atMost("f", name, median, 3)
		}
		b.results.figure("f", fmt.Sprintf("change to last Work, %d clusters: times of the bare limit", count), quantile(ours, 0.5)/quantile(limit, 0.5), "")
	}
	return nil
}

// roundTrip returns the median time of a write of a Work that nobody watches.
func (b *bench) roundTrip(ctx context.Context, times int) (float64, error) {
	l := &load{content: configMaps, namespace: playedSpace, name: "probe", objects: 1, clusters: []string{"none"}}
	if err := l.createTemplates(ctx, b.client); err != nil {
		return 0, err
	}
	manifest, err := l.manifest(ctx, b.client, 0)
	if err != nil {
		return 0, err
	}
	work, err := manifest.NewWork(ownerOf(l.propagation(0)), renderTarget("none"))
	if err != nil {
		return 0, err
	}
	work.Namespace, work.Finalizers = playedSpace, nil
	if err := b.client.Create(ctx, work); err != nil {
		return 0, fmt.Errorf("creating a Work to try: %w", err)
	}
	taken := []float64{}
	for i := range times {
		work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"probe","namespace":%q},"data":{"revision":"%d"}}`, playedSpace, i)}}}
		began := time.Now()
		if err := b.client.Update(ctx, work); err != nil {
			return 0, fmt.Errorf("updating a Work to try: %w", err)
		}
		taken = append(taken, time.Since(began).Seconds())
	}
	if err := b.client.Delete(ctx, work); err != nil {
		return 0, fmt.Errorf("deleting a Work to try: %w", err)
	}
	return quantile(taken, 0.5), l.deleteTemplates(ctx, b.client, func(int) {})
}

// changes measures a series of changes. Each measurement is the time from a
// successful change of the resource to the last write of a Work, either by the
// controller or by a client that already knows about the change.
func (b *bench) changes(ctx context.Context, clusters, times int, controlled bool) ([]float64, error) {
	l, err := b.playedLoad(ctx, 1, clusters)
	if err != nil {
		return nil, err
	}
	if err := b.place(ctx, l); err != nil {
		return nil, err
	}
	program := ""
	if controlled {
		program = b.controllerProgram()
	}
	if err := b.setDirect(ctx, program); err != nil {
		return nil, err
	}
	client := &bare{ground: b.ground, load: l, slots: make(chan struct{}, writers)}
	taken := []float64{}
	for i := range times {
		took, err := b.change(ctx, l, client, i+2, controlled)
		if err != nil {
			return nil, err
		}
		taken = append(taken, took.Seconds())
	}
	b.say("  %d clusters, controlled %t: p50 %.1f ms", clusters, controlled, 1000*quantile(taken, 0.5))
	if err := b.setDirect(ctx, b.controllerProgram()); err != nil {
		return nil, err
	}
	return taken, b.withdraw(ctx, l)
}

// change changes a resource once and returns how long its Works took.
func (b *bench) change(ctx context.Context, l *load, client *bare, revision int, controlled bool) (took time.Duration, err error) {
	if err := b.quiet(ctx, 600*time.Millisecond); err != nil {
		return 0, err
	}
	b.watcher.forgetObjects()
	if client.live, err = l.list(ctx, b.client); err != nil {
		return 0, err
	}
	f := b.watcher.await(l.keys(), 1, b.crossed(l, phaseUpdate))
	if err := l.setOne(ctx, b.client, 0, revision); err != nil {
		return 0, err
	}
	began := time.Now()
	if !controlled {
		if err := client.update(ctx, 0); err != nil {
			return 0, err
		}
	}
	last, err := b.watcher.wait(ctx, f)
	if err == nil && controlled {
		err = b.confirmed(ctx, l, &sample{}, began)
	}
	return last.Sub(began), err
}

// growth is case (g).
func growth(ctx context.Context, b *bench) error {
	objects, clusters := []int{50, 200, 800}, []int{64, 256, 1024}
	if b.short {
		objects, clusters = []int{10, 40, 160}, []int{8, 32, 128}
	}
	few, err := b.play(ctx, 2)
	if err != nil {
		return err
	}
	direct := beside(limitsOff, nameDirect)
	byObjects, byClusters := []race{}, []race{}
	for _, count := range objects {
		byObjects = append(byObjects, race{
			name: fmt.Sprintf("%d × 2, played", count), label: "g", objects: count, clusters: few, played: true,
			phases: everyPhase, entries: direct,
		})
	}
	for _, count := range clusters {
		played, err := b.play(ctx, count)
		if err != nil {
			return err
		}
		byClusters = append(byClusters, race{
			name: fmt.Sprintf("1 × %d, played", count), label: "g", objects: 1, clusters: played, played: true,
			phases: everyPhase, entries: direct,
		})
	}
	for _, r := range append(byObjects[:3:3], byClusters...) {
		if err := b.race(ctx, r); err != nil {
			return err
		}
	}
	b.exponents("objects", byObjects)
	b.exponents("clusters", byClusters)
	return nil
}

// exponents fits how time, writes and bytes grow over races.
func (b *bench) exponents(with string, races []race) {
	const bound = 1.1
	all := func(string) bool { return true }
	for _, p := range []phase{phaseCreate, phaseUpdate} {
		for _, measure := range []struct {
			what  string
			timed bool
			of    func(*sample) float64
		}{
			{"time until all is Ready", true, func(s *sample) float64 { return s.Confirmed }},
			{"writes", false, func(s *sample) float64 { return s.Writes.sum(all) }},
			{"bytes written", false, func(s *sample) float64 { return s.Bytes.sum(all) }},
		} {
			points := []point{}
			for _, r := range races {
				value, _, _, _ := b.results.median(r.name, nameDirect, p, measure.of)
				points = append(points, point{size: float64(r.objects * len(r.clusters)), value: value})
			}
			what := fmt.Sprintf("%s, %s grow with %s to the power of", p, measure.what, with)
			if measure.timed && b.short {
				b.results.figure("g", what, fit(points), "")
			} else {
				b.results.atMost("g", what, fit(points), bound)
			}
		}
	}
}

// point is the cost of a size.
type point struct{ size, value float64 }

// fit returns the slope of the regression line through the logarithms of the points,
// which is the exponent of the growth.
func fit(points []point) float64 {
	var sumX, sumY, sumXX, sumXY float64
	for _, p := range points {
		x, y := math.Log(p.size), math.Log(p.value)
		sumX, sumY, sumXX, sumXY = sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
	}
	n := float64(len(points))
	return (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
}
