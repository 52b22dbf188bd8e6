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

package karmada

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// execution is the execution controller: execution.Controller.
type execution struct{ *process }

// runExecution adds the controller to a process. Only a new generation of a Work wakes
// it. The deletion of a Work that has a finalizer is one, too.
func (p *process) runExecution() {
	c := newController(p.name+"/execution", p.karmada.now, p.karmada.options.workers(), true, execution{p}.begin)
	p.runners = append(p.runners, c)
	p.works.handlers = append(p.works.handlers, func(change change[*workv1alpha1.Work]) {
		if wakesExecution(change) && p.handlesWork(change.object()) {
			c.queue.add(keyOf(change.object()))
		}
	})
}

func wakesExecution(change change[*workv1alpha1.Work]) bool {
	return change.created() || change.deleted() || change.old.Generation != change.fresh.Generation ||
		change.old.DeletionTimestamp.IsZero() != change.fresh.DeletionTimestamp.IsZero()
}

// attempt is a pass over one Work.
type attempt struct {
	*process
	work    *workv1alpha1.Work
	cluster *clusterv1alpha1.Cluster
}

// begin is Controller.Reconcile. The cluster is read here once: an attempt goes on when
// the cluster becomes NotReady meanwhile.
func (e execution) begin(key types.NamespacedName) *step {
	return &step{name: "reads the Work", do: func(context.Context) (*step, error) {
		work, err := e.works.get(key, "works.work.karmada.io")
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		name, err := names.GetClusterName(work.Namespace)
		if err != nil {
			return nil, err
		}
		cluster, err := e.clusters.get(types.NamespacedName{Name: name}, "clusters.cluster.karmada.io")
		if err != nil {
			return nil, err
		}
		a := &attempt{process: e.process, work: work, cluster: cluster}
		if !work.DeletionTimestamp.IsZero() {
			return a.withdraw()
		}
		return a.dispatch()
	}}
}

// dispatch is updateWorkDispatchingConditionIfNeeded: it decides by the Work as the
// attempt read it.
func (a *attempt) dispatch() (*step, error) {
	condition := metav1.Condition{
		Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue, Reason: "Dispatching",
		Message: "Work is being dispatched to member clusters.", LastTransitionTime: metav1.NewTime(a.now()),
	}
	if util.IsWorkSuspendDispatching(a.work) {
		condition.Status, condition.Reason = metav1.ConditionFalse, "SuspendDispatching"
		condition.Message = "Work dispatching is in a suspended state."
	}
	if meta.IsStatusConditionPresentAndEqual(a.work.Status.Conditions, condition.Type, condition.Status) {
		return a.sync()
	}
	return a.writeCondition("writes Dispatching", a.work, condition, func(err error) (*step, error) {
		if err != nil {
			return nil, err
		}
		return a.sync()
	}), nil
}

// sync goes on unless the Work is suspended or the cluster is not Ready. The Work is
// what the write of Dispatching returned, if there was one.
func (a *attempt) sync() (*step, error) {
	if util.IsWorkSuspendDispatching(a.work) {
		return nil, nil
	}
	if !util.IsClusterReady(&a.cluster.Status) {
		return nil, fmt.Errorf("cluster(%s) not ready", a.cluster.Name)
	}
	return a.applyFrom(0, nil)
}

// applyFrom is syncToClusters from the manifest of an index on.
func (a *attempt) applyFrom(index int, errs []error) (*step, error) {
	manifests := a.work.Spec.Workload.Manifests
	if index == len(manifests) {
		return a.conclude(errs)
	}
	workload := &unstructured.Unstructured{}
	if err := workload.UnmarshalJSON(manifests[index].Raw); err != nil {
		return a.applyFrom(index+1, append(errs, err))
	}
	return onConflict("applies to the member", func(context.Context) error {
		return a.apply(workload)
	}, func(err error) (*step, error) {
		if errors.Is(err, errUnanswered) {
			return a.giveUp(index, errs), nil
		}
		if err != nil {
			errs = append(errs, err)
		}
		return a.applyFrom(index+1, errs)
	}), nil
}

// requestTimeout is when Karmada gives up a request to a member.
const requestTimeout = 32 * time.Second

// giveUp waits for the answer to a request until it is given up. That counts as a success:
// retry.RetryOnConflict returns the last conflict instead of the error of a deadline, and
// there was none.
func (a *attempt) giveUp(index int, errs []error) *step {
	return &step{name: "gives the member up", wait: requestTimeout, do: func(context.Context) (*step, error) {
		return a.applyFrom(index+1, errs)
	}}
}

// apply is tryCreateOrUpdateWorkload.
func (a *attempt) apply(workload *unstructured.Unstructured) error {
	observed, err := a.cached(a.cluster.Name, KeyOf(workload))
	switch {
	case apierrors.IsNotFound(err):
		return a.createOnMember(a.cluster.Name, workload)
	case err != nil:
		return err
	default:
		return a.updateOnMember(a.cluster.Name, workload, observed)
	}
}

// conclude writes Applied. A True over a True is no write. An attempt that failed is
// retried, whether or not it could write that.
func (a *attempt) conclude(errs []error) (*step, error) {
	condition := a.applied(metav1.ConditionTrue, "AppliedSuccessful", "Manifest has been successfully applied")
	if len(errs) > 0 {
		total := len(a.work.Spec.Workload.Manifests)
		condition = a.applied(metav1.ConditionFalse, "AppliedFailed",
			fmt.Sprintf("Failed to apply all manifests (%d/%d): %s", total-len(errs), total, utilerrors.NewAggregate(errs).Error()))
	}
	return a.writeCondition("writes Applied", a.work, condition, func(err error) (*step, error) {
		if err != nil {
			errs = append(errs, err)
		}
		return nil, utilerrors.NewAggregate(errs)
	}), nil
}
