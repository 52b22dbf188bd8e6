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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/helper"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// errNoFinalizer is not an error to Karmada, which asks for a retry with back-off.
var errNoFinalizer = errors.New("waiting for the finalizer of the Cluster")

// clusterLifecycle is the cluster controller: cluster.Controller.
type clusterLifecycle struct{ *process }

// runClusters adds the controller to karmada-controller-manager.
func (p *process) runClusters() {
	c := newController(p.name+"/cluster", p.karmada.now, p.karmada.options.workers(), true, clusterLifecycle{p}.begin)
	p.runners = append(p.runners, c)
	p.clusters.handlers = append(p.clusters.handlers, func(change change[*clusterv1alpha1.Cluster]) {
		c.queue.add(keyOf(change.object()))
	})
}

func (l clusterLifecycle) begin(key types.NamespacedName) *step {
	return &step{name: "reads the Cluster", do: func(context.Context) (*step, error) {
		cluster, err := l.clusters.get(key, "clusters.cluster.karmada.io")
		if err != nil {
			return nil, nil // the only error is that the Cluster is gone
		}
		if !cluster.DeletionTimestamp.IsZero() {
			return l.remove(cluster)
		}
		return l.ensureSpace(cluster)
	}}
}

// ensureSpace is createExecutionSpace.
func (l clusterLifecycle) ensureSpace(cluster *clusterv1alpha1.Cluster) (*step, error) {
	name := names.GenerateExecutionSpaceName(cluster.Name)
	if _, err := l.namespaces.get(types.NamespacedName{Name: name}, "namespaces"); err == nil {
		return l.taint(cluster)
	}
	return &step{name: "creates the execution namespace", do: func(ctx context.Context) (*step, error) {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{util.KarmadaSystemLabel: util.KarmadaSystemLabelValue},
		}}
		if err := l.karmada.client.Create(ctx, space); err != nil {
			return nil, err
		}
		return l.taint(cluster)
	}}, nil
}

// taint is taintClusterByCondition. It writes a copy of the Cluster, so that the write of
// the finalizer after it meets a conflict, as the real one does.
func (l clusterLifecycle) taint(cluster *clusterv1alpha1.Cluster) (*step, error) {
	notReady := &corev1.Taint{Key: clusterv1alpha1.TaintClusterNotReady, Effect: corev1.TaintEffectNoSchedule}
	unreachable := &corev1.Taint{Key: clusterv1alpha1.TaintClusterUnreachable, Effect: corev1.TaintEffectNoSchedule}
	add, remove := []*corev1.Taint{notReady}, []*corev1.Taint(nil)
	if ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady); ready != nil {
		switch ready.Status {
		case metav1.ConditionFalse:
			remove = []*corev1.Taint{unreachable}
		case metav1.ConditionUnknown:
			add, remove = []*corev1.Taint{unreachable}, []*corev1.Taint{notReady}
		case metav1.ConditionTrue:
			add, remove = nil, []*corev1.Taint{notReady, unreachable}
		}
	}
	tainted := cluster.DeepCopy()
	tainted.Spec.Taints = helper.SetCurrentClusterTaints(add, remove, cluster)
	if equality.Semantic.DeepEqual(tainted.Spec.Taints, cluster.Spec.Taints) {
		return l.ensureFinalizer(cluster)
	}
	for i := range tainted.Spec.Taints {
		if !helper.TaintExists(cluster.Spec.Taints, &tainted.Spec.Taints[i]) {
			now := metav1.NewTime(l.now())
			tainted.Spec.Taints[i].TimeAdded = &now
		}
	}
	return &step{name: "writes the taints", do: func(ctx context.Context) (*step, error) {
		if err := l.karmada.client.Update(ctx, tainted); err != nil {
			return nil, err
		}
		return l.ensureFinalizer(cluster)
	}}, nil
}

func (l clusterLifecycle) ensureFinalizer(cluster *clusterv1alpha1.Cluster) (*step, error) {
	if !controllerutil.AddFinalizer(cluster, util.ClusterControllerFinalizer) {
		return nil, nil
	}
	return &step{name: "writes the finalizer", do: func(ctx context.Context) (*step, error) {
		return nil, l.karmada.client.Update(ctx, cluster)
	}}, nil
}

// remove is removeCluster: it empties the execution namespace, and lets the Cluster go
// when the namespace is gone and no binding names the cluster.
func (l clusterLifecycle) remove(cluster *clusterv1alpha1.Cluster) (*step, error) {
	if cluster.Spec.SyncMode == clusterv1alpha1.Pull && !util.IsClusterReady(&cluster.Status) {
		return l.abandon(cluster, l.worksOf(cluster.Name), nil)
	}
	return l.deleteSpace(cluster), nil
}

func (p *process) worksOf(cluster string) []*workv1alpha1.Work {
	var works []*workv1alpha1.Work
	for _, work := range p.works.all() {
		if work.Namespace == names.GenerateExecutionSpaceName(cluster) {
			works = append(works, work.DeepCopy())
		}
	}
	return works
}

// abandon is deleteFinalizerForWorks: nobody is there to clean a pull cluster up that is
// not Ready.
func (l clusterLifecycle) abandon(cluster *clusterv1alpha1.Cluster, works []*workv1alpha1.Work, errs []error) (*step, error) {
	for i, work := range works {
		if controllerutil.RemoveFinalizer(work, util.ExecutionControllerFinalizer) {
			return &step{name: "strips the finalizer of Work " + work.Name, do: func(ctx context.Context) (*step, error) {
				if err := l.karmada.client.Update(ctx, work); err != nil {
					errs = append(errs, err)
				}
				return l.abandon(cluster, works[i+1:], errs)
			}}, nil
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return l.deleteSpace(cluster), nil
}

func (l clusterLifecycle) deleteSpace(cluster *clusterv1alpha1.Cluster) *step {
	return &step{name: "deletes the execution namespace", do: func(ctx context.Context) (*step, error) {
		name := names.GenerateExecutionSpaceName(cluster.Name)
		err := l.karmada.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if _, err := l.namespaces.get(types.NamespacedName{Name: name}, "namespaces"); err == nil || l.isBound(cluster.Name) {
			return nil, again{after: cleanupPeriod}
		}
		delete(l.probes, cluster.Name)
		return l.release(cluster), nil
	}}
}

func (l clusterLifecycle) release(cluster *clusterv1alpha1.Cluster) *step {
	return &step{name: "drops the finalizer", do: func(ctx context.Context) (*step, error) {
		if !controllerutil.RemoveFinalizer(cluster, util.ClusterControllerFinalizer) {
			return nil, nil
		}
		return nil, l.karmada.client.Update(ctx, cluster)
	}}
}

// isBound is the opposite of isTargetClusterRemoved.
func (l clusterLifecycle) isBound(cluster string) bool {
	for _, binding := range l.bindings.all() {
		if specOf(binding).TargetContains(cluster) {
			return true
		}
	}
	return false
}
