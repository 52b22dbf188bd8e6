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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// denial is what a client may not do.
type denial struct {
	client   string
	resource schema.GroupResource
	verb     string
}

// Deny has requests of a client fail with 403 Forbidden. Open watches go on.
func (s *Server) Deny(client string, resource schema.GroupResource, verbs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, verb := range verbs {
		s.denials[denial{client: client, resource: resource, verb: verb}] = true
	}
}

// Allow ends a denial.
func (s *Server) Allow(client string, resource schema.GroupResource, verbs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, verb := range verbs {
		delete(s.denials, denial{client: client, resource: resource, verb: verb})
	}
}

// permit refuses what a client may not do.
func (s *Server) permit(r *request) error {
	if !s.denials[denial{client: r.Client, resource: r.GroupResource(), verb: r.Verb}] {
		return nil
	}
	where, resource := "at the cluster scope", r.Resource
	if r.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", r.Namespace)
	}
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return apierrors.NewForbidden(r.GroupResource(), r.Name,
		fmt.Errorf("User %q cannot %s resource %q in API group %q %s", r.Client, r.Verb, resource, r.Group, where)) //nolint:staticcheck // quoted from an API server
}
