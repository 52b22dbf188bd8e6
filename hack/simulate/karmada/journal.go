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

package karmada

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is a change of an object: old is nil when it was created, fresh is nil when it
// was deleted.
type change[T client.Object] struct {
	old, fresh T
}

func (c change[T]) created() bool { return isNil(c.old) }
func (c change[T]) deleted() bool { return isNil(c.fresh) }

// object is the object after the change, or before it if it was deleted.
func (c change[T]) object() T {
	if c.deleted() {
		return c.old
	}
	return c.fresh
}

func isNil[T client.Object](object T) bool {
	var none T
	return any(object) == any(none)
}

func keyOf(object client.Object) types.NamespacedName { return client.ObjectKeyFromObject(object) }

// journal lists the changes of all objects of a kind on the API server, in their
// order. Views follow it, each as far as it has come.
type journal[T client.Object] struct {
	list func(context.Context) ([]T, error)
	// resources are those of the kind, and revision is theirs when they were listed last.
	resources []string
	revision  int64
	key       func(T) types.NamespacedName
	now       map[types.NamespacedName]T
	changes   []change[T]
	// dropped is how many changes everybody has seen, so that they were dropped.
	dropped int
	views   []*view[T]
}

func newJournal[T client.Object](list func(context.Context) ([]T, error), resources ...string) *journal[T] {
	return &journal[T]{list: list, resources: resources, revision: -1, key: func(object T) types.NamespacedName { return keyOf(object) }, now: map[types.NamespacedName]T{}}
}

// update adds what has changed since the last call. Between two calls, an object may
// have changed several times; that counts as one change. If the revision is known and has
// not changed, nothing is listed.
func (j *journal[T]) update(ctx context.Context, revisionOf func(resource string) int64) error {
	if revisionOf != nil {
		revision := int64(0)
		for _, resource := range j.resources {
			revision += revisionOf(resource)
		}
		if revision == j.revision {
			return nil
		}
		j.revision = revision
	}
	objects, err := j.list(ctx)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		objects, err = nil, nil // the kind is not served
	}
	if err != nil {
		return err
	}
	found := make(map[types.NamespacedName]T, len(objects))
	for _, object := range objects {
		found[j.key(object)] = object
	}
	var none T
	for _, k := range sortedKeys(j.now) {
		if object, ok := found[k]; !ok || object.GetUID() != j.now[k].GetUID() {
			j.changes = append(j.changes, change[T]{old: j.now[k], fresh: none})
			delete(j.now, k)
		}
	}
	slices.SortFunc(objects, j.byVersion)
	for _, object := range objects {
		if had := j.now[j.key(object)]; isNil(had) || had.GetResourceVersion() != object.GetResourceVersion() {
			j.changes = append(j.changes, change[T]{old: had, fresh: object})
		}
	}
	j.now = found
	j.drop()
	return nil
}

// byVersion sorts objects by the time of their last change.
func (j *journal[T]) byVersion(a, b T) int {
	return cmp.Or(cmp.Compare(version(a), version(b)), cmp.Compare(j.key(a).String(), j.key(b).String()))
}

func version(object client.Object) int64 {
	number, _ := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	return number
}

// drop forgets changes that every view has seen.
func (j *journal[T]) drop() {
	seen := j.dropped + len(j.changes)
	for _, v := range j.views {
		seen = min(seen, v.seen)
	}
	j.changes = slices.Clone(j.changes[seen-j.dropped:])
	j.dropped = seen
}

// view is what one process knows of the objects of a kind: the cache of an informer.
type view[T client.Object] struct {
	name    string
	journal *journal[T]
	seen    int
	objects map[types.NamespacedName]T
	// wants, if set, selects what the process watches.
	wants func(T) bool
	// cut, if set, reports that the process cannot watch now.
	cut func() bool
	// handlers are told of each change, after the view shows it.
	handlers []func(change[T])
}

func newView[T client.Object](name string, j *journal[T]) *view[T] {
	v := &view[T]{name: name, journal: j, objects: map[types.NamespacedName]T{}}
	j.views = append(j.views, v)
	return v
}

// leave ends a view.
func (v *view[T]) leave() {
	v.journal.views = slices.DeleteFunc(v.journal.views, func(other *view[T]) bool { return other == v })
}

// start fills the view with the present state, as the initial list of an informer
// does. Call it once, when all handlers are there.
func (v *view[T]) start() {
	v.seen = v.journal.dropped + len(v.journal.changes)
	var initial []change[T]
	for _, k := range sortedKeys(v.journal.now) {
		if object := v.journal.now[k]; v.wants == nil || v.wants(object) {
			v.objects[k] = object
			initial = append(initial, change[T]{fresh: object})
		}
	}
	for _, c := range initial {
		v.tell(c)
	}
}

func (v *view[T]) tell(c change[T]) {
	for _, handle := range v.handlers {
		handle(c)
	}
}

// next returns the next change that concerns the view.
func (v *view[T]) next() (c change[T], ok bool) {
	if v.cut != nil && v.cut() {
		return c, false
	}
	for v.seen-v.journal.dropped < len(v.journal.changes) {
		c = v.journal.changes[v.seen-v.journal.dropped]
		if v.wants == nil || v.wants(c.object()) {
			return c, true
		}
		v.seen++
	}
	return c, false
}

// actions offers to see the next change.
func (v *view[T]) actions() []Action {
	c, ok := v.next()
	if !ok {
		return nil
	}
	return []Action{{Name: fmt.Sprintf("%s sees %s", v.name, describe(c)), Do: func(context.Context) error { v.see(); return nil }}}
}

// see takes the next change in.
func (v *view[T]) see() {
	c, ok := v.next()
	if !ok {
		return
	}
	v.seen++
	if c.deleted() {
		delete(v.objects, v.journal.key(c.old))
	} else {
		v.objects[v.journal.key(c.fresh)] = c.fresh
	}
	v.tell(c)
}

// get returns a copy of an object, or a NotFound error, as a cached client does.
func (v *view[T]) get(k types.NamespacedName, resource string) (T, error) {
	object, ok := v.objects[k]
	if !ok {
		return object, notFound(resource, k.Name)
	}
	duplicate, _ := object.DeepCopyObject().(T)
	return duplicate, nil
}

// all returns the objects of the view, sorted. They must not be changed.
func (v *view[T]) all() []T {
	objects := make([]T, 0, len(v.objects))
	for _, k := range sortedKeys(v.objects) {
		objects = append(objects, v.objects[k])
	}
	return objects
}

func describe[T client.Object](c change[T]) string {
	verb := "change"
	switch {
	case c.created():
		verb = "creation"
	case c.deleted():
		verb = "end"
	}
	kind := c.object().GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = fmt.Sprintf("%T", c.object())
		kind = kind[strings.LastIndex(kind, ".")+1:]
	}
	return fmt.Sprintf("the %s of %s %s", verb, kind, keyOf(c.object()))
}
