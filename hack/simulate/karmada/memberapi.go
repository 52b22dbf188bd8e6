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
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native/prune"
)

func sortedStrings[V any](from map[string]V) []string { return slices.Sorted(maps.Keys(from)) }

// get answers a GET request.
func (m *Member) get(k Key) (*unstructured.Unstructured, error) {
	kind, ok := m.kinds[k.GroupVersionKind]
	if !ok {
		return nil, notServed()
	}
	object, ok := m.objects[k]
	if !ok {
		return nil, apierrors.NewNotFound(kind.groupResource(), k.Name)
	}
	return object.DeepCopy(), nil
}

// create answers a POST request, and returns the new object.
func (m *Member) create(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	k := KeyOf(object)
	kind, ok := m.kinds[k.GroupVersionKind]
	if !ok {
		return nil, notServed()
	}
	if err := m.admitsIn(kind, k); err != nil {
		return nil, err
	}
	if m.objects[k] != nil {
		return nil, apierrors.NewAlreadyExists(kind.groupResource(), k.Name)
	}
	object = object.DeepCopy()
	unstructured.RemoveNestedField(object.Object, "status")
	if status := firstStatus(k); status != nil {
		object.Object["status"] = status
	}
	if err := m.admits("create", kind, object); err != nil {
		return nil, err
	}
	m.uids++
	object.SetUID(types.UID(fmt.Sprintf("%s-%d", m.Name, m.uids)))
	object.SetCreationTimestamp(metav1.NewTime(m.Now()))
	if kind.Generations {
		object.SetGeneration(1)
	}
	m.store(k, object)
	return object.DeepCopy(), nil
}

// firstStatus is the status that the API server gives a new object; nil for none.
func firstStatus(k Key) map[string]any {
	switch k.GroupVersionKind {
	case namespaceKind:
		return map[string]any{"phase": "Active"}
	case serviceKind:
		return map[string]any{"loadBalancer": map[string]any{}}
	case deploymentKind, statefulSetKind, daemonSetKind, replicaSetKind, jobKind:
		return map[string]any{}
	default:
		return nil
	}
}

// admitsIn checks the namespace of a new object.
func (m *Member) admitsIn(kind Kind, k Key) error {
	if !kind.Namespaced {
		return nil
	}
	if m.objects[namespaceKey(k.Namespace)] == nil {
		return apierrors.NewNotFound(Kind{Plural: "namespaces"}.groupResource(), k.Namespace)
	}
	if _, going := m.doomed[k.Namespace]; going {
		return apierrors.NewForbidden(kind.groupResource(), k.Name,
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", k.Namespace))
	}
	return nil
}

// admits asks the admission of the member.
func (m *Member) admits(verb string, kind Kind, object *unstructured.Unstructured) error {
	if m.Refuse == nil {
		return nil
	}
	if err := m.Refuse(verb, object.DeepCopy()); err != nil {
		return apierrors.NewForbidden(kind.groupResource(), object.GetName(), err)
	}
	return nil
}

// hears reports whether the member answers a write of Karmada at all.
func (m *Member) hears() error {
	if m.Silent != nil && m.Silent() {
		return errUnanswered
	}
	return nil
}

// answered is the answer to a write of Karmada, as it arrives there.
func (m *Member) answered(verb string, err error) error {
	if err == nil && m.LoseAnswer != nil && m.LoseAnswer() {
		return lost(verb, m.Name)
	}
	return err
}

// update answers a PUT request, and returns the object as it is afterwards. An update
// that changes nothing keeps the resourceVersion.
func (m *Member) update(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	k := KeyOf(object)
	have, err := m.get(k)
	if err != nil {
		return nil, err
	}
	kind := m.kinds[k.GroupVersionKind]
	if version := object.GetResourceVersion(); version != "" && version != have.GetResourceVersion() {
		return nil, apierrors.NewConflict(kind.groupResource(), k.Name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	next := keepServerFields(object.DeepCopy(), have)
	if equality.Semantic.DeepEqual(next, have) {
		return have, nil
	}
	if err := immutable(next, have); err != nil {
		return nil, err
	}
	if err := m.admits("update", kind, next); err != nil {
		return nil, err
	}
	if kind.Generations && !equality.Semantic.DeepEqual(desiredState(next), desiredState(have)) {
		next.SetGeneration(have.GetGeneration() + 1)
	}
	m.store(k, next)
	return next.DeepCopy(), nil
}

// keepServerFields restores what a PUT request cannot change.
func keepServerFields(object, have *unstructured.Unstructured) *unstructured.Unstructured {
	object.SetResourceVersion(have.GetResourceVersion())
	object.SetUID(have.GetUID())
	object.SetGeneration(have.GetGeneration())
	object.SetCreationTimestamp(have.GetCreationTimestamp())
	object.SetDeletionTimestamp(have.GetDeletionTimestamp())
	if status, ok := have.Object["status"]; ok {
		object.Object["status"] = status
	} else {
		unstructured.RemoveNestedField(object.Object, "status")
	}
	return object
}

// desiredState is what an object wants: all but its metadata and status.
func desiredState(object *unstructured.Unstructured) map[string]any {
	wanted := maps.Clone(object.Object)
	delete(wanted, "metadata")
	delete(wanted, "status")
	return wanted
}

// immutable refuses to change what the API server lets nobody change.
func immutable(object, have *unstructured.Unstructured) error {
	var paths [][]string
	switch object.GroupVersionKind() {
	case deploymentKind, statefulSetKind, daemonSetKind, replicaSetKind:
		paths = [][]string{{"spec", "selector"}}
	case jobKind:
		paths = [][]string{{"spec", "selector"}, {"spec", "template"}}
	}
	if frozen, _, _ := unstructured.NestedBool(have.Object, "immutable"); frozen {
		paths = append(paths, []string{"data"}, []string{"binaryData"}, []string{"stringData"}, []string{"immutable"})
	}
	var errs field.ErrorList
	for _, path := range paths {
		was, _, _ := unstructured.NestedFieldNoCopy(have.Object, path...)
		is, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
		if !equality.Semantic.DeepEqual(was, is) {
			errs = append(errs, field.Invalid(field.NewPath(path[0], path[1:]...), is, "field is immutable"))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), object.GetName(), errs)
}

// ContentHash identifies what users care for in an object: all that stays after the
// pruning that Karmada does, without the labels and annotations that Karmada and the
// API server add. A template and what a member made of it have the same hash.
func ContentHash(object *unstructured.Unstructured) string {
	content := object.DeepCopy()
	if err := prune.RemoveIrrelevantFields(content, prune.RemoveJobTTLSeconds); err != nil {
		return "unprunable: " + err.Error()
	}
	content.SetLabels(ownMarks(content.GetLabels()))
	content.SetAnnotations(ownMarks(content.GetAnnotations()))
	raw, err := json.Marshal(content.Object)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// ownMarks returns the labels or annotations that are the user's own.
func ownMarks(marks map[string]string) map[string]string {
	own := map[string]string{}
	for name, value := range marks {
		domain, _, _ := strings.Cut(name, "/")
		foreign := domain == "karmada.io" || strings.HasSuffix(domain, ".karmada.io") || strings.HasSuffix(domain, "karmada-direct.io") ||
			name == "kubectl.kubernetes.io/last-applied-configuration"
		if !foreign {
			own[name] = value
		}
	}
	if len(own) == 0 {
		return nil
	}
	return own
}

// APIEnablements of the member, as Karmada finds them by discovery.
func (m *Member) resources() map[string][]Kind {
	groups := map[string][]Kind{}
	for _, kind := range m.kinds {
		groups[kind.GroupVersion().String()] = append(groups[kind.GroupVersion().String()], kind)
	}
	for _, kinds := range groups {
		slices.SortFunc(kinds, func(a, b Kind) int { return cmp.Compare(a.Plural, b.Plural) })
	}
	return groups
}
