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

package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	sigsyaml "sigs.k8s.io/yaml"
)

const chartFolder = "../../charts/direct-propagation"

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(chartFolder)
	if err != nil {
		t.Fatalf("loading the chart: %v", err)
	}
	return loaded
}

// rendered contains the objects that `helm template` prints, including hooks.
type rendered struct {
	t       *testing.T
	objects []*unstructured.Unstructured
	notes   string
}

// render renders the chart like `helm install kd --namespace karmada-system --set
// …`, but without a cluster, and with an image registry. A setting that begins with
// "---" is a values file instead.
func render(t *testing.T, settings ...string) *rendered {
	t.Helper()
	r, err := tryRender(t, settings...)
	if err != nil {
		t.Fatalf("rendering with %q: %v", settings, err)
	}
	return r
}

func tryRender(t *testing.T, settings ...string) (*rendered, error) {
	t.Helper()
	values := map[string]any{"image": map[string]any{"registry": "registry.example.org"}}
	for _, setting := range settings {
		if document, found := strings.CutPrefix(setting, "---"); found {
			more := map[string]any{}
			if err := sigsyaml.Unmarshal([]byte(document), &more); err != nil {
				t.Fatalf("%s: %v", setting, err)
			}
			values = chartutil.CoalesceTables(more, values)
			continue
		}
		if err := strvals.ParseInto(setting, values); err != nil {
			t.Fatalf("%s: %v", setting, err)
		}
	}
	install := action.NewInstall(&action.Configuration{})
	install.ReleaseName, install.Namespace = "kd", "karmada-system"
	install.DryRun, install.ClientOnly = true, true
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.35.4", Major: "1", Minor: "35"}
	release, err := install.Run(loadChart(t), values)
	if err != nil {
		return nil, err
	}
	r := &rendered{t: t, notes: release.Info.Notes}
	manifests := release.Manifest
	for _, hook := range release.Hooks {
		manifests += "\n---\n" + hook.Manifest
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(manifests)), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the output is not YAML: %w\n%s", err, manifests)
		}
		if len(object.Object) > 0 {
			r.objects = append(r.objects, object)
		}
	}
}

// kinds lists all rendered objects as kind/name.
func (r *rendered) kinds() []string {
	names := []string{}
	for _, object := range r.objects {
		names = append(names, object.GetKind()+"/"+object.GetName())
	}
	slices.Sort(names)
	return names
}

// find returns the first object of a kind without converting it.
func (r *rendered) find(kind string) *unstructured.Unstructured {
	r.t.Helper()
	for _, object := range r.objects {
		if object.GetKind() == kind {
			return object
		}
	}
	r.t.Fatalf("no %s was rendered, only %v", kind, r.kinds())
	return nil
}

func (r *rendered) has(kind string) bool {
	return slices.ContainsFunc(r.objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
}

// typed converts an object to a Go type and fails on every field that the type does
// not have.
func typed[T any](r *rendered, kind string) *T {
	r.t.Helper()
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(r.find(kind).Object, into, true); err != nil {
		r.t.Fatalf("%s: %v", kind, err)
	}
	return into
}

func (r *rendered) pod() corev1.PodSpec {
	r.t.Helper()
	return typed[appsv1.Deployment](r, "Deployment").Spec.Template.Spec
}

// isKnown checks every object of Kubernetes' own kinds for unknown fields.
func (r *rendered) isKnown() {
	r.t.Helper()
	for _, object := range r.objects {
		into, err := scheme.Scheme.New(object.GroupVersionKind())
		if err != nil {
			if strings.HasPrefix(object.GetAPIVersion(), "monitoring.coreos.com/") {
				continue
			}
			r.t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
			r.t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}
