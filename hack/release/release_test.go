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
	"archive/zip"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// A release is built twice, in two folders, with the same bytes. The release for one
// platform shows it: the program for each platform is compiled by the same script.
func TestRelease(t *testing.T) {
	built, err := exec.CommandContext(t.Context(), "go", "-C", "../fleet", "run", ".", "build", "helm").Output()
	if err != nil {
		t.Fatalf("building helm: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(built)), "\n")
	helm := filepath.Join(lines[len(lines)-1], "helm")
	folder := filepath.Join(t.TempDir(), "release")
	if err := run(t.Context(), []string{"--root", "../..", "--output", folder, "--version", "v9.8.7", "--registry", "registry.example.org/somebody",
		"--platforms", "linux/" + runtime.GOARCH, "--helm", helm, "--check"}); err != nil {
		t.Fatal(err)
	}
	sum := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sumsFile)
	sum.Dir = folder
	if printed, err := sum.CombinedOutput(); err != nil {
		t.Errorf("checking the sums: %v\n%s", err, printed)
	}
	base := "controller-manager_v9.8.7_linux_" + runtime.GOARCH
	for _, name := range []string{base + ".tar.gz", "controller-manager_v9.8.7_image.tar", "direct-propagation-9.8.7.tgz", "install.yaml", "controller.yaml", "sbom.cdx.json"} {
		if !strings.Contains(read(t, folder, sumsFile), "  "+name+"\n") {
			t.Errorf("the release has no sum of %s:\n%s", name, read(t, folder, sumsFile))
		}
	}
	checkProgram(t, filepath.Join(folder, base+".tar.gz"))
	checkChart(t, helm, filepath.Join(folder, "direct-propagation-9.8.7.tgz"))
	checkImageIsNamed(t, folder)
	checkSBOM(t, filepath.Join(folder, "sbom.cdx.json"), base)
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func checkProgram(t *testing.T, archive string) {
	t.Helper()
	folder := t.TempDir()
	if printed, err := exec.CommandContext(t.Context(), "tar", "--extract", "--gzip", "--file", archive, "--directory", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	printed, err := exec.CommandContext(t.Context(), filepath.Join(folder, "controller-manager"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(printed), "controller-manager v9.8.7\n") {
		t.Errorf("`controller-manager version` printed %q, %v", printed, err)
	}
	if !strings.Contains(read(t, folder, "LICENSE"), "Apache License") || !strings.HasPrefix(read(t, folder, "README.md"), "# Karmada Direct\n") {
		t.Error("the archive lacks the license or the README")
	}
}

func checkChart(t *testing.T, helm, path string) {
	t.Helper()
	printed, err := exec.CommandContext(t.Context(), helm, "show", "chart", path).CombinedOutput()
	if err != nil || !strings.Contains(string(printed), "\nversion: 9.8.7\n") || !strings.Contains(string(printed), "appVersion: v9.8.7\n") {
		t.Errorf("helm show chart printed %s, %v", printed, err)
	}
}

// The manifests and the notes name the image that was built, by its digest, where it
// will be pushed.
func checkImageIsNamed(t *testing.T, folder string) {
	t.Helper()
	index := &struct{ Manifests []struct{ Digest string } }{}
	printed, err := exec.CommandContext(t.Context(), "tar", "--extract", "--to-stdout", "--file", filepath.Join(folder, "controller-manager_v9.8.7_image.tar"), "index.json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(printed, index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("the index of the image is %s, %v", printed, err)
	}
	digest := index.Manifests[0].Digest
	controller := read(t, folder, "controller.yaml")
	if want := "image: registry.example.org/somebody/controller-manager@" + digest; strings.Count(controller, "image: ") != strings.Count(controller, want) || !strings.Contains(controller, want) {
		t.Errorf("controller.yaml does not use only %s", want)
	}
	if install := read(t, folder, "install.yaml"); strings.Contains(install, "image: ") || !strings.Contains(install, "kind: CustomResourceDefinition") {
		t.Error("install.yaml runs something, or lacks the definitions")
	}
	if notes := read(t, folder, notesFile); !strings.Contains(notes, "`registry.example.org/somebody/controller-manager:v9.8.7@"+digest+"`") {
		t.Errorf("the notes do not name the image:\n%.500s", notes)
	}
}

func checkSBOM(t *testing.T, path, program string) {
	t.Helper()
	bom := &cyclonedx.BOM{}
	if err := cyclonedx.NewBOMDecoder(strings.NewReader(read(t, path)), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(bom.SerialNumber) || bom.SpecVersion != cyclonedx.SpecVersion1_6 {
		t.Errorf("it has the serial number %s and is in version %s", bom.SerialNumber, bom.SpecVersion)
	}
	versions := map[string]string{}
	for _, component := range *bom.Components {
		versions[component.Name] = component.Version
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "github.com/karmada-io/karmada", "k8s.io/client-go")
	list.Dir = "../.."
	printed, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(printed)) {
		if name, version, _ := strings.Cut(strings.TrimSpace(line), " "); versions[name] != version {
			t.Errorf("it lists %s %q, want %s", name, versions[name], version)
		}
	}
	if _, found := versions[program]; !found || versions["std"] != strings.TrimPrefix(runtime.Version(), "go") {
		t.Errorf("it lacks the program %s or Go's standard library: %v", program, versions)
	}
}

// A difference that a second build makes is found, and so is a missing file.
func TestCompare(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{filepath.Join(a, "same"): "1", filepath.Join(b, "same"): "1", filepath.Join(a, "other"): "1", filepath.Join(b, "other"): "2"} {
		if err := writeFile(path, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := compare(a, b); err == nil || err.Error() != "other is different in a second build" {
		t.Errorf("error = %v", err)
	}
	if err := os.Remove(filepath.Join(b, "other")); err != nil {
		t.Fatal(err)
	}
	if err := compare(a, b); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error = %v", err)
	}
}

// Windows gets a zip, which keeps the mode for the tools that know modes.
func TestZip(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "program")
	if err := writeFile(program, "MZ"); err != nil {
		t.Fatal(err)
	}
	o := order{}
	content := []file{{name: "controller-manager.exe", path: program, mode: 0o755}}
	for _, name := range []string{"a.zip", "b.zip"} {
		if err := writeZip(filepath.Join(folder, name), content, o.time); err != nil {
			t.Fatal(err)
		}
	}
	if one := read(t, folder, "a.zip"); one != read(t, folder, "b.zip") {
		t.Error("the same files give different archives")
	} else if opened, err := zip.NewReader(bytes.NewReader([]byte(one)), int64(len(one))); err != nil || opened.File[0].Name != "controller-manager.exe" || opened.File[0].Mode() != 0o755 {
		t.Errorf("the archive contains %+v, %v", opened, err)
	}
}
