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
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// The chart and the image of the same tree go together, with image.registry=localhost
// and no other value.
func TestImageIsNamedAsTheChartAsks(t *testing.T) {
	repository := value(t, "values.yaml", `(?m)^image:\n(?:  .*\n)*?  repository: (.*)$`)
	version := value(t, "Chart.yaml", `(?m)^appVersion: (.*)$`)
	if repositoryName != "localhost/"+repository {
		t.Errorf("the image is named %s, and the chart asks for localhost/%s", repositoryName, repository)
	}
	for want, arguments := range map[string][]string{
		repositoryName + ":" + version: nil,
		repositoryName + ":v9.8.7":     {"VERSION=v9.8.7"},
		"registry.example.org/a:b":     {"VERSION=v9.8.7", "IMAGE=registry.example.org/a:b"},
	} {
		command := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "image"}, arguments...)...)
		command.Dir = "../.."
		// Without what a make that runs this test passes on.
		command.Env = slices.DeleteFunc(command.Environ(), func(variable string) bool {
			name, _, _ := strings.Cut(variable, "=")
			return slices.Contains([]string{"MAKEFLAGS", "VERSION", "IMAGE"}, name)
		})
		printed, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(printed), " --name "+want+" ") {
			t.Errorf("make image %v runs %s, %v; want the name %s", arguments, printed, err, want)
		}
	}
}

func value(t *testing.T, file, pattern string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../charts/direct-propagation", file))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(content)
	if found == nil {
		t.Fatalf("%s does not match %s", file, pattern)
	}
	return string(found[1])
}

// Docker's own image store reads only the format of `docker save`, which an archive
// for one platform therefore has too.
func TestOnePlatformIsADockerArchive(t *testing.T) {
	here := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	o := order{
		root: "../..", output: filepath.Join(t.TempDir(), "image.tar"), version: "v9.8.7", progress: t.Output(),
		name:      repositoryName + ":v9.8.7",
		platforms: []v1.Platform{here},
	}
	digest, err := build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(o.name)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(o.output, &tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	checkConfig(t, image, here)
	archived, err := open(t, o.output, digest).IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	of, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	other, err := open(t, o.output, digest).Image(archived.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := other.ConfigName(); err != nil || same != of {
		t.Errorf("the two formats contain the images %s and %s, %v", of, same, err)
	}
}

func TestNamesThatNoRuntimeAccepts(t *testing.T) {
	for _, wrong := range []string{"", "controller-manager", "localhost/a:v1.0.0+dirty", "localhost/A:v1"} {
		_, err := build(t.Context(), order{root: "../..", output: filepath.Join(t.TempDir(), "image.tar"), name: wrong, progress: t.Output()})
		if err == nil || !strings.HasPrefix(err.Error(), "--name: ") {
			t.Errorf("%q: error = %v, want one about --name", wrong, err)
		}
	}
}
