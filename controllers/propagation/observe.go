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
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// begin returns an observation that contains what the object itself says.
func (r *Reconciler) begin(object cached.Object) *decide.Observed {
	observed := &decide.Observed{
		Now:          r.Clock.Now(),
		Owner:        r.ownerOf(object),
		Generation:   object.GetGeneration(),
		Spec:         object.GetSpec(),
		Status:       object.GetStatus(),
		Deleting:     object.GetDeletionTimestamp() != nil,
		HasFinalizer: controllerutil.ContainsFinalizer(object, propagationv1alpha1.CleanupFinalizer),
		Abandon:      object.GetAnnotations()[propagationv1alpha1.AbandonUnreachableAnnotation] == "true",
		Retry:        object.GetAnnotations()[propagationv1alpha1.RetryAnnotation],
		Setbacks:     r.memories.of(client.ObjectKeyFromObject(object)).refused(),
		Clusters:     make(map[string]decide.Cluster, max(len(object.GetSpec().Clusters), len(object.GetStatus().Clusters))),
		Holders:      map[string]string{},
		Unreported:   r.backlog.size(),
		Lost:         map[string]time.Time{},
	}
	if dependency, ok := object.(*dependency.Object); ok {
		observed.Terms, observed.Kept = dependency.Terms, dependency.Kept
		observed.MayBeNeeded, observed.RetainPoll = dependency.MayBeRequired, requirementPoll
	}
	return observed
}

// observe reads everything that a decision depends on. If a failed read affects
// only a part of the object, the failure becomes part of the observation;
// otherwise, it is returned as an error.
//
// observe also returns the renderer for what was observed; nil if the known
// revisions were sufficient.
func (r *Reconciler) observe(ctx context.Context, object cached.Object, full bool) (*decide.Observed, contents, error) {
	observed := r.begin(object)
	var err error
	if observed.Works, err = r.observeWorks(ctx, observed.Owner); err != nil {
		return nil, nil, err
	}
	var problem *decide.Problem
	if !observed.Deleting {
		if problem, err = r.observeSelection(ctx, observed); err != nil {
			return nil, nil, err
		}
	}
	if err := r.observeClusters(ctx, observed); err != nil {
		return nil, nil, err
	}
	if observed.Deleting {
		return observed, nil, nil
	}
	observed.Target()
	if problem != nil {
		observed.Resource.Problem = problem
		return observed, nil, nil
	}
	means, err := r.observeContents(ctx, object, observed, full)
	if err != nil {
		return nil, nil, err
	}
	r.observePermissions(ctx, object, observed)
	return observed, means, nil
}

// contents renders what was decided.
type contents interface {
	// Manifest renders what a cluster should get. It returns customize.ErrAnotherRevision
	// if that does not have the planned revision.
	Manifest(ctx context.Context, wanted decide.Rendering) (*render.Manifest, error)
	// Admit waits until the resource may be written, and returns a function to call when
	// the write is done.
	Admit(ctx context.Context) (func(), error)
}

// observeContents determines what each target should get, and who holds Works. It returns
// the means to render that; nil if the known revisions were sufficient.
func (r *Reconciler) observeContents(ctx context.Context, object cached.Object, observed *decide.Observed, full bool) (contents, error) {
	if rollsOut(object) {
		means, err := r.observeRollout(ctx, object, observed)
		if err != nil {
			return nil, err
		}
		if means != nil {
			return means, nil
		}
	}
	resource, means := r.observeResource(ctx, object, observed, full)
	observed.Resource = resource
	if err := r.observeHolders(ctx, observed); err != nil || means == nil {
		return nil, err
	}
	return means, nil
}

// observeSelection finds the clusters that the selector of the spec matches. If the
// selector is invalid, every cluster that has a Work stays a target, so that a
// mistake withdraws nothing.
func (r *Reconciler) observeSelection(ctx context.Context, observed *decide.Observed) (*decide.Problem, error) {
	if observed.Spec.ClusterSelector == nil {
		return nil, nil //nolint:nilnil // no selector is not a problem
	}
	selector, err := metav1.LabelSelectorAsSelector(observed.Spec.ClusterSelector)
	if err != nil {
		observed.Selected = observed.Holding()
		return &decide.Problem{
			Reason: propagationv1alpha1.ReasonClusterSelectorInvalid, Message: fmt.Sprintf("spec.clusterSelector: %v", err), Stalled: true,
		}, nil
	}
	list := &clusterv1alpha1.ClusterList{}
	matching := client.MatchingLabelsSelector{Selector: selector}
	if err := r.Client.List(ctx, list, matching, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Clusters that spec.clusterSelector selects: %w", err)
	}
	found, taints := make([]string, len(list.Items)), make(map[string][]corev1.Taint, len(list.Items))
	for i := range list.Items {
		found[i], taints[list.Items[i].Name] = list.Items[i].Name, list.Items[i].Spec.Taints
	}
	taintsOf := func(name string) []corev1.Taint {
		if known, listed := taints[name]; listed {
			return known
		}
		cluster := &clusterv1alpha1.Cluster{}
		_ = r.Client.Get(ctx, client.ObjectKey{Name: name}, cluster) // one that the cache does not show has none yet
		return cluster.Spec.Taints
	}
	reference, namespace := observed.Spec.Resource, observed.Owner.Namespace
	lost := func(cluster string) bool {
		at := r.ledger.Lost(render.WorkKey(cluster, reference.Kind, namespace, reference.Name))
		return !at.IsZero() && observed.Now.Sub(at) < cached.LedgerTTL
	}
	observed.Select(found, taintsOf, lost)
	if observed.Withdraws() {
		if found, err = r.selectFresh(ctx, observed, matching); err != nil {
			return nil, err
		}
		observed.Select(found, taintsOf, lost)
	}
	return nil, nil //nolint:nilnil // nor is a valid one
}

// selectFresh asks the API server which clusters are selected, before any is withdrawn. The
// caches of the object and of the Clusters may be of different ages: a user may have given a
// cluster the label that the selector asks for since yesterday, or the other way around.
func (r *Reconciler) selectFresh(ctx context.Context, observed *decide.Observed, matching client.MatchingLabelsSelector) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersion(clusterv1alpha1.GroupVersion).WithKind("ClusterList"))
	if err := r.Live.List(ctx, list, matching); err != nil {
		return nil, fmt.Errorf("listing the Clusters that spec.clusterSelector selects: %w", err)
	}
	// Read last: an unchanged object had this selector when the Clusters were listed.
	if err := r.specIsNewest(ctx, observed); err != nil {
		return nil, err
	}
	found := make([]string, len(list.Items))
	for i := range list.Items {
		found[i] = list.Items[i].Name
	}
	return found, nil
}

// succeeds asks the API server once per process whether the cache shows the spec of an object,
// before the Works of a previous process are changed: its cache may have been newer.
func (r *Reconciler) succeeds(ctx context.Context, observed *decide.Observed, plan *decide.Plan) error {
	remembered := r.memories.of(observed.Key())
	if r.Kind == render.DependencyKind || remembered.succeeded == observed.Owner.UID || len(plan.Writes)+len(plan.Removals) == 0 || len(observed.Works) == 0 {
		return nil
	}
	if err := r.specIsNewest(ctx, observed); err != nil {
		return err
	}
	remembered.succeeded = observed.Owner.UID
	return nil
}

// specIsNewest returns an error that says to look again if the API server has another spec
// of an object than the one that was observed.
func (r *Reconciler) specIsNewest(ctx context.Context, observed *decide.Observed) error {
	return r.isNewest(ctx, observed.Key(), func(newest cached.Object) bool {
		return newest.GetGeneration() == observed.Generation && newest.GetUID() == observed.Owner.UID
	})
}

// errOlder means that the cache shows an earlier state of an object.
var errOlder = errors.New("the cache is older")

// isNewest reads an object from the API server. If that is not the same as what is known, it
// is known from now on, and the error says to look again.
func (r *Reconciler) isNewest(ctx context.Context, key types.NamespacedName, same func(newest cached.Object) bool) error {
	newest := r.newOf(r.Kind)
	if err := r.Live.Get(ctx, key, newest); err != nil {
		return r.unlessGone(err, "reading %s %s", r.Kind, key)
	}
	if same(newest) {
		return nil
	}
	r.ledger.WroteObject(newest)
	return &lookAgainError{what: "reading " + r.Kind + " " + key.String(), err: errOlder}
}

// observeWorks lists the Works of an owner, including writes of this process that
// the cache does not show yet.
func (r *Reconciler) observeWorks(ctx context.Context, owner render.Owner) (map[types.NamespacedName]*workv1alpha1.Work, error) {
	works, err := r.worksOf(cached.OwnerUIDKey(owner.UID), cached.OwnerKey(owner))
	if err != nil {
		return nil, fmt.Errorf("finding the Works of %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	if err := r.observeUncached(ctx, owner, r.ledger.Amend(owner.UID, works), works); err != nil {
		return nil, err
	}
	for key, work := range works {
		if decide.TakenOver(work) != "" {
			// Somebody else has taken it over.
			delete(works, key)
		}
	}
	return works, nil
}

// observeUncached reads the Works that have lost the label of the cached ones, and replaces
// what is known about them.
func (r *Reconciler) observeUncached(ctx context.Context, owner render.Owner, known []*workv1alpha1.Work, works map[types.NamespacedName]*workv1alpha1.Work) error {
	found, errs, failed := make([]*workv1alpha1.Work, len(known)), make([]error, len(known)), atomic.Bool{}
	r.parallel(len(known), func(i int) {
		if !failed.Load() {
			found[i], errs[i] = r.readUncached(ctx, owner, known[i])
			failed.CompareAndSwap(false, errs[i] != nil)
		}
	})
	for i, work := range known {
		if errs[i] != nil {
			return errs[i] // the same one each time, which is no news
		}
		key := client.ObjectKeyFromObject(work)
		if delete(works, key); found[i] != nil {
			works[key] = found[i]
		}
	}
	return nil
}

// readUncached reads a Work that the cache does not show, or cannot. It returns nil if
// the Work no longer belongs to its owner for certain.
func (r *Reconciler) readUncached(ctx context.Context, owner render.Owner, known *workv1alpha1.Work) (*workv1alpha1.Work, error) {
	live, key := &workv1alpha1.Work{}, client.ObjectKeyFromObject(known)
	err := r.Live.Get(ctx, key, live)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Work %s: %w", key, err)
	}
	if _, compactErr := render.Compact(live); compactErr != nil {
		return nil, compactErr //nolint:wrapcheck // it says which Work
	}
	// The API server and this process change the rest, too.
	isSame := render.Revision(live) == render.Revision(known) && render.OwnerOf(live) == render.OwnerOf(known) && maps.Equal(live.Labels, known.Labels)
	isLabeled := live.Labels[propagationv1alpha1.OwnerUIDLabel] == string(owner.UID)
	// What somebody has changed may be somebody else's by now: the next attempt judges that.
	if err != nil || live.UID != known.UID || !isSame && !isLabeled {
		r.ledger.Forget(owner.UID, known)
		return nil, nil //nolint:nilnil // it is not an error to be gone
	}
	return live, r.ledger.Wrote(owner.UID, live)
}

func (r *Reconciler) observeClusters(ctx context.Context, observed *decide.Observed) error {
	gvk := schema.FromAPIVersionAndKind(observed.Spec.Resource.APIVersion, observed.Spec.Resource.Kind)
	// One variable for all clusters: there may be thousands, and nothing keeps a
	// reference to it.
	cluster := &clusterv1alpha1.Cluster{}
	observe := func(name string) error {
		if _, done := observed.Clusters[name]; done {
			return nil
		}
		*cluster = clusterv1alpha1.Cluster{}
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, cluster)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading Cluster %s: %w", name, err)
		}
		state := decide.StateOf(cluster, err == nil, gvk)
		state.LostAt = r.contacts.LostAt(cluster)
		observed.Clusters[name] = state
		return nil
	}
	for i := range observed.Spec.Clusters {
		if err := observe(observed.Spec.Clusters[i].Name); err != nil {
			return err
		}
	}
	for _, name := range observed.Selected {
		if err := observe(name); err != nil {
			return err
		}
	}
	for key := range observed.Works {
		if err := observe(render.ClusterOf(key.Namespace)); err != nil {
			return err
		}
	}
	return nil
}

// worksOf returns the cached Works that have any of the keys.
func (r *Reconciler) worksOf(keys ...string) (map[types.NamespacedName]*workv1alpha1.Work, error) {
	works := map[types.NamespacedName]*workv1alpha1.Work{}
	for _, key := range keys {
		found, err := r.works(key)
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			if work, ok := object.(*workv1alpha1.Work); ok {
				works[client.ObjectKeyFromObject(work)] = work
			}
		}
	}
	return works, nil
}
