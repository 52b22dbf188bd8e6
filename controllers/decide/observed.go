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

package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Observed is everything that a decision depends on.
type Observed struct {
	Now          time.Time
	Owner        render.Owner
	Generation   int64
	Spec         *propagationv1alpha1.PropagationSpec
	Status       *propagationv1alpha1.PropagationStatus
	Deleting     bool
	HasFinalizer bool
	// Vanished: the object is gone, with or without its finalizer, and only its
	// Works are left.
	Vanished bool
	// Abandon abandons clusters that are not Ready.
	Abandon bool
	// Retry is the user's request to retry what clusters refuse. A new value is a
	// new request.
	Retry string
	// Terms are, by cluster, the settings of the objects that require a dependency;
	// nil if the spec contains all of them.
	Terms map[string]Terms
	// Kept are the clusters that a dependency no longer targets, but where it stays.
	Kept map[string]struct{}
	// MayBeNeeded reports whether somebody may need the object on a cluster, although this
	// is not known yet; nil if all is known. RetainPoll is when to look again then.
	MayBeNeeded func(cluster string) bool
	RetainPoll  time.Duration

	// Unreported is how many Works, of all objects, Karmada has yet to report on.
	Unreported int

	Resource Resource
	// Rollout is what a rollout has decided; nil if the object has none.
	Rollout *Rollout
	// Dependencies is the state of the dependencies of the resource.
	Dependencies *propagationv1alpha1.Dependencies
	// Selected are the clusters that the selector of the spec matches, except LeftOut: those
	// have a taint that is not tolerated, which is the value.
	Selected []string
	LeftOut  map[string]string
	// Targets has an entry for each cluster that should get the resource: those that
	// the spec names, in its order, and those that it selects.
	Targets   []render.Target
	TargetSet map[string]bool
	// workName is the name of the desired Works, the same on every cluster. It is
	// stored because computing the hash in it takes microseconds, and it is needed
	// many times.
	workName string
	// identity distinguishes the named resource from others whose Works have that
	// name.
	identity string
	// Clusters is the state of every cluster that is named or has a Work.
	Clusters map[string]Cluster
	// Works are the compact Works of the object.
	Works map[types.NamespacedName]*workv1alpha1.Work
	// Lost is, by cluster, when somebody else deleted the desired Work.
	Lost map[string]time.Time
	// Holders is, by cluster, who else holds the desired Work.
	Holders map[string]string
	// ConflictPoll is when to look again at Works that somebody else holds.
	ConflictPoll time.Duration
	// Setbacks are, by slot, the writes that the API server refused last.
	Setbacks map[string]Setback
	// Denials are, by cluster, why nothing new may be propagated there.
	Denials map[string]Denial
}

// Cluster is the state of a member cluster.
type Cluster struct {
	Exists      bool
	Terminating bool
	Ready       bool
	// ReadySince is when Ready last changed, RFC 3339.
	ReadySince string
	// LostAt is when contact was lost before Ready last became true; the zero time if that
	// is not known.
	LostAt time.Time
	// Message is what Karmada reports about the cluster if it is not Ready.
	Message string
	// API is whether the cluster serves the kind of the resource.
	API clusterv1alpha1.APIEnablementStatus
}

// After returns a copy with the Works as they have just been written, and with the
// state of the dependencies.
func (o *Observed) After(works map[types.NamespacedName]*workv1alpha1.Work, dependencies *propagationv1alpha1.Dependencies) *Observed {
	later := *o
	later.Works, later.Dependencies = works, dependencies
	return &later
}

// readySince is since when Karmada has contact with the cluster; empty if it has none. When
// contact was lost is not a time from which an attempt can be answered.
func (c Cluster) readySince() string {
	if !c.Ready {
		return ""
	}
	return c.ReadySince
}

// WorkKey names the Work of the resource on a cluster.
func (o *Observed) WorkKey(cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: names.GenerateExecutionSpaceName(cluster), Name: o.workName}
}

// Work is the Work of the resource on a cluster; nil if it does not exist.
func (o *Observed) Work(cluster string) *workv1alpha1.Work {
	return o.Works[o.WorkKey(cluster)]
}

// Targeted reports whether a cluster should get the resource.
func (o *Observed) Targeted(cluster string) bool { return o.TargetSet[cluster] }

// surplus are the Works that should not, or should no longer, exist.
func (o *Observed) surplus() []types.NamespacedName {
	keys := []types.NamespacedName{}
	for key := range o.Works {
		if cluster := render.ClusterOf(key.Namespace); !o.Targeted(cluster) || o.WorkKey(cluster) != key {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, CompareKeys)
	return keys
}

// Target sets Targets: the clusters that should get the resource, with their
// settings.
func (o *Observed) Target() {
	suspended := map[string]bool{}
	for _, name := range o.Spec.Suspension.DispatchingOnClusters.ClusterNames {
		suspended[name] = true
	}
	clusters := make([]string, 0, len(o.Spec.Clusters)+len(o.Selected))
	o.workName = names.GenerateWorkName(o.Spec.Resource.Kind, o.Spec.Resource.Name, o.Owner.Namespace)
	o.identity = render.Identity(schema.FromAPIVersionAndKind(o.Spec.Resource.APIVersion, o.Spec.Resource.Kind).GroupKind(), o.Spec.Resource.Name)
	for i := range o.Spec.Clusters {
		clusters = append(clusters, o.Spec.Clusters[i].Name)
	}
	o.Targets = make([]render.Target, 0, cap(clusters))
	o.TargetSet = make(map[string]bool, cap(clusters))
	for _, name := range append(clusters, o.Selected...) {
		if o.TargetSet[name] {
			continue
		}
		o.TargetSet[name] = true
		o.Targets = append(o.Targets, render.Target{
			Cluster:            name,
			ConflictResolution: o.Spec.ConflictResolution,
			Suspend:            ptr.Deref(o.Spec.Suspension.Dispatching, false) || suspended[name],
			Preserve:           ptr.Deref(o.Spec.PreserveResourcesOnDeletion, false),
			ReadySince:         o.Clusters[name].readySince(),
		})
		if own, differs := o.Terms[name]; differs {
			own.adjust(&o.Targets[len(o.Targets)-1])
		}
	}
}

// Holding are the clusters with a Work of the object.
func (o *Observed) Holding() []string {
	clusters := make([]string, 0, len(o.Works))
	for key := range o.Works {
		clusters = append(clusters, render.ClusterOf(key.Namespace))
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// Withdraws reports whether a cluster has a Work to delete now, and is neither named nor
// selected.
func (o *Observed) Withdraws() bool {
	wanted := make(map[string]bool, len(o.Spec.Clusters)+len(o.Selected))
	for i := range o.Spec.Clusters {
		wanted[o.Spec.Clusters[i].Name] = true
	}
	for _, name := range o.Selected {
		wanted[name] = true
	}
	for key, work := range o.Works {
		removal := Removal{Cluster: render.ClusterOf(key.Namespace), Work: work}
		if work.DeletionTimestamp != nil || wanted[removal.Cluster] {
			continue
		}
		if _, waits := o.refused(removal.Slot(), removal.What()); !waits {
			return true
		}
	}
	return false
}

// StateOf is the state of a cluster, and whether it serves a kind.
func StateOf(cluster *clusterv1alpha1.Cluster, exists bool, gvk schema.GroupVersionKind) Cluster {
	if !exists {
		return Cluster{}
	}
	state := Cluster{
		Exists:      true,
		Terminating: cluster.DeletionTimestamp != nil,
		Message:     "the cluster has not reported yet",
		API:         cluster.APIEnablement(gvk),
	}
	if ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady); ready != nil {
		state.Ready = ready.Status == metav1.ConditionTrue
		state.ReadySince = ready.LastTransitionTime.UTC().Format(time.RFC3339)
		state.Message = fmt.Sprintf("%s: %s", ready.Reason, ready.Message)
	}
	return state
}

// CompareKeys orders by namespace, then by name.
func CompareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Claim identifies what a conflict is about. When it changes, all holders are
// checked again.
func (o *Observed) Claim() string {
	return fmt.Sprint(o.Generation, o.Resource.UID, o.Resource.ClaimedBy)
}

// Key is the name of the object.
func (o *Observed) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Owner.Namespace, Name: o.Owner.Name}
}

// rowBefore is the current row of a cluster; nil if it has none.
func (o *Observed) rowBefore(cluster string) *propagationv1alpha1.ClusterStatus {
	if o.Status == nil {
		return nil
	}
	for i := range o.Status.Clusters {
		if o.Status.Clusters[i].Name == cluster {
			return &o.Status.Clusters[i]
		}
	}
	return nil
}

// ResolutionOn is the conflict resolution on a cluster.
func (o *Observed) ResolutionOn(cluster string) propagationv1alpha1.ConflictResolution {
	if own, differs := o.Terms[cluster]; differs {
		return own.Resolution
	}
	return o.Spec.ConflictResolution
}

// Terms are the settings that the requirers of a dependency ask for on one cluster.
type Terms struct {
	Resolution propagationv1alpha1.ConflictResolution
	Suspend    bool
	Preserve   bool
}

func (t Terms) adjust(target *render.Target) {
	target.ConflictResolution, target.Suspend, target.Preserve = t.Resolution, t.Suspend, t.Preserve
}
