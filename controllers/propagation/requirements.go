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
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

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
	// account is whose permissions count; the zero value when nobody's do.
	account types.NamespacedName
	// unknown: the resource could not be read since this process began.
	unknown bool
	// relearned: the object was looked at by an earlier process, and has not
	// changed since.
	relearned bool
}

func (r *requirement) equal(other *requirement) bool {
	return slices.Equal(r.dependencies, other.dependencies) && maps.Equal(r.clusters, other.clusters) &&
		r.resolution == other.resolution && r.preserve == other.preserve && r.account == other.account && r.unknown == other.unknown
}

// requires reports whether a dependency follows the object to a cluster.
func (r *requirement) requires(key types.NamespacedName, cluster string) bool {
	_, named := r.clusters[cluster]
	return named && slices.Contains(r.dependencies, key)
}

// dependency is what is known of a resource that follows objects.
type dependency struct {
	requirers map[requirer]struct{}
	// object is the dependency as it was seen last.
	object *dependencyObject
	// stale: who requires it, or how, has changed since.
	stale bool
	// kept are the clusters that it leaves, or is about to, and that the last one
	// who required it there wanted to keep it.
	kept map[string]struct{}
	// covered are the clusters of which it was reported last how it fares there,
	// and generation is that of the object then; 0 before that.
	covered    []propagationv1alpha1.TargetCluster
	generation int64
	// troubles are the clusters where it is not in place, the worst first.
	troubles []trouble
}

// trouble is why a dependency is not in place on a cluster.
type trouble struct{ cluster, reason, message string }

// requirements knows which resources follow which objects. What it does for one
// object or dependency takes time in proportion to what that one has to do with.
type requirements struct {
	mu           sync.Mutex
	required     map[requirer]requirement
	dependencies map[types.NamespacedName]*dependency
	// index has dependencies by the keys that an object would have in their place,
	// those of clusters aside.
	index map[string]map[types.NamespacedName]struct{}
	// unknown are, by namespace, the objects of which it is not known what
	// follows them.
	unknown map[string]map[requirer]struct{}
	// listed: every object that was there has been expected.
	listed atomic.Bool
	// wake has a request of a kind reconciled.
	wake map[string]func(key types.NamespacedName, priority int)
	// steps counts what was gone over, for tests.
	steps int
}

func newRequirements() *requirements {
	return &requirements{
		required:     map[requirer]requirement{},
		dependencies: map[types.NamespacedName]*dependency{},
		index:        map[string]map[types.NamespacedName]struct{}{},
		unknown:      map[string]map[requirer]struct{}{},
		wake:         map[string]func(types.NamespacedName, int){},
	}
}

// register has an interest in a kind's requests.
func (r *requirements) register(kind string, wake func(types.NamespacedName, int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake[kind] = wake
}

// expect says that resources follow an object, and that it is not known yet
// which, unless it is.
func (r *requirements) expect(who requirer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, found := r.required[who]; !found {
		r.store(who, requirement{unknown: true})
	}
}

// isUnknown reports whether there is an object of which it is not known whether
// it requires a dependency. Only objects of its namespace and cluster-scoped ones
// may.
func (r *requirements) isUnknown(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.unknown[key.Namespace]) > 0 || len(r.unknown[""]) > 0
}

// set replaces what follows an object, and wakes what is concerned.
func (r *requirements) set(who requirer, now requirement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, found := r.required[who]
	if found && (now.unknown && !before.unknown || now.equal(&before)) {
		// What is known stays true until better is known.
		return
	}
	r.change(who, before, now)
}

// release ends what follows an object. preserve is what it asks for last; nil
// when it went without a last word.
func (r *requirements) release(who requirer, preserve *bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, found := r.required[who]; found {
		r.change(who, before, requirement{preserve: ptr.Deref(preserve, before.preserve)})
		delete(r.required, who)
	}
}

// store keeps what follows an object.
func (r *requirements) store(who requirer, now requirement) {
	r.required[who] = now
	namespace := who.key.Namespace
	if now.unknown {
		if r.unknown[namespace] == nil {
			r.unknown[namespace] = map[requirer]struct{}{}
		}
		r.unknown[namespace][who] = struct{}{}
		return
	}
	delete(r.unknown[namespace], who)
	if len(r.unknown[namespace]) == 0 {
		delete(r.unknown, namespace)
	}
}

// change brings the index up to what follows an object now.
func (r *requirements) change(who requirer, before, now requirement) {
	r.store(who, now)
	for _, key := range before.dependencies {
		r.steps++
		known := r.dependencies[key]
		for cluster := range before.clusters {
			if now.preserve && !now.requires(key, cluster) {
				known.keep(cluster)
			}
		}
		delete(known.requirers, who)
		known.stale = true
	}
	for _, key := range now.dependencies {
		r.steps++
		known := r.dependencies[key]
		if known == nil {
			known = r.add(key)
		}
		known.requirers[who] = struct{}{}
		known.stale = true
	}
	priority := 0
	if now.relearned {
		// A new process finds out what an earlier one has done already.
		priority = handler.LowPriority
	}
	if wake := r.wake[render.DependencyKind]; wake != nil {
		for _, key := range slices.Concat(before.dependencies, now.dependencies) {
			wake(key, priority)
		}
	}
}

func (d *dependency) keep(cluster string) {
	if d.kept == nil {
		d.kept = map[string]struct{}{}
	}
	d.kept[cluster] = struct{}{}
}

// with are the dependencies that somebody requires and that have a key of an
// object, as keysOf makes them.
func (r *requirements) with(key string) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cluster, isCluster := strings.CutPrefix(key, clusterKey("")); isCluster {
		return r.matching(func(_ types.NamespacedName, known *dependency) bool { return known.stale || known.covers(cluster) })
	}
	found := []types.NamespacedName{}
	for key := range r.index[key] {
		r.steps++
		if len(r.dependencies[key].requirers) > 0 {
			found = append(found, key)
		}
	}
	return found
}

// in are the dependencies in a namespace; all when it is empty.
func (r *requirements) in(namespace string) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.matching(func(key types.NamespacedName, _ *dependency) bool {
		return namespace == "" || namespace == key.Namespace
	})
}

func (r *requirements) matching(matches func(types.NamespacedName, *dependency) bool) []types.NamespacedName {
	found := []types.NamespacedName{}
	for key, known := range r.dependencies {
		if len(known.requirers) > 0 && matches(key, known) {
			found = append(found, key)
		}
	}
	return found
}

// add makes a dependency known.
func (r *requirements) add(key types.NamespacedName) *dependency {
	known := &dependency{requirers: map[requirer]struct{}{}, object: newDependencyObject(key)}
	r.dependencies[key] = known
	for _, word := range keysOf(known.object.DirectPropagation) {
		if r.index[word] == nil {
			r.index[word] = map[types.NamespacedName]struct{}{}
		}
		r.index[word][key] = struct{}{}
	}
	return known
}

// forget drops a dependency that nobody requires and that has no Works any more.
func (r *requirements) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.dependencies[key]
	if known == nil || len(known.requirers) > 0 {
		return
	}
	delete(r.dependencies, key)
	for _, word := range keysOf(newDependencyObject(key).DirectPropagation) {
		if delete(r.index[word], key); len(r.index[word]) == 0 {
			delete(r.index, word)
		}
	}
}

// vouchers says whose permissions count for a dependency: those of everybody
// who requires it on the cluster.
func (r *requirements) vouchers(key types.NamespacedName) vouchers {
	r.mu.Lock()
	defer r.mu.Unlock()
	accounts, trusted := map[string][]types.NamespacedName{}, map[string]bool{}
	if known := r.dependencies[key]; known != nil {
		for who := range known.requirers {
			required := r.required[who]
			r.steps++
			for cluster := range required.clusters {
				if required.account.Name == "" {
					trusted[cluster] = true
				} else if !slices.Contains(accounts[cluster], required.account) {
					accounts[cluster] = append(accounts[cluster], required.account)
				}
			}
		}
	}
	return func(cluster string) ([]types.NamespacedName, bool) { return accounts[cluster], trusted[cluster] }
}

// report takes down how a dependency fares, on all its clusters, and wakes those
// who require it when that has changed.
func (r *requirements) report(key types.NamespacedName, status *propagationv1alpha1.PropagationStatus, troubles []trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.dependencies[key]
	if known == nil ||
		equality.Semantic.DeepEqual(&known.object.Status, status) && slices.Equal(known.troubles, troubles) {
		return
	}
	known.object.Status = *status
	known.troubles, known.covered, known.generation = troubles, known.object.Spec.Clusters, known.object.Generation
	for who := range known.requirers {
		r.steps++
		if wake := r.wake[who.kind]; wake != nil {
			wake(who.key, priorityReport)
		}
	}
}

// fares says why a dependency is not everywhere where an object needs it; empty
// when it is.
func (r *requirements) fares(who requirer, key types.NamespacedName, targeted map[string]bool) (reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.dependencies[key]
	if known == nil || known.generation == 0 {
		return propagationv1alpha1.ReasonApplying, "it has not been looked at yet"
	}
	for i := range known.troubles {
		if trouble := &known.troubles[i]; targeted[trouble.cluster] {
			return trouble.reason, trouble.cluster + ": " + trouble.message
		}
	}
	if !known.stale && known.generation == known.object.Generation && len(r.required[who].clusters) == len(targeted) {
		return "", ""
	}
	// What was reported may be about fewer clusters than there are by now.
	for cluster := range targeted {
		if !known.covers(cluster) {
			return propagationv1alpha1.ReasonApplying, cluster + ": it has not been looked at there yet"
		}
	}
	return "", ""
}

func (d *dependency) covers(cluster string) bool {
	_, found := slices.BinarySearchFunc(d.covered, cluster, func(target propagationv1alpha1.TargetCluster, name string) int {
		return strings.Compare(target.Name, name)
	})
	return found
}
