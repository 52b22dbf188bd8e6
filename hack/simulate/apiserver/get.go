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
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// get carries out a get request.
func (s *Server) get(r *request) (*answer, error) {
	objects, _, err := s.snapshot(r)
	if err != nil {
		return nil, err
	}
	found := objects[r.key()]
	if found == nil {
		return nil, apierrors.NewNotFound(r.GroupResource(), r.Name)
	}
	return answered(http.StatusOK, found.json(r)), nil
}

// list carries out a list request. It ignores limits, as an API server does when it
// answers from its watch cache.
func (s *Server) list(r *request) (*answer, error) {
	if r.query.Get("continue") != "" {
		return nil, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
	}
	selected, err := selectorOf(r)
	if err != nil {
		return nil, err
	}
	objects, version, err := s.snapshot(r)
	if err != nil {
		return nil, err
	}
	found := make([]*revision, 0, len(objects))
	for _, object := range sorted(objects) {
		if selected.matches(object) {
			found = append(found, object)
		}
	}
	return answered(http.StatusOK, listJSON(r, found, version)), nil
}

// listJSON returns a list of objects.
func listJSON(r *request, objects []*revision, version int64) []byte {
	kind, apiVersion := r.resource.Kind.Kind+"List", r.apiVersion()
	if r.partial() {
		kind, apiVersion = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
	}
	list := &bytes.Buffer{}
	fmt.Fprintf(list, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, kind, apiVersion, version)
	for i, object := range objects {
		if i > 0 {
			list.WriteByte(',')
		}
		list.Write(object.item(r))
	}
	list.WriteString("]}")
	return list.Bytes()
}

// snapshot returns the objects as a request is to see them, and their version.
func (s *Server) snapshot(r *request) (map[types.NamespacedName]*revision, int64, error) {
	asked, err := askedVersion(r)
	if err != nil {
		return nil, 0, err
	}
	if asked > s.version {
		return nil, 0, tooLarge(asked, s.version)
	}
	at := s.version
	if r.query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) {
		if at = asked; at < s.compacted {
			return nil, 0, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
		}
	} else if r.staleAt > 0 && r.mayBeStale() {
		at = min(s.version, max(asked, r.staleAt, s.compacted))
	}
	if at == s.version {
		return r.resource.objects, at, nil
	}
	return r.resource.at(at), at, nil
}

// mayBeStale reports whether the client accepts an answer from the past.
func (r *request) mayBeStale() bool {
	return (r.Verb == "get" || r.Verb == "list" || r.Verb == "watch") && r.query.Get("resourceVersion") != "" &&
		r.query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchExact)
}

// askedVersion returns the resourceVersion of a request, 0 if it has none.
func askedVersion(r *request) (int64, error) {
	asked := r.query.Get("resourceVersion")
	if asked == "" {
		return 0, nil
	}
	version, err := strconv.ParseUint(asked, 10, 63)
	if err != nil {
		return 0, apierrors.NewBadRequest("invalid resource version: " + field.Invalid(field.NewPath("resourceVersion"), asked, err.Error()).Error())
	}
	return int64(version), nil
}

func tooLarge(asked, current int64) error {
	refused := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	refused.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return refused
}

// selector says which objects a list or watch is for.
type selector struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func selectorOf(r *request) (*selector, error) {
	made := &selector{namespace: r.Namespace}
	var err error
	if made.labels, err = labels.Parse(r.query.Get("labelSelector")); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to parse requirement: %v", err))
	}
	if made.fields, err = fields.ParseSelector(r.query.Get("fieldSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, requirement := range made.fields.Requirements() {
		if requirement.Field != "metadata.name" && requirement.Field != "metadata.namespace" {
			return nil, apierrors.NewBadRequest("field label not supported: " + requirement.Field)
		}
	}
	if r.Name != "" {
		made.fields = fields.AndSelectors(made.fields, fields.OneTermEqualSelector("metadata.name", r.Name))
	}
	return made, nil
}

func (s *selector) matches(of *revision) bool {
	object := of.object
	if s.namespace != "" && s.namespace != object.GetNamespace() {
		return false
	}
	return (s.labels.Empty() || s.labels.Matches(labels.Set(object.GetLabels()))) &&
		(s.fields.Empty() || s.fields.Matches(fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}))
}
