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
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// deploymentKind is the only kind whose status has conditions about a change.
var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// deploymentOf returns what is known about a Deployment in addition to what Karmada
// aggregates. All objects that name it find the same, because they look at the same: Works,
// and each other's status as it is stored. Otherwise, they would overwrite what another one
// has written, forever.
func (r *Reconciler) deploymentOf(object cached.Object, observed *decide.Observed, collected *reports) *decide.Deployment {
	found := &decide.Deployment{Missing: r.missing(object, observed, collected), Failure: r.failedRollout(observed)}
	for i := range collected.items {
		work := collected.works[collected.items[i].ClusterName]
		evidence, _ := decide.EvidenceOf(work)
		wanted, _ := render.Replicas(work)
		known := decide.DeploymentOnCluster{Cluster: collected.items[i].ClusterName, Wanted: wanted, Confirmed: evidence == decide.Confirmed}
		// What a cluster has refused does not change what it runs.
		if reported := work.Status.ManifestStatuses; len(reported) > 0 && reported[0].Status != nil {
			known.Report, known.Healthy = reported[0].Status.Raw, reported[0].Health == workv1alpha1.ResourceHealthy
		}
		found.Clusters = append(found.Clusters, known)
	}
	return found
}

// missing returns the clusters that have no Work of a resource, although an object that names
// it says something else about them than that they do not get it.
func (r *Reconciler) missing(object cached.Object, observed *decide.Observed, collected *reports) []string {
	found := map[string]bool{}
	for _, naming := range append(r.othersNaming(observed), object) {
		for i := range naming.GetStatus().Clusters {
			row := &naming.GetStatus().Clusters[i]
			if collected.works[row.Name] == nil && expectsResource(naming.GetSpec(), row) {
				found[row.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// departures returns a function that reports whether a Work is to be removed, but has to wait,
// or cannot be deleted: its owner is gone or being deleted, or names other clusters or another
// resource. Only for clusters that a selector selects, the stored status says so. All objects
// find the same.
func (r *Reconciler) departures(object cached.Object, observed *decide.Observed) func(work *workv1alpha1.Work) bool {
	stays := map[types.NamespacedName]func(cluster string) bool{}
	for _, naming := range append(r.allNaming(observed), object) {
		stays[client.ObjectKeyFromObject(naming)] = staysOn(naming)
	}
	return func(work *workv1alpha1.Work) bool {
		owner := render.OwnerOf(work)
		stay := stays[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}]
		return owner.Kind == r.Kind && (stay == nil || !stay(render.ClusterOf(work.Namespace)))
	}
}

// staysOn returns a function that reports whether an object keeps its resource on a cluster.
func staysOn(object cached.Object) func(cluster string) bool {
	spec, named, departing := object.GetSpec(), map[string]bool{}, map[string]bool{}
	for i := range spec.Clusters {
		named[spec.Clusters[i].Name] = true
	}
	for i := range object.GetStatus().Clusters {
		if row := &object.GetStatus().Clusters[i]; !expectsResource(spec, row) {
			departing[row.Name] = true
		}
	}
	return func(cluster string) bool {
		selects := spec.ClusterSelector != nil && !departing[cluster]
		return object.GetDeletionTimestamp() == nil && (named[cluster] || selects)
	}
}

// expectsResource reports whether a cluster with a row should have the resource. A write that
// fails may be a removal, if the spec does not name the cluster.
func expectsResource(spec *propagationv1alpha1.PropagationSpec, row *propagationv1alpha1.ClusterStatus) bool {
	if row.Reason == propagationv1alpha1.ReasonWriteFailed && spec.ClusterSelector == nil {
		return slices.ContainsFunc(spec.Clusters, func(target propagationv1alpha1.TargetCluster) bool { return target.Name == row.Name })
	}
	return !slices.Contains(withoutResource, row.Reason)
}

// withoutResource are the reasons of clusters that do not get the resource, or lose it.
var withoutResource = []string{propagationv1alpha1.ReasonRemoving, propagationv1alpha1.ReasonRemovalBlocked, propagationv1alpha1.ReasonClusterTainted}

// othersNaming returns the other objects of the same kind that name the resource, and stay.
func (r *Reconciler) othersNaming(observed *decide.Observed) []cached.Object {
	return slices.DeleteFunc(r.allNaming(observed), func(object cached.Object) bool { return object.GetDeletionTimestamp() != nil })
}

// allNaming returns the other objects of the same kind that name the resource.
func (r *Reconciler) allNaming(observed *decide.Observed) []cached.Object {
	reference := observed.Spec.Resource
	named, _ := r.objects(cached.ResourceKey(render.GroupOf(reference.APIVersion), observed.Owner.Namespace, reference.Name)) // cannot fail for an existing index
	var others []cached.Object
	for _, other := range named {
		object, ok := other.(cached.Object)
		if ok && object.GetUID() != observed.Owner.UID && object.GetSpec().Resource.Kind == reference.Kind {
			others = append(others, object)
		}
	}
	return others
}

// settle completes the aggregated status of a Deployment. It returns when to look again; the
// zero time for never.
func (r *Reconciler) settle(template, aggregated *unstructured.Unstructured, collected *reports) (*unstructured.Unstructured, time.Time, error) {
	before, after := &appsv1.Deployment{}, &appsv1.Deployment{}
	for from, to := range map[*unstructured.Unstructured]*appsv1.Deployment{template: before, aggregated: after} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
			return nil, time.Time{}, fmt.Errorf("reading Deployment %s/%s: %w", from.GetNamespace(), from.GetName(), err)
		}
	}
	for i := range collected.items {
		if item := &collected.items[i]; collected.cut[item.ClusterName] != nil && item.Status != nil {
			collected.deployment.Clusters[i].Report = item.Status.Raw // the cache has a hash in its place
		}
	}
	deadline := collected.deployment.Settle(before, after, r.Clock.Now())
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&after.Status)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("encoding the status of Deployment %s/%s: %w", aggregated.GetNamespace(), aggregated.GetName(), err)
	}
	aggregated.Object["status"] = status
	return aggregated, deadline, nil
}

// failedRollout returns which rollout of a Deployment has failed; empty if none has.
func (r *Reconciler) failedRollout(observed *decide.Observed) string {
	failed := ""
	consider := func(name string, status *propagationv1alpha1.RolloutStatus) {
		if status == nil || !hasFailed(status) {
			return
		}
		found := fmt.Sprintf("the rollout of revision %s by %s %s has failed", status.FailedRevision, r.Kind, name)
		if failed == "" || found < failed {
			failed = found
		}
	}
	if observed.Rollout != nil && observed.Rollout.Status != nil {
		consider(observed.Owner.Name, observed.Rollout.Status.API())
	}
	for _, other := range r.othersNaming(observed) {
		consider(other.GetName(), other.GetStatus().Rollout)
	}
	return failed
}

// hasFailed reports whether the requested revision has failed and nothing more happens.
func hasFailed(status *propagationv1alpha1.RolloutStatus) bool {
	return status.FailedRevision != "" && status.FailedRevision == status.UpdateRevision &&
		(status.Phase == propagationv1alpha1.RolloutPhaseFailed || status.Phase == propagationv1alpha1.RolloutPhaseRolledBack)
}
