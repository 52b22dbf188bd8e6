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
	"strings"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// row builds the row of a cluster. It shortens the message to what the API accepts.
func row(name string, applied metav1.ConditionStatus, reason, message string) propagationv1alpha1.ClusterStatus {
	return propagationv1alpha1.ClusterStatus{
		Name: name, Applied: applied, Health: propagationv1alpha1.HealthUnknown, Reason: reason, Message: legible.ForRow(message),
	}
}

// targetRow is the row of a cluster that the spec names.
func targetRow(observed *Observed, result *Outcome, target render.Target) propagationv1alpha1.ClusterStatus {
	work := observed.Work(target.Cluster)
	current := rowOf(observed, result, target, work)
	// A Work that the object does not own says nothing about what the object sent.
	if work != nil && current.Revision == "" && render.OwnerOf(work).UID == observed.Owner.UID {
		current.Revision = observed.confirmedOn(target.Cluster, work)
	}
	if work == nil && current.Revision == "" && observed.isRestored(&current) {
		current.Revision = observed.rowBefore(target.Cluster).Revision
	}
	if failure := result.Failures[target.Cluster]; failure != nil && current.Reason != propagationv1alpha1.ReasonWriteFailed {
		current.Message = legible.ForRow(current.Message + "; the Work could not be written: " + failure.Error())
	}
	return observed.inRollout(current)
}

// isRestored reports whether the Work of a cluster is about to be written again, with the
// resource that its row was about before.
func (o *Observed) isRestored(current *propagationv1alpha1.ClusterStatus) bool {
	before := o.rowBefore(current.Name)
	return before != nil && !ReasonNamed(before.Reason).departing && ptr.Deref(o.Status.ObservedGeneration, 0) == o.Generation &&
		(current.Reason == propagationv1alpha1.ReasonApplying || current.Reason == propagationv1alpha1.ReasonWriteFailed)
}

func rowOf(observed *Observed, result *Outcome, target render.Target, work *workv1alpha1.Work) propagationv1alpha1.ClusterStatus {
	name, cluster, rendering := target.Cluster, observed.Clusters[target.Cluster], observed.Resource.On(target.Cluster)
	holder := cmp.Or(result.Holders[name], observed.Holders[name])
	denial, denied := observed.Denials[name]
	switch {
	case !cluster.Exists:
		return row(name, metav1.ConditionFalse, propagationv1alpha1.ReasonClusterNotFound,
			fmt.Sprintf("no Cluster %s is registered with Karmada; register it, or take it off spec.clusters", name))
	case cluster.Terminating:
		return row(name, metav1.ConditionFalse, propagationv1alpha1.ReasonClusterTerminating, "the cluster is being unregistered from Karmada")
	case holder != "":
		return row(name, metav1.ConditionFalse, propagationv1alpha1.ReasonConflict,
			fmt.Sprintf("%s %s is already propagated to this cluster by %s; this object takes over when that owner releases it", observed.Spec.Resource.Kind, observed.Spec.Resource.Name, holder))
	case denied:
		return row(name, denial.applied(), denial.Reason, denial.Message)
	case !cluster.Ready:
		return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonClusterNotReady, "Karmada has no contact with the cluster: "+cluster.Message)
	case rendering.Held:
		return row(name, metav1.ConditionUnknown, rendering.Reason, rendering.Message)
	case rendering.Reason != "":
		return row(name, metav1.ConditionFalse, rendering.Reason, rendering.Message)
	case result.Failures[name] != nil:
		return row(name, unknownUnlessNew(work), propagationv1alpha1.ReasonWriteFailed, result.Failures[name].Error())
	case work == nil && restores(observed, name) > 0 && observed.isRenderable():
		return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonApplying, "the Work was deleted; it is restored within three seconds")
	case work == nil:
		return absentRow(observed, cluster, name)
	case observed.holdsAnother(work):
		return anotherRow(observed, cluster, name, work)
	case work.DeletionTimestamp != nil:
		return endingRow(observed, name, work)
	}
	return workRow(observed, target, work)
}

// endingRow is the row of a cluster whose Work is being deleted.
func endingRow(observed *Observed, name string, work *workv1alpha1.Work) propagationv1alpha1.ClusterStatus {
	message := "the Work is being deleted; it is restored when that is done"
	switch {
	case !observed.isRenderable():
		message = "the Work is being deleted; it is written again only when the resource can be propagated again"
	case wasReplaced(work):
		message = "the cluster has the object of the deleted resource and cannot change it into the new one; it is deleted there and created anew"
	}
	return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonApplying, message)
}

// wasReplaced reports whether a Work is being deleted so that the cluster gets the
// object of the re-created resource.
func wasReplaced(work *workv1alpha1.Work) bool {
	supersedes, replaceable := render.Supersedes(work)
	return work.DeletionTimestamp != nil && supersedes && replaceable
}

// anotherRow is the row of a cluster whose Work still holds the previously named
// resource.
func anotherRow(observed *Observed, cluster Cluster, name string, work *workv1alpha1.Work) propagationv1alpha1.ClusterStatus {
	if observed.Resource.Problem != nil {
		return absentRow(observed, cluster, name)
	}
	message := "the resource that was named before is removed from the cluster first"
	if work.DeletionTimestamp == nil {
		message = "the resource that was named before has the same Work; it is about to be removed from the cluster"
	}
	return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonApplying, message)
}

func unknownUnlessNew(work *workv1alpha1.Work) metav1.ConditionStatus {
	if work == nil {
		return metav1.ConditionFalse
	}
	return metav1.ConditionUnknown
}

// absentRow is the row of a cluster that has no Work.
func absentRow(observed *Observed, cluster Cluster, name string) propagationv1alpha1.ClusterStatus {
	problem := observed.Resource.Problem
	switch {
	case problem != nil && (problem.Reason == propagationv1alpha1.ReasonResourceNotFound || problem.Reason == propagationv1alpha1.ReasonForbidden):
		return row(name, metav1.ConditionFalse, problem.Reason, problem.Message)
	case problem == nil && cluster.API == clusterv1alpha1.APIDisabled:
		return row(name, metav1.ConditionFalse, propagationv1alpha1.ReasonAPINotEnabled,
			fmt.Sprintf("the cluster does not serve %s %s; install it there", observed.Spec.Resource.APIVersion, observed.Spec.Resource.Kind))
	default:
		return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonApplying, "the Work is not written yet")
	}
}

// workRow is the row of a cluster according to what its Work proves.
func workRow(observed *Observed, target render.Target, work *workv1alpha1.Work) propagationv1alpha1.ClusterStatus {
	name := target.Cluster
	proof, applied := EvidenceOf(work)
	if observed.isRenderable() && (render.Revision(work) != observed.Resource.On(name).Revision || render.IsEdited(work)) {
		return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonApplying, "the current revision is not written yet")
	}
	switch {
	case render.IsEdited(work):
		return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonApplying, "somebody has edited the manifest in the Work; it is corrected as soon as the resource can be propagated again")
	case proof == Confirmed:
		return confirmedRow(observed, target, work)
	case target.Suspend && isHeldBack(work):
		return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonSuspended, "propagation to the cluster is suspended; the current revision waits")
	case observed.refuses(name, work):
		return row(name, metav1.ConditionFalse, propagationv1alpha1.ReasonApplyFailed, refusal(observed, work, applied.Message))
	case proof == recreated:
		return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonApplying, "the object was deleted on the cluster and Karmada has re-created it; waiting for the cluster to confirm the current revision")
	case proof == unanswered:
		return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonApplying, "Karmada's request to the cluster took so long that the cluster may not have answered; it is repeated until the cluster confirms the current revision")
	default:
		return row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonApplying, "waiting for the cluster to confirm the current revision")
	}
}

// isHeldBack reports whether Karmada leaves the object of a Work alone.
func isHeldBack(work *workv1alpha1.Work) bool { return ptr.Deref(work.Spec.SuspendDispatching, false) }

// confirmedRow is the row of a cluster that has confirmed the content of its Work.
func confirmedRow(observed *Observed, target render.Target, work *workv1alpha1.Work) propagationv1alpha1.ClusterStatus {
	confirmed := row(target.Cluster, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
	confirmed.Health = healthOf(observed, work)
	confirmed.Revision = render.Revision(work)
	switch {
	case confirmed.Health == propagationv1alpha1.HealthUnhealthy:
		confirmed.Reason = propagationv1alpha1.ReasonUnhealthy
		confirmed.Message = legible.ForRow(notHealthy(work))
	case confirmed.Health == propagationv1alpha1.HealthUnknown:
		confirmed.Reason = propagationv1alpha1.ReasonHealthUnknown
		confirmed.Message = "the cluster runs the current revision and has not reported its health yet"
	case target.Suspend && isHeldBack(work):
		confirmed.Reason = propagationv1alpha1.ReasonSuspended
		confirmed.Message = "the cluster runs the current revision; changes are held back while propagation is suspended"
	}
	return confirmed
}

// removalRows are the rows of clusters that still have to be cleaned up.
func removalRows(observed *Observed, result *Outcome) []propagationv1alpha1.ClusterStatus {
	rows, last := []propagationv1alpha1.ClusterStatus{}, ""
	for _, key := range observed.surplus() {
		// A named cluster already has a row, for its new resource.
		if name := render.ClusterOf(key.Namespace); !observed.Targeted(name) && name != last {
			rows = append(rows, removalRow(observed, result, key, name))
			last = name
		}
	}
	return rows
}

func removalRow(observed *Observed, result *Outcome, key types.NamespacedName, name string) propagationv1alpha1.ClusterStatus {
	work, cluster := observed.Works[key], observed.Clusters[name]
	current := row(name, metav1.ConditionUnknown, propagationv1alpha1.ReasonRemoving, "the resource is being removed from the cluster")
	if ptr.Deref(observed.Spec.PreserveResourcesOnDeletion, false) {
		current.Message = "the resource stays on the cluster; its Work is being removed"
	}
	if cluster.Exists && !cluster.Ready && !cluster.Terminating {
		current.Reason = propagationv1alpha1.ReasonRemovalBlocked
		current.Message = legible.ForRow("the resource is removed when Karmada reaches the cluster again: " + cluster.Message)
	}
	if failure := result.Failures[name]; failure != nil {
		current.Reason, current.Message = propagationv1alpha1.ReasonWriteFailed, legible.ForRow(failure.Error())
	}
	current.Revision = observed.confirmedOn(name, work)
	return current
}

// saysTheSame reports whether a row is not a transition from an older one. The wait
// for a report on the health of a revision starts again with each revision.
func saysTheSame(old, row *propagationv1alpha1.ClusterStatus) bool {
	return old.Applied == row.Applied && old.Health == row.Health && old.Reason == row.Reason &&
		(row.Reason != propagationv1alpha1.ReasonHealthUnknown || old.Revision == row.Revision)
}

func compareRows(a, b propagationv1alpha1.ClusterStatus) int {
	return cmp.Or(cmp.Compare(ranks[a.Reason], ranks[b.Reason]), strings.Compare(a.Name, b.Name))
}

// bounded sorts the rows, cuts them to the number that the API accepts, and keeps
// the transition time of those that have not changed.
func bounded(observed *Observed, rows []propagationv1alpha1.ClusterStatus) (kept []propagationv1alpha1.ClusterStatus, omitted *int32) {
	slices.SortFunc(rows, compareRows)
	if over := len(rows) - propagationv1alpha1.MaxClusterRows; over > 0 {
		omitted = ptr.To(int32(over)) //nolint:gosec // bounded by the schema
		rows = rows[:propagationv1alpha1.MaxClusterRows]
	}
	before := make(map[string]*propagationv1alpha1.ClusterStatus, len(observed.Status.Clusters))
	for i := range observed.Status.Clusters {
		before[observed.Status.Clusters[i].Name] = &observed.Status.Clusters[i]
	}
	for i := range rows {
		if old := before[rows[i].Name]; old != nil && saysTheSame(old, &rows[i]) {
			rows[i].LastTransitionTime = old.LastTransitionTime
		} else {
			rows[i].LastTransitionTime = metav1.NewTime(observed.Now).Rfc3339Copy()
		}
	}
	return rows, omitted
}

// worst returns the row that explains best what is wrong.
func worst(rows []propagationv1alpha1.ClusterStatus) propagationv1alpha1.ClusterStatus {
	return slices.MinFunc(rows, compareRows)
}
