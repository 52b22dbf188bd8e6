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
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// manifests are seeds: resources as users write them, and some that no API server
// stores.
var manifests = []string{
	deployment, withClaims, stateless,
	`{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop, generation: 1}, spec: {ttlSecondsAfterFinished: 5, selector: {matchLabels: {controller-uid: x}}, template: {metadata: {labels: {controller-uid: x}}, spec: {containers: []}}}}`,
	`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80}]}}`,
	`{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: shop}, secrets: [{name: a-token-x}, {name: mine}]}`,
	`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p, namespace: shop, annotations: {volume.kubernetes.io/selected-node: n}}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {html: "<a href='x'>&amp;</a>", text: "ü\u2028\u0001"}}`,
	`{apiVersion: example.com/v1, kind: Any, metadata: {name: n, generation: 9}, spec: {big: 9007199254740993, float: 1.5, whole: 2.0, none: null, zero: -0.0, list: [1, a, {b: 2}]}}`,
	`{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {resourcetemplate.karmada.io/uid: "a b"}}}`,
	`{metadata: none}`, `{metadata: {labels: none, annotations: [1]}}`, `{kind: Job, spec: {template: none}}`, `{}`,
}

// seed is a manifest in JSON.
func seed(t testing.TB, manifest string) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// decoded reads an object as a client of the API server does, and skips the test if it
// is none.
func decoded(t *testing.T, data []byte) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if utiljson.Unmarshal(data, &object.Object) != nil || object.Object == nil {
		t.Skip("no object")
	}
	return object
}

// stored is a Work as the API server returns it.
func stored(t *testing.T, work *workv1alpha1.Work) *workv1alpha1.Work {
	t.Helper()
	content := map[string]any{}
	data, err := json.Marshal(work)
	if err == nil {
		err = utiljson.Unmarshal(data, &content)
	}
	if err == nil {
		data, err = json.Marshal(content)
	}
	back := &workv1alpha1.Work{}
	if err == nil {
		err = json.Unmarshal(data, back)
	}
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// FuzzManifest: rendering any object gives an error or a Work that is the same every
// time, even after an API server has stored it.
func FuzzManifest(f *testing.F) {
	for _, manifest := range manifests {
		f.Add(seed(f, manifest), "example.org/")
	}
	f.Fuzz(func(t *testing.T, data []byte, prefix string) {
		resource := decoded(t, data)
		before := resource.DeepCopy()
		manifest, err := render.NewManifest(resource, propagationv1alpha1.ConflictAbort, prefix)
		if diff := cmp.Diff(before.Object, resource.Object); diff != "" {
			t.Fatalf("NewManifest() changes its argument:\n%s", diff)
		}
		if err != nil {
			return
		}
		work, err := manifest.NewWork(owner, target)
		if err != nil {
			t.Fatal(err)
		}
		live := stored(t, work)
		if got := compactRevision(t, live); got != manifest.Revision {
			t.Errorf("stored, the Work has revision %q, want %q", got, manifest.Revision)
		}
		again, err := render.NewManifest(before, propagationv1alpha1.ConflictAbort, prefix)
		if err != nil {
			t.Fatal(err)
		}
		second, err := again.UpdatedWork(live, owner, target, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(raw(work), raw(second)); diff != "" {
			t.Errorf("rendered twice (-first +second):\n%s", diff)
		}
		if content := withoutMetadata(t, raw(live)); !manifest.HasContentOf(content) {
			t.Errorf("HasContentOf() is false for its own content %s", content)
		}
	})
}

func raw(work *workv1alpha1.Work) string { return string(work.Spec.Workload.Manifests[0].Raw) }

// withoutMetadata is a payload as somebody else has labeled it.
func withoutMetadata(t *testing.T, payload string) []byte {
	t.Helper()
	object := decoded(t, []byte(payload))
	object.Object["metadata"] = map[string]any{"labels": map[string]any{"of": "others"}}
	data, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzRevision: two manifests have one revision if and only if they have the same
// content.
func FuzzRevision(f *testing.F) {
	for _, manifest := range manifests {
		f.Add(seed(f, manifest), seed(f, manifest))
		f.Add(seed(f, manifest), seed(f, deployment))
	}
	f.Add([]byte(`{"kind":"A","spec":{"a":1,"b":[2.50,"x"]}}`), []byte(`{"spec":{"b":[25e-1,"\u0078"],"a":1.0},"kind":"A"}`))
	f.Add([]byte(`{"kind":"A","spec":9007199254740993}`), []byte(`{"kind":"A","spec":9007199254740992}`))
	f.Add([]byte(`{"kind":"A","spec":{"a":null}}`), []byte(`{"kind":"A","spec":{}}`))
	f.Fuzz(func(t *testing.T, one, other []byte) {
		first, err := render.NewManifest(decoded(t, one), propagationv1alpha1.ConflictAbort)
		if err != nil {
			return
		}
		second, err := render.NewManifest(decoded(t, other), propagationv1alpha1.ConflictAbort)
		if err != nil {
			return
		}
		same := cmp.Equal(contentOf(t, first), contentOf(t, second), cmp.Comparer(equalNumbers))
		if (first.Revision == second.Revision) != same {
			t.Errorf("revisions %s and %s; the content is the same: %t", first.Revision, second.Revision, same)
		}
	})
}

// contentOf is what a cluster gets, without what names its Work.
func contentOf(t *testing.T, manifest *render.Manifest) map[string]any {
	t.Helper()
	work, err := manifest.NewWork(owner, target)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(raw(work)))
	decoder.UseNumber()
	if err := decoder.Decode(&content); err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(content, "metadata", "labels", workv1alpha2.WorkPermanentIDLabel)
	unstructured.RemoveNestedField(content, "metadata", "annotations", workv1alpha2.WorkNameAnnotation)
	return content
}

// equalNumbers compares numbers by their value, however they are written.
func equalNumbers(a, b json.Number) bool {
	first, _ := new(big.Rat).SetString(a.String())
	second, _ := new(big.Rat).SetString(b.String())
	return first != nil && second != nil && first.Cmp(second) == 0
}

// FuzzCompact: a compact Work keeps what decisions rest on, and no more than that.
func FuzzCompact(f *testing.F) {
	large := `{"generation":9,"resourceTemplateGeneration":7,"phase":"Failed","note":"` + strings.Repeat("x", 3<<10) + `"}`
	for _, manifest := range manifests {
		for _, status := range []string{large, `{"resourceTemplateGeneration":7,"generation":"9"}`, strings.Replace(large, "9", `"9"`, 1), `"text"`, ``} {
			f.Add(seed(f, manifest), []byte(status), true)
			f.Add(seed(f, manifest), []byte(status), false)
		}
	}
	f.Fuzz(func(t *testing.T, payload, status []byte, healthy bool) {
		work := workOf(t, parse(t, stateless), target)
		work.Spec.Workload.Manifests[0].Raw = payload
		report := workv1alpha1.ManifestStatus{Health: workv1alpha1.ResourceUnhealthy}
		if healthy {
			report.Health = workv1alpha1.ResourceHealthy
		}
		if json.Valid(status) {
			report.Status = &runtime.RawExtension{Raw: status}
		}
		work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{report}
		compact := work.DeepCopy()
		if _, err := render.Compact(compact); err != nil {
			t.Fatal(err)
		}
		compareManifests(t, work, compact)
		compareReports(t, &work.Status.ManifestStatuses[0], &compact.Status.ManifestStatuses[0])
		again := compact.DeepCopy()
		if _, err := render.Compact(again); err != nil || cmp.Diff(compact, again) != "" {
			t.Errorf("compacted twice: %v\n%s", err, cmp.Diff(compact, again))
		}
	})
}

// compareManifests checks what a compact Work says of its manifest.
func compareManifests(t *testing.T, work, compact *workv1alpha1.Work) {
	t.Helper()
	object := &unstructured.Unstructured{}
	if utiljson.Unmarshal(work.Spec.Workload.Manifests[0].Raw, &object.Object) != nil {
		if render.Revision(compact) != "" || render.IdentityOf(compact) != "" || render.TemplateUID(compact) != "" {
			t.Errorf("an unreadable manifest becomes %s", raw(compact))
		}
		return
	}
	if got, want := render.IdentityOf(compact), render.Identity(object.GroupVersionKind().GroupKind(), object.GetName()); got != want {
		t.Errorf("identity %q, want %q: %s", got, want, raw(compact))
	}
	if kind := object.GroupVersionKind(); render.HoldsNamespace(compact) != (kind.Group == "" && kind.Kind == "Namespace") {
		t.Errorf("%s: HoldsNamespace() = %t", kind, render.HoldsNamespace(compact))
	}
	if got, want := render.IsRewritten(compact), render.IsRewritten(work); got != want {
		t.Errorf("IsRewritten() = %t, before %t", got, want)
	}
	replicas, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if got, known := render.Replicas(compact); known != (found && err == nil) || got != replicas {
		t.Errorf("Replicas() = %d, %t, want %d, %t", got, known, replicas, found)
	}
	metadata := metav1.PartialObjectMetadata{}
	if json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, &metadata) != nil {
		return
	}
	uid := metadata.Annotations[workv1alpha2.ResourceTemplateUIDAnnotation]
	if got := string(render.TemplateUID(compact)); got != uid && got == strings.ReplaceAll(got, "?", "") {
		t.Errorf("TemplateUID() = %q, want %q", got, uid)
	}
}

// compareReports checks that compaction changes nothing that health depends on.
func compareReports(t *testing.T, before, after *workv1alpha1.ManifestStatus) {
	t.Helper()
	if before.Health != after.Health || (before.Status == nil) != (after.Status == nil) {
		t.Fatalf("%+v becomes %+v", before, after)
	}
	if after.Status != nil && (len(after.Status.Raw) > 2<<10 || !json.Valid(after.Status.Raw)) {
		t.Errorf("%d bytes are kept: %s", len(after.Status.Raw), after.Status.Raw)
	}
	if after.Status != nil && !render.IsCut(after) && !bytes.Equal(before.Status.Raw, after.Status.Raw) {
		t.Errorf("changed without a mark: %s", after.Status.Raw)
	}
	for name, read := range map[string]func(*workv1alpha1.ManifestStatus) (int64, bool){
		"resourceTemplateGeneration": render.ReportedGeneration, "generation": render.MemberGeneration,
	} {
		want, reported := read(before)
		if got, kept := read(after); got != want || kept != reported {
			t.Errorf("%s is %d, %t after compaction, %d, %t before", name, got, kept, want, reported)
		}
	}
}

// FuzzOwner: the owner that a Work is claimed for can be read back, and anything else
// on a Work is not taken for it.
func FuzzOwner(f *testing.F) {
	f.Add("DirectPropagation", "shop", "web", "0b7b7c5e", "member1", "kind")
	f.Add("ClusterDirectPropagation", "", "role", "u", "m", "")
	f.Add("Dependency", "shop", "v1/ConfigMap/settings", "dependency-1", "member2", "x")
	f.Fuzz(func(t *testing.T, kind, namespace, name, uid, cluster, other string) {
		owner, target := render.Owner{Kind: kind, Namespace: namespace, Name: name}, render.Target{Cluster: cluster}
		owner.UID = types.UID(uid)
		work := &workv1alpha1.Work{}
		render.Claim(work, owner, target)
		if got := render.OwnerOf(work); got != owner {
			t.Errorf("OwnerOf() = %+v, want %+v", got, owner)
		}
		if !render.IsClaimed(work, owner, target) {
			t.Error("what Claim sets is not claimed")
		}
		stranger := owner
		if stranger.UID = types.UID(other); stranger != owner && render.IsClaimed(work, stranger, target) {
			t.Errorf("it is claimed for %+v, too", stranger)
		}
		overwrite := target
		if overwrite.ConflictResolution = propagationv1alpha1.ConflictOverwrite; render.IsClaimed(work, owner, overwrite) {
			t.Error("it is claimed with another conflict resolution")
		}
		key := render.WorkKey(cluster, kind, namespace, name)
		if !render.IsExecutionSpace(key.Namespace) || render.ClusterOf(key.Namespace) != cluster {
			t.Errorf("Work %s is of cluster %q, want %q", key, render.ClusterOf(key.Namespace), cluster)
		}
	})
}
