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
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
)

// collector is the kube-controller-manager of the control plane, as far as Works are
// concerned: it empties namespaces that are being deleted, and deletes Works and bindings
// whose owner is gone.
type collector struct {
	karmada    *Karmada
	works      *view[*workv1alpha1.Work]
	namespaces *view[*corev1.Namespace]
	bindings   *view[client.Object]
	templates  *view[client.Object]
	runners    []runner
}

// ownedKey names an object that has an owner.
type ownedKey struct {
	kind string
	types.NamespacedName
}

func (k ownedKey) String() string { return k.kind + " " + k.NamespacedName.String() }

const (
	collectorName = "kube-controller-manager"
	workKind      = "Work"
	bindingKind   = "binding"
	// emptyingPause is how long the namespace controller waits for finalizers.
	emptyingPause = 5 * time.Second
)

func (k *Karmada) newCollector() *collector {
	c := &collector{
		karmada: k, works: newView(collectorName, k.works), namespaces: newView(collectorName, k.namespaces),
		bindings: newView(collectorName, k.bindings), templates: newView(collectorName, k.templates),
	}
	emptying := newController(collectorName+"/namespace", k.now, 1, true, c.empty)
	garbage := newController(collectorName+"/garbage", k.now, 1, true, c.collect)
	c.runners = []runner{emptying, garbage}
	c.namespaces.handlers = append(c.namespaces.handlers, func(change change[*corev1.Namespace]) {
		switch {
		case change.deleted():
			c.orphaned(change.old, garbage.queue)
		case change.fresh.DeletionTimestamp != nil:
			emptying.queue.add(keyOf(change.fresh))
		}
	})
	c.templates.handlers = append(c.templates.handlers, func(change change[client.Object]) {
		if change.deleted() {
			c.orphaned(change.old, garbage.queue)
		}
	})
	c.works.handlers = append(c.works.handlers, func(change change[*workv1alpha1.Work]) {
		if change.created() && len(change.fresh.OwnerReferences) > 0 {
			garbage.queue.add(ownedKey{kind: workKind, NamespacedName: keyOf(change.fresh)})
		}
	})
	c.namespaces.start()
	c.templates.start()
	c.bindings.start()
	c.works.start()
	return c
}

func (c *collector) actions() []Action {
	actions := append(c.works.actions(), c.namespaces.actions()...)
	actions = append(actions, c.bindings.actions()...)
	actions = append(actions, c.templates.actions()...)
	for _, r := range c.runners {
		actions = append(actions, r.actions()...)
	}
	return actions
}

// orphaned looks at everything that an object owned.
func (c *collector) orphaned(owner client.Object, queue *queue[ownedKey]) {
	for _, work := range c.works.all() {
		if isOwnedBy(work, owner) {
			queue.add(ownedKey{kind: workKind, NamespacedName: keyOf(work)})
		}
	}
	for _, binding := range c.bindings.all() {
		if isOwnedBy(binding, owner) {
			queue.add(ownedKey{kind: bindingKind, NamespacedName: keyOf(binding)})
		}
	}
}

func isOwnedBy(object, owner client.Object) bool {
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == owner.GetUID() {
			return true
		}
	}
	return false
}

// collect deletes an object whose owners are gone. It asks the API server, not a cache.
func (c *collector) collect(key ownedKey) *step {
	return &step{name: "looks for the owner", do: func(ctx context.Context) (*step, error) {
		object := c.owned(key)
		if object == nil {
			return nil, nil
		}
		for _, reference := range object.GetOwnerReferences() {
			if there, err := c.isThere(ctx, object.GetNamespace(), reference); err != nil || there {
				return nil, err
			}
		}
		return &step{name: "deletes it", do: func(ctx context.Context) (*step, error) {
			uid := object.GetUID()
			return nil, client.IgnoreNotFound(c.karmada.client.Delete(ctx, object, client.Preconditions{UID: &uid}))
		}}, nil
	}}
}

// owned returns the object of a key; nil if it is gone.
func (c *collector) owned(key ownedKey) client.Object {
	if work, err := c.works.get(key.NamespacedName, key.kind); err == nil && key.kind == workKind {
		return work
	}
	if binding, err := c.bindings.get(key.NamespacedName, key.kind); err == nil && key.kind == bindingKind {
		return binding
	}
	return nil
}

// isThere reports whether an owner exists.
func (c *collector) isThere(ctx context.Context, namespace string, reference metav1.OwnerReference) (bool, error) {
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind))
	key := types.NamespacedName{Namespace: namespace, Name: reference.Name}
	if reference.Kind == namespaceKind.Kind {
		key.Namespace = ""
	}
	err := c.karmada.client.Get(ctx, key, owner)
	return err == nil && owner.GetUID() == reference.UID, client.IgnoreNotFound(err)
}

// contentKinds are the kinds of which a namespace is emptied.
func (c *collector) contentKinds() []schema.GroupVersionKind {
	work := schema.GroupVersionKind{Group: workv1alpha1.GroupName, Version: workv1alpha1.GroupVersion.Version, Kind: workKind}
	return append([]schema.GroupVersionKind{work}, c.karmada.options.NamespacedKinds...)
}

// empty deletes what a terminating namespace holds, one object per step, and then lets
// the namespace go.
func (c *collector) empty(key types.NamespacedName) *step {
	return &step{name: "lists the content", do: func(ctx context.Context) (*step, error) {
		namespace := &corev1.Namespace{}
		if err := c.karmada.client.Get(ctx, key, namespace); err != nil || namespace.DeletionTimestamp.IsZero() {
			return nil, client.IgnoreNotFound(err)
		}
		content, err := c.contentOf(ctx, key.Name)
		if err != nil {
			return nil, err
		}
		if len(content) > 0 {
			return c.deleteAll(content)
		}
		return &step{name: "lets the namespace go", do: func(ctx context.Context) (*step, error) {
			return nil, client.IgnoreNotFound(c.karmada.options.finalize(ctx, c.karmada.client, namespace))
		}}, nil
	}}
}

func (c *collector) contentOf(ctx context.Context, namespace string) ([]client.Object, error) {
	var content []client.Object
	for _, kind := range c.contentKinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := c.karmada.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			content = append(content, &list.Items[i])
		}
	}
	return content, nil
}

// deleteAll deletes objects, and then comes back to see whether they are gone.
func (c *collector) deleteAll(content []client.Object) (*step, error) {
	for i, object := range content {
		if object.GetDeletionTimestamp() != nil {
			continue
		}
		return &step{name: "deletes " + object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetName(), do: func(ctx context.Context) (*step, error) {
			background := metav1.DeletePropagationBackground
			if err := c.karmada.client.Delete(ctx, object, &client.DeleteOptions{PropagationPolicy: &background}); client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			return c.deleteAll(content[i+1:])
		}}, nil
	}
	return nil, again{after: emptyingPause}
}
