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

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// deploymentKind is the only kind whose status has conditions about a change.
var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// deploymentOf returns what is known about a Deployment in addition to what its clusters
// report. All objects that name it find the same, so that they do not overwrite each other's
// status.
func (r *Reconciler) deploymentOf(observed *decide.Observed, collected *reports) *decide.Deployment {
	found := &decide.Deployment{Missing: r.missing(observed, collected), Failure: r.failedRollout(observed)}
	for i := range collected.items {
		item := &collected.items[i]
		work := collected.works[item.ClusterName]
		evidence, _ := decide.EvidenceOf(work)
		wanted, _ := render.Replicas(work)
		found.Clusters = append(found.Clusters, decide.DeploymentOnCluster{
			Cluster: item.ClusterName, Wanted: wanted, Confirmed: evidence == decide.Confirmed, Healthy: item.Health == workv1alpha2.ResourceHealthy,
		})
	}
	return found
}

// missing returns the clusters that should have a resource, according to any object that
// names it, and have no Work of it.
func (r *Reconciler) missing(observed *decide.Observed, collected *reports) []string {
	found := map[string]bool{}
	consider := func(cluster string) {
		if collected.works[cluster] == nil {
			found[cluster] = true
		}
	}
	for i := range observed.Targets {
		consider(observed.Targets[i].Cluster)
	}
	for _, other := range r.othersNaming(observed) {
		for i := range other.GetStatus().Clusters {
			if row := &other.GetStatus().Clusters[i]; row.Reason != propagationv1alpha1.ReasonRemoving && row.Reason != propagationv1alpha1.ReasonClusterTainted {
				consider(row.Name)
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// othersNaming returns the other objects of the same kind that name the resource.
func (r *Reconciler) othersNaming(observed *decide.Observed) []cached.Object {
	reference := observed.Spec.Resource
	named, _ := r.objects(cached.ResourceKey(render.GroupOf(reference.APIVersion), observed.Owner.Namespace, reference.Name)) // cannot fail for an existing index
	var others []cached.Object
	for _, other := range named {
		object, ok := other.(cached.Object)
		if ok && object.GetUID() != observed.Owner.UID && object.GetSpec().Resource.Kind == reference.Kind && object.GetDeletionTimestamp() == nil {
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
		item := &collected.items[i]
		cluster := &collected.deployment.Clusters[i]
		cluster.Healthy = item.Health == workv1alpha2.ResourceHealthy
		if item.Status != nil {
			cluster.Report = item.Status.Raw
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
