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
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

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
	Terms map[string]terms
	// Kept are the clusters that a dependency leaves and where it stays.
	Kept map[string]struct{}

	Resource Resource
	// Dependencies says how the resources fare that follow this one.
	Dependencies *propagationv1alpha1.Dependencies
	// Selected are the clusters that the selector of the spec matches.
	Selected []string
	// Targets has an entry per cluster that is to get the resource: those that
	// the spec names, in its order, and those that it selects.
	Targets []render.Target
	targets map[string]bool
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

// after returns a copy with the Works as they have just been written, and with how
// the dependencies fare.
func (o *Observed) after(works map[types.NamespacedName]*workv1alpha1.Work, dependencies *propagationv1alpha1.Dependencies) *Observed {
	later := *o
	later.Works, later.Dependencies = works, dependencies
	return &later
}

func (o *Observed) workKey(cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: names.GenerateExecutionSpaceName(cluster), Name: o.workName}
}

// work is the Work of the resource on a cluster, nil when there is none.
func (o *Observed) work(cluster string) *workv1alpha1.Work {
	return o.Works[o.workKey(cluster)]
}

// targeted tells whether a cluster is to get the resource.
func (o *Observed) targeted(cluster string) bool { return o.targets[cluster] }

// surplus are the Works that are not, or no longer, wanted.
func (o *Observed) surplus() []types.NamespacedName {
	keys := []types.NamespacedName{}
	for key := range o.Works {
		if cluster := clusterOf(key.Namespace); !o.targeted(cluster) || o.workKey(cluster) != key {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// observe reads all that a decision rests on. Reads that fail become part of
// what was observed where only a part of the object depends on them, and an
// error where all of it does.
//
// It also returns the means to render what was observed; nil when only the
// revisions were needed and known.
func (r *Reconciler) observe(ctx context.Context, object Object, full bool) (*Observed, *renderer, error) {
	observed := &Observed{
		Now:          r.Clock.Now(),
		Owner:        r.ownerOf(object),
		Generation:   object.GetGeneration(),
		Spec:         object.GetSpec(),
		Status:       object.GetStatus(),
		Deleting:     object.GetDeletionTimestamp() != nil,
		HasFinalizer: controllerutil.ContainsFinalizer(object, propagationv1alpha1.CleanupFinalizer),
		Abandon:      object.GetAnnotations()[propagationv1alpha1.AbandonUnreachableAnnotation] == "true",
		Retry:        object.GetAnnotations()[propagationv1alpha1.RetryAnnotation],
		Setbacks:     r.memories.of(client.ObjectKeyFromObject(object)).refused(),
		Clusters:     map[string]Cluster{},
		Holders:      map[string]string{},
		Lost:         map[string]time.Time{},
	}
	if dependency, ok := object.(*dependencyObject); ok {
		observed.Terms, observed.Kept = dependency.terms, dependency.kept
	}
	var err error
	if observed.Works, err = r.observeWorks(observed.Owner); err != nil {
		return nil, nil, err
	}
	var problem *Problem
	if !observed.Deleting {
		if problem, err = r.observeSelection(ctx, observed); err != nil {
			return nil, nil, err
		}
	}
	if err := r.observeClusters(ctx, observed); err != nil {
		return nil, nil, err
	}
	if observed.Deleting {
		return observed, nil, nil
	}
	observed.target()
	if problem != nil {
		observed.Resource.Problem = problem
		return observed, nil, nil
	}
	var means *renderer
	observed.Resource, means = r.observeResource(ctx, object, observed, full)
	if err := r.observeHolders(ctx, observed); err != nil {
		return nil, nil, err
	}
	r.observePermissions(ctx, object, observed)
	return observed, means, nil
}

// observeSelection finds the clusters that the selector of the spec matches.
// With a selector that is none, all that has a Work stays a target, so that a
// mistake withdraws nothing.
func (r *Reconciler) observeSelection(ctx context.Context, observed *Observed) (*Problem, error) {
	if observed.Spec.ClusterSelector == nil {
		return nil, nil //nolint:nilnil // no selector is no problem
	}
	selector, err := metav1.LabelSelectorAsSelector(observed.Spec.ClusterSelector)
	if err != nil {
		observed.Selected = observed.holding()
		return &Problem{
			Reason: propagationv1alpha1.ReasonClusterSelectorInvalid, Message: fmt.Sprintf("spec.clusterSelector: %v", err), Stalled: true,
		}, nil
	}
	list := &clusterv1alpha1.ClusterList{}
	matching := client.MatchingLabelsSelector{Selector: selector}
	if err := r.Client.List(ctx, list, matching, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Clusters that spec.clusterSelector selects: %w", err)
	}
	if len(list.Items) == 0 && len(observed.Works) > 0 {
		// Before all is withdrawn, the API server is asked whether it means it.
		if err := r.Live.List(ctx, list, matching); err != nil {
			return nil, fmt.Errorf("listing the Clusters that spec.clusterSelector selects: %w", err)
		}
	}
	for i := range list.Items {
		observed.Selected = append(observed.Selected, list.Items[i].Name)
	}
	slices.Sort(observed.Selected)
	return nil, nil //nolint:nilnil // nor is a good one
}

// holding are the clusters with a Work of the object.
func (o *Observed) holding() []string {
	clusters := make([]string, 0, len(o.Works))
	for key := range o.Works {
		clusters = append(clusters, clusterOf(key.Namespace))
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// observeWorks lists the Works of an owner, with what this process wrote and
// the cache has not shown yet.
func (r *Reconciler) observeWorks(owner render.Owner) (map[types.NamespacedName]*workv1alpha1.Work, error) {
	works, err := r.worksOf(ownerUIDKey(owner.UID), ownerKey(owner))
	if err != nil {
		return nil, fmt.Errorf("finding the Works of %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	r.ledger.amend(owner.UID, works)
	for key, work := range works {
		if takenOver(work) != "" {
			// It is theirs now.
			delete(works, key)
		}
	}
	return works, nil
}

func (r *Reconciler) observeClusters(ctx context.Context, observed *Observed) error {
	gvk := schema.FromAPIVersionAndKind(observed.Spec.Resource.APIVersion, observed.Spec.Resource.Kind)
	observe := func(name string) error {
		if _, done := observed.Clusters[name]; done {
			return nil
		}
		cluster := &clusterv1alpha1.Cluster{}
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, cluster)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading Cluster %s: %w", name, err)
		}
		observed.Clusters[name] = stateOf(cluster, err == nil, gvk)
		return nil
	}
	for i := range observed.Spec.Clusters {
		if err := observe(observed.Spec.Clusters[i].Name); err != nil {
			return err
		}
	}
	for _, name := range observed.Selected {
		if err := observe(name); err != nil {
			return err
		}
	}
	for key := range observed.Works {
		if err := observe(clusterOf(key.Namespace)); err != nil {
			return err
		}
	}
	return nil
}

func stateOf(cluster *clusterv1alpha1.Cluster, exists bool, gvk schema.GroupVersionKind) Cluster {
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

// target says what the Work of each target cluster has of its own.
func (o *Observed) target() {
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
	o.targets = make(map[string]bool, cap(clusters))
	for _, name := range append(clusters, o.Selected...) {
		if o.targets[name] {
			continue
		}
		o.targets[name] = true
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

// isExecutionSpace reports whether Karmada keeps a namespace for the Works of a
// cluster.
func isExecutionSpace(namespace string) bool {
	return strings.HasPrefix(namespace, names.ExecutionSpacePrefix)
}

func clusterOf(namespace string) string {
	return strings.TrimPrefix(namespace, names.ExecutionSpacePrefix)
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
