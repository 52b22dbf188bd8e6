//go:build integration

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

package main

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// An API server drops fields that it does not know. With a Karmada whose Works lack a field
// that the controller relies on, it does not start.
func TestOldKarmadaIsRejected(t *testing.T) {
	_, kubeconfig, server := startServer(t)
	if _, err := call(t, "install-crds", "--kubeconfig", kubeconfig); err != nil {
		t.Fatal(err)
	}
	works := &apiextensionsv1.CustomResourceDefinition{}
	if err := server.Get(t.Context(), client.ObjectKey{Name: "works.work.karmada.io"}, works); err != nil {
		t.Fatal(err)
	}
	schema := wholeWork()
	delete(schema.Properties["spec"].Properties, "preserveResourcesOnDeletion")
	works.Spec.Versions[0].Schema.OpenAPIV3Schema = schema
	if err := server.Update(t.Context(), works); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := call(t, "--kubeconfig", kubeconfig, "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0")
		ended <- err
	}()
	const want = "has a version of Karmada that is too old: its Works have no field spec.preserveResourcesOnDeletion; upgrade Karmada to 1.16 or newer"
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it ended with: %v\nwant: %s", err, want)
		}
	case <-time.After(time.Minute):
		t.Error("it runs")
	}
}

func object(properties map[string]apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
}

// wholeWork has every field of a Work that the controller needs.
func wholeWork() *apiextensionsv1.JSONSchemaProps {
	flag, list := apiextensionsv1.JSONSchemaProps{Type: "boolean"}, apiextensionsv1.JSONSchemaProps{Type: "array"}
	list.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}}
	return object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec": *object(map[string]apiextensionsv1.JSONSchemaProps{
			"workload":           *object(map[string]apiextensionsv1.JSONSchemaProps{"manifests": list}),
			"suspendDispatching": flag, "preserveResourcesOnDeletion": flag,
		}),
		"status": *object(map[string]apiextensionsv1.JSONSchemaProps{"conditions": list, "manifestStatuses": list}),
	})
}

func TestMissingField(t *testing.T) {
	without := func(at, name string) *apiextensionsv1.JSONSchemaProps {
		schema := wholeWork()
		delete(schema.Properties[at].Properties, name)
		return schema
	}
	for name, tc := range map[string]struct {
		schema *apiextensionsv1.JSONSchemaProps
		want   string
	}{
		"all":                {wholeWork(), ""},
		"unknown is kept":    {&apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: ptr.To(true)}, ""},
		"before 1.11":        {without("spec", "suspendDispatching"), "spec.suspendDispatching"},
		"before 1.12":        {without("spec", "preserveResourcesOnDeletion"), "spec.preserveResourcesOnDeletion"},
		"without any status": {without("status", "conditions"), "status.conditions"},
	} {
		t.Run(name, func(t *testing.T) {
			works := anyKind("work.karmada.io/v1alpha1", "works", "Work", apiextensionsv1.NamespaceScoped)
			works.Spec.Versions[0].Schema.OpenAPIV3Schema = tc.schema
			if got := missingField(works); got != tc.want {
				t.Errorf("missingField() = %q, want %q", got, tc.want)
			}
		})
	}
}
