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

	"github.com/karmada-io/karmada/pkg/util/names"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Lookup returns the cached objects that have a key. They are not copies: copy an
// object before changing it.
type Lookup func(key string) ([]client.Object, error)

// indexKeys is the name of the only index of each kind.
const indexKeys = "karmada-direct-keys"

// NewLookup indexes the objects of a kind in a cache by their keys. The field
// indexes of controller-runtime would work too, but they store each key twice: for
// all namespaces and for the namespace of the object. With a namespace for each
// cluster, that is 1 KiB per Work, more than a third of its size.
func NewLookup(ctx context.Context, from cache.Cache, object client.Object, keys func(client.Object) []string) (Lookup, error) {
	informer, err := from.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("making an informer of %T: %w", object, err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("the cache of %T is a %T, which cannot be asked by index", object, informer)
	}
	if err := shared.AddIndexers(indexersOf(keys)); err != nil {
		return nil, fmt.Errorf("indexing %T: %w", object, err)
	}
	return lookupIn(shared.GetIndexer()), nil
}

func indexersOf(keys func(client.Object) []string) toolscache.Indexers {
	return toolscache.Indexers{indexKeys: func(cached any) ([]string, error) {
		object, ok := cached.(client.Object)
		if !ok {
			return nil, fmt.Errorf("the cache holds a %T", cached)
		}
		return keys(object), nil
	}}
}

func lookupIn(indexer toolscache.Indexer) Lookup {
	return func(key string) ([]client.Object, error) {
		cached, err := indexer.ByIndex(indexKeys, key)
		if err != nil {
			return nil, fmt.Errorf("looking %q up in the cache: %w", key, err)
		}
		found := make([]client.Object, 0, len(cached))
		for i := range cached {
			if object, ok := cached[i].(client.Object); ok {
				found = append(found, object)
			}
		}
		return found, nil
	}
}

// KeysOfWork are the keys of a Work. Works are found by the name of their owner,
// because a re-created object finds the Works of its predecessor by it; by the UID
// of their owner, because the annotations that name the owner may be removed; and by
// their own name, which is the same for a resource on all clusters.
//
// A Work outside of the execution namespaces of Karmada has no keys: no cluster gets
// it, and tenants may write it with any label.
func KeysOfWork(work client.Object) []string {
	if !render.IsExecutionSpace(work.GetNamespace()) {
		return nil
	}
	owner := render.OwnerOf(work)
	return []string{OwnerUIDKey(owner.UID), OwnerKey(owner), WorkNameKey(work.GetName())}
}

// OwnerUIDKey finds the Works of an owner by its UID.
func OwnerUIDKey(uid types.UID) string { return "uid/" + string(uid) }

// OwnerKey finds the Works of an owner by its name.
func OwnerKey(owner render.Owner) string {
	return "owner/" + owner.Kind + "/" + owner.Namespace + "/" + owner.Name
}

// WorkNameKey finds Works by their name, and objects by the name of their desired
// Works.
func WorkNameKey(name string) string { return "work/" + name }

// KeysOf are the keys of an object: the clusters that it names, or the fact that it
// selects clusters; its resource and the API group of that; and the name of its
// desired Works.
func KeysOf(cached client.Object) []string {
	object, ok := cached.(Object)
	if !ok {
		return nil
	}
	spec := object.GetSpec()
	keys := make([]string, 0, len(spec.Clusters)+4)
	for i := range spec.Clusters {
		keys = append(keys, ClusterKey(spec.Clusters[i].Name))
	}
	if spec.ClusterSelector != nil {
		keys = append(keys, SelectsKey)
	}
	reference, group := spec.Resource, render.GroupOf(spec.Resource.APIVersion)
	return append(keys, GroupKey(group), ResourceKey(group, object.GetNamespace(), reference.Name),
		WorkNameKey(names.GenerateWorkName(reference.Kind, reference.Name, object.GetNamespace())))
}

// SelectsKey is the key of objects that select clusters.
const SelectsKey = "selects"

// ClusterKey finds the objects that name a cluster.
func ClusterKey(name string) string { return "cluster/" + name }

// GroupKey finds the objects whose resource is of an API group.
func GroupKey(group string) string { return "group/" + group }

// ResourceKey finds the objects that name a resource.
func ResourceKey(group, namespace, name string) string {
	return "resource/" + group + "/" + namespace + "/" + name
}
