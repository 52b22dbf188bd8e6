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
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"github.com/karmada-direct/karmada-direct/apis"
	"github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

func crds(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds, err := apis.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	if len(crds) == 0 {
		t.Fatal("no CRD is embedded")
	}
	return crds
}

func TestCRDsAreTheCallers(t *testing.T) {
	t.Parallel()
	crds(t)[0].Name = "changed"
	if name := crds(t)[0].Name; name == "changed" {
		t.Error("a caller's change shows in what the next caller gets")
	}
}

// TestSchemaConventions checks every field of every kind against the rules of this
// API that no generator enforces: what kubectl explain shows, and what limits the
// size of an object.
func TestSchemaConventions(t *testing.T) {
	t.Parallel()
	for _, crd := range crds(t) {
		for i := range crd.Spec.Versions {
			version := &crd.Spec.Versions[i]
			root := version.Schema.OpenAPIV3Schema
			if root.Description == "" {
				t.Errorf("%s has no description", crd.Spec.Names.Kind)
			}
			for name, property := range root.Properties {
				if !slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
					checkProperty(t, crd.Spec.Names.Kind+"."+name, name, &property)
				}
			}
			checkVersion(t, crd.Spec.Names.Kind, version)
		}
	}
}

func checkVersion(t *testing.T, kind string, version *apiextensionsv1.CustomResourceDefinitionVersion) {
	t.Helper()
	for _, column := range version.AdditionalPrinterColumns {
		if !strings.HasSuffix(column.Description, ".") {
			t.Errorf("%s: the description of column %s is not a sentence: %q", kind, column.Name, column.Description)
		}
	}
	status, found := version.Schema.OpenAPIV3Schema.Properties["status"]
	if !found && kind == "PropagationRevision" {
		// It never changes, so there is nothing to reconcile.
		return
	}
	if version.Subresources == nil || version.Subresources.Status == nil {
		t.Errorf("%s: status is not a subresource", kind)
	}
	// kstatus: a new object must never be mistaken for a reconciled one.
	if status.Default == nil || string(status.Default.Raw) != `{"observedGeneration":-1}` {
		t.Errorf("%s: the default of status is not {\"observedGeneration\":-1}", kind)
	}
}

// fieldName matches the field names that the API conventions allow.
var fieldName = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)

// foreign are the fields whose types belong to Karmada and Kubernetes, with their
// own descriptions and bounds.
var foreign = map[string]bool{"overriders": true, "clusterSelector": true}

func checkProperty(t *testing.T, path, name string, schema *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	if foreign[name] {
		return
	}
	if !fieldName.MatchString(name) {
		t.Errorf("%s is not a camelCase name", path)
	}
	// Types of Kubernetes keep their own descriptions.
	if !strings.HasPrefix(strings.ReplaceAll(schema.Description, ",", " "), name+" ") && !strings.Contains(path, ".conditions[]") {
		t.Errorf("%s: the description must begin with the field's name: %q", path, schema.Description)
	}
	checkSchema(t, path, schema)
}

func checkSchema(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	switch schema.Type {
	case "string":
		if schema.MaxLength == nil && len(schema.Enum) == 0 && schema.Format == "" {
			t.Errorf("%s: a string needs maxLength, enum or format", path)
		}
		if schema.Pattern != "" && !strings.Contains(path, ".conditions[]") {
			t.Errorf("%s: users would be shown the pattern %s; use a CEL rule with a message", path, schema.Pattern)
		}
	case "integer":
		if schema.Minimum == nil {
			t.Errorf("%s: an integer needs minimum", path)
		}
		if schema.Format == "int32" && schema.Maximum == nil {
			t.Errorf("%s: an int32 needs maximum: the API server accepts larger numbers, and no client can decode a list with one", path)
		}
	case "array":
		if schema.MaxItems == nil {
			t.Errorf("%s: a list needs maxItems", path)
		}
		if schema.XListType == nil {
			t.Errorf("%s: a list needs a list type, which says how server-side apply merges it", path)
		}
		checkSchema(t, path+"[]", schema.Items.Schema)
	case "object":
		if schema.AdditionalProperties != nil || schema.XPreserveUnknownFields != nil || len(schema.Properties) == 0 {
			t.Errorf("%s: an object needs named fields", path)
		}
		for name, property := range schema.Properties {
			checkProperty(t, path+"."+name, name, &property)
		}
	case "boolean":
	case "":
		if !schema.XIntOrString || len(schema.XValidations) == 0 {
			t.Errorf("%s: a field without a type must be a number or a text, with a rule", path)
		}
	default:
		t.Errorf("%s: no convention for type %q", path, schema.Type)
	}
	for _, rule := range schema.XValidations {
		// The server writes "<field>: Invalid value: <value>: <message>".
		if !strings.HasPrefix(rule.Message, "must ") || strings.HasSuffix(rule.Message, ".") {
			t.Errorf("%s: the message of rule %q must continue the server's text, with \"must\": %q", path, rule.Rule, rule.Message)
		}
	}
}

// TestBounds compares the constants by which the controller shortens a status, and
// refuses what is too large, with the limits of the server.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, crd := range crds(t) {
		for i := range crd.Spec.Versions {
			root := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
			if crd.Spec.Names.Kind == "PropagationRevision" {
				data := root.Properties["data"]
				checkBound(t, "data", data.MaxLength, base64.StdEncoding.EncodedLen(v1alpha1.MaxRevisionSize))
				continue
			}
			status := root.Properties["status"]
			rows, rollout := status.Properties["clusters"], status.Properties["rollout"]
			checkBound(t, "status.clusters", rows.MaxItems, v1alpha1.MaxClusterRows)
			checkBound(t, "status.clusters[].message", rows.Items.Schema.Properties["message"].MaxLength, v1alpha1.MaxMessageLength)
			checkBound(t, "status.rollout.failure.clusterNames", rollout.Properties["failure"].Properties["clusterNames"].MaxItems, v1alpha1.MaxFailedClusters)
			for name, command := range rollout.Properties["handled"].Properties {
				checkBound(t, "status.rollout.handled."+name, command.MaxLength, v1alpha1.MaxCommandLength)
			}
			// One more stage than users can define, for all other clusters.
			stages := root.Properties["spec"].Properties["rollout"].Properties["stages"].MaxItems
			checkBound(t, "status.rollout.stages", rollout.Properties["stages"].MaxItems, int(*stages)+1)
		}
	}
}

func checkBound(t *testing.T, field string, server *int64, controller int) {
	t.Helper()
	if server == nil || *server != int64(controller) {
		t.Errorf("%s: the server accepts %d, the controller assumes %d", field, ptr.Deref(server, -1), controller)
	}
}
