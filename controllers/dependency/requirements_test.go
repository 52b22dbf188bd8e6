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

package dependency

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"

	"strconv"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

var (
	settingsKey = Key(configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"})
	gadgetKey   = Key(configv1alpha1.DependentObjectReference{APIVersion: "example.org/v1", Kind: "Gadget", Namespace: "shop", Name: "a.b"})
	first       = Requirer{Kind: "DirectPropagation", Key: types.NamespacedName{Namespace: "shop", Name: "first"}}
	second      = Requirer{Kind: "DirectPropagation", Key: types.NamespacedName{Namespace: "shop", Name: "second"}}
)

func TestKeysOfDependenciesCanBeReadBack(t *testing.T) {
	for key, want := range map[types.NamespacedName]propagationv1alpha1.ResourceReference{
		settingsKey: {APIVersion: "v1", Kind: "ConfigMap", Name: "settings"},
		gadgetKey:   {APIVersion: "example.org/v1", Kind: "Gadget", Name: "a.b"},
	} {
		if diff := cmp.Diff(want, Reference(key)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

// sharedSteps are changes to what two objects require, and what is then asked for.
var sharedSteps = []struct {
	who  Requirer
	what Requirement
	want string
}{
	{first, Requirement{Unknown: true}, "none"},
	{first, Requirement{Dependencies: []types.NamespacedName{settingsKey}, Clusters: map[string]bool{"member1": true, "member2": true}}, "1: member1 Abort suspended, member2 Abort suspended"},
	{second, overwriting, "2: member1 Abort suspended, member2 Overwrite preserved, member3 Overwrite preserved"},
	{first, Requirement{Unknown: true}, "2: member1 Abort suspended, member2 Overwrite preserved, member3 Overwrite preserved"},
	{first, Requirement{Clusters: map[string]bool{"member1": true}}, "3: member2 Overwrite preserved, member3 Overwrite preserved"},
}

var overwriting = Requirement{
	Dependencies: []types.NamespacedName{settingsKey}, Clusters: map[string]bool{"member2": false, "member3": false},
	Preserve: true, Resolution: propagationv1alpha1.ConflictOverwrite,
}

// sharedSettings tells in words to which clusters the ConfigMap settings goes.
func sharedSettings(required *Requirements) string {
	object := required.Object(settingsKey)
	if object == nil {
		return "none"
	}
	return fmt.Sprintf("%d: %s", object.Generation, asked(object))
}

// TestRequirementsAreShared: a dependency goes to the clusters of all who require
// it, is suspended where all of them are, and is withdrawn with the last of them.
func TestRequirementsAreShared(t *testing.T) {
	required := NewRequirements()
	for i, step := range sharedSteps {
		required.Set(step.who, step.what)
		if got := sharedSettings(required); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	required.Release(second, nil)
	if got := sharedSettings(required); got != "none" {
		t.Errorf("required still: %s", got)
	}
}

// TestUnknownDependenciesFollowNewTerms: while it is not known what follows an object, what
// followed it to its clusters goes on doing so, on the terms that the object has now.
func TestUnknownDependenciesFollowNewTerms(t *testing.T) {
	required := NewRequirements()
	for _, step := range []struct {
		what Requirement
		want string
	}{
		{Requirement{Dependencies: []types.NamespacedName{settingsKey}, Clusters: map[string]bool{"member1": false, "member2": false}}, "1: member1 Abort, member2 Abort"},
		{Requirement{Unknown: true, Clusters: map[string]bool{"member1": true, "member3": false}, Preserve: true}, "2: member1 Abort suspended preserved, member2 Abort preserved"},
		{Requirement{Unknown: true, Clusters: map[string]bool{"member1": false}}, "3: member1 Abort, member2 Abort"},
	} {
		required.Set(first, step.what)
		if got := sharedSettings(required); got != step.want {
			t.Errorf("%+v: %s, want %s", step.what, got, step.want)
		}
	}
}

// TestRequirementsWake: a change wakes whom it concerns, and nothing else wakes
// anybody.
func TestRequirementsWake(t *testing.T) {
	woken := []string{}
	required := NewRequirements()
	for _, kind := range []string{render.DependencyKind, "DirectPropagation"} {
		required.Register(kind, func(key types.NamespacedName, _ Occasion) { woken = append(woken, kind+" "+key.Name) })
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, slices.Compact(woken)); diff != "" {
			t.Errorf("%s: woken (-want +got):\n%s", what, diff)
		}
		woken = nil
	}
	for _, step := range sharedSteps {
		required.Set(step.who, step.what)
	}
	expect("all steps", "Dependency v1/ConfigMap/settings")
	required.Set(second, overwriting)
	expect("nothing is new")
	status := &propagationv1alpha1.PropagationStatus{ObservedGeneration: ptr.To[int64](3)}
	required.Report(settingsKey, status, nil)
	expect("a report", "DirectPropagation second")
	required.Report(settingsKey, status.DeepCopy(), nil)
	expect("the same report")
	required.Release(second, nil)
	expect("the last one goes", "Dependency v1/ConfigMap/settings")
}

// asked is what requirers ask for, by cluster.
func asked(object *Object) string {
	observed := &decide.Observed{Spec: object.GetSpec(), Terms: object.Terms}
	observed.Target()
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

func configMapNo(i int) configv1alpha1.DependentObjectReference {
	return configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings-" + strconv.Itoa(i)}
}

func requirerNo(i int) Requirer {
	return Requirer{Kind: "DirectPropagation", Key: types.NamespacedName{Namespace: "shop", Name: "web-" + strconv.Itoa(i)}}
}

// manyRequirements has objects on a cluster that each need a resource of their own
// and one that all share.
func manyRequirements(count int) *Requirements {
	required := NewRequirements()
	for i := range count {
		required.Set(requirerNo(i), requirementNo(i, "member1"))
	}
	for i := range count {
		required.Object(Key(configMapNo(i)))
	}
	return required
}

func requirementNo(i int, cluster string) Requirement {
	return Requirement{
		Dependencies: []types.NamespacedName{Key(configMapNo(i)), Key(configMapNo(-1))}, Clusters: map[string]bool{cluster: false},
	}
}

// TestRequirementsTakeTheirOwnTime: the work for one object is proportional to what
// is related to it, however many others there are.
func TestRequirementsTakeTheirOwnTime(t *testing.T) {
	few, many := manyRequirements(20), manyRequirements(10000)
	key := func(n int) types.NamespacedName { return Key(configMapNo(n)) }
	for n, tc := range []struct {
		what string
		do   func(r *Requirements, n int)
		want int
	}{
		{"an object changes", func(r *Requirements, n int) { r.Set(requirerNo(n), requirementNo(n, "member2")) }, 4},
		{"an object does not change", func(r *Requirements, n int) { r.Set(requirerNo(n), requirementNo(n, "member1")) }, 0},
		{"an object goes", func(r *Requirements, n int) { r.Release(requirerNo(n), nil) }, 2},
		{"a dependency is looked at", func(r *Requirements, n int) { r.Dependencies[key(n)].stale = true; r.Object(key(n)) }, 1},
		{"a dependency is looked at again", func(r *Requirements, n int) { r.Object(key(n)) }, 0},
		{"a dependency fares", func(r *Requirements, n int) {
			r.Report(key(n), &propagationv1alpha1.PropagationStatus{}, []Trouble{{cluster: "member1"}})
		}, 1},
		{"a resource changes", func(r *Requirements, n int) { r.With(cached.ResourceKey("", "shop", configMapNo(n).Name)) }, 1},
		{"a Work is withdrawn", func(r *Requirements, n int) {
			r.With(cached.WorkNameKey(names.GenerateWorkName("ConfigMap", configMapNo(n).Name, "shop")))
		}, 1},
		{"whether everything is known", func(r *Requirements, n int) { r.IsUnknown(key(n)) }, 0},
		{"an object asks", func(r *Requirements, n int) { r.Fares(requirerNo(n), key(n), map[string]bool{"member1": true}) }, 0},
	} {
		before, beforeMany := few.steps, many.steps
		tc.do(few, n)
		tc.do(many, n)
		if got, gotMany := few.steps-before, many.steps-beforeMany; got != tc.want || gotMany != tc.want {
			t.Errorf("%s: %d steps among 20 objects, %d among 10,000, want %d", tc.what, got, gotMany, tc.want)
		}
	}
}

// BenchmarkRequirements changes one of 10,000 objects with dependencies, reads its
// dependencies, and reports.
func BenchmarkRequirements(b *testing.B) {
	required, own := manyRequirements(10000), Key(configMapNo(7))
	for i := 0; b.Loop(); i++ {
		required.Set(requirerNo(7), requirementNo(7, "member"+strconv.Itoa(i%2)))
		required.Object(own)
		required.Report(own, &propagationv1alpha1.PropagationStatus{ObservedGeneration: ptr.To(int64(i))}, nil)
	}
}

// TestWhatIsAskedForStaysOnItsClusters: an object that overwrites or preserves does
// so on its own clusters, and there for all objects.
func TestWhatIsAskedForStaysOnItsClusters(t *testing.T) {
	overwrite := propagationv1alpha1.ConflictOverwrite
	needs := func(resolution propagationv1alpha1.ConflictResolution, preserve bool, clusters ...string) Requirement {
		now := Requirement{Dependencies: []types.NamespacedName{settingsKey}, Clusters: map[string]bool{}, Resolution: resolution, Preserve: preserve}
		for _, cluster := range clusters {
			now.Clusters[cluster] = false
		}
		return now
	}
	for name, tc := range map[string]struct {
		first, second Requirement
		want          string
	}{
		"apart":           {needs(overwrite, true, "a"), needs("", false, "b"), "a Overwrite preserved, b Abort"},
		"together":        {needs(overwrite, false, "a", "b"), needs("", true, "b", "c"), "a Overwrite, b Overwrite preserved, c Abort preserved"},
		"of one mind":     {needs(overwrite, true, "a"), needs(overwrite, true, "b"), "a Overwrite preserved, b Overwrite preserved"},
		"nobody wants it": {needs("", false, "a"), needs("", false, "b"), "a Abort, b Abort"},
	} {
		t.Run(name, func(t *testing.T) {
			required := NewRequirements()
			required.Set(first, tc.first)
			required.Set(second, tc.second)
			if got := asked(required.Object(settingsKey)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestTheLastWordCounts: an object that asks to keep a dependency and releases it at
// the same time keeps it where nobody else requires it.
func TestTheLastWordCounts(t *testing.T) {
	needs := func(preserve bool, clusters ...string) Requirement {
		now := Requirement{Dependencies: []types.NamespacedName{settingsKey}, Clusters: map[string]bool{}, Preserve: preserve}
		for _, cluster := range clusters {
			now.Clusters[cluster] = false
		}
		return now
	}
	keptAfter := func(required *Requirements, cluster string, preserved bool) bool {
		observed := &decide.Observed{Owner: render.Owner{Kind: render.DependencyKind}, Kept: required.Kept(settingsKey)}
		if object := required.Object(settingsKey); object != nil {
			observed.Kept = object.Kept
		}
		work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: names.GenerateExecutionSpaceName(cluster)}}
		work.Spec.PreserveResourcesOnDeletion = &preserved
		return observed.Keeps(work)
	}
	required := NewRequirements()
	required.Set(first, needs(false, "a", "b"))
	required.Set(second, needs(false, "b"))
	required.Set(first, needs(true, "b"))
	if !keptAfter(required, "a", false) {
		t.Error("a cluster that leaves does not keep the resource, although preserving is requested")
	}
	required.Release(second, ptr.To(false))
	if keptAfter(required, "c", false) || !keptAfter(required, "c", true) {
		t.Error("what the Work says does not count")
	}
	required.Release(first, ptr.To(true))
	if required.Object(settingsKey) != nil || !keptAfter(required, "b", false) {
		t.Error("the last word of an object that is deleted does not count")
	}
	required.Set(first, needs(false, "b"))
	required.Object(settingsKey)
	required.Release(first, ptr.To(false))
	if keptAfter(required, "b", false) {
		t.Error("it is kept for whom it is no affair of any more")
	}
	required.Forget(settingsKey)
	if len(required.Dependencies)+len(required.index)+len(required.required) > 0 {
		t.Errorf("what nobody requires is remembered: %+v", required)
	}
}

// TestOnlyItsOwnNamespaceKeepsADependency: an object with unknown dependencies in
// one namespace keeps nothing in another.
func TestOnlyItsOwnNamespaceKeepsADependency(t *testing.T) {
	elsewhere := Key(configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "bank", Name: "key"})
	required := NewRequirements()
	required.expect(first)
	if !required.IsUnknown(settingsKey) || required.IsUnknown(elsewhere) {
		t.Error("an object of shop concerns shop alone")
	}
	required.expect(Requirer{Kind: "ClusterDirectPropagation", Key: types.NamespacedName{Name: "all"}})
	if !required.IsUnknown(elsewhere) {
		t.Error("a cluster-scoped object may require what is in any namespace")
	}
	required.Release(Requirer{Kind: "ClusterDirectPropagation", Key: types.NamespacedName{Name: "all"}}, nil)
	required.Set(first, Requirement{})
	if required.IsUnknown(settingsKey) || required.IsUnknown(elsewhere) {
		t.Error("all is known")
	}
}

// TestAnObjectReachesItsOwnNamespace: an interpreter may report anything.
func TestAnObjectReachesItsOwnNamespace(t *testing.T) {
	reference := func(namespace string) configv1alpha1.DependentObjectReference {
		return configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: "key"}
	}
	for name, tc := range map[string]struct {
		owner     render.Owner
		reference configv1alpha1.DependentObjectReference
		want      string
	}{
		"its own":                            {render.Owner{Namespace: "shop"}, reference("shop"), ""},
		"another":                            {render.Owner{Namespace: "shop"}, reference("bank"), "it is in namespace bank"},
		"none":                               {render.Owner{Namespace: "shop"}, reference(""), "no namespace is named for it"},
		"any, for a cluster-scoped one":      {render.Owner{}, reference("bank"), ""},
		"none, for a cluster-scoped one too": {render.Owner{}, reference(""), ""},
	} {
		if _, got := OutOfReach(tc.owner, tc.reference); tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestAnAccountChangesWhoVouches: a change of the account of a requirer triggers a
// reconcile of the dependency.
func TestAnAccountChangesWhoVouches(t *testing.T) {
	required, woken := NewRequirements(), 0
	required.Register(render.DependencyKind, func(types.NamespacedName, Occasion) { woken++ })
	needs := Requirement{Dependencies: []types.NamespacedName{settingsKey}, Clusters: map[string]bool{"a": false}}
	required.Set(first, needs)
	needs.Account = types.NamespacedName{Namespace: "shop", Name: "tenant"}
	woken = 0
	required.Set(first, needs)
	if woken == 0 {
		t.Error("nothing is woken")
	}
}

// TestADependencyIsInPlaceOnEveryCluster: clusters without a row count too, as do
// clusters without a report.
func TestADependencyIsInPlaceOnEveryCluster(t *testing.T) {
	const count, waiting = propagationv1alpha1.MaxClusterRows + 50, "waiting for the cluster to confirm the current revision"
	targeted, rows := map[string]bool{}, []propagationv1alpha1.ClusterStatus{}
	needs := Requirement{Dependencies: []types.NamespacedName{settingsKey}, Clusters: map[string]bool{}}
	observed := &decide.Observed{Spec: &propagationv1alpha1.PropagationSpec{}}
	for i := range count {
		name := fmt.Sprintf("member-%03d", i)
		needs.Clusters[name], targeted[name] = false, true
		observed.Spec.Clusters = append(observed.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: name})
		rows = append(rows, propagationv1alpha1.ClusterStatus{Name: name, Applied: metav1.ConditionUnknown, Reason: propagationv1alpha1.ReasonApplying, Message: waiting})
	}
	observed.Target()
	status := &propagationv1alpha1.PropagationStatus{Clusters: rows[:propagationv1alpha1.MaxClusterRows]}
	last := rows[count-1].Name
	required := NewRequirements()
	required.Set(first, needs)
	required.Object(settingsKey)
	required.Report(settingsKey, status, TroublesOf(observed, rows))
	for name, tc := range map[string]struct {
		targeted map[string]bool
		want     string
	}{
		"a cluster without a row":                {map[string]bool{last: true}, last + ": " + waiting},
		"a cluster that has just come to be one": {map[string]bool{"another": true}, "another: it has not been looked at there yet"},
		"no cluster":                             {nil, ""},
	} {
		if _, got := required.Fares(second, settingsKey, tc.targeted); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	required.Report(settingsKey, status, nil)
	if reason, message := required.Fares(first, settingsKey, targeted); reason != "" {
		t.Errorf("in place everywhere, and %s: %s", reason, message)
	}
}

// TestSameStateSameMessage: a message that changes by itself is a status that is written
// again and again.
func TestSameStateSameMessage(t *testing.T) {
	required := NewRequirements()
	required.Set(first, Requirement{Dependencies: []types.NamespacedName{settingsKey}, Clusters: map[string]bool{"a": false}})
	required.Object(settingsKey)
	required.Report(settingsKey, &propagationv1alpha1.PropagationStatus{ObservedGeneration: ptr.To(int64(1))}, nil)
	for range 50 {
		if _, got := required.Fares(first, settingsKey, map[string]bool{"a": true, "b": true, "c": true, "d": true}); got != "b: it has not been looked at there yet" {
			t.Fatalf("the message is %q", got)
		}
	}
}

// TestOddDependenciesAreReported: an interpreter may report references that nothing can
// have, and the status with them must still be one that the API server accepts.
func TestOddDependenciesAreReported(t *testing.T) {
	odd := configv1alpha1.DependentObjectReference{Namespace: "other", Kind: strings.Repeat("K", 64), Name: "\x1b[31m" + strings.Repeat("n", 300)}
	got := unready(odd, "Reason", "message")
	if got.APIVersion != "(none)" || len(got.Kind) > 63 || len(got.Name) > 253 || strings.Contains(got.Name, "\x1b") {
		t.Errorf("reported: %+v", got)
	}
}
