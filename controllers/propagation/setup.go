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

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
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
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// CacheOptions returns the options that the manager's cache must be created with:
// only our Works, without their payload, and nothing with its managed fields.
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
			&clusterv1alpha1.Cluster{}: {Transform: cached.NewClusters().Compact, UnsafeDisableDeepCopy: ptr.To(true)},

			&propagationv1alpha1.DirectPropagation{}:        {Transform: cached.Compact},
			&propagationv1alpha1.ClusterDirectPropagation{}: {Transform: cached.Compact},
		},
	}, nil
}

// Options configure the controller.
type Options struct {
	// Concurrency is how many objects of each kind are reconciled concurrently.
	Concurrency int
	// Writers is the maximum number of concurrent writes to Works, over all
	// objects.
	Writers int
	// LocalPrefixes are the prefixes of the keys of labels and annotations that are
	// not propagated, in addition to those that never are.
	LocalPrefixes []string
	// DefaultServiceAccount names the service account whose permissions count for
	// an object that names none. The account is in the namespace of the object.
	// Empty means the controller's own permissions.
	DefaultServiceAccount string
	// RevisionNamespace is the namespace of the PropagationRevisions of
	// ClusterDirectPropagations.
	RevisionNamespace string
	// KeepTemplateStatus leaves the status of every resource in the control plane
	// unchanged, whatever objects ask for.
	KeepTemplateStatus bool
}

// SetupWithManager adds the controller to a manager whose cache was created with
// CacheOptions.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	metadataClient, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a metadata client: %w", err)
	}
	served, err := newKinds(mgr)
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a dynamic client: %w", err)
	}
	interpreter, start := customize.NewInterpreter(ctx, dynamicClient, mgr.GetAPIReader())
	works, err := cached.NewLookup(ctx, mgr.GetCache(), &workv1alpha1.Work{}, cached.KeysOfWork)
	if err != nil {
		return err
	}
	// One limit for all kinds, because they share the API server.
	writers, required := make(chan struct{}, options.Writers), dependency.NewRequirements()
	customizer := customize.New(mgr.GetClient(), interpreter, options.LocalPrefixes)
	reviews, awaited := newReviews(mgr.GetClient(), clock.RealClock{}), &backlog{}
	for _, kind := range append(slices.Collect(maps.Keys(kinds)), render.DependencyKind) {
		reconciler := &Reconciler{
			Kind: kind, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Kinds: served, Mapper: served,
			Interpreter: interpreter, Customizer: customizer,
			Recorder: mgr.GetEventRecorder("karmada-direct"), Clock: clock.RealClock{},
			writers: writers, ledger: cached.NewLedger(clock.RealClock{}), gauges: newGauges(kind), requirements: required, reviews: reviews, backlog: awaited,
			DefaultServiceAccount: options.DefaultServiceAccount, KeepTemplateStatus: options.KeepTemplateStatus,
			RevisionNamespace: options.RevisionNamespace,
			works:             works,
		}
		if err := reconciler.setup(ctx, mgr, metadataClient, start, options); err != nil {
			return fmt.Errorf("setting up the controller of %s: %w", kind, err)
		}
	}
	return nil
}

// newKinds returns the kinds that the API server of a manager serves.
func newKinds(mgr ctrl.Manager) (*cached.Kinds, error) {
	impatient := &http.Client{Transport: mgr.GetHTTPClient().Transport, Timeout: cached.KindsTimeout}
	discover, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), impatient)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	return cached.NewKinds(mgr.GetRESTMapper(), discover, clock.RealClock{}, func(mapper meta.RESTMapper) (client.Client, error) {
		return client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mapper})
	}), nil
}

// setup registers the controller of one kind and everything that triggers it.
func (r *Reconciler) setup(ctx context.Context, mgr ctrl.Manager, metadataClient metadata.Interface, startInterpreter func() error, options Options) error {
	made := ctrl.NewControllerManagedBy(mgr).
		Named(strings.ToLower(r.Kind)).
		WithLogConstructor(logOf(mgr.GetLogger(), r.Kind)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			// controller-runtime's default limit is longer, but a failure may be
			// resolved without a change to anything that is watched.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, retryLimit),
			NewQueue:    r.newQueue,
		})
	if _, stored := kinds[r.Kind]; stored {
		var err error
		if r.objects, err = cached.NewLookup(ctx, mgr.GetCache(), r.newOf(r.Kind), cached.KeysOf); err != nil {
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
			r.started = r.Clock.Now()
			r.requirements.Register(r.Kind, func(key types.NamespacedName, why dependency.Occasion) { enqueue(queue, key, priorities[why], 0) })
			r.Resources = cached.NewWatches(ctx, metadataClient, r.onResource(ctx, queue), func(resource schema.GroupVersionResource, user types.NamespacedName) {
				r.Kinds.Changed(resource.Group)
				queue.Add(reconcile.Request{NamespacedName: user})
			})
			// controller-runtime waits for its sources before the first reconcile.
			return startInterpreter()
		})).
		Complete(r)
}

// retryLimit is the maximum delay before an object is reconciled again after a
// failure.
const retryLimit = 30 * time.Second
