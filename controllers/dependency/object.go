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

package dependency

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// Object is a dependency in the form of an object that names it.
type Object struct {
	*propagationv1alpha1.DirectPropagation

	// Terms are, by cluster, what its requirers ask for there; nil if they ask for
	// the same everywhere, because the spec then contains it.
	Terms map[string]decide.Terms
	// Kept are clusters that may no longer be named, but where it stays.
	Kept map[string]struct{}
	// MayBeRequired reports whether other objects, whose dependencies are not known, may
	// require it on a cluster, too; nil if there are none.
	MayBeRequired func(cluster string) bool
}

// NewObject returns the object of a dependency, without any clusters.
func NewObject(key types.NamespacedName) *Object {
	sum := sha256.Sum256([]byte(key.String()))
	return &Object{DirectPropagation: &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: types.UID("dependency-" + hex.EncodeToString(sum[:16])),
		Finalizers: []string{propagationv1alpha1.CleanupFinalizer},
	}, Spec: propagationv1alpha1.PropagationSpec{Resource: Reference(key)}}}
}

// refresh combines what the requirers of a dependency ask for. If they differ on a
// cluster, overwriting and preserving win, and suspending does not.
func (r *Requirements) refresh(known *dependency) {
	known.stale = false
	asked, key := map[string]decide.Terms{}, client.ObjectKeyFromObject(known.object)
	for who := range known.requirers {
		required := r.required[who]
		r.steps++
		for cluster, suspended := range required.Clusters {
			if !required.covers(key, cluster) {
				continue
			}
			sum, named := asked[cluster]
			if !named {
				sum = decide.Terms{Resolution: propagationv1alpha1.ConflictAbort, Suspend: true}
			}
			if required.Resolution == propagationv1alpha1.ConflictOverwrite {
				sum.Resolution = required.Resolution
			}
			sum.Suspend = sum.Suspend && suspended
			sum.Preserve = sum.Preserve || required.Preserve
			asked[cluster] = sum
		}
	}
	for cluster := range asked {
		delete(known.kept, cluster)
	}
	spec, exceptions := specOfDependency(known.object.Spec.Resource, asked)
	if !equality.Semantic.DeepEqual(known.object.Spec, spec) || !maps.Equal(known.object.Terms, exceptions) {
		known.object.Spec, known.object.Terms = spec, exceptions
		known.object.Generation++
	}
}

// specOfDependency returns a spec with what is asked for on clusters, and separately
// what a spec cannot express: that clusters differ.
func specOfDependency(resource propagationv1alpha1.ResourceReference, asked map[string]decide.Terms) (propagationv1alpha1.PropagationSpec, map[string]decide.Terms) {
	spec := propagationv1alpha1.PropagationSpec{Resource: resource, ConflictResolution: propagationv1alpha1.ConflictAbort}
	overwriting, preserving := 0, 0
	for _, cluster := range slices.Sorted(maps.Keys(asked)) {
		spec.Clusters = append(spec.Clusters, propagationv1alpha1.TargetCluster{Name: cluster})
		if asked[cluster].Suspend {
			spec.Suspension.DispatchingOnClusters.ClusterNames = append(spec.Suspension.DispatchingOnClusters.ClusterNames, cluster)
		}
		if asked[cluster].Resolution == propagationv1alpha1.ConflictOverwrite {
			overwriting++
		}
		if asked[cluster].Preserve {
			preserving++
		}
	}
	if overwriting > 0 && overwriting == len(asked) {
		spec.ConflictResolution = propagationv1alpha1.ConflictOverwrite
	}
	if preserving > 0 && preserving == len(asked) {
		spec.PreserveResourcesOnDeletion = ptr.To(true)
	}
	if overwriting%max(1, len(asked)) == 0 && preserving%max(1, len(asked)) == 0 {
		return spec, nil
	}
	return spec, asked
}

// Object is a dependency in the form of an object that names it; nil if nobody
// requires it.
func (r *Requirements) Object(key types.NamespacedName) *Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.Dependencies[key]
	if known == nil || len(known.requirers) == 0 {
		return nil
	}
	if known.stale {
		r.refresh(known)
	}
	return &Object{DirectPropagation: known.object.DeepCopy(), Terms: known.object.Terms, Kept: maps.Clone(known.kept)}
}

// Kept are the clusters where a dependency stays although nobody requires it.
func (r *Requirements) Kept(key types.NamespacedName) map[string]struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.Dependencies[key]
	if known == nil {
		return nil
	}
	return maps.Clone(known.kept)
}

// Key names a dependency. The name contains the reference to the resource, which is
// valid as the name of an owner of Works, but not of an object of the API.
func Key(reference configv1alpha1.DependentObjectReference) types.NamespacedName {
	return types.NamespacedName{Namespace: reference.Namespace, Name: reference.APIVersion + "/" + reference.Kind + "/" + reference.Name}
}

// Reference reads a resource from the key of a dependency.
func Reference(key types.NamespacedName) propagationv1alpha1.ResourceReference {
	words := strings.Split(key.Name, "/")
	last := len(words) - 1
	return propagationv1alpha1.ResourceReference{
		APIVersion: strings.Join(words[:max(0, last-1)], "/"), Kind: words[max(0, last-1)], Name: words[last],
	}
}
