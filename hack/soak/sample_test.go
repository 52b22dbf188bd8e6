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
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// meter measures a controller.
type meter struct {
	// url is the address of its metrics.
	url string
	// open is the number of its open watches.
	open  *atomic.Int64
	taken []sample
}

// sample is the state of the process at a moment.
type sample struct {
	at     time.Duration
	values [quantities]float64
}

// What is measured, in the order of the columns.
const (
	resident = iota
	heap
	goroutines
	watches
	descriptors
	requests
	quantities
)

// quantity is something that must stay flat: in the last quarter, its median may be a
// share above that of the second quarter, and an additional amount.
type quantity struct {
	column        string
	metric        string
	scale         float64
	share, amount float64
}

var measures = [quantities]quantity{
	resident:    {"resident_mib", "process_resident_memory_bytes", 1 << 20, 0.05, 4},
	heap:        {"heap_mib", "go_memstats_heap_alloc_bytes", 1 << 20, 0.10, 3},
	goroutines:  {"goroutines", "go_goroutines", 1, 0.02, 5},
	watches:     {"watches", "", 1, 0, 0},
	descriptors: {"file_descriptors", "process_open_fds", 1, 0, 5},
	requests:    {"requests_per_second", "rest_client_requests_total", 1, 0.25, 1},
}

// samples measures until ctx is done or the time is over.
func (m *meter) samples(ctx context.Context, began time.Time, duration time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	previous, err := m.sample(ctx)
	last := time.Now()
	for err == nil && time.Since(began) < duration {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var current [quantities]float64
		if current, err = m.sample(ctx); err != nil {
			break
		}
		now := time.Now()
		taken := sample{at: now.Sub(began), values: current}
		taken.values[requests] = (current[requests] - previous[requests]) / now.Sub(last).Seconds()
		m.taken, previous, last = append(m.taken, taken), current, now
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the test has ended
	}
	return err
}

// sample reads the metrics once. Requests are those since the start of the process.
func (m *meter) sample(ctx context.Context) (values [quantities]float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url, http.NoBody)
	if err != nil {
		return values, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return values, fmt.Errorf("reading the metrics: %w", err)
	}
	defer response.Body.Close()
	if values, err = parse(response.Body); err != nil {
		return values, err
	}
	values[watches] = float64(m.open.Load())
	return values, nil
}

// parse adds up the series of each metric.
func parse(page io.Reader) (values [quantities]float64, err error) {
	found := [quantities]bool{watches: true}
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		i := slices.IndexFunc(measures[:], func(q quantity) bool { return q.metric != "" && q.metric == name })
		if i < 0 {
			continue
		}
		value, err := strconv.ParseFloat(lines.Text()[strings.LastIndex(lines.Text(), " ")+1:], 64)
		if err != nil {
			return values, fmt.Errorf("reading the metric %q: %w", lines.Text(), err)
		}
		values[i] += value / measures[i].scale
		found[i] = true
	}
	for i, is := range found {
		if !is {
			err = errors.Join(err, fmt.Errorf("the controller has no metric %s", measures[i].metric))
		}
	}
	return values, errors.Join(err, lines.Err())
}

// compare checks that each quantity is flat, and returns a row of a table for each.
func compare(t *testing.T, taken []sample) []string {
	t.Helper()
	const least = 8 // two in each quarter
	if len(taken) < least {
		t.Fatalf("%d samples show nothing; let the test run longer", len(taken))
	}
	quarter := len(taken) / 4
	rows := []string{"| | second quarter | last quarter | limit |", "|---|---|---|---|"}
	for i, q := range measures {
		second, last := median(taken[quarter:2*quarter], i), median(taken[3*quarter:], i)
		limit := second*(1+q.share) + q.amount
		rows = append(rows, fmt.Sprintf("| %s | %.1f | %.1f | ≤ %.1f |", q.column, second, last, limit))
		if last > limit {
			t.Errorf("%s grew from %.1f in the second quarter to %.1f in the last one, more than %.1f", q.column, second, last, limit)
		}
	}
	return rows
}

func median(taken []sample, i int) float64 {
	values := []float64{}
	for _, s := range taken {
		values = append(values, s.values[i])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// writeCSV writes the samples for the plot.
func writeCSV(path string, taken []sample) error {
	header := []string{"seconds"}
	for _, q := range measures {
		header = append(header, q.column)
	}
	records := [][]string{header}
	for _, s := range taken {
		record := []string{strconv.FormatFloat(s.at.Seconds(), 'f', 0, 64)}
		for _, value := range s.values {
			record = append(record, strconv.FormatFloat(value, 'f', 1, 64))
		}
		records = append(records, record)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the folder of the samples: %w", err)
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the samples: %w", err)
	}
	return errors.Join(csv.NewWriter(file).WriteAll(records), file.Close())
}
