//go:build faults

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

package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// seen is one state of an object, and when the watch showed it.
type seen struct {
	At     time.Time
	Object client.Object
	// Gone: the object was deleted; Object is its last state.
	Gone bool
}

// chronicle is all that a watch shows of the objects of a kind. It outlives
// the API server: what happened while it could not be watched is found by
// listing.
type chronicle struct {
	kind client.ObjectList

	mu      sync.Mutex
	all     []seen
	latest  map[client.ObjectKey]client.Object
	changed chan struct{} // closed, and replaced, whenever something is seen
}

// follow begins a chronicle and returns when it has seen what there is.
func follow(ctx context.Context, kind client.ObjectList) (*chronicle, error) {
	c := &chronicle{kind: kind, latest: map[client.ObjectKey]client.Object{}, changed: make(chan struct{})}
	version, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	go c.run(ctx, version)
	return c, nil
}

func (c *chronicle) run(ctx context.Context, version string) {
	for {
		if c.watch(ctx, version) != nil || ctx.Err() != nil {
			return
		}
		for version = ""; version == ""; {
			version, _ = c.list(ctx) // until the API server answers again
			select {
			case <-ctx.Done():
				return
			case <-time.After(glance):
			}
		}
	}
}

// watch notes what it is shown until the connection ends. A server that cannot
// be reached is no error: it is listed again.
func (c *chronicle) watch(ctx context.Context, version string) error {
	watching, err := karmada.Watch(ctx, c.empty(), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		return ctx.Err()
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		object, ok := event.Object.(client.Object)
		if !ok {
			return nil
		}
		c.note(object, event.Type == watch.Deleted)
	}
	return ctx.Err()
}

func (c *chronicle) empty() client.ObjectList {
	list, _ := c.kind.DeepCopyObject().(client.ObjectList)
	return list
}

// list notes what has changed since the last look.
func (c *chronicle) list(ctx context.Context) (version string, err error) {
	list := c.empty()
	if err := karmada.List(ctx, list); err != nil {
		return "", fmt.Errorf("listing: %w", err)
	}
	there := map[client.ObjectKey]bool{}
	for _, object := range itemsOf(list) {
		key := client.ObjectKeyFromObject(object)
		there[key] = true
		if known := c.now(key); known == nil || known.GetResourceVersion() != object.GetResourceVersion() {
			c.note(object, false)
		}
	}
	c.mu.Lock()
	gone := []client.Object{}
	for key, object := range c.latest {
		if !there[key] {
			gone = append(gone, object)
		}
	}
	c.mu.Unlock()
	for _, object := range gone {
		c.note(object, true)
	}
	return list.GetResourceVersion(), nil
}

func (c *chronicle) note(object client.Object, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	object.SetManagedFields(nil)
	c.all = append(c.all, seen{At: time.Now(), Object: object, Gone: gone})
	key := client.ObjectKeyFromObject(object)
	if gone {
		delete(c.latest, key)
	} else {
		c.latest[key] = object
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// now is an object as it was seen last; nil when there is none.
func (c *chronicle) now(key client.ObjectKey) client.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest[key]
}

// since returns what was seen since a moment.
func (c *chronicle) since(moment time.Time) []seen {
	events, _ := c.from(0, moment)
	return events
}

// from returns what was seen since a moment, from an index on, and a channel
// that is closed when there is more.
func (c *chronicle) from(index int, moment time.Time) ([]seen, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	events := []seen{}
	for _, event := range c.all[index:] {
		if !event.At.Before(moment) {
			events = append(events, event)
		}
	}
	return events, c.changed
}

func (c *chronicle) length() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// errElsewhere is what a check says of an object that it does not look for.
var errElsewhere = errors.New("nothing was seen of it")

// await returns the first thing seen since a moment that check has nothing to
// complain of, or its last complaint of what it looks for. It does not wait for a
// controller that is not there any more.
func (c *chronicle) await(ctx context.Context, moment time.Time, limit time.Duration, check func(seen) error) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	complaint, index := errElsewhere, 0
	for {
		length := c.length()
		events, changed := c.from(index, moment)
		index = length
		for _, event := range events {
			err := check(event)
			if err == nil {
				return event, nil
			}
			if !errors.Is(err, errElsewhere) {
				complaint = err
			}
		}
		if err := manager.fault(); err != nil {
			return seen{}, fmt.Errorf("%w: %w", err, complaint)
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return seen{}, fmt.Errorf("waited %v: %w", limit, complaint)
		}
	}
}
