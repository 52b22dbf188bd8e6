//go:build e2e && e2e_manifests

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

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// manifestPatience is how long all manifests may take, one way. By default, Karmada's
// controllers make 40 requests per second.
const manifestPatience = 20 * time.Minute

// batch is what is propagated both ways.
type batch struct {
	ns *Namespace
	t  *testing.T
	// objects exist on the control plane. Those that others need come first.
	objects []*unstructured.Unstructured
	// rejected counts the manifests that the API server does not accept, by its reason.
	rejected map[string]int
}

// Manifests that people really use are propagated directly and then by policies. What the
// members run is the same both ways. The manifests are those of Argo CD, and all in the
// folder that E2E_MANIFESTS names.
func TestManifestsBothWays(t *testing.T) {
	b := &batch{ns: newNamespace(t), t: t, rejected: map[string]int{}}
	b.mayPropagateEverything()
	b.reads(argoCDManifests(t))
	if folder := os.Getenv("E2E_MANIFESTS"); folder != "" {
		b.reads(folder)
	}
	t.Cleanup(b.clean)
	t.Logf("%d objects of %d kinds; rejected by the API server: %v", len(b.objects), len(b.kinds()), b.rejected)
	if len(b.objects) < 30 {
		t.Fatalf("only %d objects, so the test proves little", len(b.objects))
	}

	began := time.Now()
	b.goesDirectly()
	directly := b.ran(t, "directly")
	t.Logf("directly: all are on both members after %v", time.Since(began).Round(time.Second))
	b.isWithdrawn()

	began = time.Now()
	b.goesByPolicy()
	byPolicy := b.ran(t, "by policy")
	t.Logf("by policy: all are on both members after %v", time.Since(began).Round(time.Second))
	b.policiesEnd()
	for _, key := range slices.Sorted(maps.Keys(directly)) {
		if difference := differenceOf(byPolicy[key], directly[key]); difference != "" {
			t.Errorf("%s differs (-by policy +directly):\n%s", key, difference)
		}
	}
}

// argoCDManifests returns the folder with the manifests of the pinned version of Argo CD.
func argoCDManifests(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-cd/v3")
	command.Dir = filepath.Join(bed.Root, "hack", "fleet", "argocd")
	folder, err := command.Output()
	if err != nil {
		t.Fatalf("finding Argo CD: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(folder)), "manifests", "ha", "install.yaml")
}

// reads creates what the YAML files of a folder contain: first CustomResourceDefinitions,
// then everything else.
func (b *batch) reads(folder string) {
	b.t.Helper()
	var all []*unstructured.Unstructured
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if extension := filepath.Ext(path); err != nil || entry.IsDir() || extension != ".yaml" && extension != ".yml" {
			return err
		}
		all = append(all, b.decoded(path)...)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	definitions := func(object *unstructured.Unstructured) bool { return object.GetKind() == "CustomResourceDefinition" }
	slices.SortStableFunc(all, func(x, y *unstructured.Unstructured) int {
		switch {
		case definitions(x) && !definitions(y):
			return -1
		case definitions(y) && !definitions(x):
			return 1
		}
		return 0
	})
	for _, object := range all {
		b.has(object)
	}
}

// decoded returns the objects in a file. What is no YAML, such as a template, is left out.
func (b *batch) decoded(path string) (objects []*unstructured.Unstructured) {
	file, err := os.Open(path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		switch {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			b.rejected["no YAML object"]++
			return objects
		case object.GetKind() == "" || object.GetName() == "" || object.IsList():
			b.rejected["no single named object"]++
			continue
		}
		objects = append(objects, object)
	}
}

// has creates an object on the control plane, if the API server accepts it.
func (b *batch) has(object *unstructured.Unstructured) {
	mapping, err := b.mappingOf(object)
	if err != nil {
		b.rejected["unknown kind"]++
		return
	}
	object.SetNamespace("")
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		object.SetNamespace(b.ns.Name)
	} else if object.GetKind() != "CustomResourceDefinition" {
		object.SetName(b.ns.Name + "-" + object.GetName())
	}
	unstructured.RemoveNestedField(object.Object, "status")
	switch err := karmada.Create(b.ns.Ctx, object); {
	case apierrors.IsAlreadyExists(err):
		b.rejected["exists already"]++
	case err != nil:
		b.rejected[string(apierrors.ReasonForError(err))]++
	default:
		b.objects = append(b.objects, object)
		b.ns.NoteWork(referenceOf(object))
	}
}

// mappingOf returns the mapping of the kind of an object. That of a kind whose definition
// was just created exists a moment later.
func (b *batch) mappingOf(object *unstructured.Unstructured) (*meta.RESTMapping, error) {
	kind := object.GroupVersionKind()
	mapping, err := karmada.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err == nil || !slices.ContainsFunc(b.objects, func(other *unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(other.Object, "spec", "group")
		return other.GetKind() == "CustomResourceDefinition" && group == kind.Group
	}) {
		return mapping, err
	}
	b.ns.Eventually(kind.String()+" is served", func(context.Context) (err error) {
		mapping, err = karmada.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		return err
	})
	return mapping, nil
}

func (b *batch) kinds() map[string]bool {
	kinds := map[string]bool{}
	for _, object := range b.objects {
		kinds[object.GroupVersionKind().GroupKind().String()] = true
	}
	return kinds
}

func referenceOf(object *unstructured.Unstructured) propagationv1alpha1.ResourceReference {
	return testbed.Reference(object.GetAPIVersion(), object.GetKind(), object.GetName())
}

// mayPropagateEverything lets the controller read every kind.
func (b *batch) mayPropagateEverything() {
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: b.ns.Name, Labels: map[string]string{"rbac.karmada-direct.io/aggregate-to-propagated": "true"}},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"*"}, Resources: []string{"*/status"}, Verbs: []string{"update"}},
		},
	}
	if err := karmada.Create(b.ns.Ctx, role); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := karmada.Delete(context.Background(), role); err != nil {
			b.t.Error(err)
		}
	})
}

// directly returns the object that propagates a resource.
func (b *batch) directly(resource *unstructured.Unstructured) client.Object {
	name := strings.ToLower(resource.GetKind()) + "." + resource.GetName()
	spec := propagationv1alpha1.PropagationSpec{Resource: referenceOf(resource), Clusters: testbed.Targets(testbed.NamesOf(members)...)}
	if resource.GetNamespace() == "" {
		return &propagationv1alpha1.ClusterDirectPropagation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	return &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns.Name, Name: name}, Spec: spec}
}

func (b *batch) goesDirectly() {
	for _, resource := range b.objects {
		if err := karmada.Create(b.ns.Ctx, b.directly(resource)); err != nil {
			b.t.Fatalf("propagating %s %s: %v", resource.GetKind(), resource.GetName(), err)
		}
	}
	b.ns.Within(manifestPatience, "each cluster confirms each resource", func(ctx context.Context) error {
		for _, resource := range b.objects {
			if err := b.isConfirmed(ctx, b.directly(resource)); err != nil {
				return err
			}
		}
		return nil
	})
}

// isConfirmed returns an error unless every cluster has confirmed a resource. It need not
// be healthy: many examples need what no member has.
func (b *batch) isConfirmed(ctx context.Context, object client.Object) error {
	if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	var status propagationv1alpha1.PropagationStatus
	switch typed := object.(type) {
	case *DirectPropagation:
		status = typed.Status
	case *propagationv1alpha1.ClusterDirectPropagation:
		status = typed.Status
	}
	if ptr.Deref(status.Summary.Applied, 0) != int32(len(members)) {
		return fmt.Errorf("%s: %+v", object.GetName(), status)
	}
	return nil
}

// isWithdrawn deletes all objects that propagate, and waits until the members have nothing.
func (b *batch) isWithdrawn() {
	for _, resource := range b.objects {
		if err := karmada.Delete(b.ns.Ctx, b.directly(resource)); client.IgnoreNotFound(err) != nil {
			b.t.Fatal(err)
		}
	}
	b.ns.Within(manifestPatience, "nothing is left on the members", func(ctx context.Context) error {
		for _, resource := range b.objects {
			object := b.directly(resource)
			if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s still exists: %w", object.GetName(), err)
			}
		}
		return b.isNowhere(ctx)
	})
}

// isNowhere returns an error if a member has any of the objects.
func (b *batch) isNowhere(ctx context.Context) error {
	for _, member := range members {
		for _, resource := range b.objects {
			found := resource.DeepCopy()
			err := member.Get(ctx, client.ObjectKeyFromObject(resource), found)
			if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
				return fmt.Errorf("%s still has %s %s: %w", member, resource.GetKind(), resource.GetName(), err)
			}
		}
	}
	return nil
}
