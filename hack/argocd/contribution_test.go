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

package argocd

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestContribution: contribute.sh makes the folders in which Argo CD's repository has the scripts of a
// kind. Argo CD's tests find a script by the group and kind of the object in a test.
func TestContribution(t *testing.T) {
	checkout := t.TempDir()
	if err := os.Mkdir(filepath.Join(checkout, "resource_customizations"), 0o755); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("./contribute.sh", checkout).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	made := os.DirFS(filepath.Join(checkout, "resource_customizations"))
	kinds, err := fs.Glob(made, "*/*")
	if err != nil {
		t.Fatal(err)
	}
	const group = "propagation.karmada-direct.io/"
	if want := []string{group + "ClusterDirectPropagation", group + "DirectPropagation"}; !slices.Equal(kinds, want) {
		t.Fatalf("there are folders of %q, want %q", kinds, want)
	}
	for _, kind := range kinds {
		checkScripts(t, made, kind)
		checkTestdata(t, made, kind, "testdata")
		checkTestdata(t, made, kind, "actions/testdata")
	}
}

// checkScripts checks that the folder of a kind has the files that Argo CD looks for.
func checkScripts(t *testing.T, made fs.FS, kind string) {
	t.Helper()
	cases := struct {
		ActionTests []struct {
			Action string `json:"action"`
		} `json:"actionTests"`
	}{}
	content, err := fs.ReadFile(made, path.Join(kind, "actions", "action_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	files := []string{"health.lua", "health_test.yaml", "actions/discovery.lua"}
	for _, test := range cases.ActionTests {
		files = append(files, "actions/"+test.Action+"/action.lua")
	}
	for _, file := range files {
		if _, err := fs.Stat(made, path.Join(kind, file)); err != nil {
			t.Error(err)
		}
	}
	actions, err := fs.Glob(made, path.Join(kind, "actions", "*", "action.lua"))
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range actions {
		if name := path.Base(path.Dir(action)); !slices.Contains(files, "actions/"+name+"/action.lua") {
			t.Errorf("%s has no test", action)
		}
	}
}

// checkTestdata checks that objects in tests are those of the folder.
func checkTestdata(t *testing.T, made fs.FS, kind, folder string) {
	t.Helper()
	files, err := fs.Glob(made, path.Join(kind, folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("finding %s of %s: %v, %v", folder, kind, files, err)
	}
	for _, file := range files {
		content, err := fs.ReadFile(made, file)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &object.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found := object.GroupVersionKind()
		if found.Group+"/"+found.Kind != kind || strings.HasSuffix(kind, "/ClusterDirectPropagation") != (object.GetNamespace() == "") {
			t.Errorf("%s has a %s in the namespace %q", file, found, object.GetNamespace())
		}
	}
}
