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

// Occasion is why an object or a dependency is reconciled.
type Occasion int

const (
	// Changed means that what is asked for has changed.
	Changed Occasion = iota
	// Reported means that the state of a dependency has changed.
	Reported
	// Relearned means that a new process has learned what an earlier one knew.
	Relearned
)

// Requirer is an object that other resources follow.
type Requirer struct {
	Kind string
	Key  types.NamespacedName
}

// Requirement is what follows an object, and to which clusters.
type Requirement struct {
	Dependencies []types.NamespacedName
	// Clusters are the clusters of the object, each with whether it is suspended.
	Clusters map[string]bool
	// Only are, by dependency, the clusters that it follows the object to, if these are
	// not all: in a rollout, clusters need what their revisions need.
	Only       map[types.NamespacedName]map[string]bool
	Resolution propagationv1alpha1.ConflictResolution
	Preserve   bool
	// Account is the account whose permissions apply; the zero value if there is
	// none.
	Account types.NamespacedName
	// Unknown: the resource could not be read since this process started.
	Unknown bool
	// Relearned: an earlier process has reconciled the object, which has not changed
	// since.
	Relearned bool
}

func (r *Requirement) equal(other *Requirement) bool {
	return slices.Equal(r.Dependencies, other.Dependencies) && maps.Equal(r.Clusters, other.Clusters) &&
		maps.EqualFunc(r.Only, other.Only, maps.Equal[map[string]bool, map[string]bool]) && r.Resolution == other.Resolution && r.Preserve == other.Preserve && r.Account == other.Account && r.Unknown == other.Unknown
}

// on returns what is known to follow an object, on new terms. What is known stays valid until
// something newer is known.
func (r *Requirement) on(terms *Requirement) Requirement {
	known := *r
	known.Preserve, known.Clusters = terms.Preserve, maps.Clone(r.Clusters)
	for cluster := range known.Clusters {
		if suspended, named := terms.Clusters[cluster]; named {
			known.Clusters[cluster] = suspended
		}
	}
	return known
}

// requires reports whether a dependency follows the object to a cluster.
func (r *Requirement) requires(key types.NamespacedName, cluster string) bool {
	_, named := r.Clusters[cluster]
	return named && slices.Contains(r.Dependencies, key) && r.covers(key, cluster)
}

// covers reports whether a dependency of the object follows it to one of its clusters.
func (r *Requirement) covers(key types.NamespacedName, cluster string) bool {
	only, limited := r.Only[key]
	return !limited || only[cluster]
}

// dependency is what is known about a resource that follows objects.
type dependency struct {
	requirers map[Requirer]struct{}
	// object is the dependency as it was last seen.
	object *Object
	// stale: who requires it, or how, has changed since.
	stale bool
	// kept are the clusters that it leaves, or is about to leave, and where the last
	// requirer wanted to keep it.
	kept map[string]struct{}
	// covered are the clusters of the last report, and generation is that of the
	// object at that time; 0 before the first report.
	covered    []propagationv1alpha1.TargetCluster
	generation int64
	// troubles are the clusters where it is not in place, the worst first.
	troubles []Trouble
}

// Trouble is why a dependency is not in place on a cluster.
type Trouble struct{ cluster, reason, message string }

// Requirements knows which resources follow which objects. The time to process one
// object or dependency is proportional to what is related to it.
type Requirements struct {
	mu           sync.Mutex
	required     map[Requirer]Requirement
	Dependencies map[types.NamespacedName]*dependency
	// index has dependencies by the keys that an object in their place would have,
	// without those of clusters.
	index map[string]map[types.NamespacedName]struct{}
	// unknown are, by namespace, the objects whose dependencies are not known.
	unknown map[string]map[Requirer]struct{}
	// Listed: every existing object has been expected.
	Listed atomic.Bool
	// wake triggers the reconcile of a request of a kind.
	wake map[string]func(types.NamespacedName, Occasion)
	// steps counts the entries that were visited, for tests.
	steps int
}

// NewRequirements returns Requirements without any objects.
func NewRequirements() *Requirements {
	return &Requirements{
		required:     map[Requirer]Requirement{},
		Dependencies: map[types.NamespacedName]*dependency{},
		index:        map[string]map[types.NamespacedName]struct{}{},
		unknown:      map[string]map[Requirer]struct{}{},
		wake:         map[string]func(types.NamespacedName, Occasion){},
	}
}

// Register sets the function that triggers reconciles of a kind.
func (r *Requirements) Register(kind string, wake func(types.NamespacedName, Occasion)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake[kind] = wake
}

// expect records that resources follow an object which are not known yet, unless
// they are.
func (r *Requirements) expect(who Requirer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, found := r.required[who]; !found {
		r.store(who, Requirement{Unknown: true})
	}
}

// IsUnknown reports whether there is an object that may require a dependency, but
// whose dependencies are not known. Only objects in its namespace and cluster-scoped
// ones may require it.
func (r *Requirements) IsUnknown(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.unknown[key.Namespace]) > 0 || len(r.unknown[""]) > 0
}

// MayBeRequired returns a function that reports whether an object whose dependencies are not
// known may require a dependency on a cluster; nil if there is no such object.
func (r *Requirements) MayBeRequired(key types.NamespacedName) func(cluster string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unknown[key.Namespace]) == 0 && len(r.unknown[""]) == 0 {
		return nil
	}
	clusters := map[string]bool{}
	for _, namespace := range []string{key.Namespace, ""} {
		for who := range r.unknown[namespace] {
			if r.required[who].Clusters == nil {
				// This process has not seen the object. At its start, these are most.
				return func(string) bool { return true }
			}
			for cluster := range r.required[who].Clusters {
				clusters[cluster] = true
			}
		}
	}
	return func(cluster string) bool { return clusters[cluster] }
}

// Set replaces what follows an object, and wakes everything affected.
func (r *Requirements) Set(who Requirer, now Requirement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, found := r.required[who]
	if found && now.Unknown && !before.Unknown {
		now = before.on(&now)
	}
	if found && now.equal(&before) {
		return
	}
	r.change(who, before, now)
}

// Release ends what follows an object. preserve is the last value in its spec; nil
// if the object vanished before it was seen.
func (r *Requirements) Release(who Requirer, preserve *bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, found := r.required[who]; found {
		r.change(who, before, Requirement{Preserve: ptr.Deref(preserve, before.Preserve)})
		delete(r.required, who)
	}
}

// store stores what follows an object.
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

// change updates the index to what follows an object now.
func (r *Requirements) change(who Requirer, before, now Requirement) {
	r.store(who, now)
	for _, key := range before.Dependencies {
		r.steps++
		known := r.Dependencies[key]
		for cluster := range before.Clusters {
			if now.Preserve && before.covers(key, cluster) && !now.requires(key, cluster) {
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
		// A new process learns what an earlier one has already done.
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

// With are the dependencies that somebody requires and that have a key of an object,
// as KeysOf returns it.
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

// In are the dependencies in a namespace; all if it is empty.
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

// Forget drops a dependency that nobody requires and that has no Works left.
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

// Vouchers returns whose permissions apply on a cluster. trusted means that none
// have to be reviewed.
type Vouchers func(cluster string) (accounts []types.NamespacedName, trusted bool)

// Vouchers returns whose permissions apply to a dependency: those of everybody who
// requires it on the cluster.
func (r *Requirements) Vouchers(key types.NamespacedName) Vouchers {
	r.mu.Lock()
	defer r.mu.Unlock()
	accounts, trusted := map[string][]types.NamespacedName{}, map[string]bool{}
	if known := r.Dependencies[key]; known != nil {
		for who := range known.requirers {
			required := r.required[who]
			r.steps++
			for cluster := range required.Clusters {
				if !required.covers(key, cluster) {
					continue
				}
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

// Report records the state of a dependency on all its clusters, and wakes those who
// require it if that has changed.
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

// Fares explains why a dependency is not in place everywhere that an object needs
// it; empty if it is.
func (r *Requirements) Fares(who Requirer, key types.NamespacedName, targeted map[string]bool) (reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.Dependencies[key]
	if known == nil || known.generation == 0 {
		return propagationv1alpha1.ReasonApplying, notChecked
	}
	required := r.required[who]
	for i := range known.troubles {
		if trouble := &known.troubles[i]; targeted[trouble.cluster] && required.covers(key, trouble.cluster) {
			return trouble.reason, trouble.cluster + ": " + trouble.message
		}
	}
	if !known.stale && known.generation == known.object.Generation && len(required.Clusters) == len(targeted) {
		return "", ""
	}
	// The report may cover fewer clusters than there are now. The first of these is named:
	// the same state always gives the same message.
	missing := ""
	for cluster := range targeted {
		if (missing == "" || cluster < missing) && required.covers(key, cluster) && !known.covers(cluster) {
			missing = cluster
		}
	}
	if missing == "" {
		return "", ""
	}
	return propagationv1alpha1.ReasonApplying, missing + ": it has not been looked at there yet"
}

func (d *dependency) covers(cluster string) bool {
	_, found := slices.BinarySearchFunc(d.covered, cluster, func(target propagationv1alpha1.TargetCluster, name string) int {
		return strings.Compare(target.Name, name)
	})
	return found
}
