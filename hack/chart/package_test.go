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

// The annotations for Artifact Hub contain YAML inside YAML, which nothing else
// parses.
func TestArtifactHubAnnotations(t *testing.T) {
	loaded := loadChart(t)
	for _, name := range []string{"crds", "crdsExamples", "links", "changes"} {
		var list []map[string]any
		if err := yaml.UnmarshalStrict([]byte(loaded.Metadata.Annotations["artifacthub.io/"+name]), &list); err != nil || len(list) == 0 {
			t.Errorf("annotation %s: %v, %v", name, list, err)
		}
	}
	files, err := filepath.Glob("../../apis/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the CRDs: %v, %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &crd.Object); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(loaded.Metadata.Annotations["artifacthub.io/crds"], "name: "+crd.GetName()+"\n") {
			t.Errorf("the annotation does not name %s", crd.GetName())
		}
	}
}
