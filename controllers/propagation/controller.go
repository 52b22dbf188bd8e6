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
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/controllers/throttle"
)

// Reconciler keeps the Works and the status of the objects of one kind up to date.
type Reconciler struct {
	// Kind is the kind that is reconciled.
	Kind string
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Kinds knows which kinds the Karmada API server serves, and reads and writes
	// the named resources.
	Kinds *cached.Kinds
	// Mapper maps kinds to resources. It is Kinds, except in tests.
	Mapper meta.RESTMapper
	// Resources watches the named resources.
	Resources *cached.Watches
	// Interpreter is Karmada's resource interpreter, including the customizations
	// of users. All kinds share it.
	Interpreter *customize.Interpreter
	// Customizer determines what each cluster gets of a resource. All kinds share
	// it.
	Customizer *customize.Customizer
	// DefaultServiceAccount names the service account whose permissions count for
	// an object that names none. The account is in the namespace of the object.
	// Empty means the controller's own permissions.
	DefaultServiceAccount string
	// RevisionNamespace is the namespace of the PropagationRevisions of cluster-scoped
	// objects.
	RevisionNamespace string
	// KeepTemplateStatus leaves the status of resources in the control plane
	// unchanged.
	KeepTemplateStatus bool
	// Recorder records Events.
	Recorder events.EventRecorder
	Clock    clock.PassiveClock

	// started is when this process began to watch clusters.
	started time.Time
	// works and objects look up cached Works and cached objects of the kind.
	works, objects cached.Lookup
	gauges         *gauges
	// All kinds share requirements.
	requirements *dependency.Requirements
	reviews      *reviews
	backlog      *backlog
	stored       storedObjects
	// writers limits the number of concurrent writes, over all reconciles.
	writers chan struct{}
	// othersWait reports whether requests of other namespaces wait for a worker; nil if
	// there is no queue.
	othersWait func(namespace string) bool
	ledger     *cached.Ledger
	contacts   cached.Contacts
	// memories holds what is remembered about each object.
	memories  memories
	leftovers leftovers
	// vanished maps each object that this process saw disappear to the time when it
	// did.
	vanished sync.Map
}

// Reconcile brings the Works and the status of one object up to date. The caller
// logs the error.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(throttle.For(ctx, request.Namespace, r.Clock.Now()), request)
	return r.onlyNews(request.NamespacedName, result, err)
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object, err := r.owners().get(ctx, request.NamespacedName)
	if saysLookAgain(err) {
		return r.again(request.NamespacedName, err)
	}
	if err != nil {
		return r.unfinished(request.NamespacedName, err)
	}
	if object == nil {
		return r.sweep(ctx, request.NamespacedName)
	}
	observed, plan, means, err := r.decide(ctx, object)
	if saysLookAgain(err) {
		return r.again(request.NamespacedName, err)
	}
	if err != nil {
		return r.unfinished(request.NamespacedName, err)
	}
	logPlan(ctx, plan)
	r.backlog.awaits(dependency.Requirer{Kind: r.Kind, Key: request.NamespacedName}, plan.Unreported)
	r.memories.of(request.NamespacedName).resized(max(len(observed.Works), len(observed.Targets)))
	if object, err = r.recordRollout(ctx, object, observed, plan); err != nil {
		return r.again(request.NamespacedName, err)
	}
	r.owners().require(object, observed)
	result, err := r.apply(ctx, object, observed, plan, means)
	if err != nil {
		return r.again(request.NamespacedName, err)
	}
	if plan.RemoveFinalizer && !result.Interrupted {
		r.letGo(ctx, object, plan)
		return ctrl.Result{}, nil
	}
	return r.conclude(ctx, object, observed, plan, result)
}

// bury forgets an object that is gone. Its memory is left to sweep.
func (r *Reconciler) bury(key types.NamespacedName) {
	r.Resources.Forget(key)
	r.ledger.ForgetObject(key)
	r.gauges.forget(key)
	r.backlog.awaits(dependency.Requirer{Kind: r.Kind, Key: key}, 0)
	r.requirements.Release(dependency.Requirer{Kind: r.Kind, Key: key}, nil)
}

// decide observes and plans. It reads the content of the resource only if something
// must be written or the revision is not known.
func (r *Reconciler) decide(ctx context.Context, object cached.Object) (*decide.Observed, *decide.Plan, contents, error) {
	observed, means, err := r.observe(ctx, object, false)
	if err != nil {
		return nil, nil, nil, err
	}
	plan := decide.NewPlan(observed)
	if plan.NeedsManifest() && means == nil {
		if observed, means, err = r.observe(ctx, object, true); err != nil {
			return nil, nil, nil, err
		}
		plan = decide.NewPlan(observed)
	}
	return observed, plan, means, r.succeeds(ctx, observed, plan)
}

// sweep removes the Works of an object that is gone although its finalizer should
// have held it. Somebody may have removed the finalizer. The API server itself
// loses a finalizer that is added at the very moment of the deletion: it checks the
// finalizers once, and does not check them again after a conflict.
//
// sweep treats an object as gone only if this process saw it disappear: Works
// without an owner may have been restored before their owner. Works that are
// already being deleted, because an unreachable cluster was abandoned, are handled
// until they are gone. A dependency also counts as gone on clusters where it is certain
// that nobody requires it.
func (r *Reconciler) sweep(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	stored, _ := r.vanished.Load(key)
	at, witnessed := stored.(time.Time)
	uid, known := r.owners().goneUID(key)
	owner := render.Owner{Kind: r.Kind, Namespace: key.Namespace, Name: key.Name, UID: uid}
	r.memories.retire(key)
	observed := &decide.Observed{
		Now: r.Clock.Now(), Owner: owner, Deleting: true, Vanished: true, Setbacks: r.memories.known(key).refused(),
		Spec: &propagationv1alpha1.PropagationSpec{}, Clusters: map[string]decide.Cluster{},
	}
	var err error
	if observed.Works, err = r.observeWorks(ctx, owner); err != nil {
		return r.unfinished(key, err)
	}
	if known {
		// Somebody may have changed the name of the owner of a Work that another one needs.
		maps.DeleteFunc(observed.Works, func(_ types.NamespacedName, work *workv1alpha1.Work) bool { return render.OwnerOf(work).UID != uid })
	}
	waiting := false
	if !witnessed {
		waiting = r.retain(key, observed)
	}
	if err := r.observeClusters(ctx, observed); err != nil {
		return r.unfinished(key, err)
	}
	observed.Kept = r.requirements.Kept(key)
	plan := decide.NewPlan(observed)
	logPlan(ctx, plan)
	result, err := r.apply(ctx, nil, observed, plan, nil)
	if err != nil {
		return r.unfinished(key, err)
	}
	next := decide.Sooner(decide.Sooner(plan.Wait, r.due(key, result)), r.unsettled(observed, result))
	if result.Interrupted {
		next = decide.Sooner(next, soon)
	}
	if waiting {
		// It is not yet known who requires it.
		next = decide.Sooner(next, requirementPoll)
	}
	if witnessed {
		next = r.forgetVanished(key, next, at.Add(cached.LedgerTTL).Sub(r.Clock.Now()))
	}
	if next == 0 {
		r.memories.forget(key)
	}
	return ctrl.Result{RequeueAfter: next}, nil
}

// retain takes from an observation the Works of an owner that this process has not seen
// disappear, unless they are being deleted or it is certain that nobody needs them. It
// reports whether more may become known about some.
func (r *Reconciler) retain(key types.NamespacedName, observed *decide.Observed) (waiting bool) {
	mayReturn := r.owners().mayReturn(key)
	maps.DeleteFunc(observed.Works, func(at types.NamespacedName, work *workv1alpha1.Work) bool {
		if work.DeletionTimestamp != nil || mayReturn != nil && !mayReturn(render.ClusterOf(at.Namespace)) {
			return false
		}
		waiting = mayReturn != nil
		return true
	})
	return waiting
}

// forgetVanished forgets an object that disappeared, once nothing is left to do for
// it and the cache can no longer show Works that were written shortly before. It
// returns when to check again; 0 if the object is forgotten.
func (r *Reconciler) forgetVanished(key types.NamespacedName, next, left time.Duration) time.Duration {
	next = decide.Sooner(next, left)
	if left <= 0 && next == 0 {
		r.vanished.Delete(key)
		r.requirements.Forget(key)
	}
	return next
}

// letGo reports the clusters that an object leaves behind without cleanup.
func (r *Reconciler) letGo(ctx context.Context, object cached.Object, plan *decide.Plan) {
	if len(plan.Abandoned) > 0 {
		logAbandoned(ctx, object, plan.Abandoned)
		r.event(object, propagationv1alpha1.EventClustersAbandoned, abandonMessage(plan.Abandoned))
	}
}

const (
	// soon is the delay before checking again after something was not as observed.
	// It doubles with each attempt, up to maxSoon.
	soon    = 50 * time.Millisecond
	maxSoon = 10 * time.Second
)
