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
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter"

	"fmt"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

func configMapNo(i int) configv1alpha1.DependentObjectReference {
	return configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprintf("settings-%d", i)}
}

// Two objects, and a ConfigMap that both of them require.
var (
	settings      = dependency.Key(configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"})
	oneObject     = dependency.Requirer{Kind: "DirectPropagation", Key: types.NamespacedName{Namespace: "shop", Name: "first"}}
	anotherObject = dependency.Requirer{Kind: "DirectPropagation", Key: types.NamespacedName{Namespace: "shop", Name: "second"}}
)

// naming is an interpreter that names the same dependencies for every resource.
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

// TestDependenciesOutOfReachAreRefused: the status names them and says what to do.
// The other dependencies are propagated.
func TestDependenciesOutOfReachAreRefused(t *testing.T) {
	b := newBench(t, webDeployment(), followed(), memberCluster("member1"), memberCluster("member2"))
	b.Interpreter.ResourceInterpreter = naming{b.Interpreter.ResourceInterpreter, []configv1alpha1.DependentObjectReference{
		{APIVersion: "v1", Kind: "Secret", Namespace: "bank", Name: "key"},
		{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "key"},
		{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "key"},
		{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "admin"},
	}}
	b.settle(t)
	got := []string{}
	for key := range b.requirements.Dependencies {
		got = append(got, key.String())
	}
	if diff := cmp.Diff([]string{"shop/v1/Secret/key"}, got); diff != "" {
		t.Errorf("dependencies (-want +got):\n%s", diff)
	}
	fares := b.propagation(t).Status.Dependencies
	told := []string{}
	for _, unready := range fares.Unready {
		told = append(told, unready.Kind+" "+unready.Reason+": "+unready.Message)
	}
	want := []string{
		"ClusterRole ResourceScopeMismatch: no namespace is named for it; have dependencyInterpretation name namespace shop, or use a ClusterDirectPropagation if the kind is cluster-scoped",
		"Secret ResourceScopeMismatch: it is in namespace bank, and what follows a DirectPropagation is in its own; propagate it by a DirectPropagation there",
		"Secret Applying: not checked yet",
	}
	if diff := cmp.Diff(want, told); diff != "" || *fares.Total != 3 {
		t.Errorf("unready of %d (-want +got):\n%s", *fares.Total, diff)
	}
}

// TestNamespaceDoesNotHideClusterScopedResource: without a check, a reference with
// a namespace would read the cluster-scoped resource of the same name.
func TestNamespaceDoesNotHideClusterScopedResource(t *testing.T) {
	// A Namespace that Karmada does not synchronize itself.
	labels := map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"}
	b := newBench(t, memberCluster("member1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank", UID: "bank", Labels: labels}})
	b.Kind = render.DependencyKind
	for key, want := range map[types.NamespacedName]string{
		{Namespace: "shop", Name: "v1/Namespace/bank"}: "v1 Namespace is cluster-scoped and does not follow an object in a namespace; use a ClusterDirectPropagation for it",
		{Name: "apps/v1/Deployment/web"}:               "apps/v1 Deployment is namespaced, and dependencyInterpretation names no namespace for it; have it name one",
		{Name: "v1/Namespace/bank"}:                    "",
	} {
		b.writes = nil
		needs := dependency.Requirement{Dependencies: []types.NamespacedName{key}, Clusters: map[string]bool{"member1": false}}
		b.requirements.Set(oneObject, needs)
		if _, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); (err != nil) != (want != "") {
			t.Errorf("%s: %v", key, err)
		}
		if wrote := len(b.writes) > 0; wrote != (want == "") {
			t.Errorf("%s: written %v", key, b.writes)
		}
		_, got := b.requirements.Fares(oneObject, key, map[string]bool{"member1": true})
		if want != "" && got != "member1: "+want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestTooManyDependenciesAreRefused: the existing dependencies stay, and the status
// says what to do.
func TestTooManyDependenciesAreRefused(t *testing.T) {
	b := newBench(t, webDeployment(), followed(), memberCluster("member1"), memberCluster("member2"))
	references := []configv1alpha1.DependentObjectReference{}
	for i := range propagationv1alpha1.MaxDependencies + 1 {
		references = append(references, configMapNo(i))
	}
	b.Interpreter.ResourceInterpreter = naming{b.Interpreter.ResourceInterpreter, references[1:]}
	b.settle(t)
	if got := len(b.requirements.Dependencies); got != propagationv1alpha1.MaxDependencies {
		t.Errorf("%d dependencies", got)
	}
	b.Interpreter.ResourceInterpreter = naming{b.Interpreter.ResourceInterpreter, references}
	b.changeImage(t, "nginx:2")
	b.settle(t)
	ready := meta.FindStatusCondition(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady)
	want := "spec.propagateDeps: Deployment web needs 257 resources; the limit is 256. Split it, or remove propagateDeps and propagate the resources with objects of their own"
	if ready.Reason != propagationv1alpha1.ReasonRenderFailed || ready.Message != want {
		t.Errorf("Ready: %s, %s", ready.Reason, ready.Message)
	}
	if got := len(b.requirements.Dependencies); got != propagationv1alpha1.MaxDependencies || len(b.writes) != 1 {
		t.Errorf("%d dependencies, written %v", got, b.writes)
	}
}

// TestDependencyIsOverwrittenWhereRequested: a Work and its manifest have the
// conflict resolution that is requested for their cluster.
func TestDependencyIsOverwrittenWhereRequested(t *testing.T) {
	b := newBench(t, memberCluster("member1"), memberCluster("member2"), webDeployment())
	b.Kind = render.DependencyKind
	key := types.NamespacedName{Namespace: "shop", Name: "apps/v1/Deployment/web"}
	needs := func(cluster string, resolution propagationv1alpha1.ConflictResolution) dependency.Requirement {
		return dependency.Requirement{Dependencies: []types.NamespacedName{key}, Clusters: map[string]bool{cluster: false}, Resolution: resolution}
	}
	b.requirements.Set(oneObject, needs("member1", propagationv1alpha1.ConflictOverwrite))
	b.requirements.Set(anotherObject, needs("member2", propagationv1alpha1.ConflictAbort))
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

// TestRequirementsAreUnknownAtFirst: while the dependencies of an object are
// unknown, no resource counts as not required.
func TestRequirementsAreUnknownAtFirst(t *testing.T) {
	object := webPropagation()
	object.Spec.PropagateDeps = ptr.To(true)
	b := newBench(t, webDeployment(), object, memberCluster("member1"), memberCluster("member2"))
	expect := func(want bool) {
		t.Helper()
		if got, err := b.unknownRequirements(t.Context(), settings); err != nil || got != want {
			t.Errorf("unknown: %t (%v), want %t", got, err, want)
		}
	}
	expect(true)
	b.settle(t)
	expect(false)
	b.requirements = dependency.NewRequirements()
	expect(true)
	if err := b.server.Delete(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	expect(true)
}

// listing is a client that does something after the first list.
type listing struct {
	client.Client

	after func()
}

func (l *listing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Client.List(ctx, list, options...)
	if _, names := list.(*propagationv1alpha1.DirectPropagationList); names && l.after != nil {
		after := l.after
		l.after = nil
		after()
	}
	return err //nolint:wrapcheck // a test sees it
}

// TestNobodyIsExpectedWhoIsGone: an object disappears, and is forgotten, while a new process
// lists the objects whose dependencies it expects to learn.
func TestNobodyIsExpectedWhoIsGone(t *testing.T) {
	b := newBench(t, webDeployment(), followed(), memberCluster("member1"), memberCluster("member2"))
	b.Client = &listing{b.Client, func() {
		if err := b.server.Delete(t.Context(), followed()); err != nil {
			t.Error(err)
		}
		if err := b.reconcile(t); err != nil {
			t.Error(err)
		}
	}}
	if unknown, err := b.unknownRequirements(t.Context(), settings); err != nil || unknown {
		t.Errorf("unknown: %t (%v)", unknown, err)
	}
}

// TestWhatNeverRanHasNoDependencies: an object whose resource does not exist, for example
// because of a typo, keeps no dependency of other objects on their clusters.
func TestWhatNeverRanHasNoDependencies(t *testing.T) {
	b := newBench(t, followed(), memberCluster("member1"), memberCluster("member2"))
	b.settle(t)
	if unknown, err := b.unknownRequirements(t.Context(), settings); err != nil || unknown {
		t.Errorf("unknown: %t (%v)", unknown, err)
	}
}

// TestNobodyNeedsItElsewhere: nobody requires a dependency any more. The resource of an
// object cannot be read, and it names only one of the clusters with the dependency.
func TestNobodyNeedsItElsewhere(t *testing.T) {
	b := newBench(t, memberCluster("member1"), memberCluster("member2"), webDeployment(), followed())
	b.Kind = render.DependencyKind
	key := types.NamespacedName{Namespace: "shop", Name: "apps/v1/Deployment/web"}
	look := func(want ...string) time.Duration {
		t.Helper()
		b.writes = nil
		result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(b.writes)
		if diff := cmp.Diff(want, b.writes, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		return result.RequeueAfter
	}
	name := render.WorkKey("member1", "Deployment", "shop", "web").Name
	needs := dependency.Requirement{Dependencies: []types.NamespacedName{key}, Clusters: map[string]bool{"member1": false, "member2": false}}
	b.requirements.Set(oneObject, needs)
	look("create Work karmada-es-member1/"+name, "create Work karmada-es-member2/"+name)
	b.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(time.Minute)) // Karmada has seen its Works

	b.requirements = dependency.NewRequirements()
	if next := look(); next == 0 || next > requirementPoll {
		t.Errorf("looks again in %v", next)
	}
	unseen := dependency.Requirer{Kind: "DirectPropagation", Key: client.ObjectKeyFromObject(followed())}
	b.requirements.Set(unseen, dependency.Requirement{Unknown: true, Clusters: map[string]bool{"member1": false}})
	if next := look("delete Work karmada-es-member2/" + name); next == 0 || next > requirementPoll {
		t.Errorf("looks again in %v", next)
	}
	b.requirements.Release(unseen, nil)
	look("delete Work karmada-es-member1/" + name)
}

// TestNothingLeavesBeforeAllRequirementsAreKnown: a new process learns from one object that
// it requires a dependency on one cluster. Another object, which the process has not seen
// yet, may require it elsewhere.
func TestNothingLeavesBeforeAllRequirementsAreKnown(t *testing.T) {
	b := newBench(t, memberCluster("member1"), memberCluster("member2"), webDeployment(), followed())
	b.Kind = render.DependencyKind
	key := types.NamespacedName{Namespace: "shop", Name: "apps/v1/Deployment/web"}
	name := render.WorkKey("member1", "Deployment", "shop", "web").Name
	unseen := dependency.Requirer{Kind: "DirectPropagation", Key: client.ObjectKeyFromObject(followed())}
	needs := func(clusters ...string) dependency.Requirement {
		needed := dependency.Requirement{Dependencies: []types.NamespacedName{key}, Clusters: map[string]bool{}}
		for _, cluster := range clusters {
			needed.Clusters[cluster] = false
		}
		return needed
	}
	look := func(want ...string) ctrl.Result {
		t.Helper()
		b.writes = nil
		result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(b.writes)
		if diff := cmp.Diff(want, b.writes, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		return result
	}
	b.requirements.Set(oneObject, needs("member1"))
	b.requirements.Set(unseen, needs("member2"))
	look("create Work karmada-es-member1/"+name, "create Work karmada-es-member2/"+name)
	b.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(time.Minute)) // Karmada has seen its Works

	b.requirements = dependency.NewRequirements()
	b.requirements.Set(oneObject, needs("member1"))
	if result := look(); result.RequeueAfter == 0 || result.RequeueAfter > requirementPoll {
		t.Errorf("looks again in %v", result.RequeueAfter)
	}
	// Its resource cannot be read, but it names no other cluster than member1.
	elsewhere := needs("member1")
	elsewhere.Dependencies, elsewhere.Unknown = nil, true
	b.requirements.Set(unseen, elsewhere)
	look("delete Work karmada-es-member2/" + name)
}
