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

package decide

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// namedReasons are the values of the constants Reason… of the API.
func namedReasons(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "apis", "propagation", "v1alpha1", "reasons.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	ast.Inspect(file, func(node ast.Node) bool {
		constant, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(constant.Names[0].Name, "Reason") {
			return true
		}
		literal, ok := constant.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s is not a literal", constant.Names[0].Name)
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, value)
		return true
	})
	return names
}

// The table has every reason of the API exactly once, and the documentation explains
// each.
func TestEveryReasonIsInTheTable(t *testing.T) {
	named := namedReasons(t)
	if len(named) < 20 {
		t.Fatalf("found %d constants only: %v", len(named), named)
	}
	table := make([]string, 0, len(reasons))
	for i := range reasons {
		table = append(table, reasons[i].name)
	}
	slices.Sort(named)
	slices.Sort(table)
	if !slices.Equal(named, table) {
		t.Errorf("the table has %v, the API has %v", table, named)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range table {
		if !strings.Contains(string(page), "\n### "+name+"\n") {
			t.Errorf("docs/troubleshooting.md has no section %s", name)
		}
	}
}

// A normal start is not trouble, and no failure is missing.
func TestTrouble(t *testing.T) {
	for i := range reasons {
		known := &reasons[i]
		if slices.Equal(known.rows, fails) && !known.Trouble {
			t.Errorf("a row with %s is always False, and Ready with this reason makes no Event", known.name)
		}
		if known.Starting && known.departing {
			t.Errorf("%s cannot belong to a start and to a departure", known.name)
		}
	}
}
