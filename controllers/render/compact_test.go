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

package render_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/karmada-direct/karmada-direct/controllers/render"
)

func compactRevision(t *testing.T, work *workv1alpha1.Work) string {
	t.Helper()
	compact, err := render.Compact(work.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	copied, ok := compact.(*workv1alpha1.Work)
	if !ok {
		t.Fatalf("Compact() returns a %T", compact)
	}
	return render.Revision(copied)
}

// TestCompactCannotBeWritten checks that a Work without its payload never reaches an
// API server.
func TestCompactCannotBeWritten(t *testing.T) {
	work := workOf(t, parse(t, deployment), target)
	if _, err := render.Compact(work); err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(work); err == nil {
		t.Errorf("a compact Work can be encoded: %s", data)
	}
	again := work.DeepCopy()
	if _, err := render.Compact(again); err != nil || render.Revision(again) != render.Revision(work) {
		t.Error("Compact() must leave a compact Work as it is")
	}
	if got := render.TemplateGeneration(work); got != 3 {
		t.Errorf("TemplateGeneration() = %d, want 3", got)
	}
}

func TestCompactKeepsTheReportedGeneration(t *testing.T) {
	for name, tc := range map[string]struct {
		status   string
		want     int64
		reported bool
	}{
		"Deployment": {`{"resourceTemplateGeneration":7,"replicas":2,"conditions":[{"type":"Available"}]}`, 7, true},
		"other kind": {`{"phase":"Bound"}`, 0, false},
		"no object":  {`"text"`, 0, false},
		"nothing":    {``, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			work := workOf(t, parse(t, deployment), target)
			status := workv1alpha1.ManifestStatus{Health: workv1alpha1.ResourceHealthy}
			if tc.status != "" {
				status.Status = &runtime.RawExtension{Raw: []byte(tc.status)}
			}
			work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{status}
			if _, err := render.Compact(work); err != nil {
				t.Fatal(err)
			}
			got, reported := render.ReportedGeneration(&work.Status.ManifestStatuses[0])
			if got != tc.want || reported != tc.reported {
				t.Errorf("ReportedGeneration() = %d, %t, want %d, %t", got, reported, tc.want, tc.reported)
			}
		})
	}
}

// TestCutStatusKeepsBothGenerations checks the generations, because health depends
// on them.
func TestCutStatusKeepsBothGenerations(t *testing.T) {
	work := workOf(t, parse(t, deployment), target)
	long := fmt.Sprintf(`{"generation":9,"resourceTemplateGeneration":7,"note":%q}`, strings.Repeat("x", 3<<10))
	work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Status: &runtime.RawExtension{Raw: []byte(long)}}}
	if _, err := render.Compact(work); err != nil {
		t.Fatal(err)
	}
	status := &work.Status.ManifestStatuses[0]
	member, _ := render.MemberGeneration(status)
	template, _ := render.ReportedGeneration(status)
	if !render.IsCut(status) || member != 9 || template != 7 {
		t.Errorf("cut to %s: generations %d and %d, want 9 and 7", status.Status.Raw, member, template)
	}
}

func TestHandEditsShow(t *testing.T) {
	for name, edit := range map[string]func(*workv1alpha1.Work){
		"another permanent ID":   func(w *workv1alpha1.Work) { w.Labels["work.karmada.io/permanent-id"] = "other" },
		"another Work's payload": func(w *workv1alpha1.Work) { w.Namespace = "karmada-es-member2" },
		"no manifest":            func(w *workv1alpha1.Work) { w.Spec.Workload.Manifests = nil },
		"two manifests": func(w *workv1alpha1.Work) {
			w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, w.Spec.Workload.Manifests[0])
		},
		"no JSON":       func(w *workv1alpha1.Work) { w.Spec.Workload.Manifests[0].Raw = []byte("{") },
		"empty payload": func(w *workv1alpha1.Work) { w.Spec.Workload.Manifests[0].Raw = []byte("{}") },
	} {
		t.Run(name, func(t *testing.T) {
			work := workOf(t, parse(t, deployment), target)
			edit(work)
			if got := compactRevision(t, work); got == manifestOf(t, parse(t, deployment)).Revision {
				t.Errorf("Revision() = %s although the Work was edited", got)
			}
		})
	}
}

func TestRevisionIsThatOfTheContent(t *testing.T) {
	resource := parse(t, deployment)
	want := manifestOf(t, resource).Revision
	for name, tc := range map[string]struct {
		change func(*unstructured.Unstructured)
		same   bool
	}{
		"nothing":             {func(*unstructured.Unstructured) {}, true},
		"resourceVersion":     {func(o *unstructured.Unstructured) { o.SetResourceVersion("99") }, true},
		"status":              {func(o *unstructured.Unstructured) { o.Object["status"] = map[string]any{"replicas": int64(9)} }, true},
		"a policy's claim":    {func(o *unstructured.Unstructured) { unset(o, "labels", "propagationpolicy.karmada.io/permanent-id") }, true},
		"an annotation":       {func(o *unstructured.Unstructured) { unset(o, "annotations", "note") }, false},
		"a label":             {func(o *unstructured.Unstructured) { unset(o, "labels", "app") }, false},
		"spec":                {func(o *unstructured.Unstructured) { unset(o, "spec", "replicas") }, false},
		"another generation":  {func(o *unstructured.Unstructured) { o.SetGeneration(4) }, false},
		"another incarnation": {func(o *unstructured.Unstructured) { o.SetUID("other") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := resource.DeepCopy()
			tc.change(changed)
			got := manifestOf(t, changed).Revision
			if (got == want) != tc.same {
				t.Errorf("revision %s, before %s, same should be %t", got, want, tc.same)
			}
		})
	}
	if diff := cmp.Diff(parse(t, deployment).Object, resource.Object); diff != "" {
		t.Errorf("NewManifest() changes its argument:\n%s", diff)
	}
}

func unset(object *unstructured.Unstructured, field, key string) {
	if field == "spec" {
		unstructured.RemoveNestedField(object.Object, field, key)
		return
	}
	unstructured.RemoveNestedField(object.Object, "metadata", field, key)
}

// TestRevisionIsTheSameOnEveryCluster compares live Works, whatever their cluster
// and permanent ID, with the revision that they were rendered from.
func TestRevisionIsTheSameOnEveryCluster(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		resource := parse(t, deployment)
		resource.SetName(rapid.StringMatching(`[a-z][a-z0-9]{0,20}`).Draw(rt, "name"))
		unstructured.RemoveNestedField(resource.Object, "spec")
		data := map[string]any{}
		for key, value := range rapid.MapOf(rapid.String(), rapid.String()).Draw(rt, "data") {
			data[key] = value
		}
		resource.Object["data"] = data
		cluster := rapid.StringMatching(`[a-z][a-z0-9]{0,20}`).Draw(rt, "cluster")
		work := workOf(t, resource, render.Target{Cluster: cluster})
		if got, want := compactRevision(t, work), manifestOf(t, resource).Revision; got != want {
			rt.Errorf("Revision() = %s, want %s", got, want)
		}
	})
}

func TestHasContentOf(t *testing.T) {
	manifest := manifestOf(t, parse(t, deployment))
	for name, tc := range map[string]struct {
		payload string
		want    bool
	}{
		"the same":       {`{"kind":"Deployment","apiVersion":"apps/v1","spec":{"replicas":2,"template":{"spec":{"containers":[{"image":"nginx:1","name":"web"}]}}}}`, true},
		"another order":  {`{"spec":{"template":{"spec":{"containers":[{"name":"web", "image":"nginx:1"}]}},"replicas":2},"apiVersion":"apps/v1","kind":"Deployment"}`, true},
		"other marks":    {`{"metadata":{"name":"web","labels":{"a":"b"}},"status":{"replicas":1},"kind":"Deployment","apiVersion":"apps/v1","spec":{"replicas":2,"template":{"spec":{"containers":[{"image":"nginx:1","name":"web"}]}}}}`, true},
		"other replicas": {`{"kind":"Deployment","apiVersion":"apps/v1","spec":{"replicas":3,"template":{"spec":{"containers":[{"image":"nginx:1","name":"web"}]}}}}`, false},
		"more":           {`{"data":{},"kind":"Deployment","apiVersion":"apps/v1","spec":{"replicas":2,"template":{"spec":{"containers":[{"image":"nginx:1","name":"web"}]}}}}`, false},
		"less":           {`{"kind":"Deployment","apiVersion":"apps/v1"}`, false},
		"unknown":        {``, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := manifest.HasContentOf([]byte(tc.payload)); got != tc.want {
				t.Errorf("HasContentOf() = %t, want %t", got, tc.want)
			}
		})
	}
}

// TestEditedMarksHideNothing checks that a compact Work tells what it holds, whatever
// somebody has written into the annotations of its manifest.
func TestEditedMarksHideNothing(t *testing.T) {
	const namespace = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","annotations":{
		"resourcetemplate.karmada.io/uid":"a b","resourcetemplate.karmada.io/generation":"3 4 "}}}`
	work := workOf(t, parse(t, deployment), target)
	work.Spec.Workload.Manifests[0].Raw = []byte(namespace)
	if _, err := render.Compact(work); err != nil {
		t.Fatal(err)
	}
	if !render.IsIrreplaceable(work) || !render.HoldsNamespace(work) {
		t.Errorf("a Namespace counts as replaceable: %s", work.Spec.Workload.Manifests[0].Raw)
	}
	if got, want := render.IdentityOf(work), render.Identity(schema.GroupKind{Kind: "Namespace"}, "shop"); got != want {
		t.Errorf("identity %q, want %q", got, want)
	}
	if got := render.TemplateGeneration(work); got != 0 {
		t.Errorf("generation %d is read from garbage", got)
	}
}

// TestCutStatusAddsNoGeneration checks that a generation that cannot be read from a
// whole status cannot be read from its excerpt either.
func TestCutStatusAddsNoGeneration(t *testing.T) {
	for _, odd := range []string{`"generation":"9","resourceTemplateGeneration":7`, `"GENERATION":{},"Generation":9,"resourceTemplateGeneration":7`} {
		status := workv1alpha1.ManifestStatus{Health: workv1alpha1.ResourceUnhealthy}
		status.Status = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{%s,"note":%q}`, odd, strings.Repeat("x", 3<<10))}
		work := workOf(t, parse(t, deployment), target)
		work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{status}
		if _, err := render.Compact(work); err != nil {
			t.Fatal(err)
		}
		if got, reported := render.ReportedGeneration(&work.Status.ManifestStatuses[0]); reported {
			t.Errorf("%s: generation %d is reported after compaction", odd, got)
		}
	}
}

// A custom resource may call something else unavailableReplicas.
func TestUnavailableReplicas(t *testing.T) {
	for kind, want := range map[schema.GroupKind]int64{{Group: "apps", Kind: "Deployment"}: 2, {Group: "apps", Kind: "StatefulSet"}: 0, {Group: "example.org", Kind: "Deployment"}: 0} {
		status := &workv1alpha1.ManifestStatus{Identifier: workv1alpha1.ResourceIdentifier{Group: kind.Group, Kind: kind.Kind}, Status: &runtime.RawExtension{Raw: []byte(`{"unavailableReplicas":2}`)}}
		if got := render.UnavailableReplicas(status); got != want {
			t.Errorf("%s: %d, want %d", kind, got, want)
		}
	}
}
