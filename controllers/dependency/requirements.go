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
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Occasion is why an object or a dependency is to be reconciled.
type Occasion int

const (
	// Changed means that what is asked for has changed.
	Changed Occasion = iota
	// Reported means that a dependency fares differently.
	Reported
	// Relearned means that a new process has found out what was known before.
	Relearned
)

// Requirer is an object that other resources follow.
type Requirer struct {
	Kind string
	Key  types.NamespacedName
}

// Requirement is what follows an object, and where to.
type Requirement struct {
	Dependencies []types.NamespacedName
	// Clusters are the clusters of the object, each with whether it is suspended.
	Clusters   map[string]bool
	Resolution propagationv1alpha1.ConflictResolution
	Preserve   bool
	// Account is whose permissions count; the zero value when nobody's do.
	Account types.NamespacedName
	// unknown: the resource could not be read since this process began.
	Unknown bool
	// relearned: the object was looked at by an earlier process, and has not
	// changed since.
	Relearned bool
}

func (r *Requirement) equal(other *Requirement) bool {
	return slices.Equal(r.Dependencies, other.Dependencies) && maps.Equal(r.Clusters, other.Clusters) &&
		r.Resolution == other.Resolution && r.Preserve == other.Preserve && r.Account == other.Account && r.Unknown == other.Unknown
}

// requires reports whether a dependency follows the object to a cluster.
func (r *Requirement) requires(key types.NamespacedName, cluster string) bool {
	_, named := r.Clusters[cluster]
	return named && slices.Contains(r.Dependencies, key)
}

// dependency is what is known of a resource that follows objects.
type dependency struct {
	requirers map[Requirer]struct{}
	// object is the dependency as it was seen last.
	object *Object
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
	troubles []Trouble
}

// Trouble is why a dependency is not in place on a cluster.
type Trouble struct{ cluster, reason, message string }

// Requirements knows which resources follow which objects. What it does for one
// object or dependency takes time in proportion to what that one has to do with.
type Requirements struct {
	mu           sync.Mutex
	required     map[Requirer]Requirement
	Dependencies map[types.NamespacedName]*dependency
	// index has dependencies by the keys that an object would have in their place,
	// those of clusters aside.
	index map[string]map[types.NamespacedName]struct{}
	// unknown are, by namespace, the objects of which it is not known what
	// follows them.
	unknown map[string]map[Requirer]struct{}
	// listed: every object that was there has been expected.
	Listed atomic.Bool
	// wake has a request of a kind reconciled.
	wake map[string]func(types.NamespacedName, Occasion)
	// steps counts what was gone over, for tests.
	steps int
}

// NewRequirements knows of no object yet.
func NewRequirements() *Requirements {
	return &Requirements{
		required:     map[Requirer]Requirement{},
		Dependencies: map[types.NamespacedName]*dependency{},
		index:        map[string]map[types.NamespacedName]struct{}{},
		unknown:      map[string]map[Requirer]struct{}{},
		wake:         map[string]func(types.NamespacedName, Occasion){},
	}
}

// Register has an interest in a kind's requests.
func (r *Requirements) Register(kind string, wake func(types.NamespacedName, Occasion)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake[kind] = wake
}

// expect says that resources follow an object, and that it is not known yet
// which, unless it is.
func (r *Requirements) expect(who Requirer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, found := r.required[who]; !found {
		r.store(who, Requirement{Unknown: true})
	}
}

// IsUnknown reports whether there is an object of which it is not known whether
// it requires a dependency. Only objects of its namespace and cluster-scoped ones
// may.
func (r *Requirements) IsUnknown(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.unknown[key.Namespace]) > 0 || len(r.unknown[""]) > 0
}

// Set replaces what follows an object, and wakes what is concerned.
func (r *Requirements) Set(who Requirer, now Requirement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, found := r.required[who]
	if found && (now.Unknown && !before.Unknown || now.equal(&before)) {
		// What is known stays true until better is known.
		return
	}
	r.change(who, before, now)
}

// Release ends what follows an object. preserve is what it asks for last; nil
// when it went without a last word.
func (r *Requirements) Release(who Requirer, preserve *bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, found := r.required[who]; found {
		r.change(who, before, Requirement{Preserve: ptr.Deref(preserve, before.Preserve)})
		delete(r.required, who)
	}
}

// store keeps what follows an object.
func (r *Requirements) store(who Requirer, now Requirement) {
	r.required[who] = now
	namespace := who.Key.Namespace
	if now.Unknown {
		if r.unknown[namespace] == nil {
			r.unknown[namespace] = map[Requirer]struct{}{}
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
func (r *Requirements) change(who Requirer, before, now Requirement) {
	r.store(who, now)
	for _, key := range before.Dependencies {
		r.steps++
		known := r.Dependencies[key]
		for cluster := range before.Clusters {
			if now.Preserve && !now.requires(key, cluster) {
				known.keep(cluster)
			}
		}
		delete(known.requirers, who)
		known.stale = true
	}
	for _, key := range now.Dependencies {
		r.steps++
		known := r.Dependencies[key]
		if known == nil {
			known = r.add(key)
		}
		known.requirers[who] = struct{}{}
		known.stale = true
	}
	why := Changed
	if now.Relearned {
		// A new process finds out what an earlier one has done already.
		why = Relearned
	}
	if wake := r.wake[render.DependencyKind]; wake != nil {
		for _, key := range slices.Concat(before.Dependencies, now.Dependencies) {
			wake(key, why)
		}
	}
}

func (d *dependency) keep(cluster string) {
	if d.kept == nil {
		d.kept = map[string]struct{}{}
	}
	d.kept[cluster] = struct{}{}
}

// With are the dependencies that somebody requires and that have a key of an
// object, as keysOf makes them.
func (r *Requirements) With(key string) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cluster, isCluster := strings.CutPrefix(key, cached.ClusterKey("")); isCluster {
		return r.matching(func(_ types.NamespacedName, known *dependency) bool { return known.stale || known.covers(cluster) })
	}
	found := []types.NamespacedName{}
	for key := range r.index[key] {
		r.steps++
		if len(r.Dependencies[key].requirers) > 0 {
			found = append(found, key)
		}
	}
	return found
}

// In are the dependencies in a namespace; all when it is empty.
func (r *Requirements) In(namespace string) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.matching(func(key types.NamespacedName, _ *dependency) bool {
		return namespace == "" || namespace == key.Namespace
	})
}

func (r *Requirements) matching(matches func(types.NamespacedName, *dependency) bool) []types.NamespacedName {
	found := []types.NamespacedName{}
	for key, known := range r.Dependencies {
		if len(known.requirers) > 0 && matches(key, known) {
			found = append(found, key)
		}
	}
	return found
}

// add makes a dependency known.
func (r *Requirements) add(key types.NamespacedName) *dependency {
	known := &dependency{requirers: map[Requirer]struct{}{}, object: NewObject(key)}
	r.Dependencies[key] = known
	for _, word := range cached.KeysOf(known.object.DirectPropagation) {
		if r.index[word] == nil {
			r.index[word] = map[types.NamespacedName]struct{}{}
		}
		r.index[word][key] = struct{}{}
	}
	return known
}

// Forget drops a dependency that nobody requires and that has no Works any more.
func (r *Requirements) Forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.Dependencies[key]
	if known == nil || len(known.requirers) > 0 {
		return
	}
	delete(r.Dependencies, key)
	for _, word := range cached.KeysOf(NewObject(key).DirectPropagation) {
		if delete(r.index[word], key); len(r.index[word]) == 0 {
			delete(r.index, word)
		}
	}
}

// Vouchers says whose permissions count for a cluster. trusted means that
// nobody's have to be reviewed.
type Vouchers func(cluster string) (accounts []types.NamespacedName, trusted bool)

// Vouchers says whose permissions count for a dependency: those of everybody
// who requires it on the cluster.
func (r *Requirements) Vouchers(key types.NamespacedName) Vouchers {
	r.mu.Lock()
	defer r.mu.Unlock()
	accounts, trusted := map[string][]types.NamespacedName{}, map[string]bool{}
	if known := r.Dependencies[key]; known != nil {
		for who := range known.requirers {
			required := r.required[who]
			r.steps++
			for cluster := range required.Clusters {
				if required.Account.Name == "" {
					trusted[cluster] = true
				} else if !slices.Contains(accounts[cluster], required.Account) {
					accounts[cluster] = append(accounts[cluster], required.Account)
				}
			}
		}
	}
	return func(cluster string) ([]types.NamespacedName, bool) { return accounts[cluster], trusted[cluster] }
}

// Report takes down how a dependency fares, on all its clusters, and wakes those
// who require it when that has changed.
func (r *Requirements) Report(key types.NamespacedName, status *propagationv1alpha1.PropagationStatus, troubles []Trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.Dependencies[key]
	if known == nil ||
		equality.Semantic.DeepEqual(&known.object.Status, status) && slices.Equal(known.troubles, troubles) {
		return
	}
	known.object.Status = *status
	known.troubles, known.covered, known.generation = troubles, known.object.Spec.Clusters, known.object.Generation
	for who := range known.requirers {
		r.steps++
		if wake := r.wake[who.Kind]; wake != nil {
			wake(who.Key, Reported)
		}
	}
}

// Fares says why a dependency is not everywhere where an object needs it; empty
// when it is.
func (r *Requirements) Fares(who Requirer, key types.NamespacedName, targeted map[string]bool) (reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.Dependencies[key]
	if known == nil || known.generation == 0 {
		return propagationv1alpha1.ReasonApplying, "it has not been looked at yet"
	}
	for i := range known.troubles {
		if trouble := &known.troubles[i]; targeted[trouble.cluster] {
			return trouble.reason, trouble.cluster + ": " + trouble.message
		}
	}
	if !known.stale && known.generation == known.object.Generation && len(r.required[who].Clusters) == len(targeted) {
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
