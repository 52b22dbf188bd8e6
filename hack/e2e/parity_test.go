//go:build e2e

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

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A CRD that is propagated, and custom resources of it, need no waiting by
// hand: all are created at once.
func TestCRDAndItsResources(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	group := "e2e-" + rand.String(5) + ".example.org"
	kind := testbed.NewKind(group, "Widget")
	ns.Installs(kind, karmada)
	t.Cleanup(func() { ns.Uninstalls(kind, karmada, member1.Client, member2.Client) })
	widget := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"size": "large"})
	ns.Has(widget)
	p := ns.Propagates("widget", widget).To(members...)
	direct := &propagationv1alpha1.ClusterDirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Name: kind.Name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: testbed.Reference("apiextensions.k8s.io/v1", "CustomResourceDefinition", kind.Name), Clusters: testbed.Targets(testbed.NamesOf(members)...)},
	}
	if err := karmada.Create(ns.Ctx, direct); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clusterPropagationGoes(t, direct) })
	ns.Eventually("the CRD is propagated", func(ctx context.Context) error { return clusterIsReady(ctx, direct) })
	p.BecomesReady()
	p.IsDeleted()
	ns.ComeToLack(widget, members...)
	clusterPropagationGoes(t, direct)
	for _, member := range members {
		ns.Eventually("the CRD is gone from "+member.Name, func(ctx context.Context) error {
			if err := member.Get(ctx, client.ObjectKeyFromObject(kind), kind.DeepCopy()); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there: %v", err)
			}
			return nil
		})
	}

	// Each of the two kinds refuses what the other is for, and says so.
	wrong := ns.PropagatesReference("wrong", testbed.Reference("apiextensions.k8s.io/v1", "CustomResourceDefinition", kind.Name)).To(member1)
	wrong.Says(propagationv1alpha1.ReasonResourceScopeMismatch,
		"spec.resource: apiextensions.k8s.io/v1 CustomResourceDefinition is cluster-scoped; use a ClusterDirectPropagation for it, a DirectPropagation propagates a resource of its own namespace")
}

func clusterIsReady(ctx context.Context, object *propagationv1alpha1.ClusterDirectPropagation) error {
	if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != object.Generation {
		return fmt.Errorf("Ready: %s", testbed.Say(ready))
	}
	return nil
}

// clusterPropagationGoes deletes a ClusterDirectPropagation and waits until it
// is gone.
func clusterPropagationGoes(t *testing.T, object *propagationv1alpha1.ClusterDirectPropagation) {
	t.Helper()
	err := bed.Await(context.Background(), object.Name+" is gone", func(ctx context.Context) error {
		if err := karmada.Delete(ctx, object.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A cluster that is labeled gets what selects it, and one that is not any more
// loses it.
func TestClustersAreSelected(t *testing.T) {
	t.Parallel()
	for _, member := range members {
		t.Run(member.Mode, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			label := "example.org/" + ns.Name
			settings := testbed.ConfigMap("settings", "for whoever is labeled")
			ns.Has(settings)
			p := ns.Propagates("settings", settings).With(func(object *DirectPropagation) {
				object.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}}
			}).ToClusters()
			p.Says(propagationv1alpha1.ReasonNoClusterSelected, "no Cluster matches spec.clusterSelector; label one, or correct the selector")
			ns.labels(member, label, "yes")
			p.BecomesReady()
			ns.NowRun(settings, member)

			p.Changes(func(object *DirectPropagation) {
				object.Spec.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: label, Operator: "Near"}}
			})
			p.Says(propagationv1alpha1.ReasonClusterSelectorInvalid, `spec.clusterSelector: "Near" is not a valid label selector operator`)
			ns.NowRun(settings, member)
			p.Changes(func(object *DirectPropagation) { object.Spec.ClusterSelector.MatchExpressions = nil })
			p.BecomesReady()

			ns.labels(member, label, "no")
			ns.ComeToLack(settings, member)
			p.Says(propagationv1alpha1.ReasonNoClusterSelected, "no Cluster matches spec.clusterSelector; label one, or correct the selector")
		})
	}
}

// labels labels a Cluster until the test is over.
func (ns *Namespace) labels(member *Member, key, value string) {
	ns.T.Helper()
	label := func(ctx context.Context, mutate func(map[string]string)) {
		cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member.Name}}
		err := testbed.Change(ctx, karmada, cluster, func(cluster *clusterv1alpha1.Cluster) {
			if cluster.Labels == nil {
				cluster.Labels = map[string]string{}
			}
			mutate(cluster.Labels)
		})
		if err != nil {
			ns.T.Error(err)
		}
	}
	label(ns.Ctx, func(labels map[string]string) { labels[key] = value })
	ns.T.Cleanup(func() { label(context.Background(), func(labels map[string]string) { delete(labels, key) }) })
}

// everyOverrider changes a Deployment in every way that Karmada knows.
func everyOverrider() policyv1alpha1.Overriders {
	return policyv1alpha1.Overriders{
		ImageOverrider:       []policyv1alpha1.ImageOverrider{{Component: policyv1alpha1.Registry, Operator: policyv1alpha1.OverriderOpAdd, Value: "mirror.example.org"}},
		CommandOverrider:     []policyv1alpha1.CommandArgsOverrider{{ContainerName: "main", Operator: policyv1alpha1.OverriderOpAdd, Value: []string{"serve"}}},
		ArgsOverrider:        []policyv1alpha1.CommandArgsOverrider{{ContainerName: "main", Operator: policyv1alpha1.OverriderOpAdd, Value: []string{"--far"}}},
		LabelsOverrider:      []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"example.org/site": "far"}}},
		AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"example.org/note": "far"}}},
		FieldOverrider: []policyv1alpha1.FieldOverrider{{
			FieldPath: "/spec/template/metadata/annotations/settings",
			JSON:      []policyv1alpha1.JSONPatchOperation{{SubPath: "/level", Operator: policyv1alpha1.OverriderOpReplace, Value: apiextensionsv1.JSON{Raw: []byte(`"debug"`)}}},
		}},
		Plaintext: []policyv1alpha1.PlaintextOverrider{{Path: "/spec/minReadySeconds", Operator: policyv1alpha1.OverriderOpAdd, Value: apiextensionsv1.JSON{Raw: []byte("1")}}},
	}
}

// Every overrider, in the spec and by policy, gives the manifest that Karmada's
// own path gives for the same overriders, byte for byte once what names the
// way is taken off.
func TestOverridesAreKarmadas(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	names := []string{"inline", "overridden", "bypolicy"}
	for _, name := range names {
		web := testbed.Deployment(name, "web:1", 1)
		web.Spec.Template.Annotations = map[string]string{"settings": `{"level":"info"}`}
		ns.Has(web)
	}
	ns.hasOverridePolicyFor("overridden", "bypolicy")
	ns.NoteWork(testbed.Reference("apps/v1", "Deployment", "bypolicy"))
	policy := ns.hasDeploymentPolicy("bypolicy", policyv1alpha1.ConflictAbort, false)
	inline := ns.PropagatesReference("inline", testbed.Reference("apps/v1", "Deployment", "inline")).With(func(object *DirectPropagation) {
		for i := range object.Spec.Clusters {
			object.Spec.Clusters[i].Overriders = ptr.To(everyOverrider())
		}
	}).To(members...)
	overridden := ns.PropagatesReference("overridden", testbed.Reference("apps/v1", "Deployment", "overridden")).To(members...)
	for _, member := range members {
		inline.RowSays(member.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
		overridden.RowSays(member.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
		manifests := map[string]string{}
		for _, name := range names {
			ns.Eventually(name+" reaches "+member.Name, func(ctx context.Context) error {
				work, err := ns.Work(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}}, member)
				if err != nil {
					return err
				}
				manifests[name], err = plainManifest(work, name)
				if record := work.Annotations[util.AppliedOverrides]; err == nil && (name == "inline") != (record == "") {
					return fmt.Errorf("applied overrides of %s: %q", name, record)
				}
				return err
			})
		}
		for _, name := range names[:2] {
			if diff := cmp.Diff(manifests["bypolicy"], manifests[name]); diff != "" {
				t.Errorf("%s: manifest of %s (-Karmada's +ours):\n%s", member, name, diff)
			}
		}
		if !strings.Contains(manifests["inline"], "mirror.example.org/web:1") {
			t.Errorf("nothing is overridden: %s", manifests["inline"])
		}
	}
	ns.policyLetsGo(policy, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "bypolicy"}})
	overrides := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "overrides"}}
	ns.Loses(overrides)
	ns.Eventually("without the policy, nothing is overridden", func(ctx context.Context) error {
		return testbed.Run(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "overridden"}, Spec: testbed.Deployment("overridden", "web:1", 1).Spec}, members...)
	})
}

// plainManifest is the manifest of a Work without what names the Work, the
// binding and the template, and without the name of the Deployment.
func plainManifest(work *workv1alpha1.Work, name string) (string, error) {
	manifest := &unstructured.Unstructured{}
	if err := json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, manifest); err != nil {
		return "", err
	}
	drop := func(values map[string]string) map[string]string {
		for _, key := range []string{
			workv1alpha2.WorkPermanentIDLabel, workv1alpha2.ResourceBindingPermanentIDLabel,
			policyv1alpha1.PropagationPolicyPermanentIDLabel, policyv1alpha1.PropagationPolicyNameAnnotation, policyv1alpha1.PropagationPolicyNamespaceAnnotation,
			workv1alpha2.WorkNameAnnotation, workv1alpha2.ResourceBindingNameAnnotationKey, workv1alpha2.ResourceBindingNamespaceAnnotationKey,
			workv1alpha2.ResourceTemplateUIDAnnotation, workv1alpha2.ResourceTemplateGenerationAnnotationKey, workv1alpha2.ManagedAnnotation, workv1alpha2.ManagedLabels,
		} {
			delete(values, key)
		}
		return values
	}
	manifest.SetLabels(drop(manifest.GetLabels()))
	manifest.SetAnnotations(drop(manifest.GetAnnotations()))
	content, err := json.MarshalIndent(manifest.Object, "", " ")
	return strings.ReplaceAll(string(content), `"`+name+`"`, `"name"`), err
}

func (ns *Namespace) hasOverridePolicyFor(names ...string) {
	ns.T.Helper()
	policy := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "overrides"}}
	for _, name := range names {
		policy.Spec.ResourceSelectors = append(policy.Spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment", Name: name})
	}
	policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: everyOverrider()}}
	ns.Has(policy)
}

// hasDeploymentPolicy makes a policy that propagates a Deployment to all
// members, and leaves it there if that is wanted.
func (ns *Namespace) hasDeploymentPolicy(name string, resolution policyv1alpha1.ConflictResolution, preserve bool) *policyv1alpha1.PropagationPolicy {
	ns.T.Helper()
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: name}}
	policy.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: testbed.NamesOf(members)}
	policy.Spec.PreserveResourcesOnDeletion = &preserve
	policy.Spec.ConflictResolution = resolution
	ns.Has(policy)
	return policy
}

// Overrides that fail are told in the row of their cluster; the other goes on.
func TestWrongOverrides(t *testing.T) {
	t.Parallel()
	plaintext := func(path, value string) *policyv1alpha1.Overriders {
		return &policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{Path: path, Operator: policyv1alpha1.OverriderOpReplace, Value: apiextensionsv1.JSON{Raw: []byte(value)}}}}
	}
	for name, wrong := range map[string]struct {
		overriders      *policyv1alpha1.Overriders
		reason, message string
	}{
		"path": {plaintext("/data/nothing", `"x"`), propagationv1alpha1.ReasonOverrideFailed,
			"spec.clusters, overriders of member2: replace operation does not apply: doc is missing key: /data/nothing: missing value"},
		"identity": {plaintext("/metadata/name", `"other"`), propagationv1alpha1.ReasonOverrideFailed,
			`overrides must not change metadata.name, here from "settings" to "other"`},
		"json": {&policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/data/says", JSON: []policyv1alpha1.JSONPatchOperation{{SubPath: "/a", Operator: policyv1alpha1.OverriderOpAdd, Value: apiextensionsv1.JSON{Raw: []byte("1")}}}}}},
			propagationv1alpha1.ReasonOverrideFailed, "spec.clusters, overriders of member2: invalid state detected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			settings := testbed.ConfigMap("settings", "not json")
			ns.Has(settings)
			p := ns.Propagates("settings", settings).With(func(object *DirectPropagation) {
				object.Spec.Clusters[1].Overriders = wrong.overriders
			}).To(members...)
			p.RowSays(member1.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
			p.RowSays(member2.Name, metav1.ConditionFalse, wrong.reason, wrong.message)
			ns.NowRun(settings, member1)
			p.Changes(func(object *DirectPropagation) { object.Spec.Clusters[1].Overriders = nil })
			p.BecomesReady()
		})
	}
}

// A value that makes the Work larger than the API server takes is refused for
// its cluster alone.
func TestOverrideTooLarge(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", strings.Repeat("x", 900<<10))
	ns.Has(settings)
	p := ns.Propagates("settings", settings).With(func(object *DirectPropagation) {
		object.Spec.Clusters[1].Overriders = &policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
			Path: "/data/more", Operator: policyv1alpha1.OverriderOpAdd, Value: apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("y", 1<<20) + `"`)},
		}}}
	}).To(members...)
	p.RowSays(member1.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
	ns.Eventually("member2 says that its Work is too large", func(ctx context.Context) error {
		object := &DirectPropagation{}
		if err := karmada.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "settings"}, object); err != nil {
			return err
		}
		row := testbed.RowOf(object, member2.Name)
		if row.Reason != propagationv1alpha1.ReasonWriteFailed || !strings.Contains(row.Message, "too large") {
			return fmt.Errorf("row: %+v", row)
		}
		return nil
	})
	p.Changes(func(object *DirectPropagation) { object.Spec.Clusters[1].Overriders = nil })
	p.BecomesReady()
}

// Two and five replicas reach Available, and the sum of them the resource on
// the control plane: kubectl rollout status ends there.
func TestReplicasAndRollout(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := testbed.Deployment("web", "web:1", 1)
	ns.Has(web)
	p := ns.Propagates("web", web).With(func(object *DirectPropagation) {
		object.Spec.Clusters[0].Replicas, object.Spec.Clusters[1].Replicas = ptr.To[int32](2), ptr.To[int32](5)
	}).To(members...)
	for i, member := range members {
		p.RowSays(member.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
		have := &appsv1.Deployment{}
		if err := member.Get(ns.Ctx, client.ObjectKeyFromObject(web), have); err != nil {
			t.Fatal(err)
		}
		if want := []int32{2, 5}[i]; *have.Spec.Replicas != want || have.Status.AvailableReplicas != want {
			t.Errorf("%s: %d of %d replicas available, want %d", member, have.Status.AvailableReplicas, *have.Spec.Replicas, want)
		}
	}
	ns.Eventually("the resource has the status of both", func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(web), web); err != nil {
			return err
		}
		if web.Status.AvailableReplicas != 7 || web.Status.ObservedGeneration != web.Generation {
			return fmt.Errorf("status: %+v", web.Status)
		}
		return nil
	})

	same := testbed.Deployment("same", "web:1", 1)
	ns.Has(same)
	ns.Propagates("same", same).To(members...).BecomesReady()
	ns.kubectl("", "rollout", "status", "deployment/same", "--timeout=60s").has("successfully rolled out")
	testbed.Changes(ns.Namespace, same, func(same *appsv1.Deployment) { same.Spec.Template.Spec.Containers[0].Image = "web:2" })
	ns.kubectl("", "rollout", "status", "deployment/same", "--timeout=60s").has("successfully rolled out")
	ns.NowRun(same, members...)

	settings := testbed.ConfigMap("settings", "no replicas")
	ns.Has(settings)
	none := ns.Propagates("settings", settings).With(func(object *DirectPropagation) {
		object.Spec.Clusters[1].Replicas = ptr.To[int32](2)
	}).To(members...)
	none.RowSays(member1.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
	none.RowSays(member2.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonRenderFailed,
		"spec.clusters, replicas of member2: Karmada's resource interpreter cannot revise the replicas of v1 ConfigMap; leave replicas out, or write a ResourceInterpreterCustomization with replicaRevision")
}

const (
	luaHealth = `function InterpretHealth(observedObj)
  return observedObj.spec.good == true
end`
	luaReplicas = `function ReviseReplica(desiredObj, desiredReplica)
  desiredObj.spec.count = desiredReplica
  return desiredObj
end`
)

// What a user teaches Karmada of a kind holds here too: health and replicas by
// Lua.
func TestCustomInterpreter(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	group := "e2e-" + rand.String(5) + ".example.org"
	kind := testbed.NewKind(group, "Widget")
	for _, plane := range []client.Client{karmada, member1.Client, member2.Client} {
		ns.Installs(kind, plane)
	}
	t.Cleanup(func() { ns.Uninstalls(kind, karmada, member1.Client, member2.Client) })
	customization := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
	customization.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: group + "/v1", Kind: "Widget"}
	customization.Spec.Customizations.HealthInterpretation = &configv1alpha1.HealthInterpretation{LuaScript: luaHealth}
	customization.Spec.Customizations.ReplicaRevision = &configv1alpha1.ReplicaRevision{LuaScript: luaReplicas}
	if err := karmada.Create(ns.Ctx, customization); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := karmada.Delete(context.Background(), customization); err != nil {
			t.Error(err)
		}
	})
	widget := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"count": int64(1), "good": false})
	ns.Has(widget)
	p := ns.Propagates("widget", widget).With(func(object *DirectPropagation) {
		object.Spec.Clusters[1].Replicas = ptr.To[int32](7)
	}).To(members...)
	for i, member := range members {
		p.RowSays(member.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonUnhealthy, "the cluster runs the current revision and reports it not healthy")
		have := widget.DeepCopy()
		if err := member.Get(ns.Ctx, client.ObjectKeyFromObject(widget), have); err != nil {
			t.Fatal(err)
		}
		count, _, err := unstructured.NestedInt64(have.Object, "spec", "count")
		if want := []int64{1, 7}[i]; err != nil || count != want {
			t.Errorf("%s: count %d (%v), want %d", member, count, err, want)
		}
	}
	testbed.Changes(ns.Namespace, widget, func(widget *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(widget.Object, true, "spec", "good"); err != nil {
			t.Error(err)
		}
	})
	awaitsRows(p, "both are healthy", propagationv1alpha1.ReasonApplied)
	// While the kind is there: where it is gone from a member, Karmada may never
	// end the deletion of a Work.
	p.IsDeleted()
}

// awaitsRows waits until every row has the reason, at the present generation
// of the object.
func awaitsRows(p *Propagation, what, reason string) {
	p.NS.T.Helper()
	p.Becomes(what, func(object *DirectPropagation) error {
		for i := range object.Status.Clusters {
			if row := &object.Status.Clusters[i]; row.Reason != reason {
				return fmt.Errorf("%s: %s: %s", row.Name, row.Reason, row.Message)
			}
		}
		return nil
	})
}

// What a Deployment needs follows it, is shared by two, follows changes, and
// goes with the last one that needs it. One that is missing is named.
func TestDependenciesFollow(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings, other := testbed.ConfigMap("settings", "shared"), testbed.ConfigMap("other", "named by itself")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"key": []byte("secret")}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	for _, resource := range []client.Object{settings, other, secret, account} {
		ns.Has(resource)
		ns.NoteWork(testbed.ReferenceTo(resource))
	}
	needs := func(name string, configMaps ...string) *appsv1.Deployment {
		made := testbed.Deployment(name, "web:1", 1)
		pod := &made.Spec.Template.Spec
		pod.ServiceAccountName = account.Name
		pod.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name}}}}
		for _, name := range configMaps {
			pod.Containers[0].EnvFrom = append(pod.Containers[0].EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
		}
		ns.Has(made)
		return made
	}
	follow := func(object *DirectPropagation) { object.Spec.PropagateDeps = ptr.To(true) }
	first := ns.Propagates("first", needs("first", "settings")).With(follow).To(members...)
	second := ns.Propagates("second", needs("second", "settings", "absent")).With(follow).To(member2)
	haveFollowed(first, 3, 3)
	first.BecomesReady()
	ns.NowRun(settings, members...)
	ns.NowRun(secret, members...)
	haveFollowed(second, 4, 3)
	unready := second.Latest().Status.Dependencies.Unready
	if len(unready) != 1 || unready[0].Name != "absent" || unready[0].Reason != propagationv1alpha1.ReasonResourceNotFound {
		t.Errorf("unready: %+v", unready)
	}
	absent := testbed.ConfigMap("absent", "at last")
	ns.Has(absent)
	ns.NoteWork(testbed.ReferenceTo(absent))
	haveFollowed(second, 4, 4)
	ns.ComeToRun(absent, member2)
	ns.Now("what only the second needs goes to its cluster alone", func(ctx context.Context) error { return testbed.Lack(ctx, absent, member1) })

	testbed.Changes(ns.Namespace, settings, testbed.Saying("changed"))
	ns.ComeToRun(settings, members...)

	// One that names it by itself takes it over, and gives it back.
	named := ns.Propagates("settings", settings).To(members...)
	named.BecomesReady()
	haveFollowed(first, 3, 3)
	named.IsDeleted()
	ns.ComeToRun(settings, members...)

	first.IsDeleted()
	ns.ComeToLack(settings, member1)
	ns.ComeToLack(secret, member1)
	ns.NowRun(settings, member2)
	second.IsDeleted()
	for _, resource := range []client.Object{settings, secret, absent} {
		ns.ComeToLack(resource, members...)
	}
}

// haveFollowed waits until so many of the resource's dependencies are ready.
func haveFollowed(p *Propagation, total, ready int32) {
	p.NS.T.Helper()
	p.Becomes(fmt.Sprintf("%d of %d dependencies are ready", ready, total), func(object *DirectPropagation) error {
		if fares := object.Status.Dependencies; fares == nil || *fares.Total != total || *fares.Ready != ready {
			return fmt.Errorf("dependencies: %s", testbed.YAML(fares))
		}
		return nil
	})
}

// An application moves from a policy to a DirectPropagation and back, and its
// Pods do not notice.
func TestMoveFromPolicyAndBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := testbed.Deployment("web", "web:1", 2)
	ns.Has(web)
	ns.NoteWork(testbed.ReferenceTo(web))
	policy := ns.hasDeploymentPolicy("web", policyv1alpha1.ConflictOverwrite, true)
	pods := map[*Member]map[types.UID]bool{}
	for _, member := range members {
		ns.Eventually(member.Name+" runs web", func(ctx context.Context) (err error) {
			pods[member], err = readyPods(ctx, member, ns.Name, 2)
			return err
		})
	}
	p := ns.Propagates("web", web).With(func(object *DirectPropagation) {
		object.Spec.ConflictResolution = propagationv1alpha1.ConflictOverwrite
	}).To(members...)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonConflict,
			"Deployment web is already propagated to this cluster by PropagationPolicy "+ns.Name+"/web; it is taken up when that lets go")
	}
	ns.policyLetsGo(policy, web)
	began := time.Now()
	p.BecomesReady()
	t.Logf("taken up %v after the binding was deleted", time.Since(began).Round(time.Millisecond))
	ns.samePods(pods)
	testbed.Changes(ns.Namespace, web, func(web *appsv1.Deployment) { web.Annotations = map[string]string{"example.org/moved": "yes"} })
	p.BecomesReady()
	ns.samePods(pods)

	// And back: Karmada takes the Works over as they are.
	policy = ns.hasDeploymentPolicy("web", policyv1alpha1.ConflictOverwrite, false)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonConflict,
			"Deployment web is already propagated to this cluster by PropagationPolicy "+ns.Name+"/web; it is taken up when that lets go")
	}
	p.IsDeleted()
	ns.samePods(pods)
	ns.Throughout(3*time.Second, "its Pods stay", func(ctx context.Context) error { return ns.areSamePods(ctx, pods) })
	ns.policyLetsGo(policy, web)
}

func (ns *Namespace) samePods(pods map[*Member]map[types.UID]bool) {
	ns.T.Helper()
	ns.Now("the Pods are the same", func(ctx context.Context) error { return ns.areSamePods(ctx, pods) })
}

func (ns *Namespace) areSamePods(ctx context.Context, pods map[*Member]map[types.UID]bool) error {
	for member, before := range pods {
		now, err := readyPods(ctx, member, ns.Name, len(before))
		if err != nil {
			return err
		}
		if diff := cmp.Diff(before, now); diff != "" {
			return fmt.Errorf("%s: Pods (-before +now):\n%s", member, diff)
		}
	}
	return nil
}

// readyPods are the UIDs of the Pods of a namespace, all of which must be
// Ready.
func readyPods(ctx context.Context, member *Member, namespace string, count int) (map[types.UID]bool, error) {
	list := &corev1.PodList{}
	if err := member.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	pods := map[types.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				pods[pod.UID] = true
			}
		}
	}
	if len(pods) != count || len(list.Items) != count {
		return nil, fmt.Errorf("%s: %d Pods, %d of them Ready, want %d", member, len(list.Items), len(pods), count)
	}
	return pods, nil
}
