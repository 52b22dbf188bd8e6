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

package testbed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Sighting is one state of an object and the time at which the watch reported it.
type Sighting struct {
	At     time.Time
	Object client.Object
	// Gone means that the object was deleted. Object is then its last state.
	Gone bool
	// Listed means that no watch has reported this state, so earlier ones may be missing.
	Listed bool
}

// Recorder records everything that a watch reports about the objects of a kind:
// every state that the API server stores. It survives a restart of the API server.
// If a watch cannot resume where it ended, the recorder lists the objects. It then
// misses states in between, and records that as well.
type Recorder struct {
	kind client.ObjectList
	// where is a client of the control plane that has the objects.
	where client.WithWatch
	bed   *Bed

	mu      sync.Mutex
	all     []Sighting
	objects map[client.ObjectKey]*record
	changed chan struct{} // closed and replaced whenever a state is recorded
	missed  error
}

// record is what was recorded about one object.
type record struct {
	sightings []Sighting
	readers   []chan<- client.Object
}

func (r *record) now() client.Object {
	if r == nil || len(r.sightings) == 0 || r.sightings[len(r.sightings)-1].Gone {
		return nil
	}
	return r.sightings[len(r.sightings)-1].Object
}

// Record records a kind on the Karmada API server until the tests are over. It returns
// when all existing objects are recorded.
func (b *Bed) Record(ctx context.Context, kind client.ObjectList) (*Recorder, error) {
	return b.RecordOn(context.WithoutCancel(ctx), b.Karmada, kind)
}

// RecordOn is Record for any control plane. The recorder ends with ctx.
func (b *Bed) RecordOn(ctx context.Context, where client.WithWatch, kind client.ObjectList) (*Recorder, error) {
	r := &Recorder{kind: kind, where: where, bed: b, objects: map[client.ObjectKey]*record{}, changed: make(chan struct{})}
	version, _, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	go r.run(ctx, version)
	return r, nil
}

func (r *Recorder) run(ctx context.Context, version string) {
	for ctx.Err() == nil {
		if version != "" {
			version = r.watch(ctx, version)
		} else {
			version = r.catchUp(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(Glance):
		}
	}
}

// watch records events until the connection ends. It returns the resource version to
// resume from, or an empty string if only a list can help.
func (r *Recorder) watch(ctx context.Context, version string) string {
	watching, err := r.where.Watch(ctx, r.empty(), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return ""
		}
		return version // the server is unreachable at the moment
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		object, ok := event.Object.(client.Object)
		if !ok || event.Type == watch.Error {
			// A server whose cache lags refuses a watch before its first event.
			if apierrors.IsTimeout(apierrors.FromObject(event.Object)) {
				return version
			}
			return ""
		}
		version = object.GetResourceVersion()
		r.note(Sighting{Object: object, Gone: event.Type == watch.Deleted})
	}
	return version
}

// catchUp lists what a watch did not report.
func (r *Recorder) catchUp(ctx context.Context) string {
	version, found, err := r.list(ctx)
	if err != nil {
		return "" // until the API server responds again
	}
	if found > 0 {
		r.mu.Lock()
		r.missed = fmt.Errorf("the watch of %T has missed states: the list contains %d changes", r.kind, found)
		r.mu.Unlock()
	}
	return version
}

func (r *Recorder) empty() client.ObjectList {
	list, _ := r.kind.DeepCopyObject().(client.ObjectList)
	return list
}

// list records what has changed since the last record, and counts the changes.
func (r *Recorder) list(ctx context.Context) (version string, found int, err error) {
	list := r.empty()
	if err := r.where.List(ctx, list); err != nil {
		return "", 0, fmt.Errorf("listing the objects to record: %w", err)
	}
	there := map[client.ObjectKey]bool{}
	for _, object := range ItemsOf(list) {
		key := client.ObjectKeyFromObject(object)
		there[key] = true
		if known := r.Latest(key); known == nil || known.GetResourceVersion() != object.GetResourceVersion() {
			r.note(Sighting{Object: object, Listed: true})
			found++
		}
	}
	for _, object := range r.All() {
		if !there[client.ObjectKeyFromObject(object)] {
			r.note(Sighting{Object: object, Gone: true, Listed: true})
			found++
		}
	}
	return list.GetResourceVersion(), found, nil
}

func (r *Recorder) note(sighting Sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sighting.At = time.Now()
	sighting.Object.SetManagedFields(nil)
	r.all = append(r.all, sighting)
	about := r.about(client.ObjectKeyFromObject(sighting.Object))
	about.sightings = append(about.sightings, sighting)
	if !sighting.Gone {
		for _, reader := range about.readers {
			reader <- sighting.Object
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// about returns the record of an object. The caller must hold the lock.
func (r *Recorder) about(key client.ObjectKey) *record {
	if r.objects[key] == nil {
		r.objects[key] = &record{}
	}
	return r.objects[key]
}

// All returns the latest state of all existing objects.
func (r *Recorder) All() []client.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	objects := []client.Object{}
	for _, about := range r.objects {
		if object := about.now(); object != nil {
			objects = append(objects, object)
		}
	}
	return objects
}

// Latest returns the latest state of an object, or nil if it does not exist.
func (r *Recorder) Latest(key client.ObjectKey) client.Object {
	object, _ := r.state(key)
	return object
}

// state is Latest with a channel that is closed at the next change of any object.
func (r *Recorder) state(key client.ObjectKey) (client.Object, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[key].now(), r.changed
}

// Since returns the sightings of all objects since a moment.
func (r *Recorder) Since(moment time.Time) []Sighting {
	r.mu.Lock()
	defer r.mu.Unlock()
	return since(r.all, moment)
}

// Of returns the sightings of one object since a moment.
func (r *Recorder) Of(key client.ObjectKey, moment time.Time) []Sighting {
	sightings, _ := r.of(key, moment)
	return sightings
}

func (r *Recorder) of(key client.ObjectKey, moment time.Time) ([]Sighting, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if about := r.objects[key]; about != nil {
		return since(about.sightings, moment), r.changed
	}
	return nil, r.changed
}

func since(sightings []Sighting, moment time.Time) []Sighting {
	later := []Sighting{}
	for _, sighting := range sightings {
		if !sighting.At.Before(moment) {
			later = append(later, sighting)
		}
	}
	return later
}

// fault returns the reason why waiting any longer is pointless, if there is one.
func (r *Recorder) fault() error {
	if !r.bed.Options.Unbroken {
		return r.bed.controllerFault()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.missed, r.bed.controllerFault())
}

// Await waits for the first sighting of an object since a moment for which check
// returns nil, for at most limit. The error contains the last error of check.
func (r *Recorder) Await(ctx context.Context, key client.ObjectKey, moment time.Time, limit time.Duration, check func(Sighting) error) (Sighting, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last, checked := fmt.Errorf("no state of %s was recorded", key), 0
	for {
		sightings, changed := r.of(key, moment)
		for _, sighting := range sightings[checked:] {
			if last = check(sighting); last == nil {
				return sighting, nil
			}
		}
		checked = len(sightings)
		if err := r.fault(); err != nil {
			return Sighting{}, errors.Join(err, last)
		}
		select {
		case <-changed:
		case <-time.After(time.Second): // check that the controller is still running
		case <-ctx.Done():
			return Sighting{}, fmt.Errorf("waited %v: %w", limit, last)
		}
	}
}

// OnEach calls a function with every state of an object in order, both recorded and
// future ones, until stop is called. The function runs in its own goroutine: it
// should only record, and the test judges the record later.
func (r *Recorder) OnEach(key client.ObjectKey, see func(client.Object)) (stop func()) {
	const plenty = 10000 // the watch must not wait for the reader
	states := make(chan client.Object, plenty)
	r.mu.Lock()
	defer r.mu.Unlock()
	about := r.about(key)
	for _, sighting := range about.sightings {
		if !sighting.Gone {
			states <- sighting.Object
		}
	}
	about.readers = append(about.readers, states)
	go func() {
		for state := range states {
			see(state)
		}
	}()
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		about.readers = slices.DeleteFunc(about.readers, func(reader chan<- client.Object) bool { return reader == states })
		close(states)
	})
}

// ItemsOf returns the objects of a list.
func ItemsOf(list client.ObjectList) []client.Object {
	extracted, err := meta.ExtractList(list)
	if err != nil {
		panic(err) // a list of anything but objects is a mistake in the test
	}
	items := make([]client.Object, 0, len(extracted))
	for _, item := range extracted {
		object, _ := item.(client.Object)
		items = append(items, object)
	}
	return items
}
