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

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// seen is a state of a Work in the watch.
type seen struct {
	key        types.NamespacedName
	generation int64
	deleting   bool
	gone       bool
}

// watcher watches Works and DirectPropagations. It watches only the metadata of
// Works, in the same way for every contender.
type watcher struct {
	works, propagations cache.SharedIndexInformer

	mu      sync.Mutex
	finish  *finish
	objects map[types.NamespacedName]*objectSeen
}

// objectSeen summarizes the observed updates of a DirectPropagation.
type objectSeen struct {
	writes int // updates that the watch showed
	ready  bool
	at     time.Time // time of the last update
	first  time.Time // time of the first update
	// known is, by revision, when the rows of all clusters first said that they have it.
	known map[string]time.Time
}

func newWatcher(ctx context.Context, g *ground) (*watcher, error) {
	w := &watcher{objects: map[types.NamespacedName]*objectSeen{}}
	metadataClient, err := metadata.NewForConfigAndClient(g.config, g.http)
	if err != nil {
		return nil, fmt.Errorf("creating a metadata client: %w", err)
	}
	works := schema.GroupVersionResource{Group: workv1alpha1.GroupVersion.Group, Version: workv1alpha1.GroupVersion.Version, Resource: "works"}
	w.works = metadatainformer.NewFilteredMetadataInformer(metadataClient, works, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	w.propagations = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &propagationv1alpha1.DirectPropagationList{}
			return list, g.client.List(ctx, list, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return g.client.Watch(ctx, &propagationv1alpha1.DirectPropagationList{}, &client.ListOptions{Raw: &options})
		},
	}, &propagationv1alpha1.DirectPropagation{}, 0, cache.Indexers{})
	_, failedWorks := w.works.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.see(object, false) },
		UpdateFunc: func(_, object any) { w.see(object, false) },
		DeleteFunc: func(object any) { w.see(object, true) },
	})
	_, failedObjects := w.propagations.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) { w.seeObject(object) },
	})
	if err := errors.Join(failedWorks, failedObjects); err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	go w.works.RunWithContext(ctx)
	go w.propagations.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), w.works.HasSynced, w.propagations.HasSynced) {
		return nil, errors.New("watching Works and DirectPropagations: interrupted")
	}
	return w, nil
}

func (w *watcher) see(object any, gone bool) {
	at := time.Now()
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	work, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finish != nil {
		w.finish.take(seen{
			key: client.ObjectKeyFromObject(work), generation: work.Generation,
			deleting: work.DeletionTimestamp != nil, gone: gone,
		}, at)
	}
}

func (w *watcher) seeObject(object any) {
	propagation, ok := object.(*propagationv1alpha1.DirectPropagation)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(propagation)
	state := w.objects[key]
	if state == nil {
		state = &objectSeen{first: time.Now(), known: map[string]time.Time{}}
		w.objects[key] = state
	}
	status := &propagation.Status
	state.writes++
	state.at = time.Now()
	state.ready = meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionReady) &&
		status.ObservedGeneration != nil && *status.ObservedGeneration == propagation.Generation
	if revision := revisionOfAll(propagation); revision != "" && state.known[revision].IsZero() {
		state.known[revision] = state.at
	}
}

// revisionOfAll is the revision that all clusters of an object have applied; empty if there
// is none.
func revisionOfAll(propagation *propagationv1alpha1.DirectPropagation) string {
	rows := propagation.Status.Clusters
	if len(rows) == 0 || len(rows) != len(propagation.Spec.Clusters) {
		return ""
	}
	for i := range rows {
		if rows[i].Applied != metav1.ConditionTrue || rows[i].Revision != rows[0].Revision {
			return ""
		}
	}
	return rows[0].Revision
}

// forgetObjects resets the observations of objects.
func (w *watcher) forgetObjects() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects = map[types.NamespacedName]*objectSeen{}
}

// object returns what was observed about an object since then.
func (w *watcher) object(key types.NamespacedName) objectSeen {
	w.mu.Lock()
	defer w.mu.Unlock()
	if state := w.objects[key]; state != nil {
		copied := *state
		copied.known = maps.Clone(state.known)
		return copied
	}
	return objectSeen{}
}

// generations returns the current generations of Works.
func (w *watcher) generations(keys map[types.NamespacedName]int) map[types.NamespacedName]int64 {
	generations := make(map[types.NamespacedName]int64, len(keys))
	for key := range keys {
		if work := w.work(key); work != nil {
			generations[key] = work.Generation
		}
	}
	return generations
}

// work returns the metadata of a Work, or nil if there is none.
func (w *watcher) work(key types.NamespacedName) *metav1.PartialObjectMetadata {
	object, _, _ := w.works.GetStore().GetByKey(cache.NewObjectName(key.Namespace, key.Name).String())
	work, _ := object.(*metav1.PartialObjectMetadata)
	return work
}

// finish is the line that the Works of a load must cross.
type finish struct {
	pending map[types.NamespacedName]int // the index of each Work's object
	crossed func(seen) bool
	last    []time.Time // by object, when its last Work crossed
	left    []int       // by object, how many Works are left to cross
	done    chan struct{}
}

// await sets the line. There is one line at a time.
func (w *watcher) await(keys map[types.NamespacedName]int, objects int, crossed func(seen) bool) *finish {
	f := &finish{
		pending: make(map[types.NamespacedName]int, len(keys)), crossed: crossed,
		last: make([]time.Time, objects), left: make([]int, objects), done: make(chan struct{}),
	}
	for key, object := range keys {
		f.pending[key] = object
		f.left[object]++
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish = f
	return f
}

// take must be called with the watcher's lock held.
func (f *finish) take(work seen, at time.Time) {
	object, awaited := f.pending[work.key]
	if !awaited || !f.crossed(work) {
		return
	}
	delete(f.pending, work.key)
	f.last[object] = at
	f.left[object]--
	if len(f.pending) == 0 {
		close(f.done)
	}
}

// wait waits until the last Work has crossed the line, and returns the time of that.
func (w *watcher) wait(ctx context.Context, f *finish) (time.Time, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	case <-time.After(longPatience):
		w.mu.Lock()
		defer w.mu.Unlock()
		for key := range f.pending {
			return time.Time{}, fmt.Errorf("%d Works are not written after %v, for example %s", len(f.pending), longPatience, key)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last := time.Time{}
	for _, at := range f.last {
		if at.After(last) {
			last = at
		}
	}
	return last, nil
}
