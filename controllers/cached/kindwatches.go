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
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	// watchGrace is how long a watch may fail before the users of its kind are
	// woken. If one of several API servers stops, the next attempt succeeds.
	watchGrace = 5 * time.Second
	// watchRecovery is how long the store of a watch is not trusted after the watch
	// has recovered: the events have to arrive first.
	watchRecovery = time.Second
)

// Watches watches the metadata of the kinds that propagation objects name, as long
// as an object names them. A watch takes a few hundred bytes per object of the kind,
// whatever the objects contain.
type Watches struct {
	client metadata.Interface
	notify Notification
	// wake is called for each user of a kind when its watch fails, and when it works
	// again.
	wake func(resource schema.GroupVersionResource, user types.NamespacedName)

	clock clock.PassiveClock

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the life of the watches, not of a call
	watches map[schema.GroupVersionResource]*kindWatch
	// users is the kind that each propagation object names.
	users map[types.NamespacedName]schema.GroupVersionResource
}

// Notification is called when an object of a watched kind appears, changes or
// disappears. initial means that the watch has only listed the object, which may not
// have changed.
type Notification func(resource schema.GroupVersionResource, key types.NamespacedName, initial bool)

type kindWatch struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	users    int
	// failure is why the watch shows nothing; nil while it works.
	failure *WatchError
	// failures is how often the watch has begun to fail.
	failures int
	// told: the users have been woken because of the failure.
	told bool
	// recovered is when the last failure ended; the zero time for never.
	recovered time.Time
}

// WatchError is why a kind cannot be watched.
type WatchError struct {
	// Verb is what the API server was asked for: list or watch.
	Verb string
	Err  error
}

func (f *WatchError) Error() string { return f.Verb + ": " + f.Err.Error() }

func (f *WatchError) Unwrap() error { return f.Err }

// NewWatches returns Watches that watch nothing yet. Watches end with ctx at the
// latest.
func NewWatches(ctx context.Context, client metadata.Interface, notify Notification, wake func(schema.GroupVersionResource, types.NamespacedName)) *Watches {
	return &Watches{
		client: client, notify: notify, wake: wake, clock: clock.RealClock{}, ctx: ctx,
		watches: map[schema.GroupVersionResource]*kindWatch{},
		users:   map[types.NamespacedName]schema.GroupVersionResource{},
	}
}

// Track ensures that the kind that a propagation object names is watched.
func (r *Watches) Track(user types.NamespacedName, resource schema.GroupVersionResource) {
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

// Forget stops tracking for a propagation object, and ends the watch of its kind if
// no other object names it.
func (r *Watches) Forget(user types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(user)
}

// Unchanged reports whether the watch shows the same version of an object as when it
// was read. It is false if the watch cannot tell.
func (r *Watches) Unchanged(resource schema.GroupVersionResource, namespace, name string, uid types.UID, version string) bool {
	r.mu.Lock()
	watch := r.watches[resource]
	believed := watch != nil && watch.failure == nil && r.clock.Since(watch.recovered) > watchRecovery
	r.mu.Unlock()
	if !believed || !watch.informer.HasSynced() {
		// The store of a failed watch is not updated.
		return false
	}
	object, exists, err := watch.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !exists {
		return false
	}
	metadata, ok := object.(*metav1.PartialObjectMetadata)
	return ok && metadata.UID == uid && metadata.ResourceVersion == version
}

// Shows reports whether the watch has ever shown an object that has not been seen to disappear
// since. It tells nothing of the end of any other object.
func (r *Watches) Shows(resource schema.GroupVersionResource, namespace, name string) bool {
	r.mu.Lock()
	watch := r.watches[resource]
	r.mu.Unlock()
	if watch == nil {
		return false
	}
	_, exists, err := watch.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	return err == nil && exists
}

// Failure returns why a kind cannot be watched; nil if it can, or if that is not
// known yet. A failure that does not last, as during the start of an API server, is
// never returned: when it ends, only those who were woken because of it are woken.
func (r *Watches) Failure(resource schema.GroupVersionResource) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if watch := r.watches[resource]; watch != nil && watch.told {
		return watch.failure
	}
	return nil
}

// Watched returns the kinds that are watched now.
func (r *Watches) Watched() []schema.GroupVersionResource {
	r.mu.Lock()
	defer r.mu.Unlock()
	watched := make([]schema.GroupVersionResource, 0, len(r.watches))
	for resource := range r.watches {
		watched = append(watched, resource)
	}
	return watched
}

func (r *Watches) release(user types.NamespacedName) {
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

func (r *Watches) start(resource schema.GroupVersionResource) *kindWatch {
	ctx, stop := context.WithCancel(r.ctx)
	started := &kindWatch{stop: stop}
	started.informer = cache.NewSharedIndexInformer(r.listWatch(resource, started), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	// Neither can fail: the informer has not been started.
	_ = started.informer.SetTransform(identityOnly)
	_, _ = started.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, initial bool) { r.tell(resource, object, initial) },
		UpdateFunc: func(_, object any) { r.tell(resource, object, false) },
		DeleteFunc: func(object any) { r.tell(resource, object, false) },
	})
	go started.informer.RunWithContext(ctx)
	return started
}

// listWatch lists and watches a kind, and observes whether that succeeds. A
// reflector keeps its store when its requests fail: without this check, objects that
// cannot be seen would count as unchanged.
func (r *Watches) listWatch(resource schema.GroupVersionResource, kind *kindWatch) cache.ListerWatcher {
	objects := r.client.Resource(resource)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := objects.List(ctx, options)
			if err != nil {
				r.failed(ctx, resource, kind, "list", err)
			}
			return list, err //nolint:wrapcheck // the reflector tells errors apart
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			streams := ptr.Deref(options.SendInitialEvents, false)
			if streams && r.isFailing(kind) {
				// A streaming watch has succeeded long before its store is filled.
				// After a failure, the reflector lists instead.
				return nil, apierrors.NewMethodNotSupported(resource.GroupResource(), "watch-list")
			}
			started, err := objects.Watch(ctx, options)
			switch {
			case err != nil:
				r.failed(ctx, resource, kind, "watch", err)
			case !streams:
				r.works(resource, kind)
			}
			return started, err //nolint:wrapcheck // the reflector tells errors apart
		},
	}, r.client)
}

func (r *Watches) isFailing(kind *kindWatch) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return kind.failure != nil
}

// failed records that a kind cannot be watched. Its users are woken if that lasts.
func (r *Watches) failed(ctx context.Context, resource schema.GroupVersionResource, kind *kindWatch, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first := kind.failure == nil
	kind.failure = &WatchError{Verb: verb, Err: err}
	if first {
		kind.failures++
		failure := kind.failures
		time.AfterFunc(watchGrace, func() { r.announce(resource, kind, failure) })
	}
}

// announce wakes the users of a kind whose watch has failed since a failure began.
func (r *Watches) announce(resource schema.GroupVersionResource, kind *kindWatch, failure int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind.failure != nil && kind.failures == failure {
		kind.told = true
		r.wakeUsers(resource, kind)
	}
}

// works records that a kind is watched, and wakes its users if they were told that
// it was not.
func (r *Watches) works(resource schema.GroupVersionResource, kind *kindWatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind.failure == nil {
		return
	}
	kind.failure, kind.recovered = nil, r.clock.Now()
	if kind.told {
		kind.told = false
		r.wakeUsers(resource, kind)
	}
}

func (r *Watches) wakeUsers(resource schema.GroupVersionResource, kind *kindWatch) {
	if r.watches[resource] != kind {
		return
	}
	for user, tracked := range r.users {
		if tracked == resource {
			r.wake(resource, user)
		}
	}
}

func (r *Watches) tell(resource schema.GroupVersionResource, object any, initial bool) {
	key, err := cache.DeletionHandlingObjectToName(object)
	if err != nil {
		return
	}
	r.notify(resource, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, initial)
}

// identityOnly drops everything that is not needed to see that an object has
// changed.
func identityOnly(object any) (any, error) {
	if full, ok := object.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion,
		}}, nil
	}
	return object, nil
}
