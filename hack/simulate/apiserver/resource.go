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

package apiserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	namespaces  = "namespaces"
	definitions = "customresourcedefinitions"
)

// resource is a served kind with its objects.
type resource struct {
	Kind

	// custom is what its CustomResourceDefinition says; nil for other kinds.
	custom  *definition
	objects map[types.NamespacedName]*revision
	// history has all changes since the last compaction.
	history []change
	streams []*Stream
}

// change is a write to an object.
type change struct {
	version int64
	key     types.NamespacedName
	// before is nil if the object did not exist.
	before *revision
	// after is what the object is now. If it no longer exists, it is what it was, with
	// the version of its deletion.
	after *revision
	gone  bool
}

// serveKind starts to serve a kind.
func (s *Server) serveKind(kind Kind) *resource {
	served := &resource{Kind: kind, objects: map[types.NamespacedName]*revision{}}
	s.resources[served.groupResource()] = served
	s.epoch++
	return served
}

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Plural}
}

func (r *resource) serves(version string) bool { return slices.Contains(r.Versions, version) }

func (r *resource) hasStatus(version string) bool {
	if r.custom != nil {
		return r.custom.versions[version].status
	}
	return r.Status
}

// at returns the objects as they were at a version, which must not be older than the
// last compaction; 0 is now.
func (r *resource) at(version int64) map[types.NamespacedName]*revision {
	if version == 0 {
		return r.objects
	}
	past := make(map[types.NamespacedName]*revision, len(r.objects))
	for key, object := range r.objects {
		past[key] = object
	}
	for i := len(r.history) - 1; i >= 0 && r.history[i].version > version; i-- {
		if changed := r.history[i]; changed.before != nil {
			past[changed.key] = changed.before
		} else {
			delete(past, changed.key)
		}
	}
	return past
}

// sorted returns objects in the order in which an API server lists them.
func sorted(objects map[types.NamespacedName]*revision) []*revision {
	keys := make([]types.NamespacedName, 0, len(objects))
	for key := range objects {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	list := make([]*revision, 0, len(keys))
	for _, key := range keys {
		list = append(list, objects[key])
	}
	return list
}

// revision is an object as a write left it. It never changes.
type revision struct {
	object  *unstructured.Unstructured
	version int64
	// defaulted is true if reading the object adds defaults that are not stored, so that
	// the next update stores them and is never without effect.
	defaulted bool

	// metadata and rest are the JSON of the object without kind and apiVersion. They
	// are made when they are first needed.
	metadata, rest []byte
}

// parts returns the JSON of the metadata, and of what the object has besides metadata,
// kind and apiVersion.
func (v *revision) parts() (metadata, rest []byte) {
	if v.metadata == nil {
		v.metadata = encodeJSON(v.object.Object["metadata"])
	}
	if v.rest == nil {
		content := make(map[string]any, len(v.object.Object))
		for field, value := range v.object.Object {
			switch field {
			case "kind", "apiVersion", "metadata":
			default:
				content[field] = value
			}
		}
		v.rest = encodeJSON(content)
	}
	return v.metadata, v.rest
}

// encodeJSON encodes what was decoded from JSON, which cannot fail.
func encodeJSON(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encoding an object: %v", err))
	}
	return encoded
}

// became sets the version of a revision that takes effect.
func (v *revision) became(version int64) {
	v.version, v.metadata = version, nil
	v.object.SetResourceVersion(formatVersion(version))
}

// equals reports whether two revisions have the same content and version.
func (v *revision) equals(other *revision) bool {
	metadata, rest := v.parts()
	otherMetadata, otherRest := other.parts()
	return bytes.Equal(metadata, otherMetadata) && bytes.Equal(rest, otherRest)
}

// withVersion returns the same object with another resourceVersion.
func (v *revision) withVersion(version int64) *revision {
	made := &revision{object: shallow(v.object), rest: v.rest}
	made.became(version)
	return made
}

// shallow returns a copy whose metadata may be changed.
func shallow(object *unstructured.Unstructured) *unstructured.Unstructured {
	content := make(map[string]any, len(object.Object))
	for field, value := range object.Object {
		content[field] = value
	}
	if metadata, ok := content["metadata"].(map[string]any); ok {
		copied := make(map[string]any, len(metadata))
		for field, value := range metadata {
			copied[field] = value
		}
		content["metadata"] = copied
	}
	return &unstructured.Unstructured{Object: content}
}

// json returns the object in a version of its API, or its metadata alone.
func (v *revision) json(r *request) []byte {
	if r.partial() {
		metadata, _ := v.parts()
		return slices.Concat([]byte(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`), metadata, []byte(`}`))
	}
	return slices.Concat(
		[]byte(`{"kind":"`+r.resource.Kind.Kind+`","apiVersion":"`+r.apiVersion()+`",`), v.content())
}

// item returns the object as part of a list.
func (v *revision) item(r *request) []byte {
	if r.partial() || r.resource.custom != nil {
		return v.json(r)
	}
	// The items of a list of a built-in kind do not repeat what the list says.
	return slices.Concat([]byte(`{`), v.content())
}

// content is the JSON of metadata and all that follows.
func (v *revision) content() []byte {
	metadata, rest := v.parts()
	if len(rest) == len(`{}`) {
		return slices.Concat([]byte(`"metadata":`), metadata, []byte(`}`))
	}
	return slices.Concat([]byte(`"metadata":`), metadata, []byte(`,`), rest[1:])
}
