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
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
)

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alertsOf(t *testing.T, settings ...string) []alert {
	t.Helper()
	rule := struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       struct {
			Groups []struct {
				Name  string  `json:"name"`
				Rules []alert `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}{}
	content, err := render(t, append(settings, "metrics.prometheusRule.enabled=true")...).find("PrometheusRule").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &rule); err != nil {
		t.Fatal(err)
	}
	return rule.Spec.Groups[0].Rules
}

// Every alert has a valid Prometheus query over existing metrics, and links to an
// existing entry of the runbook.
func TestAlerts(t *testing.T) {
	alerts := alertsOf(t)
	if len(alerts) < 5 {
		t.Fatalf("there are only %d alerts", len(alerts))
	}
	known, anchors := knownMetrics(t), anchorsOf(t, "../../docs/troubleshooting.md")
	for _, alert := range alerts {
		t.Run(alert.Alert, func(t *testing.T) {
			checkQuery(t, alert.Expr, known)
			page, anchor, found := strings.Cut(alert.Annotations["runbook_url"], "#")
			if !found || !strings.HasSuffix(page, "/docs/troubleshooting.md") {
				t.Fatalf("the runbook is %s", alert.Annotations["runbook_url"])
			}
			if anchor != "{{ $labels.reason | toLower }}" && !slices.Contains(anchors, anchor) {
				t.Errorf("the runbook has no #%s, only %v", anchor, anchors)
			}
			if !strings.Contains(alert.Expr, `namespace="karmada-system"`) {
				t.Errorf("it covers all namespaces: %s", alert.Expr)
			}
			if alert.For == "" || alert.Labels["severity"] == "" || alert.Annotations["summary"] == "" || alert.Annotations["description"] == "" {
				t.Errorf("it is incomplete: %+v", alert)
			}
		})
	}
}

// For an alert that links by reason, the runbook says what to do for every reason.
func TestEveryReasonHasARunbook(t *testing.T) {
	source, err := os.ReadFile("../../apis/propagation/v1alpha1/reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`(?m)^\s*Reason\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < 15 {
		t.Fatalf("found only %d reasons; is the search still correct?", len(reasons))
	}
	anchors := anchorsOf(t, "../../docs/troubleshooting.md")
	for _, reason := range append(reasons, []string{"", "ReconcileFailed"}) { // only the metric has this one
		if !slices.Contains(anchors, strings.ToLower(reason[1])) {
			t.Errorf("docs/troubleshooting.md has no entry for %s", reason[1])
		}
	}
}

func TestAlertsCanBeTuned(t *testing.T) {
	alerts := alertsOf(t, "metrics.prometheusRule.disabled={KarmadaDirectNoLeader}", "metrics.prometheusRule.alertLabels.team=platform",
		"metrics.prometheusRule.runbookURL=https://wiki.example.org/karmada")
	for _, alert := range alerts {
		if alert.Alert == "KarmadaDirectNoLeader" {
			t.Error("a disabled alert is rendered")
		}
		if alert.Labels["team"] != "platform" || !strings.HasPrefix(alert.Annotations["runbook_url"], "https://wiki.example.org/karmada#") {
			t.Errorf("%+v", alert)
		}
	}
}

func TestDashboard(t *testing.T) {
	config := typed[corev1.ConfigMap](render(t, "metrics.dashboard.enabled=true"), "ConfigMap")
	if config.Labels["grafana_dashboard"] != "1" {
		t.Errorf("Grafana's sidecar would not find it by %v", config.Labels)
	}
	dashboard := struct {
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			Type    string `json:"type"`
			GridPos struct{ X, Y, W, H int }
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}{}
	if err := json.Unmarshal([]byte(config.Data["karmada-direct.json"]), &dashboard); err != nil {
		t.Fatal(err)
	}
	known := knownMetrics(t)
	taken := map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %s shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			query := strings.NewReplacer("$__rate_interval", "5m", "$namespace", "karmada-system").Replace(target.Expr)
			checkQuery(t, query, known)
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

func checkQuery(t *testing.T, query string, known []string) {
	t.Helper()
	parsed, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && !slices.Contains(known, strings.TrimSuffix(selector.Name, "_bucket")) {
			t.Errorf("%s: there is no metric %s", query, selector.Name)
		}
		return nil
	})
}

// knownMetrics returns the metrics in the controller's source code and some that its
// libraries add. hack/e2e/helm checks that a running controller serves them all.
func knownMetrics(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("../../controllers/propagation/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	known := []string{
		"leader_election_master_status", "controller_runtime_reconcile_total", "controller_runtime_reconcile_time_seconds",
		"workqueue_depth", "rest_client_requests_total", "process_resident_memory_bytes", "process_cpu_seconds_total",
	}
	own := regexp.MustCompile(`Name: +"(karmada_direct_\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(own) < 5 {
		t.Fatalf("found only %d metrics; is the search still correct?", len(own))
	}
	for _, metric := range own {
		known = append(known, metric[1])
	}
	return known
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped = regexp.MustCompile("[^-a-z0-9 _]")
)

// anchorsOf returns the anchors of the sections of a page that have text, as GitHub generates them from their
// headings.
func anchorsOf(t *testing.T, page string) []string {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	anchors := []string{}
	places := heading.FindAllStringSubmatchIndex(string(content), -1)
	for i, place := range places {
		end := len(content)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		if len(bytes.TrimSpace(content[place[1]:end])) == 0 {
			continue // nothing but other headings
		}
		title := strings.ToLower(string(content[place[2]:place[3]]))
		anchors = append(anchors, strings.ReplaceAll(dropped.ReplaceAllString(title, ""), " ", "-"))
	}
	return anchors
}
