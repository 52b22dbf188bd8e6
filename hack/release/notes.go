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
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// notesFile has the text of the release. It is not an attachment, so SHA256SUMS does
// not list it.
const notesFile = "notes.md"

// notesLimit is below what GitHub accepts as the text of a release, 125,000
// characters.
const notesLimit = 100_000

// change is a commit, as its message describes it.
type change struct {
	commit   string
	area     string
	text     string
	breaking bool
}

// headings are the areas of conventional commits. Other areas are their own headings,
// in alphabetical order between these and the rest.
var headings = map[string]string{"feat": "Features", "fix": "Fixes", "": "Other"}

var ranks = map[string]int{"Features": -2, "Fixes": -1, "Other": 1}

// writeNotes writes what is in the release and how to get it.
func writeNotes(ctx context.Context, o order, digest, path string) error {
	// Without an earlier release, all commits are new.
	since, rev := "", "HEAD"
	describe := []string{"describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "--exclude", o.version}
	if !strings.Contains(o.version, "-") {
		describe = append(describe, "--exclude", "v*-*") // the changes since a pre-release are not all
	}
	described, err := git(ctx, o.root, describe...)
	if err == nil {
		since = strings.TrimSpace(described)
		rev = since + "..HEAD"
	} else if ctx.Err() != nil {
		return ctx.Err()
	}
	log, err := git(ctx, o.root, "log", "--no-merges", "--format=%H%x1f%s%x1f%b%x1e", rev)
	if err != nil {
		return err
	}
	return writeFile(path, introduction(o, digest)+listChanges(parseLog(log), since))
}

// subject matches conventional subjects, "feat(chart)!: text", and those of this
// project, "area: text" or "area, area: text".
var subject = regexp.MustCompile(`^([a-z][a-z0-9, /_-]*)(?:\(([^)]*)\))?(!)?: (.+)$`)

func parseLog(log string) []change {
	changes := []change{}
	for record := range strings.SplitSeq(log, "\x1e") {
		fields := strings.SplitN(strings.TrimPrefix(record, "\n"), "\x1f", 3)
		if len(fields) != 3 {
			continue
		}
		c := change{commit: fields[0][:12], text: fields[1], breaking: strings.Contains(fields[2], "BREAKING CHANGE: ")}
		if found := subject.FindStringSubmatch(fields[1]); found != nil {
			c.area, c.text = found[1], found[4]
			c.breaking = c.breaking || found[3] != ""
			if found[2] != "" {
				c.text = found[2] + ": " + c.text
			}
		}
		changes = append(changes, c)
	}
	return changes
}

func listChanges(changes []change, since string) string {
	sections := map[string][]change{}
	for _, c := range changes {
		heading, known := headings[c.area]
		if !known {
			heading = c.area
		}
		sections[heading] = append(sections[heading], c)
		if c.breaking {
			sections["Breaking changes"] = append(sections["Breaking changes"], c)
		}
	}
	text := &strings.Builder{}
	noun := "commits"
	if len(changes) == 1 {
		noun = "commit"
	}
	fmt.Fprintf(text, "## Changes\n\n%d %s", len(changes), noun)
	if since != "" {
		fmt.Fprintf(text, " since %s", since)
	}
	text.WriteString(". CHANGELOG.md says what they mean for users.\n")
	order := slices.SortedFunc(maps.Keys(sections), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	for _, heading := range order {
		fmt.Fprintf(text, "\n### %s\n\n", heading)
		for _, c := range sections[heading] {
			fmt.Fprintf(text, "- %s (%s)\n", escape(c.text), c.commit)
			if text.Len() > notesLimit {
				return text.String() + "\nThe list is cut off here; `git log` has all commits.\n"
			}
		}
	}
	return text.String()
}

func rank(heading string) int {
	if heading == "Breaking changes" {
		return -3
	}
	return ranks[heading]
}

// escape keeps Markdown from reading HTML or a mention into the subject of a commit.
func escape(text string) string {
	return strings.NewReplacer("<", "&lt;", "@", "&#64;").Replace(text)
}

func introduction(o order, digest string) string {
	image := o.registry + "/controller-manager"
	registry, owner, _ := strings.Cut(o.registry, "/")
	return strings.NewReplacer("IMAGE", image, "DIGEST", digest, "REPOSITORY", owner+"/controller-manager",
		"REGISTRY", registry, "CHARTS", "oci://"+o.registry+"/charts", "VERSION", strings.TrimPrefix(o.version, "v"), "TAG", o.version).Replace(
		"Image: `IMAGE:TAG@DIGEST`, for linux/amd64 and linux/arm64.\n\n" +
			"```console\n" +
			"$ helm install direct-propagation CHARTS/direct-propagation --version VERSION --namespace karmada-system --wait \\\n" +
			"    --set image.registry=REGISTRY --set image.repository=REPOSITORY\n" +
			"```\n\n" +
			"`controller.yaml` is the rendered chart for the host cluster, and `install.yaml` belongs on the Karmada API server.\n" +
			"Without access to the registry, load `controller-manager_TAG_image.tar` on the nodes. `sha256sum --check SHA256SUMS`\n" +
			"checks the files, and docs/contributing/releasing.md says how to check signatures and provenance.\n\n")
}
