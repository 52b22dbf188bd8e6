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
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReleaseVersion(t *testing.T) {
	for described, want := range map[string]string{
		"v0.3.0":                 "v0.3.0",
		"v1.0.0-rc.1":            "v1.0.0-rc.1",
		"v0.3.0-5-gd259011":      "v0.3.0-5-gd259011",
		"d259011-dirty":          "v0.0.0-gd259011-dirty",
		"0123456":                "v0.0.0-g0123456", // with a zero first, a number is no part of a version
		"v1.0.0+build":           "v0.0.0-gv1-0-0-build",
		"0.3.0":                  "v0.0.0-g0-3-0",
		"v0.3":                   "v0.0.0-gv0-3",
		"":                       "v0.0.0-g",
		"v0.3.0; rm --recursive": "v0.0.0-gv0-3-0-rm-recursive",
	} {
		if got := releaseVersion(described); got != want {
			t.Errorf("%q becomes %s, want %s", described, got, want)
		}
	}
}

// repository is a Git repository with the files that have to agree with a tag.
type repository struct {
	t *testing.T
	order
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t: t, order: order{root: t.TempDir(), version: "v0.3.0"}}
	r.git("init", "--quiet")
	r.has("charts/direct-propagation/Chart.yaml", "name: direct-propagation\nversion: 0.3.0\nappVersion: v0.3.0\n")
	r.has("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## [0.3.0] - 2026-11-23\n")
	return r
}

func (r *repository) git(arguments ...string) string {
	r.t.Helper()
	settings := []string{"-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}
	printed, err := git(r.t.Context(), r.root, append(settings, arguments...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(printed)
}

func (r *repository) has(path, content string) {
	r.t.Helper()
	path = filepath.Join(r.root, path)
	if printed, err := exec.CommandContext(r.t.Context(), "mkdir", "-p", filepath.Dir(path)).CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, printed)
	}
	if err := writeFile(path, content); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repository) commits(message string) {
	r.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message", message)
	r.commit = r.git("rev-parse", "HEAD")
}

// A release is published only if the tag, the chart and the changelog agree.
func TestCheckTag(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*repository)
		want   string
	}{
		"all agree":             {func(*repository) {}, ""},
		"no tag":                {func(r *repository) { r.git("tag", "--delete", "v0.3.0") }, "is not tagged with v0.3.0"},
		"tag of another commit": {func(r *repository) { r.commits("chart: more") }, "is not tagged with v0.3.0"},
		"changed tree":          {func(r *repository) { r.has("README.md", "changed") }, "the working tree has changes:\n?? README.md"},
		"chart of before": {func(r *repository) {
			r.has("charts/direct-propagation/Chart.yaml", "version: 0.2.0\nappVersion: v0.2.0\n")
			r.commits("chart: an old one")
			r.git("tag", "--force", "v0.3.0")
		}, `Chart.yaml does not contain "version: 0.3.0\nappVersion: v0.3.0"`},
		"changelog of before": {func(r *repository) {
			r.has("CHANGELOG.md", "## [Unreleased]\n")
			r.commits("docs: an old one")
			r.git("tag", "--force", "v0.3.0")
		}, `CHANGELOG.md does not contain "## [0.3.0] -"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			r.commits("everything")
			r.git("tag", "v0.3.0")
			test.change(r)
			err := checkTag(t.Context(), r.order)
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}

// The notes list what is new since the last release, under headings for both kinds of
// subjects.
func TestNotes(t *testing.T) {
	r := newRepository(t)
	r.commits("decide: before the first release")
	r.git("tag", "v0.2.0")
	for _, message := range []string{
		"fix: a row says why", "feat(chart)!: values have other names", "feat: rollouts",
		"decide: plans are <shorter>, says @nobody", "Merge it all", "chart, docs: notes\n\nBREAKING CHANGE: all of it",
	} {
		r.commits(message)
		if message == "feat: rollouts" {
			r.git("tag", "v0.3.0-rc.1") // the notes of v0.3.0 go back to v0.2.0
		}
	}
	r.git("tag", "v0.3.0")
	r.registry, r.time = "registry.example.org/somebody", time.Unix(0, 0)
	path := filepath.Join(t.TempDir(), notesFile)
	if err := writeNotes(t.Context(), r.order, "sha256:0", path); err != nil {
		t.Fatal(err)
	}
	notes := read(t, path)
	got := strings.Split(notes, "## Changes\n")[1]
	want := []string{
		"6 commits since v0.2.0.", "### Breaking changes", "- notes (", "- chart: values have other names (", "### Features", "- rollouts (",
		"### Fixes", "- a row says why (", "### chart, docs", "### decide", "- plans are &lt;shorter>, says &#64;nobody (", "### Other", "- Merge it all (",
	}
	rest := got
	for _, line := range want {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Fatalf("%q is missing, or not where it belongs:\n%s", line, notes)
		}
		rest = after
	}
	if strings.Contains(notes, "before the first release") {
		t.Error("the notes list what the last release had")
	}
}

// Without an earlier release, everything is new, and GitHub still accepts the text.
func TestNotesOfTheFirstRelease(t *testing.T) {
	r := newRepository(t)
	r.commits("decide: the first commit")
	path := filepath.Join(t.TempDir(), notesFile)
	if err := writeNotes(t.Context(), r.order, "sha256:0", path); err != nil {
		t.Fatal(err)
	}
	if notes := read(t, path); !strings.Contains(notes, "\n1 commit. ") || !strings.Contains(notes, "- the first commit (") {
		t.Errorf("the notes are\n%s", notes)
	}
	many := make([]change, 2000)
	for i := range many {
		many[i] = change{commit: "0123456789ab", area: "decide", text: strings.Repeat("x", 80)}
	}
	if text := listChanges(many, ""); len(text) < notesLimit || len(text) > notesLimit+500 || !strings.HasSuffix(text, "`git log` has all commits.\n") {
		t.Errorf("the notes of 2000 commits have %d bytes", len(text))
	}
}
