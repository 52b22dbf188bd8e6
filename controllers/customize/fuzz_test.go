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

package customize

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2" //nolint:depguard // only to silence Karmada's override manager, which logs every failure
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// overriderSeeds are overriders as users write them, with their mistakes.
var overriderSeeds = []string{
	`{}`,
	`{plaintext: [{path: /spec/replicas, operator: replace, value: 3}, {path: /metadata/labels/a, operator: add, value: b}]}`,
	`{plaintext: [{path: /spec/nothing/here, operator: replace, value: 1}]}`,
	`{plaintext: [{path: spec, operator: add, value: 1}, {path: "", operator: remove}]}`,
	`{plaintext: [{path: /spec/template/spec/containers/-, operator: add, value: {name: side}}]}`,
	`{plaintext: [{path: /metadata, operator: replace, value: none}]}`,
	`{plaintext: [{path: /metadata/labels, operator: replace, value: none}]}`,
	`{imageOverrider: [{component: Registry, operator: add, value: mirror.example.org}]}`,
	`{imageOverrider: [{component: Tag, operator: replace, value: "2", predicate: {path: /spec/template/spec/containers/0/image}}]}`,
	`{imageOverrider: [{component: Tag, operator: replace, value: "2", predicate: {path: /spec/template/spec/containers/7/image}}]}`,
	`{imageOverrider: [{component: Tag, operator: remove, predicate: {path: /data/list/0/image}}]}`,
	`{imageOverrider: [{component: Repository, operator: remove, predicate: {path: ""}}]}`,
	`{commandOverrider: [{containerName: web, operator: add, value: [run]}], argsOverrider: [{containerName: web, operator: remove, value: [-v]}]}`,
	`{labelsOverrider: [{operator: add, value: {a: b}}], annotationsOverrider: [{operator: remove, value: {note: x}}]}`,
	`{fieldOverrider: [{fieldPath: /data/app.yaml, yaml: [{subPath: /a, operator: replace, value: 2}]}]}`,
	`{fieldOverrider: [{fieldPath: /data/app.json, json: [{subPath: /a/-1, operator: remove}, {subPath: "~2", operator: add, value: null}]}]}`,
	`{fieldOverrider: [{fieldPath: nothing, json: []}]}`,
}

// resourceSeeds are resources to override.
var resourceSeeds = []string{
	`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {app: web}, annotations: {note: x}}, spec: {replicas: 2, template: {spec: {containers: [{name: web, image: "nginx:1", args: [-v]}]}}}}`,
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {app.yaml: "a: 1", app.json: '{"a":[1]}', list: [none, {image: ""}]}}`,
	`{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {containers: [{name: a}, {name: web, image: "registry.example.org:5000/a/b@sha256:0"}]}}`,
	`{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop}, spec: {template: none}}`,
	`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: r, namespace: shop}, roleRef: {name: view}}`,
	`{apiVersion: example.org/v1, kind: Shop, metadata: {name: s, namespace: shop}, spec: null}`,
}

func jsonOf(f *testing.F, text string) []byte {
	f.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzOverriders: overriders of the spec or of a policy either fail, with a message
// that says which, or give the same result every time. What identifies the object on
// the cluster stays, and so does the resource.
func FuzzOverriders(f *testing.F) {
	klog.SetLogger(logr.Discard())
	for _, overriders := range overriderSeeds {
		for _, resource := range resourceSeeds {
			f.Add(jsonOf(f, overriders), jsonOf(f, resource), false)
			f.Add(jsonOf(f, overriders), jsonOf(f, resource), true)
		}
	}
	f.Fuzz(func(t *testing.T, written, stored []byte, byPolicy bool) {
		overriders, resource := policyv1alpha1.Overriders{}, &unstructured.Unstructured{}
		if json.Unmarshal(written, &overriders) != nil || utiljson.Unmarshal(stored, &resource.Object) != nil {
			t.Skip("the API server stores no such overriders, or no such resource")
		}
		if metadata, _ := resource.Object["metadata"].(map[string]any); metadata == nil || resource.GetName() == "" || resource.GetKind() == "" {
			t.Skip("the API server stores no such resource")
		}
		wanted := &variant{name: "fuzzed", overriders: &overriders, resolution: propagationv1alpha1.ConflictAbort}
		if byPolicy {
			policy := policyv1alpha1.OverridePolicy{Spec: policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: overriders}}}}
			policy.Namespace, policy.Name = "shop", "mirror"
			wanted.overriders, wanted.here = nil, []policyv1alpha1.OverridePolicy{policy}
		}
		first, second := renderedOnce(resource, wanted), renderedOnce(resource, wanted)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("rendered twice (-first +second):\n%s", diff)
		}
		if first != nil && first.Reason != "" {
			checkFailure(t, first, &overriders, byPolicy)
		}
	})
}

// renderedOnce renders a variant of a resource from the beginning, and checks that it
// changes neither the resource nor what identifies it.
func renderedOnce(resource *unstructured.Unstructured, wanted *variant) *decide.Rendering {
	customizer := New(nil, &Interpreter{ResourceInterpreter: builtIn{native.NewDefaultInterpreter()}}, nil)
	renderer := &Renderer{
		customizer: customizer, now: time.Unix(0, 0), resolution: propagationv1alpha1.ConflictAbort, template: resource.DeepCopy(),
		variants: &Variants{ByName: map[string]*variant{wanted.name: wanted}},
	}
	rendering := renderer.learn(wanted.name)
	if !cmp.Equal(renderer.template.Object, resource.Object) {
		return &decide.Rendering{Message: "the resource has changed: " + cmp.Diff(resource.Object, renderer.template.Object)}
	}
	if renderer.last != nil {
		if kind := renderer.last.Kind(); kind != resource.GroupVersionKind() {
			return &decide.Rendering{Message: "the kind has changed to " + kind.String()}
		}
	}
	return rendering
}

// checkFailure checks that a message says what to correct.
func checkFailure(t *testing.T, failure *decide.Rendering, overriders *policyv1alpha1.Overriders, byPolicy bool) {
	t.Helper()
	resource := decide.Resource{Renderings: map[string]*decide.Rendering{"member1": failure}}
	message := resource.On("member1").Message
	if message == "" || failure.Revision != "" {
		t.Errorf("no reason is given: %+v", failure)
	}
	named := []string{"spec.clusters, overriders of member1: ", "OverridePolicy shop/mirror: ", "after overrides: ", "overrides must not change "}
	if !slices.ContainsFunc(named, func(prefix string) bool { return strings.HasPrefix(message, prefix) }) {
		t.Errorf("the message does not say what fails: %s", message)
	}
	if strings.HasSuffix(message, "must be the same on every cluster; use a ClusterOverridePolicy") {
		return
	}
	if only := onlyPatch(overriders); only != nil && strings.HasPrefix(message, named[0]) && !strings.Contains(message, only.Path) && !byPolicy {
		t.Errorf("the message does not name path %q: %s", only.Path, message)
	}
}

// onlyPatch returns the one patch of overriders that have nothing else.
func onlyPatch(overriders *policyv1alpha1.Overriders) *policyv1alpha1.PlaintextOverrider {
	patches := overriders.Plaintext
	if len(patches) != 1 || !cmp.Equal(*overriders, policyv1alpha1.Overriders{Plaintext: patches}) {
		return nil
	}
	return ptr.To(patches[0])
}
