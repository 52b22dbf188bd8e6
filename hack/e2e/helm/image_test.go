//go:build e2e_helm

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

package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// image is an unpacked image with its runtime configuration.
type image struct {
	root       string
	Entrypoint []string `json:"Entrypoint"`
	User       string   `json:"User"`
}

var images = struct {
	sync.Mutex
	pulled map[string]*image
}{pulled: map[string]*image{}}

// pull builds the image that a Pod names, unless it is already built. The program's
// version is the image's tag.
func pull(t *testing.T, reference string) *image {
	t.Helper()
	images.Lock()
	defer images.Unlock()
	if there := images.pulled[reference]; there != nil {
		return there
	}
	tag, ours := strings.CutPrefix(reference, registry+"/karmada-direct/controller-manager:")
	if !ours {
		t.Fatalf("image %s does not belong to this repository", reference)
	}
	folder := bed.File("image-" + tag)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	archive := folder + ".tar"
	build := exec.CommandContext(t.Context(), "go", "run", ".",
		"--root", bed.Root, "--output", archive, "--version", tag, "--platforms", "linux/"+runtime.GOARCH)
	build.Dir = filepath.Join(bed.Root, "hack", "image")
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building image %s: %v\n%s", reference, err, printed)
	}
	unpacked, err := unpack(archive, folder)
	if err != nil {
		t.Fatalf("unpacking image %s: %v", reference, err)
	}
	images.pulled[reference] = unpacked
	return unpacked
}

type descriptor struct {
	MediaType string       `json:"mediaType"`
	Digest    string       `json:"digest"`
	Manifests []descriptor `json:"manifests"`
	Config    *descriptor  `json:"config"`
	Layers    []descriptor `json:"layers"`
}

// blob returns the name of the described blob in the archive.
func (d descriptor) blob() string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

// manifestIn follows an OCI layout from its index to the manifest of the only image.
func manifestIn(blobs map[string][]byte) (descriptor, error) {
	name := "index.json"
	for { // index of the archive, index of platforms, image
		manifest := descriptor{}
		if err := json.Unmarshal(blobs[name], &manifest); err != nil {
			return manifest, fmt.Errorf("%s: %w", name, err)
		}
		if manifest.Config != nil {
			return manifest, nil
		}
		if len(manifest.Manifests) != 1 {
			return manifest, fmt.Errorf("%s names %d manifests, want 1", name, len(manifest.Manifests))
		}
		name = manifest.Manifests[0].blob()
	}
}

// unpack unpacks the layers of the image in an OCI layout, as a container runtime
// does.
func unpack(archive, folder string) (*image, error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	blobs, err := untar(file)
	if err != nil {
		return nil, err
	}
	manifest, err := manifestIn(blobs)
	if err != nil {
		return nil, err
	}
	config := struct {
		Config image `json:"config"`
	}{}
	if err := json.Unmarshal(blobs[manifest.Config.blob()], &config); err != nil {
		return nil, err
	}
	config.Config.root = folder
	for _, layer := range manifest.Layers {
		content, err := gzip.NewReader(bytes.NewReader(blobs[layer.blob()]))
		if err != nil {
			return nil, err
		}
		files, err := untar(content)
		if err != nil {
			return nil, err
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o755); err != nil {
				return nil, err
			}
		}
	}
	return &config.Config, nil
}

func untar(archive io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			return nil, err
		}
	}
}
