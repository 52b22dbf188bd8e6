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
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
)

// outcome collects the results of parallel writes.
type outcome struct {
	mu sync.Mutex
	decide.Outcome
}

// failed records the result of a write, and reports whether the API server refused
// it.
func (o *outcome) failed(cluster string, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
	case saysLookAgain(err):
		o.Retry = true
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Karmada creates the namespace shortly after the Cluster is registered,
		// and deletes it shortly before the Cluster is gone.
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

// heldError reports that a Work cannot be created because somebody else holds it.
type heldError struct{ holder string }

func (e *heldError) Error() string { return "held by " + e.holder }

// apply executes a plan. It keeps the failures of different clusters separate, and
// returns an error only if the object itself cannot be written.
func (r *Reconciler) apply(ctx context.Context, object cached.Object, observed *decide.Observed, plan *decide.Plan, means contents) (*decide.Outcome, error) {
	result := &outcome{Outcome: decide.Outcome{Failures: map[string]error{}, Holders: map[string]string{}, Unwritten: map[string]bool{}}}
	if plan.AddFinalizer {
		if err := r.setFinalizer(ctx, object, true); err != nil {
			return nil, err
		}
	}
	worksSkipped.WithLabelValues(r.Kind).Add(float64(max(0, len(observed.Works)-len(plan.Writes)-len(plan.Removals))))
	if result.Interrupted = !r.carryOut(ctx, observed, plan, means, result); result.Interrupted {
		return &result.Outcome, nil
	}
	maps.Copy(result.Failures, plan.HeldBack)
	slots := plan.Slots()
	for slot, setback := range observed.Setbacks {
		if !slots[slot] && !setback.Until.After(observed.Now) {
			// The plan no longer contains this write.
			r.memories.known(observed.Key()).settled(slot)
		}
	}
	if plan.RemoveFinalizer {
		return &result.Outcome, r.setFinalizer(ctx, object, false)
	}
	return &result.Outcome, nil
}

// carryOut makes the writes and then the removals of a plan, and reports whether it has
// begun all of them before the turn of the object was over.
func (r *Reconciler) carryOut(ctx context.Context, observed *decide.Observed, plan *decide.Plan, means contents, result *outcome) bool {
	turn := r.newTurn(observed.Owner.Namespace)
	written := turn.parallel(len(plan.Writes), func(i int) {
		write := &plan.Writes[i]
		err := r.write(ctx, observed, write, means)
		r.record(ctx, observed, result, write.Target.Cluster, write.Slot(), write.What(observed), err)
		if err != nil {
			result.notWritten(write.Target.Cluster)
		}
	})
	for i := range plan.Writes[written:] {
		result.notWritten(plan.Writes[written+i].Target.Cluster)
	}
	removed := turn.parallel(len(plan.Removals), func(i int) {
		removal := &plan.Removals[i]
		if result.Unwritten[removal.Cluster] {
			// The Work that replaces it has not been written.
			return
		}
		err := r.remove(ctx, observed, removal)
		if apierrors.IsNotFound(err) {
			// The cache does not show the end of a Work that has lost its label.
			r.ledger.Forget(observed.Owner.UID, removal.Work)
		}
		r.record(ctx, observed, result, removal.Cluster, removal.Slot(), removal.What(), err)
	})
	return written == len(plan.Writes) && removed == len(plan.Removals)
}

// record records the result of a write for a cluster. A write that the API server
// refuses is logged once, and is not retried immediately.
func (r *Reconciler) record(ctx context.Context, observed *decide.Observed, result *outcome, cluster, slot, what string, err error) {
	if held, ok := errors.AsType[*heldError](err); ok {
		r.memories.of(observed.Key()).metHolder(observed.Claim(), cluster, held.holder, observed.Now)
		result.mu.Lock()
		defer result.mu.Unlock()
		result.Holders[cluster] = held.holder
		return
	}
	if !result.failed(cluster, err) {
		r.memories.known(observed.Key()).settled(slot)
		return
	}
	reconcileErrors.WithLabelValues(r.Kind, propagationv1alpha1.ReasonWriteFailed).Inc()
	until, news := r.memories.of(observed.Key()).failed(slot, what, err, observed.Now)
	result.tryAgain(until)
	if news && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(legible.Error(err), "The Karmada API server refuses a write", keyCluster, cluster, keyReason, propagationv1alpha1.ReasonWriteFailed)
	}
}

// parallel calls work(0) … work(count-1) concurrently, and returns when all calls
// are done. All reconciles share one limit.
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

// setFinalizer adds our finalizer to an object, or removes it. If the object is
// deleted before it has the finalizer, nothing may be written for it, because
// nobody would clean that up.
func (r *Reconciler) setFinalizer(ctx context.Context, object cached.Object, present bool) error {
	finalizers := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(finalizer string) bool {
		return finalizer == propagationv1alpha1.CleanupFinalizer
	})
	if present {
		finalizers = append(finalizers, propagationv1alpha1.CleanupFinalizer)
	}
	// Not computed by comparing whole objects, because an object may name thousands
	// of clusters.
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
		r.ledger.WroteObject(object)
	}
	return nil
}

// lookAgainError reports that something is no longer as observed. That is not a
// failure, but a reason to reconcile again.
type lookAgainError struct {
	what string
	err  error
}

func (e *lookAgainError) Error() string { return fmt.Sprintf("%s: %v", e.what, e.err) }

func (e *lookAgainError) Unwrap() error { return e.err }

// saysLookAgain reports whether an error only means that the object must be
// reconciled again: another write came first, or the content to be written is not
// what was decided on.
func saysLookAgain(err error) bool {
	_, says := errors.AsType[*lookAgainError](err)
	return says || apierrors.IsConflict(err) || errors.Is(err, customize.ErrAnotherRevision)
}

// unlessGone wraps the error of a request for a Work. A Work that is gone is
// treated like one that has changed: it is a reason to reconcile again.
func (r *Reconciler) unlessGone(err error, format string, arguments ...any) error {
	what := fmt.Sprintf(format, arguments...)
	if apierrors.IsNotFound(err) {
		return &lookAgainError{what: what, err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}
