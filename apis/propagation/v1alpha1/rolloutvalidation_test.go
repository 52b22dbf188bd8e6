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
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/karmada-direct/karmada-direct/apis/client/clientset/versioned"
	"github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// rolling is a spec with a rollout.
func rolling(rollout string) string { return spec(web, members, "rollout: "+rollout) }

// manyStages is a rollout with n stages of clusters, each of which is selected by an
// expression with every operator.
func manyStages(n, clusters int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("{name: stage-%d, clusterNames: [%s], maxConcurrency: 25%%, clusterSelector: {matchExpressions: [%s]}}", i, clusterNames(clusters),
			"{key: a, operator: In, values: [b]}, {key: a, operator: NotIn, values: [c, d]}, {key: a, operator: Exists}, {key: e, operator: DoesNotExist, values: []}")
	}
	return "{stages: [" + strings.Join(list, ",") + "]}"
}

// What the API server must reject is in testdata/invalid/rollout.yaml, apart from lists
// that are too long to write out.
var rolloutCases = []answerCase{{
	name: "nothing but defaults",
	yaml: rolling("{}"),
}, {
	name: "everything",
	yaml: rolling(`
  stages:
  - name: canary
    clusterNames: [member1]
    clusterSelector: {matchLabels: {ring: canary}}
    maxConcurrency: 100%
    soakSeconds: 3600
    approval: Required
  - {name: ` + strings.Repeat("r", 63) + `, clusterSelector: {}}
  maxConcurrency: 25%
  maxFailures: 10%
  minReadySeconds: 30
  soakSeconds: 60
  progressDeadlineSeconds: 31
  onFailure: Rollback
  paused: true`),
}, {
	name: "20 stages with every operator",
	yaml: rolling(manyStages(20, 1)),
}, {
	name: "21 stages",
	yaml: rolling(manyStages(21, 1)),
	want: blocked("spec.rollout.stages: Too many: 21: must have at most 20 items"),
}, {
	name: "2000 names in a stage",
	yaml: rolling(manyStages(1, 2000)),
}, {
	name: "2000 names in each of 20 stages",
	yaml: rolling(manyStages(20, 2000)),
}, {
	name: "2001 names in a stage",
	yaml: rolling(manyStages(1, 2001)),
	want: blocked("spec.rollout.stages[0].clusterNames: Too many: 2001: must have at most 2000 items"),
}, {
	name: "33 expressions",
	yaml: rolling("{stages: [{name: canary, clusterSelector: {matchExpressions: [" + strings.Repeat("{key: a, operator: Exists},", 33) + "]}}]}"),
	want: blocked("spec.rollout.stages[0].clusterSelector.matchExpressions: Too many: 33: must have at most 32 items"),
}}

func TestRolloutValidation(t *testing.T) {
	t.Parallel()
	checkSpecs(t, rolloutCases)
}

// TestNumbersOrPercentages checks which values maxConcurrency and maxFailures may have.
func TestNumbersOrPercentages(t *testing.T) {
	t.Parallel()
	const (
		concurrency = "must be a number of clusters of at least 1, for example 5, or a percentage from 1% to 100%, for example 25%"
		failures    = "must be a number of clusters, for example 1, or a percentage from 0% to 100%, for example 10%"
	)
	cases := []answerCase{}
	add := func(field, rollout, value, rule string) {
		want := ""
		if rule != "" {
			want = refused + fmt.Sprintf("spec.rollout.%s: Invalid value: %s: %s", field, value, rule)
		}
		cases = append(cases, answerCase{name: field + " of " + value, yaml: rolling(fmt.Sprintf(rollout, value)), want: want})
	}
	for _, value := range []string{"1", "7", "5000", "2147483647", `"1%"`, `"9%"`, `"10%"`, `"25%"`, `"99%"`, `"100%"`} {
		add("maxConcurrency", "{maxConcurrency: %s}", value, "")
		add("stages[0].maxConcurrency", "{stages: [{name: canary, clusterNames: [member1], maxConcurrency: %s}]}", value, "")
		add("maxFailures", "{maxFailures: %s}", value, "")
	}
	for _, value := range []string{"0", `"0%"`} {
		add("maxConcurrency", "{maxConcurrency: %s}", value, concurrency)
		add("stages[0].maxConcurrency", "{stages: [{name: canary, clusterNames: [member1], maxConcurrency: %s}]}", value, concurrency)
		add("maxFailures", "{maxFailures: %s}", value, "")
	}
	for _, value := range []string{"-1", "2147483648", `""`, `"%"`, `"5"`, `"01%"`, `"00%"`, `"-5%"`, `"101%"`, `"1000%"`, `"100%%"`, `"2.5%"`, `"5 %"`, `"all"`, `"a0%"`, `"1a%"`} {
		add("maxConcurrency", "{maxConcurrency: %s}", value, concurrency)
		add("stages[0].maxConcurrency", "{stages: [{name: canary, clusterNames: [member1], maxConcurrency: %s}]}", value, concurrency)
		add("maxFailures", "{maxFailures: %s}", value, failures)
	}
	checkSpecs(t, cases)
}

// TestResourceOfARollout: while an object has a rollout, only the version of its resource
// can change. Otherwise, a rollback would bring another resource back.
func TestResourceOfARollout(t *testing.T) {
	t.Parallel()
	const another = "spec.resource: Invalid value: must not name another resource while spec.rollout is set; only the version in apiVersion may change. " +
		"Create another object for the other resource, or remove spec.rollout first"
	crontab := func(version string) string { return "{apiVersion: " + version + ", kind: CronTab, name: web}" }
	for i, tc := range []struct{ name, before, after, want string }{
		{name: "another version", before: spec(crontab("example.org/v1"), members, "rollout: {}"), after: spec(crontab("example.org/v2"), members, "rollout: {}")},
		{name: "another resource, without a rollout", before: spec(web, members), after: spec(crontab("v1"), members)},
		{name: "a rollout is added", before: spec(web, members), after: rolling("{}")},
		{name: "a rollout is removed", before: rolling("{}"), after: spec(web, members)},
		{name: "another group", before: spec(crontab("example.org/v1"), members, "rollout: {}"), after: spec(crontab("example.com/v1"), members, "rollout: {}"), want: another},
		{name: "the core group", before: spec(crontab("v1/v1"), members, "rollout: {}"), after: spec(crontab("v1"), members, "rollout: {}"), want: another},
		{name: "another kind", before: spec(crontab("apps/v1"), members, "rollout: {}"), after: rolling("{}"), want: another},
		{name: "another name", before: rolling("{}"), after: strings.Replace(rolling("{}"), "name: web", "name: other", 1), want: another},
		{name: "another resource and no rollout", before: rolling("{}"), after: spec(crontab("v1"), members), want: another},
		{name: "another resource and a rollout", before: spec(crontab("v1"), members), after: rolling("{}"), want: another},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			object, err := create(t, fmt.Sprintf("resource-%d", i), tc.before, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			object.Object["spec"] = decode(t, tc.after)
			_, err = client(t).Update(t.Context(), object, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			want := tc.want
			if want != "" {
				want = strings.Replace(refused, `"web"`, fmt.Sprintf("%q", object.GetName()), 1) + want
			}
			if diff := cmp.Diff(want, message(err)); diff != "" {
				t.Errorf("answer of the API server (-want +got):\n%s", diff)
			}
		})
	}
}

// revision is a valid PropagationRevision.
func revision(name string, size int) *v1alpha1.PropagationRevision {
	return &v1alpha1.PropagationRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Owner:      v1alpha1.RevisionOwner{Kind: "DirectPropagation", Name: "web", UID: "5a3b3a3e-0000-4000-8000-000000000000"},
		Revision:   "18bb57c0aa064257",
		Resource:   v1alpha1.ResourceReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		Digest:     strings.Repeat("0123456789abcdef", 4),
		Data:       []byte(strings.Repeat("d", size)),
	}
}

// TestRevisionsNeverChange: nobody can change what a revision was, apart from its
// metadata.
func TestRevisionsNeverChange(t *testing.T) {
	t.Parallel()
	clients, err := versioned.NewForConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	revisions := clients.PropagationV1alpha1().PropagationRevisions("default")
	created, err := revisions.Create(t.Context(), revision("immutable", v1alpha1.MaxRevisionSize), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := revisions.Delete(context.Background(), created.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	labeled := created.DeepCopy()
	labeled.Labels = map[string]string{"backup": "true"}
	if _, err := revisions.Update(t.Context(), labeled, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a label: %v", err)
	}
	for field, change := range map[string]func(*v1alpha1.PropagationRevision){
		"owner":    func(r *v1alpha1.PropagationRevision) { r.Owner.UID = "other" },
		"revision": func(r *v1alpha1.PropagationRevision) { r.Revision = "other" },
		"resource": func(r *v1alpha1.PropagationRevision) { r.Resource.Name = "other" },
		"digest":   func(r *v1alpha1.PropagationRevision) { r.Digest = strings.Repeat("0", 64) },
		"data":     func(r *v1alpha1.PropagationRevision) { r.Data[len(r.Data)-1] = 'e' },
	} {
		changed := created.DeepCopy()
		change(changed)
		_, err := revisions.Update(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if got := message(err); !strings.Contains(got, " "+field+": Invalid value: ") || !strings.HasSuffix(got, ": must not be changed: a revision never changes") {
			t.Errorf("%s: %.200s", field, got)
		}
	}
}

// TestRevisionValidation: a revision that the controller could not use is not stored.
func TestRevisionValidation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(object map[string]any)
		want   string
	}{
		"valid": {change: func(map[string]any) {}},
		"one byte too large": {
			change: func(object map[string]any) {
				object["data"] = base64.StdEncoding.EncodeToString(make([]byte, v1alpha1.MaxRevisionSize+3))
			},
			want: "data: Too long: may not be more than 1398104 bytes",
		},
		"no data":               {change: func(object map[string]any) { delete(object, "data") }, want: "data: Required value"},
		"empty data":            {change: func(object map[string]any) { object["data"] = "" }, want: "data: Invalid value"},
		"a digest in uppercase": {change: func(object map[string]any) { object["digest"] = strings.Repeat("A", 64) }, want: "digest: Invalid value"},
		"no owner":              {change: func(object map[string]any) { object["owner"] = map[string]any{"kind": "DirectPropagation"} }, want: "owner.name: Required value"},
		"an owner of another kind": {
			change: func(object map[string]any) {
				object["owner"] = map[string]any{"kind": "Deployment", "name": "web", "uid": "1"}
			},
			want: "owner.kind: Unsupported value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{Object: map[string]any{
				"owner": map[string]any{"kind": "ClusterDirectPropagation", "name": "web", "uid": "1"}, "revision": "18bb57c0aa064257",
				"resource": map[string]any{"apiVersion": "v1", "kind": "Namespace", "name": "web"}, "digest": strings.Repeat("0", 64), "data": "aGVsbG8=",
			}}
			object.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
			object.SetKind("PropagationRevision")
			object.SetName("web")
			object.SetNamespace("default")
			tc.change(object.Object)
			_, err := clientOf(t, object).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			if got := message(err); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("answer of the API server: %.300s, want %s", got, tc.want)
			}
		})
	}
}
