//go:build faults

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

package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// errTerminating is why an object cannot be created yet.
var errTerminating = errors.New("the previous object is still being deleted")

const (
	configMaps  = "ConfigMap"
	deployments = "Deployment"
	// crashLabel is on the clusters that a selector selects.
	crashLabel = "crash"
)

// targets are the members on which operations work.
var targets = []*Member{member1, member2}

// wish is what users want: a resource, and an object that propagates it.
type wish struct {
	ns   *Namespace
	name string
	kind string
	// says is the content of the resource; without any, there is none.
	says   string
	labels map[string]string
	// spec is that of the object; without any, there is none.
	spec *propagationv1alpha1.PropagationSpec
	// by is what somebody does besides, once.
	by func(ctx context.Context, w wish) error
}

// with returns the wish with another spec of the object.
func (w wish) with(spec *propagationv1alpha1.PropagationSpec) wish {
	w.spec = spec
	return w
}

func (w wish) named(ns *Namespace, name string) wish {
	w.ns, w.name = ns, name
	if w.spec != nil {
		w.spec = w.spec.DeepCopy()
	}
	ns.NoteWork(testbed.ReferenceTo(w.resource()))
	if w.kind == deployments {
		ns.NoteWork(testbed.ReferenceTo(w.configuration()))
	}
	return w
}

// resource is the one that the object names, as users want it.
func (w wish) resource() client.Object {
	if w.kind == configMaps {
		settings := testbed.ConfigMap(w.name, w.says)
		settings.Namespace, settings.Labels = w.ns.Name, w.labels
		return settings
	}
	web := testbed.Deployment(w.name, "web:1", 1)
	web.Namespace = w.ns.Name
	for key, value := range w.labels {
		web.Labels[key] = value
	}
	web.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "SAYS", Value: w.says}}
	web.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: w.configuration().Name},
	}}}
	return web
}

// configuration is what a Deployment depends on.
func (w wish) configuration() *corev1.ConfigMap {
	configuration := testbed.ConfigMap(w.name+"-configuration", "the same always")
	configuration.Namespace = w.ns.Name
	return configuration
}

func (w wish) object() *DirectPropagation {
	object := testbed.NewDirectPropagation(w.ns.Name, w.name, propagationv1alpha1.ResourceReference{})
	if w.spec != nil {
		w.spec.DeepCopyInto(&object.Spec)
	}
	object.Spec.Resource = testbed.ReferenceTo(w.resource())
	return object
}

// brings writes what users want.
func (w wish) brings(ctx context.Context) error {
	if err := w.bringsResource(ctx); err != nil {
		return err
	}
	if w.by != nil {
		if err := w.by(ctx, w); err != nil {
			return err
		}
	}
	object := w.object()
	if w.spec == nil {
		return client.IgnoreNotFound(karmada.Delete(ctx, object))
	}
	existing := &DirectPropagation{}
	if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), existing); err == nil && existing.DeletionTimestamp != nil {
		return errTerminating
	}
	return testbed.Put(ctx, karmada, object.DeepCopy(), func(existing *DirectPropagation) { existing.Spec = *object.Spec.DeepCopy() })
}

func (w wish) bringsResource(ctx context.Context) error {
	if w.kind == deployments {
		if err := client.IgnoreAlreadyExists(karmada.Create(ctx, w.configuration())); err != nil {
			return err
		}
	}
	resource := w.resource()
	if w.says == "" {
		return client.IgnoreNotFound(karmada.Delete(ctx, resource))
	}
	wanted, _ := resource.DeepCopyObject().(client.Object)
	return testbed.Put(ctx, karmada, resource, func(existing client.Object) {
		wanted.SetResourceVersion(existing.GetResourceVersion())
		wanted.SetFinalizers(existing.GetFinalizers())
		copyInto(wanted, existing)
	})
}

// copyInto replaces the content of an object, except its status.
func copyInto(from, into client.Object) {
	switch typed := into.(type) {
	case *corev1.ConfigMap:
		typed.Data, typed.Labels = from.(*corev1.ConfigMap).Data, from.GetLabels() //nolint:forcetypeassert // both are of one wish
	case *appsv1.Deployment:
		typed.Spec, typed.Labels = from.(*appsv1.Deployment).Spec, from.GetLabels() //nolint:forcetypeassert // as above
	}
}

// isReported returns an error unless the status is about the current spec.
func (w wish) isReported(ctx context.Context) error {
	object := w.object()
	err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object)
	if w.spec == nil {
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("DirectPropagation %s still exists (reading it: %w)", w.name, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != object.Generation {
		return fmt.Errorf("the status is not about generation %d: %s", object.Generation, testbed.Say(ready))
	}
	return nil
}

// isSettled returns an error unless everything is Ready, or nothing is there.
func (w wish) isSettled(ctx context.Context) error {
	if err := w.isReported(ctx); err != nil || w.spec == nil {
		return err
	}
	object := w.object()
	if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	if !meta.IsStatusConditionTrue(object.Status.Conditions, propagationv1alpha1.ConditionReady) {
		return testbed.NotReady(object)
	}
	return w.isAggregated(ctx)
}

// isAggregated returns an error unless the status of a Deployment says that all clusters
// have what it asks for.
func (w wish) isAggregated(ctx context.Context) error {
	web, is := w.resource().(*appsv1.Deployment)
	if !is {
		return nil
	}
	if err := karmada.Get(ctx, client.ObjectKeyFromObject(web), web); err != nil {
		return err
	}
	if want := *web.Spec.Replicas; web.Status.Replicas != want || web.Status.AvailableReplicas != want || web.Status.ObservedGeneration != web.Generation {
		return fmt.Errorf("the status of the Deployment is not about %d Pods on each cluster: %+v", want, web.Status)
	}
	return nil
}

// labelsMembers labels the clusters that a selector of an operation selects.
func labelsMembers(t *testing.T) {
	t.Helper()
	label := func(ctx context.Context, change func(map[string]string)) {
		for _, member := range targets {
			cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member.Name}}
			err := testbed.Change(ctx, karmada, cluster, func(cluster *clusterv1alpha1.Cluster) {
				if cluster.Labels == nil {
					cluster.Labels = map[string]string{}
				}
				change(cluster.Labels)
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	label(t.Context(), func(labels map[string]string) { labels[crashLabel] = "here" })
	t.Cleanup(func() { label(context.Background(), func(labels map[string]string) { delete(labels, crashLabel) }) })
}
