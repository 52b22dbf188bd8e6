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
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
	"sigs.k8s.io/yaml"
)

// The labels that Prometheus adds to the series of two replicas.
const (
	in     = `namespace="karmada-system",pod="kd-direct-propagation-7d4b9c6f5d-x2x8k"}`
	second = `namespace="karmada-system",pod="kd-direct-propagation-7d4b9c6f5d-qq4jm"}`
)

// alertCase is what makes an alert fire, and what does not.
type alertCase struct {
	// fires are recordings, each of which fires the alert once.
	fires [][]string
	// quiet are recordings that never fire it.
	quiet map[string][]string
	// summary and description are what the alert says of the first recording that fires it.
	summary, description string
}

var alertCases = map[string]alertCase{
	"KarmadaDirectNoLeader": {
		fires: [][]string{
			{`leader_election_master_status{name="karmada-direct",` + in + ` 0x10`},
			{`leader_election_master_status{name="karmada-direct",namespace="other",pod="kd-direct-propagation-7d4b9c6f5d-x2x8k"} 1x10`},
			{`leader_election_master_status{name="another",` + in + ` 1x10`},
		},
		quiet: map[string][]string{
			"one of two leads": {
				`leader_election_master_status{name="karmada-direct",` + in + ` 0x20`,
				`leader_election_master_status{name="karmada-direct",` + second + ` 1x20`,
			},
			"another one takes over": {
				`leader_election_master_status{name="karmada-direct",` + in + ` 1x5 0x15`,
				`leader_election_master_status{name="karmada-direct",` + second + ` 0x9 1x11`,
			},
		},
		summary: "Karmada Direct has no leader", description: "Clusters keep what they run, but no change reaches them.",
	},
	"KarmadaDirectTrouble": {
		fires: [][]string{{`karmada_direct_reconcile_errors_total{kind="DirectPropagation",reason="RenderFailed",` + in + ` 0+1x30`}},
		quiet: map[string][]string{
			"a single failure": {`karmada_direct_reconcile_errors_total{kind="DirectPropagation",reason="RenderFailed",` + in + ` 0x10 1x40`},
			"different failures": {
				`karmada_direct_reconcile_errors_total{kind="DirectPropagation",reason="RenderFailed",` + in + ` 0x10 1x40`,
				`karmada_direct_reconcile_errors_total{kind="DirectPropagation",reason="WriteFailed",` + in + ` 0x20 1x30`,
			},
		},
		summary: "DirectPropagation: RenderFailed", description: "Reconciles of some objects of kind DirectPropagation have ended with RenderFailed for 15 minutes.",
	},
	"KarmadaDirectClusterFailed": {
		fires: [][]string{{`karmada_direct_clusters{kind="DirectPropagation",state="failed",` + in + ` 0x3 2x20`}},
		quiet: map[string][]string{
			"repaired in time": {`karmada_direct_clusters{kind="DirectPropagation",state="failed",` + in + ` 2x13 0x20`},
			"another state":    {`karmada_direct_clusters{kind="DirectPropagation",state="applied",` + in + ` 2x30`},
		},
		summary: "Clusters cannot get the current revision", description: "In 2 rows of objects of kind DirectPropagation, the cluster refuses the resource or may not get it.",
	},
	"KarmadaDirectClusterUnreachable": {
		fires: [][]string{{`karmada_direct_clusters{kind="ClusterDirectPropagation",state="unreachable",` + in + ` 3x20`}},
		quiet: map[string][]string{
			"back in time":       {`karmada_direct_clusters{kind="ClusterDirectPropagation",state="unreachable",` + in + ` 3x13 0x20`},
			"of another release": {`karmada_direct_clusters{kind="ClusterDirectPropagation",state="unreachable",namespace="karmada-system",pod="another-7d4b9c6f5d-x2x8k"} 3x30`},
		},
		summary: "Karmada has lost contact with clusters", description: "In 3 rows of objects of kind ClusterDirectPropagation, it is unknown what the cluster runs.",
	},
	"KarmadaDirectClusterPending": {
		fires: [][]string{{`karmada_direct_clusters{kind="DirectPropagation",state="pending",` + in + ` 1x70`}},
		quiet: map[string][]string{
			"answered after 50 minutes": {`karmada_direct_clusters{kind="DirectPropagation",state="pending",` + in + ` 1x50 0x70`},
			"waits for its turn":        {`karmada_direct_clusters{kind="DirectPropagation",state="waiting",` + in + ` 1x120`},
		},
		summary: "Clusters do not answer", description: "In 1 rows of objects of kind DirectPropagation, a cluster has not confirmed what it was sent.",
	},
	"KarmadaDirectSlowConfirmation": {
		fires: [][]string{confirmations("102.4", "0+3x60")},
		quiet: map[string][]string{
			"quick":                 confirmations("0.4", "0+3x60"),
			"slow for a quarter":    confirmations("102.4", "0+3x15 45x60"),
			"nothing is confirmed":  confirmations("102.4", "7x60"),
			"one in a hundred slow": append(confirmations("0.4", "0+99x60"), confirmationsOf(second, "102.4", "0+1x60")...),
		},
		summary: "Clusters confirm slowly", description: "One in ten confirmations of objects of kind DirectPropagation takes longer than 97.28 seconds.",
	},
	"KarmadaDirectRolloutFailed": {
		fires: [][]string{
			{`karmada_direct_rollouts{kind="DirectPropagation",phase="RolledBack",` + in + ` 1x10`},
			{`karmada_direct_rollouts{kind="DirectPropagation",phase="Failed",` + in + ` 1x10`},
			{`karmada_direct_rollouts{kind="DirectPropagation",phase="StateLost",` + in + ` 1x10`},
		},
		quiet: map[string][]string{
			"in progress":     {`karmada_direct_rollouts{kind="DirectPropagation",phase="Progressing",` + in + ` 1x30`},
			"retried in time": {`karmada_direct_rollouts{kind="DirectPropagation",phase="Failed",` + in + ` 1x3 0x30`},
		},
		summary:     "Rollouts have failed",
		description: "The rollouts of 1 objects of kind DirectPropagation have failed, or were rolled back. Nothing more happens before somebody changes the resource or requests a retry.",
	},
	"KarmadaDirectRolloutAwaitingApproval": {
		fires: [][]string{{`karmada_direct_rollouts{kind="DirectPropagation",phase="AwaitingApproval",` + in + ` 1x1450`}},
		quiet: map[string][]string{
			"approved in time": {`karmada_direct_rollouts{kind="DirectPropagation",phase="AwaitingApproval",` + in + ` 1x1400 0x100`},
			"paused":           {`karmada_direct_rollouts{kind="DirectPropagation",phase="Paused",` + in + ` 1x1450`},
		},
		summary: "Rollouts have waited for an approval for a day", description: "The rollouts of 1 objects of kind DirectPropagation wait for somebody to approve a stage.",
	},
}

// confirmations is a histogram whose values are all in one bucket.
func confirmations(bucket, counts string) []string { return confirmationsOf(in, bucket, counts) }

func confirmationsOf(replica, bucket, counts string) []string {
	lines, found := []string{}, false
	for _, le := range []string{"0.2", "0.4", "51.2", "102.4", "+Inf"} {
		found = found || le == bucket
		values := counts
		if !found {
			values = "0x100"
		}
		lines = append(lines, fmt.Sprintf(`karmada_direct_confirmation_seconds_bucket{kind="DirectPropagation",le=%q,%s %s`, le, replica, values))
	}
	return lines
}

// TestAlertsFire: Prometheus' engine finds what an alert is for, and nothing else.
func TestAlertsFire(t *testing.T) {
	alerts := alertsOf(t)
	for _, each := range alerts {
		t.Run(each.Alert, func(t *testing.T) {
			tc, found := alertCases[each.Alert]
			if !found || len(tc.fires) == 0 || len(tc.quiet) == 0 {
				t.Fatal("it needs a case in which it fires, and one in which it does not")
			}
			for _, lines := range tc.fires {
				if fired := each.fired(t, lines); len(fired) != 1 {
					t.Errorf("it fires %d times, not once, with %s", len(fired), lines)
				}
			}
			for name, lines := range tc.quiet {
				if fired := each.fired(t, lines); len(fired) > 0 {
					t.Errorf("%s: it fires and says %v", name, fired)
				}
			}
			for _, says := range each.fired(t, tc.fires[0]) {
				if says["summary"] != tc.summary || says["description"] != tc.description || !strings.HasSuffix(says["runbook_url"], "#"+strings.ToLower(each.Alert)) {
					t.Errorf("it says %q", says)
				}
			}
		})
	}
	if len(alertCases) != len(alerts) {
		t.Errorf("there are cases of %v, but only %d alerts", slices.Sorted(maps.Keys(alertCases)), len(alerts))
	}
}

// fired evaluates an alert every minute, as Prometheus does, and returns the annotations of each
// series that has fired, by its labels.
func (a alert) fired(t *testing.T, lines []string) map[string]map[string]string {
	t.Helper()
	patience, err := model.ParseDuration(a.For)
	if err != nil {
		t.Fatal(err)
	}
	stored := record(t, lines...)
	since, fired := map[string]int{}, map[string]map[string]string{}
	for minute := range stored.minutes() {
		active := map[string]int{}
		for _, sample := range stored.ask(t, a.Expr, minute) {
			series := sample.Metric.String()
			active[series] = minute
			if began, found := since[series]; found {
				active[series] = began
			}
			if time.Duration(minute-active[series])*time.Minute >= time.Duration(patience) {
				fired[series] = a.says(t, sample)
			}
		}
		since = active
	}
	return fired
}

// says expands the annotations, with the variables that Prometheus defines.
func (a alert) says(t *testing.T, sample promql.Sample) map[string]string {
	t.Helper()
	text := map[string]string{}
	for name, annotation := range a.Annotations {
		expander := template.NewTemplateExpander(t.Context(), "{{$labels := .Labels}}{{$value := .Value}}"+annotation, a.Alert,
			template.AlertTemplateData(sample.Metric.Map(), nil, "", sample), 0, nil, nil, nil)
		expanded, err := expander.Expand()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text[name] = expanded
	}
	return text
}

// TestRulesAreValid: Prometheus reads the rules, including durations, labels and templates.
func TestRulesAreValid(t *testing.T) {
	rules := render(t, "metrics.prometheusRule.enabled=true").find("PrometheusRule")
	content, err := yaml.Marshal(rules.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := rulefmt.Parse(content, false, model.UTF8Validation); len(problems) > 0 {
		t.Errorf("%v\n%s", problems, content)
	}
}
