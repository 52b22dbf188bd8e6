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

package chart

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	kustomizeFolder = "../../charts/kustomize"
	// localImage is the registry of the base. Images of localhost are those that somebody has
	// loaded: nobody else can serve them.
	localImage = "image.registry=localhost"
	named      = "fullnameOverride=direct-propagation"
)

var write = flag.Bool("write", false, "write what the chart renders to "+kustomizeFolder)

// TestKustomizeIsTheChart: the generated files of the base and its components are what the
// chart renders.
func TestKustomizeIsTheChart(t *testing.T) {
	base := render(t, named, localImage)
	monitored := render(t, named, localImage, "metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true")
	monitored.objects = slices.DeleteFunc(monitored.objects, func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group != "monitoring.coreos.com"
	})
	for file, r := range map[string]*rendered{"base/controller.yaml": base, "components/monitoring/monitoring.yaml": monitored} {
		content := []byte("# Generated from the chart: go -C hack/chart test -run TestKustomizeIsTheChart . -args -write\n")
		for i, object := range r.objects {
			withoutHelm(object.Object)
			if i > 0 {
				content = append(content, "---\n"...)
			}
			content = append(content, textOf(t, object.Object)...)
		}
		path := filepath.Join(kustomizeFolder, file)
		if *write {
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		committed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(committed), string(content)); diff != "" {
			t.Errorf("%s is not what the chart renders; run this test with -args -write (-committed +rendered):\n%s", path, diff)
		}
	}
}

// withoutHelm removes from an object what only Helm needs, and names the instance after the chart
// instead of a release.
func withoutHelm(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "helm.sh/chart")
		delete(value, "app.kubernetes.io/managed-by")
		if _, found := value["app.kubernetes.io/instance"]; found {
			value["app.kubernetes.io/instance"] = "direct-propagation"
		}
		for _, field := range value {
			withoutHelm(field)
		}
	case []any:
		for _, item := range value {
			withoutHelm(item)
		}
	}
}

// kustomized builds a kustomization that stands next to a copy of this repository, like
// `kubectl kustomize`.
func kustomized(t *testing.T, kustomization string) *rendered {
	t.Helper()
	folder := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(folder, "karmada-direct")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("%v\n%s", err, kustomization)
	}
	r := &rendered{t: t}
	for _, resource := range built.Resources() {
		object, err := resource.Map()
		if err != nil {
			t.Fatal(err)
		}
		r.objects = append(r.objects, &unstructured.Unstructured{Object: object})
	}
	return r
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?\n)```")

// TestDocumentedKustomizations builds what docs/tasks/kustomize.md shows. The result is what the
// chart renders with the same settings.
func TestDocumentedKustomizations(t *testing.T) {
	page, err := os.ReadFile("../../docs/tasks/kustomize.md")
	if err != nil {
		t.Fatal(err)
	}
	settings := [][]string{
		{"replicaCount=3", "metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true"},
		{"karmada.preset=custom", "karmada.kubeconfigSecret.name=karmada-prod-config"},
		{"crds.install=none", "rbac.install=none"},
	}
	blocks := yamlBlock.FindAllSubmatch(page, -1)
	if len(blocks) != len(settings) {
		t.Fatalf("the page has %d kustomizations, and the test knows %d", len(blocks), len(settings))
	}
	for i, block := range blocks {
		isTheChart(t, kustomized(t, string(block[1])), settings[i]...)
	}
}

// TestKustomizeComponents: the components for other installations of Karmada do what the presets
// of the chart do.
func TestKustomizeComponents(t *testing.T) {
	for component, preset := range map[string]string{"karmada-chart": "helm", "karmada-operator": "operator"} {
		isTheChart(t, kustomized(t, `
resources: [karmada-direct/charts/kustomize/base]
components: [karmada-direct/charts/kustomize/components/`+component+`]
images: [{name: localhost/karmada-direct/controller-manager, newName: registry.example.org/karmada-direct/controller-manager}]
`), "karmada.preset="+preset)
	}
}

// TestKustomizeMoves: everything is in the namespace that a kustomization sets. The namespace on
// the Karmada API server stays.
func TestKustomizeMoves(t *testing.T) {
	r := kustomized(t, `
namespace: moved
resources: [karmada-direct/charts/kustomize/base]
components: [karmada-direct/charts/kustomize/components/monitoring]
`)
	for _, object := range r.objects {
		if object.GetNamespace() != "moved" {
			t.Errorf("%s is in the namespace %q", object.GetKind(), object.GetNamespace())
		}
	}
	if arguments := r.pod().Containers[0].Args; !slices.Contains(arguments, "--leader-elect-resource-namespace=karmada-system") {
		t.Errorf("the arguments are %q", arguments)
	}
}

// isTheChart compares objects with those that the chart renders.
func isTheChart(t *testing.T, r *rendered, settings ...string) {
	t.Helper()
	r.isKnown()
	want, got := map[string]any{}, map[string]any{}
	for _, object := range render(t, append(settings, named)...).objects {
		withoutHelm(object.Object)
		want[object.GetKind()] = object.Object
	}
	for _, object := range r.objects {
		got[object.GetKind()] = object.Object
	}
	if diff := cmp.Diff(textOf(t, want), textOf(t, got)); diff != "" {
		t.Errorf("with %v (-chart +kustomize):\n%s", settings, diff)
	}
}

// textOf makes objects comparable whose numbers have different types.
func textOf(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
