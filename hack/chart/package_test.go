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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestLint(t *testing.T) {
	image := map[string]any{"registry": "registry.example.org"}
	for _, settings := range []map[string]any{{"image": image}, {"image": image, "crds": map[string]any{"install": "job"}}} {
		linter := lint.All(chartFolder, settings, "karmada-system", true)
		for _, message := range linter.Messages {
			if message.Severity > support.InfoSev {
				t.Error(message)
			}
		}
	}
}

// annotation decodes an annotation for Artifact Hub: YAML inside YAML, which nothing else parses.
// A test in apis checks its examples.
func annotation[T any](t *testing.T, name string) []T {
	t.Helper()
	list := []T{}
	if err := yaml.UnmarshalStrict([]byte(loadChart(t).Metadata.Annotations["artifacthub.io/"+name]), &list); err != nil || len(list) == 0 {
		t.Fatalf("annotation %s: %v, %v", name, list, err)
	}
	return list
}

// crdFiles are the CustomResourceDefinitions that the controller installs, by kind.
func crdFiles(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob("../../apis/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the CRDs: %v, %v", files, err)
	}
	crds := map[string]*unstructured.Unstructured{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &crd.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		crds[kind] = crd
	}
	return crds
}

// Artifact Hub shows the kinds that the controller installs.
func TestArtifactHubKinds(t *testing.T) {
	installed := crdFiles(t)
	for _, shown := range annotation[struct{ Kind, Version, Name, DisplayName, Description string }](t, "crds") {
		crd := installed[shown.Kind]
		if crd == nil || crd.GetName() != shown.Name || shown.Version != "v1alpha1" || shown.DisplayName == "" || shown.Description == "" {
			t.Errorf("the controller installs no such kind: %+v", shown)
		}
		delete(installed, shown.Kind)
	}
	for kind := range installed {
		t.Errorf("the annotation does not name %s", kind)
	}
}

// What else Artifact Hub shows has the values that it knows, and links to pages that exist.
func TestArtifactHubPage(t *testing.T) {
	const pages = "https://github.com/karmada-direct/karmada-direct/blob/main/"
	for _, link := range annotation[struct{ Name, URL string }](t, "links") {
		page, found := strings.CutPrefix(link.URL, pages)
		if _, err := os.Stat(filepath.Join("../..", page)); !found || err != nil || link.Name == "" {
			t.Errorf("%+v is not a page of this repository: %v", link, err)
		}
	}
	kinds := []string{"added", "changed", "deprecated", "removed", "fixed", "security"}
	for _, change := range annotation[struct{ Kind, Description string }](t, "changes") {
		if !slices.Contains(kinds, change.Kind) || change.Description == "" {
			t.Errorf("%+v is not a change that Artifact Hub shows", change)
		}
	}
	license, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	annotations := loadChart(t).Metadata.Annotations
	if annotations["artifacthub.io/license"] != "Apache-2.0" || !strings.Contains(string(license), "Apache License\n                           Version 2.0") {
		t.Errorf("the license is %q", annotations["artifacthub.io/license"])
	}
	// The images of the chart are those of whoever installs it.
	if images, found := annotations["artifacthub.io/images"]; found {
		t.Errorf("nobody serves these images: %s", images)
	}
}
