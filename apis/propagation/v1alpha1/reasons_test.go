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

package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var troubleshooting = filepath.Join("..", "..", "..", "docs", "troubleshooting.md")

// reason is a constant of reasons.go that users see in a status or an Event.
type reason struct {
	constant, value, comment string
}

// TestReasons checks that the documentation explains each reason under the name
// that users see in a status.
func TestReasons(t *testing.T) {
	reasons := parseReasons(t)
	if len(reasons) == 0 {
		t.Fatal("reasons.go has no constants of reasons; has it moved?")
	}
	entries := troubleshootingEntries(t)

	for _, reason := range reasons {
		if name := strings.TrimPrefix(strings.TrimPrefix(reason.constant, "Reason"), "Event"); name != reason.value {
			t.Errorf("%s has the value %q, want %q", reason.constant, reason.value, name)
		}
		if !strings.HasPrefix(reason.comment, reason.constant+" ") {
			t.Errorf("the comment of %s does not begin with its name: %q", reason.constant, reason.comment)
		}
		if entry, found := entries[reason.value]; !found {
			t.Errorf("docs/troubleshooting.md has no entry \"### %s\"", reason.value)
		} else if len(strings.Fields(entry)) < 5 {
			t.Errorf("the section \"### %s\" in docs/troubleshooting.md is too short: %q", reason.value, entry)
		}
	}
	for entry := range entries {
		if !slices.ContainsFunc(reasons, func(reason reason) bool { return reason.value == entry }) {
			t.Errorf("docs/troubleshooting.md has an entry \"### %s\", which is not a reason", entry)
		}
	}
}

// parseReasons reads the constants from the source, so that a new one cannot be
// forgotten here.
func parseReasons(t *testing.T) []reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []reason
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if !strings.HasPrefix(name.Name, "Reason") && !strings.HasPrefix(name.Name, "Event") {
				continue
			}
			literal, ok := spec.Values[i].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				t.Errorf("%s is not a plain string", name.Name)
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Errorf("%s: %v", name.Name, err)
			}
			reasons = append(reasons, reason{constant: name.Name, value: value, comment: spec.Doc.Text()})
		}
		return true
	})
	return reasons
}

// troubleshootingEntries returns the text below each "### Reason".
func troubleshootingEntries(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(troubleshooting)
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^##+ .*$`).FindAllIndex(page, -1)
	entries := map[string]string{}
	for i, heading := range headings {
		end := len(page)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		if name, found := strings.CutPrefix(string(page[heading[0]:heading[1]]), "### "); found {
			entries[name] = string(page[heading[1]:end])
		}
	}
	return entries
}
