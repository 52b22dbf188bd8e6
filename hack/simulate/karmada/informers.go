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
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// memberInformers is what a process caches of one member: genericmanager's
// SingleClusterInformerManager.
type memberInformers struct {
	p       *process
	cluster string
	kinds   map[schema.GroupVersionKind]*informer
}

// informer is the cache of one kind of one member.
type informer struct {
	kind schema.GroupVersionKind
	// listed reports that the cache holds the initial list. synced reports that the
	// work status controller has found that out, only after which anybody reads it.
	listed, synced bool
	objects        map[Key]*unstructured.Unstructured
	// seen is how many of the member's events the cache has taken in.
	seen int
}

// informersOf returns the caches of a cluster, and makes them if there are none.
func (p *process) informersOf(cluster string) *memberInformers {
	if p.informers[cluster] == nil {
		p.informers[cluster] = &memberInformers{p: p, cluster: cluster, kinds: map[schema.GroupVersionKind]*informer{}}
	}
	return p.informers[cluster]
}

// of returns the informer of a kind, and starts it if there is none.
func (i *memberInformers) of(kind schema.GroupVersionKind) *informer {
	if i.kinds[kind] == nil {
		i.kinds[kind] = &informer{kind: kind, objects: map[Key]*unstructured.Unstructured{}}
	}
	return i.kinds[kind]
}

// actions offers what informers can see now.
func (i *memberInformers) actions() []Action {
	member, err := i.p.member(i.cluster, "Get")
	if err != nil {
		return nil
	}
	var actions []Action
	for _, kind := range sortedKinds(i.kinds) {
		inf := i.kinds[kind]
		name := fmt.Sprintf("%s/informer %s %s", i.p.name, i.cluster, kindName(kind))
		if !inf.listed {
			if member.Serves(kind) {
				actions = append(actions, Action{Name: name + ": lists", Do: func(context.Context) error { i.list(inf, member); return nil }})
			}
			continue
		}
		if event, ok := inf.next(member); ok {
			actions = append(actions, Action{
				Name: fmt.Sprintf("%s: sees a change of %s/%s", name, event.key.Namespace, event.key.Name),
				Do:   func(context.Context) error { i.see(inf, event); return nil },
			})
		}
	}
	return actions
}

func sortedKinds[V any](from map[schema.GroupVersionKind]V) []schema.GroupVersionKind {
	return sorted(slices.Collect(maps.Keys(from)))
}

// list takes all objects of the kind in.
func (i *memberInformers) list(inf *informer, member *Member) {
	inf.listed, inf.seen = true, len(member.events)
	for _, k := range sortedKeys(member.objects) {
		if k.GroupVersionKind == inf.kind {
			inf.objects[k] = member.objects[k]
			i.p.enqueueStatus(member.objects[k])
		}
	}
}

// next returns the next event of the kind.
func (inf *informer) next(member *Member) (memberEvent, bool) {
	for ; inf.seen < len(member.events); inf.seen++ {
		if event := member.events[inf.seen]; event.key.GroupVersionKind == inf.kind {
			return event, true
		}
	}
	return memberEvent{}, false
}

// see takes one event in.
func (i *memberInformers) see(inf *informer, event memberEvent) {
	inf.seen++
	if event.fresh == nil {
		delete(inf.objects, event.key)
		delete(i.p.karmada.members[i.cluster].unnoticed, event.key)
		i.p.enqueueStatus(event.old)
		return
	}
	inf.objects[event.key] = event.fresh
	i.p.enqueueStatus(event.fresh)
}

// cached returns an object of a member as the process knows it, see
// helper.GetObjectFromCache: from the cache, or from the member while the cache is not
// in use.
func (p *process) cached(cluster string, k Key) (*unstructured.Unstructured, error) {
	if err := p.mapped(k.GroupVersionKind); err != nil {
		return nil, err
	}
	informers := p.informers[cluster]
	if informers == nil {
		return nil, fmt.Errorf("the informer of cluster(%s) has not been initialized", cluster)
	}
	inf := informers.kinds[k.GroupVersionKind]
	if inf == nil || !inf.synced {
		member, err := p.member(cluster, "Get")
		if err != nil {
			return nil, err
		}
		return member.get(k)
	}
	object, ok := inf.objects[k]
	if !ok {
		return nil, apierrors.NewNotFound(p.karmada.resourceOf(cluster, k.GroupVersionKind), k.Name)
	}
	return object.DeepCopy(), nil
}
