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

// Every alert has a valid Prometheus query over recorded metrics, and links to its own
// section of the runbook.
func TestAlerts(t *testing.T) {
	alerts := alertsOf(t)
	if len(alerts) < 5 {
		t.Fatalf("there are only %d alerts", len(alerts))
	}
	stored, anchors := recordedMetrics(t), anchorsOf(t, "../../docs/operations/runbook.md")
	for _, alert := range alerts {
		t.Run(alert.Alert, func(t *testing.T) {
			stored.checkQuery(t, alert.Expr)
			page, anchor, found := strings.Cut(alert.Annotations["runbook_url"], "#")
			if !found || !strings.HasSuffix(page, "/docs/operations/runbook.md") {
				t.Fatalf("the runbook is %s", alert.Annotations["runbook_url"])
			}
			if own := strings.ToLower(alert.Alert); anchor != own {
				t.Errorf("it links to #%s, want #%s", anchor, own)
			}
			if !slices.Contains(anchors, anchor) {
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

// The runbook sends those who see an alert with a reason to its entry in
// troubleshooting.md. There is one for every reason.
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
