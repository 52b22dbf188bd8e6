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
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// The keys, and what is logged at which verbosity, are a contract with operators:
// docs/logging.md. The content of a resource is never logged.
const (
	keyObject   = "object"
	keyCluster  = "cluster"
	keyWork     = "work"
	keyRevision = "revision"
	keyReason   = "reason"

	// verbosityWrites adds every write of a Work, verbosityPlans what each reconcile
	// is about to do.
	verbosityWrites = 2
	verbosityPlans  = 4
)

// logOf returns the logger of a controller, or of the reconcile of an object.
func logOf(base logr.Logger, kind string) func(*reconcile.Request) logr.Logger {
	return func(request *reconcile.Request) logr.Logger {
		if request == nil {
			return base.WithValues("controller", strings.ToLower(kind))
		}
		return base.WithValues(keyObject, kind+" "+names.NamespacedKey(request.Namespace, request.Name))
	}
}

// logPlan logs what a reconcile is about to do.
func logPlan(ctx context.Context, plan *decide.Plan) {
	if log := ctrl.LoggerFrom(ctx).V(verbosityPlans); log.Enabled() {
		log.Info("Planned", "steps", plan.Steps())
	}
}

// logWrite logs a successful write of a Work.
func logWrite(ctx context.Context, operation string, work *workv1alpha1.Work, why decide.Why) {
	if log := ctrl.LoggerFrom(ctx).V(verbosityWrites); log.Enabled() {
		log.Info("Wrote a Work", "operation", operation, keyCluster, render.ClusterOf(work.Namespace),
			keyWork, work.Namespace+"/"+work.Name, keyRevision, render.Revision(work), keyReason, string(why))
	}
}

// logReady logs a change of the Ready condition.
func logReady(ctx context.Context, before, after *propagationv1alpha1.PropagationStatus) {
	was, is := meta.FindStatusCondition(before.Conditions, propagationv1alpha1.ConditionReady), meta.FindStatusCondition(after.Conditions, propagationv1alpha1.ConditionReady)
	if was == nil {
		was = &metav1.Condition{}
	}
	if was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	ctrl.LoggerFrom(ctx).Info("Ready changed", "ready", string(is.Status), keyReason, is.Reason, "message", is.Message)
}

// onlyNews returns an error only if it differs from the error of the previous
// reconcile of the object, because controller-runtime logs every error that it
// gets. A repeated error is retried with the same back-off.
func (r *Reconciler) onlyNews(key types.NamespacedName, result ctrl.Result, err error) (ctrl.Result, error) {
	said := ""
	if err != nil {
		said = legible.Error(err).Error()
	}
	switch news := r.memories.known(key).says(said); {
	case err == nil:
		return result, nil
	case news:
		return result, legible.Error(err)
	case errors.Is(err, reconcile.TerminalError(nil)):
		return ctrl.Result{}, nil
	}
	return ctrl.Result{Requeue: true}, nil //nolint:staticcheck // deprecated, and the only way to back off without an error in the log
}

// logAbandoned logs which clusters an object leaves behind.
func logAbandoned(ctx context.Context, object client.Object, clusters []string) {
	ctrl.LoggerFrom(ctx).Info("Let the object go without cleaning up", keyReason, propagationv1alpha1.EventClustersAbandoned,
		"uid", object.GetUID(), "clusters", clusters)
}
