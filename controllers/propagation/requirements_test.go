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
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

func configMapNo(i int) configv1alpha1.DependentObjectReference {
	return configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings-" + strconv.Itoa(i)}
}

func requirerNo(i int) requirer {
	return requirer{kind: "DirectPropagation", key: types.NamespacedName{Namespace: "shop", Name: "web-" + strconv.Itoa(i)}}
}

// manyRequirements has objects that each need a resource of their own on a
// cluster, and one that all share.
func manyRequirements(count int) *requirements {
	required := newRequirements()
	for i := range count {
		required.set(requirerNo(i), requirementNo(i, "member1"))
	}
	for i := range count {
		required.object(dependencyKey(configMapNo(i)))
	}
	return required
}

func requirementNo(i int, cluster string) requirement {
	return requirement{
		dependencies: []types.NamespacedName{dependencyKey(configMapNo(i)), dependencyKey(configMapNo(-1))}, clusters: map[string]bool{cluster: false},
	}
}

// TestRequirementsTakeTheirOwnTime: what is done for one object goes over what
// that one has to do with, however many others there are.
func TestRequirementsTakeTheirOwnTime(t *testing.T) {
	few, many := manyRequirements(20), manyRequirements(10000)
	key := func(n int) types.NamespacedName { return dependencyKey(configMapNo(n)) }
	for n, tc := range []struct {
		what string
		do   func(r *requirements, n int)
		want int
	}{
		{"an object changes", func(r *requirements, n int) { r.set(requirerNo(n), requirementNo(n, "member2")) }, 4},
		{"an object does not change", func(r *requirements, n int) { r.set(requirerNo(n), requirementNo(n, "member1")) }, 0},
		{"an object goes", func(r *requirements, n int) { r.release(requirerNo(n), nil) }, 2},
		{"a dependency is looked at", func(r *requirements, n int) { r.dependencies[key(n)].stale = true; r.object(key(n)) }, 1},
		{"a dependency is looked at again", func(r *requirements, n int) { r.object(key(n)) }, 0},
		{"a dependency fares", func(r *requirements, n int) {
			r.report(key(n), &propagationv1alpha1.PropagationStatus{}, []trouble{{cluster: "member1"}})
		}, 1},
		{"a resource changes", func(r *requirements, n int) { r.with(resourceKey("", "shop", configMapNo(n).Name)) }, 1},
		{"a Work is withdrawn", func(r *requirements, n int) {
			r.with(workNameKey(names.GenerateWorkName("ConfigMap", configMapNo(n).Name, "shop")))
		}, 1},
		{"whether everything is known", func(r *requirements, n int) { r.isUnknown(key(n)) }, 0},
		{"an object asks", func(r *requirements, n int) { r.fares(requirerNo(n), key(n), map[string]bool{"member1": true}) }, 0},
	} {
		before, beforeMany := few.steps, many.steps
		tc.do(few, n)
		tc.do(many, n)
		if got, gotMany := few.steps-before, many.steps-beforeMany; got != tc.want || gotMany != tc.want {
			t.Errorf("%s: %d steps among 20 objects, %d among 10,000, want %d", tc.what, got, gotMany, tc.want)
		}
	}
}

// BenchmarkRequirements changes one of 10,000 objects that others follow, looks
// at what follows it, and reports.
func BenchmarkRequirements(b *testing.B) {
	required, own := manyRequirements(10000), dependencyKey(configMapNo(7))
	for i := 0; b.Loop(); i++ {
		required.set(requirerNo(7), requirementNo(7, "member"+strconv.Itoa(i%2)))
		required.object(own)
		required.report(own, &propagationv1alpha1.PropagationStatus{ObservedGeneration: ptr.To(int64(i))}, nil)
	}
}

// TestADependencyIsInPlaceOnEveryCluster: more clusters than the status has rows
// count, and those of which nothing was reported yet.
func TestADependencyIsInPlaceOnEveryCluster(t *testing.T) {
	const count = propagationv1alpha1.MaxClusterRows + 50
	clusters, options, targeted := []string{}, []sceneOption{}, map[string]bool{}
	needs := requirement{dependencies: []types.NamespacedName{settingsKey}, clusters: map[string]bool{}}
	for i := range count {
		name := fmt.Sprintf("member-%03d", i)
		clusters, needs.clusters[name], targeted[name] = append(clusters, name), false, true
		options = append(options, on(name, func(work *workv1alpha1.Work) { work.Status.Conditions = nil }))
	}
	observed := scene(clusters, options...)
	status, rows := statusAndRows(observed, &Outcome{})
	last := rows[len(rows)-1].Name
	if len(status.Clusters) != propagationv1alpha1.MaxClusterRows || last != fmt.Sprintf("member-%03d", count-1) {
		t.Fatalf("%d rows, the last of all is %s", len(status.Clusters), last)
	}
	required := newRequirements()
	required.set(first, needs)
	required.object(settingsKey)
	required.report(settingsKey, status, troublesOf(observed, rows))
	for name, tc := range map[string]struct {
		targeted map[string]bool
		want     string
	}{
		"a cluster without a row":                {map[string]bool{last: true}, last + ": waiting for the cluster to confirm the current revision"},
		"a cluster that has just come to be one": {map[string]bool{"another": true}, "another: it has not been looked at there yet"},
		"no cluster":                             {nil, ""},
	} {
		if _, got := required.fares(second, settingsKey, tc.targeted); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	required.report(settingsKey, status, nil)
	if reason, message := required.fares(first, settingsKey, targeted); reason != "" {
		t.Errorf("in place everywhere, and %s: %s", reason, message)
	}
}

// TestWhatIsAskedForStaysOnItsClusters: who overwrites or preserves does so on
// the own clusters, and there for all.
func TestWhatIsAskedForStaysOnItsClusters(t *testing.T) {
	overwrite := propagationv1alpha1.ConflictOverwrite
	needs := func(resolution propagationv1alpha1.ConflictResolution, preserve bool, clusters ...string) requirement {
		now := requirement{dependencies: []types.NamespacedName{settingsKey}, clusters: map[string]bool{}, resolution: resolution, preserve: preserve}
		for _, cluster := range clusters {
			now.clusters[cluster] = false
		}
		return now
	}
	for name, tc := range map[string]struct {
		first, second requirement
		want          string
	}{
		"apart":           {needs(overwrite, true, "a"), needs("", false, "b"), "a Overwrite preserved, b Abort"},
		"together":        {needs(overwrite, false, "a", "b"), needs("", true, "b", "c"), "a Overwrite, b Overwrite preserved, c Abort preserved"},
		"of one mind":     {needs(overwrite, true, "a"), needs(overwrite, true, "b"), "a Overwrite preserved, b Overwrite preserved"},
		"nobody wants it": {needs("", false, "a"), needs("", false, "b"), "a Abort, b Abort"},
	} {
		t.Run(name, func(t *testing.T) {
			required := newRequirements()
			required.set(first, tc.first)
			required.set(second, tc.second)
			if got := asked(required.object(settingsKey)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestTheLastWordCounts: who asks to keep a dependency and lets it go in one
// breath keeps it, where nobody else requires it.
func TestTheLastWordCounts(t *testing.T) {
	needs := func(preserve bool, clusters ...string) requirement {
		now := requirement{dependencies: []types.NamespacedName{settingsKey}, clusters: map[string]bool{}, preserve: preserve}
		for _, cluster := range clusters {
			now.clusters[cluster] = false
		}
		return now
	}
	keptAfter := func(required *requirements, cluster string, preserved bool) bool {
		observed := &Observed{Owner: render.Owner{Kind: render.DependencyKind}, Kept: required.kept(settingsKey)}
		if object := required.object(settingsKey); object != nil {
			observed.Kept = object.kept
		}
		work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: names.GenerateExecutionSpaceName(cluster)}}
		work.Spec.PreserveResourcesOnDeletion = &preserved
		return observed.keeps(work)
	}
	required := newRequirements()
	required.set(first, needs(false, "a", "b"))
	required.set(second, needs(false, "b"))
	required.set(first, needs(true, "b"))
	if !keptAfter(required, "a", false) {
		t.Error("a cluster that leaves is not let go as was asked for")
	}
	required.release(second, ptr.To(false))
	if keptAfter(required, "c", false) || !keptAfter(required, "c", true) {
		t.Error("what the Work says does not count")
	}
	required.release(first, ptr.To(true))
	if required.object(settingsKey) != nil || !keptAfter(required, "b", false) {
		t.Error("the last word of an object that is deleted does not count")
	}
	required.set(first, needs(false, "b"))
	required.object(settingsKey)
	required.release(first, ptr.To(false))
	if keptAfter(required, "b", false) {
		t.Error("it is kept for whom it is no affair of any more")
	}
	required.forget(settingsKey)
	if len(required.dependencies)+len(required.index)+len(required.required) > 0 {
		t.Errorf("what nobody requires is remembered: %+v", required)
	}
}

// TestOnlyItsOwnNamespaceKeepsADependency: what is not known of an object in one
// namespace keeps nothing in another.
func TestOnlyItsOwnNamespaceKeepsADependency(t *testing.T) {
	elsewhere := dependencyKey(configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "bank", Name: "key"})
	required := newRequirements()
	required.expect(first)
	if !required.isUnknown(settingsKey) || required.isUnknown(elsewhere) {
		t.Error("an object of shop concerns shop alone")
	}
	required.expect(requirer{kind: "ClusterDirectPropagation", key: types.NamespacedName{Name: "all"}})
	if !required.isUnknown(elsewhere) {
		t.Error("a cluster-scoped object may require what is in any namespace")
	}
	required.release(requirer{kind: "ClusterDirectPropagation", key: types.NamespacedName{Name: "all"}}, nil)
	required.set(first, requirement{})
	if required.isUnknown(settingsKey) || required.isUnknown(elsewhere) {
		t.Error("all is known")
	}
}

// TestAnObjectReachesItsOwnNamespace: an interpreter may name what it likes.
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
		if _, got := outOfReach(tc.owner, tc.reference); tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// naming is an interpreter that names the same dependencies for everything.
type naming struct {
	resourceinterpreter.ResourceInterpreter

	references []configv1alpha1.DependentObjectReference
}

func (n naming) GetDependencies(*unstructured.Unstructured) ([]configv1alpha1.DependentObjectReference, error) {
	return slices.Clone(n.references), nil
}

func followed() *propagationv1alpha1.DirectPropagation {
	object := webPropagation()
	object.Spec.PropagateDeps = ptr.To(true)
	return object
}

// TestWhatIsOutOfReachIsNotFollowed: it is named with what to do, and what is in
// reach follows.
func TestWhatIsOutOfReachIsNotFollowed(t *testing.T) {
	b := newBench(t, webDeployment(), followed(), memberCluster("member1"), memberCluster("member2"))
	b.Interpreter.ResourceInterpreter = naming{b.Interpreter.ResourceInterpreter, []configv1alpha1.DependentObjectReference{
		{APIVersion: "v1", Kind: "Secret", Namespace: "bank", Name: "key"},
		{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "key"},
		{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "key"},
		{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "admin"},
	}}
	b.settle(t)
	got := []string{}
	for key := range b.requirements.dependencies {
		got = append(got, key.String())
	}
	if diff := cmp.Diff([]string{"shop/v1/Secret/key"}, got); diff != "" {
		t.Errorf("what follows (-want +got):\n%s", diff)
	}
	fares := b.propagation(t).Status.Dependencies
	told := []string{}
	for _, unready := range fares.Unready {
		told = append(told, unready.Kind+" "+unready.Reason+": "+unready.Message)
	}
	want := []string{
		"ClusterRole ResourceScopeMismatch: no namespace is named for it; have dependencyInterpretation name namespace shop, or use a ClusterDirectPropagation if the kind is cluster-scoped",
		"Secret ResourceScopeMismatch: it is in namespace bank, and what follows a DirectPropagation is in its own; propagate it by a DirectPropagation there",
		"Secret Applying: it has not been looked at yet",
	}
	if diff := cmp.Diff(want, told); diff != "" || *fares.Total != 3 {
		t.Errorf("told of %d (-want +got):\n%s", *fares.Total, diff)
	}
}

// TestANamespaceDoesNotHideAClusterScopedResource: a name with a namespace would
// otherwise read the cluster-scoped resource of the name.
func TestANamespaceDoesNotHideAClusterScopedResource(t *testing.T) {
	// One that Karmada does not synchronize by itself.
	labels := map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"}
	b := newBench(t, memberCluster("member1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank", UID: "bank", Labels: labels}})
	b.Kind = render.DependencyKind
	for key, want := range map[types.NamespacedName]string{
		{Namespace: "shop", Name: "v1/Namespace/bank"}: "v1 Namespace is cluster-scoped and does not follow an object in a namespace; use a ClusterDirectPropagation for it",
		{Name: "apps/v1/Deployment/web"}:               "apps/v1 Deployment is namespaced, and dependencyInterpretation names no namespace for it; have it name one",
		{Name: "v1/Namespace/bank"}:                    "",
	} {
		b.writes = nil
		needs := requirement{dependencies: []types.NamespacedName{key}, clusters: map[string]bool{"member1": false}}
		b.requirements.set(first, needs)
		if _, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); (err != nil) != (want != "") {
			t.Errorf("%s: %v", key, err)
		}
		if wrote := len(b.writes) > 0; wrote != (want == "") {
			t.Errorf("%s: written %v", key, b.writes)
		}
		_, got := b.requirements.fares(first, key, map[string]bool{"member1": true})
		if want != "" && got != "member1: "+want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestTooManyDependenciesAreRefused: what is there stays, and the status says
// what to do.
func TestTooManyDependenciesAreRefused(t *testing.T) {
	b := newBench(t, webDeployment(), followed(), memberCluster("member1"), memberCluster("member2"))
	references := []configv1alpha1.DependentObjectReference{}
	for i := range propagationv1alpha1.MaxDependencies + 1 {
		references = append(references, configMapNo(i))
	}
	b.Interpreter.ResourceInterpreter = naming{b.Interpreter.ResourceInterpreter, references[1:]}
	b.settle(t)
	if got := len(b.requirements.dependencies); got != propagationv1alpha1.MaxDependencies {
		t.Errorf("%d resources follow", got)
	}
	b.Interpreter.ResourceInterpreter = naming{b.Interpreter.ResourceInterpreter, references}
	b.changeImage(t, "nginx:2")
	b.settle(t)
	ready := meta.FindStatusCondition(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady)
	want := "spec.propagateDeps: Deployment web needs 257 resources, and 256 at most follow an object; split it, or leave propagateDeps out and propagate them by objects of their own"
	if ready.Reason != propagationv1alpha1.ReasonRenderFailed || ready.Message != want {
		t.Errorf("Ready: %s, %s", ready.Reason, ready.Message)
	}
	if got := len(b.requirements.dependencies); got != propagationv1alpha1.MaxDependencies || len(b.writes) != 1 {
		t.Errorf("%d resources follow, written %v", got, b.writes)
	}
}

// TestADependencyIsOverwrittenWhereThatIsAskedFor: what a Work says of a conflict,
// on itself and on its manifest, is what is asked for on its cluster.
func TestADependencyIsOverwrittenWhereThatIsAskedFor(t *testing.T) {
	b := newBench(t, memberCluster("member1"), memberCluster("member2"), webDeployment())
	b.Kind = render.DependencyKind
	key := types.NamespacedName{Namespace: "shop", Name: "apps/v1/Deployment/web"}
	needs := func(cluster string, resolution propagationv1alpha1.ConflictResolution) requirement {
		return requirement{dependencies: []types.NamespacedName{key}, clusters: map[string]bool{cluster: false}, resolution: resolution}
	}
	b.requirements.set(first, needs("member1", propagationv1alpha1.ConflictOverwrite))
	b.requirements.set(second, needs("member2", propagationv1alpha1.ConflictAbort))
	look := func() {
		t.Helper()
		if _, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	look()
	for _, work := range b.works(t) {
		manifest := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, manifest); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"karmada-es-member1": "overwrite", "karmada-es-member2": "abort"}[work.Namespace]
		const annotation = workv1alpha2.ResourceConflictResolutionAnnotation
		if work.Annotations[annotation] != want || manifest.Annotations[annotation] != want {
			t.Errorf("%s: %q on the Work, %q on its manifest, want %q", work.Namespace, work.Annotations[annotation], manifest.Annotations[annotation], want)
		}
	}
	b.writes = nil
	look()
	if len(b.writes) > 0 {
		t.Errorf("written again: %v", b.writes)
	}
}
