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
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// request is a request, read completely.
type request struct {
	Request

	path   string
	query  url.Values
	accept string
	// contentType is that of the body, without parameters.
	contentType string
	body        []byte
	// done ends when the request is canceled.
	done <-chan struct{}

	// chosen are the options, in one line.
	chosen string

	// staleAt is the version that a read may show instead of the newest; 0 for none.
	staleAt int64
	// resource is set when the request is served.
	resource *resource
	// parsed is the CustomResourceDefinition in the body, once it is known.
	parsed *parsed
}

// read reads a request of a client.
func read(client string, from *http.Request) (*request, error) {
	r := &request{path: strings.TrimSuffix(from.URL.Path, "/"), query: from.URL.Query(), accept: from.Header.Get("Accept"), done: from.Context().Done()}
	r.Client = client
	r.contentType, _, _ = strings.Cut(from.Header.Get("Content-Type"), ";")
	if from.Body != nil {
		defer from.Body.Close()
		var err error
		if r.body, err = io.ReadAll(from.Body); err != nil {
			return nil, fmt.Errorf("reading the body of a request: %w", err)
		}
	}
	if !isDiscovery(r.path) {
		r.identify(from.Method)
		r.chosen = r.options()
	}
	return r, nil
}

// identify finds out what a path and a method mean.
func (r *request) identify(method string) {
	parts := strings.Split(strings.TrimPrefix(r.path, "/"), "/")
	if parts[0] == "api" {
		r.Version, parts = parts[1], parts[2:]
	} else if len(parts) > 3 {
		r.Group, r.Version, parts = parts[1], parts[2], parts[3:]
	}
	if len(parts) > 2 && parts[0] == namespaces && parts[2] != "status" && parts[2] != "finalize" {
		r.Namespace, parts = parts[1], parts[2:]
	}
	r.Resource = parts[0]
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Subresource = strings.Join(parts[2:], "/")
	}
	r.Verb = r.verb(method)
}

func (r *request) verb(method string) string {
	switch method {
	case http.MethodGet:
		if watch := r.query.Get("watch"); watch == "true" || watch == "1" {
			return "watch"
		}
		if r.Name == "" {
			return "list"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if r.Name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return strings.ToLower(method)
}

// locate finds the resource that a request is for.
func (s *Server) locate(r *request) error {
	found := s.resources[r.GroupResource()]
	if found == nil || !found.serves(r.Version) || !found.isAt(r) {
		return errNotServed
	}
	if r.Subresource != "" && (r.Subresource != "status" || !found.hasStatus(r.Version)) {
		if found.custom == nil {
			return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
		}
		return apierrors.NewNotFound(r.GroupResource(), r.Name)
	}
	if r.Name == "" && (r.Verb == "update" || r.Verb == "patch") {
		return apierrors.NewBadRequest("name must be provided")
	}
	r.resource = found
	return nil
}

// isAt reports whether a request has a namespace if the resource needs one.
func (r *resource) isAt(requested *request) bool {
	if !r.Namespaced || requested.Namespace != "" {
		return r.Namespaced || requested.Namespace == ""
	}
	return requested.Verb == "list" || requested.Verb == "watch" || r.Answer != nil
}

func (r *request) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// apiVersion is the version in which the client sees objects.
func (r *request) apiVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// partial reports whether the client wants metadata only.
func (r *request) partial() bool {
	return strings.Contains(r.accept, "as=PartialObjectMetadata")
}

// isDryRun reports whether nothing may be written.
func (r *request) isDryRun() bool { return r.query.Get("dryRun") == metav1.DryRunAll }

// isStatus reports whether the request is for the status of an object.
func (r *request) isStatus() bool { return r.Subresource == "status" }

// isEvent reports whether a request writes an Event.
func isEvent(r *request) bool {
	return r.Resource == "events" && (r.Verb == "create" || r.Verb == "patch")
}

func isDiscovery(path string) bool {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch parts[0] {
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	}
	return true
}
