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
	"github.com/karmada-direct/karmada-direct/controllers/legible"
)

// statusInterval is how often the status of an object is written at most,
// unless Ready changes. Without it, the status of an object with N clusters
// would be written N times, with N rows each. It is also how long clusters have
// to answer before it is told that they have not.
const statusInterval = time.Second

// detailInterval is the same for a status that differs in nothing but why clusters
// report the resource not healthy: replicas come one by one.
const detailInterval = 5 * time.Second

// report makes known how an owner fares, and says when to look again.
func (r *Reconciler) report(ctx context.Context, object cached.Object, observed *decide.Observed, plan *decide.Plan, result *decide.Outcome) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(object)
	works, err := r.observeWorks(observed.Owner)
	if err != nil {
		return r.unfinished(key, err)
	}
	now := observed.After(works, r.requirements.Faring(observed))
	status, rows := decide.StatusAndRows(now, result)
	r.gauges.confirmed(now, r.Clock.Now())
	r.gauges.counted(key, status.Summary)
	published, err := r.owners().publish(ctx, object, now, plan, &verdicts{status: status, rows: rows})
	if err != nil {
		return r.again(key, err)
	}
	next, err := r.next(now, decide.Sooner(decide.Sooner(plan.Wait, published.hold), published.early), result)
	if published.hold > 0 && next.RequeueAfter == published.hold {
		next.Priority = ptr.To(priorityReport)
	}
	return next, err
}

// reportOnTemplate aggregates the status onto the resource, and reports why it
// cannot. It returns when to try again; 0 for not at all. A failure is not an error
// of the reconcile: an error would end the timers of everything else.
func (r *Reconciler) reportOnTemplate(ctx context.Context, object cached.Object, observed *decide.Observed) time.Duration {
	early, err := r.aggregate(ctx, object, observed)
	if saysLookAgain(err) {
		return soon
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

// holdStatus tells how long to hold a status back; 0 to write it, or when
// there is nothing to write.
func (r *Reconciler) holdStatus(object cached.Object, plan *decide.Plan, status *propagationv1alpha1.PropagationStatus) time.Duration {
	if equality.Semantic.DeepEqual(object.GetStatus(), status) {
		return 0
	}
	remembered := r.memories.of(client.ObjectKeyFromObject(object))
	if isFirst(object.GetStatus(), status) {
		if len(plan.Writes) > 0 && remembered.statusWritten.IsZero() {
			remembered.statusWritten = r.Clock.Now()
		}
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

// withoutDetail leaves out why clusters report the resource not healthy.
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

// isFirst tells of a first status without trouble: clusters have been asked, and
// some may not have applied the resource yet, or not report it healthy. They
// mostly do within a second. Until then nothing is said that could be false: the
// API server gave the object an observedGeneration of -1 (ADR 6).
func isFirst(before, after *propagationv1alpha1.PropagationStatus) bool {
	if meta.FindStatusCondition(before.Conditions, propagationv1alpha1.ConditionReady) != nil {
		return false
	}
	ready := meta.FindStatusCondition(after.Conditions, propagationv1alpha1.ConditionReady)
	return decide.ReasonNamed(ready.Reason).Starting
}

// isUrgent tells whether somebody may be waiting for the difference.
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

// writeStatus writes a status that differs, and tells of the difference.
func (r *Reconciler) writeStatus(ctx context.Context, object cached.Object, status *propagationv1alpha1.PropagationStatus) error {
	before := object.GetStatus().DeepCopy()
	if equality.Semantic.DeepEqual(before, status) {
		return nil
	}
	written, _ := object.DeepCopyObject().(cached.Object)
	*written.GetStatus() = *status
	if err := r.Client.Status().Update(ctx, written); err != nil {
		return fmt.Errorf("writing the status of %s %s/%s: %w", r.Kind, object.GetNamespace(), object.GetName(), err)
	}
	r.ledger.WroteObject(written)
	r.memories.of(client.ObjectKeyFromObject(object)).statusWritten = r.Clock.Now()
	logReady(ctx, before, status)
	r.tell(written, before, status)
	return nil
}

// next says when to look again, at the latest after a wait if that is not 0, and
// what went wrong. What goes wrong with a part of an object keeps the timers of the
// rest.
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
		// Nothing else is under way either: removals may be, beside the mistake.
		return ctrl.Result{}, reconcile.TerminalError(errors.New(problem.Message))
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// due is when to try again what the API server refused or what another write came
// before; 0 for neither.
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

// unsettled is how long what was met on the way is to be looked at again for; 0
// when nothing was.
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

// again takes a write that was beaten by another for what it is: no failure,
// but a reason to look again, later each time.
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

// tell makes an Event of trouble and of its end. What goes well is told by the
// status alone: an Event is a write too.
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
	// Between trouble and its end there is mostly a time of applying.
	if remembered.troubled {
		remembered.troubled = false
		r.Recorder.Eventf(object, nil, corev1.EventTypeNormal, is.Reason, "Propagate", "%s", legible.Fit(is.Message, legible.MaxNote))
	}
}

// event records trouble.
func (r *Reconciler) event(object cached.Object, reason, message string) {
	r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, reason, "Propagate", "%s", legible.Fit(message, legible.MaxNote))
}

func abandonMessage(clusters []string) string {
	return fmt.Sprintf("let go without cleaning up %s; the Works there are deleted when Karmada reaches the clusters again",
		strings.Join(clusters, ", "))
}

const (
	// homelessPoll is how often a cluster's execution namespace is looked for.
	homelessPoll = time.Second
	// requirementPoll is how often to check whether every object's dependencies are
	// known.
	requirementPoll = 2 * time.Second
	// watchPoll is how often a resource is read whose kind cannot be watched now.
	watchPoll = 10 * time.Second
)
