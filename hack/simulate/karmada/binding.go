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
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/controllers/ctrlutil"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/helper"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// bindings is the binding controller, for ResourceBindings and ClusterResourceBindings:
// binding.ResourceBindingController.
type bindings struct{ *process }

// runBindings adds the controller to karmada-controller-manager. New generations of
// bindings wake it. So does a change of the template, which the detector would turn into
// a new generation.
func (p *process) runBindings() {
	c := newController(p.name+"/binding", p.karmada.now, p.karmada.options.workers(), true, bindings{p}.begin)
	p.runners = append(p.runners, c)
	p.bindings.handlers = append(p.bindings.handlers, func(change change[client.Object]) {
		object := change.object()
		if change.created() || change.deleted() || change.old.GetGeneration() != object.GetGeneration() ||
			change.old.GetDeletionTimestamp().IsZero() != object.GetDeletionTimestamp().IsZero() {
			c.queue.add(keyOf(object))
		}
	})
	p.templates.handlers = append(p.templates.handlers, func(change change[client.Object]) {
		for _, binding := range p.bindings.all() {
			if templateKey(specOf(binding).Resource) == p.templates.journal.key(change.object()) {
				c.queue.add(keyOf(binding))
			}
		}
	})
}

// specOf returns the spec of a binding of either kind.
func specOf(binding client.Object) *workv1alpha2.ResourceBindingSpec {
	switch typed := binding.(type) {
	case *workv1alpha2.ResourceBinding:
		return &typed.Spec
	case *workv1alpha2.ClusterResourceBinding:
		return &typed.Spec
	default:
		return &workv1alpha2.ResourceBindingSpec{}
	}
}

// templateKey is the key of a template in its journal, which holds all kinds.
func templateKey(reference workv1alpha2.ObjectReference) types.NamespacedName {
	kind := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()
	return types.NamespacedName{Namespace: reference.Namespace, Name: kind.String() + "/" + reference.Name}
}

// permanentID is the label that connects a binding with its Works.
func permanentID(binding client.Object) (label, id string) {
	label = workv1alpha2.ResourceBindingPermanentIDLabel
	if binding.GetNamespace() == "" {
		label = workv1alpha2.ClusterResourceBindingPermanentIDLabel
	}
	return label, binding.GetLabels()[label]
}

func (b bindings) begin(key types.NamespacedName) *step {
	return &step{name: "reads the binding", do: func(context.Context) (*step, error) {
		binding, err := b.bindings.get(key, "resourcebindings.work.karmada.io")
		if err != nil {
			return nil, nil // the only error is that the binding is gone
		}
		if binding.GetDeletionTimestamp() != nil {
			return b.deleteWorks(b.worksOf(binding, nil), nil, true, func() *step { return b.release(binding) })
		}
		return b.deleteWorks(b.worksOf(binding, specOf(binding)), nil, false, func() *step { return b.ensure(binding) })
	}}
}

// worksOf returns the Works of a binding that are on none of its clusters. Works are
// found by their label alone.
func (b bindings) worksOf(binding client.Object, keep *workv1alpha2.ResourceBindingSpec) []*workv1alpha1.Work {
	label, id := permanentID(binding)
	var works []*workv1alpha1.Work
	for _, work := range b.works.all() {
		cluster, err := names.GetClusterName(work.Namespace)
		if err == nil && work.Labels[label] == id && (keep == nil || !keep.TargetContains(cluster)) {
			works = append(works, work.DeepCopy())
		}
	}
	return works
}

// deleteWorks is helper.DeleteWorks and helper.RemoveOrphanWorks. Only the first
// forgives a Work that is gone.
func (b bindings) deleteWorks(works []*workv1alpha1.Work, errs []error, forgiving bool, then func() *step) (*step, error) {
	if len(works) == 0 {
		if len(errs) > 0 {
			return nil, utilerrors.NewAggregate(errs)
		}
		return then(), nil
	}
	return &step{name: "deletes Work " + keyOf(works[0]).String(), do: func(ctx context.Context) (*step, error) {
		if err := b.karmada.client.Delete(ctx, works[0]); err != nil && (!forgiving || !apierrors.IsNotFound(err)) {
			errs = append(errs, err)
		}
		return b.deleteWorks(works[1:], errs, forgiving, then)
	}}, nil
}

func (b bindings) release(binding client.Object) *step {
	return &step{name: "drops the finalizer", do: func(ctx context.Context) (*step, error) {
		if !controllerutil.RemoveFinalizer(binding, util.BindingControllerFinalizer) {
			return nil, nil
		}
		return nil, b.karmada.client.Update(ctx, binding)
	}}
}

// ensure is ensureWork: one Work for each cluster. A template that is gone changes
// nothing.
func (b bindings) ensure(binding client.Object) *step {
	return &step{name: "reads the template", do: func(context.Context) (*step, error) {
		spec := specOf(binding)
		template, err := b.templates.get(templateKey(spec.Resource), spec.Resource.Kind)
		if err != nil {
			return nil, nil // the only error is that the template is gone
		}
		resource, err := helper.ToUnstructured(template)
		if err != nil {
			return nil, err
		}
		return b.write(binding, resource, spec.Clusters, nil)
	}}
}

func (b bindings) write(binding client.Object, template *unstructured.Unstructured, targets []workv1alpha2.TargetCluster, errs []error) (*step, error) {
	if len(targets) == 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	spec, target, workload := specOf(binding), targets[0], template.DeepCopy()
	interpreter := b.karmada.interpreter
	if spec.IsWorkload() && interpreter.HookEnabled(workload.GroupVersionKind(), configv1alpha1.InterpreterOperationReviseReplica) {
		revised, err := interpreter.ReviseReplica(workload, int64(target.Replicas))
		if err != nil {
			return b.write(binding, template, targets[1:], append(errs, err))
		}
		workload = revised
	}
	label, id := permanentID(binding)
	util.MergeLabel(workload, label, id)
	meta := metav1.ObjectMeta{
		Name:        names.GenerateWorkName(workload.GetKind(), workload.GetName(), workload.GetNamespace()),
		Namespace:   names.GenerateExecutionSpaceName(target.Name),
		Finalizers:  []string{util.ExecutionControllerFinalizer},
		Labels:      map[string]string{label: id},
		Annotations: annotationsOf(binding, workload),
	}
	suspended := spec.Suspension != nil && ptr.Deref(spec.Suspension.Dispatching, false)
	return b.createOrUpdateWork(meta, workload, func(err error) (*step, error) {
		if err != nil {
			errs = append(errs, err)
		}
		return b.write(binding, template, targets[1:], errs)
	}, ctrlutil.WithSuspendDispatching(suspended), ctrlutil.WithPreserveResourcesOnDeletion(ptr.Deref(spec.PreserveResourcesOnDeletion, false))), nil
}

// annotationsOf is mergeAnnotations and mergeConflictResolution: it stamps the workload,
// and returns the annotations of its Work.
func annotationsOf(binding client.Object, workload *unstructured.Unstructured) map[string]string {
	if generation := workload.GetGeneration(); generation > 0 {
		util.MergeAnnotation(workload, workv1alpha2.ResourceTemplateGenerationAnnotationKey, strconv.FormatInt(generation, 10))
	}
	annotations := map[string]string{workv1alpha2.ClusterResourceBindingAnnotationKey: binding.GetName()}
	if binding.GetNamespace() != "" {
		annotations = map[string]string{
			workv1alpha2.ResourceBindingNamespaceAnnotationKey: binding.GetNamespace(),
			workv1alpha2.ResourceBindingNameAnnotationKey:      binding.GetName(),
		}
	}
	for _, name := range sortedStrings(annotations) {
		util.MergeAnnotation(workload, name, annotations[name])
	}
	resolution := workload.GetAnnotations()[workv1alpha2.ResourceConflictResolutionAnnotation]
	if resolution != workv1alpha2.ResourceConflictResolutionOverwrite && resolution != workv1alpha2.ResourceConflictResolutionAbort {
		resolution = workv1alpha2.ResourceConflictResolutionAbort
		if specOf(binding).ConflictResolution == policyv1alpha1.ConflictOverwrite {
			resolution = workv1alpha2.ResourceConflictResolutionOverwrite
		}
	}
	annotations[workv1alpha2.ResourceConflictResolutionAnnotation] = resolution
	return annotations
}
