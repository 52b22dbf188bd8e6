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
	"testing"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

var (
	seed  = flag.Uint64("seed", 1, "the first seed")
	runs  = flag.Int("runs", 3, "how many seeds to simulate")
	steps = flag.Int("steps", 1000, "how many steps each run has")

	patient = flag.Duration("shrink", 2*time.Minute, "for how long to look for a shorter run that fails in the same way")
)

// TestMain removes the handler that makes goroutines sleep after errors. It compares
// times of the process with those of a bubble, which begin in the year 2000, and makes
// them sleep for decades.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil //nolint:reassign // see above
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	m.Run()
}

// TestSimulation: whatever happens, the controller says and does nothing wrong, and all
// is right in the end.
func TestSimulation(t *testing.T) {
	for i := range uint64(*runs) { //nolint:gosec // it is not negative
		result := run(t, seeded(*seed+i, *steps))
		t.Logf("seed %d: %d steps", *seed+i, result.Steps)
		if result.Violation != "" {
			result = shrink(t, result, *patient)
			t.Fatalf("seed %d, with %d steps left: %s", *seed+i, len(result.Choices), result)
		}
	}
}

// TestReplay: a seed always makes the same history, and so do its choices.
func TestReplay(t *testing.T) {
	first := run(t, seeded(*seed, *steps))
	for name, again := range map[string]Result{"seed": run(t, seeded(*seed, *steps)), "choices": run(t, scripted(first.Choices))} {
		for i := range first.Story {
			if i >= len(again.Story) || first.Story[i] != again.Story[i] {
				t.Fatalf("the %s: line %d of %d differs:\n%s\n%s", name, i, len(first.Story), first.Story[i], again.Story[min(i, len(again.Story)-1)])
			}
		}
	}
}
