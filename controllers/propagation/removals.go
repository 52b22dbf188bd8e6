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
	"net/http"
	"slices"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// remove deletes a Work that is known to be ours, or helps its deletion to finish.
func (r *Reconciler) remove(ctx context.Context, observed *decide.Observed, removal *decide.Removal) error {
	work := removal.Work
	switch {
	case removal.Release:
		return r.release(ctx, work, removal.Why)
	case removal.Nudge:
		return r.nudge(ctx, observed, work, removal.Notes, removal.Why)
	case removal.Preserve != nil:
		patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"preserveResourcesOnDeletion":%t}}`, work.ResourceVersion, *removal.Preserve)
		written := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
		if err := r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return r.unlessGone(err, "updating Work %s/%s", work.Namespace, work.Name)
		}
		r.ended(ctx, "update", removal.Work, removal.Why)
		if _, err := render.Compact(written); err != nil {
			return err //nolint:wrapcheck // it says which Work
		}
		work = written
	}
	if render.HoldsNamespace(removal.Work) {
		namespace, err := r.synchronizedNamespace(ctx, work)
		if err != nil {
			return err
		}
		if namespace != nil {
			return r.handOver(ctx, observed, work, namespace, removal.Why)
		}
	}
	// Recorded first, because the Work may be gone before the response arrives.
	if err := r.ledger.Deleted(observed.Owner.UID, work); err != nil {
		return err
	}
	if err := r.deleteOurs(ctx, observed, removal.Cluster, work, removal.Why); err != nil {
		r.ledger.NotDeleted(observed.Owner.UID, work, mayHaveSucceeded(err))
		return r.unlessGone(err, "deleting Work %s/%s", work.Namespace, work.Name)
	}
	r.ended(ctx, "delete", work, removal.Why)
	return nil
}

// deleteOurs deletes a Work as it was observed. The resourceVersion must match,
// because the binding of a policy can take over a Work without changing its UID. If
// the cache is stale, the API server would reject the deletion again and again.
// After a conflict, the Work is therefore read, and deleted if its UID, its owner
// and what its deletion preserves are unchanged, and Karmada has not just applied it.
func (r *Reconciler) deleteOurs(ctx context.Context, observed *decide.Observed, cluster string, work *workv1alpha1.Work, why decide.Why) error {
	conflict := r.Client.Delete(ctx, work, client.Preconditions{UID: &work.UID, ResourceVersion: &work.ResourceVersion})
	if !apierrors.IsConflict(conflict) || render.HoldsNamespace(work) || why == decide.Replaced {
		// Whether Karmada synchronizes the Namespace, and whether the cluster refuses
		// the resource, was checked for this resourceVersion only.
		return conflict //nolint:wrapcheck // the caller says what was deleted
	}
	current := &workv1alpha1.Work{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(work), current); err != nil {
		return err //nolint:wrapcheck // the caller says what was deleted
	}
	if current.UID != work.UID || decide.TakenOver(current) != "" || render.OwnerOf(current) != render.OwnerOf(work) ||
		ptr.Deref(current.Spec.PreserveResourcesOnDeletion, false) != ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) || observed.MustSettle(cluster, current) {
		return conflict //nolint:wrapcheck // the caller says what was deleted
	}
	return r.Client.Delete(ctx, current, client.Preconditions{UID: &current.UID, ResourceVersion: &current.ResourceVersion}) //nolint:wrapcheck // the caller says what was deleted
}

// mayHaveSucceeded reports whether a failed request may have taken effect: it got no
// answer, or a server error.
func mayHaveSucceeded(err error) bool {
	answer, answered := errors.AsType[*apierrors.StatusError](err)
	return !answered || answer.ErrStatus.Code >= http.StatusInternalServerError
}

// synchronizedNamespace returns the Namespace that a Work holds if Karmada itself
// creates it on every cluster. Deleting such a Work would delete the Namespace on
// the member and everything in it. It returns nil for any other Namespace.
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
		return nil, nil //nolint:nilnil // a Namespace that does not exist is not synchronized
	}
	if err != nil {
		return nil, fmt.Errorf("reading Namespace %s, to see whether Karmada synchronizes it: %w", held.Name, err)
	}
	if !decide.IsSynchronized(namespace) || namespace.DeletionTimestamp != nil {
		return nil, nil //nolint:nilnil // it is ours
	}
	return namespace, nil
}

// handOver turns a Work into what Karmada's namespace synchronization would have
// created: without our labels and annotations, and owned by the Namespace.
func (r *Reconciler) handOver(ctx context.Context, observed *decide.Observed, work *workv1alpha1.Work, namespace *metav1.PartialObjectMetadata, why decide.Why) error {
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
	// For this process, the Work is as good as deleted, because it leaves the
	// cache.
	if err := r.ledger.Deleted(observed.Owner.UID, work); err != nil {
		return err
	}
	written := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
	if err := r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		r.ledger.NotDeleted(observed.Owner.UID, work, mayHaveSucceeded(err))
		return r.unlessGone(err, "handing over Work %s/%s to Karmada's namespace synchronization", work.Namespace, work.Name)
	}
	r.ended(ctx, "release", work, why)
	return nil
}

// release removes Karmada's finalizer from a Work.
func (r *Reconciler) release(ctx context.Context, work *workv1alpha1.Work, why decide.Why) error {
	kept := slices.DeleteFunc(slices.Clone(work.Finalizers), func(finalizer string) bool {
		return finalizer == util.ExecutionControllerFinalizer
	})
	// The Work is compact, so it must not be written as a whole.
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
	r.ended(ctx, "release", work, why)
	return nil
}

// ended records that a Work is, or is about to be, no longer ours.
func (r *Reconciler) ended(ctx context.Context, operation string, work *workv1alpha1.Work, why decide.Why) {
	workWrites.WithLabelValues(r.Kind, operation).Inc()
	logWrite(ctx, operation, work, why)
}
