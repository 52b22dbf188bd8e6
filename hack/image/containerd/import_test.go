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

// Package containerd imports the archive of hack/image with the code of containerd,
// without its daemon.
package containerd

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/platforms"
	"go.etcd.io/bbolt"
)

const name = "localhost/karmada-direct/controller-manager:v9.8.7"

// After the import, the kubelet finds the image under the name that the chart asks
// for, with the platforms that were built.
func TestImport(t *testing.T) {
	for _, want := range [][]string{{"linux/amd64", "linux/arm64"}, {"linux/amd64"}} {
		built := strings.Join(want, ",")
		t.Run(built, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), "image.tar")
			build := exec.CommandContext(t.Context(), "go", "-C", "..", "run", ".", "--root", "../..",
				"--output", archive, "--version", "v9.8.7", "--platforms", built)
			printed, err := build.Output()
			if err != nil {
				t.Fatalf("building the image: %v", err)
			}
			file, err := os.Open(archive)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			checkImport(t, file, strings.TrimSpace(string(printed)), want)
		})
	}
}

func checkImport(t *testing.T, archive io.Reader, built string, want []string) {
	t.Helper()
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	containerd := start(t)
	imported, err := containerd.Import(ctx, archive, client.WithAllPlatforms(true))
	if err != nil {
		t.Fatal(err)
	}
	if len(imported) != 1 || imported[0].Name != name || imported[0].Name+"@"+imported[0].Target.Digest.String() != built {
		t.Fatalf("it imported %+v, want only %s", imported, built)
	}
	found, err := images.Platforms(ctx, containerd.ContentStore(), imported[0].Target)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, platform := range found {
		got = append(got, platforms.Format(platform))
	}
	if !slices.Equal(got, want) {
		t.Errorf("it imported the platforms %v, want %v", got, want)
	}
}

// start starts as much of containerd as an import needs.
func start(t *testing.T) *client.Client {
	t.Helper()
	folder := t.TempDir()
	store, err := local.NewStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	file, err := bbolt.Open(filepath.Join(folder, "meta.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	database := metadata.NewDB(file, store, nil)
	if err := database.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	started, err := client.New("", client.WithServices(
		client.WithContentStore(database.ContentStore()),
		client.WithImageStore(metadata.NewImageStore(database)),
		client.WithLeasesService(metadata.NewLeaseManager(database)),
	))
	if err != nil {
		t.Fatal(err)
	}
	return started
}
