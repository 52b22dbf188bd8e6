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
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// kindDependency is the kind of what owns the Works of a dependency: nothing
// that is stored, but what the objects that require the resource have in
// common. It is reconciled like an object that names the resource and all
// clusters of all who require it; so everything that is true of a named
// resource is true of one that follows. It lives as long as somebody requires
// it, and its Works keep it from being forgotten over a restart.
const kindDependency = "Dependency"

// requirer is an object that other resources follow.
type requirer struct {
	kind string
	key  types.NamespacedName
}

// requirement is what follows an object, and where to.
type requirement struct {
	dependencies []types.NamespacedName
	// clusters are the clusters of the object, each with whether it is suspended.
	clusters   map[string]bool
	resolution propagationv1alpha1.ConflictResolution
	preserve   bool
	// unknown: the resource could not be read since this process began.
	unknown bool
}

// requirements knows which resources follow which objects.
type requirements struct {
	mu       sync.Mutex
	required map[requirer]requirement
	// dependencies are by their key as they were seen last.
	dependencies map[types.NamespacedName]*propagationv1alpha1.DirectPropagation
	// wake has a request of a kind reconciled.
	wake map[string]func(types.NamespacedName)
}

func newRequirements() *requirements {
	return &requirements{
		required:     map[requirer]requirement{},
		dependencies: map[types.NamespacedName]*propagationv1alpha1.DirectPropagation{},
		wake:         map[string]func(types.NamespacedName){},
	}
}

// dependencyKey names a dependency. What names the resource stands in the name,
// which an owner of Works may be called by, if not an object of the API.
func dependencyKey(reference configv1alpha1.DependentObjectReference) types.NamespacedName {
	return types.NamespacedName{Namespace: reference.Namespace, Name: reference.APIVersion + "/" + reference.Kind + "/" + reference.Name}
}

// referenceOf reads a resource from the key of a dependency.
func referenceOf(key types.NamespacedName) propagationv1alpha1.ResourceReference {
	words := strings.Split(key.Name, "/")
	last := len(words) - 1
	return propagationv1alpha1.ResourceReference{
		APIVersion: strings.Join(words[:max(0, last-1)], "/"), Kind: words[max(0, last-1)], Name: words[last],
	}
}

// register has an interest in a kind's requests.
func (r *requirements) register(kind string, wake func(types.NamespacedName)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake[kind] = wake
}

// set replaces what follows an object, and wakes what is concerned.
func (r *requirements) set(who requirer, now requirement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.required[who]
	if now.unknown {
		if len(before.dependencies) > 0 {
			// What is known stays true until better is known.
			return
		}
	} else if equality.Semantic.DeepEqual(before.dependencies, now.dependencies) && maps.Equal(before.clusters, now.clusters) &&
		before.resolution == now.resolution && before.preserve == now.preserve && !before.unknown {
		r.required[who] = now
		return
	}
	r.required[who] = now
	r.changed(before, now)
}

// release ends what follows an object.
func (r *requirements) release(who requirer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, found := r.required[who]
	if found {
		delete(r.required, who)
		r.changed(before, requirement{})
	}
}

func (r *requirements) changed(before, now requirement) {
	if r.wake[kindDependency] == nil {
		return
	}
	for _, key := range slices.Concat(before.dependencies, now.dependencies) {
		r.wake[kindDependency](key)
	}
}

// keys are the dependencies that somebody requires.
func (r *requirements) keys() []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []types.NamespacedName{}
	for _, required := range r.required {
		all = append(all, required.dependencies...)
	}
	slices.SortFunc(all, compareKeys)
	return slices.Compact(all)
}

// object is a dependency in the form of an object that names it; nil when
// nobody requires it.
func (r *requirements) object(key types.NamespacedName) *propagationv1alpha1.DirectPropagation {
	r.mu.Lock()
	defer r.mu.Unlock()
	spec, suspended, wanted := propagationv1alpha1.PropagationSpec{Resource: referenceOf(key), ConflictResolution: propagationv1alpha1.ConflictAbort}, map[string]bool{}, false
	for _, required := range r.required {
		if !slices.Contains(required.dependencies, key) {
			continue
		}
		wanted = true
		if required.resolution == propagationv1alpha1.ConflictOverwrite {
			spec.ConflictResolution = required.resolution
		}
		if required.preserve {
			spec.PreserveResourcesOnDeletion = ptr.To(true)
		}
		for cluster, stopped := range required.clusters {
			before, named := suspended[cluster]
			suspended[cluster] = stopped && (before || !named)
		}
	}
	if !wanted {
		delete(r.dependencies, key)
		return nil
	}
	for _, cluster := range slices.Sorted(maps.Keys(suspended)) {
		spec.Clusters = append(spec.Clusters, propagationv1alpha1.TargetCluster{Name: cluster})
		if suspended[cluster] {
			spec.Suspension.DispatchingOnClusters.ClusterNames = append(spec.Suspension.DispatchingOnClusters.ClusterNames, cluster)
		}
	}
	known := r.dependencies[key]
	if known == nil {
		sum := sha256.Sum256([]byte(key.String()))
		known = &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: types.UID("dependency-" + hex.EncodeToString(sum[:16])),
			Finalizers: []string{propagationv1alpha1.CleanupFinalizer},
		}}
		r.dependencies[key] = known
	}
	if !equality.Semantic.DeepEqual(known.Spec, spec) {
		known.Spec = spec
		known.Generation++
	}
	return known.DeepCopy()
}

// report takes down how a dependency fares, and wakes those who require it when
// that has changed.
func (r *requirements) report(key types.NamespacedName, status *propagationv1alpha1.PropagationStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.dependencies[key]
	if known == nil || equality.Semantic.DeepEqual(&known.Status, status) {
		return
	}
	known.Status = *status
	for who, required := range r.required {
		if wake := r.wake[who.kind]; wake != nil && slices.Contains(required.dependencies, key) {
			wake(who.key)
		}
	}
}

// unknownRequirements tells whether it is not known yet, of an object that is there, what
// follows it: until then nobody can say that a dependency is not required.
func (r *Reconciler) unknownRequirements(ctx context.Context) (bool, error) {
	for kind, known := range kinds {
		list := known.list()
		if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("listing %ss: %w", kind, err)
		}
		for _, object := range objectsOf(list) {
			if !ptr.Deref(object.GetSpec().PropagateDeps, false) || object.GetDeletionTimestamp() != nil {
				continue
			}
			if r.requirements.isUnknown(requirer{kind: kind, key: client.ObjectKeyFromObject(object)}) {
				return true, nil
			}
		}
	}
	return false, nil
}

func (r *requirements) isUnknown(who requirer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	required, found := r.required[who]
	return !found || required.unknown
}

// require takes down what follows an object.
func (r *Reconciler) require(object Object, observed *Observed) {
	if r.Kind == kindDependency {
		return
	}
	who := requirer{kind: r.Kind, key: client.ObjectKeyFromObject(object)}
	if observed.Deleting || !ptr.Deref(observed.Spec.PropagateDeps, false) {
		r.requirements.release(who)
		return
	}
	now := requirement{
		clusters: map[string]bool{}, resolution: observed.Spec.ConflictResolution,
		preserve: ptr.Deref(observed.Spec.PreserveResourcesOnDeletion, false), unknown: observed.Resource.Problem != nil,
	}
	for _, target := range observed.Targets {
		now.clusters[target.Cluster] = target.Suspend
	}
	for _, dependency := range observed.Resource.Dependencies {
		if dependency.Name != "" {
			now.dependencies = append(now.dependencies, dependencyKey(dependency))
		}
	}
	r.requirements.set(who, now)
}

// dependenciesOf are the resources that a resource cannot do without, as
// Karmada's interpreter names them.
func (r *Reconciler) dependenciesOf(observed *Observed, template *unstructured.Unstructured) ([]configv1alpha1.DependentObjectReference, error) {
	if !ptr.Deref(observed.Spec.PropagateDeps, false) ||
		!r.Interpreter.HookEnabled(template.GroupVersionKind(), configv1alpha1.InterpreterOperationInterpretDependency) {
		return nil, nil
	}
	found, err := r.Interpreter.GetDependencies(template)
	if err != nil {
		return nil, fmt.Errorf("spec.propagateDeps: finding the dependencies of %s %s: %w", template.GetKind(), template.GetName(), err)
	}
	slices.SortFunc(found, func(a, b configv1alpha1.DependentObjectReference) int {
		return compareKeys(dependencyKey(a), dependencyKey(b))
	})
	return found, nil
}

// fares tells how the dependencies of an object fare on its clusters.
func (r *requirements) fares(observed *Observed) *propagationv1alpha1.Dependencies {
	if !ptr.Deref(observed.Spec.PropagateDeps, false) || observed.Deleting {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := &propagationv1alpha1.Dependencies{Total: ptr.To(int32(len(observed.Resource.Dependencies)))} //nolint:gosec // a Pod names a few
	ready := int32(0)
	for _, dependency := range observed.Resource.Dependencies {
		reason, message := r.faresOn(dependency, observed)
		if reason == "" {
			ready++
		} else if len(sum.Unready) < propagationv1alpha1.MaxUnreadyDependencies {
			sum.Unready = append(sum.Unready, propagationv1alpha1.UnreadyDependency{
				APIVersion: dependency.APIVersion, Kind: dependency.Kind, Name: cmp.Or(dependency.Name, "(by labels)"), Reason: reason, Message: shortened(message),
			})
		}
	}
	sum.Ready = &ready
	return sum
}

// faresOn says why a dependency is not everywhere where it has to be; empty
// when it is.
func (r *requirements) faresOn(dependency configv1alpha1.DependentObjectReference, observed *Observed) (reason, message string) {
	if dependency.Name == "" {
		return propagationv1alpha1.ReasonRenderFailed, "it is selected by labels, and only dependencies that are named are followed"
	}
	known := r.dependencies[dependencyKey(dependency)]
	if known == nil || known.Status.ObservedGeneration == nil {
		return propagationv1alpha1.ReasonApplying, "it has not been looked at yet"
	}
	if ready := known.Status.Conditions; len(known.Status.Clusters) == 0 && len(ready) > 0 {
		return ready[0].Reason, ready[0].Message
	}
	for i := range known.Status.Clusters {
		row := &known.Status.Clusters[i]
		// Whoever else sends it there: it is there.
		if observed.targeted(row.Name) && row.Applied != metav1.ConditionTrue && row.Reason != propagationv1alpha1.ReasonConflict {
			return row.Reason, row.Name + ": " + row.Message
		}
	}
	return "", ""
}
