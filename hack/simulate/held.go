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

package simulate

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// heldAt returns the revision that a rollout leaves on a cluster instead of the requested
// one; nil if it leaves none.
func heldAt(object cached.Object, cluster string) *string {
	status := object.GetStatus()
	if status.Rollout == nil {
		return nil
	}
	for i := range status.Clusters {
		row := &status.Clusters[i]
		if row.Name == cluster && row.Rollout != nil && row.Rollout.AssignedRevision != status.Rollout.UpdateRevision {
			return &row.Rollout.AssignedRevision
		}
	}
	return nil
}

// isOpen reports whether the rollout of an object has not reached every cluster.
func isOpen(object cached.Object) bool {
	status := object.GetStatus().Rollout
	return status != nil && status.Phase != propagationv1alpha1.RolloutPhaseCompleted
}

// mayStop returns why a rollout need not go on; empty if it must.
func (w *World) mayStop(ctx context.Context, object cached.Object) string {
	status, spec := object.GetStatus().Rollout, object.GetSpec()
	switch status.Phase {
	case propagationv1alpha1.RolloutPhaseFailed, propagationv1alpha1.RolloutPhaseRolledBack, propagationv1alpha1.RolloutPhaseStateLost:
		return "it has ended"
	}
	if ptr.Deref(status.Paused, false) || spec.Rollout != nil && ptr.Deref(spec.Rollout.Paused, false) {
		return "it is paused"
	}
	if awaitsApproval(object) {
		return "nobody has approved the stage"
	}
	for i := range object.GetStatus().Clusters {
		row := &object.GetStatus().Clusters[i]
		good := row.Applied == metav1.ConditionTrue && row.Health == propagationv1alpha1.HealthHealthy
		if isSuspended(spec, row.Name) || !w.isReady(ctx, row.Name) || !good && row.Reason != propagationv1alpha1.ReasonWaiting {
			return "not all is well on " + row.Name
		}
	}
	if len(w.truth.desired.targets(object)) == 0 {
		return "there are no clusters"
	}
	return ""
}

// awaitsApproval reports whether the stage needs an approval that nobody has given.
func awaitsApproval(object cached.Object) bool {
	status, spec := object.GetStatus().Rollout, object.GetSpec().Rollout
	if spec == nil {
		return false
	}
	for i := range spec.Stages {
		needs := spec.Stages[i].Name == status.Stage && spec.Stages[i].Approval == propagationv1alpha1.RolloutApprovalRequired
		given := slices.ContainsFunc(status.Stages, func(stage propagationv1alpha1.RolloutStageStatus) bool {
			return stage.Name == status.Stage && stage.ApprovedRevision == status.UpdateRevision
		})
		if needs && !given {
			return true
		}
	}
	return false
}

// hasGoneOn checks that a rollout stops only for a reason.
func (w *World) hasGoneOn(ctx context.Context, object cached.Object) error {
	status := object.GetStatus().Rollout
	if status == nil || w.wrongAsAWhole(object, w.truth.desired.latest(keyOfResource(object))) != "" || w.isDenied(object) {
		return nil
	}
	failed := status.FailedRevision != "" && status.FailedRevision == status.UpdateRevision
	if object.GetSpec().Rollout == nil && !failed && w.mayStop(ctx, object) == "" {
		return violated("a rollout without end", "%s has no rollout anymore, and its status has one: %s %s", titleOf(object), status.Phase, status.Reason)
	}
	if isOpen(object) && w.mayStop(ctx, object) == "" {
		return violated("a rollout is stuck", "the rollout of %s is %s in stage %q (%s), although nothing is wrong", titleOf(object), status.Phase, status.Stage, status.Reason)
	}
	return nil
}

// waits reports whether a row may say that its cluster waits.
func (w *World) waits(ctx context.Context, object cached.Object, cluster string) bool {
	return heldAt(object, cluster) != nil && w.mayStop(ctx, object) != ""
}

// isBroken reports whether somebody has deleted or replaced the revision that a cluster is
// to have: its Work cannot be rendered.
func (w *World) isBroken(object cached.Object, cluster string) bool {
	if object.GetStatus().Rollout == nil {
		return false
	}
	_, broken := w.truth.releases.broken[share{owner: object.GetUID(), revision: assignedAt(object, cluster)}]
	return broken
}

// assignedAt is the revision that a cluster is to have.
func assignedAt(object cached.Object, cluster string) string {
	if held := heldAt(object, cluster); held != nil {
		return *held
	}
	return object.GetStatus().Rollout.UpdateRevision
}

// isUnreadableRevision reports whether the revision that a cluster is to get was lost, or
// never had anything for it.
func (w *World) isUnreadableRevision(object cached.Object, cluster string) bool {
	if object.GetStatus().Rollout == nil {
		return false
	}
	which := share{owner: object.GetUID(), revision: assignedAt(object, cluster), cluster: cluster}
	return w.isBroken(object, cluster) || w.truth.releases.contents[which] == ""
}

// isHeldBack reports whether a rollout has suspended the Work of a cluster: its turn is
// stopped, or there is nothing that it could have instead of an abandoned revision, or what
// it should have instead cannot be rendered.
func isHeldBack(object cached.Object, cluster string) bool {
	status := object.GetStatus().Rollout
	if status == nil {
		return false
	}
	turn := turnOf(status, cluster)
	if turn == nil {
		return status.CurrentRevision == ""
	}
	return turn.StoppedAt != nil || slices.ContainsFunc(object.GetStatus().Clusters, func(row propagationv1alpha1.ClusterStatus) bool {
		return row.Name == cluster && row.Reason == propagationv1alpha1.ReasonRenderFailed
	})
}

// isKept returns how a Work differs from the revision that a rollout leaves on its
// cluster; empty if it does not.
func (w *World) isKept(object cached.Object, target propagationv1alpha1.TargetCluster, held *holding, revision string, resource *unstructured.Unstructured) string {
	manifest := manifestOf(held.work)
	which := share{owner: object.GetUID(), revision: revision, cluster: target.Name}
	if known := w.truth.releases.contents[which]; known != "" && known != unscaled(manifest) {
		return fmt.Sprintf("its content is not that of revision %s: %s", revision, rowOf(object, target.Name))
	}
	_, broken := w.truth.releases.broken[share{owner: object.GetUID(), revision: revision}]
	isSaved := broken || w.truth.releases.stored[share{owner: object.GetUID(), revision: revision}]
	if resource.GetKind() != "Deployment" || !isSaved { // clusters that had different versions keep those as they are
		return ""
	}
	wanted, _, _ := unstructured.NestedInt64(customized(resource, target, nil).Object, "spec", "replicas")
	if has, _, _ := unstructured.NestedInt64(manifest.Object, "spec", "replicas"); has != wanted {
		return fmt.Sprintf("it has %d replicas, not %d; it waits with revision %s: %s", has, wanted, revision, rowOf(object, target.Name))
	}
	return ""
}

// hasContent returns how the content of a Work differs from what the cluster should get
// now; empty if it does not.
func (w *World) hasContent(object cached.Object, target propagationv1alpha1.TargetCluster, held *holding, resource *unstructured.Unstructured) string {
	if revision := heldAt(object, target.Name); revision != nil {
		return w.isKept(object, target, held, *revision, resource)
	}
	if karmada.ContentHash(manifestOf(held.work)) != karmada.ContentHash(customized(resource, target, w.truth.policy())) {
		return "its content is not what the cluster should get"
	}
	return ""
}

// stalls reports whether a rollout is why an object is Stalled.
func stalls(object cached.Object) bool {
	stalled := meta.FindStatusCondition(object.GetStatus().Conditions, propagationv1alpha1.ConditionStalled)
	if stalled == nil || object.GetStatus().Rollout == nil {
		return false
	}
	switch stalled.Reason {
	case propagationv1alpha1.ReasonRolloutFailed, propagationv1alpha1.ReasonRolledBack, propagationv1alpha1.ReasonRollbackFailed, propagationv1alpha1.ReasonRolloutStateLost:
		return stalled.Reason == object.GetStatus().Rollout.Reason
	}
	return false
}

// hasNoLeftovers checks that all PropagationRevisions are needed.
func (w *World) hasNoLeftovers() error {
	for which := range w.truth.releases.stored {
		object := w.truth.objectOf(which.owner)
		if object == nil || object.GetDeletionTimestamp() != nil {
			continue // Kubernetes deletes it
		}
		if _, broken := w.truth.releases.broken[which]; broken || w.isNeeded(object, which.revision) {
			continue
		}
		return violated("a revision is left behind", "PropagationRevision %s of %s is still there, and nobody needs it", which.revision, titleOf(object))
	}
	return nil
}

// isNeeded reports whether the status of an object or one of its Works names a revision.
func (w *World) isNeeded(object cached.Object, revision string) bool {
	status := object.GetStatus().Rollout
	if status == nil {
		return false
	}
	for i := range object.GetStatus().Clusters {
		if row := &object.GetStatus().Clusters[i]; row.Rollout != nil && row.Rollout.AssignedRevision == revision {
			return true
		}
	}
	for _, held := range w.truth.works {
		if held.work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(object.GetUID()) && held.work.Annotations[propagationv1alpha1.RolloutRevisionAnnotation] == revision {
			return true
		}
	}
	return slices.Contains(namedIn(status), revision)
}

// isReasonOfRollout reports whether a reason is that of a rollout.
func isReasonOfRollout(object cached.Object, reason string) bool {
	return object.GetStatus().Rollout != nil && reason != "" && object.GetStatus().Rollout.Reason == reason
}

// describeStatus says where the rollout of an object stands; nothing if it has none.
func describeStatus(object cached.Object, cluster string) string {
	status := object.GetStatus().Rollout
	if status == nil {
		return ""
	}
	said := fmt.Sprintf("; rollout %s %s in stage %q, from %q to %q, failed %q; %s is to have %q", status.Phase, status.Reason, status.Stage,
		status.CurrentRevision, status.UpdateRevision, status.FailedRevision, cluster, assignedAt(object, cluster))
	for i := range status.Turns {
		said += fmt.Sprintf("; %s turn of %v to %s, stopped %v, failed %t", status.Turns[i].Kind, status.Turns[i].ClusterNames, status.Turns[i].Revision, status.Turns[i].StoppedAt, ptr.Deref(status.Turns[i].Failed, false))
	}
	return said
}
