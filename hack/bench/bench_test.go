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
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestFitFindsTheExponent(t *testing.T) {
	for _, want := range []float64{0, 1, 1.5, 2} {
		points := []point{}
		for _, size := range []float64{16, 64, 256} {
			points = append(points, point{size: size, value: 3 * math.Pow(size, want)})
		}
		if got := fit(points); math.Abs(got-want) > 1e-9 {
			t.Errorf("the exponent is %v, want %v", got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for share, want := range map[float64]float64{0: 1, 0.25: 1, 0.5: 2, 0.75: 3, 0.99: 4, 1: 4} {
		if got := quantile(values, share); got != want {
			t.Errorf("quantile(%v) = %v, want %v", share, got, want)
		}
	}
}

// A missed target stays missed.
func TestCheckRemembersAMiss(t *testing.T) {
	r := &results{}
	r.atMost("a", "writes", 3, 3)
	r.atMost("a", "writes", 4, 3)
	r.atMost("a", "writes", 2, 3)
	if len(r.Checks) != 1 || r.Checks[0].Holds || r.Checks[0].Got != "4.00" || r.Checks[0].Times != 3 {
		t.Errorf("after a miss: %+v", r.Checks)
	}
	if err := r.verdict(); err == nil || !strings.Contains(err.Error(), "writes: 4.00, want ≤ 3") {
		t.Errorf("the verdict is %v", err)
	}
}

func TestRatioIsThatOfMedians(t *testing.T) {
	r := &results{}
	for i, seconds := range []float64{1, 2, 9} {
		r.add(&sample{Race: "r", Contender: nameDirect, Phase: phaseCreate, Round: i, Objects: 1, Clusters: 2, Seconds: seconds})
	}
	r.add(&sample{Race: "r", Contender: nameBare, Phase: phaseCreate, Objects: 1, Clusters: 2, Seconds: 1})
	if got := r.ratio("r", nameDirect, nameBare); got != 0.5 {
		t.Errorf("the ratio is %v, want 0.5", got)
	}
	if got := r.ratio("r", nameDirect, namePolicy); got != 0 {
		t.Errorf("the ratio to a contender that did not run is %v, want 0", got)
	}
	if page := r.markdown(); !strings.Contains(page, "| 3 | 2.00 (1.00 to 9.00) | **1** (0 to 2) |") {
		t.Errorf("the page does not contain the medians:\n%s", page)
	}
}

func TestScrapeKeepsRequestedMetrics(t *testing.T) {
	const page = `# TYPE wanted counter
wanted{verb="POST"} 3
# TYPE other counter
other 4
`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) }))
	defer server.Close()
	families, err := scrape(t.Context(), server.Client(), server.URL, "wanted")
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 || families["wanted"].GetMetric()[0].GetCounter().GetValue() != 3 {
		t.Errorf("scraped %v", families)
	}
	if verb := labelsOf(families["wanted"].GetMetric()[0])["verb"]; verb != "POST" {
		t.Errorf("the label is %q", verb)
	}
}

// Each awaited Work crosses the line once, and no other Work does.
func TestFinish(t *testing.T) {
	first, second := types.NamespacedName{Name: "first"}, types.NamespacedName{Name: "second"}
	w := &watcher{}
	f := w.await(map[types.NamespacedName]int{first: 0, second: 1}, 2, func(work seen) bool { return work.generation > 1 })
	began := time.Now()
	for i, work := range []seen{{key: first, generation: 1}, {key: first, generation: 2}, {key: first, generation: 3}, {key: types.NamespacedName{Name: "third"}, generation: 2}} {
		f.take(work, began.Add(time.Duration(i)*time.Second))
	}
	select {
	case <-f.done:
		t.Fatal("done, although the second Work has not crossed")
	default:
	}
	last := began.Add(time.Minute)
	f.take(seen{key: second, generation: 2}, last)
	at, err := w.wait(t.Context(), f)
	if err != nil || !at.Equal(last) || !f.last[0].Equal(began.Add(time.Second)) {
		t.Errorf("the last crossed at %v, want %v; the first object's at %v; %v", at, last, f.last[0], err)
	}
}

func TestTrafficMinus(t *testing.T) {
	got := traffic{"POST works": 5, "PUT works": 2}.minus(traffic{"POST works": 3, "PUT works": 2})
	if len(got) != 1 || got["POST works"] != 2 {
		t.Errorf("the difference is %v", got)
	}
}
