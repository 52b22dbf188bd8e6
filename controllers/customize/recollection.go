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

package customize

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// Recollection is what is remembered of a resource, so that it is read only when it
// has changed. It has no content.
type Recollection struct {
	// Generation is that of the object. Inputs is the fingerprint of what else it
	// was rendered from.
	Generation int64
	Inputs     string
	Resource   decide.Resource
	// variants are, by name, what clusters with a variant get; nil for a variant
	// that turned out to be the same as on other clusters.
	variants map[string]*decide.Rendering
}

// IsOf reports whether the recollection is of the current version of a resource.
func (r *Recollection) IsOf(template *unstructured.Unstructured) bool {
	return r.Resource.Version == template.GetResourceVersion() && r.Resource.UID == template.GetUID()
}

// Covers reports whether everything that clusters get is known.
func (r *Recollection) Covers(found *Variants, now time.Time) bool {
	for name := range found.ByName {
		if rendering, known := r.variants[name]; !known || rendering.IsDue(now) {
			return false
		}
	}
	return true
}

// Sorted is the resource with what each cluster gets.
func (r *Recollection) Sorted(found *Variants) decide.Resource {
	resource := r.Resource
	for cluster, name := range found.byCluster {
		if resource.Renderings == nil {
			resource.Renderings = make(map[string]*decide.Rendering, len(found.byCluster))
		}
		resource.Renderings[cluster] = r.variants[name]
	}
	return resource
}
