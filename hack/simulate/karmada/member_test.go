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

package karmada

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// newTestMember is a member with the namespace "shop".
func newTestMember(t *testing.T) *Member {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	member := newMember("m1", func() time.Time { return now })
	namespace := &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(namespaceKind)
	namespace.SetName("shop")
	if err := member.Create(namespace); err != nil {
		t.Fatal(err)
	}
	return member
}

// made creates an object, and returns it as the member has it.
func made(t *testing.T, m *Member, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created, err := m.create(object)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// The API server increments the generation with the spec, and the resourceVersion with
// every write.
func TestGenerationsAndVersions(t *testing.T) {
	m := newTestMember(t)
	web := made(t, m, deployment("web:1"))
	if web.GetGeneration() != 1 || web.GetUID() == "" || web.GetResourceVersion() == "" {
		t.Fatalf("created %v", web.Object["metadata"])
	}
	version := web.GetResourceVersion()
	same, err := m.update(web.DeepCopy())
	if err != nil || same.GetResourceVersion() != version {
		t.Errorf("an update without a change: version %s, error %v", same.GetResourceVersion(), err)
	}
	web.SetLabels(map[string]string{"tier": "front"})
	labeled, err := m.update(web)
	if err != nil || labeled.GetGeneration() != 1 || labeled.GetResourceVersion() == version {
		t.Errorf("a label: generation %d, error %v", labeled.GetGeneration(), err)
	}
	if err := m.SetStatus(KeyOf(web), map[string]any{"replicas": int64(1)}); err != nil {
		t.Fatal(err)
	}
	if reported, _ := m.get(KeyOf(web)); reported.GetGeneration() != 1 {
		t.Errorf("a status: generation %d", reported.GetGeneration())
	}
	if _, err := m.update(labeled); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	fresh, _ := m.get(KeyOf(web))
	fresh.Object["status"] = map[string]any{"replicas": int64(9)}
	if err := unstructured.SetNestedField(fresh.Object, int64(3), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	scaled, err := m.update(fresh)
	if err != nil || scaled.GetGeneration() != 2 {
		t.Errorf("a change of the spec: generation %d, error %v", scaled.GetGeneration(), err)
	}
	if replicas, _, _ := unstructured.NestedInt64(scaled.Object, "status", "replicas"); replicas != 1 {
		t.Errorf("an update changed the status: %d", replicas)
	}
	if settings := made(t, m, configMap("one")); settings.GetGeneration() != 0 {
		t.Errorf("a ConfigMap has generation %d", settings.GetGeneration())
	}
}

func TestMemberRefuses(t *testing.T) {
	m := newTestMember(t)
	elsewhere := configMap("one")
	elsewhere.SetNamespace("nowhere")
	frozen := configMap("one")
	frozen.SetName("frozen")
	frozen.Object["immutable"] = true
	made(t, m, frozen)
	made(t, m, deployment("web:1"))
	changed := func(k Key, path ...string) error {
		return m.Edit(k, func(object *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(object.Object, "changed", path...); err != nil {
				t.Error(err)
			}
		})
	}
	for name, test := range map[string]struct {
		err  error
		want func(error) bool
	}{
		"a second creation":      {m.Create(deployment("web:1")), apierrors.IsAlreadyExists},
		"a missing namespace":    {m.Create(elsewhere), apierrors.IsNotFound},
		"a missing object":       {m.Delete(settingsKey), apierrors.IsNotFound},
		"an immutable selector":  {changed(keyOfKind(deploymentKind, "web"), "spec", "selector", "matchLabels", "app"), apierrors.IsInvalid},
		"an immutable ConfigMap": {changed(keyOfKind(configMapKind, "frozen"), "data", "says"), apierrors.IsInvalid},
	} {
		if !test.want(test.err) {
			t.Errorf("%s: %v", name, test.err)
		}
	}
	m.Refuse = func(verb string, _ *unstructured.Unstructured) error { return errors.New("no " + verb) }
	if err := m.Create(configMap("one")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no create") {
		t.Errorf("the admission: %v", err)
	}
}

// A finalizer keeps an object until somebody removes it.
func TestFinalizerOnTheMember(t *testing.T) {
	m := newTestMember(t)
	settings := configMap("one")
	settings.SetFinalizers([]string{"example.org/stay"})
	made(t, m, settings)
	if err := m.Delete(settingsKey); err != nil {
		t.Fatal(err)
	}
	if running, ok := m.Runs(configMapKind, "shop", "settings"); !ok || running.Object.GetDeletionTimestamp() == nil {
		t.Fatalf("the member has %v", running.Object)
	}
	if err := m.Edit(settingsKey, func(object *unstructured.Unstructured) { object.SetFinalizers(nil) }); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Runs(configMapKind, "shop", "settings"); ok || len(m.Deletions()) != 1 {
		t.Errorf("the object is still there, deletions %v", m.Deletions())
	}
}

// A kind that goes takes its objects with it.
func TestStopServing(t *testing.T) {
	m := newTestMember(t)
	kind := Custom("example.org", "v1", "Widget", "widgets")
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(kind.GroupVersionKind)
	widget.SetNamespace("shop")
	widget.SetName("one")
	if err := m.Create(widget); !apierrors.IsNotFound(err) || err.Error() != "the server could not find the requested resource" {
		t.Errorf("before it is served: %v", err)
	}
	m.Serve(kind)
	made(t, m, widget)
	m.StopServing(kind.GroupVersionKind)
	if m.Serves(kind.GroupVersionKind) || len(m.Deletions()) != 1 || m.Deletions()[0].Cause != KindRemoved {
		t.Errorf("deletions %v", m.Deletions())
	}
}

// The hash of a template is that of what a member made of it, and of nothing else.
func TestContentHash(t *testing.T) {
	m := newTestMember(t)
	template := deployment("web:1")
	template.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "shop"})
	there := template.DeepCopy()
	there.SetLabels(map[string]string{"karmada.io/managed": "true", "work.karmada.io/permanent-id": "id"})
	there = made(t, m, there)
	if err := m.SetStatus(KeyOf(there), map[string]any{"replicas": int64(2)}); err != nil {
		t.Fatal(err)
	}
	running, _ := m.Runs(deploymentKind, "shop", "web")
	if running.Content != ContentHash(template) {
		t.Error("the template and what the member has differ")
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"the image":      func(o *unstructured.Unstructured) { o.Object["spec"] = deployment("web:2").Object["spec"] },
		"an annotation":  func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"team": "other"}) },
		"a user's label": func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"tier": "front"}) },
	} {
		other := template.DeepCopy()
		change(other)
		if ContentHash(other) == running.Content {
			t.Errorf("%s does not change the hash", name)
		}
	}
}

// Each workload gets a status of its own shape, and comes to rest.
func TestWorkloadsBecomeAvailable(t *testing.T) {
	for kind, want := range map[string]string{
		"Deployment": "availableReplicas", "StatefulSet": "availableReplicas", "ReplicaSet": "availableReplicas", "DaemonSet": "numberAvailable",
	} {
		t.Run(kind, func(t *testing.T) {
			m := newTestMember(t)
			web := deployment("web:1")
			web.SetKind(kind)
			if kind == "DaemonSet" {
				unstructured.RemoveNestedField(web.Object, "spec", "replicas")
			}
			made(t, m, web)
			steps := 0
			for ; steps < 10; steps++ {
				actions := m.working()
				if len(actions) == 0 {
					break
				}
				if err := actions[0].Do(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			have, _ := m.get(KeyOf(web))
			available, _, _ := unstructured.NestedInt64(have.Object, "status", want)
			observed, _, _ := unstructured.NestedInt64(have.Object, "status", "observedGeneration")
			if steps != 3 || available == 0 || observed != 1 {
				t.Errorf("after %d steps: %v", steps, have.Object["status"])
			}
		})
	}
}

// A Service of type LoadBalancer gets an address, and no other does.
func TestLoadBalancer(t *testing.T) {
	for kind, want := range map[string]int{"LoadBalancer": 1, "ClusterIP": 0} {
		m := newTestMember(t)
		made(t, m, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": "shop", "name": "web"}, "spec": map[string]any{"type": kind},
		}})
		if actions := m.working(); len(actions) != want {
			t.Errorf("%s: %d actions", kind, len(actions))
		}
	}
}
