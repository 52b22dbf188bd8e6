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
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// fileLayer returns a layer with a single file that everybody may read and execute,
// and that only root may change.
func fileLayer(source, destination string) (v1.Layer, error) {
	content, err := os.ReadFile(source)
	if err != nil {
		return nil, err
	}
	archive := &bytes.Buffer{}
	writer := tar.NewWriter(archive)
	header := &tar.Header{Name: strings.TrimPrefix(destination, "/"), Mode: 0o755, Size: int64(len(content)), Format: tar.FormatPAX}
	if err := writer.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
}

// writeArchive writes an image as a tar file of an OCI layout. The annotations are
// those that BuildKit writes. containerd, and with it `ctr images import`, kind and
// Docker's containerd image store, names the image by the second one.
func writeArchive(o order, index v1.ImageIndex, images []v1.Image, scratch string) error {
	folder := filepath.Join(scratch, "layout")
	written, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	names := layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": o.name[strings.LastIndex(o.name, ":")+1:],
		"io.containerd.image.name":          o.name,
	})
	if err := written.AppendIndex(index, names); err != nil {
		return err
	}
	if len(images) == 1 {
		if err := writeDockerManifest(filepath.Join(folder, "manifest.json"), o.name, images[0]); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(filepath.Dir(o.output), ".image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // has no effect after the rename
	if err := tarFolder(file, folder); err != nil {
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), o.output)
}

// writeDockerManifest describes the image in the format of `docker save`, with the
// same blobs. Docker's own image store reads only this format. It can hold a single
// platform, so only archives for one platform have this file.
func writeDockerManifest(path, tag string, image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	described := tarball.Descriptor{Config: blob(manifest.Config.Digest), RepoTags: []string{tag}}
	for _, layer := range manifest.Layers {
		described.Layers = append(described.Layers, blob(layer.Digest))
	}
	content, err := json.Marshal(tarball.Manifest{described})
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644) //nolint:gosec // everybody may read it
}

// blob returns the path of a blob in an OCI layout.
func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// tarFolder archives the files of a folder, sorted by name, without times and
// owners.
func tarFolder(out io.Writer, folder string) error {
	writer := tar.NewWriter(out)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := writer.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = writer.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return writer.Close()
}
