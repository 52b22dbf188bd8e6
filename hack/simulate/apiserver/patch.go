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
	"encoding/json"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// patch carries out a patch request.
func (s *Server) patch(r *request) (*answer, error) {
	apply := map[types.PatchType]func(*request, *unstructured.Unstructured) (map[string]any, error){
		types.MergePatchType: applyMergePatch, types.JSONPatchType: applyJSONPatch, types.StrategicMergePatchType: s.applyStrategicPatch,
	}[types.PatchType(r.contentType)]
	if apply == nil || r.resource.custom != nil && r.contentType == string(types.StrategicMergePatchType) {
		supported := []string{string(types.JSONPatchType), string(types.MergePatchType)}
		if r.resource.custom == nil {
			supported = append(supported, string(types.StrategicMergePatchType))
		}
		return nil, unsupportedMediaType(supported...)
	}
	before, err := existing(r)
	if err != nil {
		return nil, err
	}
	seen := shallow(before.object)
	seen.SetAPIVersion(r.apiVersion())
	content, err := apply(r, seen)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: content}
	if err := s.shape(r, object); err != nil {
		text, _ := json.Marshal(content)
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(text), err.Error())})
	}
	if err := matchNamespace(r, object); err != nil {
		return nil, err
	}
	if name := object.GetName(); name != r.Name {
		return nil, apierrors.NewBadRequest("the name of the object (" + name + ") does not match the name on the URL (" + r.Name + ")")
	}
	return s.replace(r, before, object)
}

func applyMergePatch(r *request, object *unstructured.Unstructured) (map[string]any, error) {
	patch := map[string]any{}
	if err := utiljson.Unmarshal(r.body, &patch); err != nil {
		return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
	}
	return merge(object.DeepCopy().Object, patch), nil
}

// merge applies a JSON merge patch, RFC 7386, to an object that it may change.
func merge(object, patch map[string]any) map[string]any {
	for field, value := range patch {
		if value == nil {
			delete(object, field)
			continue
		}
		nested, ok := value.(map[string]any)
		if !ok {
			object[field] = value
			continue
		}
		inner, ok := object[field].(map[string]any)
		if !ok {
			inner = map[string]any{}
		}
		object[field] = merge(inner, nested)
	}
	return object
}

func applyJSONPatch(r *request, object *unstructured.Unstructured) (map[string]any, error) {
	patch, err := jsonpatch.DecodePatch(r.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	before, err := json.Marshal(object.Object)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	patched, err := patch.Apply(before)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	after := map[string]any{}
	if err := utiljson.Unmarshal(patched, &after); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return after, nil
}

func (s *Server) applyStrategicPatch(r *request, object *unstructured.Unstructured) (map[string]any, error) {
	typed, err := s.scheme.New(object.GroupVersionKind())
	if err != nil {
		return nil, unsupportedMediaType(string(types.JSONPatchType), string(types.MergePatchType))
	}
	patch := map[string]any{}
	if err := utiljson.Unmarshal(r.body, &patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(object.DeepCopy().Object, patch, typed)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return merged, nil
}
