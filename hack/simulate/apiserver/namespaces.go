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
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var namespaceResource = schema.GroupResource{Resource: namespaces}

// internal is the name of the client on whose behalf the server itself writes.
const internal = "apiserver"

// prepareNamespace sets what the server adds to a new Namespace.
func prepareNamespace(namespace *unstructured.Unstructured) {
	labels := namespace.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = namespace.GetName()
	namespace.SetLabels(labels)
	namespace.Object["spec"] = map[string]any{"finalizers": []any{string(corev1.FinalizerKubernetes)}}
	namespace.Object["status"] = map[string]any{"phase": string(corev1.NamespaceActive)}
}

// terminate makes a Namespace one that is being deleted.
func terminate(namespace *unstructured.Unstructured) {
	namespace.Object["status"] = map[string]any{"phase": string(corev1.NamespaceTerminating)}
}

// FinishNamespace does what the namespace controller does with a Namespace that is
// being deleted: it deletes what the Namespace holds, and then the Namespace, if
// nothing in it has finalizers. It reports whether the Namespace is gone.
func (s *Server) FinishNamespace(name string) (bool, error) {
	s.mu.Lock()
	gone, err := s.finishNamespace(name)
	s.mu.Unlock()
	s.tell()
	return gone, err
}

func (s *Server) finishNamespace(name string) (bool, error) {
	held := s.resources[namespaceResource]
	namespace := held.objects[types.NamespacedName{Name: name}]
	if namespace == nil || namespace.object.GetDeletionTimestamp() == nil {
		return namespace == nil, nil
	}
	left := 0
	for _, resource := range s.served() {
		if !resource.Namespaced {
			continue
		}
		remaining, err := s.clear(resource, name)
		if err != nil {
			return false, err
		}
		left += remaining
	}
	if left > 0 {
		return false, nil
	}
	r := internalRequest(held, namespace, "update")
	emptied := &revision{object: shallow(namespace.object)}
	emptied.object.Object["spec"] = map[string]any{}
	if isFinal(held, emptied.object) {
		s.erase(r, namespace)
		return true, nil
	}
	s.commit(r, namespace, emptied)
	return false, nil
}

// clear deletes the objects of a resource in a namespace, or in all if it is empty,
// and returns how many are left.
func (s *Server) clear(resource *resource, namespace string) (int, error) {
	left := 0
	for _, object := range sorted(resource.objects) {
		if namespace != "" && object.object.GetNamespace() != namespace {
			continue
		}
		marked, err := s.removeObject(internalRequest(resource, object, "delete"), object, &metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return left, err
		}
		if marked != nil {
			left++
		}
	}
	return left, nil
}

// internalRequest is a request of the server itself.
func internalRequest(resource *resource, object *revision, verb string) *request {
	return &request{resource: resource, Request: Request{
		Client: internal, Verb: verb, Group: resource.Group, Version: resource.Versions[0], Resource: resource.Plural,
		Namespace: object.object.GetNamespace(), Name: object.object.GetName(),
	}}
}

// served returns all resources in a fixed order.
func (s *Server) served() []*resource {
	all := make([]*resource, 0, len(s.resources))
	for _, resource := range s.resources {
		all = append(all, resource)
	}
	slices.SortFunc(all, func(a, b *resource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Plural, b.Plural))
	})
	return all
}
