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
	// kindsSettle is how long after a change of a CustomResourceDefinition the API
	// server may still describe its kinds as they were. It takes well under a
	// second.
	kindsSettle = 3 * time.Second
	// kindsFresh is how long an answer of the API server is good for while a change
	// settles, or when it lacks the kind that is asked for.
	kindsFresh = 500 * time.Millisecond
	// KindsTimeout is how long the API server may take to answer. A group that an
	// aggregated API server serves is as slow as that one.
	KindsTimeout = 5 * time.Second
	// kindsBackoff is how many times as long as a failed request took the group is
	// not asked for again, so that one which does not answer takes little of the
	// time of those who reconcile.
	kindsBackoff = 10
	// maxServed bounds the memory that answers take, to a few megabytes. An API
	// server serves some hundreds of versions at most.
	maxServed = 4096
)

// Kinds is the RESTMapper and the live client for the resources that objects
// name. The ones of controller-runtime remember what a kind maps to for as long
// as the process lives: they keep using a version that is not served any more,
// and the scope and the plural of a CustomResourceDefinition that has been
// re-created with others. Kinds asks the API server again when it is told that
// the kinds of a group may have changed.
type Kinds struct {
	// RESTMapper answers all but RESTMapping.
	meta.RESTMapper
	discovery discovery.ServerResourcesInterface
	// connect makes a client that maps kinds with the RESTMapper that it is given.
	connect func(meta.RESTMapper) (client.Client, error)
	clock   clock.PassiveClock

	mu sync.Mutex
	// client is nil until it is asked for after a mapping has changed.
	client client.Client
	served map[schema.GroupVersion]*servedVersion
	// changed is, by group, when its kinds may have changed last.
	changed map[string]time.Time
}

// servedVersion is what the API server serves of a group and version.
type servedVersion struct {
	mu sync.Mutex
	// at is when the API server was asked last; the zero time for never.
	at     time.Time
	mapper *meta.DefaultRESTMapper
	// err is what the last request failed with, until when it is not repeated.
	err   error
	until time.Time
	kinds map[schema.GroupVersionKind]servedKind
}

type servedKind struct {
	plural, singular string
	namespaced       bool
}

// NewKinds returns a Kinds that has not asked for anything yet. mapper answers
// what is not about a single kind.
func NewKinds(mapper meta.RESTMapper, discovery discovery.ServerResourcesInterface, clock clock.PassiveClock, connect func(meta.RESTMapper) (client.Client, error)) *Kinds {
	return &Kinds{
		RESTMapper: mapper, discovery: discovery, connect: connect, clock: clock,
		served: map[schema.GroupVersion]*servedVersion{}, changed: map[string]time.Time{},
	}
}

// Changed has the kinds of a group looked up again before they are used next.
func (k *Kinds) Changed(group string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed[group] = k.clock.Now()
}

// Unsettled is how long the API server may still describe the kinds of a group as
// they were before they changed; 0 when it does not.
func (k *Kinds) Unsettled(group string) time.Duration {
	changed := k.changedAt(group)
	if changed.IsZero() {
		return 0
	}
	// A little more: what is asked then is to be later than that.
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
	if now := k.clock.Now(); !served.fresh(now, k.changedAt(version.Group), version.WithKind(kind.Kind)) {
		if now.Before(served.until) {
			return nil, served.err
		}
		kinds, err := k.ask(version)
		if err != nil {
			served.err, served.until = err, k.clock.Now().Add(kindsBackoff*k.clock.Since(now))
			return nil, err
		}
		k.learn(served, version, kinds, now)
	}
	return served.mapper.RESTMapping(kind, version.Version) //nolint:wrapcheck // callers tell a missing kind by the type
}

// fresh reports whether an answer need not be asked for again.
func (s *servedVersion) fresh(now, changed time.Time, kind schema.GroupVersionKind) bool {
	_, known := s.kinds[kind]
	settled := known && s.at.After(changed.Add(kindsSettle))
	return !s.at.IsZero() && (settled || known && changed.IsZero() || s.at.After(changed) && now.Sub(s.at) < kindsFresh)
}

// learn takes down what is served now. The client is made anew if it may have
// used what is not true any more: it keeps mappings of its own.
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

// ask asks the API server for the kinds of a version; none if it does not serve
// the version.
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
			// Objects may name what they like. What goes is asked for again, and nobody
			// can tell then whether it has changed.
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

// current is a client that maps kinds as they are served now.
func (k *Kinds) current() (client.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		made, err := k.connect(k)
		if err != nil {
			return nil, fmt.Errorf("making a client: %w", err)
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
