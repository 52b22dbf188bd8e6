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

package cached

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// kindsSettle is how long the API server may return old information about kinds
	// after a CustomResourceDefinition has changed. It takes well under a second.
	kindsSettle = 3 * time.Second
	// kindsFresh is how long an answer of the API server is valid while a change
	// settles, or if it lacks the requested kind.
	kindsFresh = 500 * time.Millisecond
	// KindsTimeout is how long the API server may take to answer. A group of an
	// aggregated API server is as slow as that server.
	KindsTimeout = 5 * time.Second
	// kindsBackoff is a factor: after a failed request, the group is not requested
	// again for this many times the duration of the request. A group that does not
	// answer therefore takes little of the time of reconciles.
	kindsBackoff = 10
	// maxServed limits the memory for answers to a few megabytes. An API server
	// serves a few hundred versions at most.
	maxServed = 4096
)

// Kinds is the RESTMapper and the live client for the resources that objects name.
// Those of controller-runtime remember the mapping of a kind until the process
// exits: they keep using a version that is no longer served, and the old scope and
// plural of a CustomResourceDefinition that has been re-created. Kinds asks the API
// server again after Changed.
type Kinds struct {
	// RESTMapper implements everything except RESTMapping.
	meta.RESTMapper
	discovery discovery.ServerResourcesInterface
	// connect returns a client that maps kinds with the given RESTMapper.
	connect func(meta.RESTMapper) (client.Client, error)
	clock   clock.PassiveClock

	mu sync.Mutex
	// client is nil after a mapping has changed, until it is needed.
	client client.Client
	served map[schema.GroupVersion]*servedVersion
	// changed is, by group, when its kinds may last have changed.
	changed map[string]time.Time
}

// servedVersion is what the API server serves for a group and version.
type servedVersion struct {
	mu sync.Mutex
	// at is when the API server was last asked; the zero time for never.
	at     time.Time
	mapper *meta.DefaultRESTMapper
	// err is the error of the last request, failed is when it was returned, and until
	// is when the request may be repeated, unless the group changes earlier.
	err           error
	failed, until time.Time
	kinds         map[schema.GroupVersionKind]servedKind
}

type servedKind struct {
	plural, singular string
	namespaced       bool
}

// NewKinds returns a Kinds without any answers. mapper answers requests that are not
// about a single kind.
func NewKinds(mapper meta.RESTMapper, discovery discovery.ServerResourcesInterface, clock clock.PassiveClock, connect func(meta.RESTMapper) (client.Client, error)) *Kinds {
	return &Kinds{
		RESTMapper: mapper, discovery: discovery, connect: connect, clock: clock,
		served: map[schema.GroupVersion]*servedVersion{}, changed: map[string]time.Time{},
	}
}

// Changed causes the kinds of a group to be looked up again before their next use.
func (k *Kinds) Changed(group string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed[group] = k.clock.Now()
}

// Unsettled is how long the API server may still return old information about the
// kinds of a group; 0 if it does not.
func (k *Kinds) Unsettled(group string) time.Duration {
	changed := k.changedAt(group)
	if changed.IsZero() {
		return 0
	}
	// A little longer, so that the next request is later than that.
	return max(0, changed.Add(kindsSettle+kindsFresh).Sub(k.clock.Now()))
}

// RESTMapping returns what a kind of one version maps to. The error satisfies
// meta.IsNoMatchError if the API server does not serve it; any other error means
// that the API server could not be asked.
func (k *Kinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 {
		return nil, fmt.Errorf("mapping %s: exactly one version must be named, not %v", kind, versions)
	}
	version := kind.WithVersion(versions[0]).GroupVersion()
	served := k.servedOf(version)
	served.mu.Lock()
	defer served.mu.Unlock()
	if now, changed := k.clock.Now(), k.changedAt(version.Group); !served.fresh(now, changed, version.WithKind(kind.Kind)) {
		if now.Before(served.until) && !changed.After(served.failed) {
			return nil, served.err
		}
		kinds, err := k.ask(version)
		if err != nil {
			served.err, served.failed = err, k.clock.Now()
			served.until = served.failed.Add(kindsBackoff * served.failed.Sub(now))
			return nil, err
		}
		k.learn(served, version, kinds, now)
	}
	return served.mapper.RESTMapping(kind, version.Version) //nolint:wrapcheck // callers tell a missing kind by the type
}

// fresh reports whether an answer is still valid.
func (s *servedVersion) fresh(now, changed time.Time, kind schema.GroupVersionKind) bool {
	_, known := s.kinds[kind]
	settled := known && s.at.After(changed.Add(kindsSettle))
	return !s.at.IsZero() && (settled || known && changed.IsZero() || s.at.After(changed) && now.Sub(s.at) < kindsFresh)
}

// learn records what is served now. If a mapping has changed, the client is created
// again, because it keeps its own mappings.
func (k *Kinds) learn(served *servedVersion, version schema.GroupVersion, kinds map[schema.GroupVersionKind]servedKind, now time.Time) {
	for kind, before := range served.kinds {
		if kinds[kind] != before {
			k.mu.Lock()
			k.client = nil
			k.mu.Unlock()
			break
		}
	}
	served.at, served.kinds = now, kinds
	served.mapper = meta.NewDefaultRESTMapper([]schema.GroupVersion{version})
	for kind, found := range kinds {
		scope := meta.RESTScope(meta.RESTScopeRoot)
		if found.namespaced {
			scope = meta.RESTScopeNamespace
		}
		served.mapper.AddSpecific(kind, version.WithResource(found.plural), version.WithResource(found.singular), scope)
	}
}

// ask asks the API server for the kinds of a version. It returns none if the server
// does not serve the version.
func (k *Kinds) ask(version schema.GroupVersion) (map[schema.GroupVersionKind]servedKind, error) {
	list, err := k.discovery.ServerResourcesForGroupVersion(version.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking the Karmada API server for %s: %w", version, err)
	}
	kinds := make(map[schema.GroupVersionKind]servedKind, len(list.APIResources))
	for i := range list.APIResources {
		resource := &list.APIResources[i]
		if strings.Contains(resource.Name, "/") {
			// A subresource may have the kind of another resource.
			continue
		}
		kinds[version.WithKind(resource.Kind)] = servedKind{
			plural: resource.Name, singular: resource.SingularName, namespaced: resource.Namespaced,
		}
	}
	return kinds, nil
}

func (k *Kinds) servedOf(version schema.GroupVersion) *servedVersion {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.served[version] == nil {
		if len(k.served) >= maxServed {
			// Objects may name anything. An answer that is dropped is requested
			// again, and it is then unknown whether it has changed.
			clear(k.served)
			k.client = nil
		}
		k.served[version] = &servedVersion{}
	}
	return k.served[version]
}

func (k *Kinds) changedAt(group string) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed[group]
}

// current returns a client that maps kinds as they are served now.
func (k *Kinds) current() (client.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		made, err := k.connect(k)
		if err != nil {
			return nil, fmt.Errorf("creating a client: %w", err)
		}
		k.client = made
	}
	return k.client, nil
}

// Get reads an object from the API server.
func (k *Kinds) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	current, err := k.current()
	if err != nil {
		return err
	}
	return current.Get(ctx, key, object, options...) //nolint:wrapcheck // callers say what they read
}

// UpdateStatus writes the status of an object.
func (k *Kinds) UpdateStatus(ctx context.Context, object client.Object) error {
	current, err := k.current()
	if err != nil {
		return err
	}
	return current.Status().Update(ctx, object) //nolint:wrapcheck // callers say what they write
}
