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

// Observed is all that a decision rests on.
type Observed struct {
	Now          time.Time
	Owner        render.Owner
	Generation   int64
	Spec         *propagationv1alpha1.PropagationSpec
	Status       *propagationv1alpha1.PropagationStatus
	Deleting     bool
	HasFinalizer bool
	// Vanished: the object is gone, with or without its finalizer, and only its
	// Works are left to speak of it.
	Vanished bool
	// Abandon lets go of clusters that are not Ready.
	Abandon bool
	// Retry is the user's request to attempt what clusters refuse; a new value is
	// a new request.
	Retry string
	// Terms are, by cluster, what those ask for who require a dependency; nil when
	// the spec says it all.
	Terms map[string]Terms
	// Kept are the clusters that a dependency leaves and where it stays.
	Kept map[string]struct{}

	Resource Resource
	// Dependencies says how the resources fare that follow this one.
	Dependencies *propagationv1alpha1.Dependencies
	// Selected are the clusters that the selector of the spec matches.
	Selected []string
	// Targets has an entry per cluster that is to get the resource: those that
	// the spec names, in its order, and those that it selects.
	Targets   []render.Target
	TargetSet map[string]bool
	// workName is the name of the wanted Works, the same on every cluster.
	// Karmada's hash in it takes microseconds, and is asked for many times.
	workName string
	// identity tells the named resource from others whose Works have that name.
	identity string
	// Clusters has the state of every cluster that is named or has a Work.
	Clusters map[string]Cluster
	// Works are the compact Works of the object.
	Works map[types.NamespacedName]*workv1alpha1.Work
	// Lost says, by cluster, when somebody else has deleted the Work that the
	// object wants.
	Lost map[string]time.Time
	// Holders says, by cluster, who else holds the Work that the object wants.
	Holders map[string]string
	// ConflictPoll is when to look again at Works that somebody else holds.
	ConflictPoll time.Duration
	// Setbacks are, by slot, the writes that the API server refused last.
	Setbacks map[string]Setback
	// Denials says, by cluster, why nothing new may travel there.
	Denials map[string]Denial
}

// Cluster is the state of a member cluster.
type Cluster struct {
	Exists      bool
	Terminating bool
	Ready       bool
	// ReadySince is since when Ready is what it is, RFC 3339.
	ReadySince string
	// Message is what Karmada says of the cluster when it is not Ready.
	Message string
	// API tells whether the cluster serves the kind of the resource.
	API clusterv1alpha1.APIEnablementStatus
}

// After returns a copy with the Works as they have just been written, and with how
// the dependencies fare.
func (o *Observed) After(works map[types.NamespacedName]*workv1alpha1.Work, dependencies *propagationv1alpha1.Dependencies) *Observed {
	later := *o
	later.Works, later.Dependencies = works, dependencies
	return &later
}

// WorkKey names the Work of the resource on a cluster.
func (o *Observed) WorkKey(cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: names.GenerateExecutionSpaceName(cluster), Name: o.workName}
}

// Work is the Work of the resource on a cluster, nil when there is none.
func (o *Observed) Work(cluster string) *workv1alpha1.Work {
	return o.Works[o.WorkKey(cluster)]
}

// Targeted tells whether a cluster is to get the resource.
func (o *Observed) Targeted(cluster string) bool { return o.TargetSet[cluster] }

// surplus are the Works that are not, or no longer, wanted.
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

// Target says what the Work of each target cluster has of its own.
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
			ReadySince:         o.Clusters[name].ReadySince,
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

// Claim is what a conflict is about: when it changes, all holders are looked at.
func (o *Observed) Claim() string {
	return fmt.Sprint(o.Generation, o.Resource.UID, o.Resource.ClaimedBy)
}

// Key is the name of the object.
func (o *Observed) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Owner.Namespace, Name: o.Owner.Name}
}

// rowBefore is what the status says of a cluster so far; nil when it says nothing.
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

// ResolutionOn is what becomes of a conflict on a cluster.
func (o *Observed) ResolutionOn(cluster string) propagationv1alpha1.ConflictResolution {
	if own, differs := o.Terms[cluster]; differs {
		return own.Resolution
	}
	return o.Spec.ConflictResolution
}

// Terms are what the requirers of a dependency ask for on one cluster.
type Terms struct {
	Resolution propagationv1alpha1.ConflictResolution
	Suspend    bool
	Preserve   bool
}

func (t Terms) adjust(target *render.Target) {
	target.ConflictResolution, target.Suspend, target.Preserve = t.Resolution, t.Suspend, t.Preserve
}
