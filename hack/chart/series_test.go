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

package chart

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// recording is what Prometheus has stored: series with one value a minute. Prometheus' own
// storage for tests would do the same, but needs the whole database and the SDKs of three
// clouds.
type recording []promql.Series

// start is the time of the first value.
var start = time.Unix(0, 0)

// record stores series that are written as in the tests of promtool.
func record(t *testing.T, lines ...string) recording {
	t.Helper()
	stored := recording{}
	for _, line := range lines {
		name, values, err := parser.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		points := []promql.FPoint{}
		for minute, value := range values {
			points = append(points, promql.FPoint{T: timeOf(minute).UnixMilli(), F: value.Value})
		}
		stored = append(stored, promql.Series{Metric: name, Floats: points})
	}
	return stored
}

func timeOf(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }

// minutes returns for how long there are values.
func (r recording) minutes() int {
	longest := 0
	for i := range r {
		longest = max(longest, len(r[i].Floats))
	}
	return longest
}

// ask runs a query at a minute. The result is sorted by labels.
func (r recording) ask(t *testing.T, query string, minute int) promql.Vector {
	t.Helper()
	asked, err := engine.NewInstantQuery(t.Context(), r.queryable(), nil, query, timeOf(minute))
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer asked.Close()
	answer := asked.Exec(t.Context())
	if len(answer.Warnings) > 0 {
		t.Errorf("%s: %v", query, answer.Warnings)
	}
	vector, err := answer.Vector()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	vector = slices.Clone(vector) // closing the query takes it back
	slices.SortFunc(vector, func(a, b promql.Sample) int { return labels.Compare(a.Metric, b.Metric) })
	return vector
}

var engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})

func (r recording) queryable() storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return &selection{series: slices.DeleteFunc(slices.Clone(r), func(series promql.Series) bool {
				return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Metric.Get(m.Name)) })
			})}
		},
	}}
}

// selection iterates over the series that a selector matches.
type selection struct {
	series []promql.Series
	next   int
}

func (s *selection) Next() bool {
	s.next++
	return s.next <= len(s.series)
}

func (s *selection) At() storage.Series              { return promql.NewStorageSeries(s.series[s.next-1]) }
func (*selection) Err() error                        { return nil }
func (*selection) Warnings() annotations.Annotations { return nil }
