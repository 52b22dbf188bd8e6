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

package propagation

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// TestMetricsFollowTheConventions: names and help texts follow the rules of Prometheus.
func TestMetricsFollowTheConventions(t *testing.T) {
	const kind = "TestMetricsFollowTheConventions" // no other test counts it
	// A metric without a series is not gathered.
	reconcileErrors.WithLabelValues(kind, reasonReconcileFailed)
	workWrites.WithLabelValues(kind, "create")
	templateWrites.WithLabelValues(kind)
	worksSkipped.WithLabelValues(kind)
	clusterRows.WithLabelValues(kind, clusterStates[0])
	rollouts.WithLabelValues(kind, rolloutPhases[0])
	confirmationSeconds.WithLabelValues(kind)
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	registered := registeredMetrics(t)
	own := slices.DeleteFunc(families, func(family *dto.MetricFamily) bool {
		delete(registered, family.GetName())
		return !strings.HasPrefix(family.GetName(), ownPrefix)
	})
	for name := range registered {
		if strings.HasPrefix(name, ownPrefix) {
			t.Errorf("%s is not checked: give it a series above", name)
		}
	}
	problems, err := promlint.NewWithMetricFamilies(own).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// documentedMetric is a row of the table of metrics.
var documentedMetric = regexp.MustCompile("(?m)^\\| `(" + ownPrefix + "\\w+){([\\w,]+)}` \\|")

// TestMetricsAreDocumented: the table in docs/install.md has every metric of this project,
// with its labels.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range documentedMetric.FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = row[2]
	}
	registered := registeredMetrics(t)
	for name := range registered {
		if !strings.HasPrefix(name, ownPrefix) {
			delete(registered, name)
		}
	}
	if diff := cmp.Diff(registered, documented); diff != "" {
		t.Errorf("metrics and their labels (-registered +documented):\n%s", diff)
	}
}

// TestRecordedMetricsAreRegistered: the tests of the chart run the queries of the alerts and the
// dashboard on recorded series. Those are of metrics that are registered, here or by a library,
// and have their labels.
func TestRecordedMetricsAreRegistered(t *testing.T) {
	file, err := os.Open("../../hack/chart/testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(file)
	if err != nil {
		t.Fatal(err)
	}
	registered := registeredMetrics(t)
	for name := range registered {
		if strings.HasPrefix(name, ownPrefix) && families[name] == nil {
			t.Errorf("%s is not recorded", name)
		}
	}
	for name, family := range families {
		labels, found := registered[name]
		for _, series := range family.GetMetric() {
			names := []string{}
			for _, label := range series.GetLabel() {
				names = append(names, label.GetName())
			}
			if got := inOrder(names); !found || got != labels {
				t.Fatalf("%s is recorded with the labels %q, and registered (%v) with %q", name, got, found, labels)
			}
		}
	}
}

// ownPrefix is how the names of the metrics of this project begin. Libraries register
// others in the same registry.
const ownPrefix = "karmada_direct_"

// description is how a description prints a name and its labels.
var description = regexp.MustCompile(`fqName: "(\w+)".* variableLabels: {([\w,]*)}`)

// inOrder joins labels, in alphabetical order.
func inOrder(labels []string) string {
	return strings.Join(slices.Sorted(slices.Values(labels)), ",")
}

// registeredMetrics returns the labels of every metric that is registered, whether or not it has a
// series.
func registeredMetrics(t *testing.T) map[string]string {
	t.Helper()
	registry, ok := metrics.Registry.(*prometheus.Registry)
	if !ok {
		t.Fatalf("the registry is a %T, which does not list what is registered", metrics.Registry)
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	registered := map[string]string{}
	for each := range descriptions {
		match := description.FindStringSubmatch(each.String())
		if match == nil {
			t.Fatalf("cannot read the description %s", each)
		}
		registered[match[1]] = inOrder(strings.Split(match[2], ","))
	}
	return registered
}
