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
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// host is the name of the server in URLs and error messages.
const host = "http://apiserver.simulated"

// Config returns the configuration of a client whose requests wait in Pending. It
// does not limit the rate of requests.
func (s *Server) Config(name string) *rest.Config {
	return &rest.Config{Host: host, Transport: s.Transport(name), QPS: -1}
}

// Client returns a client whose requests are answered at once. It knows the kinds
// that are served when it first uses them: after a kind was replaced by one of another
// scope, make another client.
func (s *Server) Client(name string) (client.Client, error) {
	config := &rest.Config{Host: host, QPS: -1}
	made, err := client.New(config, client.Options{
		Scheme: s.scheme, Mapper: &mapper{server: s}, HTTPClient: &http.Client{Transport: s.Immediate(name)},
	})
	if err != nil {
		return nil, fmt.Errorf("making a client of the simulated API server: %w", err)
	}
	return made, nil
}

// mapper maps kinds to resources as the server serves them now.
type mapper struct {
	server *Server

	mu      sync.Mutex
	epoch   int64
	current meta.RESTMapper
}

// now returns a mapper of the kinds that are served now.
func (m *mapper) now() meta.RESTMapper {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current != nil && m.epoch == m.server.epoch {
		return m.current
	}
	made := meta.NewDefaultRESTMapper(nil)
	for _, resource := range m.server.served() {
		scope := meta.RESTScopeRoot
		if resource.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		for _, version := range resource.Versions {
			made.AddSpecific(schema.GroupVersionKind{Group: resource.Group, Version: version, Kind: resource.Kind.Kind},
				schema.GroupVersionResource{Group: resource.Group, Version: version, Resource: resource.Plural},
				schema.GroupVersionResource{Group: resource.Group, Version: version, Resource: resource.singular()}, scope)
		}
	}
	m.current, m.epoch = made, m.server.epoch
	return made
}

// The methods below are those of a RESTMapper.

// KindFor returns the kind of a resource.
func (m *mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.now().KindFor(resource) //nolint:wrapcheck // callers look at what it is
}

// KindsFor returns the kinds of a resource.
func (m *mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.now().KindsFor(resource) //nolint:wrapcheck // callers look at what it is
}

// ResourceFor completes a resource.
func (m *mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.now().ResourceFor(input) //nolint:wrapcheck // callers look at what it is
}

// ResourcesFor completes a resource in all ways.
func (m *mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.now().ResourcesFor(input) //nolint:wrapcheck // callers look at what it is
}

// RESTMapping returns the resource of a kind.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.now().RESTMapping(kind, versions...) //nolint:wrapcheck // callers look at what it is
}

// RESTMappings returns the resources of a kind in all versions.
func (m *mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.now().RESTMappings(kind, versions...) //nolint:wrapcheck // callers look at what it is
}

// ResourceSingularizer returns the singular of a resource.
func (m *mapper) ResourceSingularizer(resource string) (string, error) {
	return m.now().ResourceSingularizer(resource) //nolint:wrapcheck // callers look at what it is
}
