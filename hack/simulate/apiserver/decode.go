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
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// decode reads the object in the body of a request.
func (s *Server) decode(r *request) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	switch r.contentType {
	case runtime.ContentTypeJSON, "":
		if err := utiljson.Unmarshal(r.body, &object.Object); err != nil {
			return nil, apierrors.NewBadRequest("couldn't get version/kind; json parse error: " + err.Error())
		}
	case runtime.ContentTypeProtobuf:
		typed, kind, err := s.decoder.Decode(r.body, nil, nil)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if object.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		object.SetGroupVersionKind(*kind)
	default:
		return nil, unsupportedMediaType(runtime.ContentTypeJSON, runtime.ContentTypeProtobuf)
	}
	if err := checkKind(r, object); err != nil {
		return nil, err
	}
	return object, s.shape(r, object)
}

// unsupportedMediaType is the error for bodies that the server cannot read.
func unsupportedMediaType(supported ...string) error {
	message := fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s", strings.Join(supported, ", "))
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType, Message: message,
	}}
}

// checkKind compares what an object says it is with the path it was sent to.
func checkKind(r *request, object *unstructured.Unstructured) error {
	if object.GetKind() == "" {
		if r.resource.custom != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("Object 'Kind' is missing in '%s'", r.body))
		}
		object.SetKind(r.resource.Kind.Kind)
	}
	if object.GetAPIVersion() == "" {
		object.SetAPIVersion(r.apiVersion())
	}
	if object.GetAPIVersion() != r.apiVersion() {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
			object.GetAPIVersion(), r.apiVersion()))
	}
	if object.GetKind() != r.resource.Kind.Kind && r.resource.custom == nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: no kind %q is registered for version %q",
			object.GetKind(), r.Version, r.resource.Kind.Kind, object.GetKind(), r.apiVersion()))
	}
	return nil
}

// shape gives an object the form in which it is stored: with defaults, and without
// fields that its kind does not have.
func (s *Server) shape(r *request, object *unstructured.Unstructured) error {
	strict := r.query.Get("fieldValidation") == metav1.FieldValidationStrict
	var err error
	if r.resource.custom != nil {
		err = r.resource.custom.versions[r.Version].shape(object, strict)
	} else {
		err = s.shapeTyped(object, strict)
	}
	if err != nil {
		kind := r.resource.Kind.Kind
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", kind, r.Version, kind, err))
	}
	return nil
}

// shapeTyped sends an object through its Go type, if the scheme knows one.
func (s *Server) shapeTyped(object *unstructured.Unstructured, strict bool) error {
	kind := object.GroupVersionKind()
	if !s.scheme.Recognizes(kind) {
		return nil
	}
	typed, err := s.scheme.New(kind)
	if err != nil {
		return fmt.Errorf("making a %s: %w", kind.Kind, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, strict); err != nil {
		return err //nolint:wrapcheck // the answer quotes it as an API server does
	}
	s.scheme.Default(typed)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return fmt.Errorf("converting a %s: %w", kind.Kind, err)
	}
	if metadata, ok := content["metadata"].(map[string]any); ok && metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	object.Object = content
	setKind(object, kind)
	return nil
}

func setKind(object *unstructured.Unstructured, kind schema.GroupVersionKind) {
	object.SetAPIVersion(kind.GroupVersion().String())
	object.SetKind(kind.Kind)
}
