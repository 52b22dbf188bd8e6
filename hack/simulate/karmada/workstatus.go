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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/helper"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// workStatus is the work status controller: status.WorkStatusController. One queue holds
// Works, whose kinds it begins to watch on the members. The other holds objects of
// members, whose status it reports.
type workStatus struct{ *process }

// runWorkStatus adds the controller to a process. Every change of a Work wakes it. The
// retries of its second queue are not limited together.
func (p *process) runWorkStatus() {
	s := workStatus{p}
	watching := newController(p.name+"/work-status", p.karmada.now, p.karmada.options.workers(), true, s.watch)
	p.statuses = newController(p.name+"/work-status", p.karmada.now, p.karmada.options.workers(), false, s.sync)
	p.runners = append(p.runners, watching, p.statuses)
	p.works.handlers = append(p.works.handlers, func(change change[*workv1alpha1.Work]) {
		if p.handlesWork(change.object()) {
			watching.queue.add(keyOf(change.object()))
		}
	})
}

// enqueueStatus is generateKey and the handler of informers: the cluster is that of the
// Work that the object names.
func (p *process) enqueueStatus(object *unstructured.Unstructured) {
	space := object.GetAnnotations()[workv1alpha2.WorkNamespaceAnnotation]
	if cluster, err := names.GetClusterName(space); err == nil {
		p.statuses.queue.add(memberKey{cluster: cluster, Key: KeyOf(object)})
	}
}

// watch is Reconcile: it begins to watch the kinds of a Work that was applied.
func (s workStatus) watch(key types.NamespacedName) *step {
	return &step{name: "reads the Work", do: func(context.Context) (*step, error) {
		work, err := s.works.get(key, "works.work.karmada.io")
		if err != nil || !work.DeletionTimestamp.IsZero() || !helper.IsResourceApplied(&work.Status) {
			return nil, nil // the only error is that the Work is gone
		}
		name, err := names.GetClusterName(work.Namespace)
		if err != nil {
			return nil, err
		}
		cluster, err := s.clusters.get(types.NamespacedName{Name: name}, "clusters.cluster.karmada.io")
		if err != nil {
			return nil, err
		}
		if !util.IsClusterReady(&cluster.Status) {
			return nil, fmt.Errorf("cluster(%s) not ready", name)
		}
		return s.register(name, work)
	}}
}

// register is registerInformersAndStart: it waits until the caches hold the kinds of a
// Work, and only then are they read.
func (s workStatus) register(cluster string, work *workv1alpha1.Work) (*step, error) {
	informers := s.informersOf(cluster)
	var waiting []*informer
	for _, manifest := range work.Spec.Workload.Manifests {
		workload := &unstructured.Unstructured{}
		if err := workload.UnmarshalJSON(manifest.Raw); err != nil {
			return nil, err
		}
		if err := s.mapped(workload.GroupVersionKind()); err != nil {
			return nil, err
		}
		if inf := informers.of(workload.GroupVersionKind()); !inf.synced {
			waiting = append(waiting, inf)
		}
	}
	if len(waiting) == 0 {
		return nil, nil
	}
	allListed := func() bool {
		for _, inf := range waiting {
			if !inf.listed {
				return false
			}
		}
		return true
	}
	return &step{name: "waits for the cache", wait: util.CacheSyncTimeout, until: allListed, do: func(context.Context) (*step, error) {
		for _, inf := range waiting {
			inf.synced = inf.listed
		}
		if !allListed() {
			return nil, fmt.Errorf("informer for %s hasn't synced", waiting[0].kind)
		}
		return nil, nil
	}}, nil
}

// sync is syncWorkStatus: it repairs an object, and reports its status.
func (s workStatus) sync(k memberKey) *step {
	return &step{name: "reads the object", do: func(context.Context) (*step, error) {
		observed, err := s.cached(k.cluster, k.Key)
		if apierrors.IsNotFound(err) {
			return s.recreate(k)
		}
		if err != nil {
			return nil, err
		}
		annotations := observed.GetAnnotations()
		space, spaced := annotations[workv1alpha2.WorkNamespaceAnnotation]
		name, named := annotations[workv1alpha2.WorkNameAnnotation]
		if !spaced || !named {
			return nil, nil
		}
		work, err := s.works.get(types.NamespacedName{Namespace: space, Name: name}, "works.work.karmada.io")
		if err != nil || !work.DeletionTimestamp.IsZero() {
			return nil, nil // the only error is that the Work is gone
		}
		return s.repair(observed, work)
	}}
}

// repair is updateResource: it applies the manifest again if the object changed.
func (s workStatus) repair(observed *unstructured.Unstructured, work *workv1alpha1.Work) (*step, error) {
	if util.IsWorkSuspendDispatching(work) {
		return s.reflect(observed, work)
	}
	desired, err := manifestOf(work, KeyOf(observed))
	if err != nil {
		return nil, err
	}
	cluster, err := names.GetClusterName(work.Namespace)
	if err != nil {
		return nil, err
	}
	if !s.needsUpdate(cluster, desired, observed) {
		return s.reflect(observed, work)
	}
	return &step{name: "repairs the object", do: func(context.Context) (*step, error) {
		if err := s.updateOnMember(cluster, desired, observed); err != nil {
			return nil, err
		}
		return s.reflect(observed, work)
	}}, nil
}

// manifestOf is getRawManifest.
func manifestOf(work *workv1alpha1.Work, k Key) (*unstructured.Unstructured, error) {
	for _, manifest := range work.Spec.Workload.Manifests {
		workload := &unstructured.Unstructured{}
		if err := workload.UnmarshalJSON(manifest.Raw); err != nil {
			return nil, err
		}
		if KeyOf(workload) == k {
			return workload, nil
		}
	}
	return nil, errors.New("no such manifest exist")
}

// reflect is reflectStatus. It reports the object as it was read before any repair.
func (s workStatus) reflect(observed *unstructured.Unstructured, work *workv1alpha1.Work) (*step, error) {
	raw, err := s.karmada.interpreter.ReflectStatus(observed)
	if err != nil {
		return nil, err
	}
	reference := helper.ManifestReference{
		APIVersion: observed.GetAPIVersion(), Kind: observed.GetKind(), Namespace: observed.GetNamespace(), Name: observed.GetName(),
	}
	ordinal, err := helper.GetManifestIndex(work.Spec.Workload.Manifests, &reference)
	if err != nil {
		return nil, err
	}
	kind := observed.GroupVersionKind()
	status := workv1alpha1.ManifestStatus{
		Identifier: workv1alpha1.ResourceIdentifier{
			Ordinal: ordinal, Group: kind.Group, Version: kind.Version, Kind: kind.Kind,
			Namespace: observed.GetNamespace(), Name: observed.GetName(),
		},
		Status: raw, Health: s.health(observed),
	}
	return writeStatus(s.process, "reports the status", s.works, work, func(work *workv1alpha1.Work) {
		work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{status}
	}, func(err error) (*step, error) { return nil, err }), nil
}

// health is interpretHealth: a kind without a rule is healthy.
func (s workStatus) health(observed *unstructured.Unstructured) workv1alpha1.ResourceHealth {
	interpreter := s.karmada.interpreter
	if !interpreter.HookEnabled(observed.GroupVersionKind(), configv1alpha1.InterpreterOperationInterpretHealth) {
		return workv1alpha1.ResourceHealthy
	}
	healthy, err := interpreter.InterpretHealth(observed)
	switch {
	case err != nil:
		return workv1alpha1.ResourceUnknown
	case healthy:
		return workv1alpha1.ResourceHealthy
	default:
		return workv1alpha1.ResourceUnhealthy
	}
}

// recreate is handleDeleteEvent: it finds the Work by the naming scheme, creates the
// object again, and writes Applied.
func (s workStatus) recreate(k memberKey) (*step, error) {
	key := types.NamespacedName{
		Namespace: names.GenerateExecutionSpaceName(k.cluster),
		Name:      names.GenerateWorkName(k.Kind, k.Name, k.Namespace),
	}
	work, err := s.works.get(key, "works.work.karmada.io")
	if err != nil || !work.DeletionTimestamp.IsZero() || util.IsWorkSuspendDispatching(work) {
		return nil, nil // the only error is that the Work is gone
	}
	return &step{name: "recreates the object", do: func(context.Context) (*step, error) {
		failure := s.recreateOnMember(k, work)
		condition := s.applied(metav1.ConditionTrue, "ReCreateSuccessful", "Manifest has been successfully applied")
		if failure != nil {
			condition = s.applied(metav1.ConditionFalse, "ReCreateFailed", failure.Error())
		}
		return s.writeCondition("writes Applied", work, condition, func(error) (*step, error) {
			return nil, failure // an error of the write is only logged
		}), nil
	}}, nil
}

// recreateOnMember is recreateResourceIfNeeded. A Work without such a manifest counts as
// a success.
func (s workStatus) recreateOnMember(k memberKey, work *workv1alpha1.Work) error {
	for _, manifest := range work.Spec.Workload.Manifests {
		workload := &unstructured.Unstructured{}
		if err := workload.UnmarshalJSON(manifest.Raw); err != nil {
			return err
		}
		if KeyOf(workload) == k.Key {
			return s.createOnMember(k.cluster, workload)
		}
	}
	return nil
}
