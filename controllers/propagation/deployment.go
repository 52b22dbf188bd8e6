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
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// deploymentKind is the only kind whose status can say that a change has failed.
var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// progressDeadlineExceeded is the reason by which kubectl rollout status, Argo CD and Flux
// recognize that a Deployment has failed.
const progressDeadlineExceeded = "ProgressDeadlineExceeded"

// failedRollout returns which rollout of the resource has failed; empty if none has. All
// objects that name the resource count, and each of them finds the same, so that they never
// overwrite each other's status.
func (r *Reconciler) failedRollout(observed *decide.Observed, gvk schema.GroupVersionKind) string {
	if gvk != deploymentKind {
		return ""
	}
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
	others, _ := r.objects(cached.ResourceKey(gvk.Group, observed.Owner.Namespace, observed.Spec.Resource.Name)) // cannot fail for an existing index
	for _, other := range others {
		object, ok := other.(cached.Object)
		if ok && object.GetUID() != observed.Owner.UID && object.GetSpec().Resource.Kind == gvk.Kind {
			consider(object.GetName(), object.GetStatus().Rollout)
		}
	}
	return failed
}

// hasFailed reports whether the requested revision has failed and nothing more happens.
func hasFailed(status *propagationv1alpha1.RolloutStatus) bool {
	return status.FailedRevision != "" && status.FailedRevision == status.UpdateRevision &&
		(status.Phase == propagationv1alpha1.RolloutPhaseFailed || status.Phase == propagationv1alpha1.RolloutPhaseRolledBack)
}

// setProgress sets the Progressing condition of an aggregated Deployment to what a rollout
// says. After a failure, clusters do not report the newest generation, so that who waits
// for that would wait forever.
func setProgress(deployment *unstructured.Unstructured, failure string, now time.Time) {
	conditions, _, _ := unstructured.NestedSlice(deployment.Object, "status", "conditions")
	before := slices.IndexFunc(conditions, func(condition any) bool {
		fields, _ := condition.(map[string]any)
		return fields["type"] == string(appsv1.DeploymentProgressing) && fields["reason"] == progressDeadlineExceeded
	})
	if failure != "" && deployment.GetGeneration() > 0 {
		_ = unstructured.SetNestedField(deployment.Object, deployment.GetGeneration(), "status", "observedGeneration")
	}
	switch {
	case failure == "" && before < 0:
		return
	case failure == "":
		conditions = slices.Delete(conditions, before, before+1)
	case before >= 0:
		fields, _ := conditions[before].(map[string]any)
		fields["message"] = failure
	default:
		at := now.UTC().Format(time.RFC3339)
		conditions = append(conditions, map[string]any{
			"type": string(appsv1.DeploymentProgressing), "status": string(corev1.ConditionFalse),
			"reason": progressDeadlineExceeded, "message": failure, "lastUpdateTime": at, "lastTransitionTime": at,
		})
	}
	if len(conditions) == 0 {
		unstructured.RemoveNestedField(deployment.Object, "status", "conditions")
		return
	}
	_ = unstructured.SetNestedSlice(deployment.Object, conditions, "status", "conditions")
}
