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
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// CacheOptions are what the manager's cache must be made with: Works of ours
// alone and without their payload, nothing with its managed fields.
func CacheOptions() (cache.Options, error) {
	ours, err := labels.NewRequirement(propagationv1alpha1.OwnerUIDLabel, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("selecting our Works: %w", err)
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&workv1alpha1.Work{}: {
				Label:                 labels.NewSelector().Add(*ours),
				Transform:             render.Compact,
				UnsafeDisableDeepCopy: ptr.To(true),
			},
			&clusterv1alpha1.Cluster{}: {UnsafeDisableDeepCopy: ptr.To(true)},

			&propagationv1alpha1.DirectPropagation{}:        {Transform: compact},
			&propagationv1alpha1.ClusterDirectPropagation{}: {Transform: compact},
		},
	}, nil
}

// compact is a cache transform for our kinds: it drops the managed fields, and
// what one object says in the words of another is in memory once.
func compact(cached any) (any, error) {
	object, ok := cached.(Object)
	if !ok {
		return cached, nil
	}
	object.SetManagedFields(nil)
	spec, status := object.GetSpec(), object.GetStatus()
	render.Intern(&spec.Resource.APIVersion, &spec.Resource.Kind)
	for i := range spec.Clusters {
		render.Intern(&spec.Clusters[i].Name)
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		render.Intern(&condition.Type, &condition.Reason, &condition.Message)
	}
	for i := range status.Clusters {
		row := &status.Clusters[i]
		render.Intern(&row.Name, &row.Reason, &row.Message, &row.Revision)
	}
	return object, nil
}

// Options say how hard the controller works.
type Options struct {
	// Concurrency is how many objects are reconciled at once.
	Concurrency int
	// Writers is how many writes of Works are under way at once.
	Writers int
	// LocalPrefixes begin the keys of labels and annotations that do not travel,
	// beside those that never do.
	LocalPrefixes []string
	// DefaultServiceAccount names the account, in the namespace of an object that
	// names none, whose permissions count; empty for the controller's own.
	DefaultServiceAccount string
	// KeepTemplateStatus leaves the status of every resource in the control plane
	// alone, whatever objects ask for.
	KeepTemplateStatus bool
}

// SetupWithManager adds the controller to a manager whose cache was made with
// CacheOptions.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	metadataClient, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a metadata client: %w", err)
	}
	impatient := &http.Client{Transport: mgr.GetHTTPClient().Transport, Timeout: kindsTimeout}
	discover, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), impatient)
	if err != nil {
		return fmt.Errorf("making a discovery client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a dynamic client: %w", err)
	}
	interpreter, start := newInterpreter(ctx, dynamicClient, mgr.GetAPIReader())
	works, err := newLookup(ctx, mgr.GetCache(), &workv1alpha1.Work{}, keysOfWork)
	if err != nil {
		return err
	}
	served := NewKinds(mgr.GetRESTMapper(), discover, clock.RealClock{}, func(mapper meta.RESTMapper) (client.Client, error) {
		return client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mapper})
	})
	// One bound for all kinds: it is the API server that is shared.
	writers, required := make(chan struct{}, options.Writers), newRequirements()
	customizer := &customizer{client: mgr.GetClient(), interpreter: interpreter, localPrefixes: options.LocalPrefixes, admissions: newAdmissions()}
	reviews := newReviews(mgr.GetClient(), clock.RealClock{})
	for _, kind := range append(slices.Collect(maps.Keys(kinds)), render.DependencyKind) {
		reconciler := &Reconciler{
			Kind:         kind,
			Client:       mgr.GetClient(),
			Live:         mgr.GetAPIReader(),
			Kinds:        served,
			Mapper:       served,
			Interpreter:  interpreter,
			Customizer:   customizer,
			Recorder:     mgr.GetEventRecorder("karmada-direct"),
			Clock:        clock.RealClock{},
			writers:      writers,
			ledger:       newLedger(clock.RealClock{}),
			gauges:       newGauges(kind),
			requirements: required,
			reviews:      reviews,

			DefaultServiceAccount: options.DefaultServiceAccount, KeepTemplateStatus: options.KeepTemplateStatus,
			works: works,
		}
		if err := reconciler.setup(ctx, mgr, metadataClient, start, options); err != nil {
			return fmt.Errorf("setting up the controller of %s: %w", kind, err)
		}
	}
	return nil
}

// setup registers the controller of one kind and all that wakes it.
func (r *Reconciler) setup(ctx context.Context, mgr ctrl.Manager, metadataClient metadata.Interface, startInterpreter func() error, options Options) error {
	made := ctrl.NewControllerManagedBy(mgr).
		Named(strings.ToLower(r.Kind)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			// Not for longer, as controller-runtime would, after what may be repaired
			// without anything that is watched changing.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, retryLimit),
		})
	if _, stored := kinds[r.Kind]; stored {
		var err error
		if r.objects, err = newLookup(ctx, mgr.GetCache(), r.newOf(r.Kind), keysOf); err != nil {
			return err
		}
		made = made.Watches(r.newOf(r.Kind), r.onObject())
	}
	crds := &metav1.PartialObjectMetadata{}
	crds.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return made.
		Watches(&workv1alpha1.Work{}, r.onWork(), builder.WithPredicates(ofClusters)).
		Watches(&clusterv1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.onCluster), builder.WithPredicates(clusterChanged)).
		WatchesMetadata(crds, r.onCRD()).
		Watches(&policyv1alpha1.OverridePolicy{}, handler.EnqueueRequestsFromMapFunc(r.onOverridePolicy)).
		Watches(&policyv1alpha1.ClusterOverridePolicy{}, handler.EnqueueRequestsFromMapFunc(r.onOverridePolicy)).
		WatchesMetadata(metadataOf("ResourceInterpreterCustomization"), r.onInterpreter()).
		WatchesMetadata(metadataOf("ResourceInterpreterWebhookConfiguration"), r.onInterpreter()).
		WatchesRawSource(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.requirements.register(r.Kind, func(key types.NamespacedName, priority int) { enqueue(queue, key, priority, 0) })
			r.Resources = NewResources(ctx, metadataClient, r.onResource(ctx, queue), func(resource schema.GroupVersionResource, user types.NamespacedName) {
				r.Kinds.Changed(resource.Group)
				queue.Add(reconcile.Request{NamespacedName: user})
			})
			// Sources are awaited before the first reconcile.
			return startInterpreter()
		})).
		Complete(r)
}

// retryLimit is how long after a failure an object is looked at again, at most.
const retryLimit = 30 * time.Second

// priorityReport is for what clusters report: after what users change, which is 0,
// and before what a new process goes through once, which controller-runtime puts
// last.
const priorityReport = -50

// enqueue adds a request with a priority, not before a time has passed.
func enqueue(queue workqueue.TypedRateLimitingInterface[reconcile.Request], key types.NamespacedName, priority int, after time.Duration) {
	request := reconcile.Request{NamespacedName: key}
	if ranked, ok := queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		ranked.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, request)
		return
	}
	queue.AddAfter(request, after)
}

// onResource wakes the objects that name a resource. What a new watch finds has
// mostly been read already by those who name it: it must not lift them out of
// the first round of a new process, which comes last.
func (r *Reconciler) onResource(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) notification {
	return func(resource schema.GroupVersionResource, key types.NamespacedName, initial bool) {
		priority := 0
		if initial {
			priority = handler.LowPriority
		}
		for _, request := range r.owners().with(ctx, resourceKey(resource.Group, key.Namespace, key.Name)) {
			enqueue(queue, request.NamespacedName, priority, 0)
		}
	}
}

// onObject reconciles an object when a user changes it, and not when this
// controller writes its status; that only settles the ledger.
func (r *Reconciler) onObject() handler.EventHandler {
	wake := &handler.EnqueueRequestForObject{}
	expect := func(object client.Object) {
		if object, ok := object.(Object); ok {
			r.requirements.expectOf(r.Kind, object)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, created event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			expect(created.Object)
			wake.Create(ctx, created, queue)
		},
		UpdateFunc: func(ctx context.Context, updated event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.ledger.shown(updated.ObjectNew)
			if intentChanged(updated.ObjectOld, updated.ObjectNew) {
				expect(updated.ObjectNew)
				wake.Update(ctx, updated, queue)
			}
		},
		DeleteFunc: func(ctx context.Context, deleted event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.vanished.Store(client.ObjectKeyFromObject(deleted.Object), r.Clock.Now())
			wake.Delete(ctx, deleted, queue)
		},
	}
}

func intentChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// ofClusters drops Works that are for no cluster, which tenants may write.
var ofClusters = predicate.NewPredicateFuncs(func(work client.Object) bool { return isExecutionSpace(work.GetNamespace()) })

// clusterChanged drops the heartbeats of clusters.
var clusterChanged = predicate.Funcs{
	UpdateFunc: func(update event.UpdateEvent) bool {
		before, _ := update.ObjectOld.(*clusterv1alpha1.Cluster)
		after, _ := update.ObjectNew.(*clusterv1alpha1.Cluster)
		return (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(readiness(before), readiness(after)) ||
			!equality.Semantic.DeepEqual(before.Status.APIEnablements, after.Status.APIEnablements) ||
			!equality.Semantic.DeepEqual(completeness(before), completeness(after)) ||
			attributesOf(before) != attributesOf(after)
	},
}

func readiness(cluster *clusterv1alpha1.Cluster) *metav1.Condition {
	return meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
}

func completeness(cluster *clusterv1alpha1.Cluster) *metav1.Condition {
	return meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionCompleteAPIEnablements)
}

// onCluster wakes the objects that name a cluster, or might select it.
func (r *Reconciler) onCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	requests := r.owners().with(ctx, clusterKey(cluster.GetName()))
	requests = append(requests, r.owners().with(ctx, selectsKey)...)
	// Works that are still to be removed there belong to objects that may not
	// name the cluster any more.
	works := &workv1alpha1.WorkList{}
	namespace := names.GenerateExecutionSpaceName(cluster.GetName())
	if err := r.Client.List(ctx, works, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing Works to wake their owners", "cluster", cluster.GetName())
	}
	for i := range works.Items {
		if owner := render.OwnerOf(&works.Items[i]); owner.Kind == r.Kind {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}})
		}
	}
	return requests
}

// onCRD wakes the objects that name a kind of the group of a
// CustomResourceDefinition, of which anything may have changed: whether it is
// served, in which versions, its scope.
func (r *Reconciler) onCRD() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	changed := func(ctx context.Context, crd client.Object, queue queue) {
		_, group, _ := strings.Cut(crd.GetName(), ".")
		r.Kinds.Changed(group)
		for _, request := range r.owners().with(ctx, groupKey(group)) {
			queue.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, created event.CreateEvent, queue queue) {
			if !created.IsInInitialList {
				changed(ctx, created.Object, queue)
			}
		},
		UpdateFunc: func(ctx context.Context, updated event.UpdateEvent, queue queue) {
			if updated.ObjectOld.GetResourceVersion() != updated.ObjectNew.GetResourceVersion() {
				changed(ctx, updated.ObjectNew, queue)
			}
		},
		DeleteFunc: func(ctx context.Context, deleted event.DeleteEvent, queue queue) { changed(ctx, deleted.Object, queue) },
	}
}

// onWork wakes the owner of a Work and, when a Work goes, other objects that
// wanted one of its name and could not have it.
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
				r.ledger.disown(before.UID, updated.ObjectNew)
			}
			wake(updated.ObjectOld, queue, priorityReport)
			wake(updated.ObjectNew, queue, priorityReport)
		},
		DeleteFunc: func(ctx context.Context, deleted event.DeleteEvent, queue queue) {
			owner := render.OwnerOf(deleted.Object)
			if owner.Kind == r.Kind || owner.Kind == "" {
				r.ledger.gone(owner.UID, deleted.Object)
			}
			wake(deleted.Object, queue, priorityReport)
			for _, request := range r.owners().with(ctx, workNameKey(deleted.Object.GetName())) {
				if owner.Kind != r.Kind || owner.Namespace != request.Namespace || owner.Name != request.Name {
					r.memories.known(request.NamespacedName).forgetHolders()
					queue.Add(request)
				}
			}
		},
	}
}

// onOverridePolicy wakes the objects whose resource a policy may concern. What
// it selects now is as much of interest as what it selected before; a kind is
// looked at by its group only, because names and labels may have changed too.
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
		requests = append(requests, r.owners().with(ctx, groupKey(groupOfVersion(spec.ResourceSelectors[i].APIVersion)))...)
	}
	return slices.DeleteFunc(requests, func(request reconcile.Request) bool {
		return policy.GetNamespace() != "" && request.Namespace != policy.GetNamespace()
	})
}

// metadataOf stands for a kind of Karmada's configuration API, of which only
// that it changed is of interest.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersion(configv1alpha1.GroupVersion).WithKind(kind))
	return object
}
