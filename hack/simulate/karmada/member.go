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
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Cause says why an object left a member.
type Cause string

const (
	// Withdrawn means that Karmada deleted the object because its Work was deleted.
	Withdrawn Cause = "Withdrawn"
	// DeletedThere means that somebody deleted the object on the member.
	DeletedThere Cause = "DeletedThere"
	// NamespaceDeleted means that the namespace of the object was deleted.
	NamespaceDeleted Cause = "NamespaceDeleted"
	// KindRemoved means that the member stopped serving the kind.
	KindRemoved Cause = "KindRemoved"
)

// Deletion records that an object left a member.
type Deletion struct {
	Key
	UID   types.UID
	Cause Cause
	// Work is the Work whose deletion withdrew the object.
	Work types.NamespacedName
	// Object is what the member had.
	Object *unstructured.Unstructured
	// At is the time by the member's clock.
	At time.Time
}

// Member is a member cluster: what its API server stores, and what its own
// controllers and the people who use it do there.
type Member struct {
	// Name is the name of its Cluster.
	Name string
	// ClockOffset is how far the member's clock is ahead of the control plane's.
	ClockOffset time.Duration
	// Refuse, if set, is the admission of the member: an error refuses the creation or
	// the update of an object. The verb is "create" or "update".
	Refuse func(verb string, object *unstructured.Unstructured) error
	// LoseAnswer, if set, is asked after each write of Karmada that took effect: true lets
	// the answer get lost on the way, so that Karmada sees an error.
	LoseAnswer func() bool
	// Silent, if set, is asked before each object that Karmada creates or updates: true means
	// that nothing happens, and that the member does not answer.
	Silent func() bool
	// Broken, if set, reports that the Pods of a workload never become available.
	Broken func(workload Key) bool

	clock     func() time.Time
	cut, sick bool
	kinds     map[schema.GroupVersionKind]Kind
	objects   map[Key]*unstructured.Unstructured
	version   int64
	uids      int64
	events    []memberEvent
	deletions []Deletion
	doomed    map[string]doom
	// unnoticed are the objects whose end no informer of Karmada has seen yet.
	unnoticed map[Key]bool
	// edited are the contents that somebody on the member has last given to objects.
	edited map[Key]string
}

// memberEvent is a change of an object of a member; fresh is nil when it left.
type memberEvent struct {
	key        Key
	old, fresh *unstructured.Unstructured
}

// doom says why a namespace of a member is being emptied.
type doom struct {
	cause Cause
	work  types.NamespacedName
}

func newMember(name string, clock func() time.Time) *Member {
	m := &Member{
		Name: name, clock: clock, kinds: map[schema.GroupVersionKind]Kind{},
		objects: map[Key]*unstructured.Unstructured{}, doomed: map[string]doom{}, unnoticed: map[Key]bool{}, edited: map[Key]string{},
	}
	for _, kind := range builtIn() {
		m.kinds[kind.GroupVersionKind] = kind
	}
	for _, name := range []string{"default", "kube-system"} {
		namespace := &unstructured.Unstructured{}
		namespace.SetGroupVersionKind(namespaceKind)
		namespace.SetName(name)
		_, _ = m.create(namespace) // the first objects of an empty member cannot be refused
	}
	return m
}

// Cut severs the connection between the control plane and the member, in both
// directions: a push member cannot be reached, and the agent of a pull member cannot
// reach the control plane.
func (m *Member) Cut() { m.cut = true }

// Mend restores the connection.
func (m *Member) Mend() { m.cut = false }

// IsCut reports whether the connection is severed.
func (m *Member) IsCut() bool { return m.cut }

// SetHealthy says whether the member's API server calls itself ready. One that does
// not still serves.
func (m *Member) SetHealthy(healthy bool) { m.sick = !healthy }

// Serve makes the member serve a kind.
func (m *Member) Serve(kind Kind) { m.kinds[kind.GroupVersionKind] = kind }

// StopServing removes a kind from the member, and all its objects with it.
func (m *Member) StopServing(kind schema.GroupVersionKind) {
	for _, k := range sortedKeys(m.objects) {
		if k.GroupVersionKind == kind {
			m.drop(k, doom{cause: KindRemoved})
		}
	}
	delete(m.kinds, kind)
}

// Serves reports whether the member serves a kind.
func (m *Member) Serves(kind schema.GroupVersionKind) bool {
	_, ok := m.kinds[kind]
	return ok
}

// Now returns the time by the member's clock.
func (m *Member) Now() time.Time { return m.clock().Add(m.ClockOffset) }

// Running is what a member has.
type Running struct {
	// Object is a copy of the object.
	Object *unstructured.Unstructured
	// Content is the hash of what users care for, see ContentHash.
	Content string
}

// Runs returns what the member has of an object.
func (m *Member) Runs(kind schema.GroupVersionKind, namespace, name string) (Running, bool) {
	object, ok := m.objects[Key{GroupVersionKind: kind, Namespace: namespace, Name: name}]
	if !ok {
		return Running{}, false
	}
	return Running{Object: object.DeepCopy(), Content: ContentHash(object)}, true
}

// LostUnnoticed reports whether an object, or its namespace, was deleted on the member and no
// informer of Karmada has seen that. Karmada then never creates it again: its first list
// of a kind does not show what is gone already.
func (m *Member) LostUnnoticed(kind schema.GroupVersionKind, namespace, name string) bool {
	return m.unnoticed[Key{GroupVersionKind: kind, Namespace: namespace, Name: name}]
}

// IsEdited reports whether an object has a content that somebody on the member has given it.
func (m *Member) IsEdited(kind schema.GroupVersionKind, namespace, name string) bool {
	k := Key{GroupVersionKind: kind, Namespace: namespace, Name: name}
	object := m.objects[k]
	return object != nil && m.edited[k] == ContentHash(object)
}

// Version changes with every change of an object of the member.
func (m *Member) Version() int64 { return m.version }

// Keys returns the keys of all objects of the member, sorted.
func (m *Member) Keys() []Key { return sortedKeys(m.objects) }

// Deletions returns what left the member and why, in order.
func (m *Member) Deletions() []Deletion { return m.deletions }

// Create creates an object as somebody on the member does.
func (m *Member) Create(object *unstructured.Unstructured) error {
	_, err := m.create(object.DeepCopy())
	return err
}

// Edit changes an object, all but its status, as somebody on the member does. Whoever
// removes the last finalizer of an object that is being deleted ends it.
func (m *Member) Edit(k Key, edit func(*unstructured.Unstructured)) error {
	object, err := m.get(k)
	if err != nil {
		return err
	}
	edit(object)
	if object, err = m.update(object); err != nil {
		return err
	}
	m.edited[k] = ContentHash(object)
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && k.GroupVersionKind != namespaceKind {
		m.drop(k, doom{cause: DeletedThere})
	}
	return nil
}

// SetStatus replaces the status of an object, as a controller on the member does.
func (m *Member) SetStatus(k Key, status map[string]any) error {
	object, err := m.get(k)
	if err != nil {
		return err
	}
	if status == nil {
		unstructured.RemoveNestedField(object.Object, "status")
	} else if err := unstructured.SetNestedMap(object.Object, status, "status"); err != nil {
		return fmt.Errorf("status of %s: %w", k, err)
	}
	m.store(k, object)
	return nil
}

// Delete deletes an object as somebody on the member does.
func (m *Member) Delete(k Key) error { return m.remove(k, doom{cause: DeletedThere}) }

// store keeps an object under a new resourceVersion.
func (m *Member) store(k Key, object *unstructured.Unstructured) {
	old := m.objects[k]
	m.version++
	object.SetResourceVersion(strconv.FormatInt(m.version, 10))
	m.objects[k] = object
	delete(m.unnoticed, k)
	m.events = append(m.events, memberEvent{key: k, old: old, fresh: object})
}

// drop takes an object away at once.
func (m *Member) drop(k Key, why doom) {
	object := m.objects[k]
	if object == nil {
		return
	}
	m.version++
	delete(m.objects, k)
	m.unnoticed[k] = why.cause == DeletedThere || why.cause == NamespaceDeleted
	m.events = append(m.events, memberEvent{key: k, old: object})
	m.deletions = append(m.deletions, Deletion{Key: k, UID: object.GetUID(), Cause: why.cause, Work: why.work, Object: object.DeepCopy(), At: m.Now()})
}

// remove answers a DELETE request.
func (m *Member) remove(k Key, why doom) error {
	object, err := m.get(k)
	if err != nil {
		return err
	}
	switch {
	case k.GroupVersionKind == namespaceKind:
		if _, already := m.doomed[k.Name]; !already {
			m.doomed[k.Name] = why
			now := metav1.NewTime(m.Now())
			object.SetDeletionTimestamp(&now)
			m.store(k, object)
		}
	case len(object.GetFinalizers()) > 0:
		if object.GetDeletionTimestamp() == nil {
			now := metav1.NewTime(m.Now())
			object.SetDeletionTimestamp(&now)
			m.store(k, object)
		}
	default:
		m.drop(k, why)
	}
	return nil
}

// emptying offers the next step of the deletion of each namespace that is going.
func (m *Member) emptying() []Action {
	var actions []Action
	for _, name := range sortedStrings(m.doomed) {
		k := m.nextOf(name)
		why := doom{cause: NamespaceDeleted}
		if k.GroupVersionKind == namespaceKind {
			why = m.doomed[name]
		}
		actions = append(actions, Action{
			Name: fmt.Sprintf("%s/namespace-controller %s: deletes %s", m.Name, name, k),
			Do: func(context.Context) error {
				m.drop(k, why)
				if k.GroupVersionKind == namespaceKind {
					delete(m.doomed, name)
				}
				return nil
			},
		})
	}
	return actions
}

// nextOf returns what is to be deleted next of a namespace; at last, itself.
func (m *Member) nextOf(namespace string) Key {
	for _, k := range sortedKeys(m.objects) {
		if k.Namespace == namespace {
			return k
		}
	}
	return namespaceKey(namespace)
}
