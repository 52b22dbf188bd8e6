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

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// everyOverrider returns overriders that change a Deployment in every way that
// Karmada supports.
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

// The same overriders give the same manifest, byte for byte, in the spec of a
// DirectPropagation, in an OverridePolicy for one, and by Karmada's own policies.
// The comparison ignores the fields that identify the path.
func TestOverridesMatchKarmada(t *testing.T) {
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
		manifests := ns.manifestsOn(member, names)
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

// manifestsOn returns the manifests of the Works of some Deployments for a member.
func (ns *Namespace) manifestsOn(member *Member, names []string) map[string]string {
	ns.T.Helper()
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
	return manifests
}

// plainManifest returns the manifest of a Work without the fields that identify the
// Work, the binding and the template, and without the name of the Deployment.
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

// Failing overrides are reported in the row of their cluster. The other cluster is
// not affected.
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

// A value that makes the Work too large for the API server is reported only for its
// cluster.
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
