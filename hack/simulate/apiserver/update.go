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

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errOutdated is the reason of conflicts over the resourceVersion.
var errOutdated = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// update carries out an update request.
func (s *Server) update(r *request) (*answer, error) {
	object, err := s.decode(r)
	if err != nil {
		return nil, err
	}
	if err := matchNamespace(r, object); err != nil {
		return nil, err
	}
	switch name := object.GetName(); {
	case name == "":
		return nil, apierrors.NewBadRequest("name must be provided")
	case name != r.Name:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, r.Name))
	}
	before, err := existing(r)
	if err != nil {
		return nil, err
	}
	if uid := object.GetUID(); uid != "" && uid != before.object.GetUID() {
		return nil, apierrors.NewConflict(r.GroupResource(), r.Name, fmt.Errorf(
			"StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %v, UID in object meta: %v",
			storageKey(r), uid, before.object.GetUID()))
	}
	return s.replace(r, before, object)
}

// storageKey is where an API server would keep the object.
func storageKey(r *request) string {
	key := "/registry/"
	if r.resource.custom != nil {
		key += r.Group + "/"
	}
	key += r.Resource + "/"
	if r.Namespace != "" {
		key += r.Namespace + "/"
	}
	return key + r.Name
}

// replace writes the new content of an object.
func (s *Server) replace(r *request, before *revision, object *unstructured.Unstructured) (*answer, error) {
	if err := checkVersion(r, before, object); err != nil {
		return nil, err
	}
	if err := s.mutateWrite(r, before, object); err != nil {
		return nil, err
	}
	object, err := prepareUpdate(r, before.object, object)
	if err != nil {
		return nil, err
	}
	if err := s.validateUpdate(r, object, before.object); err != nil {
		return nil, err
	}
	if err := s.admitWrite(r, before, object); err != nil {
		return nil, err
	}
	made := &revision{object: object}
	if before.object.GetDeletionTimestamp() != nil && isFinal(r.resource, object) {
		s.erase(r, before)
		s.erased(r)
		return answered(http.StatusOK, made.json(r)), nil
	}
	if !before.defaulted && made.equals(before) {
		return answered(http.StatusOK, before.json(r)), nil
	}
	s.commit(r, before, made)
	return answered(http.StatusOK, made.json(r)), s.replaced(r, before, made)
}

// checkVersion refuses an update of another version than the current one.
func checkVersion(r *request, before *revision, object *unstructured.Unstructured) error {
	switch version := object.GetResourceVersion(); {
	case (version == "" || version == "0") && r.resource.Conditional:
		return apierrors.NewInvalid(schema.GroupKind{Group: r.Group, Kind: r.Resource}, r.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update"),
		})
	case version == "" || version == "0":
		object.SetResourceVersion(before.object.GetResourceVersion())
	case version != before.object.GetResourceVersion():
		return apierrors.NewConflict(r.GroupResource(), r.Name, errOutdated)
	}
	return nil
}

// prepareUpdate keeps what a client must not change, and counts changes. The result
// shares nothing with before that is changed later.
func prepareUpdate(r *request, before, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if r.isStatus() {
		return withStatus(before, object), nil
	}
	if r.resource.hasStatus(r.Version) {
		if status, has := before.Object["status"]; has {
			object.Object["status"] = status
		} else {
			delete(object.Object, "status")
		}
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(object.Object, "metadata", "selfLink")
	for _, name := range []string{"generation", "creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		value, has, err := unstructured.NestedFieldNoCopy(before.Object, "metadata", name)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if name == "uid" && object.GetUID() != "" {
			continue
		}
		if !has {
			if name == "generation" {
				unstructured.RemoveNestedField(object.Object, "metadata", name)
			}
			continue
		}
		if err := unstructured.SetNestedField(object.Object, value, "metadata", name); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if r.resource.Generation && contentChanged(r, before, object) {
		object.SetGeneration(before.GetGeneration() + 1)
	}
	return object, nil
}

// withStatus returns an object with the status of another.
func withStatus(before, object *unstructured.Unstructured) *unstructured.Unstructured {
	made := shallow(before)
	made.SetAPIVersion(object.GetAPIVersion())
	if status, has := object.Object["status"]; has {
		made.Object["status"] = status
	} else {
		delete(made.Object, "status")
	}
	return made
}

// contentChanged reports whether anything that the generation counts has changed.
func contentChanged(r *request, before, object *unstructured.Unstructured) bool {
	if r.resource.Annotations && !equality.Semantic.DeepEqual(before.GetAnnotations(), object.GetAnnotations()) {
		return true
	}
	content := func(of *unstructured.Unstructured) map[string]any {
		counted := make(map[string]any, len(of.Object))
		for name, value := range of.Object {
			if name != "metadata" && name != "apiVersion" && name != "kind" {
				counted[name] = value
			}
		}
		return counted
	}
	return !equality.Semantic.DeepEqual(content(before), content(object))
}
