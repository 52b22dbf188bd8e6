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
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
)

// remove carries out a delete request.
func (s *Server) remove(r *request) (*answer, error) {
	options, err := s.deleteOptions(r)
	if err != nil {
		return nil, err
	}
	before, err := existing(r)
	if err != nil {
		return nil, err
	}
	marked, err := s.removeObject(r, before, options)
	if err != nil {
		return nil, err
	}
	if marked != nil {
		return answered(http.StatusOK, marked.json(r)), nil
	}
	return encoded(http.StatusOK, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: r.Name, Group: r.Group, Kind: r.Resource, UID: before.object.GetUID()},
	})
}

// deleteOptions reads the options of a deletion, from the body or else the query.
func (s *Server) deleteOptions(r *request) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if policy := r.query.Get("propagationPolicy"); policy != "" {
		chosen := metav1.DeletionPropagation(policy)
		options.PropagationPolicy = &chosen
	}
	if len(r.body) == 0 {
		return options, nil
	}
	if r.contentType == runtime.ContentTypeProtobuf {
		if _, _, err := s.decoder.Decode(r.body, nil, options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	} else if err := utiljson.Unmarshal(r.body, options); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if slices.Contains(options.DryRun, metav1.DryRunAll) {
		r.query.Set("dryRun", metav1.DryRunAll)
	}
	return options, nil
}

// removeObject deletes an object, or marks it if it has finalizers. It returns the
// marked object, and nil if the object is gone.
func (s *Server) removeObject(r *request, before *revision, options *metav1.DeleteOptions) (*revision, error) {
	if err := checkPreconditions(r, before, options.Preconditions); err != nil {
		return nil, err
	}
	if err := s.admitWrite(r, before, nil); err != nil {
		return nil, err
	}
	object := shallow(before.object)
	object.SetFinalizers(finalizersFor(r, object.GetFinalizers(), options))
	if isFinal(r.resource, object) {
		s.erase(r, before)
		s.erased(r)
		return nil, nil //nolint:nilnil // nothing is left
	}
	if err := s.mark(r, object); err != nil {
		return nil, err
	}
	made := &revision{object: object}
	if made.equals(before) {
		return before, nil
	}
	s.commit(r, before, made)
	return made, s.replaced(r, before, made)
}

// mark records that an object is to be deleted.
func (s *Server) mark(r *request, object *unstructured.Unstructured) error {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	if err := unstructured.SetNestedField(object.Object, s.stamp(), "metadata", "deletionTimestamp"); err != nil {
		return apierrors.NewInternalError(err)
	}
	switch r.GroupResource() {
	case namespaceResource:
		terminate(object)
		return nil
	case definitionResource:
		return terminateDefinition(object, s.stamp())
	}
	if object.GetGeneration() > 0 {
		object.SetGeneration(object.GetGeneration() + 1)
	}
	object.SetDeletionGracePeriodSeconds(ptr.To[int64](0))
	return nil
}

// isFinal reports whether an object may go once it is to be deleted.
func isFinal(resource *resource, object *unstructured.Unstructured) bool {
	if len(object.GetFinalizers()) > 0 {
		return false
	}
	if resource.groupResource() != namespaceResource {
		return true
	}
	finalizers, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "finalizers")
	return len(finalizers) == 0
}

func checkPreconditions(r *request, before *revision, must *metav1.Preconditions) error {
	if must == nil {
		return nil
	}
	of := schema.GroupResource{Group: r.Group, Resource: r.resource.Kind.Kind}
	if uid := before.object.GetUID(); must.UID != nil && *must.UID != uid {
		return apierrors.NewConflict(of, r.Name, fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *must.UID, uid))
	}
	if version := before.object.GetResourceVersion(); must.ResourceVersion != nil && *must.ResourceVersion != version {
		return apierrors.NewConflict(of, r.Name, fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified",
			*must.ResourceVersion, version))
	}
	return nil
}

// finalizersFor returns the finalizers of an object with those for the garbage
// collector, which nobody but an actor of the simulation removes.
func finalizersFor(r *request, finalizers []string, options *metav1.DeleteOptions) []string {
	if r.GroupResource() == definitionResource && !slices.Contains(finalizers, definitionFinalizer) {
		finalizers = append(slices.Clone(finalizers), definitionFinalizer)
	}
	if options.PropagationPolicy == nil {
		return finalizers
	}
	kept := slices.DeleteFunc(slices.Clone(finalizers), func(name string) bool {
		return name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents
	})
	switch *options.PropagationPolicy {
	case metav1.DeletePropagationOrphan:
		kept = append(kept, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		kept = append(kept, metav1.FinalizerDeleteDependents)
	default:
	}
	return kept
}

// removeAll carries out a deletecollection request.
func (s *Server) removeAll(r *request) (*answer, error) {
	options, err := s.deleteOptions(r)
	if err != nil {
		return nil, err
	}
	selected, err := selectorOf(r)
	if err != nil {
		return nil, err
	}
	var removed []*revision
	for _, object := range sorted(r.resource.objects) {
		if !selected.matches(object) {
			continue
		}
		one := *r
		one.Namespace, one.Name = object.object.GetNamespace(), object.object.GetName()
		if _, err := s.removeObject(&one, object, options); err != nil {
			return nil, err
		}
		removed = append(removed, object)
	}
	return answered(http.StatusOK, listJSON(r, removed, s.version)), nil
}
