//go:build integration

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

package v1alpha1_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	theTime    = "2026-01-02T03:04:05Z"
	summaryOf2 = "summary: {progress: 0/2, clusters: 2, applied: 0, healthy: 0, failed: 1, pending: 1, unreachable: 0}"
)

// rowSaying is a row of a status, with more fields.
func rowSaying(name, more string) string {
	return fmt.Sprintf("{name: %s, applied: 'False', health: Unknown, reason: ApplyFailed, lastTransitionTime: %q%s}", name, theTime, more)
}

func conditionOf(kind string) string {
	return fmt.Sprintf("{type: %s, status: 'False', reason: ApplyFailed, message: x, observedGeneration: 1, lastTransitionTime: %q}", kind, theTime)
}

func manyRows(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = rowSaying(fmt.Sprintf("member%d", i), "")
	}
	return "clusters: [" + strings.Join(list, ",") + "]"
}

// wholeRollout is the status of a rollout with every field.
const wholeRollout = `
rollout:
  phase: Progressing
  progress: canary 1/2
  reason: RolloutProgressing
  currentRevision: 18bb57c0aa064257
  updateRevision: 71f5fbd608ae0205
  failedRevision: 2a2a2a2a2a2a2a2a
  failure: {stage: canary, clusters: 17, clusterNames: [member1]}
  paused: true
  stage: canary
  stages:
  - {name: canary, clusters: 2, updated: 2, ready: 1, failed: 0, deferred: 0, maxConcurrency: 2, maxFailures: 0, resolvedFor: 2,
     startedAt: "2026-01-02T03:04:05Z", readySince: "2026-01-02T03:04:05Z", approvedRevision: 71f5fbd608ae0205, passedAt: "2026-01-02T03:04:05Z"}
  - {name: default, clusters: 0, updated: 0, ready: 0, failed: 0, deferred: 0, maxConcurrency: 0, maxFailures: 0, resolvedFor: 0}
  turns:
  - {revision: 71f5fbd608ae0205, kind: Relapse, startedAt: "2026-01-02T03:04:05Z", healthySince: "2026-01-02T03:04:05Z", stoppedAt: "2026-01-02T03:04:05Z", failed: true, clusterNames: [member1]}
  - {revision: 71f5fbd608ae0205, startedAt: "2026-01-02T03:04:05Z", clusterNames: [member2]}
  handled: {approve: canary@71f5fbd608ae0205, retry: 71f5fbd608ae0205/1, abort: 71f5fbd608ae0205, pause: "1", resume: "2"}
`

var statusCases = []answerCase{{
	name: "a whole rollout",
	yaml: wholeRollout + "clusters: [" + rowSaying("member1", ", rollout: {stage: canary, assignedRevision: 71f5fbd608ae0205, confirmedRevision: 18bb57c0aa064257}") + "]",
}, {
	name: "a rollout that says nothing",
	yaml: "rollout: {}",
	want: blocked("status.rollout.phase: Required value", "status.rollout.progress: Required value"),
}, {
	name: "a phase that does not exist",
	yaml: "rollout: {phase: Waiting, progress: Waiting}",
	want: blocked(`status.rollout.phase: Unsupported value: "Waiting": supported values: "Progressing", "Completed", "Failed", "RollingBack", "RolledBack", "Reverting", "StateLost"`),
}, {
	name: "10000 clusters with a turn",
	yaml: `rollout: {phase: Progressing, progress: Progressing, turns: [{revision: a, startedAt: "2026-01-02T03:04:05Z", clusterNames: [` + clusterNames(10000) + "]}]}",
}, {
	name: "a whole status",
	yaml: fmt.Sprintf("observedGeneration: 1\n%s\nconditions: [%s]\nomitted: 0\nclusters: [%s, %s]", summaryOf2, conditionOf("Ready"),
		rowSaying("member1", ", message: '"+strings.Repeat("m", 256)+"', revision: '"+strings.Repeat("r", 64)+"'"), rowSaying("member2", "")),
}, {
	name: "not seen yet",
	yaml: "observedGeneration: -1",
}, {
	name: "an impossible generation",
	yaml: "observedGeneration: -2",
	want: refused + "status.observedGeneration: Invalid value: -2: observedGeneration in body should be greater than or equal to -1",
}, {
	name: "a message that is too long",
	yaml: "clusters: [" + rowSaying("member1", ", message: '"+strings.Repeat("m", 257)+"'") + "]",
	want: blocked("status.clusters[0].message: Too long: may not be more than 256 bytes"),
}, {
	name: "a revision that is too long",
	yaml: "clusters: [" + rowSaying("member1", ", revision: '"+strings.Repeat("r", 65)+"'") + "]",
	want: blocked("status.clusters[0].revision: Too long: may not be more than 64 bytes"),
}, {
	name: "256 rows",
	yaml: manyRows(256),
}, {
	name: "257 rows",
	yaml: manyRows(257),
	want: blocked("status.clusters: Too many: 257: must have at most 256 items"),
}, {
	name: "two conditions of one type",
	yaml: fmt.Sprintf("conditions: [%s, %s]", conditionOf("Ready"), conditionOf("Ready")),
	want: refused + `status.conditions[1]: Duplicate value: {"type":"Ready"}`,
}, {
	name: "a state that does not exist",
	yaml: fmt.Sprintf("clusters: [{name: member1, applied: 'Maybe', health: Fine, reason: ApplyFailed, lastTransitionTime: %q}]", theTime),
	want: blocked(`status.clusters[0].applied: Unsupported value: "Maybe": supported values: "True", "False", "Unknown"`,
		`status.clusters[0].health: Unsupported value: "Fine": supported values: "Healthy", "Unhealthy", "Unknown"`),
}, {
	name: "a row that says nothing",
	yaml: "clusters: [{name: member1}]",
	want: blocked("status.clusters[0].applied: Required value", "status.clusters[0].health: Required value",
		"status.clusters[0].lastTransitionTime: Required value", "status.clusters[0].reason: Required value"),
}, {
	name: "a negative count",
	yaml: "summary: {progress: 0/2, clusters: 2, applied: 0, healthy: 0, failed: -1, pending: 1, unreachable: 0}",
	want: refused + "status.summary.failed: Invalid value: -1: summary.failed in body should be greater than or equal to 0",
}}

func TestStatusValidation(t *testing.T) {
	t.Parallel()
	for _, tc := range statusCases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			// A unique name, and persisted: the status of an object that does not
			// exist cannot be written.
			name := strings.NewReplacer(" ", "-").Replace(strings.ToLower(tc.name))
			object, err := create(t, name, spec(web, members), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			object.Object["status"] = decode(t, tc.yaml)
			_, err = client(t).UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
			if diff := cmp.Diff(strings.ReplaceAll(tc.want, `"web"`, strconv.Quote(name)), message(err)); diff != "" {
				t.Errorf("answer of the API server (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStatusIsASubresource checks that users cannot write the status with the
// spec, and that the controller cannot change the spec with the status.
func TestStatusIsASubresource(t *testing.T) {
	t.Parallel()
	object, err := create(t, "subresource", spec(web, members)+"\n", metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Object["status"] = map[string]any{"observedGeneration": int64(7)}
	object.Object["spec"] = decode(t, spec(web, "[{name: member3}]"))
	object, err = client(t).UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := object.GetGeneration(); got != 1 {
		t.Errorf("a write of the status made generation %d of the spec", got)
	}

	object.Object["status"] = map[string]any{"observedGeneration": int64(8)}
	object.Object["spec"] = decode(t, spec(web, "[{name: member4}]"))
	object, err = client(t).Update(t.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := object.GetGeneration(); got != 2 {
		t.Errorf("generation after a change of the spec: %d, want 2", got)
	}
	if got, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); got != 7 {
		t.Errorf("a write of the spec changed status.observedGeneration to %d", got)
	}
}
