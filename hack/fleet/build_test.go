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
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBuildOutputKeepsTheErrors(t *testing.T) {
	p := &progress{out: io.Discard}
	output := &buildOutput{progress: p}
	for _, part := range []string{
		"go: downloading example.com/a v1.0.0\ninternal/abi\nexample",
		".com/a/b\n# example.com/c\n./c.go:1:2: syntax",
		" error\n",
	} {
		if n, err := output.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if output.downloads != 1 || output.compiled != 2 {
		t.Errorf("%d downloads and %d packages, want 1 and 2", output.downloads, output.compiled)
	}
	if want := "# example.com/c\n./c.go:1:2: syntax error\n"; output.rest() != want {
		t.Errorf("rest = %q, want %q", output.rest(), want)
	}
}

func TestHashCoversEveryInput(t *testing.T) {
	sources := filepath.Join(t.TempDir(), "hack", "fleet")
	write := func(path, content string) {
		if err := writeFile(filepath.Join(sources, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hash := func(r recipe) string {
		h, err := r.hash(sources)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	write("components/go.mod", "module a")
	write("components/sub/main.go", "package main")
	write("../chart/go.mod", "module b")
	write("../chart/chart_test.go", "package chart_test")
	first, helm := hash(componentsRecipe), hash(helmRecipe)
	if hash(componentsRecipe) != first {
		t.Error("the hash changes without a reason")
	}
	write("components/sub/main.go", "package main // changed")
	second := hash(componentsRecipe)
	if second == first {
		t.Error("the hash does not change with a file")
	}
	if err := os.Remove(filepath.Join(sources, "components/sub/main.go")); err != nil {
		t.Fatal(err)
	}
	if hash(componentsRecipe) == second {
		t.Error("the hash does not change when a file is deleted")
	}
	write("../chart/chart_test.go", "package chart_test // changed")
	if hash(helmRecipe) != helm {
		t.Error("the hash of a program from another module depends on files that are not built")
	}
	write("../chart/go.mod", "module b // changed")
	if hash(helmRecipe) == helm {
		t.Error("the hash does not change with a version")
	}
}

func TestCombineLinksEveryBuild(t *testing.T) {
	root := t.TempDir()
	made := []Build{newBuild(filepath.Join(root, "a")), newBuild(filepath.Join(root, "b"))}
	for _, path := range []string{made[0].Bin + "/one", made[0].Manifests + "/folder/one.yaml", made[1].Bin + "/two"} {
		if err := writeFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := combine(t.Context(), root, made)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{all.Bin + "/one", all.Bin + "/two", all.Manifests + "/folder/one.yaml"} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(made[1].Dir); err != nil {
		t.Fatal(err)
	}
	if all.isWhole() {
		t.Error("the build counts as whole although one of its parts is gone")
	}
}

func TestFindRecipes(t *testing.T) {
	for _, test := range []struct{ names, want []string }{
		{nil, []string{"components", "kwok"}},
		{[]string{"helm", "components"}, []string{"helm", "components"}},
	} {
		recipes, err := findRecipes(test.names)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, r := range recipes {
			found = append(found, r.name)
		}
		if !slices.Equal(found, test.want) {
			t.Errorf("findRecipes(%v) = %v, want %v", test.names, found, test.want)
		}
	}
	_, err := findRecipes([]string{"kubelet"})
	checkError(t, err, `"kubelet" cannot be built`)
}

func TestPatchAppliesExactlyOnce(t *testing.T) {
	dir := t.TempDir()
	for path, content := range map[string]string{
		"go.mod":                  "module example.com/main\n\ngo 1.26\n\nrequire example.com/library v1.0.0\n",
		"go.sum":                  "",
		"../library/go.mod":       "module example.com/library\n\ngo 1.26\n",
		"../library/serve.go":     "package library\n\nconst Address = \"0.0.0.0\"\n",
		"../library/sub/thing.go": "package sub\n",
	} {
		if err := writeFile(filepath.Join(dir, "main", path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	main, to := filepath.Join(dir, "main"), filepath.Join(dir, "patched")
	if output, err := goCommand(t.Context(), main, "mod", "edit", "-replace=example.com/library=../library").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	change := patch{module: "example.com/library", file: "serve.go", old: "0.0.0.0", new: loopback}
	modfile, err := change.apply(t.Context(), main, to)
	if err != nil {
		t.Fatal(err)
	}
	where, err := goCommand(t.Context(), main, "list", "-modfile="+modfile, "-m", "-f", "{{.Dir}}", "example.com/library").Output()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(where)), "serve.go"))
	if err != nil || !strings.Contains(string(content), loopback) {
		t.Errorf("the patched file is %q, error %v", content, err)
	}
	change.old = "1.2.3.4"
	_, err = change.apply(t.Context(), main, to)
	checkError(t, err, "serve.go has 1.2.3.4 0 times, not once")
}

func TestClaimDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "fleet")
	for range 2 { // an empty folder may be claimed again
		if err := claimDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeFile(filepath.Join(dir, "thesis.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	checkError(t, claimDir(dir), "is not empty")
}

// Each version of Karmada has a file that pins it, and is built apart from the others.
func TestOtherVersionsOfKarmadaArePinned(t *testing.T) {
	hashes := map[string]string{}
	for _, version := range append([]string{""}, otherVersions...) {
		recipes, err := recipesOf(version)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := recipes[0].hash(".")
		if err != nil {
			t.Fatal(err)
		}
		if other, found := hashes[hash]; found {
			t.Errorf("versions %q and %q of Karmada have the same build", version, other)
		}
		hashes[hash] = version
		if version == "" {
			continue
		}
		pinned, err := goList(t.Context(), componentsRecipe.module, "../"+recipes[0].modfile, "{{.Version}}", karmadaModule)
		if err != nil || pinned != version {
			t.Errorf("%s pins Karmada %q, not %s (%v)", recipes[0].modfile, pinned, version, err)
		}
	}
	if _, err := recipesOf("v1.2.3"); err == nil {
		t.Error("a version that nothing pins is accepted")
	}
}
