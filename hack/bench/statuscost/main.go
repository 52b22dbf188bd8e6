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

// Command statuscost measures what a write of the status costs the API server,
// for an object that names many clusters, under variants of the CRD's schema and
// ways of writing. CPU seconds are the server's own, from /proc: run it on an
// otherwise idle fleet.
//
//	go run ./hack/bench/statuscost .fleet/bench
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/karmada-direct/karmada-direct/apis"
)

const (
	clusters, rows = 1000, 256
	writes         = 30
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// variant is a way in which the schema could be.
type variant struct {
	name   string
	change func(spec, status map[string]apiextensionsv1.JSONSchemaProps)
}

func atomic(properties map[string]apiextensionsv1.JSONSchemaProps) {
	list := properties["clusters"]
	list.XListType, list.XListMapKeys = ptr.To("atomic"), nil
	properties["clusters"] = list
}

// withoutCEL checks the names of clusters by a pattern.
func withoutCEL(properties map[string]apiextensionsv1.JSONSchemaProps) {
	item := properties["clusters"].Items.Schema
	name := item.Properties["name"]
	name.XValidations = nil
	name.Pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
	item.Properties["name"] = name
}

var variants = []variant{
	{"as it is", func(_, _ map[string]apiextensionsv1.JSONSchemaProps) {}},
	{"status.clusters atomic", func(_, status map[string]apiextensionsv1.JSONSchemaProps) { atomic(status) }},
	{"spec.clusters atomic", func(spec, _ map[string]apiextensionsv1.JSONSchemaProps) { atomic(spec) }},
	{"names by pattern, not CEL", func(spec, _ map[string]apiextensionsv1.JSONSchemaProps) { withoutCEL(spec) }},
	{"status atomic, no CEL", func(spec, status map[string]apiextensionsv1.JSONSchemaProps) { atomic(status); withoutCEL(spec) }},
	{"both atomic", func(spec, status map[string]apiextensionsv1.JSONSchemaProps) { atomic(spec); atomic(status) }},
	{"both atomic, no CEL", func(spec, status map[string]apiextensionsv1.JSONSchemaProps) {
		atomic(spec)
		atomic(status)
		withoutCEL(spec)
	}},
}

// ways are how the status is written.
var ways = []struct {
	name  string
	write func(context.Context, dynamic.ResourceInterface, *unstructured.Unstructured) (*unstructured.Unstructured, error)
}{
	{"update", func(ctx context.Context, c dynamic.ResourceInterface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return c.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	}},
	{"merge patch", func(ctx context.Context, c dynamic.ResourceInterface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		patch, err := json.Marshal(map[string]any{"status": object.Object["status"]})
		if err != nil {
			return nil, err
		}
		return c.Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}},
	{"merge patch of the summary alone", func(ctx context.Context, c dynamic.ResourceInterface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		summary, _, _ := unstructured.NestedMap(object.Object, "status", "summary")
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"summary": summary}})
		if err != nil {
			return nil, err
		}
		return c.Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: statuscost FOLDER-OF-A-FLEET")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "statuscost:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, fleet string) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(fleet, "karmada.kubeconfig"))
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	pid, err := serverOf(fleet)
	if err != nil {
		return err
	}
	fmt.Printf("| schema | written by | server CPU ms a write | ms a write | object KiB | managedFields KiB |\n|---|---|---|---|---|---|\n")
	for i, v := range variants {
		if err := v.measure(ctx, client, pid, i); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return nil
}

// serverOf finds the process of the fleet's API server.
func serverOf(fleet string) (int, error) {
	raw, err := os.ReadFile(filepath.Join(fleet, "fleet.json"))
	if err != nil {
		return 0, fmt.Errorf("reading what the fleet says of itself: %w", err)
	}
	state := struct {
		Processes []struct {
			Name     string `json:"name"`
			Identity struct {
				PID int `json:"pid"`
			} `json:"identity"`
		} `json:"processes"`
	}{}
	if err := json.Unmarshal(raw, &state); err != nil {
		return 0, fmt.Errorf("reading what the fleet says of itself: %w", err)
	}
	for _, p := range state.Processes {
		if p.Name == "karmada-apiserver" {
			return p.Identity.PID, nil
		}
	}
	return 0, fmt.Errorf("the fleet in %s has no API server", fleet)
}

// measure installs a variant under a group of its own, writes, and removes it.
func (v variant) measure(ctx context.Context, client dynamic.Interface, pid, number int) error {
	group := fmt.Sprintf("variant%d.karmada-direct.io", number)
	crd, err := v.definition(group)
	if err != nil {
		return err
	}
	if _, err := client.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	defer func() {
		_ = client.Resource(crds).Delete(context.WithoutCancel(ctx), crd.GetName(), metav1.DeleteOptions{})
	}()
	objects := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "directpropagations"}).Namespace("default")
	var object *unstructured.Unstructured
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		created, err := objects.Create(ctx, propagation(group), metav1.CreateOptions{})
		object = created
		return err == nil, nil // it is served only after a moment
	})
	if err != nil {
		return fmt.Errorf("creating an object: %w", err)
	}
	for _, way := range ways {
		// The first write makes what the others change.
		for i := range 2 {
			object.Object["status"] = status(i)
			if object, err = way.write(ctx, objects, object); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		before, began := cpu(pid), time.Now()
		for i := range writes {
			object.Object["status"] = status(i + 2)
			if object, err = way.write(ctx, objects, object); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		took, used := time.Since(began), cpu(pid)-before
		whole, _ := json.Marshal(object.Object)
		managed, _ := json.Marshal(object.GetManagedFields())
		fmt.Printf("| %s | %s | %.0f | %.0f | %d | %d |\n", v.name, way.name, 1000*used/writes, took.Seconds()*1000/writes, len(whole)/1024, len(managed)/1024)
	}
	return nil
}

// definition is our CRD in another group, with the variant's schema.
func (v variant) definition(group string) (*unstructured.Unstructured, error) {
	known, err := apis.CRDs()
	if err != nil {
		return nil, fmt.Errorf("reading the embedded CustomResourceDefinitions: %w", err)
	}
	crd := known[0].DeepCopy()
	crd.Name, crd.Spec.Group = "directpropagations."+group, group
	crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = nil, nil
	properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	v.change(properties["spec"].Properties, properties["status"].Properties)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return nil, fmt.Errorf("converting: %w", err)
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}

func propagation(group string) *unstructured.Unstructured {
	named := make([]any, clusters)
	for i := range named {
		named[i] = map[string]any{"name": fmt.Sprintf("played-%04d", i)}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1alpha1", "kind": "DirectPropagation", "metadata": map[string]any{"name": "many"},
		"spec": map[string]any{"resource": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "many"}, "clusters": named},
	}}
}

// status is one of many that differ in some rows, as while clusters report.
func status(i int) map[string]any {
	const shift = 8
	listed := make([]any, rows)
	for row := range listed {
		listed[row] = map[string]any{
			"name": fmt.Sprintf("played-%04d", row+i*shift), "applied": "Unknown", "health": "Unknown", "reason": "Applying",
			"message": "the cluster has not answered yet", "lastTransitionTime": time.Unix(1700000000, 0).UTC().Format(time.RFC3339),
		}
	}
	return map[string]any{
		"observedGeneration": int64(1),
		"summary": map[string]any{
			"progress": fmt.Sprintf("%d/%d", i*shift, clusters), "clusters": int64(clusters), "applied": int64(i * shift), "healthy": int64(i * shift),
			"failed": int64(0), "pending": int64(clusters - i*shift), "unreachable": int64(0),
		},
		"clusters": listed, "omitted": int64(clusters - rows),
	}
}

// cpu is what a process has taken of the processors, in seconds.
func cpu(pid int) float64 {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	const user, system, ticksASecond = 14 - 3, 15 - 3, 100
	if len(fields) <= system {
		return 0
	}
	u, _ := strconv.ParseFloat(fields[user], 64)
	s, _ := strconv.ParseFloat(fields[system], 64)
	return (u + s) / ticksASecond
}
