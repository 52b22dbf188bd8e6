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
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
)

// dashboard is what the tests read of the dashboard.
type dashboard struct {
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	Title   string `json:"title"`
	Type    string `json:"type"`
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

func dashboardOf(t *testing.T) dashboard {
	t.Helper()
	config := typed[corev1.ConfigMap](render(t, "metrics.dashboard.enabled=true"), "ConfigMap")
	if config.Labels["grafana_dashboard"] != "1" {
		t.Errorf("Grafana's sidecar would not find it by %v", config.Labels)
	}
	shown := dashboard{}
	if err := json.Unmarshal([]byte(config.Data["karmada-direct.json"]), &shown); err != nil {
		t.Fatal(err)
	}
	return shown
}

func TestDashboard(t *testing.T) {
	taken := map[[2]int]string{}
	for _, panel := range dashboardOf(t).Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %s shows nothing", panel.Title)
		}
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				place := [2]int{panel.GridPos.X + x, panel.GridPos.Y + y}
				if other, found := taken[place]; found {
					t.Fatalf("panels %s and %s overlap", other, panel.Title)
				}
				taken[place] = panel.Title
			}
		}
	}
}

var (
	// legendLabel is a label in the legend of a panel.
	legendLabel = regexp.MustCompile(`{{(\w+)}}`)
	// labelValues is the query of a variable: a selector and a label.
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

// TestDashboardShowsWhatIsRecorded: Prometheus' engine answers every query from recorded metrics,
// and the answer has the labels of the legend.
func TestDashboardShowsWhatIsRecorded(t *testing.T) {
	stored := recordedMetrics(t)
	queries := 0
	for _, panel := range dashboardOf(t).Panels {
		for _, target := range panel.Targets {
			queries++
			query := strings.NewReplacer("$__rate_interval", "5m", "$namespace", "karmada-system").Replace(target.Expr)
			stored.checkQuery(t, query)
			answer := stored.ask(t, query, stored.minutes()-1)
			if len(answer) == 0 {
				t.Errorf("%s: %s has no result", panel.Title, query)
			}
			for _, sample := range answer {
				checkSample(t, panel.Title, sample, target.LegendFormat)
			}
		}
	}
	if queries < 15 {
		t.Errorf("found only %d queries; is the search still correct?", queries)
	}
}

func checkSample(t *testing.T, panel string, sample promql.Sample, legend string) {
	t.Helper()
	if math.IsNaN(sample.F) || math.IsInf(sample.F, 0) {
		t.Errorf("%s: %s", panel, sample)
	}
	for _, label := range legendLabel.FindAllStringSubmatch(legend, -1) {
		if sample.Metric.Get(label[1]) == "" {
			t.Errorf("%s: the legend is %s, and the result is %s", panel, legend, sample)
		}
	}
}

// TestDashboardFindsNamespaces: the choice of a namespace offers those of the recorded metrics.
func TestDashboardFindsNamespaces(t *testing.T) {
	stored := recordedMetrics(t)
	for _, variable := range dashboardOf(t).Templating.List {
		if variable.Name != "namespace" {
			continue
		}
		query, _ := variable.Query.(map[string]any)
		text, _ := query["query"].(string)
		match := labelValues.FindStringSubmatch(text)
		if match == nil {
			t.Fatalf("the query is %q", text)
		}
		stored.checkQuery(t, match[1])
		if answer := stored.ask(t, match[1], 0); len(answer) != 1 || answer[0].Metric.Get(match[2]) != "karmada-system" {
			t.Errorf("%s has the result %v", match[1], answer)
		}
		return
	}
	t.Error("there is no such choice")
}

// recordedMetrics returns what Prometheus stores of testdata/metrics.txt in ten minutes, in which counters
// grow to the recorded value. A test in controllers/propagation compares the file with what the
// controller registers, and hack/e2e/helm checks that a running controller serves it.
func recordedMetrics(t *testing.T) recording {
	t.Helper()
	content, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	stored, grows := recording{}, false
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); fields[0] == "#" {
			grows = fields[1] == "TYPE" && fields[3] != "gauge"
			continue
		}
		end := strings.LastIndex(line, " ")
		name, err := parser.ParseMetric(line[:end])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[end:]), 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		builder := labels.NewBuilder(name)
		for _, label := range targetLabels {
			builder.Set(label.Name, label.Value)
		}
		points := []promql.FPoint{}
		for minute := range 11 {
			now := value
			if grows {
				now = value * float64(minute) / 10
			}
			points = append(points, promql.FPoint{T: timeOf(minute).UnixMilli(), F: now})
		}
		stored = append(stored, promql.Series{Metric: builder.Labels(), Floats: points})
	}
	return stored
}

// targetLabels are what Prometheus adds to each series.
var targetLabels = []labels.Label{{Name: "namespace", Value: "karmada-system"}, {Name: "pod", Value: "kd-direct-propagation-7d4b9c6f5d-x2x8k"}}

// checkQuery checks that a query names metrics, labels and values that are recorded.
func (r recording) checkQuery(t *testing.T, query string) {
	t.Helper()
	parsed, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return
	}
	grouped, known := []string{}, []string{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			for _, matcher := range node.LabelMatchers {
				known = append(known, r.checkMatcher(t, query, node.Name, matcher)...)
			}
		case *parser.AggregateExpr:
			grouped = append(grouped, node.Grouping...)
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				grouped = append(grouped, node.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	for _, label := range grouped {
		if !slices.Contains(known, label) {
			t.Errorf("%s: no metric has the label %s", query, label)
		}
	}
}

// checkMatcher checks that a metric has a label, with each of the values that the matcher names. It
// returns the labels of the metric.
func (r recording) checkMatcher(t *testing.T, query, metric string, matcher *labels.Matcher) []string {
	t.Helper()
	names, values := []string{}, []string{}
	for i := range r {
		if series := r[i].Metric; series.Get(model.MetricNameLabel) == metric {
			series.Range(func(label labels.Label) { names = append(names, label.Name) })
			values = append(values, series.Get(matcher.Name))
		}
	}
	for wanted := range strings.SplitSeq(matcher.Value, "|") {
		one := labels.MustNewMatcher(matcher.Type, matcher.Name, wanted)
		if !slices.ContainsFunc(values, one.Matches) {
			t.Errorf("%s: no %s has %s=%q", query, metric, matcher.Name, wanted)
		}
	}
	return names
}
