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

package propagation

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// Resources watches the kinds that propagation objects name, as metadata, and
// only as long as one of them does. A watch costs a few hundred bytes per
// object of the kind, whatever the objects contain.
type Resources struct {
	client metadata.Interface
	notify notification

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the life of the watches, not of a call
	watches map[schema.GroupVersionResource]*kindWatch
	// users says which kind each propagation object names.
	users map[types.NamespacedName]schema.GroupVersionResource
}

// notification is called when an object of a watched kind comes, changes or
// goes. initial says that the watch has only found the object: nothing is known
// to have changed.
type notification func(resource schema.GroupVersionResource, key types.NamespacedName, initial bool)

type kindWatch struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	users    int
}

// NewResources returns a Resources that watches nothing yet. Watches live as
// long as ctx at most.
func NewResources(ctx context.Context, client metadata.Interface, notify notification) *Resources {
	return &Resources{
		client: client, notify: notify, ctx: ctx,
		watches: map[schema.GroupVersionResource]*kindWatch{},
		users:   map[types.NamespacedName]schema.GroupVersionResource{},
	}
}

// Track makes sure that the kind is watched that a propagation object names.
func (r *Resources) Track(user types.NamespacedName, resource schema.GroupVersionResource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tracked, ok := r.users[user]; ok {
		if tracked == resource {
			return
		}
		r.release(user)
	}
	r.users[user] = resource
	if r.watches[resource] == nil {
		r.watches[resource] = r.start(resource)
	}
	r.watches[resource].users++
}

// Forget ends what was tracked for a propagation object, and the watch of its
// kind if no other object names it.
func (r *Resources) Forget(user types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(user)
}

// Unchanged tells whether the watch shows an object to be the one, and as new,
// as it was when it was read. It is false when the watch cannot tell.
func (r *Resources) Unchanged(resource schema.GroupVersionResource, namespace, name string, uid types.UID, version string) bool {
	r.mu.Lock()
	watch := r.watches[resource]
	r.mu.Unlock()
	if watch == nil || !watch.informer.HasSynced() {
		return false
	}
	object, exists, err := watch.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !exists {
		return false
	}
	metadata, ok := object.(*metav1.PartialObjectMetadata)
	return ok && metadata.UID == uid && metadata.ResourceVersion == version
}

// Watched returns the kinds that are watched now.
func (r *Resources) Watched() []schema.GroupVersionResource {
	r.mu.Lock()
	defer r.mu.Unlock()
	watched := make([]schema.GroupVersionResource, 0, len(r.watches))
	for resource := range r.watches {
		watched = append(watched, resource)
	}
	return watched
}

func (r *Resources) release(user types.NamespacedName) {
	resource, tracked := r.users[user]
	if !tracked {
		return
	}
	delete(r.users, user)
	watch := r.watches[resource]
	if watch.users--; watch.users == 0 {
		watch.stop()
		delete(r.watches, resource)
	}
}

func (r *Resources) start(resource schema.GroupVersionResource) *kindWatch {
	ctx, stop := context.WithCancel(r.ctx)
	informer := metadatainformer.NewFilteredMetadataInformer(r.client, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	// Neither can fail: the informer has not been started.
	_ = informer.SetTransform(identityOnly)
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, initial bool) { r.tell(resource, object, initial) },
		UpdateFunc: func(_, object any) { r.tell(resource, object, false) },
		DeleteFunc: func(object any) { r.tell(resource, object, false) },
	})
	go informer.RunWithContext(ctx)
	return &kindWatch{informer: informer, stop: stop}
}

func (r *Resources) tell(resource schema.GroupVersionResource, object any, initial bool) {
	key, err := cache.DeletionHandlingObjectToName(object)
	if err != nil {
		return
	}
	r.notify(resource, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, initial)
}

// identityOnly drops all that is not needed to see that an object changed.
func identityOnly(object any) (any, error) {
	if full, ok := object.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion,
		}}, nil
	}
	return object, nil
}
