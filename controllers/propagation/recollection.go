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
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// recollection is what is remembered of a resource, so that it is read only
// when it has changed. It holds no content.
type recollection struct {
	// generation is that of the object, inputs what else it was rendered from.
	generation int64
	inputs     string
	resource   Resource
	// variants are, by name, what clusters get that get something of their own;
	// nil for what turned out to be the same as on other clusters.
	variants map[string]*Rendering
}

// isOf reports whether what is remembered is of a resource as it is now.
func (r *recollection) isOf(template *unstructured.Unstructured) bool {
	return r.resource.Version == template.GetResourceVersion() && r.resource.UID == template.GetUID()
}

// covers reports whether all that clusters get is known.
func (r *recollection) covers(found *variants, now time.Time) bool {
	for name := range found.byName {
		if rendering, known := r.variants[name]; !known || rendering.isDue(now) {
			return false
		}
	}
	return true
}

// sorted is the resource with what each cluster gets.
func (r *recollection) sorted(found *variants) Resource {
	resource := r.resource
	for cluster, name := range found.byCluster {
		if resource.Renderings == nil {
			resource.Renderings = make(map[string]*Rendering, len(found.byCluster))
		}
		resource.Renderings[cluster] = r.variants[name]
	}
	return resource
}
