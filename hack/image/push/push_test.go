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
	"archive/tar"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// The archive of `make image` arrives in a registry with all platforms, unchanged.
func TestPush(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "image.tar")
	built, err := exec.CommandContext(t.Context(), "go", "run", "..", "--root", "../../..", "--output", archive, "--version", "v9.8.7").Output()
	if err != nil {
		t.Fatalf("building the image: %v", err)
	}
	_, digest, _ := strings.Cut(strings.TrimSpace(string(built)), "@")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/karmada-direct/controller-manager"
	pushed, err := push(t.Context(), archive, repository+":v9.8.7")
	if err != nil {
		t.Fatal(err)
	}
	if pushed.String() != repository+"@"+digest {
		t.Errorf("%s was pushed, and %s was built", pushed, digest)
	}
	index, err := remote.Index(pushed.Tag("v9.8.7"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	platforms := []string{}
	for _, image := range manifest.Manifests {
		platforms = append(platforms, image.Platform.String())
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("the registry has the platforms %s", got)
	}
}

func TestWrongPushes(t *testing.T) {
	escaping := filepath.Join(t.TempDir(), "escaping.tar")
	file, err := os.Create(escaping)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	writer := tar.NewWriter(file)
	if err := writer.WriteHeader(&tar.Header{Name: "../outside", Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ archive, as, want string }{
		{"missing.tar", "registry.example.org/image:b", "unpacking missing.tar"},
		{escaping, "registry.example.org/image:b", "path escapes from parent"},
		{escaping, "controller-manager", "the name to push to"},
	} {
		if _, err := push(t.Context(), test.archive, test.as); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: error = %v", test, err)
		}
	}
}
