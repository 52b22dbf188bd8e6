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

// Command push pushes the archive that hack/image writes to a registry, with all
// platforms. It logs in with the credentials that `docker login` or `podman login`
// has stored.
//
//	push --archive bin/image.tar registry.example.org/karmada-direct/controller-manager:v0.1.0
package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	archive := flag.String("archive", "image.tar", "path of the archive")
	flag.Parse()
	pushed, err := push(ctx, *archive, flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "push:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be stopped
	}
	fmt.Println(pushed)
}

// push pushes the only image of an archive under a name, and returns the name with
// the digest.
func push(ctx context.Context, archive, as string) (name.Digest, error) {
	tag, err := name.NewTag(as, name.StrictValidation)
	if err != nil {
		return name.Digest{}, fmt.Errorf("the name to push to: %w", err)
	}
	folder, err := os.MkdirTemp("", "push-")
	if err != nil {
		return name.Digest{}, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := unpack(archive, folder); err != nil {
		return name.Digest{}, fmt.Errorf("unpacking %s: %w", archive, err)
	}
	index, digest, err := onlyImage(folder)
	if err != nil {
		return name.Digest{}, fmt.Errorf("reading %s: %w", archive, err)
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return name.Digest{}, fmt.Errorf("pushing to %s: %w", tag, err)
	}
	return tag.Digest(digest.String()), nil
}

func onlyImage(folder string) (v1.ImageIndex, v1.Hash, error) {
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	list, err := outer.IndexManifest()
	if err != nil {
		return nil, v1.Hash{}, err
	}
	if len(list.Manifests) != 1 {
		return nil, v1.Hash{}, fmt.Errorf("it contains %d images, want 1", len(list.Manifests))
	}
	digest := list.Manifests[0].Digest
	index, err := outer.ImageIndex(digest)
	return index, digest, err
}

func unpack(archive, folder string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	root, err := os.OpenRoot(folder) // a name in the archive cannot lead out of it
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	reader := tar.NewReader(file)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackFile(root, header.Name, reader); err != nil {
			return err
		}
	}
}

func unpackFile(root *os.Root, path string, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := root.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}
