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
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"
)

// WidgetGroup and WidgetKind name the kind of a trace that the control plane serves in
// version v1, and the member does not.
const (
	WidgetGroup = "trace.example.org"
	WidgetKind  = "Widget"
)

// traceObject is the name of what a trace is about.
const traceObject = "trace"

// do does an operation.
func (p *player) do(ctx context.Context, step *Step) error {
	switch step.Do {
	case CreateWork:
		return p.createWork(ctx, step)
	case ResetWork:
		return p.resetWork(ctx)
	case DeleteWork:
		key := p.workKey()
		return p.stage.ControlPlane().Delete(ctx, &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	case UpdateWork, SuspendWork, ResumeWork, PreserveWork:
		return p.changeWork(ctx, step)
	case CreateThere, EditThere, DeleteThere:
		return p.doThere(ctx, step)
	case CreateTemplate, DeleteTemplate, DeleteNamespace:
		return p.doOnControlPlane(ctx, step)
	case Cut:
		return p.stage.Cut(ctx)
	case Mend:
		return p.stage.Mend(ctx)
	case Leave:
		return p.stage.Leave(ctx)
	case Join:
		return p.stage.Join(ctx)
	default:
		return fmt.Errorf("unknown operation %q", step.Do)
	}
}

// resource is what the trace sends to the member.
func (p *player) resource(says string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	switch p.kind {
	case WidgetKind:
		object.SetAPIVersion(WidgetGroup + "/v1")
		object.SetKind(p.kind)
	case "Deployment":
		object = traceDeployment(says)
	}
	object.SetNamespace(p.stage.Namespace())
	object.SetName(traceObject)
	if p.kind != "Deployment" {
		_ = unstructured.SetNestedField(object.Object, says, contentOf(object)...) // the object has nothing in the way
	}
	return object
}

// contentOf is the field that says something.
func contentOf(object *unstructured.Unstructured) []string {
	switch object.GetKind() {
	case "Deployment":
		return []string{"spec", "template", "metadata", "annotations", "says"}
	case WidgetKind:
		return []string{"spec", "says"}
	default:
		return []string{"data", "says"}
	}
}

func traceDeployment(says string) *unstructured.Unstructured {
	labels := map[string]any{"app": traceObject}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"spec": map[string]any{
			"replicas": int64(1), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels, "annotations": map[string]any{"says": says}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": traceObject, "image": "registry.example.org/trace:1"}}},
			},
		},
	}}
}

// manifest stamps the resource as a careful writer of Works does.
func (p *player) manifest(step *Step) ([]workv1alpha1.Manifest, error) {
	resource, key := p.resource(step.Says), p.workKey()
	util.MergeLabel(resource, util.ManagedByKarmadaLabel, util.ManagedByKarmadaLabelValue)
	util.MergeAnnotation(resource, workv1alpha2.WorkNameAnnotation, key.Name)
	util.MergeAnnotation(resource, workv1alpha2.WorkNamespaceAnnotation, key.Namespace)
	util.MergeAnnotation(resource, workv1alpha2.ResourceTemplateGenerationAnnotationKey, "1")
	if step.Overwrite {
		util.MergeAnnotation(resource, workv1alpha2.ResourceConflictResolutionAnnotation, workv1alpha2.ResourceConflictResolutionOverwrite)
	}
	raw, err := json.Marshal(resource)
	if err != nil {
		return nil, fmt.Errorf("marshaling the manifest: %w", err)
	}
	return []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}, nil
}

func (p *player) createWork(ctx context.Context, step *Step) error {
	key := p.workKey()
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Finalizers: []string{util.ExecutionControllerFinalizer},
	}}
	manifests, err := p.manifest(step)
	if err != nil {
		return err
	}
	work.Spec.Workload.Manifests = manifests
	return p.stage.ControlPlane().Create(ctx, work)
}

func (p *player) changeWork(ctx context.Context, step *Step) error {
	manifests, err := p.manifest(step)
	if err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		work := &workv1alpha1.Work{}
		if err := p.stage.ControlPlane().Get(ctx, p.workKey(), work); err != nil {
			return err
		}
		switch step.Do {
		case SuspendWork:
			work.Spec.SuspendDispatching = ptr.To(true)
		case ResumeWork:
			work.Spec.SuspendDispatching = ptr.To(false)
		case PreserveWork:
			work.Spec.PreserveResourcesOnDeletion = ptr.To(true)
		}
		if step.Says != "" {
			work.Spec.Workload.Manifests = manifests
		}
		return p.stage.ControlPlane().Update(ctx, work)
	})
}

func (p *player) resetWork(ctx context.Context) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		work := &workv1alpha1.Work{}
		if err := p.stage.ControlPlane().Get(ctx, p.workKey(), work); err != nil {
			return err
		}
		work.Status.Conditions = nil
		return p.stage.ControlPlane().Status().Update(ctx, work)
	})
}

// doThere does something as somebody on the member.
func (p *player) doThere(ctx context.Context, step *Step) error {
	object := p.resource(step.Says)
	switch step.Do {
	case CreateThere:
		return p.stage.Member().Create(ctx, object)
	case DeleteThere:
		return p.stage.Member().Delete(ctx, object)
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := p.stage.Member().Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if err := unstructured.SetNestedField(object.Object, step.Says, contentOf(object)...); err != nil {
			return fmt.Errorf("editing the object: %w", err)
		}
		return p.stage.Member().Update(ctx, object)
	})
}

// doOnControlPlane does something to what the Work comes from.
func (p *player) doOnControlPlane(ctx context.Context, step *Step) error {
	plane, template := p.stage.ControlPlane(), p.resource(step.Says)
	switch step.Do {
	case CreateTemplate:
		if err := plane.Create(ctx, template); err != nil {
			return err
		}
		return p.stage.Bind(ctx, template)
	case DeleteTemplate:
		return plane.Delete(ctx, template)
	default:
		return plane.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.stage.Namespace()}})
	}
}
