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
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// owners are what a Reconciler reconciles: objects that users create, or their
// dependencies. Everything else is the same for both.
type owners interface {
	// get returns the newest version of an owner that this process knows; nil if
	// the owner is gone.
	get(ctx context.Context, key types.NamespacedName) (cached.Object, error)
	// with lists the owners that have a key, see cached.KeysOf.
	with(ctx context.Context, key string) []reconcile.Request
	// in lists the owners in a namespace, or all owners if the namespace is empty.
	in(ctx context.Context, namespace string) []reconcile.Request
	// vouchers returns the accounts whose permissions count for an owner; nil if
	// only the controller's own permissions count.
	vouchers(object cached.Object) dependency.Vouchers
	// misplaced returns why the owner must not name a resource of this scope; nil
	// if it may.
	misplaced(reference propagationv1alpha1.ResourceReference, namespace string, scope meta.RESTScopeName) *decide.Problem
	// require records the dependencies of an owner.
	require(object cached.Object, observed *decide.Observed)
	// mayReturn returns a function that reports whether the Work of an owner that is gone
	// may get one again on a cluster once this process knows more; nil if no Work may.
	mayReturn(key types.NamespacedName) func(cluster string) bool
	// goneUID is the UID of an owner that is gone, or stands for it if it is not known
	// anymore. The ledger keeps what is written for the owner under it.
	goneUID(key types.NamespacedName) (uid types.UID, known bool)
	// publish publishes the result of a reconcile.
	publish(ctx context.Context, object cached.Object, observed *decide.Observed, plan *decide.Plan, found *verdicts) (publication, error)
}

// verdicts are the results of a reconcile: the status of the owner, and the rows of
// all its clusters. The status contains no more rows than the API allows.
type verdicts struct {
	status *propagationv1alpha1.PropagationStatus
	rows   []propagationv1alpha1.ClusterStatus
}

// publication is the result of publishing.
type publication struct {
	// hold is how long the status is held back; 0 if it is not.
	hold time.Duration
	// early is how long to wait before the resource may be written again; 0 if that
	// is not necessary.
	early time.Duration
}

func (r *Reconciler) owners() owners {
	if r.Kind == render.DependencyKind {
		return dependencies{r}
	}
	return objects{r}
}

// objects are the objects that users create.
type objects struct{ r *Reconciler }

func (o objects) get(ctx context.Context, key types.NamespacedName) (cached.Object, error) {
	object := o.r.newOf(o.r.Kind)
	err := o.r.Client.Get(ctx, key, object)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading %s %s: %w", o.r.Kind, key, err)
	}
	if err != nil {
		o.r.bury(key)
		return nil, nil //nolint:nilnil // an object that is gone is not an error
	}
	return o.r.ledger.Newest(object), nil
}

func (o objects) with(ctx context.Context, key string) []reconcile.Request {
	found, err := o.r.objects(key)
	if err != nil {
		// A lookup by an existing index cannot fail.
		ctrl.LoggerFrom(ctx).Error(err, "Finding objects to wake", "key", key)
	}
	return requestsFor(found)
}

func (o objects) in(ctx context.Context, namespace string) []reconcile.Request {
	list := kinds[o.r.Kind].list()
	if err := o.r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing objects to wake", "namespace", namespace)
	}
	return requestsFor(objectsOf(list))
}

// vouchers returns the one account of the object. A cluster-scoped object belongs
// to an administrator and has no account.
func (o objects) vouchers(object cached.Object) dependency.Vouchers {
	account := o.r.accountOf(object)
	if account.Name == "" {
		return nil
	}
	accounts := []types.NamespacedName{account}
	return func(string) ([]types.NamespacedName, bool) { return accounts, false }
}

// scopeMismatch lists, by the kind of the object, the scope that its resource must
// have, and what to do if the resource has the other scope.
var scopeMismatch = map[string]struct {
	wanted    meta.RESTScopeName
	otherwise string
}{
	"DirectPropagation":        {meta.RESTScopeNameNamespace, "is cluster-scoped; use a ClusterDirectPropagation for it, a DirectPropagation propagates a resource of its own namespace"},
	"ClusterDirectPropagation": {meta.RESTScopeNameRoot, "is namespaced; use a DirectPropagation in the namespace of the resource"},
}

func (o objects) misplaced(reference propagationv1alpha1.ResourceReference, _ string, scope meta.RESTScopeName) *decide.Problem {
	advice, limited := scopeMismatch[o.r.Kind]
	if !limited || scope == advice.wanted {
		return nil
	}
	return &decide.Problem{
		Reason:  propagationv1alpha1.ReasonResourceScopeMismatch,
		Message: fmt.Sprintf("spec.resource: %s %s %s", reference.APIVersion, reference.Kind, advice.otherwise),
		Stalled: true,
	}
}

func (o objects) require(object cached.Object, observed *decide.Observed) {
	who := dependency.Requirer{Kind: o.r.Kind, Key: client.ObjectKeyFromObject(object)}
	preserve := ptr.Deref(observed.Spec.PreserveResourcesOnDeletion, false)
	if observed.Deleting || !ptr.Deref(observed.Spec.PropagateDeps, false) {
		o.r.requirements.Release(who, &preserve)
		return
	}
	now := dependency.Requirement{
		Clusters: map[string]bool{}, Resolution: observed.Spec.ConflictResolution, Preserve: preserve, Unknown: observed.FollowersUnknown(), Account: o.r.accountOf(object),
		Relearned: ptr.Deref(observed.Status.ObservedGeneration, 0) == observed.Generation,
	}
	for _, target := range observed.Targets {
		now.Clusters[target.Cluster] = target.Suspend
	}
	if observed.Rollout != nil {
		now.Only = observed.Rollout.Followers
	}
	for _, needed := range observed.Resource.Dependencies {
		if reason, _ := dependency.OutOfReach(observed.Owner, needed); reason == "" {
			now.Dependencies = append(now.Dependencies, dependency.Key(needed))
		}
	}
	o.r.requirements.Set(who, now)
}

func (objects) mayReturn(types.NamespacedName) func(string) bool { return nil }

func (objects) goneUID(key types.NamespacedName) (types.UID, bool) {
	return types.UID("gone " + key.String()), false
}

// publish writes the status and aggregates onto the resource.
func (o objects) publish(ctx context.Context, object cached.Object, observed *decide.Observed, plan *decide.Plan, found *verdicts) (publication, error) {
	hold := o.r.holdStatus(object, plan, found.status)
	if hold == 0 {
		written, err := o.r.writeStatus(ctx, object, found.status)
		if err != nil {
			return publication{}, err
		}
		if observed.Rollout != nil && !observed.Rollout.RecordFirst && !equality.Semantic.DeepEqual(object.GetStatus().Rollout, found.status.Rollout) {
			o.r.tellRollout(written, observed.Rollout.Events)
		}
		object = written
	}
	return publication{hold: hold, early: o.r.reportOnTemplate(ctx, object, observed)}, nil
}

// dependencies are the resources that objects require.
type dependencies struct{ r *Reconciler }

// get returns nil if no object requires the dependency. Its Works are then removed,
// but not where an object may require it whose dependencies are not known. The same is
// true of Works for clusters on which nobody is known to require it.
func (d dependencies) get(ctx context.Context, key types.NamespacedName) (cached.Object, error) {
	unknown, err := d.r.unknownRequirements(ctx, key)
	mayBeRequired := d.r.requirements.MayBeRequired(key)
	if object := d.r.requirements.Object(key); object != nil {
		object.MayBeRequired = mayBeRequired
		d.r.vanished.Delete(key)
		return object, err
	}
	d.r.bury(key)
	if _, witnessed := d.r.vanished.Load(key); err == nil && !unknown && !witnessed {
		d.r.vanished.Store(key, d.r.Clock.Now())
	}
	return nil, err
}

func (d dependencies) with(_ context.Context, key string) []reconcile.Request {
	return requestsForKeys(d.r.requirements.With(key))
}

func (d dependencies) in(_ context.Context, namespace string) []reconcile.Request {
	return requestsForKeys(d.r.requirements.In(namespace))
}

func (d dependencies) vouchers(object cached.Object) dependency.Vouchers {
	return d.r.requirements.Vouchers(client.ObjectKeyFromObject(object))
}

// misplaced rejects a dependency whose namespace does not match the scope of its
// kind.
func (dependencies) misplaced(reference propagationv1alpha1.ResourceReference, namespace string, scope meta.RESTScopeName) *decide.Problem {
	if (namespace == "") == (scope == meta.RESTScopeNameRoot) {
		return nil
	}
	advice := "is namespaced, and dependencyInterpretation names no namespace for it; have it name one"
	if namespace != "" {
		advice = "is cluster-scoped and does not follow an object in a namespace; use a ClusterDirectPropagation for it"
	}
	return &decide.Problem{
		Reason: propagationv1alpha1.ReasonResourceScopeMismatch, Message: fmt.Sprintf("%s %s %s", reference.APIVersion, reference.Kind, advice), Stalled: true,
	}
}

// require does nothing: only objects have dependencies.
func (dependencies) require(cached.Object, *decide.Observed) {}

func (d dependencies) mayReturn(key types.NamespacedName) func(string) bool {
	mayBeRequired := d.r.requirements.MayBeRequired(key)
	if mayBeRequired == nil || d.r.requirements.Object(key) != nil {
		// More has become known since get: look again.
		return func(string) bool { return true }
	}
	return mayBeRequired
}

// goneUID is the same for each dependency that is ever made of a resource.
func (dependencies) goneUID(key types.NamespacedName) (types.UID, bool) {
	return dependency.NewObject(key).GetUID(), true
}

// publish reports the result to the objects that require the dependency.
func (d dependencies) publish(_ context.Context, object cached.Object, observed *decide.Observed, _ *decide.Plan, found *verdicts) (publication, error) {
	d.r.requirements.Report(client.ObjectKeyFromObject(object), found.status, dependency.TroublesOf(observed, found.rows))
	return publication{}, nil
}

func requestsForKeys(keys []types.NamespacedName) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(keys))
	for _, key := range keys {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

func requestsFor[T client.Object](objects []T) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(objects))
	for _, object := range objects {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
	}
	return requests
}

// objectsOf returns the objects in a list of one of our kinds.
func objectsOf(list client.ObjectList) []cached.Object {
	objects := []cached.Object{}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		object, _ := item.(cached.Object)
		objects = append(objects, object)
		return nil
	})
	return objects
}

// unknownRequirements reports whether the requirements of any object that may require
// a dependency are still unknown. Until they are known, the dependency is not withdrawn.
func (r *Reconciler) unknownRequirements(ctx context.Context, key types.NamespacedName) (bool, error) {
	if err := r.expectRequirers(ctx); err != nil {
		return false, err
	}
	return r.requirements.IsUnknown(key), nil
}

// expectRequirers lists, once per process, the objects that may have dependencies.
// Objects that are created later are expected when their watch shows them.
func (r *Reconciler) expectRequirers(ctx context.Context) error {
	if r.requirements.Listed.Load() {
		return nil
	}
	r.stored.mu.Lock()
	defer r.stored.mu.Unlock()
	if r.requirements.Listed.Load() {
		return nil // another reconcile has waited for the same
	}
	for kind := range kinds {
		if err := r.awaitStored(ctx, kind); err != nil {
			return err
		}
		listed, err := r.keysOf(ctx, kind, r.requirements.ExpectOf)
		if err != nil {
			return err
		}
		// An object that disappeared before it was expected has been forgotten already.
		left, err := r.keysOf(ctx, kind, func(string, cached.Object) {})
		if err != nil {
			return err
		}
		for key := range listed {
			if !left[key] {
				r.requirements.Release(dependency.Requirer{Kind: kind, Key: key}, nil)
			}
		}
	}
	r.requirements.Listed.Store(true)
	return nil
}

// storedObjects are, by kind, the objects that the API server had when this process first
// asked, and that the cache has not shown since. The zero value has asked for none.
type storedObjects struct {
	mu     sync.Mutex
	byKind map[string]map[types.UID]metav1.PartialObjectMetadata
}

// awaitStored returns an error that says to look again if the cache shows less than what the
// API server had when this process first asked. A previous process may have known that an
// object has dependencies, when the cache of this one does not show it yet. What is created
// meanwhile does not count, so that this ends however much that is.
func (r *Reconciler) awaitStored(ctx context.Context, kind string) error {
	awaited, asked := r.stored.byKind[kind]
	if !asked {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(propagationv1alpha1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := r.Live.List(ctx, list); err != nil {
			return fmt.Errorf("listing %ss: %w", kind, err)
		}
		awaited = make(map[types.UID]metav1.PartialObjectMetadata, len(list.Items))
		for i := range list.Items {
			awaited[list.Items[i].UID] = list.Items[i]
		}
		if r.stored.byKind == nil {
			r.stored.byKind = map[string]map[types.UID]metav1.PartialObjectMetadata{}
		}
		r.stored.byKind[kind] = awaited
	}
	_, err := r.keysOf(ctx, kind, func(_ string, object cached.Object) {
		if stored, waits := awaited[object.GetUID()]; waits && object.GetGeneration() >= stored.Generation {
			delete(awaited, object.GetUID())
		}
	})
	if err != nil {
		return err
	}
	for uid := range awaited {
		stored := awaited[uid]
		if r.isGone(ctx, kind, &stored) {
			delete(awaited, uid)
			continue
		}
		return &lookAgainError{what: "looking for " + kind + " " + client.ObjectKeyFromObject(&stored).String(), err: errOlder}
	}
	return nil
}

// isGone reports whether the API server certainly does not have an object anymore.
func (r *Reconciler) isGone(ctx context.Context, kind string, object client.Object) bool {
	now := r.newOf(kind)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), now)
	return apierrors.IsNotFound(err) || err == nil && now.GetUID() != object.GetUID()
}

// keysOf lists the objects of a kind and visits each.
func (r *Reconciler) keysOf(ctx context.Context, kind string, visit func(kind string, object cached.Object)) (map[types.NamespacedName]bool, error) {
	list := kinds[kind].list()
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing %ss: %w", kind, err)
	}
	keys := map[types.NamespacedName]bool{}
	for _, object := range objectsOf(list) {
		visit(kind, object)
		keys[client.ObjectKeyFromObject(object)] = true
	}
	return keys, nil
}

// kinds are the kinds that own Works, each with functions that return an empty
// object and an empty list.
var kinds = map[string]struct {
	object func() cached.Object
	list   func() client.ObjectList
}{
	"ClusterDirectPropagation": {
		func() cached.Object { return &propagationv1alpha1.ClusterDirectPropagation{} },
		func() client.ObjectList { return &propagationv1alpha1.ClusterDirectPropagationList{} },
	},
	"DirectPropagation": {
		func() cached.Object { return &propagationv1alpha1.DirectPropagation{} },
		func() client.ObjectList { return &propagationv1alpha1.DirectPropagationList{} },
	},
}

// newOf returns an empty object of a kind that owns Works; nil for any other kind.
func (r *Reconciler) newOf(kind string) cached.Object {
	if known, found := kinds[kind]; found {
		return known.object()
	}
	return nil
}

func (r *Reconciler) ownerOf(object cached.Object) render.Owner {
	return render.Owner{Kind: r.Kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
}
