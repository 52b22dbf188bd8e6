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

package apiserver

import (
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// create carries out a create request.
func (s *Server) create(r *request) (*answer, error) {
	if r.Name != "" || r.Subresource != "" {
		return nil, methodNotSupported(r)
	}
	object, err := s.decode(r)
	if err != nil {
		return nil, err
	}
	if r.resource.Answer != nil {
		if err := r.resource.Answer(r.Client, object); err != nil {
			return nil, err
		}
		return encoded(http.StatusCreated, object.Object)
	}
	if err := matchNamespace(r, object); err != nil {
		return nil, err
	}
	if err := s.admitNamespace(r, object); err != nil {
		return nil, err
	}
	if r.resource.custom != nil && r.resource.custom.terminating {
		return nil, apierrors.NewForbidden(r.GroupResource(), object.GetName(),
			errors.New("create not allowed while custom resource definition is terminating"))
	}
	made, err := s.createObject(r, object)
	if err != nil {
		return nil, err
	}
	return answered(http.StatusCreated, made.json(r)), nil
}

// createObject stores a new object.
func (s *Server) createObject(r *request, object *unstructured.Unstructured) (*revision, error) {
	// So often an API server tries another name.
	const attempts = 8
	generated := object.GetName() == "" && object.GetGenerateName() != ""
	for attempt := 1; generated; attempt++ {
		object.SetName(object.GetGenerateName() + s.suffix())
		if attempt == attempts || r.resource.objects[keyOf(object)] == nil {
			break
		}
	}
	if err := s.mutateWrite(r, nil, object); err != nil {
		return nil, err
	}
	defaulted, err := s.prepare(r, object)
	if err != nil {
		return nil, err
	}
	if err := s.validate(r, object); err != nil {
		return nil, err
	}
	if err := s.admitWrite(r, nil, object); err != nil {
		return nil, err
	}
	if object.GetResourceVersion() != "" {
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	if existing := r.resource.objects[keyOf(object)]; existing != nil {
		conflict := apierrors.NewAlreadyExists(r.GroupResource(), object.GetName())
		if generated {
			conflict = apierrors.NewGenerateNameConflict(r.GroupResource(), object.GetName(), 1)
		}
		if existing.object.GetDeletionTimestamp() != nil {
			conflict.ErrStatus.Message = "object is being deleted: " + conflict.ErrStatus.Message
		}
		return nil, conflict
	}
	made := &revision{object: object, defaulted: defaulted}
	s.commit(r, nil, made)
	s.created(r, made)
	return made, nil
}

// prepare sets what the server decides about a new object. It reports whether a read
// adds defaults to what is stored.
func (s *Server) prepare(r *request, object *unstructured.Unstructured) (defaulted bool, err error) {
	object.SetUID(types.UID(s.uid()))
	unstructured.RemoveNestedField(object.Object, "metadata", "deletionTimestamp")
	unstructured.RemoveNestedField(object.Object, "metadata", "deletionGracePeriodSeconds")
	unstructured.RemoveNestedField(object.Object, "metadata", "selfLink")
	unstructured.RemoveNestedField(object.Object, "metadata", "generation")
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	if err := unstructured.SetNestedField(object.Object, s.stamp(), "metadata", "creationTimestamp"); err != nil {
		return false, apierrors.NewBadRequest(err.Error())
	}
	if r.resource.Generation {
		object.SetGeneration(1)
	}
	if r.resource.hasStatus(r.Version) {
		delete(object.Object, "status")
	}
	if r.resource.custom != nil {
		r.resource.custom.versions[r.Version].addDefaults(object)
		_, defaulted = object.Object["status"]
		return defaulted && r.resource.hasStatus(r.Version), nil
	}
	if r.GroupResource() == definitionResource {
		return false, prepareDefinition(r, object)
	}
	if r.resource.Status {
		// The Go type has a status again, which is empty.
		if err := s.shapeTyped(object, false); err != nil {
			return false, apierrors.NewBadRequest(err.Error())
		}
	}
	if r.GroupResource() == namespaceResource {
		prepareNamespace(object)
	}
	return false, nil
}

// matchNamespace makes the namespace of an object that of the request.
func matchNamespace(r *request, object *unstructured.Unstructured) error {
	switch object.GetNamespace() {
	case r.Namespace:
	case "":
		object.SetNamespace(r.Namespace)
	default:
		if r.resource.Namespaced {
			return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
		}
		object.SetNamespace("")
	}
	return nil
}

// admitNamespace refuses new objects in namespaces that are absent or terminating.
func (s *Server) admitNamespace(r *request, object *unstructured.Unstructured) error {
	held := s.resources[namespaceResource]
	if !r.resource.Namespaced || held == nil {
		return nil
	}
	namespace := held.objects[types.NamespacedName{Name: r.Namespace}]
	if namespace == nil {
		return apierrors.NewNotFound(namespaceResource, r.Namespace)
	}
	if phase, _, _ := unstructured.NestedString(namespace.object.Object, "status", "phase"); phase != string(corev1.NamespaceTerminating) {
		return nil
	}
	name := object.GetName()
	if name == "" {
		name = object.GetGenerateName()
	}
	refused := apierrors.NewForbidden(r.GroupResource(), name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", r.Namespace))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace", Message: fmt.Sprintf("namespace %s is being terminated", r.Namespace),
	})
	return refused
}

func keyOf(object *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
