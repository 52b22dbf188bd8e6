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
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/karmada-direct/karmada-direct/apis"
)

// TestGuardedKinds compares the lists with each other, and with kinds that users
// want to differ.
func TestGuardedKinds(t *testing.T) {
	crds, err := apis.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for group := range guardedGroups {
		names = append(names, group)
		if guarded(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Any"}) == "" {
			t.Errorf("%s is not guarded", group)
		}
	}
	for kind := range guardedKinds {
		names = append(names, kind)
		if guarded(schema.GroupVersionKind{Version: "v1", Kind: kind}) == "" {
			t.Errorf("%s is not guarded", kind)
		}
	}
	for _, crd := range crds {
		if _, has := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]; !has {
			continue // a PropagationRevision
		}
		rule := ""
		for _, candidate := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].XValidations {
			if strings.Contains(candidate.Rule, "c.overriders") {
				rule = candidate.Rule
			}
		}
		for _, name := range names {
			if !strings.Contains(rule, "'"+name+"'") {
				t.Errorf("%s: %s is missing in the rule %q", crd.Name, name, rule)
			}
		}
		// Two lists, with a comma between each two.
		if got := strings.Count(rule, "', '") + 2; got != len(names) {
			t.Errorf("%s: the rule names %d groups and kinds, want %d", crd.Name, got, len(names))
		}
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "ServiceAccount"},
		{Group: "example.org", Version: "v1", Kind: "Namespace"},
	} {
		if why := guarded(kind); why != "" {
			t.Errorf("%s: %s", kind, why)
		}
	}
}

// TestSameMistakeSameMessage: a message that changes by itself is a status that is
// written again and again.
func TestSameMistakeSameMessage(t *testing.T) {
	before := &unstructured.Unstructured{Object: map[string]any{"kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "shop"}}}
	after := &unstructured.Unstructured{Object: map[string]any{"kind": "DaemonSet", "metadata": "none"}}
	for range 20 {
		if got, want := sameIdentity(before, after).Error(), `overrides must not change kind, here from "Deployment" to "DaemonSet"`; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}
