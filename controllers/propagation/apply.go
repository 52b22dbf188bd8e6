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
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Outcome is what became of a plan, cluster by cluster.
type Outcome struct {
	// Failures are the writes that the API server refused.
	Failures map[string]error
	// Holders says who holds a Work that was to be created.
	Holders map[string]string
	// Homeless means that a cluster has no execution namespace yet.
	Homeless bool
	// Retry means that something was not as observed: look again at once.
	Retry bool
	// Due is when the first of the refused writes is tried again; the zero time
	// when none was refused.
	Due time.Time
	// Unwritten are the clusters whose Write has not been made.
	Unwritten map[string]bool
}

// outcome gathers results from parallel writes.
type outcome struct {
	mu sync.Mutex
	Outcome
}

// failed takes down what became of a write, and reports whether the API server
// refused it.
func (o *outcome) failed(cluster string, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
	case saysLookAgain(err):
		o.Retry = true
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Karmada makes the namespace a moment after the Cluster is registered,
		// and deletes it a moment before the Cluster is gone.
		o.Homeless = true
	default:
		o.Failures[cluster] = err
		return true
	}
	return false
}

func (o *outcome) tryAgain(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Due.IsZero() || at.Before(o.Due) {
		o.Due = at
	}
}

func (o *outcome) notWritten(cluster string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Unwritten[cluster] = true
}

// heldError says that a Work cannot be created because somebody else has it.
type heldError struct{ holder string }

func (e *heldError) Error() string { return "held by " + e.holder }

// apply carries a plan out. What goes wrong with one cluster is kept apart
// from the others; an error is returned only when the object itself cannot be
// written.
func (r *Reconciler) apply(ctx context.Context, object Object, observed *Observed, plan *Plan, means *renderer) (*Outcome, error) {
	result := &outcome{Outcome: Outcome{Failures: map[string]error{}, Holders: map[string]string{}, Unwritten: map[string]bool{}}}
	if plan.AddFinalizer {
		if err := r.setFinalizer(ctx, object, true); err != nil {
			return nil, err
		}
	}
	worksSkipped.WithLabelValues(r.Kind).Add(float64(max(0, len(observed.Works)-len(plan.Writes)-len(plan.Removals))))
	r.parallel(len(plan.Writes), func(i int) {
		write := &plan.Writes[i]
		err := r.write(ctx, observed, write, means)
		r.record(ctx, observed, result, write.Target.Cluster, write.slot(), write.what(observed), err)
		if err != nil {
			result.notWritten(write.Target.Cluster)
		}
	})
	r.parallel(len(plan.Removals), func(i int) {
		removal := &plan.Removals[i]
		if result.Unwritten[removal.Cluster] {
			// What replaces it is not there.
			return
		}
		r.record(ctx, observed, result, removal.Cluster, removal.slot(), removal.what(), r.remove(ctx, observed, removal))
	})
	maps.Copy(result.Failures, plan.HeldBack)
	slots := plan.slots()
	for slot, setback := range observed.Setbacks {
		if !slots[slot] && !setback.Until.After(observed.Now) {
			// Nobody wants to write that any more.
			r.memories.known(observed.key()).settled(slot)
		}
	}
	if plan.RemoveFinalizer {
		return &result.Outcome, r.setFinalizer(ctx, object, false)
	}
	return &result.Outcome, nil
}

// record takes down what became of a write for a cluster. What the API server
// refuses is logged once, and not tried again at once.
func (r *Reconciler) record(ctx context.Context, observed *Observed, result *outcome, cluster, slot, what string, err error) {
	if held, ok := errors.AsType[*heldError](err); ok {
		r.memories.of(observed.key()).metHolder(observed.claim(), cluster, held.holder, observed.Now)
		result.mu.Lock()
		defer result.mu.Unlock()
		result.Holders[cluster] = held.holder
		return
	}
	if !result.failed(cluster, err) {
		r.memories.known(observed.key()).settled(slot)
		return
	}
	reconcileErrors.WithLabelValues(r.Kind, propagationv1alpha1.ReasonWriteFailed).Inc()
	until, news := r.memories.of(observed.key()).failed(slot, what, err, observed.Now)
	result.tryAgain(until)
	if news {
		ctrl.LoggerFrom(ctx).Error(loggable(err), "The Karmada API server refuses a write", "cluster", cluster)
	}
}

// parallel runs work(0) … work(count-1), bounded together with all other
// reconciles, and returns when all are done.
func (r *Reconciler) parallel(count int, work func(int)) {
	var group sync.WaitGroup
	for i := range count {
		r.writers <- struct{}{}
		group.Go(func() {
			defer func() { <-r.writers }()
			work(i)
		})
	}
	group.Wait()
}

func (r *Reconciler) write(ctx context.Context, observed *Observed, write *Write, means *renderer) error {
	if means != nil {
		done, err := means.admit(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	if write.Live == nil {
		return r.create(ctx, observed, write, means)
	}
	var manifest *render.Manifest
	if write.Update {
		// Before the reset: it may turn out that something else is to be written.
		var err error
		if manifest, err = means.manifest(write.Rendering); err != nil {
			return err
		}
	}
	live, sent := write.Live, []byte(nil)
	if write.Reset {
		var err error
		if live, sent, err = r.reset(ctx, observed, live); err != nil {
			return err
		}
	}
	if write.Nudge {
		return r.nudge(ctx, observed, live, write.notes())
	}
	if write.Superseded {
		return r.superseded(ctx, observed, live)
	}
	if !write.Update {
		return nil
	}
	return r.update(ctx, observed, write, manifest, live, sent)
}

// update writes a manifest into a Work. sent is the manifest that it replaces, nil
// when that is not known.
func (r *Reconciler) update(ctx context.Context, observed *Observed, write *Write, manifest *render.Manifest, live *workv1alpha1.Work, sent []byte) error {
	work, err := manifest.UpdatedWork(live, observed.Owner, write.Target, write.Confirmed)
	if err != nil {
		return err
	}
	if render.Revision(live) != manifest.Revision {
		r.setHealthFloor(observed, work, live, manifest, sent)
	}
	if err := r.Client.Update(ctx, work); err != nil {
		return r.unlessGone(err, "updating Work %s/%s", work.Namespace, work.Name)
	}
	return r.asWritten(observed, "update", work, write)
}

// asWritten takes a write down like written, and returns errChanged when what
// the API server keeps is not what was written: it would be written again for ever.
func (r *Reconciler) asWritten(observed *Observed, operation string, work *workv1alpha1.Work, write *Write) error {
	if err := r.written(observed, operation, work, write.Rendering.Revision); err != nil {
		return err
	}
	if render.Revision(work) != write.Rendering.Revision || deviates(work, observed.Owner, write.Target) {
		return errChanged
	}
	return nil
}

// written takes a write down that the API server took, and from when on a
// revision, if one was written, is awaited.
func (r *Reconciler) written(observed *Observed, operation string, work *workv1alpha1.Work, revision string) error {
	workWrites.WithLabelValues(r.Kind, operation).Inc()
	if revision != "" {
		r.gauges.wrote(observed.Owner, client.ObjectKeyFromObject(work), revision, r.Clock.Now())
	}
	return r.ledger.wrote(observed.Owner.UID, work)
}

// create writes a Work that is not there, and finds out who has it when it
// turns out to be.
func (r *Reconciler) create(ctx context.Context, observed *Observed, write *Write, means *renderer) error {
	manifest, err := means.manifest(write.Rendering)
	if err != nil {
		return err
	}
	work, err := manifest.NewWork(observed.Owner, write.Target)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(work)
	err = r.Client.Create(ctx, work)
	if err == nil {
		return r.asWritten(observed, "create", work, write)
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Work %s: %w", key, err)
	}
	existing := &workv1alpha1.Work{}
	if err := r.Live.Get(ctx, key, existing); err != nil {
		return r.unlessGone(err, "reading Work %s", key)
	}
	look := &holderLook{r: r, observed: observed, gone: map[render.Owner]bool{}}
	holder, err := look.holder(ctx, existing)
	if err != nil {
		return err
	}
	if holder != "" {
		return &heldError{holder: holder}
	}
	// Ours, or nobody's any more: known from now on, and put right at once.
	if err := r.ledger.wrote(observed.Owner.UID, existing); err != nil {
		return err
	}
	return &lookAgainError{what: "creating Work " + key.String(), err: err}
}

// reset takes back what the cluster confirmed, so that a confirmation seen
// from now on speaks of what is written next. It returns the Work as it is
// then, compact, with the resourceVersion that the next write has to name, and the
// manifest in it.
func (r *Reconciler) reset(ctx context.Context, observed *Observed, live *workv1alpha1.Work) (*workv1alpha1.Work, []byte, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": live.ResourceVersion},
		"status":   map[string]any{"conditions": resetConditions(live, observed.Now)},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the conditions of Work %s/%s: %w", live.Namespace, live.Name, err)
	}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name}}
	if err := r.Client.Status().Patch(ctx, work, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, nil, r.unlessGone(err, "resetting the status of Work %s/%s", live.Namespace, live.Name)
	}
	var sent []byte
	if len(work.Spec.Workload.Manifests) == 1 {
		sent = work.Spec.Workload.Manifests[0].Raw
	}
	return work, sent, r.written(observed, "reset", work, "")
}

// remove deletes a Work that is known to be ours, or sees its deletion to its end.
func (r *Reconciler) remove(ctx context.Context, observed *Observed, removal *Removal) error {
	work := removal.Work
	switch {
	case removal.Release:
		return r.release(ctx, work)
	case removal.Nudge:
		return r.nudge(ctx, observed, work, removal.Notes)
	case removal.Preserve != nil:
		patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"preserveResourcesOnDeletion":%t}}`, work.ResourceVersion, *removal.Preserve)
		written := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
		if err := r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return r.unlessGone(err, "updating Work %s/%s", work.Namespace, work.Name)
		}
		work = written
	}
	if render.HoldsNamespace(removal.Work) {
		namespace, err := r.synchronizedNamespace(ctx, work)
		if err != nil {
			return err
		}
		if namespace != nil {
			return r.handOver(ctx, observed, work, namespace)
		}
	}
	// Recorded first: the Work may be gone before the answer is here.
	if err := r.ledger.deleted(observed.Owner.UID, work); err != nil {
		return err
	}
	// The resourceVersion, because a policy's binding takes a Work over without
	// changing its UID.
	if err := r.Client.Delete(ctx, work, client.Preconditions{UID: &work.UID, ResourceVersion: &work.ResourceVersion}); err != nil {
		r.ledger.gone(observed.Owner.UID, work)
		return r.unlessGone(err, "deleting Work %s/%s", work.Namespace, work.Name)
	}
	workWrites.WithLabelValues(r.Kind, "delete").Inc()
	return nil
}

// synchronizedNamespace returns the Namespace that a Work holds if Karmada puts it
// on every cluster by itself: to delete such a Work would delete the Namespace on
// the member with all that is in it. It returns nil for any other Namespace.
func (r *Reconciler) synchronizedNamespace(ctx context.Context, work *workv1alpha1.Work) (*metav1.PartialObjectMetadata, error) {
	full := &workv1alpha1.Work{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(work), full); err != nil {
		return nil, r.unlessGone(err, "reading Work %s/%s", work.Namespace, work.Name)
	}
	if full.ResourceVersion != work.ResourceVersion || len(full.Spec.Workload.Manifests) != 1 {
		return nil, &lookAgainError{what: fmt.Sprintf("reading Work %s/%s", work.Namespace, work.Name), err: errors.New("it has changed since it was observed")}
	}
	held := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(full.Spec.Workload.Manifests[0].Raw, held); err != nil {
		return nil, fmt.Errorf("reading the Namespace in Work %s/%s: %w", work.Namespace, work.Name, err)
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.Live.Get(ctx, types.NamespacedName{Name: held.Name}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // what is not there is not synchronized
	}
	if err != nil {
		return nil, fmt.Errorf("reading Namespace %s, to see whether Karmada synchronizes it: %w", held.Name, err)
	}
	if !isSynchronized(namespace) || namespace.DeletionTimestamp != nil {
		return nil, nil //nolint:nilnil // it is ours
	}
	return namespace, nil
}

// handOver makes a Work what Karmada's namespace synchronization would have made
// it: without our marks, and owned by the Namespace.
func (r *Reconciler) handOver(ctx context.Context, observed *Observed, work *workv1alpha1.Work, namespace *metav1.PartialObjectMetadata) error {
	owner := metav1.NewControllerRef(namespace, corev1.SchemeGroupVersion.WithKind("Namespace"))
	annotations := map[string]any{}
	for _, key := range []string{propagationv1alpha1.OwnerKindAnnotation, propagationv1alpha1.OwnerNamespaceAnnotation, propagationv1alpha1.OwnerNameAnnotation} {
		annotations[key] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": work.ResourceVersion, "annotations": annotations,
		"labels": map[string]any{propagationv1alpha1.OwnerUIDLabel: nil}, "ownerReferences": []metav1.OwnerReference{*owner},
	}})
	if err != nil {
		return fmt.Errorf("encoding the marks of Work %s/%s: %w", work.Namespace, work.Name, err)
	}
	// For this process it is as good as deleted: it leaves the cache.
	if err := r.ledger.deleted(observed.Owner.UID, work); err != nil {
		return err
	}
	written := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
	if err := r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		r.ledger.gone(observed.Owner.UID, work)
		return r.unlessGone(err, "handing over Work %s/%s to Karmada's namespace synchronization", work.Namespace, work.Name)
	}
	workWrites.WithLabelValues(r.Kind, "release").Inc()
	return nil
}

// notes are what a nudge leaves on a Work.
func (w *Write) notes() map[string]string {
	notes := map[string]string{}
	maps.Copy(notes, w.Notes)
	if w.Target.ReadySince != "" {
		notes[propagationv1alpha1.ClusterReadySinceAnnotation] = w.Target.ReadySince
	}
	if w.Confirmed != "" {
		notes[propagationv1alpha1.ConfirmedRevisionAnnotation] = w.Confirmed
	}
	return notes
}

// nudge makes Karmada attempt a Work afresh, or its deletion, and leaves notes on
// it.
func (r *Reconciler) nudge(ctx context.Context, observed *Observed, work *workv1alpha1.Work, notes map[string]string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": work.ResourceVersion, "annotations": notes},
		"spec":     map[string]any{"suspendDispatching": render.Nudged(work)},
	})
	if err != nil {
		return fmt.Errorf("encoding the nudge of Work %s/%s: %w", work.Namespace, work.Name, err)
	}
	written := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
	if err := r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return r.unlessGone(err, "nudging Work %s/%s", work.Namespace, work.Name)
	}
	return r.written(observed, "nudge", written, "")
}

// superseded takes off a Work that the cluster may have the object of an earlier life
// of the resource.
func (r *Reconciler) superseded(ctx context.Context, observed *Observed, work *workv1alpha1.Work) error {
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{%q:null}}}`, work.ResourceVersion, propagationv1alpha1.SupersedesAnnotation)
	written := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
	if err := r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return r.unlessGone(err, "updating Work %s/%s", work.Namespace, work.Name)
	}
	return r.written(observed, "update", written, "")
}

// release drops Karmada's finalizer from a Work.
func (r *Reconciler) release(ctx context.Context, work *workv1alpha1.Work) error {
	kept := slices.DeleteFunc(slices.Clone(work.Finalizers), func(finalizer string) bool {
		return finalizer == util.ExecutionControllerFinalizer
	})
	// The Work is compact: nothing may be made of it as a whole.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": work.ResourceVersion, "finalizers": kept},
	})
	if err != nil {
		return fmt.Errorf("encoding the finalizers of Work %s/%s: %w", work.Namespace, work.Name, err)
	}
	released := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
	if err := r.Client.Patch(ctx, released, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return r.unlessGone(err, "releasing Work %s/%s", work.Namespace, work.Name)
	}
	workWrites.WithLabelValues(r.Kind, "release").Inc()
	return nil
}

// setFinalizer adds our finalizer to an object, or removes it. Nothing may be
// written for an object that is gone before it has the finalizer: nobody would
// ever clean that up.
func (r *Reconciler) setFinalizer(ctx context.Context, object Object, present bool) error {
	finalizers := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(finalizer string) bool {
		return finalizer == propagationv1alpha1.CleanupFinalizer
	})
	if present {
		finalizers = append(finalizers, propagationv1alpha1.CleanupFinalizer)
	}
	// Not made by comparing the whole object, which may name thousands of clusters.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": object.GetResourceVersion(), "finalizers": finalizers,
	}})
	if err != nil {
		return fmt.Errorf("encoding the finalizers of %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	if err := r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("writing the finalizer of %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	if present {
		r.ledger.wroteObject(object)
	}
	return nil
}

// lookAgainError says that something is no longer as it was observed. That is no
// failure, but a reason to look again.
type lookAgainError struct {
	what string
	err  error
}

func (e *lookAgainError) Error() string { return fmt.Sprintf("%s: %v", e.what, e.err) }

func (e *lookAgainError) Unwrap() error { return e.err }

// saysLookAgain reports whether an error only means to look again: another write
// came first, or what was to be written is not what was decided on.
func saysLookAgain(err error) bool {
	_, says := errors.AsType[*lookAgainError](err)
	return says || apierrors.IsConflict(err) || errors.Is(err, errAnotherRevision)
}

// unlessGone takes a Work that vanished under a write for a Work that changed.
func (r *Reconciler) unlessGone(err error, format string, arguments ...any) error {
	what := fmt.Sprintf(format, arguments...)
	if apierrors.IsNotFound(err) {
		return &lookAgainError{what: what, err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}
