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

package apis_test

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// line is what an object says in a table: its name, which is also that of the resource, and its
// status.
type line struct{ name, clusters, rollout, ready, reason string }

// TestTablesFit: a terminal of 80 columns shows the tables of kubectl get without wrapping
// them. The API server makes the cells, and kubectl aligns them.
func TestTablesFit(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]line{
		"all is well":         {{"payments-api", "12/12", "", "True", "Propagated"}, {"web", "2/2", "", "True", "Propagated"}},
		"a change is applied": {{"payments-api", "4998/5000", "", "False", "Applying"}},
		"contact is lost":     {{"web-config", "1/2", "", "Unknown", "ClusterNotReady"}},
		"a rollout goes on":   {{"web-shop", "1/12", "canary 1/2", "False", "RolloutProgressing"}},
		"after a rollout":     {{"payments-api", "12/12", "Completed", "True", "Propagated"}},
		"not seen yet":        {{"payments-api", "", "", "", ""}},
	} {
		for _, kind := range []string{"DirectPropagation", "ClusterDirectPropagation"} {
			table := render(t, kind, lines)
			for printed := range strings.Lines(table) {
				if width := len(strings.TrimSpace(printed)); width > 80 {
					t.Errorf("%s of a %s: a line has %d characters:\n%s", name, kind, width, table)
				}
			}
			if !strings.Contains(table, lines[0].reason) || strings.Contains(table, "Deployment") {
				t.Errorf("the columns are not those without -o wide:\n%s", table)
			}
		}
	}
}

// render makes the table of objects of a kind, as kubectl get prints it.
func render(t *testing.T, kind string, lines []line) string {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	for _, line := range lines {
		list.Items = append(list.Items, line.object(t))
	}
	convertor, err := tableconvertor.New(columnsOf(t, kind))
	if err != nil {
		t.Fatal(err)
	}
	table, err := convertor.ConvertToTable(t.Context(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := &strings.Builder{}
	aligned := tabwriter.NewWriter(text, 6, 4, 3, ' ', 0) // as in k8s.io/cli-runtime/pkg/printers
	headings, places := []string{}, []int{}
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			headings, places = append(headings, strings.ToUpper(column.Name)), append(places, i)
		}
	}
	fmt.Fprintln(aligned, strings.Join(headings, "\t"))
	for _, row := range table.Rows {
		cells := []string{}
		for _, i := range places {
			cell := row.Cells[i]
			if cell == nil {
				cell = ""
			}
			cells = append(cells, fmt.Sprint(cell))
		}
		fmt.Fprintln(aligned, strings.Join(cells, "\t"))
	}
	if err := aligned.Flush(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func columnsOf(t *testing.T, kind string) []apiextensionsv1.CustomResourceColumnDefinition {
	t.Helper()
	for _, crd := range crds(t) {
		if crd.Spec.Names.Kind == kind {
			return crd.Spec.Versions[0].AdditionalPrinterColumns
		}
	}
	t.Fatalf("there is no %s", kind)
	return nil
}

// object is three days old: an age with more characters is rare.
func (l line) object(t *testing.T) unstructured.Unstructured {
	t.Helper()
	created := metav1.NewTime(time.Now().Add(-(3*24 + 4) * time.Hour))
	object := unstructured.Unstructured{Object: map[string]any{}}
	err := yaml.Unmarshal(fmt.Appendf(nil, `
spec: {resource: {name: %s, kind: Deployment}}
status:
  summary: {progress: %q}
  rollout: {progress: %q}
  conditions: [{type: Ready, status: %q, reason: %q, message: all of it}]
`, l.name, l.clusters, l.rollout, l.ready, l.reason), &object.Object)
	if err != nil {
		t.Fatal(err)
	}
	object.SetName(l.name)
	object.SetCreationTimestamp(created)
	return object
}
