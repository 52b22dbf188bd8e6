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

package apis_test

import (
	"os"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestArtifactHubExamples: the examples in the chart, which Artifact Hub shows, follow the schemas
// of the kinds and have no unknown fields.
func TestArtifactHubExamples(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../charts/direct-propagation/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	chart, examples := struct {
		Annotations map[string]string `json:"annotations"`
	}{}, []map[string]any{}
	if err := yaml.Unmarshal(content, &chart); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/crdsExamples"]), &examples); err != nil || len(examples) < 2 {
		t.Fatalf("the examples are %v: %v", examples, err)
	}
	for _, example := range examples {
		checkExample(t, &unstructured.Unstructured{Object: example})
	}
}

// checkExample checks an object against the definition of its kind.
func checkExample(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	for _, crd := range crds(t) {
		version := &crd.Spec.Versions[0]
		if crd.Spec.Names.Kind != object.GetKind() || crd.Spec.Group+"/"+version.Name != object.GetAPIVersion() {
			continue
		}
		schema := &apiextensions.CustomResourceValidation{}
		if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, schema, nil); err != nil {
			t.Fatal(err)
		}
		validator, _, err := validation.NewSchemaValidator(schema.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		if problems := validation.ValidateCustomResource(nil, object.Object, validator); len(problems) > 0 {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), problems.ToAggregate())
		}
		structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		if unknown := pruning.PruneWithOptions(object.Object, structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}); len(unknown) > 0 {
			t.Errorf("%s %s has unknown fields: %v", object.GetKind(), object.GetName(), unknown)
		}
		if hasNamespace := object.GetNamespace() != ""; hasNamespace != (crd.Spec.Scope == apiextensionsv1.NamespaceScoped) {
			t.Errorf("%s %s has the namespace %q", object.GetKind(), object.GetName(), object.GetNamespace())
		}
		return
	}
	t.Errorf("there is no kind %s", object.GroupVersionKind())
}
