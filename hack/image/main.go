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

// Command image builds the image of the controller-manager as an OCI archive,
// without a container daemon. It reads from the last stage of the Dockerfile what
// the image contains and how it runs, and compiles the program with the script that
// the Dockerfile calls. Both ways therefore build the same image.
//
//	image --output bin/image.tar --version v0.1.0 --platforms linux/amd64,linux/arm64
//
// The name in the archive is the one that the chart asks for with
// image.registry=localhost. push/ pushes the archive to a registry.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// repositoryName is the name under which runtimes load the image, unless another one
// is given. Nobody can register a name below localhost.
const repositoryName = "localhost/karmada-direct/controller-manager"

// order describes what to build.
type order struct {
	root      string // folder of the repository
	output    string
	version   string
	name      string // name and tag under which runtimes load the image
	platforms []v1.Platform
	progress  io.Writer
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := order{progress: os.Stderr}
	platforms := ""
	flag.StringVar(&o.root, "root", "../..", "folder of the repository")
	flag.StringVar(&o.output, "output", "image.tar", "path of the archive")
	flag.StringVar(&o.version, "version", "dev", "version that the program reports")
	flag.StringVar(&o.name, "name", "", "name and tag of the image (default "+repositoryName+":<version>)")
	flag.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "platforms to build for")
	flag.Parse()
	for platform := range strings.SplitSeq(platforms, ",") {
		parsed, err := v1.ParsePlatform(platform)
		if err != nil {
			return fmt.Errorf("--platforms: %w", err)
		}
		o.platforms = append(o.platforms, *parsed)
	}
	if o.name == "" {
		o.name = repositoryName + ":" + o.version
	}
	digest, err := build(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", o.name, digest)
	return nil
}

// build builds the archive and returns the digest of the image.
func build(ctx context.Context, o order) (v1.Hash, error) {
	if err := checkName(o.name); err != nil {
		return v1.Hash{}, fmt.Errorf("--name: %w", err)
	}
	file, err := os.Open(filepath.Join(o.root, "Dockerfile"))
	if err != nil {
		return v1.Hash{}, err
	}
	defer file.Close()
	recipe, err := readRecipe(file)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("reading the Dockerfile: %w", err)
	}
	scratch, err := os.MkdirTemp("", "image-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	images := []v1.Image{}
	for _, platform := range o.platforms {
		fmt.Fprintf(o.progress, "image: compiling for %s\n", platform)
		program := filepath.Join(scratch, platform.Architecture, "program")
		if err := compile(ctx, o, platform, program); err != nil {
			return v1.Hash{}, err
		}
		image, err := assemble(recipe, platform, program)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("assembling the image for %s: %w", platform, err)
		}
		images = append(images, image)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	if err := writeArchive(o, index, images, scratch); err != nil {
		return v1.Hash{}, fmt.Errorf("writing %s: %w", o.output, err)
	}
	return index.Digest()
}

// checkName rejects names that a runtime rejects, or understands as another name.
func checkName(name string) error {
	parsed, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	if _, tagged := parsed.(reference.NamedTagged); !tagged || parsed.String() != name {
		return fmt.Errorf("%q: want registry/repository:tag", name)
	}
	return nil
}

// compile runs the script that the Dockerfile runs.
func compile(ctx context.Context, o order, platform v1.Platform, program string) error {
	command := exec.CommandContext(ctx, filepath.Join(o.root, "hack", "image", "compile.sh"), program)
	command.Env = append(os.Environ(), "GOOS="+platform.OS, "GOARCH="+platform.Architecture, "VERSION="+o.version)
	command.Stdout, command.Stderr = o.progress, o.progress
	if err := command.Run(); err != nil {
		return fmt.Errorf("compiling for %s: %w", platform, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// assemble creates the image for one platform. Its times are constant, so that the
// same sources give the same image.
func assemble(recipe *recipe, platform v1.Platform, program string) (v1.Image, error) {
	layer, err := fileLayer(program, recipe.destination)
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{CreatedBy: recipe.copied, Created: v1.Time{Time: time.Unix(0, 0).UTC()}},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	config.Config = v1.Config{User: recipe.user, Entrypoint: recipe.entrypoint, Labels: recipe.labels}
	return mutate.ConfigFile(image, config)
}
