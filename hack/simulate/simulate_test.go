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

package simulate

import (
	"flag"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

var (
	seed  = flag.Uint64("seed", 1, "the first seed")
	runs  = flag.Int("runs", 5, "how many seeds to simulate")
	steps = flag.Int("steps", 600, "how many steps each run has, besides those until all is quiet")
	total = flag.Int("total", 0, "how many steps to simulate in all; 0 for those of -runs")

	only = flag.String("theme", "", "the theme of all worlds; empty for any")

	pace    = flag.Duration("progress", 10*time.Second, "how often to tell how far the simulation has come")
	most    = flag.Int("failures", 3, "after how many seeds that fail to end")
	patient = flag.Duration("shrink", 2*time.Minute, "for how long to look for a shorter run that fails in the same way")
)

// TestMain removes the handler that makes goroutines sleep after errors. It compares
// times of the process with those of a bubble, which begin in the year 2000, and makes
// them sleep for decades.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil //nolint:reassign // see above
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // a world is small, and makes much garbage
	ctrl.SetLogger(logr.Discard())
	m.Run()
}

// TestSimulation: whatever happens, the controller says and does nothing wrong, and all
// is right in the end.
func TestSimulation(t *testing.T) {
	began, told, sum, red := time.Now(), time.Now(), 0, []uint64{}
	for current, last := *seed, false; !last; current++ {
		result := run(t, themed(current))
		sum += result.Steps
		if result.Violation != "" {
			red = append(red, current)
			shorter := shrink(t, result, *patient)
			t.Errorf("seed %d, with %d steps left: %s", current, len(shorter.Choices), shorter)
		}
		last = len(red) == *most || *total > 0 && sum >= *total || *total == 0 && current+1 == *seed+uint64(*runs) //nolint:gosec // it is not negative
		if now := time.Now(); last || now.Sub(told) > *pace {
			told = now
			t.Logf("seeds %d to %d: %d steps, %.0f steps/s, red: %v", *seed, current, sum, float64(sum)/now.Sub(began).Seconds(), red)
		}
	}
}

// themed chooses by a seed, in a world with the theme that was asked for.
func themed(seed uint64) *choices {
	choices := seeded(seed, *steps)
	choices.theme = *only
	return choices
}

// TestReplay: until the controller first ends, a seed always makes the same history, and
// so do its choices, unless there is a pair of replicas: the election of a leader has
// jitter that nobody chooses.
func TestReplay(t *testing.T) {
	alone := func(choices *choices) *choices {
		choices.alone = true
		return choices
	}
	first := run(t, alone(seeded(*seed, *steps)))
	for name, again := range map[string]Result{"seed": run(t, alone(seeded(*seed, *steps))), "choices": run(t, alone(scripted(first.Choices)))} {
		for i := range first.Story {
			if text := first.Story[i].text; strings.HasSuffix(text, " crashes") || strings.Contains(text, " ends: ") {
				break
			}
			if i >= len(again.Story) || first.Story[i] != again.Story[i] {
				t.Fatalf("the %s: line %d of %d differs:\n%s\n%s", name, i, len(first.Story), first.Story[i], again.Story[min(i, len(again.Story)-1)])
			}
		}
	}
}

// TestBubble: only goroutines of watch.Filter may stay behind.
func TestBubble(t *testing.T) {
	events := watch.NewFakeWithChanSize(1, false)
	events.Add(&corev1.ConfigMap{})
	inBubble(t, func(*testing.T) {
		watch.Filter(events, func(in watch.Event) (watch.Event, bool) { return in, true }).Stop()
	})
	defer func() {
		if recover() == nil {
			t.Error("a goroutine that stayed behind was not noticed")
		}
	}()
	inBubble(t, func(*testing.T) {
		never := make(chan bool)
		go func() { <-never }()
	})
}
