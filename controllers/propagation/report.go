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
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
)

// statusInterval is the minimum time between two writes of the status of an object,
// unless the change is urgent. Without it, the status of an object with N clusters
// would be written N times, with N rows each. It is also how long clusters have to
// answer before the status says that they have not.
const statusInterval = time.Second

// detailInterval is the same for a status that differs only in why clusters report
// the resource as unhealthy, because replicas become ready one by one.
const detailInterval = 5 * time.Second

// report publishes the result of a reconcile, and returns when to reconcile again.
func (r *Reconciler) report(ctx context.Context, object cached.Object, observed *decide.Observed, plan *decide.Plan, result *decide.Outcome) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(object)
	works, err := r.observeWorks(ctx, observed.Owner)
	if err != nil {
		return r.unfinished(key, err)
	}
	now := observed.After(works, r.requirements.Faring(observed))
	status, rows := decide.StatusAndRows(now, result)
	r.gauges.confirmed(now, r.Clock.Now())
	r.gauges.counted(key, status, rows)
	published, err := r.owners().publish(ctx, object, now, plan, &verdicts{status: status, rows: rows})
	if err != nil {
		return r.again(key, err)
	}
	next, err := r.next(now, decide.Sooner(decide.Sooner(plan.Wait, published.hold), published.early), result)
	if published.hold == 0 {
		// Before, the recorded status may name more.
		if err := r.pruneSnapshots(ctx, object, now, status.Rollout); err != nil {
			return r.again(key, err)
		}
	}
	if published.hold > 0 && next.RequeueAfter == published.hold {
		next.Priority = ptr.To(priorityReport)
	}
	return next, err
}

// reportOnTemplate aggregates the status onto the resource, and records an Event if
// it cannot. It returns when to try again; 0 if that is not necessary. A failure is
// not an error of the reconcile, because an error would cancel all other timers.
func (r *Reconciler) reportOnTemplate(ctx context.Context, object cached.Object, observed *decide.Observed) time.Duration {
	early, err := r.aggregate(ctx, object, observed)
	if saysLookAgain(err) {
		return soon
	}
	if ctx.Err() != nil {
		return 0 // the process is ending, which is not a failure of the aggregation
	}
	delay, news := r.memories.of(client.ObjectKeyFromObject(object)).aggregation.failed(err)
	if err == nil {
		return early
	}
	reconcileErrors.WithLabelValues(r.Kind, propagationv1alpha1.EventAggregateStatusFailed).Inc()
	if news {
		ctrl.LoggerFrom(ctx).Error(legible.Error(err), "Cannot aggregate the status onto the resource", keyReason, propagationv1alpha1.EventAggregateStatusFailed)
		r.event(object, propagationv1alpha1.EventAggregateStatusFailed, err.Error())
	}
	return delay
}

// holdStatus returns how long to hold back a status; 0 to write it, or if there is
// nothing to write.
func (r *Reconciler) holdStatus(object cached.Object, plan *decide.Plan, status *propagationv1alpha1.PropagationStatus) time.Duration {
	if equality.Semantic.DeepEqual(object.GetStatus(), status) {
		return 0
	}
	remembered := r.memories.of(client.ObjectKeyFromObject(object))
	if isFirst(object.GetStatus(), status) {
		if len(plan.Writes) > 0 && remembered.statusWritten.IsZero() {
			remembered.statusWritten = r.Clock.Now()
		}
	} else if hold := r.awaitDependencies(object.GetStatus(), status, remembered); hold > 0 {
		return hold
	} else if isUrgent(object.GetStatus(), status) {
		return 0
	}
	if remembered.statusWritten.IsZero() {
		return 0
	}
	interval := statusInterval
	if equality.Semantic.DeepEqual(withoutDetail(object.GetStatus()), withoutDetail(status)) {
		interval = detailInterval
	}
	return max(0, interval-r.Clock.Since(remembered.statusWritten))
}

// dependencyPatience is how long a new process looks at dependencies before a status says
// that it has not.
const dependencyPatience = 5 * time.Second

// awaitDependencies returns how long to hold back a status that differs from the one that
// an earlier process wrote only because this process has not looked at the dependencies
// yet. Each start would otherwise cost two writes per object with dependencies.
func (r *Reconciler) awaitDependencies(before, after *propagationv1alpha1.PropagationStatus, remembered *memory) time.Duration {
	if before.Dependencies == nil || !dependency.Unchecked(after.Dependencies) {
		return 0
	}
	same := after.DeepCopy()
	same.Dependencies, same.Conditions = before.Dependencies, before.Conditions
	if !equality.Semantic.DeepEqual(before, same) {
		return 0
	}
	if remembered.awaited.IsZero() {
		remembered.awaited = r.Clock.Now()
	}
	return max(0, dependencyPatience-r.Clock.Since(remembered.awaited))
}

// withoutDetail returns a copy without the reasons why clusters report the resource
// as unhealthy.
func withoutDetail(status *propagationv1alpha1.PropagationStatus) *propagationv1alpha1.PropagationStatus {
	bare := status.DeepCopy()
	for i := range bare.Clusters {
		if bare.Clusters[i].Reason == propagationv1alpha1.ReasonUnhealthy {
			bare.Clusters[i].Message = ""
		}
	}
	for i := range bare.Conditions {
		if bare.Conditions[i].Reason == propagationv1alpha1.ReasonUnhealthy {
			bare.Conditions[i].Message = ""
		}
	}
	return bare
}

// isFirst reports whether a status is the first one and without trouble: clusters
// have been asked, and some may not have applied the resource yet, or may not
// report it as healthy yet. Most clusters do within a second. Until then, nothing
// false is reported, because the API server gave the object an observedGeneration
// of -1 (ADR 6).
func isFirst(before, after *propagationv1alpha1.PropagationStatus) bool {
	if meta.FindStatusCondition(before.Conditions, propagationv1alpha1.ConditionReady) != nil {
		return false
	}
	ready := meta.FindStatusCondition(after.Conditions, propagationv1alpha1.ConditionReady)
	return decide.ReasonNamed(ready.Reason).Starting
}

// isUrgent reports whether somebody may be waiting for the change.
func isUrgent(before, after *propagationv1alpha1.PropagationStatus) bool {
	if before.ObservedGeneration == nil || *before.ObservedGeneration != *after.ObservedGeneration {
		return true
	}
	for _, kind := range []string{propagationv1alpha1.ConditionReady, propagationv1alpha1.ConditionStalled} {
		was, is := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(after.Conditions, kind)
		if (was == nil) != (is == nil) || was != nil && was.Status != is.Status {
			return true
		}
	}
	return false
}

// writeStatus writes a status that differs, and reports the change in the log and
// in Events. It returns the object as it was written.
func (r *Reconciler) writeStatus(ctx context.Context, object cached.Object, status *propagationv1alpha1.PropagationStatus) (cached.Object, error) {
	before := object.GetStatus().DeepCopy()
	remembered := r.memories.of(client.ObjectKeyFromObject(object))
	if equality.Semantic.DeepEqual(before, status) {
		return object, r.knowStatus(ctx, object, remembered)
	}
	written, err := r.putStatus(ctx, object, status)
	if err != nil {
		return nil, err
	}
	remembered.statusWritten = r.Clock.Now()
	logReady(ctx, before, status)
	r.tell(written, before, status)
	return written, nil
}

// knowStatus makes sure that the API server has the status that the cache shows. After a
// write that failed, or seemed to, it may have another one, and nothing wakes the object when
// the cache shows that.
func (r *Reconciler) knowStatus(ctx context.Context, object cached.Object, remembered *memory) error {
	if !remembered.statusUnknown {
		return nil
	}
	return r.isNewest(ctx, client.ObjectKeyFromObject(object), func(newest cached.Object) bool {
		remembered.statusUnknown = false
		return newest.GetResourceVersion() == object.GetResourceVersion()
	})
}

// putStatus writes a status and nothing else. It returns the object as it was written.
func (r *Reconciler) putStatus(ctx context.Context, object cached.Object, status *propagationv1alpha1.PropagationStatus) (cached.Object, error) {
	written, _ := object.DeepCopyObject().(cached.Object)
	*written.GetStatus() = *status
	err := r.Client.Status().Update(ctx, written)
	r.memories.of(client.ObjectKeyFromObject(object)).statusUnknown = err != nil
	if err != nil {
		return nil, fmt.Errorf("writing the status of %s %s/%s: %w", r.Kind, object.GetNamespace(), object.GetName(), err)
	}
	r.ledger.WroteObject(written)
	return written, nil
}

// next returns when to reconcile again, at the latest after a wait that is not 0,
// and what went wrong. A failure of one part of an object does not cancel the
// timers of the rest.
func (r *Reconciler) next(observed *decide.Observed, wait time.Duration, result *decide.Outcome) (ctrl.Result, error) {
	problem := observed.Resource.Problem
	if problem != nil {
		reconcileErrors.WithLabelValues(r.Kind, problem.Reason).Inc()
		if problem.Err != nil && wait == 0 {
			return ctrl.Result{}, problem.Err
		}
	}
	wait = decide.Sooner(wait, r.due(observed.Key(), result))
	if err := decide.ReviewFailure(observed); err != nil {
		reconcileErrors.WithLabelValues(r.Kind, propagationv1alpha1.ReasonReviewFailed).Inc()
		if wait == 0 {
			return ctrl.Result{}, err
		}
		wait = decide.Sooner(wait, decide.KindPoll)
	}
	wait = decide.Sooner(wait, r.unsettled(observed, result))
	switch {
	case problem == nil:
	case problem.Err != nil:
		wait = decide.Sooner(wait, decide.KindPoll)
	case problem.Stalled && wait == 0:
		// Nothing else is in progress either. Removals may be, despite the mistake.
		return ctrl.Result{}, reconcile.TerminalError(errors.New(problem.Message))
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// due returns when to retry the writes that the API server refused or that lost to
// another write; 0 if there are none.
func (r *Reconciler) due(key types.NamespacedName, result *decide.Outcome) time.Duration {
	wait := time.Duration(0)
	if !result.Due.IsZero() {
		wait = max(soon, result.Due.Sub(r.Clock.Now()))
	}
	if !result.Retry {
		r.memories.known(key).unbeaten()
		return wait
	}
	return decide.Sooner(wait, r.memories.of(key).beatenAgain())
}

// unsettled returns when to check again what delayed the reconcile, such as a
// missing namespace; 0 if nothing did.
func (r *Reconciler) unsettled(observed *decide.Observed, result *decide.Outcome) time.Duration {
	wait := time.Duration(0)
	if result.Homeless {
		wait = decide.Sooner(wait, homelessPoll)
	}
	if len(result.Holders) > 0 {
		wait = decide.Sooner(wait, minConflictPoll)
	}
	if r.ledger.Pending(observed.Owner.UID) {
		wait = decide.Sooner(wait, cached.LedgerTTL)
	}
	return wait
}

// again handles a failed write. A write that lost to another write is not a
// failure, but a reason to reconcile again, with a longer delay each time.
func (r *Reconciler) again(key types.NamespacedName, err error) (ctrl.Result, error) {
	if saysLookAgain(err) {
		return ctrl.Result{RequeueAfter: r.memories.of(key).beatenAgain()}, nil
	}
	if client.IgnoreNotFound(err) == nil {
		return ctrl.Result{}, nil
	}
	return r.unfinished(key, err)
}

// unfinished counts an error that ends a reconcile before the status can report it.
func (r *Reconciler) unfinished(key types.NamespacedName, err error) (ctrl.Result, error) {
	r.memories.of(key) // so that onlyNews recognizes the same error the next time
	reconcileErrors.WithLabelValues(r.Kind, reasonReconcileFailed).Inc()
	return ctrl.Result{}, err
}

// tell records an Event when trouble begins and when it ends. Only the status
// reports success, because an Event is a write too.
func (r *Reconciler) tell(object cached.Object, before, after *propagationv1alpha1.PropagationStatus) {
	was, is := meta.FindStatusCondition(before.Conditions, propagationv1alpha1.ConditionReady), meta.FindStatusCondition(after.Conditions, propagationv1alpha1.ConditionReady)
	if was == nil {
		was = &metav1.Condition{}
	}
	if was.Reason == is.Reason {
		return
	}
	remembered := r.memories.of(client.ObjectKeyFromObject(object))
	if decide.ReasonNamed(is.Reason).Trouble {
		remembered.troubled = true
		r.event(object, is.Reason, is.Message)
		return
	}
	if is.Status != metav1.ConditionTrue {
		return
	}
	// Between trouble and its end, the reason is usually Applying for a while.
	if remembered.troubled {
		remembered.troubled = false
		r.Recorder.Eventf(object, nil, corev1.EventTypeNormal, is.Reason, "Propagate", "%s", legible.Fit(is.Message, legible.MaxNote))
	}
}

// event records a warning.
func (r *Reconciler) event(object cached.Object, reason, message string) {
	r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, reason, "Propagate", "%s", legible.Fit(message, legible.MaxNote))
}

func abandonMessage(clusters []string) string {
	return fmt.Sprintf("finished the deletion without cleaning up %s; Karmada deletes the Works there when it reaches the clusters again",
		strings.Join(clusters, ", "))
}

const (
	// homelessPoll is how often to check whether a missing execution namespace
	// exists.
	homelessPoll = time.Second
	// requirementPoll is how often to check whether every object's dependencies are
	// known.
	requirementPoll = 2 * time.Second
	// watchPoll is how often to read a resource whose kind currently cannot be
	// watched.
	watchPoll = 10 * time.Second
	// unseenPoll and unseenMost are how often to read a resource that the watch of its kind has
	// not shown yet: at first, and in the end.
	unseenPoll = 5 * time.Second
	unseenMost = 5 * time.Minute
)
