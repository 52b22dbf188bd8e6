//go:build faults

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

package faults

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// writesDocs reports whether the run writes the pages in docs/.
var writesDocs = os.Getenv("FAULTS_WRITE_DOCS") != ""

// figure is something that was measured.
type figure struct {
	Test  string `json:"test"`
	What  string `json:"what"`
	Value string `json:"value"`
	// Bound is what the test asserts; empty when it only records.
	Bound string `json:"bound,omitempty"`
	// Date is when it was measured.
	Date string `json:"date"`
}

// page is all that was measured, on the machine that measured it.
type page struct {
	Machine  string   `json:"machine"`
	Versions string   `json:"versions"`
	Command  string   `json:"command"`
	Figures  []figure `json:"figures"`
}

// figures gathers what the tests measure.
var figures = &gathered{}

type gathered struct {
	mu  sync.Mutex
	all []figure
}

// measured records a figure.
func measured(t *testing.T, what, value, bound string) {
	t.Helper()
	t.Logf("%s: %s", what, value)
	figures.mu.Lock()
	defer figures.mu.Unlock()
	figures.all = append(figures.all, figure{Test: t.Name(), What: what, Value: value, Bound: bound, Date: time.Now().UTC().Format(time.DateOnly)})
}

// lasted records a duration, and fails the test when it is over its limit.
// A limit of 0 only records.
func lasted(t *testing.T, what string, duration, limit time.Duration) {
	t.Helper()
	bound := ""
	if limit > 0 {
		bound = "≤ " + limit.String()
		if duration > limit {
			t.Errorf("%s: %v, more than %v", what, duration, limit)
		}
	}
	measured(t, what, fmt.Sprintf("%.2f s", duration.Seconds()), bound)
}

// write merges what was measured into docs/outage.json, in the place of what
// the same tests measured before, and makes docs/outage.md of it.
func (g *gathered) write() error {
	if !writesDocs || len(g.all) == 0 {
		return nil
	}
	path := filepath.Join(bed.Root, "docs", "outage.json")
	current := page{}
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &current)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading what was measured before: %w", err)
	}
	current.Figures = slices.DeleteFunc(current.Figures, func(old figure) bool {
		return slices.ContainsFunc(g.all, func(fresh figure) bool { return root(fresh.Test) == root(old.Test) })
	})
	current.Figures = append(current.Figures, g.all...)
	slices.SortStableFunc(current.Figures, func(a, b figure) int { return cmp.Compare(root(a.Test), root(b.Test)) })
	current.Machine, current.Versions, current.Command = machine(), versions(), "FAULTS_WRITE_DOCS=1 make faults"
	if content, err = json.MarshalIndent(current, "", "  "); err != nil {
		return fmt.Errorf("encoding what was measured: %w", err)
	}
	if err := os.WriteFile(path, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing what was measured: %w", err)
	}
	if err := os.WriteFile(filepath.Join(bed.Root, "docs", "outage.md"), []byte(current.markdown()), 0o644); err != nil {
		return fmt.Errorf("writing the page of what was measured: %w", err)
	}
	return nil
}

func root(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}

const preface = `# Faults, measured

Made by %[1]s%[4]s%[1]s. Do not edit.

A fleet of one control plane, two push members and one pull member, all as real
processes; what is said to stop is a process that is ended, and a member that is
gone has none of its processes running. %[2]s. %[3]s.

Times are taken from watches of Clusters and DirectPropagations, and for what
runs on a member by reading it every 50 ms. Where there is a bound, the test
fails beyond it.

| test | measured | value | bound | on |
|---|---|---|---|---|
`

func (p *page) markdown() string {
	out := &strings.Builder{}
	fmt.Fprintf(out, preface, "`", p.Machine, p.Versions, p.Command)
	for _, f := range p.Figures {
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", root(f.Test), cell(f.What), cell(f.Value), f.Bound, f.Date)
	}
	return out.String()
}

// cell keeps a text from ending a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
}

func machine() string {
	return fmt.Sprintf("Machine: %d cores, %s/%s, shared with other work while it measured", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
}

// versions are those of what was tested, as far as they can be told.
func versions() string {
	commit, err := exec.Command("git", "-C", bed.Root, "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	said := []string{"Commit " + strings.TrimSpace(string(commit)), runtime.Version()}
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		switch module.Path {
		case "github.com/karmada-io/karmada":
			said = append(said, "Karmada "+module.Version)
		case "k8s.io/client-go":
			said = append(said, "Kubernetes libraries "+module.Version)
		}
	}
	return strings.Join(said, ", ")
}
