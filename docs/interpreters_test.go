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

package docs_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/declarative"
	"github.com/karmada-io/karmada/pkg/util/interpreter"

	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

const interpretersPage = "tasks/interpreters.md"

// cookbook is Karmada's own interpreter with the customizations of the page, and the object that the
// page shows.
type cookbook struct {
	*declarative.ConfigurableInterpreter

	t    *testing.T
	door *unstructured.Unstructured
}

var pageBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?\n)```")

func readCookbook(t *testing.T) *cookbook {
	t.Helper()
	page, err := os.ReadFile(interpretersPage)
	if err != nil {
		t.Fatal(err)
	}
	c := &cookbook{t: t, ConfigurableInterpreter: declarative.NewConfigurableInterpreter(nil)}
	customizations := []*configv1alpha1.ResourceInterpreterCustomization{}
	for _, block := range pageBlock.FindAllSubmatch(page, -1) {
		object := decoded(t, string(block[1]))
		switch object.GetKind() {
		case "Widget":
			c.door = object
		case "ResourceInterpreterCustomization":
			customization := &configv1alpha1.ResourceInterpreterCustomization{}
			if err := yaml.UnmarshalStrict(block[1], customization); err != nil {
				t.Fatalf("%v\n%s", err, block[1])
			}
			customizations = append(customizations, customization)
		}
	}
	if c.door == nil || len(customizations) < 7 {
		t.Fatalf("the page has the object %v and %d customizations; is the search still right?", c.door, len(customizations))
	}
	c.LoadConfig(customizations)
	return c
}

// decoded reads an object as an API server does: whole numbers are integers.
func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = object.UnmarshalJSON(content)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return object
}

// doorWith is the object of the page with other values; nil removes a field.
func (c *cookbook) doorWith(value any, path ...string) *unstructured.Unstructured {
	c.t.Helper()
	changed := c.door.DeepCopy()
	if value == nil {
		unstructured.RemoveNestedField(changed.Object, path...)
	} else if err := unstructured.SetNestedField(changed.Object, value, path...); err != nil {
		c.t.Fatal(err)
	}
	return changed
}

// ran checks that a customization exists and has not failed.
func (c *cookbook) ran(enabled bool, err error) {
	c.t.Helper()
	if !enabled || err != nil {
		c.t.Fatalf("there is a script: %v, and its error is %v", enabled, err)
	}
}

func TestCookbookHealth(t *testing.T) {
	t.Parallel()
	c := readCookbook(t)
	for name, tc := range map[string]struct {
		door *unstructured.Unstructured
		want bool
	}{
		"as shown":                    {c.door, true},
		"one is not ready":            {c.doorWith(int64(1), "status", "ready"), false},
		"its controller is behind":    {c.doorWith(int64(4), "metadata", "generation"), false},
		"its controller has not come": {c.doorWith(nil, "status"), false},
	} {
		healthy, enabled, err := c.InterpretHealth(tc.door)
		c.ran(enabled, err)
		if healthy != tc.want {
			t.Errorf("%s: healthy is %v", name, healthy)
		}
	}
}

// reflected is what Karmada collects of an object.
func (c *cookbook) reflected(object *unstructured.Unstructured) *runtime.RawExtension {
	c.t.Helper()
	status, enabled, err := c.ReflectStatus(object)
	c.ran(enabled, err)
	return status
}

// What Karmada collects says which generation it is about, in the form that the controller reads.
func TestCookbookStatus(t *testing.T) {
	t.Parallel()
	c := readCookbook(t)
	for name, tc := range map[string]struct {
		door     *unstructured.Unstructured
		want     map[string]any
		of       int64
		reported bool
	}{
		"as shown":             {c.door, map[string]any{"phase": "Running", "ready": 2.0, "resourceTemplateGeneration": 2.0}, 2, true},
		"without a generation": {c.doorWith(nil, "metadata", "annotations"), map[string]any{"phase": "Running", "ready": 2.0}, 0, false},
		"without a status":     {c.doorWith(nil, "status"), map[string]any{"resourceTemplateGeneration": 2.0}, 2, true},
	} {
		raw, got := c.reflected(tc.door), map[string]any{}
		if err := json.Unmarshal(raw.Raw, &got); err != nil {
			t.Fatalf("%s: %v: %s", name, err, raw.Raw)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if generation, reported := render.ReportedGeneration(&workv1alpha1.ManifestStatus{Status: raw}); generation != tc.of || reported != tc.reported {
			t.Errorf("%s: the controller reads generation %d (%v)", name, generation, reported)
		}
	}
}

func TestCookbookAggregation(t *testing.T) {
	t.Parallel()
	c := readCookbook(t)
	template := c.doorWith(nil, "status") // the resource in the control plane
	template.SetGeneration(2)
	current := workv1alpha2.AggregatedStatusItem{ClusterName: "member1", Status: c.reflected(c.door)}
	old := workv1alpha2.AggregatedStatusItem{ClusterName: "member2", Status: c.reflected(c.doorWith("1", "metadata", "annotations", workv1alpha2.ResourceTemplateGenerationAnnotationKey))}
	for name, tc := range map[string]struct {
		items []workv1alpha2.AggregatedStatusItem
		want  map[string]any
	}{
		"all clusters are current":     {[]workv1alpha2.AggregatedStatusItem{current, current}, map[string]any{"ready": int64(4), "observedGeneration": int64(2)}},
		"one cluster is behind":        {[]workv1alpha2.AggregatedStatusItem{current, old}, map[string]any{"ready": int64(4)}},
		"one cluster has not answered": {[]workv1alpha2.AggregatedStatusItem{current, {ClusterName: "member2"}}, map[string]any{"ready": int64(2)}},
		"there is no cluster":          {nil, map[string]any{"ready": int64(0)}},
	} {
		aggregated, enabled, err := c.AggregateStatus(template.DeepCopy(), tc.items)
		c.ran(enabled, err)
		if diff := cmp.Diff(any(tc.want), aggregated.Object["status"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCookbookReplicas(t *testing.T) {
	t.Parallel()
	c := readCookbook(t)
	revised, enabled, err := c.ReviseReplica(c.door.DeepCopy(), 5)
	c.ran(enabled, err)
	if diff := cmp.Diff(c.doorWith(int64(5), "spec", "count").Object, revised.Object); diff != "" {
		t.Errorf("with five replicas (-want +got):\n%s", diff)
	}
	for want, door := range map[int32]*unstructured.Unstructured{5: revised, 2: c.door, 1: c.doorWith(nil, "spec", "count")} {
		replicas, _, enabled, err := c.GetReplicas(door)
		c.ran(enabled, err)
		if replicas != want {
			t.Errorf("there are %d replicas, want %d", replicas, want)
		}
	}
}

// dependencies are the names of what an object needs, within the reach of an object in its
// namespace.
func (c *cookbook) dependencies(object *unstructured.Unstructured) []string {
	c.t.Helper()
	found, enabled, err := c.GetDependencies(object)
	c.ran(enabled, err)
	names := []string{}
	for _, each := range found {
		if reason, message := dependency.OutOfReach(render.Owner{Namespace: object.GetNamespace()}, each); reason != "" {
			c.t.Errorf("%v is not propagated: %s: %s", each, reason, message)
		}
		names = append(names, each.Kind+"/"+each.Name)
	}
	return names
}

func TestCookbookDependencies(t *testing.T) {
	t.Parallel()
	c := readCookbook(t)
	runner := decoded(t, `
apiVersion: example.org/v1
kind: Runner
metadata: {name: tests, namespace: shop}
spec:
  template:
    spec:
      serviceAccountName: tester
      containers: [{name: main, envFrom: [{secretRef: {name: login}}]}]
      volumes: [{name: data, configMap: {name: cases}}]
`)
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		want   []string
	}{
		"as shown":             {c.door, []string{"ConfigMap/door-settings"}},
		"without a dependency": {c.doorWith(nil, "spec", "configMap"), []string{}},
		"a Pod template":       {runner, []string{"ConfigMap/cases", "Secret/login", "ServiceAccount/tester"}},
	} {
		if diff := cmp.Diff(tc.want, c.dependencies(tc.object)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCookbookRetention(t *testing.T) {
	t.Parallel()
	c := readCookbook(t)
	for name, tc := range map[string]struct{ desired, want *unstructured.Unstructured }{
		"the cluster has chosen":  {c.doorWith(nil, "spec", "port"), c.door},
		"the resource has chosen": {c.doorWith(int64(80), "spec", "port"), c.doorWith(int64(80), "spec", "port")},
	} {
		retained, enabled, err := c.Retain(tc.desired, c.door.DeepCopy())
		c.ran(enabled, err)
		if diff := cmp.Diff(tc.want.Object, retained.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The page says what each customization of Karmada does, and how karmadactl runs it.
func TestCookbookIsComplete(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(interpretersPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	rules := reflect.TypeFor[configv1alpha1.CustomizationRules]()
	for i := range rules.NumField() {
		name, _, _ := strings.Cut(rules.Field(i).Tag.Get("json"), ",")
		if !strings.Contains(page, "\n| [`"+name+"`](#") && !strings.Contains(page, "\n| `"+name+"` |") {
			t.Errorf("the table has no %s", name)
		}
	}
	_, tries, _ := strings.Cut(page, "\n## Try a script\n")
	for _, rule := range interpreter.AllResourceInterpreterCustomizationRules {
		operation := strings.ToLower(rule.Name()[:1]) + rule.Name()[1:]
		if found := strings.Contains(tries, "`"+operation+"`"); found != (operation != "interpretComponent") {
			t.Errorf("operation %s: %v", operation, found)
		}
	}
}
