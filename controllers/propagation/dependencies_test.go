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

package propagation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

var (
	settingsKey = dependencyKey(configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"})
	gadgetKey   = dependencyKey(configv1alpha1.DependentObjectReference{APIVersion: "example.org/v1", Kind: "Gadget", Namespace: "shop", Name: "a.b"})
	first       = requirer{kind: "DirectPropagation", key: types.NamespacedName{Namespace: "shop", Name: "first"}}
	second      = requirer{kind: "DirectPropagation", key: types.NamespacedName{Namespace: "shop", Name: "second"}}
)

func TestKeysOfDependenciesCanBeReadBack(t *testing.T) {
	for key, want := range map[types.NamespacedName]propagationv1alpha1.ResourceReference{
		settingsKey: {APIVersion: "v1", Kind: "ConfigMap", Name: "settings"},
		gadgetKey:   {APIVersion: "example.org/v1", Kind: "Gadget", Name: "a.b"},
	} {
		if diff := cmp.Diff(want, referenceOf(key)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

// TestRequirementsAreShared: a dependency goes to the clusters of all who
// require it, is suspended where all are, and is gone with the last of them.
func TestRequirementsAreShared(t *testing.T) {
	woken := []string{}
	required := newRequirements()
	for _, kind := range []string{render.DependencyKind, "DirectPropagation"} {
		required.register(kind, func(key types.NamespacedName, _ int) { woken = append(woken, kind+" "+key.Name) })
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, slices.Compact(woken)); diff != "" {
			t.Errorf("%s: woken (-want +got):\n%s", what, diff)
		}
		woken = nil
	}
	told := func() string {
		object := required.object(settingsKey)
		if object == nil {
			return "none"
		}
		return fmt.Sprintf("%d: %s", object.Generation, asked(object))
	}
	steps := []struct {
		who  requirer
		what requirement
		want string
	}{
		{first, requirement{unknown: true}, "none"},
		{first, requirement{dependencies: []types.NamespacedName{settingsKey}, clusters: map[string]bool{"member1": true, "member2": true}}, "1: member1 Abort suspended, member2 Abort suspended"},
		{second, requirement{dependencies: []types.NamespacedName{settingsKey}, clusters: map[string]bool{"member2": false, "member3": false}, preserve: true, resolution: propagationv1alpha1.ConflictOverwrite}, "2: member1 Abort suspended, member2 Overwrite preserved, member3 Overwrite preserved"},
		{first, requirement{unknown: true}, "2: member1 Abort suspended, member2 Overwrite preserved, member3 Overwrite preserved"},
		{first, requirement{clusters: map[string]bool{"member1": true}}, "3: member2 Overwrite preserved, member3 Overwrite preserved"},
	}
	for i, step := range steps {
		required.set(step.who, step.what)
		if got := told(); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	expect("all steps", "Dependency v1/ConfigMap/settings")
	required.set(second, steps[2].what)
	expect("nothing is new")
	required.report(settingsKey, &propagationv1alpha1.PropagationStatus{ObservedGeneration: ptr.To[int64](3)}, nil)
	expect("a report", "DirectPropagation second")
	required.report(settingsKey, &propagationv1alpha1.PropagationStatus{ObservedGeneration: ptr.To[int64](3)}, nil)
	expect("the same report")
	required.release(second, nil)
	expect("the last one goes", "Dependency v1/ConfigMap/settings")
	if got := told(); got != "none" {
		t.Errorf("required still: %s", got)
	}
}

// asked is what is asked for of a dependency, cluster by cluster.
func asked(object *dependencyObject) string {
	observed := &Observed{Spec: object.GetSpec(), Terms: object.terms}
	observed.target()
	told := []string{}
	for _, target := range observed.Targets {
		words := fmt.Sprintf("%s %s", target.Cluster, target.ConflictResolution)
		if target.Suspend {
			words += " suspended"
		}
		if target.Preserve {
			words += " preserved"
		}
		told = append(told, words)
	}
	return strings.Join(told, ", ")
}

// TestNothingIsKnownAtFirst: as long as it is not known what follows an object,
// nothing is taken for not required.
func TestNothingIsKnownAtFirst(t *testing.T) {
	object := webPropagation()
	object.Spec.PropagateDeps = ptr.To(true)
	b := newBench(t, webDeployment(), object, memberCluster("member1"), memberCluster("member2"))
	expect := func(want bool) {
		t.Helper()
		if got, err := b.unknownRequirements(t.Context(), settingsKey); err != nil || got != want {
			t.Errorf("unknown: %t (%v), want %t", got, err, want)
		}
	}
	expect(true)
	b.settle(t)
	expect(false)
	b.requirements = newRequirements()
	expect(true)
	if err := b.server.Delete(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	expect(true)
}
