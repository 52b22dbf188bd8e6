//go:build soak

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

package soak

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// interval is the time between two samples.
const interval = 10 * time.Second

// Users create, change, delete, suspend and retarget objects, and members go down and
// come back. Again and again, everything settles and all statuses are true. In the
// last quarter, the process needs what it needed in the second one.
func TestSoak(t *testing.T) {
	duration, pace := given(t, "SOAK_DURATION", 10*time.Minute), given(t, "SOAK_PACE", 2*time.Second)
	ns := bed.NewNamespace(t)
	meter := newMeter(t)
	crowd := newCrowd(t, ns)
	began := time.Now()
	sampling, stop := context.WithCancel(t.Context())
	sampled := make(chan error, 1)
	go func() { sampled <- meter.samples(sampling, began, duration) }()
	for round := 1; time.Since(began) < duration; round++ {
		crowd.round(round, pace, began.Add(duration))
	}
	stop()
	if err := <-sampled; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations of users and %d outages of members in %v; all %d objects settled %d times, at the slowest in %v",
		crowd.operations, crowd.outages, time.Since(began).Round(time.Second), len(crowd.users), crowd.settled, crowd.slowest.Round(time.Second/10))
	folder := filepath.Join(bed.Root, "docs", "reliability")
	if err := writeCSV(filepath.Join(folder, "soak.csv"), meter.taken); err != nil {
		t.Error(err)
	}
	for _, line := range compare(t, meter.taken) {
		t.Log(line)
	}
}

// given reads a duration from the environment.
func given(t *testing.T, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= 0 {
		t.Fatalf("%s=%q is no duration", name, text)
	}
	return duration
}

// newMeter starts the measured controller instead of the one that the bed has started:
// its metrics have an address, and its watches are counted.
func newMeter(t *testing.T) *meter {
	t.Helper()
	m := &meter{open: &atomic.Int64{}}
	address, err := machine.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.url = "http://" + address + "/metrics"
	audit, err := bed.NewAudit()
	if err != nil {
		t.Fatal(err)
	}
	audit.Gate(func(_ http.ResponseWriter, request *http.Request) {
		if request.URL.Query().Get("watch") == "true" {
			m.open.Add(1)
			context.AfterFunc(request.Context(), func() { m.open.Add(-1) })
		}
	})
	bed.Controller.Kill() // it may not handle signals yet
	if bed.Controller, err = bed.NewController("measured", audit); err != nil {
		t.Fatal(err)
	}
	if err := bed.Controller.Start("--metrics-bind-address=" + address); err != nil {
		t.Fatal(err)
	}
	if err := bed.Await(t.Context(), "the controller serves metrics", func(ctx context.Context) error {
		_, err := m.sample(ctx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

// allSettle waits until everything is as users want it.
func (c *crowd) allSettle() {
	c.t.Helper()
	began := time.Now()
	for _, u := range c.users {
		c.ns.Within(patience, u.String()+" is reached", u.IsReached)
	}
	c.settled++
	c.slowest = max(c.slowest, time.Since(began))
}

// patience is how long everything may take to settle after a member has come back.
const patience = testbed.Patience + time.Minute
