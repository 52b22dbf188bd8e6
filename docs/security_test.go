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

// Package docs_test holds what the pages claim against the tree.
package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// threat is a line of a table of security.md.
type threat struct {
	name, stops, shownBy string
}

// testLink is a test as the tables name it: its function, and the file with it.
var testLink = regexp.MustCompile("\\[`(\\w+)`\\]\\(([^)]+_test\\.go)\\)")

// The tables of security.md cannot rot: every threat has a test, and every test
// is where the table says.
func TestEveryThreatHasATest(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("security.md")
	if err != nil {
		t.Fatal(err)
	}
	threats, err := threatsOf(string(content))
	if err != nil {
		t.Fatal(err)
	}
	if len(threats) < 20 {
		t.Errorf("security.md has %d threats, want 20 at least: is the search still right?", len(threats))
	}
	for _, threat := range threats {
		if err := check(threat, "."); err != nil {
			t.Errorf("%s: %v", threat.name, err)
		}
	}
}

// What the check is for, it finds.
func TestThreatsAreChecked(t *testing.T) {
	t.Parallel()
	const head = "| Threat | What stops it | Shown by | What is not protected |\n|---|---|---|---|\n"
	const this = "[`TestThreatsAreChecked`](security_test.go)"
	for row, want := range map[string]string{
		"| a | b | " + this + " | |":                                    "",
		"| a | b | " + this + ", [`TestNobody`](security_test.go) | |":  "security_test.go has no test TestNobody",
		"| a | b | [`TestThreatsAreChecked`](nowhere_test.go) | |":      "no such file",
		"| a | b | [`threatsOf`](security_test.go) | |":                 "security_test.go has no test threatsOf",
		"| a | b | it was looked at | |":                                "no test is named",
		"| a | b | " + this + " and `TestThreatsAreChecked` | |":        "names something without a link",
		"| a | | " + this + " | |":                                      "nothing is said to stop it",
		"| a | b | " + this + " |":                                      "3 cells",
		"| a | b | [`TestThreatsAreChecked`](./security_test.go) | | |": "5 cells",
	} {
		threats, err := threatsOf(head + row + "\n")
		if err == nil && len(threats) == 1 {
			err = check(threats[0], ".")
		}
		if got := fmt.Sprint(err); (want == "") != (err == nil) || !strings.Contains(got, want) {
			t.Errorf("%s: error %v, want one with %q", row, err, want)
		}
	}
}

// threatsOf returns the lines of the tables of threats on a page.
func threatsOf(page string) ([]threat, error) {
	threats := []threat{}
	within := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "| Threat |"):
			within = true
		case !strings.HasPrefix(line, "|"):
			within = false
		case within && !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
			if len(cells) != 4 {
				return nil, fmt.Errorf("%d cells, want 4: %s", len(cells), line)
			}
			threats = append(threats, threat{
				name: strings.TrimSpace(cells[0]), stops: strings.TrimSpace(cells[1]), shownBy: strings.TrimSpace(cells[2]),
			})
		}
	}
	return threats, nil
}

// check reports what a line of the table lacks. Its links begin in a folder.
func check(line threat, folder string) error {
	if line.stops == "" {
		return errors.New("nothing is said to stop it")
	}
	links := testLink.FindAllStringSubmatch(line.shownBy, -1)
	if len(links) == 0 {
		return errors.New("no test is named")
	}
	if rest := strings.Trim(testLink.ReplaceAllString(line.shownBy, ""), ", "); rest != "" {
		return fmt.Errorf("names something without a link to its file: %s", rest)
	}
	for _, link := range links {
		if err := hasTest(filepath.Join(folder, link[2]), link[1]); err != nil {
			return err
		}
	}
	return nil
}

// hasTest reports whether a file declares a test. Build tags do not matter.
func hasTest(file, name string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, declaration := range parsed.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == name && strings.HasPrefix(name, "Test") {
			return nil
		}
	}
	return fmt.Errorf("%s has no test %s", file, name)
}

// Every module that is downloaded, tools included, has its checksum in the tree.
func TestModulesAreChecked(t *testing.T) {
	t.Parallel()
	modules := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != "..":
			return fs.SkipDir
		case entry.Name() == "go.mod":
			modules++
			return checkSums(t, path)
		default:
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if modules < 5 {
		t.Errorf("found %d modules, want 5 at least: is the search still right?", modules)
	}
}

// goMod is what the go command reads from a go.mod.
type goMod struct {
	Require []module
	Replace []struct{ Old, New module }
}

type module struct{ Path, Version string }

func checkSums(t *testing.T, file string) error {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", file).Output()
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	read := goMod{}
	if err := json.Unmarshal(output, &read); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	replaced := map[string]module{}
	for _, replacement := range read.Replace {
		replaced[replacement.Old.Path] = replacement.New
	}
	sums, err := os.ReadFile(filepath.Join(filepath.Dir(file), "go.sum"))
	if err != nil {
		return err
	}
	for _, downloaded := range read.Require {
		if other, ok := replaced[downloaded.Path]; ok {
			downloaded = other
		}
		// One without a version is a folder of this repository.
		if downloaded.Version != "" && !strings.Contains(string(sums), downloaded.Path+" "+downloaded.Version) {
			t.Errorf("%s requires %s %s, of which go.sum has no checksum", file, downloaded.Path, downloaded.Version)
		}
	}
	return nil
}
