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
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// manifestOn returns the manifest in the Work of a cluster.
func (b *bench) manifestOn(t *testing.T, cluster string) *unstructured.Unstructured {
	t.Helper()
	manifest := &unstructured.Unstructured{}
	if err := json.Unmarshal(b.workOn(t, cluster).Spec.Workload.Manifests[0].Raw, manifest); err != nil {
		t.Fatal(err)
	}
	return manifest
}

func (b *bench) workOn(t *testing.T, cluster string) *workv1alpha1.Work {
	t.Helper()
	works := b.works(t)
	i := slices.IndexFunc(works, func(work workv1alpha1.Work) bool { return render.ClusterOf(work.Namespace) == cluster })
	if i < 0 {
		t.Fatalf("%s has no Work", cluster)
	}
	return &works[i]
}

// change changes the spec of shop/web and increments its generation, as an API server
// does.
func (b *bench) change(t *testing.T, change func(*propagationv1alpha1.PropagationSpec)) {
	t.Helper()
	object := b.propagation(t)
	change(&object.Spec)
	object.Generation++
	if err := b.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.writes = nil
}

func (b *bench) rowOf(t *testing.T, cluster string) propagationv1alpha1.ClusterStatus {
	t.Helper()
	for _, row := range b.propagation(t).Status.Clusters {
		if row.Name == cluster {
			return row
		}
	}
	return propagationv1alpha1.ClusterStatus{}
}

func replicasOf(t *testing.T, manifest *unstructured.Unstructured) int64 {
	t.Helper()
	replicas, _, err := unstructured.NestedInt64(manifest.Object, "spec", "replicas")
	if err != nil {
		t.Fatal(err)
	}
	return replicas
}

func imageOf(t *testing.T, manifest *unstructured.Unstructured) string {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest.Object, deployment); err != nil {
		t.Fatal(err)
	}
	return deployment.Spec.Template.Spec.Containers[0].Image
}

func patch(operator policyv1alpha1.OverriderOperator, path, value string) *policyv1alpha1.Overriders {
	return &policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
		Operator: operator, Path: path, Value: apiextensionsv1.JSON{Raw: []byte(value)},
	}}}
}

// registry returns overriders that pull images from another registry.
func registry() policyv1alpha1.Overriders {
	return policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
		Component: policyv1alpha1.Registry, Operator: policyv1alpha1.OverriderOpAdd, Value: "mirror.example.org",
	}}}
}

// imageAt returns overriders that change the tag of an image at a path.
func imageAt(path string) *policyv1alpha1.Overriders {
	return &policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
		Predicate: &policyv1alpha1.ImagePredicate{Path: path}, Component: policyv1alpha1.Tag, Operator: policyv1alpha1.OverriderOpReplace, Value: "2",
	}}}
}

// TestPolicyThatNamesNoImage: the row names the policy whose predicate is wrong.
func TestPolicyThatNamesNoImage(t *testing.T) {
	policy := farPolicy(web.Namespace)
	policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: *imageAt("/spec/template/spec/containers/-1/image")}}
	b := newBench(t, append(aShop(), policy)...)
	b.settle(t)
	want := "OverridePolicy shop/mirror: imageOverrider: predicate.path /spec/template/spec/containers/-1/image names nothing in the resource"
	if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonOverrideFailed || !strings.HasPrefix(row.Message, want) {
		t.Errorf("row: %s: %s", row.Reason, row.Message)
	}
}

// TestPolicyThatFailsIsNamed: of several policies, the row names the one that Karmada
// cannot apply, and what is wrong with that one.
func TestPolicyThatFailsIsNamed(t *testing.T) {
	const first = "/spec/template/spec/containers/0/image"
	args := &policyv1alpha1.Overriders{ArgsOverrider: []policyv1alpha1.CommandArgsOverrider{{ContainerName: "web", Operator: policyv1alpha1.OverriderOpAdd, Value: []string{"-v"}}}}
	for want, policies := range map[string][2]*policyv1alpha1.Overriders{
		"OverridePolicy shop/b: imageOverrider: predicate.path /spec/template/spec/containers/7/image names nothing in the resource (": {imageAt(first), imageAt("/spec/template/spec/containers/7/image")},
		"OverridePolicy shop/b: Karmada cannot apply it: interface conversion: ":                                                       {patch(policyv1alpha1.OverriderOpAdd, "/spec/template/spec/containers/0/args", `"-v"`), args},
	} {
		objects := aShop()
		for i, name := range []string{"a", "b"} {
			policy := farPolicy(web.Namespace)
			policy.Name, policy.UID = name, types.UID(name)
			policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: *policies[i]}}
			objects = append(objects, policy)
		}
		b := newBench(t, objects...)
		b.settle(t)
		if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonOverrideFailed || !strings.HasPrefix(row.Message, want) {
			t.Errorf("row: %s: %s, want %s", row.Reason, row.Message, want)
		}
	}
}

// TestOneClusterDiffers: replicas and overriders of one cluster apply only to that
// cluster, and only its Work is written.
func TestOneClusterDiffers(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) {
		spec.Clusters[1].Replicas = ptr.To[int32](5)
		spec.Clusters[1].Overriders = ptr.To(registry())
	})
	b.settle(t)
	if got, want := imageOf(t, b.manifestOn(t, "member2")), "mirror.example.org/nginx:1"; got != want {
		t.Errorf("image on member2 = %s, want %s", got, want)
	}
	if got := replicasOf(t, b.manifestOn(t, "member2")); got != 5 {
		t.Errorf("replicas on member2 = %d, want 5", got)
	}
	if got := imageOf(t, b.manifestOn(t, "member1")); got != "nginx:1" {
		t.Errorf("image on member1 = %s, want nginx:1", got)
	}
	work := "Work karmada-es-member2/web-56d6c779bb"
	want := []string{"patch status of " + work, "update " + work, "update status of DirectPropagation shop/web"}
	if diff := cmp.Diff(want, b.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	b.confirm(t)
	b.settle(t)
	if !meta.IsStatusConditionTrue(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady) {
		t.Errorf("not Ready: %+v", b.propagation(t).Status)
	}
	if b.rowOf(t, "member1").Revision == b.rowOf(t, "member2").Revision {
		t.Error("two manifests have one revision")
	}
	b.writes = nil
	b.memories.of(web).forgetResource()
	b.settle(t)
	if len(b.writes) > 0 {
		t.Errorf("after a restart: %v", b.writes)
	}
}

// relabel replaces the labels of a Cluster. That changes no object.
func (b *bench) relabel(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	cluster := memberCluster(name)
	if err := b.server.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Labels = labels
	if err := b.server.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
}

// imageIs checks which image a cluster gets.
func (b *bench) imageIs(t *testing.T, cluster, want string) {
	t.Helper()
	if got := imageOf(t, b.manifestOn(t, cluster)); got != want {
		t.Errorf("image on %s = %s, want %s", cluster, got, want)
	}
}

// TestOverridePolicies: policies apply before the overriders of the spec, are
// recorded on the Work, and are undone when they are deleted.
func TestOverridePolicies(t *testing.T) {
	policy := farPolicy(web.Namespace)
	b := newBench(t, append(aShop(), policy)...)
	b.settle(t)
	b.imageIs(t, "member1", "nginx:1")
	b.confirm(t)

	b.relabel(t, "member1", map[string]string{"site": "far"})
	b.settle(t)
	b.imageIs(t, "member1", "mirror.example.org/nginx:1")
	if record := b.workOn(t, "member1").Annotations[util.AppliedOverrides]; !strings.Contains(record, `"policyName":"mirror"`) {
		t.Errorf("recorded: %q", record)
	}

	// The spec has the last word.
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) {
		spec.Clusters[0].Overriders = &policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
			Component: policyv1alpha1.Registry, Operator: policyv1alpha1.OverriderOpReplace, Value: "local.example.org",
		}}}
	})
	b.settle(t)
	b.imageIs(t, "member1", "local.example.org/nginx:1")

	if err := b.server.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.Clusters[0].Overriders = nil })
	b.settle(t)
	b.imageIs(t, "member1", "nginx:1")
	if record, found := b.workOn(t, "member1").Annotations[util.AppliedOverrides]; found {
		t.Errorf("still recorded: %q", record)
	}
}

// TestOverridesThatFail: the cluster keeps what it has, its row reports the
// failure, and the other clusters are not delayed.
func TestOverridesThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		overriders *policyv1alpha1.Overriders
		want       string
	}{
		"a path that does not exist": {patch(policyv1alpha1.OverriderOpReplace, "/spec/nothing/here", `1`), "OverrideFailed: spec.clusters, overriders of member2: replace operation does not apply"},
		"a field that is not JSON":   {&policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/spec/template/spec/containers/0/image", JSON: []policyv1alpha1.JSONPatchOperation{{SubPath: "/a", Operator: policyv1alpha1.OverriderOpAdd, Value: apiextensionsv1.JSON{Raw: []byte("1")}}}}}}, "OverrideFailed: spec.clusters, overriders of member2: "},
		"another name":               {patch(policyv1alpha1.OverriderOpReplace, "/metadata/name", `"shop"`), `OverrideFailed: overrides must not change metadata.name, here from "web" to "shop"`},
		"another namespace":          {patch(policyv1alpha1.OverriderOpReplace, "/metadata/namespace", `"kube-system"`), `OverrideFailed: overrides must not change metadata.namespace, here from "shop" to "kube-system"`},
		"another kind":               {patch(policyv1alpha1.OverriderOpReplace, "/kind", `"DaemonSet"`), `OverrideFailed: overrides must not change kind, here from "Deployment" to "DaemonSet"`},
		"another version":            {patch(policyv1alpha1.OverriderOpReplace, "/apiVersion", `"apps/v2"`), `OverrideFailed: overrides must not change apiVersion, here from "apps/v1" to "apps/v2"`},
		"a finalizer":                {patch(policyv1alpha1.OverriderOpAdd, "/metadata/finalizers", `["example.org/stay"]`), "OverrideFailed: overrides must not change metadata.finalizers"},
		"a label of Karmada":         {&policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{util.ManagedByKarmadaLabel: "false"}}}}, "OverrideFailed: overrides must not change labels of Karmada, those of karmada.io and its subdomains"},
		"an annotation of Karmada":   {&policyv1alpha1.Overriders{AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"work.karmada.io/name": "other"}}}}, "OverrideFailed: overrides must not change annotations of Karmada, those of karmada.io and its subdomains"},
		"an image that is not there": {imageAt("/spec/template/spec/containers/7/image"), "OverrideFailed: spec.clusters, overriders of member2: imageOverrider: predicate.path /spec/template/spec/containers/7/image names nothing in the resource"},
		"labels that are not a map":  {patch(policyv1alpha1.OverriderOpReplace, "/metadata/labels", `"none"`), "OverrideFailed: "},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, aShop()...)
			b.settle(t)
			b.confirm(t)
			b.settle(t)
			before := b.rowOf(t, "member2").Revision
			b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.Clusters[1].Overriders = tc.overriders })
			b.changeImage(t, "nginx:2")
			b.settle(t)
			row := b.rowOf(t, "member2")
			if got := row.Reason + ": " + row.Message; !strings.HasPrefix(got, tc.want) {
				t.Errorf("row: %s, want %s", got, tc.want)
			}
			if row.Applied != metav1.ConditionFalse || row.Revision != before {
				t.Errorf("row: %s at %s, want False at %s", row.Applied, row.Revision, before)
			}
			if got := imageOf(t, b.manifestOn(t, "member1")); got != "nginx:2" {
				t.Errorf("member1 was held up at %s", got)
			}
			if got := imageOf(t, b.manifestOn(t, "member2")); got != "nginx:1" {
				t.Errorf("member2 got %s", got)
			}
		})
	}
}

// worksAreOn checks which clusters have a Work that stays.
func (b *bench) worksAreOn(t *testing.T, want ...string) {
	t.Helper()
	names := []string{}
	for _, work := range b.works(t) {
		if work.DeletionTimestamp == nil {
			names = append(names, render.ClusterOf(work.Namespace))
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("Works on %v, want %v", names, want)
	}
}

// readyIs checks the condition Ready.
func (b *bench) readyIs(t *testing.T, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	ready := meta.FindStatusCondition(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady)
	if ready.Status != status || ready.Reason != reason || !strings.Contains(ready.Message, message) {
		t.Errorf("Ready: %s, %s: %s; want %s, %s: %s", ready.Status, ready.Reason, ready.Message, status, reason, message)
	}
}

// selecting is a shop whose object names member1 and selects member3.
func selecting(t *testing.T) *bench {
	t.Helper()
	object := webPropagation()
	object.Spec.Clusters = object.Spec.Clusters[:1]
	object.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "far"}}
	far := memberCluster("member3")
	far.Labels = map[string]string{"site": "far"}
	b := newBench(t, webDeployment(), object, memberCluster("member1"), memberCluster("member2"), far)
	b.settle(t)
	b.worksAreOn(t, "member1", "member3")
	return b
}

// TestSelector: the labels of clusters decide which ones are selected.
func TestSelector(t *testing.T) {
	b := selecting(t)
	b.confirm(t)
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) {
		spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "nowhere"}}
	})
	b.settle(t)
	b.worksAreOn(t, "member1")
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.Clusters = nil })
	b.settle(t)
	b.worksAreOn(t)
	b.dropFinalizers(t)
	b.settle(t)
	b.readyIs(t, metav1.ConditionFalse, propagationv1alpha1.ReasonNoClusterSelected, "")
}

// TestInvalidSelector: a selector that cannot be evaluated withdraws nothing and is
// not retried. Once it is correct, clusters are selected again.
func TestInvalidSelector(t *testing.T) {
	b := selecting(t)
	b.confirm(t)
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) {
		spec.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "site", Operator: "Near"}}
	})
	if err := b.reconcile(t); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("a mistake of the user is retried: %v", err)
	}
	b.worksAreOn(t, "member1", "member3")
	b.readyIs(t, metav1.ConditionFalse, propagationv1alpha1.ReasonClusterSelectorInvalid, `spec.clusterSelector: "Near" is not a valid label selector operator`)
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) {
		spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "nowhere"}}
	})
	b.settle(t)
	b.worksAreOn(t, "member1")
}
