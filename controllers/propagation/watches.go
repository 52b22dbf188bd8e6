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
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// priorities are the priorities of reconciles that dependencies trigger.
var priorities = map[dependency.Occasion]int{dependency.Changed: 0, dependency.Reported: priorityReport, dependency.Relearned: handler.LowPriority}

// enqueue adds a request with a priority, after a delay.
func enqueue(queue workqueue.TypedRateLimitingInterface[reconcile.Request], key types.NamespacedName, priority int, after time.Duration) {
	request := reconcile.Request{NamespacedName: key}
	if ranked, ok := queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		ranked.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, request)
		return
	}
	queue.AddAfter(request, after)
}

// onResource wakes the objects that name a resource. Most of these objects have
// already read what a new watch finds. It must therefore not lift them out of the
// initial pass of a new process, which comes last.
func (r *Reconciler) onResource(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) cached.Notification {
	return func(resource schema.GroupVersionResource, key types.NamespacedName, initial bool) {
		priority := 0
		if initial {
			priority = handler.LowPriority
		}
		for _, request := range r.owners().with(ctx, cached.ResourceKey(resource.Group, key.Namespace, key.Name)) {
			enqueue(queue, request.NamespacedName, priority, 0)
		}
	}
}

// onObject wakes an object when a user changes it. A status write of this
// controller does not wake it, and only updates the ledger.
func (r *Reconciler) onObject() handler.EventHandler {
	wake := &handler.EnqueueRequestForObject{}
	expect := func(object client.Object) {
		if object, ok := object.(cached.Object); ok {
			r.requirements.ExpectOf(r.Kind, object)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, created event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			expect(created.Object)
			wake.Create(ctx, created, queue)
		},
		UpdateFunc: func(ctx context.Context, updated event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.ledger.Shown(updated.ObjectNew)
			if intentChanged(updated.ObjectOld, updated.ObjectNew) {
				expect(updated.ObjectNew)
				wake.Update(ctx, updated, queue)
				r.wakeSharing(ctx, updated, queue)
			}
		},
		DeleteFunc: func(ctx context.Context, deleted event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.vanished.Store(client.ObjectKeyFromObject(deleted.Object), r.Clock.Now())
			wake.Delete(ctx, deleted, queue)
		},
	}
}

// wakeSharing wakes the other objects that name the same resource as an object does or did: its
// clusters count in the status of the resource.
func (r *Reconciler) wakeSharing(ctx context.Context, updated event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	before, _ := updated.ObjectOld.(cached.Object)
	after, _ := updated.ObjectNew.(cached.Object)
	if before == nil || after == nil || before.GetGeneration() == after.GetGeneration() && after.GetDeletionTimestamp() == nil {
		return
	}
	for _, object := range []cached.Object{before, after} {
		reference := object.GetSpec().Resource
		for _, request := range r.owners().with(ctx, cached.ResourceKey(render.GroupOf(reference.APIVersion), object.GetNamespace(), reference.Name)) {
			if request.NamespacedName != client.ObjectKeyFromObject(object) {
				queue.Add(request)
			}
		}
	}
}

func intentChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// ofClusters drops Works that belong to no cluster. Tenants may be able to write
// those.
var ofClusters = predicate.NewPredicateFuncs(func(work client.Object) bool { return render.IsExecutionSpace(work.GetNamespace()) })

// clusterChanged drops the heartbeats of clusters.
var clusterChanged = predicate.Funcs{
	UpdateFunc: func(update event.UpdateEvent) bool {
		before, _ := update.ObjectOld.(*clusterv1alpha1.Cluster)
		after, _ := update.ObjectNew.(*clusterv1alpha1.Cluster)
		return (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(readiness(before), readiness(after)) ||
			!equality.Semantic.DeepEqual(before.Status.APIEnablements, after.Status.APIEnablements) ||
			!equality.Semantic.DeepEqual(completeness(before), completeness(after)) ||
			!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
			customize.AttributesOf(before) != customize.AttributesOf(after)
	},
}

func readiness(cluster *clusterv1alpha1.Cluster) *metav1.Condition {
	return meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
}

func completeness(cluster *clusterv1alpha1.Cluster) *metav1.Condition {
	return meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionCompleteAPIEnablements)
}

// onCluster wakes the objects that name a cluster, or may select it.
func (r *Reconciler) onCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	if seen, ok := cluster.(*clusterv1alpha1.Cluster); ok {
		r.contacts.Saw(seen)
	}
	requests := r.owners().with(ctx, cached.ClusterKey(cluster.GetName()))
	requests = append(requests, r.owners().with(ctx, cached.SelectsKey)...)
	// Works that must still be removed from the cluster may belong to objects that
	// no longer name it.
	works := &workv1alpha1.WorkList{}
	namespace := names.GenerateExecutionSpaceName(cluster.GetName())
	if err := r.Client.List(ctx, works, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing Works to wake their owners", keyCluster, cluster.GetName())
	}
	for i := range works.Items {
		if owner := render.OwnerOf(&works.Items[i]); owner.Kind == r.Kind {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}})
		}
	}
	return requests
}

// onCRD wakes the objects that name a kind in the group of a
// CustomResourceDefinition. Anything about the kind may have changed: whether it is
// served, its versions, its scope.
func (r *Reconciler) onCRD() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	changed := func(ctx context.Context, crd client.Object, queue queue) {
		group := groupOfCRD(crd)
		r.Kinds.Changed(group)
		for _, request := range r.owners().with(ctx, cached.GroupKey(group)) {
			queue.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, created event.CreateEvent, queue queue) {
			if created.IsInInitialList {
				// It may have changed just before this process began to watch, so what
				// the API server says about its kinds is not final yet.
				r.Kinds.Changed(groupOfCRD(created.Object))
				return
			}
			changed(ctx, created.Object, queue)
		},
		UpdateFunc: func(ctx context.Context, updated event.UpdateEvent, queue queue) {
			if updated.ObjectOld.GetResourceVersion() != updated.ObjectNew.GetResourceVersion() {
				changed(ctx, updated.ObjectNew, queue)
			}
		},
		DeleteFunc: func(ctx context.Context, deleted event.DeleteEvent, queue queue) { changed(ctx, deleted.Object, queue) },
	}
}

// groupOfCRD is the API group of the kind that a CustomResourceDefinition defines.
func groupOfCRD(crd client.Object) string {
	_, group, _ := strings.Cut(crd.GetName(), ".")
	return group
}

// onWork wakes the owner of a Work and, when a Work is gone, other objects that
// wanted a Work of the same name and could not have it.
func (r *Reconciler) onWork() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(work client.Object, queue queue, priority int) {
		owner := render.OwnerOf(work)
		if owner.Kind != r.Kind {
			return
		}
		key := types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}
		enqueue(queue, key, priority, r.memories.known(key).pause())
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, created event.CreateEvent, queue queue) {
			priority := priorityReport
			if created.IsInInitialList {
				priority = handler.LowPriority
			}
			wake(created.Object, queue, priority)
		},
		UpdateFunc: func(_ context.Context, updated event.UpdateEvent, queue queue) {
			if before := render.OwnerOf(updated.ObjectOld); before.Kind == r.Kind && before.UID != render.OwnerOf(updated.ObjectNew).UID {
				r.ledger.Disown(before.UID, updated.ObjectNew)
			}
			wake(updated.ObjectOld, queue, priorityReport)
			wake(updated.ObjectNew, queue, priorityReport)
		},
		DeleteFunc: func(ctx context.Context, deleted event.DeleteEvent, queue queue) {
			r.ledger.Ended(deleted.Object)
			owner := render.OwnerOf(deleted.Object)
			if owner.Kind == r.Kind || owner.Kind == "" {
				vanished, _ := r.owners().goneUID(types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name})
				r.ledger.Gone(deleted.Object, owner.UID, vanished)
			}
			wake(deleted.Object, queue, priorityReport)
			for _, request := range r.owners().with(ctx, cached.WorkNameKey(deleted.Object.GetName())) {
				if owner.Kind != r.Kind || owner.Namespace != request.Namespace || owner.Name != request.Name {
					r.memories.known(request.NamespacedName).forgetHolders()
					queue.Add(request)
				}
			}
		},
	}
}

// onOverridePolicy wakes the objects whose resource a policy may apply to. What the
// policy selected before counts as much as what it selects now. Only the group of a
// selector is compared, because names and labels may have changed too.
func (r *Reconciler) onOverridePolicy(ctx context.Context, policy client.Object) []reconcile.Request {
	var spec policyv1alpha1.OverrideSpec
	switch policy := policy.(type) {
	case *policyv1alpha1.OverridePolicy:
		spec = policy.Spec
	case *policyv1alpha1.ClusterOverridePolicy:
		spec = policy.Spec
	}
	if len(spec.ResourceSelectors) == 0 {
		return r.owners().in(ctx, policy.GetNamespace())
	}
	requests := []reconcile.Request{}
	for i := range spec.ResourceSelectors {
		requests = append(requests, r.owners().with(ctx, cached.GroupKey(render.GroupOf(spec.ResourceSelectors[i].APIVersion)))...)
	}
	return slices.DeleteFunc(requests, func(request reconcile.Request) bool {
		return policy.GetNamespace() != "" && request.Namespace != policy.GetNamespace()
	})
}

// metadataOf returns an object of a kind of Karmada's configuration API. Only the
// fact that such an object changes matters, not its content.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersion(configv1alpha1.GroupVersion).WithKind(kind))
	return object
}

// onInterpreter wakes every object shortly after the configuration of the
// interpreter changes. It does not work out which kinds a change affects: changes
// are rare, and an object that is already right causes no write.
func (r *Reconciler) onInterpreter() handler.EventHandler {
	wake := func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		time.AfterFunc(interpreterDelay, func() {
			r.Interpreter.Changed()
			for _, request := range r.owners().in(ctx, "") {
				queue.Add(request)
			}
		})
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, created event.CreateEvent, queue queue) {
			if !created.IsInInitialList {
				wake(ctx, queue)
			}
		},
		UpdateFunc: func(ctx context.Context, _ event.UpdateEvent, queue queue) { wake(ctx, queue) },
		DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, queue queue) { wake(ctx, queue) },
	}
}

// interpreterDelay is how long to wait after a change to its configuration before
// Karmada's interpreter is used again. The interpreter watches its configuration
// itself, and does not report when it has applied a change; that takes
// milliseconds.
const interpreterDelay = time.Second
