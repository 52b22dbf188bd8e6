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

package tools_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const root = "../.."

// workflow is a workflow or an action of GitHub, as far as the tests read it.
type workflow struct {
	Concurrency map[string]any
	Permissions map[string]any
	Jobs        map[string]job
	Runs        struct{ Steps []step }
}

type job struct {
	Permissions map[string]any
	Timeout     int `yaml:"timeout-minutes"`
	Uses        string
	Steps       []step
	Strategy    struct {
		Matrix struct{ Include []map[string]string }
	}
}

type step struct{ Run, Uses string }

// readWorkflows returns all workflows and actions by their paths.
func readWorkflows(t *testing.T) map[string]workflow {
	t.Helper()
	read := map[string]workflow{}
	for _, pattern := range []string{".github/workflows/*.y*ml", ".github/actions/*/action.y*ml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := workflow{}
			if err := yaml.Unmarshal(content, &w); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			read[file] = w
		}
	}
	return read
}

func (w workflow) steps() []step {
	steps := slices.Clone(w.Runs.Steps)
	for _, j := range w.Jobs {
		steps = append(steps, j.Steps...)
	}
	return steps
}

// commands returns every command of a workflow.
func (w workflow) commands() []string {
	commands := []string{}
	for _, j := range w.Jobs {
		for _, included := range j.Strategy.Matrix.Include {
			commands = append(commands, included["command"])
		}
	}
	for _, s := range w.steps() {
		commands = append(commands, s.Run)
	}
	return commands
}

var (
	called   = regexp.MustCompile(`(?:^|[\s(;&|])make((?: +[^\s;&|)]+)*)`)
	quoted   = regexp.MustCompile(`="[^"]*"`) // the value of a variable
	declared = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `)
)

// missingTargets returns the targets that a command calls and the Makefile lacks.
func missingTargets(command, makefile string) []string {
	targets := []string{}
	for _, found := range declared.FindAllStringSubmatch(makefile, -1) {
		targets = append(targets, found[1])
	}
	missing := []string{}
	command = quoted.ReplaceAllString(command, "=")
	for _, found := range called.FindAllStringSubmatch(command, -1) {
		for _, word := range strings.Fields(found[1]) {
			if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && !slices.Contains(targets, word) {
				missing = append(missing, word)
			}
		}
	}
	return missing
}

func TestWorkflowsCallTargetsThatExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for file, w := range readWorkflows(t) {
		for _, command := range w.commands() {
			calls += len(called.FindAllString(command, -1))
			for _, target := range missingTargets(command, string(makefile)) {
				t.Errorf("%s calls make %s, which does not exist", file, target)
			}
		}
	}
	if calls < 8 {
		t.Errorf("found %d calls of make, want 8 at least: is the search still right?", calls)
	}
	if got := missingTargets("cd a && make image nothing V=1 W=\"$(date +%s)\"\nx=$(make --silent other)", string(makefile)); !slices.Equal(got, []string{"nothing", "other"}) {
		t.Errorf("the search finds %v", got)
	}
}

var (
	// A path begins with a top-level folder, or with a link to the repository.
	inTree = regexp.MustCompile(`(?:^|[\s"'(./])((?:apis|charts|cmd|controllers|docs|hack|\.ci|\.github)/[A-Za-z0-9_.*/-]*[A-Za-z0-9_*-])`)
	linked = regexp.MustCompile(`github\.com/karmada-direct/karmada-direct/(?:blob|tree)/main/([A-Za-z0-9_./-]*[A-Za-z0-9_-])`)
)

// missingPaths returns the paths that a text names and the repository does not have.
func missingPaths(text string) (missing []string, named int) {
	for _, pattern := range []*regexp.Regexp{inTree, linked} {
		for _, found := range pattern.FindAllStringSubmatch(text, -1) {
			named++
			if files, err := filepath.Glob(filepath.Join(root, strings.ReplaceAll(found[1], "**", "*"))); err != nil || len(files) == 0 {
				missing = append(missing, found[1])
			}
		}
	}
	return missing, named
}

// Everything below .github names only files that exist.
func TestPathsInGitHubFilesExist(t *testing.T) {
	t.Parallel()
	total := 0
	err := filepath.WalkDir(filepath.Join(root, ".github"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		missing, named := missingPaths(string(content))
		total += named
		for _, name := range missing {
			t.Errorf("%s names %s, which does not exist", path, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if total < 10 {
		t.Errorf("found %d paths, want 10 at least: is the search still right?", total)
	}
	if missing, _ := missingPaths("run: hack/nothing.sh ./.ci/run 'docs/none.md' https://github.com/karmada-direct/karmada-direct/blob/main/NONE.md."); !slices.Equal(missing, []string{"hack/nothing.sh", "docs/none.md", "NONE.md"}) {
		t.Errorf("the search finds %v", missing)
	}
}

// pinned matches an action of this repository, or another one at something that looks like a
// version, or at a commit.
var pinned = regexp.MustCompile(`^\./|@v[0-9]+(\.[0-9]+)*$|@[0-9a-f]{40}$`)

// Each job gets only the permissions that it lists, and ends at some time. Actions
// are not those of a branch like main.
func TestWorkflowsAreConfined(t *testing.T) {
	t.Parallel()
	for file, w := range readWorkflows(t) {
		if len(w.Jobs) > 0 && (w.Permissions == nil || len(w.Permissions) > 0 || w.Concurrency["group"] == nil) {
			t.Errorf("%s has permissions %v for all jobs, want {}, and concurrency %v", file, w.Permissions, w.Concurrency)
		}
		for _, s := range w.steps() {
			if s.Uses != "" && !pinned.MatchString(s.Uses) {
				t.Errorf("%s uses %s, want a version or a commit", file, s.Uses)
			}
		}
		for name, j := range w.Jobs {
			if len(j.Permissions) == 0 || j.Timeout == 0 && j.Uses == "" {
				t.Errorf("%s: job %s has permissions %v and a timeout of %d minutes", file, name, j.Permissions, j.Timeout)
			}
		}
	}
}

// Dependabot looks at every module.
func TestDependabotKnowsAllModules(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, ".github", "dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	configuration := struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directories []string
		}
	}{}
	if err := yaml.Unmarshal(content, &configuration); err != nil {
		t.Fatal(err)
	}
	configured := map[string]bool{}
	for _, update := range configuration.Updates {
		for _, folder := range update.Directories {
			configured[update.Ecosystem+" "+folder] = true
		}
	}
	maps.DeleteFunc(configured, func(entry string, _ bool) bool { return !strings.HasPrefix(entry, "gomod ") })
	listed, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "*go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for file := range bytes.Lines(listed) {
		want["gomod "+filepath.Join("/", filepath.Dir(strings.TrimSpace(string(file))))] = true
	}
	if !maps.Equal(configured, want) {
		t.Errorf("Dependabot looks at %v, want %v", slices.Sorted(maps.Keys(configured)), slices.Sorted(maps.Keys(want)))
	}
}

// The Go that the workflows install is new enough for every module.
func TestGoIsNewEnough(t *testing.T) {
	t.Parallel()
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	script := readWorkflows(t)[filepath.Join(root, ".github/actions/setup/action.yaml")].Runs.Steps[0].Run
	command := exec.CommandContext(t.Context(), "bash", "-o", "errexit", "-c", script)
	command.Dir = root
	command.Env = append(command.Environ(), "GITHUB_OUTPUT="+filepath.Join(t.TempDir(), "output"))
	printed, err := command.Output()
	version := strings.TrimSpace(strings.TrimPrefix(string(printed), "version="))
	if err != nil || !strings.Contains(string(dockerfile), "golang:"+version+"@sha256:") || version == "" {
		t.Fatalf("the action prints %q, %v", printed, err)
	}
	files, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "*go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	for file := range strings.FieldsSeq(string(files)) {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		required := regexp.MustCompile(`(?m)^go (.*)$`).FindStringSubmatch(string(content))[1]
		if number(required) > number(version) {
			t.Errorf("%s needs Go %s, and the workflows install %s", file, required, version)
		}
	}
}

// number returns a version in a form that can be compared.
func number(version string) string {
	parts := append(strings.Split(version, "."), "0", "0")
	return fmt.Sprintf("%4s.%4s.%4s", parts[0], parts[1], parts[2])
}
