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

// Package examples_test holds against the API what users copy: every example
// and every YAML block of the documentation.
package examples_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/karmada-direct/karmada-direct/apis"
	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// TestDocumentsAreAccepted creates, for show, every object that is documented.
// Unknown fields are refused, so a typing error is found too.
func TestDocumentsAreAccepted(t *testing.T) {
	server := start(t)
	found := 0
	for _, file := range documents(t) {
		for _, text := range yamlOf(t, file) {
			for _, object := range ours(t, file, text) {
				found++
				t.Run(file+"/"+object.GetKind()+"/"+object.GetName(), func(t *testing.T) {
					accept(t, server, object)
				})
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d objects, want 10 at least: is the search still right?", found)
	}
}

func start(t *testing.T) client.Client {
	t.Helper()
	crds, err := apis.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	environment := &envtest.Environment{CRDs: crds}
	config, err := environment.Start()
	if err != nil {
		t.Fatalf("starting an API server, run make test-integration: %v", err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, propagationv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	server, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// documents are the README and all that is under docs/ and not generated.
func documents(t *testing.T) []string {
	t.Helper()
	files := []string{"../../README.md"}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && entry.Name() == "reference" {
			return fs.SkipDir
		}
		if extension := filepath.Ext(path); extension == ".md" || extension == ".yaml" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var yamlBlock = regexp.MustCompile("(?ms)^ *```yaml\n(.*?\n) *```")

// yamlOf returns the YAML of a file: all of it, or its YAML blocks.
func yamlOf(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(file) == ".yaml" {
		return []string{string(content)}
	}
	texts := []string{}
	for _, block := range yamlBlock.FindAllStringSubmatch(string(content), -1) {
		texts = append(texts, block[1])
	}
	return texts
}

// ours are the whole objects of this project among the documents of a text.
func ours(t *testing.T, file, text string) []*unstructured.Unstructured {
	t.Helper()
	objects := []*unstructured.Unstructured{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, text)
		}
		if object.GroupVersionKind().Group == propagationv1alpha1.GroupName {
			objects = append(objects, object)
		}
	}
}

func accept(t *testing.T, server client.Client, object *unstructured.Unstructured) {
	t.Helper()
	if object.GetNamespace() != "" {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace()}}
		if err := server.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	err := server.Create(t.Context(), object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	if err != nil {
		t.Error(err)
	}
}
