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
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
)

// Server is a simulated API server.
type Server struct {
	now     func() time.Time
	scheme  *runtime.Scheme
	decoder runtime.Decoder
	mutate  func(Write) error
	admit   func(Write) error

	mu sync.Mutex
	// version is the resourceVersion of the last write.
	version int64
	// compacted is the version up to which history has been dropped.
	compacted int64
	// serial makes UIDs and names unique.
	serial int64
	// epoch is raised when other kinds are served than before.
	epoch     int64
	resources map[schema.GroupResource]*resource
	// calls are the requests that wait to be served.
	calls   []*Call
	streams []*Stream
	// opened counts streams.
	opened int
	// fresh are the writes of which the observers have not been told.
	fresh     []Write
	closed    bool
	observers []func(Write)
	denials   map[denial]bool
	// promptEvents: writing an Event is answered at once.
	promptEvents bool
	// lag is how late discovery is, published what it shows, one after the other.
	lag       time.Duration
	published []snapshot
	outages   map[string]*outage
}

// New returns a server without objects other than the CRDs of the options.
func New(options Options) (*Server, error) {
	s := &Server{
		now: options.Now, scheme: options.Scheme, mutate: options.Mutate, admit: options.Admit, version: 1000,
		resources: map[schema.GroupResource]*resource{}, denials: map[denial]bool{}, outages: map[string]*outage{},
	}
	if s.now == nil {
		s.now = clock.RealClock{}.Now
	}
	if s.scheme == nil {
		s.scheme = runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
			if err := add(s.scheme); err != nil {
				return nil, fmt.Errorf("building the scheme: %w", err)
			}
		}
	}
	s.lag, s.promptEvents = options.DiscoveryLag, options.PromptEvents
	s.decoder = serializer.NewCodecFactory(s.scheme).UniversalDeserializer()
	kinds := options.Kinds
	if kinds == nil {
		kinds = BuiltinKinds()
	}
	for _, kind := range kinds {
		s.serveKind(kind)
	}
	for _, crd := range options.CRDs {
		if err := s.install(crd); err != nil {
			return nil, fmt.Errorf("installing the CustomResourceDefinition %s: %w", crd.Name, err)
		}
	}
	s.published = nil // nobody saw what was there before
	s.publish()
	return s, nil
}

// Observe has a function called after each write that took effect, in the order of
// the writes, before the client gets its answer. The function may use Client.
func (s *Server) Observe(observer func(Write)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(s.observers, observer)
}

// ResourceVersion returns that of the last write.
func (s *Server) ResourceVersion() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Compact drops the history before now: watches from older versions get 410 Gone, and
// nothing older than now can be read.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.version
	for _, resource := range s.resources {
		resource.history = nil
	}
}

// serve carries out a request and tells the observers what it wrote. Those of an Event that
// is answered at once are told with the next request, by who decides about that.
func (s *Server) serve(r *request) *answer {
	s.mu.Lock()
	answered := s.answer(r)
	isPrompt := s.promptEvents && isEvent(r)
	s.mu.Unlock()
	if !isPrompt {
		s.tell()
	}
	return answered
}

// tell tells the observers of the writes that they do not know yet.
func (s *Server) tell() {
	s.mu.Lock()
	fresh, observers := s.fresh, slices.Clone(s.observers)
	s.fresh = nil
	s.mu.Unlock()
	for i := range fresh {
		for _, observer := range observers {
			observer(fresh[i])
		}
	}
}

// answer carries out a request.
func (s *Server) answer(r *request) *answer {
	if isDiscovery(r.path) {
		return s.discover(r)
	}
	if err := s.locate(r); err != nil {
		return failed(err)
	}
	if err := s.permit(r); err != nil {
		return failed(err)
	}
	handle := map[string]func(*request) (*answer, error){
		"get": s.get, "list": s.list, "watch": s.watch, "create": s.create, "update": s.update,
		"patch": s.patch, "delete": s.remove, "deletecollection": s.removeAll,
	}[r.Verb]
	if handle == nil {
		return failed(methodNotSupported(r))
	}
	answered, err := handle(r)
	if err != nil {
		return failed(err)
	}
	return answered
}

// stamp returns the time as objects show it.
func (s *Server) stamp() string { return s.now().UTC().Format(time.RFC3339) }

// uid returns a unique identifier that depends on nothing but the order of calls.
func (s *Server) uid() string {
	s.serial++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(s.serial)*2654435761, s.serial)
}

// suffix returns what completes a generateName.
func (s *Server) suffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	s.serial++
	made := make([]byte, 5)
	for i, rest := 0, uint64(s.serial)*0x9E3779B97F4A7C15>>16; i < len(made); i, rest = i+1, rest/uint64(len(letters)) {
		made[i] = letters[rest%uint64(len(letters))]
	}
	return string(made)
}
