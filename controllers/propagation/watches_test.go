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
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"k8s.io/apimachinery/pkg/types"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// TestReconcilesArePrioritized: changes by users come before reports from clusters,
// and those before the initial pass of a new process, in whatever order they
// arrive.
func TestReconcilesArePrioritized(t *testing.T) {
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	r := &Reconciler{Kind: "DirectPropagation"}
	work := func(owner string) *workv1alpha1.Work {
		return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-member1", Annotations: map[string]string{
			propagationv1alpha1.OwnerKindAnnotation: r.Kind, propagationv1alpha1.OwnerNamespaceAnnotation: "shop", propagationv1alpha1.OwnerNameAnnotation: owner,
		}}}
	}
	r.onWork().Create(t.Context(), event.CreateEvent{Object: work("found"), IsInInitialList: true}, queue)
	r.onWork().Update(t.Context(), event.UpdateEvent{ObjectOld: work("reported"), ObjectNew: work("reported")}, queue)
	changed := &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "changed"}}
	r.onObject().Create(t.Context(), event.CreateEvent{Object: changed}, queue)
	for _, want := range []string{"changed", "reported", "found"} {
		request, priority, _ := queue.GetWithPriority()
		if request.Name != want {
			t.Errorf("%s (priority %d) is reconciled, want %s", request.Name, priority, want)
		}
	}
}

// TestNewProcessAsksAgainAboutKinds: the definition of a kind may have changed just before
// the process began to watch, when the API server still answers as before. Nobody is woken.
func TestNewProcessAsksAgainAboutKinds(t *testing.T) {
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	r := &Reconciler{Kind: "DirectPropagation", Kinds: cached.NewKinds(nil, nil, clocktesting.NewFakePassiveClock(time.Now()), nil)}
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "widgets.factory.example.org"}}
	r.onCRD().Create(t.Context(), event.CreateEvent{Object: crd, IsInInitialList: true}, queue)
	if r.Kinds.Unsettled("factory.example.org") == 0 {
		t.Error("an answer about the kind is final")
	}
	if queue.Len() > 0 {
		t.Errorf("%d objects are woken", queue.Len())
	}
}

// TestFindingResourceDoesNotRaisePriority: what a new watch of a kind finds does
// not lift an object out of the initial pass of a new process. A later change does.
func TestFindingResourceDoesNotRaisePriority(t *testing.T) {
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	r := &Reconciler{Kind: "DirectPropagation"}
	r.objects = func(key string) ([]client.Object, error) {
		if key == cached.ResourceKey("apps", "shop", "web") {
			return []client.Object{webPropagation()}, nil
		}
		return nil, nil
	}
	kinds := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	deployments := appsv1.SchemeGroupVersion.WithResource("deployments")
	stored := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
	}
	server := metadatafake.NewSimpleMetadataClient(kinds, stored)
	watching := make(chan struct{}, 10)
	server.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		started, err := server.Tracker().Watch(action.GetResource(), action.GetNamespace())
		watching <- struct{}{}
		return true, started, err
	})
	resources := cached.NewWatches(t.Context(), server, r.onResource(t.Context(), queue), nobody)
	resources.Track(web, deployments)
	expect := func(what string, want int) {
		t.Helper()
		request, priority, _ := queue.GetWithPriority()
		if request.NamespacedName != web || priority != want {
			t.Errorf("%s: %s is reconciled with priority %d, want %d", what, request, priority, want)
		}
		queue.Done(request)
	}
	expect("found", handler.LowPriority)
	<-watching
	changed := stored.DeepCopy()
	changed.ResourceVersion = "2"
	if err := server.Tracker().Update(deployments, changed, "shop"); err != nil {
		t.Fatal(err)
	}
	expect("changed", 0)
}

// versioned returns a Work with a UID and a resourceVersion.
func versioned(uid, version string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-member1", Name: "web", UID: types.UID(uid), ResourceVersion: version}}
}

// TestGoneWorkConcernsItsOwner: a Work that is gone concerns only the kind of its
// owner. Another kind that wants a Work of the same name is woken, and forgets what it
// has read of the Work, but does not count it as lost.
func TestGoneWorkConcernsItsOwner(t *testing.T) {
	passive := clocktesting.NewFakePassiveClock(now)
	work := versioned("a", "10")
	work.Annotations = map[string]string{
		propagationv1alpha1.OwnerKindAnnotation: render.DependencyKind, propagationv1alpha1.OwnerNamespaceAnnotation: "shop", propagationv1alpha1.OwnerNameAnnotation: "v1/ConfigMap/web",
	}
	key := client.ObjectKeyFromObject(work)
	for kind, wantLost := range map[string]bool{render.DependencyKind: true, "DirectPropagation": false, "ClusterDirectPropagation": false} {
		queue := priorityqueue.New[reconcile.Request]("test")
		r := &Reconciler{Kind: kind, ledger: cached.NewLedger(passive), requirements: dependency.NewRequirements(), backlog: &backlog{}}
		r.objects = func(string) ([]client.Object, error) { return []client.Object{webPropagation()}, nil }
		vanished, _ := dependencies{}.goneUID(types.NamespacedName{Namespace: "shop", Name: "v1/ConfigMap/web"})
		for _, owner := range []types.UID{"reader", vanished} {
			if err := r.ledger.Wrote(owner, versioned("a", "9")); err != nil {
				t.Fatal(err)
			}
		}
		r.onWork().Delete(t.Context(), event.DeleteEvent{Object: work}, queue)
		if r.ledger.Amend("reader", map[types.NamespacedName]*workv1alpha1.Work{}); r.ledger.Pending("reader") {
			t.Errorf("%s: what another owner has read of the Work still counts", kind)
		}
		if kept := r.ledger.Pending(vanished); kept == wantLost {
			t.Errorf("%s: what was written for an owner that is gone is kept: %t", kind, kept)
		}
		if lost := !r.ledger.Lost(key).IsZero(); lost != wantLost {
			t.Errorf("%s: lost %t, want %t", kind, lost, wantLost)
		}
		want := "web"
		if kind == render.DependencyKind {
			want = "v1/ConfigMap/web"
		}
		if request, _, _ := queue.GetWithPriority(); request.Name != want {
			t.Errorf("%s: %s is woken, want %s", kind, request.Name, want)
		}
		queue.ShutDown()
	}
}

// TestWorkThatChangesHandsIsForgotten: when a Work passes to another owner, its
// previous owner forgets what it wrote to it.
func TestWorkThatChangesHandsIsForgotten(t *testing.T) {
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	r := &Reconciler{Kind: render.DependencyKind, ledger: cached.NewLedger(clocktesting.NewFakePassiveClock(now))}
	owned := func(kind, uid, version string) *workv1alpha1.Work {
		work := versioned("a", version)
		work.Annotations = map[string]string{propagationv1alpha1.OwnerKindAnnotation: kind, propagationv1alpha1.OwnerNameAnnotation: uid}
		work.Labels = map[string]string{propagationv1alpha1.OwnerUIDLabel: uid}
		return work
	}
	if err := r.ledger.Wrote("dependency", owned(render.DependencyKind, "dependency", "10")); err != nil {
		t.Fatal(err)
	}
	r.onWork().Update(t.Context(), event.UpdateEvent{ObjectOld: owned(render.DependencyKind, "dependency", "10"), ObjectNew: owned("DirectPropagation", "other", "11")}, queue)
	if r.ledger.Pending("dependency") {
		t.Error("the previous owner still waits for its write to the Work of another owner")
	}
}
