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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workwebhook "github.com/karmada-io/karmada/pkg/webhook/work"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

var (
	owner  = render.Owner{Kind: "DirectPropagation", Namespace: "shop", Name: "web", UID: "0b7b7c5e"}
	target = render.Target{Cluster: "member1", ReadySince: "2026-01-01T00:00:00Z"}
)

func parse(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	// Whole numbers are int64, as in decoded answers of the API server.
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err == nil {
		err = utiljson.Unmarshal(data, &object.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func manifestOf(t *testing.T, resource *unstructured.Unstructured) *render.Manifest {
	t.Helper()
	manifest, err := render.NewManifest(resource, propagationv1alpha1.ConflictAbort)
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

func workOf(t *testing.T, resource *unstructured.Unstructured, target render.Target) *workv1alpha1.Work {
	t.Helper()
	work, err := manifestOf(t, resource).NewWork(owner, target)
	if err != nil {
		t.Fatal(err)
	}
	return work
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: 5d7ffc07
  generation: 3
  resourceVersion: "77"
  creationTimestamp: "2026-01-01T00:00:00Z"
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: y}]
  finalizers: [example.com/keep]
  managedFields: [{manager: kubectl}]
  labels:
    app: web
    argocd.argoproj.io/instance: shop
    propagationpolicy.karmada.io/permanent-id: "1234"
  annotations:
    note: "a <b> & c"
    deployment.kubernetes.io/revision: "4"
    argocd.argoproj.io/tracking-id: "shop:apps/Deployment:shop/web"
    kubectl.kubernetes.io/last-applied-configuration: "{}"
spec:
  replicas: 2
  template: {spec: {containers: [{name: web, image: "nginx:1"}]}}
status: {replicas: 2}
`

// wanted is the manifest of the Deployment above, according to Karmada's
// conventions.
const wanted = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels:
    app: web
    karmada.io/managed: "true"
    work.karmada.io/permanent-id: PERMANENT-ID
  annotations:
    note: "a <b> & c"
    resourcetemplate.karmada.io/generation: "3"
    resourcetemplate.karmada.io/uid: 5d7ffc07
    resourcetemplate.karmada.io/managed-annotations: note,resourcetemplate.karmada.io/generation,resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,resourcetemplate.karmada.io/uid,work.karmada.io/conflict-resolution,work.karmada.io/name,work.karmada.io/namespace
    resourcetemplate.karmada.io/managed-labels: app,karmada.io/managed,work.karmada.io/permanent-id
    work.karmada.io/conflict-resolution: abort
    work.karmada.io/name: web-56d6c779bb
    work.karmada.io/namespace: karmada-es-member1
spec:
  replicas: 2
  template: {spec: {containers: [{name: web, image: "nginx:1"}]}}
`

func TestNewWork(t *testing.T) {
	work := workOf(t, parse(t, deployment), target)
	if work.Namespace != "karmada-es-member1" || work.Name != "web-56d6c779bb" {
		t.Errorf("the Work is %s/%s", work.Namespace, work.Name)
	}
	want := parse(t, wanted)
	labels := want.GetLabels()
	labels["work.karmada.io/permanent-id"] = work.Labels["work.karmada.io/permanent-id"]
	want.SetLabels(labels)
	got := &unstructured.Unstructured{}
	if err := json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, &got.Object); err != nil {
		t.Fatal(err)
	}
	normalize(t, want)
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Errorf("the manifest differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"karmada.io/execution-controller"}, work.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if got := render.OwnerOf(work); got != owner {
		t.Errorf("OwnerOf() = %+v, want %+v", got, owner)
	}
	if len(work.OwnerReferences) != 0 {
		t.Error("a cross-namespace owner reference would have the Work garbage-collected")
	}
}

// normalize gives numbers the type that JSON decoding gives them.
func normalize(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	data, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	object.Object = nil
	if err := json.Unmarshal(data, &object.Object); err != nil {
		t.Fatal(err)
	}
}

// TestWebhookChangesNothing sends Works through Karmada's own mutating webhook. If
// it changed anything, every comparison with the live Work would find a difference.
func TestWebhookChangesNothing(t *testing.T) {
	for name, resource := range map[string]string{
		"Deployment": deployment,
		"Job":        `{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop, generation: 1}, spec: {ttlSecondsAfterFinished: 5, selector: {matchLabels: {controller-uid: x}}, template: {metadata: {labels: {controller-uid: x, app: j}}, spec: {containers: []}}}}`,
		"Service":    `{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80}]}}`,
		"Account":    `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: shop}, secrets: [{name: a-token-x}, {name: mine}]}`,
		"Claim":      `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p, namespace: shop, annotations: {volume.kubernetes.io/selected-node: n}}, spec: {resources: {requests: {storage: 1Gi}}}}`,
		"ConfigMap":  `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {html: "<a href='x'>&amp;</a>", text: "ü\u2028\u0001"}}`,
		"Numbers":    `{apiVersion: example.com/v1, kind: Any, metadata: {name: n, namespace: shop, generation: 9}, spec: {big: 9007199254740993, float: 1.5, whole: 2.0, none: null, list: [1, a, {b: 2}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			work := workOf(t, parse(t, resource), target)
			mutated := throughWebhook(t, work)
			if diff := cmp.Diff(string(work.Spec.Workload.Manifests[0].Raw), string(mutated.Spec.Workload.Manifests[0].Raw)); diff != "" {
				t.Errorf("the webhook changes the manifest (-rendered +live):\n%s", diff)
			}
			if got, want := compactRevision(t, mutated), manifestOf(t, parse(t, resource)).Revision; got != want {
				t.Errorf("Revision() of the live Work = %s, want %s", got, want)
			}
		})
	}
}

func throughWebhook(t *testing.T, work *workv1alpha1.Work) *workv1alpha1.Work {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := workv1alpha1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(work)
	if err != nil {
		t.Fatal(err)
	}
	hook := &workwebhook.MutatingAdmission{Decoder: admission.NewDecoder(scheme)}
	response := hook.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: raw}}})
	if !response.Allowed {
		t.Fatalf("the webhook refuses the Work: %v", response.Result)
	}
	patches := response.Patches
	content := map[string]any{}
	if err := json.Unmarshal(raw, &content); err != nil {
		t.Fatal(err)
	}
	for _, patch := range patches {
		t.Errorf("the webhook patches: %s", patch.Json())
	}
	mutated := &workv1alpha1.Work{}
	if err := json.Unmarshal(raw, mutated); err != nil {
		t.Fatal(err)
	}
	return mutated
}

func TestUpdatedWork(t *testing.T) {
	live := workOf(t, parse(t, deployment), target)
	live.ResourceVersion = "5"
	live.Labels["someone"] = "else"
	live.Finalizers = []string{"else/keep"}
	id := live.Labels["work.karmada.io/permanent-id"]
	before := live.DeepCopy()

	changed := parse(t, deployment)
	changed.SetGeneration(4)
	suspended := target
	suspended.Suspend, suspended.Preserve, suspended.ConflictResolution = true, true, propagationv1alpha1.ConflictOverwrite
	work, err := manifestOf(t, changed).UpdatedWork(live, owner, suspended, "cafe")
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case work.ResourceVersion != "5":
		t.Error("the write must name the resourceVersion that was decided on")
	case work.Labels["someone"] != "else" || len(work.Finalizers) != 2:
		t.Error("what others put on the Work must stay")
	case work.Labels["work.karmada.io/permanent-id"] != id:
		t.Error("the permanent ID must stay")
	case work.Annotations[propagationv1alpha1.ConfirmedRevisionAnnotation] != "cafe":
		t.Error("the confirmed revision must be remembered")
	case work.Spec.SuspendDispatching == nil || !*work.Spec.SuspendDispatching:
		t.Error("suspension is missing")
	case work.Spec.PreserveResourcesOnDeletion == nil || !*work.Spec.PreserveResourcesOnDeletion:
		t.Error("preservation is missing")
	case work.Annotations["work.karmada.io/conflict-resolution"] != "overwrite":
		t.Error("conflict resolution is missing")
	case !render.IsClaimed(work, owner, suspended):
		t.Error("what was rendered must count as right")
	case render.IsClaimed(live, owner, suspended):
		t.Error("what was not rendered must not count as right")
	}
	if diff := cmp.Diff(before, live); diff != "" {
		t.Errorf("UpdatedWork() changes the live Work:\n%s", diff)
	}
}

// TestWhatStaysInTheControlPlane checks that labels and annotations with a given
// prefix are not propagated, nor those of tools that act on the control plane. Those
// that only look similar are.
func TestWhatStaysInTheControlPlane(t *testing.T) {
	resource := parse(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: shop
  labels: {app.kubernetes.io/instance: shop, app.kubernetes.io/name: shop, team: web}
  annotations:
    argocd.argoproj.io/sync-wave: "1"
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    ci.example.org/run: "7"
    example.org/note: stays with it
`)
	manifest, err := render.NewManifest(resource, propagationv1alpha1.ConflictAbort, "app.kubernetes.io/instance", "ci.example.org/")
	if err != nil {
		t.Fatal(err)
	}
	work, err := manifest.NewWork(owner, render.Target{Cluster: "member1"})
	if err != nil {
		t.Fatal(err)
	}
	sent := parse(t, string(work.Spec.Workload.Manifests[0].Raw))
	for key, want := range map[string]bool{"app.kubernetes.io/instance": false, "app.kubernetes.io/name": true, "team": true} {
		if _, travels := sent.GetLabels()[key]; travels != want {
			t.Errorf("label %s travels: %t, want %t", key, travels, want)
		}
	}
	for key, want := range map[string]bool{
		"argocd.argoproj.io/sync-wave": false, "kubectl.kubernetes.io/last-applied-configuration": false, "ci.example.org/run": false, "example.org/note": true,
	} {
		if _, travels := sent.GetAnnotations()[key]; travels != want {
			t.Errorf("annotation %s travels: %t, want %t", key, travels, want)
		}
	}
	plain, err := render.NewManifest(resource, propagationv1alpha1.ConflictAbort)
	if err != nil {
		t.Fatal(err)
	}
	if plain.Revision == manifest.Revision {
		t.Error("two manifests have one revision")
	}
}

// TestAppliedOverridesAreRecorded checks that the record follows what is applied,
// and that what others have put on the Work stays.
func TestAppliedOverridesAreRecorded(t *testing.T) {
	resource := parse(t, deployment)
	record := map[string]string{"policy.karmada.io/applied-overrides": "[]"}
	target := render.Target{Cluster: "member1", Overrides: record}
	work := workOf(t, resource, target)
	work.Annotations["example.org/note"] = "of somebody else"
	if !render.IsClaimed(work, owner, target) || render.IsClaimed(work, owner, render.Target{Cluster: "member1"}) {
		t.Error("IsClaimed() does not look at the record")
	}
	plain, err := manifestOf(t, resource).UpdatedWork(work, owner, render.Target{Cluster: "member1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, recorded := plain.Annotations["policy.karmada.io/applied-overrides"]; recorded || plain.Annotations["example.org/note"] == "" {
		t.Errorf("annotations: %v", plain.Annotations)
	}
}

const withClaims = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: shop}
spec: {volumeClaimTemplates: [{metadata: {name: data}}]}
`

const stateless = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: shop}
spec: {serviceName: web}
`

// life is one of several resources that have had one name.
type life struct {
	manifest, uid string
}

func (l life) resource(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	resource := parse(t, l.manifest)
	resource.SetUID(types.UID(l.uid))
	return resource
}

// supersedesCases are resources that follow each other, and what is then known about
// the object that the cluster may still have.
var supersedesCases = map[string]struct {
	before, after           life
	third                   *life
	confirms                bool
	supersedes, replaceable bool
}{
	"the same resource":                 {before: life{deployment, "one"}, after: life{deployment, "one"}},
	"created anew":                      {before: life{deployment, "one"}, after: life{deployment, "two"}, supersedes: true, replaceable: true},
	"created anew, changed unconfirmed": {before: life{deployment, "one"}, after: life{deployment, "two"}, third: &life{deployment, "two"}, supersedes: true, replaceable: true},
	"created anew, changed, confirmed":  {before: life{deployment, "one"}, after: life{deployment, "two"}, third: &life{deployment, "two"}, confirms: true},
	"the old one has claims":            {before: life{withClaims, "one"}, after: life{stateless, "two"}, supersedes: true},
	"the new one has claims":            {before: life{stateless, "one"}, after: life{withClaims, "two"}, supersedes: true},
	"one of two old ones has claims":    {before: life{withClaims, "one"}, after: life{stateless, "two"}, third: &life{stateless, "three"}, supersedes: true},
	"without claims":                    {before: life{stateless, "one"}, after: life{stateless, "two"}, supersedes: true, replaceable: true},
}

// TestSupersedes checks that a Work records that the cluster may have the object of
// a deleted resource, until the cluster has confirmed its successor. An update of
// the same resource changes nothing.
func TestSupersedes(t *testing.T) {
	for name, tc := range supersedesCases {
		t.Run(name, func(t *testing.T) {
			work := workOf(t, tc.before.resource(t), target)
			confirmed := ""
			for _, next := range []*life{&tc.after, tc.third} {
				if next == nil {
					continue
				}
				if _, err := render.Compact(work); err != nil {
					t.Fatal(err)
				}
				var err error
				if work, err = manifestOf(t, next.resource(t)).UpdatedWork(work, owner, target, confirmed); err != nil {
					t.Fatal(err)
				}
				if tc.confirms {
					confirmed = manifestOf(t, next.resource(t)).Revision
				}
			}
			if _, err := render.Compact(work); err != nil {
				t.Fatal(err)
			}
			supersedes, replaceable := render.Supersedes(work)
			if supersedes != tc.supersedes || replaceable != tc.replaceable {
				t.Errorf("Supersedes() = %t, %t, want %t, %t", supersedes, replaceable, tc.supersedes, tc.replaceable)
			}
			if _, noted := work.Annotations[propagationv1alpha1.SupersedesAnnotation]; noted != tc.supersedes {
				t.Errorf("annotations: %v", work.Annotations)
			}
		})
	}
}

// TestMetadataMustBeAnObject: an override may put anything in the place of metadata.
func TestMetadataMustBeAnObject(t *testing.T) {
	for _, metadata := range []any{"none", nil, []any{}} {
		resource := parse(t, deployment)
		resource.Object["metadata"] = metadata
		if _, err := render.NewManifest(resource, propagationv1alpha1.ConflictAbort); err == nil || !strings.Contains(err.Error(), "metadata of Deployment") {
			t.Errorf("metadata %v: error %v", metadata, err)
		}
	}
}

// TestResourceThatKarmadaCannotRead: Karmada's pruning panics on what the API server
// accepts.
func TestResourceThatKarmadaCannotRead(t *testing.T) {
	account := parse(t, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: shop}, secrets: [{}]}`)
	_, err := render.NewManifest(account, propagationv1alpha1.ConflictAbort)
	if err == nil || !strings.HasPrefix(err.Error(), "pruning ServiceAccount shop/a: Karmada cannot read it") {
		t.Errorf("error %v", err)
	}
}
