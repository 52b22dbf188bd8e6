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

package v1alpha1_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

var directPropagations = v1alpha1.SchemeGroupVersion.WithResource("directpropagations")

// Specs and statuses are YAML, as users write them: the Go types cannot represent
// much of what the server must reject.
const (
	web     = "{apiVersion: apps/v1, kind: Deployment, name: web}"
	members = "[{name: member1}, {name: member2}]"
)

// The text of the server around the message of a rule.
const (
	refused = `DirectPropagation.propagation.karmada-direct.io "web" is invalid: `
	// notAllChecked follows each error that prevents the server from evaluating
	// CEL rules.
	notAllChecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
)

// blocked is a refusal that reports that the server stopped checking.
func blocked(findings ...string) string {
	return refused + inOrder(append(findings, notAllChecked))
}

// inOrder joins findings as the server does, but in a fixed order: the server
// visits the fields of an object in the order of a Go map, which differs between
// requests.
func inOrder(findings []string) string {
	slices.Sort(findings)
	return "[" + strings.Join(slices.Compact(findings), ", ") + "]"
}

func spec(resource, clusters string, more ...string) string {
	return fmt.Sprintf("resource: %s\nclusters: %s\n%s", resource, clusters, strings.Join(more, "\n"))
}

// clusterList is a list of n clusters.
func clusterList(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("{name: member%d}", i)
	}
	return "[" + strings.Join(names, ",") + "]"
}

// answerCase is the answer of the server to one YAML document.
type answerCase struct {
	name string
	yaml string
	want string // the whole message; empty when the document is accepted
}

// clusterNames returns n names of clusters.
func clusterNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("member%d", i)
	}
	return strings.Join(names, ",")
}

// checkSpecs asks the server about each document, without storing any.
func checkSpecs(t *testing.T, cases []answerCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, "web", tc.yaml, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if diff := cmp.Diff(tc.want, message(err)); diff != "" {
				t.Errorf("answer of the API server (-want +got):\n%s", diff)
			}
		})
	}
}

// message is the answer of the server, with several findings in a fixed order.
func message(err error) string {
	if err == nil {
		return ""
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) < 2 {
		return err.Error()
	}
	findings := []string{}
	for _, cause := range status.Status().Details.Causes {
		findings = append(findings, cause.Field+": "+cause.Message)
	}
	before, _, _ := strings.Cut(err.Error(), "[")
	return before + inOrder(findings)
}

func decode(t *testing.T, document string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(document), &object); err != nil {
		t.Fatalf("the test's own YAML: %v\n%s", err, document)
	}
	return object
}

func client(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	clients, err := dynamic.NewForConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	return clients.Resource(directPropagations).Namespace("default")
}

// create creates a DirectPropagation as kubectl does, with strict validation of
// fields. The object is deleted when the test ends, so that the test can run again
// on the same server.
func create(t *testing.T, name, spec string, options metav1.CreateOptions) (*unstructured.Unstructured, error) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": decode(t, spec)}}
	object.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
	object.SetKind("DirectPropagation")
	object.SetName(name)
	options.FieldValidation = metav1.FieldValidationStrict
	created, err := client(t).Create(t.Context(), object, options)
	if err == nil && len(options.DryRun) == 0 {
		t.Cleanup(func() { cleanUp(t, name) })
	}
	return created, err
}

// cleanUp deletes a DirectPropagation after a test.
func cleanUp(t *testing.T, name string) {
	t.Helper()
	if err := client(t).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting DirectPropagation %s: %v", name, err)
	}
}
