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
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// The manifests in testdata/invalid are what users write by mistake. The comment above
// each has a name and, on the following lines, what the API server must answer: every
// field that is wrong, with the reason.

// invalidManifest is a manifest that the API server must reject.
type invalidManifest struct {
	name     string
	findings []string
	object   *unstructured.Unstructured
}

// invalidManifests reads a file of testdata/invalid.
func invalidManifests(t *testing.T, file string) []invalidManifest {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	manifests := []invalidManifest{}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		manifest := invalidManifest{object: &unstructured.Unstructured{Object: decode(t, document)}}
		for line := range strings.Lines(document) {
			comment, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "# ")
			switch {
			case !found:
			case manifest.name == "":
				manifest.name = comment
			default:
				manifest.findings = append(manifest.findings, comment)
			}
		}
		manifests = append(manifests, manifest)
	}
	return manifests
}

// findingsOf are what the API server has found, each with the path of its field.
func findingsOf(err error) []string {
	if err == nil {
		return []string{"accepted"}
	}
	found := []string{}
	status := apierrors.APIStatus(nil)
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			// Findings without a field only repeat others.
			if cause.Field != "<nil>" {
				found = append(found, cause.Field+": "+cause.Message)
			}
		}
	}
	if len(found) == 0 {
		_, said, _ := strings.Cut(err.Error(), ": ")
		found = strings.Split(strings.TrimPrefix(said, "strict decoding error: "), ", ")
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// namesField matches a finding that begins with the path of a field.
var namesField = regexp.MustCompile(`^(unknown field "|spec[.:]|metadata\.)`)

// checkFindings checks that the answer is the expected one and names each field.
func checkFindings(t *testing.T, manifest invalidManifest, err error) {
	t.Helper()
	found := findingsOf(err)
	if diff := cmp.Diff(manifest.findings, found); diff != "" {
		t.Errorf("answer of the API server (-want +got):\n%s", diff)
	}
	for _, finding := range found {
		if !namesField.MatchString(finding) {
			t.Errorf("the answer names no field: %s", finding)
		}
	}
}

// clientOf is a client for the kind and namespace of an object.
func clientOf(t *testing.T, object *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	clients, err := dynamic.NewForConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	resource := clients.Resource(v1alpha1.SchemeGroupVersion.WithResource(strings.ToLower(object.GetKind()) + "s"))
	if object.GetNamespace() == "" {
		return resource
	}
	return resource.Namespace(object.GetNamespace())
}

var strict = metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}

// namespaceFor creates a namespace for the duration of a test.
func namespaceFor(t *testing.T, name string) {
	t.Helper()
	clients, err := dynamic.NewForConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	made := &unstructured.Unstructured{Object: namespace}
	made.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	namespaces := clients.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	// Nobody finishes deletions of namespaces in this test, so it stays.
	if _, err := namespaces.Create(t.Context(), made, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// TestInvalidManifests sends every invalid manifest to the API server. It must be
// rejected with a message that names each wrong field, and nothing may be stored.
func TestInvalidManifests(t *testing.T) {
	t.Parallel()
	namespaceFor(t, "shop")
	files, err := filepath.Glob("testdata/invalid/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		for _, manifest := range invalidManifests(t, file) {
			count++
			if filepath.Base(file) == "updates.yaml" {
				continue
			}
			t.Run(filepath.Base(file)+"/"+manifest.name, func(t *testing.T) {
				objects := clientOf(t, manifest.object)
				_, err := objects.Create(t.Context(), manifest.object, strict)
				checkFindings(t, manifest, err)
				if left, err := objects.List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
					t.Errorf("%d objects are stored, %v", len(left.Items), err)
					_ = objects.Delete(context.Background(), manifest.object.GetName(), metav1.DeleteOptions{})
				}
			})
		}
	}
	if count < 100 {
		t.Errorf("%d manifests were tried, want at least 100", count)
	}
}

// TestInvalidUpdates sends invalid updates of a valid object. They must be rejected
// with a message that names each wrong field, and the object must stay as it is.
func TestInvalidUpdates(t *testing.T) {
	t.Parallel()
	namespaceFor(t, "stall")
	valid := &unstructured.Unstructured{Object: map[string]any{"spec": decode(t, spec(web, members))}}
	valid.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
	valid.SetKind("DirectPropagation")
	valid.SetNamespace("stall")
	valid.SetName("web")
	objects := clientOf(t, valid)
	live, err := objects.Create(t.Context(), valid, strict)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := objects.Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	for _, manifest := range invalidManifests(t, "testdata/invalid/updates.yaml") {
		t.Run(manifest.name, func(t *testing.T) {
			manifest.object.SetResourceVersion(live.GetResourceVersion())
			_, err := objects.Update(t.Context(), manifest.object, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
			checkFindings(t, manifest, err)
			stored, err := objects.Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(live.Object, stored.Object); diff != "" {
				t.Errorf("stored (-before +after):\n%s", diff)
			}
		})
	}
}
