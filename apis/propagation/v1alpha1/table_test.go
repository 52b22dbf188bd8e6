//go:build integration

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
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// column is a cell with its heading.
type column struct {
	Name string
	// Wide columns are those that only kubectl get -o wide prints.
	Wide  bool
	Value any
}

// What kubectl get prints before and after the controller has seen the object.
var (
	freshColumns = []column{
		{Name: "Name", Value: "table"},
		{Name: "Resource", Value: "web"},
		{Name: "Kind", Wide: true, Value: "Deployment"},
		{Name: "Clusters", Value: ""},
		{Name: "Rollout", Value: ""},
		{Name: "Ready", Value: ""},
		{Name: "Reason", Value: ""},
		{Name: "Age", Value: "age"},
		{Name: "Message", Wide: true, Value: ""},
	}
	doneColumns = []column{
		{Name: "Name", Value: "table"},
		{Name: "Resource", Value: "web"},
		{Name: "Kind", Wide: true, Value: "Deployment"},
		{Name: "Clusters", Value: "1/2"},
		{Name: "Rollout", Value: "canary 1/2"},
		{Name: "Ready", Value: "False"},
		{Name: "Reason", Value: "ApplyFailed"},
		{Name: "Age", Value: "age"},
		{Name: "Message", Wide: true, Value: "member2 refused it"},
	}
)

// columnsOf are the columns of the one row that the server prints.
func columnsOf(t *testing.T, name string) []column {
	t.Helper()
	table := getTable(t, name)
	if len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
		t.Fatalf("not a table of one row: %+v", table)
	}
	var got []column
	for i, definition := range table.ColumnDefinitions {
		value := table.Rows[0].Cells[i]
		if definition.Name == "Age" {
			value = "age"
		}
		// The server returns null for a missing value, which kubectl prints as
		// <none>.
		if value == nil {
			value = ""
		}
		got = append(got, column{Name: definition.Name, Wide: definition.Priority > 0, Value: value})
		if definition.Name != "Name" && definition.Description == "" {
			t.Errorf("column %s has no description", definition.Name)
		}
	}
	return got
}

// TestTable asks the server for the table that kubectl get prints, including the
// columns of kubectl get -o wide.
func TestTable(t *testing.T) {
	t.Parallel()
	object, err := create(t, "table", spec(web, members), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(freshColumns, columnsOf(t, "table")); diff != "" {
		t.Errorf("before the controller has seen the object (-want +got):\n%s", diff)
	}

	object.Object["status"] = decode(t, `
observedGeneration: 1
conditions:
- {type: Reconciling, status: "True", reason: Applying, message: on its way, lastTransitionTime: "2026-01-02T03:04:05Z"}
- {type: Ready, status: "False", reason: ApplyFailed, message: member2 refused it, lastTransitionTime: "2026-01-02T03:04:05Z"}
summary: {progress: 1/2, clusters: 2, applied: 1, healthy: 1, failed: 1, pending: 0, unreachable: 0}
rollout: {phase: Progressing, progress: canary 1/2}
`)
	if _, err := client(t).UpdateStatus(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(doneColumns, columnsOf(t, "table")); diff != "" {
		t.Errorf("with a status (-want +got):\n%s", diff)
	}
}

// getTable asks for one DirectPropagation as kubectl get does.
func getTable(t *testing.T, name string) *metav1.Table {
	t.Helper()
	clients, err := kubernetes.NewForConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	body, err := clients.RESTClient().Get().
		AbsPath("/apis/propagation.karmada-direct.io/v1alpha1/namespaces/default/directpropagations", name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(body, table); err != nil {
		t.Fatal(err)
	}
	return table
}

// TestNames checks the names that users type: kubectl get dp, and kubectl get
// karmada-io for everything that Karmada and its companions define.
func TestNames(t *testing.T) {
	t.Parallel()
	clients, err := kubernetes.NewForConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	list, err := clients.Discovery().ServerResourcesForGroupVersion("propagation.karmada-direct.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range list.APIResources {
		if resource.Name != "directpropagations" {
			continue
		}
		if diff := cmp.Diff([]string{"dp"}, resource.ShortNames); diff != "" {
			t.Errorf("short names (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"karmada-io"}, resource.Categories); diff != "" {
			t.Errorf("categories (-want +got):\n%s", diff)
		}
		return
	}
	t.Errorf("the server does not serve directpropagations: %+v", list)
}
