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

// Package operations_test runs what the pages for operators tell them to paste.
package operations_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// objectsVariable names the file that this program prints as kubectl get would.
const objectsVariable = "RUNBOOK_OBJECTS"

// TestMain lets the shell of a test run this program in place of kubectl, which
// need not be installed. What it prints comes from the library that kubectl uses.
func TestMain(m *testing.M) {
	file := os.Getenv(objectsVariable)
	if file == "" {
		os.Exit(m.Run())
	}
	if err := get(file, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// get prints the objects in a file by the JSONPath among its arguments.
func get(file string, arguments []string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	objects := map[string]any{}
	if err := yaml.Unmarshal(content, &objects); err != nil {
		return err
	}
	for _, argument := range arguments {
		if template, found := strings.CutPrefix(argument, "jsonpath="); found {
			printer := jsonpath.New("get").AllowMissingKeys(true)
			if err := printer.Parse(template); err != nil {
				return err
			}
			return printer.Execute(os.Stdout, objects)
		}
	}
	return fmt.Errorf("no JSONPath in %q", arguments)
}

var bashBlock = regexp.MustCompile("(?s)\n```bash\n(.*?\n)```")

// shell runs a command after the shell functions of the runbook.
func shell(t *testing.T, command string) string {
	t.Helper()
	page, err := os.ReadFile("runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	functions := bashBlock.FindSubmatch(page)
	if functions == nil {
		t.Fatal("the runbook has no block of bash")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(program, filepath.Join(folder, "kubectl")); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "bash", "-c", string(functions[1])+command)
	run.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), objectsVariable+"=testdata/objects.yaml")
	run.Stderr = os.Stderr
	printed, err := run.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(printed)
}

// The shell functions of the runbook print what it says, also for an object that no
// controller has seen, and one without a namespace.
func TestRunbookFinds(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"unready": `False	DirectPropagation	shop/web	ApplyFailed	0 of 3 clusters ready; member1: denied by quota
False	ClusterDirectPropagation	/widgets	ClusterNotFound	0 of 1 clusters ready; member9: no Cluster member9
	DirectPropagation	shop/fresh		
`,
		"rows False": `DirectPropagation	shop/web	member1	ApplyFailed	denied by quota
ClusterDirectPropagation	/widgets	member9	ClusterNotFound	no Cluster member9
`,
		"rows Unknown": `DirectPropagation	shop/web	member2	ClusterNotReady	Karmada has no contact with the cluster
`,
		"rows False | cut -f4 | sort": "ApplyFailed\nClusterNotFound\n",
		"rows Unknown | cut -f3":      "member2\n",
		"rollouts":                    "shop/web	Progressing	RolloutAwaitingApproval	71f5fbd608ae0205\n",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			if got := shell(t, command); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// quotedPath is a JSONPath in single quotes, which may be left for a variable.
var quotedPath = regexp.MustCompile(`jsonpath='((?:[^'\n]|'"\$\w+"')*)'`)

// kubectl understands every JSONPath of the documentation.
func TestEveryJSONPathIsValid(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range quotedPath.FindAllStringSubmatch(string(page), -1) {
			found++
			template := regexp.MustCompile(`'"\$\w+"'`).ReplaceAllString(match[1], "value")
			if err := jsonpath.New(path).Parse(template); err != nil {
				t.Errorf("%s: %v: %s", path, err, template)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 15 {
		t.Errorf("found %d JSONPaths, want 15 at least: is the search still right?", found)
	}
}
