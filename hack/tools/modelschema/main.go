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

// Modelschema prints the OpenAPI definitions of the kinds of the given CRDs, named
// after their Go types, for applyconfiguration-gen. Without these definitions, the
// fake of the generated clientset does not support apply, and nothing can be
// extracted from the managed fields of a live object.
//
//	modelschema <go package of the types> <crd.yaml>...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "modelschema:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("want the Go package of the types and at least one CRD")
	}
	goPackage, files := args[0], args[1:]
	definitions := objectMeta()
	for _, file := range files {
		crd, err := read(file)
		if err != nil {
			return err
		}
		if err := define(definitions, goPackage, crd); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return json.NewEncoder(out).Encode(&spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "karmada-direct", Version: "unversioned"}},
		Definitions: definitions,
	}})
}

func read(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", file, err)
	}
	return crd, nil
}

// objectMeta returns the definition of ObjectMeta with everything that it refers to.
// A CRD says only that its metadata is an object.
func objectMeta() spec.Definitions {
	reference := func(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) }
	all := openapi.GetOpenAPIDefinitions(reference)
	wanted, definitions := []string{metav1.ObjectMeta{}.OpenAPIModelName()}, spec.Definitions{}
	for len(wanted) > 0 {
		name := wanted[0]
		wanted = wanted[1:]
		if _, done := definitions[name]; !done {
			definitions[name] = all[name].Schema
			wanted = append(wanted, all[name].Dependencies...)
		}
	}
	return definitions
}

// define adds the definition of the version of a kind that the Go package contains.
func define(definitions spec.Definitions, goPackage string, crd *apiextensionsv1.CustomResourceDefinition) error {
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if !strings.HasSuffix(goPackage, "/"+version.Name) {
			continue
		}
		data, err := json.Marshal(version.Schema.OpenAPIV3Schema)
		if err != nil {
			return err
		}
		schema := spec.Schema{}
		if err := json.Unmarshal(data, &schema); err != nil {
			return err
		}
		dropAnyOf(&schema)
		schema.Properties["metadata"] = *spec.RefSchema("#/definitions/" + metav1.ObjectMeta{}.OpenAPIModelName())
		schema.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
			"group": crd.Spec.Group, "version": version.Name, "kind": crd.Spec.Names.Kind,
		}})
		definitions[util.ToRESTFriendlyName(goPackage+"."+crd.Spec.Names.Kind)] = schema
	}
	return nil
}

// dropAnyOf removes the types of fields that are a number or a text. OpenAPI 2 has no
// anyOf, and the extension x-kubernetes-int-or-string says the same.
func dropAnyOf(schema *spec.Schema) {
	schema.AnyOf = nil
	for name := range schema.Properties {
		property := schema.Properties[name]
		dropAnyOf(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		dropAnyOf(schema.Items.Schema)
	}
}
