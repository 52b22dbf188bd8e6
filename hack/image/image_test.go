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
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// The test reads the archive back as a container runtime would, and runs the program
// with nothing else in its root folder.
func TestImage(t *testing.T) {
	o := order{
		root: "../..", output: filepath.Join(t.TempDir(), "image.tar"), version: "v9.8.7", progress: t.Output(),
		name:      repositoryName + ":v9.8.7",
		platforms: []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}},
	}
	digest, err := build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	again := o
	again.output = filepath.Join(t.TempDir(), "again.tar")
	if second, err := build(t.Context(), again); err != nil || second != digest || sum(t, again.output) != sum(t, o.output) {
		t.Errorf("a second build gives another image: %v and %v, %v", digest, second, err)
	}
	index := open(t, o.output, digest)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 2 {
		t.Fatalf("the index has %d images, want 2", len(manifest.Manifests))
	}
	for i, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
		descriptor := manifest.Manifests[i]
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if !descriptor.Platform.Equals(o.platforms[i]) {
			t.Errorf("image %d is for %s", i, descriptor.Platform)
		}
		checkConfig(t, image, o.platforms[i])
		program := checkContent(t, image, machine)
		if o.platforms[i].Architecture == runtime.GOARCH {
			checkProgram(t, program)
		}
	}
}

func sum(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}

// open unpacks an archive and returns the image in it. It verifies every digest.
func open(t *testing.T, archive string, digest v1.Hash) v1.ImageIndex {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	folder := t.TempDir()
	for name, content := range untar(t, file) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content.bytes, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	list, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Manifests) != 1 || list.Manifests[0].Digest != digest {
		t.Fatalf("the archive contains %+v", list.Manifests)
	}
	names := list.Manifests[0].Annotations
	if names["org.opencontainers.image.ref.name"] != "v9.8.7" || names["io.containerd.image.name"] != repositoryName+":v9.8.7" {
		t.Errorf("the archive names the image %v", names)
	}
	index, err := outer.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	return index
}

func checkConfig(t *testing.T, image v1.Image, platform v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != platform.OS || config.Architecture != platform.Architecture {
		t.Errorf("the image is for %s/%s", config.OS, config.Architecture)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("it runs as user %q", config.Config.User)
	}
	if !slices.Equal(config.Config.Entrypoint, []string{"/controller-manager"}) || len(config.Config.Cmd) > 0 || len(config.Config.Env) > 0 {
		t.Errorf("it runs %q %q with %q", config.Config.Entrypoint, config.Config.Cmd, config.Config.Env)
	}
	if config.Config.Labels["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("its labels are %v", config.Config.Labels)
	}
}

// checkContent checks that the image contains only the program, that only root may
// change it, and that it needs no libraries.
func checkContent(t *testing.T, image v1.Image, machine elf.Machine) []byte {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) != 1 {
		t.Fatalf("the image has %d layers, want 1", len(layers))
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	files := untar(t, content)
	program, found := files["controller-manager"]
	if !found || len(files) != 1 {
		t.Fatalf("the image contains %v", slices.Sorted(maps.Keys(files)))
	}
	if program.header.Mode != 0o755 || program.header.Uid != 0 || program.header.Gid != 0 {
		t.Errorf("the program has mode %o and belongs to %d:%d", program.header.Mode, program.header.Uid, program.header.Gid)
	}
	binary, err := elf.NewFile(bytes.NewReader(program.bytes))
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := binary.ImportedLibraries()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		t.Fatal(err)
	}
	interpreter := slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if binary.Machine != machine || len(libraries) > 0 || interpreter {
		t.Errorf("the program is for %s, needs %v, has an interpreter: %v", binary.Machine, libraries, interpreter)
	}
	return program.bytes
}

// checkProgram runs the program as the image does: as the image's user, with nothing
// else in the root folder.
func checkProgram(t *testing.T, program []byte) {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil { // the user must have access
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "controller-manager"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "/controller-manager", "version")
	command.Path, command.Dir, command.Env = "/controller-manager", "/", []string{}
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	if os.Getuid() != 0 { // in a user namespace, the user who runs the test is root
		command.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getgid(), Size: 1}},
		}
	}
	printed, err := command.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(printed), "controller-manager v9.8.7\nkarmada v1.") {
		t.Errorf("`controller-manager version` printed %q, %v", printed, err)
	}
}

type entry struct {
	header *tar.Header
	bytes  []byte
}

func untar(t *testing.T, archive io.Reader) map[string]entry {
	t.Helper()
	files := map[string]entry{}
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = entry{header: header, bytes: content}
	}
}

// If somebody moves a tag, the image must still be built from the same bases.
func TestDockerfilePinsItsBases(t *testing.T) {
	file, err := os.Open("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := readRecipe(file); err != nil {
		t.Error(err)
	}
}

// The program rejects every Dockerfile instruction that it does not support.
func TestRecipeRejectsUnsupportedInstructions(t *testing.T) {
	const base = "golang:1.26@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const good = "FROM " + base + " AS build\nFROM scratch\nCOPY --from=build /out/controller-manager /p\nUSER 1:1\nENTRYPOINT [\"/p\"]\n"
	if recipe, err := readRecipe(strings.NewReader(good)); err != nil || recipe.destination != "/p" || recipe.user != "1:1" {
		t.Fatalf("%+v, %v", recipe, err)
	}
	for _, test := range []struct{ old, replaced, want string }{
		{"FROM scratch", "FROM " + base, "the last stage is from golang"},
		{base, "golang:1.26", "stage 0 is from golang:1.26, want an image by its digest"},
		{"FROM scratch", "FROM debian:13", "stage 1 is from debian:13, want an image by its digest"},
		{"USER 1:1\n", "", "lacks one of COPY, USER, ENTRYPOINT"},
		{"USER 1:1", "RUN true\nUSER 1:1", "this instruction is not supported"},
		{`ENTRYPOINT ["/p"]`, "ENTRYPOINT /p", "there is no shell"},
		{"COPY --from=build", "COPY --chown=1 --from=build", "and nothing more"},
	} {
		_, err := readRecipe(strings.NewReader(strings.Replace(good, test.old, test.replaced, 1)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want one that contains %q", test.replaced, err, test.want)
		}
	}
}
