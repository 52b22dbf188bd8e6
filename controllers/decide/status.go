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
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/rollout"
)

// NewStatus builds the status after a plan was carried out. It is pure: it reads
// nothing but its arguments.
func NewStatus(observed *Observed, result *Outcome) *propagationv1alpha1.PropagationStatus {
	status, _ := StatusAndRows(observed, result)
	return status
}

// StatusAndRows also returns the rows of all clusters. The status has only as many
// as the API accepts, the worst first.
func StatusAndRows(observed *Observed, result *Outcome) (*propagationv1alpha1.PropagationStatus, []propagationv1alpha1.ClusterStatus) {
	rows := make([]propagationv1alpha1.ClusterStatus, 0, len(observed.Targets))
	for _, target := range observed.Targets {
		rows = append(rows, targetRow(observed, result, target))
	}
	status := &propagationv1alpha1.PropagationStatus{
		ObservedGeneration: ptr.To(observed.Generation),
		Summary:            summarize(rows),
		Dependencies:       observed.Dependencies,
		Rollout:            observed.rolloutStatus(),
	}
	targets := len(rows)
	rows = append(rows, removalRows(observed, result)...)
	if observed.Deleting {
		status.Summary = summarize(rows)
	}
	status.Conditions = conditionsOf(observed, rows[:targets], rows[targets:])
	rows = append(rows, leftOutRows(observed, rows[targets:])...)
	status.Clusters, status.Omitted = bounded(observed, rows)
	return status, rows
}

// summarize counts rows.
func summarize(rows []propagationv1alpha1.ClusterStatus) *propagationv1alpha1.Summary {
	var applied, healthy, failed, pending, unreachable int32
	for i := range rows {
		switch {
		case rows[i].Applied == metav1.ConditionTrue:
			applied++
			if rows[i].Health == propagationv1alpha1.HealthHealthy {
				healthy++
			}
		case rows[i].Applied == metav1.ConditionFalse:
			failed++
		case rows[i].Reason == propagationv1alpha1.ReasonClusterNotReady, rows[i].Reason == propagationv1alpha1.ReasonRemovalBlocked:
			unreachable++
		default:
			pending++
		}
	}
	return &propagationv1alpha1.Summary{
		Progress: fmt.Sprintf("%d/%d", healthy, len(rows)), Clusters: ptr.To(int32(len(rows))), //nolint:gosec // bounded by the schema
		Applied: &applied, Healthy: &healthy, Failed: &failed, Pending: &pending, Unreachable: &unreachable,
	}
}

// conditionsOf summarizes the rows.
func conditionsOf(observed *Observed, targets, removals []propagationv1alpha1.ClusterStatus) []metav1.Condition {
	conditions := slices.Clone(observed.Status.Conditions)
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: legible.Fit(message, legible.MaxNote),
			ObservedGeneration: observed.Generation, LastTransitionTime: metav1.NewTime(observed.Now),
		})
	}
	ready, reason, message := verdict(observed, targets, removals)
	set(propagationv1alpha1.ConditionReady, ready, reason, message)

	problem, rolls := observed.Resource.Problem, observed.report()
	stalled := problem != nil && problem.Stalled && !observed.Deleting || rolls.Stalled
	switch {
	case stalled:
		if rolls.Stalled {
			reason, message = rolls.Reason, rolls.Message
		}
		set(propagationv1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
		meta.RemoveStatusCondition(&conditions, propagationv1alpha1.ConditionReconciling)
	case ready != metav1.ConditionTrue:
		set(propagationv1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	case rolls.Reason != "":
		// A stage is observed, or waits for an approval.
		set(propagationv1alpha1.ConditionReconciling, metav1.ConditionTrue, rolls.Reason, rolls.Message)
	case len(removals) > 0:
		set(propagationv1alpha1.ConditionReconciling, metav1.ConditionTrue, worst(removals).Reason, withdrawals(removals))
	case len(observed.surplus()) > 0:
		set(propagationv1alpha1.ConditionReconciling, metav1.ConditionTrue, propagationv1alpha1.ReasonRemoving, "the resource named before is being removed")
	default:
		meta.RemoveStatusCondition(&conditions, propagationv1alpha1.ConditionReconciling)
	}
	if !stalled {
		meta.RemoveStatusCondition(&conditions, propagationv1alpha1.ConditionStalled)
	}
	return conditions
}

// verdict is the Ready condition.
func verdict(observed *Observed, targets, removals []propagationv1alpha1.ClusterStatus) (status metav1.ConditionStatus, reason, message string) {
	if observed.Deleting {
		return metav1.ConditionFalse, propagationv1alpha1.ReasonDeleting, withdrawals(removals)
	}
	if problem := observed.Resource.Problem; problem != nil {
		if problem.Err != nil {
			return metav1.ConditionUnknown, problem.Reason, problem.Message
		}
		return metav1.ConditionFalse, problem.Reason, problem.Message
	}
	if len(targets) == 0 {
		return metav1.ConditionFalse, propagationv1alpha1.ReasonNoClusterSelected, noCluster(observed)
	}
	// A cluster that is fine, but suspended, explains nothing.
	trouble := slices.DeleteFunc(slices.Clone(targets), func(row propagationv1alpha1.ClusterStatus) bool {
		return row.Applied == metav1.ConditionTrue && row.Health == propagationv1alpha1.HealthHealthy
	})
	good, rolls := len(targets)-len(trouble), observed.report()
	// Clusters may recover after too many have failed. The rollout does not go on by itself.
	if len(trouble) == 0 && !rolls.Stalled {
		return metav1.ConditionTrue, propagationv1alpha1.ReasonPropagated,
			fmt.Sprintf("%s confirmed %s and reports it healthy%s", everyCluster(len(targets)), revisionsOf(targets), leftOut(len(observed.LeftOut)))
	}
	if len(trouble) == 0 {
		trouble = targets
	}
	bad := worst(trouble)
	if rolls.Stalled || rolls.Reason != "" && !ReasonNamed(bad.Reason).Trouble {
		return metav1.ConditionFalse, rolls.Reason, fmt.Sprintf("%d of %d clusters ready; %s", good, len(targets), rolls.Message)
	}
	return metav1.ConditionFalse, bad.Reason, fmt.Sprintf("%d of %d clusters ready; %s: %s", good, len(targets), bad.Name, bad.Message)
}

// leftOut says how many of the selected clusters are left out.
func leftOut(count int) string {
	switch count {
	case 0:
		return ""
	case 1:
		return "; 1 selected cluster is left out because of a taint"
	}
	return fmt.Sprintf("; %d selected clusters are left out because of taints", count)
}

// noCluster explains why the selector selects no cluster.
func noCluster(observed *Observed) string {
	if len(observed.LeftOut) == 0 {
		return "no Cluster matches spec.clusterSelector; label one, or correct the selector"
	}
	clusters := slices.Sorted(maps.Keys(observed.LeftOut))
	return fmt.Sprintf("every Cluster that spec.clusterSelector matches has a taint that spec.clusterTolerations does not tolerate: %s; remove the taint of one, or tolerate it",
		rollout.Listed(clusters, len(clusters)))
}

func everyCluster(count int) string {
	if count == 1 {
		return "the cluster has"
	}
	return fmt.Sprintf("each of %d clusters has", count)
}

// revisionsOf names the revision that rows have in common, if they do.
func revisionsOf(rows []propagationv1alpha1.ClusterStatus) string {
	for i := range rows {
		if rows[i].Revision != rows[0].Revision {
			return "its own revision"
		}
	}
	return "revision " + rows[0].Revision
}

// withdrawals reports how many clusters are still to be cleaned up.
func withdrawals(removals []propagationv1alpha1.ClusterStatus) string {
	if len(removals) == 0 {
		return "every cluster is cleaned up"
	}
	bad := worst(removals)
	clusters := "1 cluster"
	if len(removals) > 1 {
		clusters = fmt.Sprintf("%d clusters", len(removals))
	}
	return fmt.Sprintf("%s still to be cleaned up; %s: %s", clusters, bad.Name, bad.Message)
}
