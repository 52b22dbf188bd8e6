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
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// progressDeadline is how long a Deployment may take until it has failed.
const progressDeadline = 60

// isDeploymentTold checks the conditions that the controller has given the Deployment in the
// control plane.
func (w *World) isDeploymentTold(ctx context.Context) error {
	key := karmada.Key{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Namespace: namespace, Name: "web"}
	var objects []cached.Object
	for _, title := range sortedNames(w.truth.desired.objects) {
		object := w.truth.desired.objects[title]
		if keyOfResource(object) != key {
			continue
		}
		if !w.aggregates(object) {
			return nil
		}
		objects = append(objects, object)
	}
	for _, held := range w.truth.works {
		if held.where.key == key && !slices.ContainsFunc(objects, func(object cached.Object) bool { return isOurs(held.work) && ownerOf(held.work) == titleOf(object) }) {
			return nil // what its cluster reports counts, and nobody brings it up to date
		}
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(key.GroupVersionKind)
	if err := w.plane.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, stored); err != nil || len(objects) == 0 {
		return client.IgnoreNotFound(err) //nolint:wrapcheck // a bug of the simulation
	}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, deployment); err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	return w.areConditionsTold(ctx, deployment, objects, key)
}

// aggregates reports whether the status of the resource of an object must be right.
func (w *World) aggregates(object cached.Object) bool {
	resource := w.truth.desired.latest(keyOfResource(object))
	spec := object.GetSpec()
	return object.GetDeletionTimestamp() == nil && ptr.Deref(spec.AggregateStatus, true) && !w.noStatus && spec.Rollout == nil &&
		w.wrongAsAWhole(object, resource) == "" && !isClaimed(resource)
}

func (w *World) areConditionsTold(ctx context.Context, deployment *appsv1.Deployment, objects []cached.Object, key karmada.Key) error {
	said := map[appsv1.DeploymentConditionType]appsv1.DeploymentCondition{}
	for _, condition := range deployment.Status.Conditions {
		said[condition.Type] = condition
	}
	everyone, ill := w.deploymentOnMembers(ctx, objects, key)
	available, progressing := said[appsv1.DeploymentAvailable], said[appsv1.DeploymentProgressing]
	told := fmt.Sprintf("Deployment web is Available=%s and Progressing=%s (%s: %s)", available.Status, progressing.Status, progressing.Reason, progressing.Message)
	switch {
	case available.Status == corev1.ConditionTrue && ill != "":
		return violated("a condition lies in the end", "%s, but on %s", told, ill)
	case everyone && (available.Status != corev1.ConditionTrue || progressing.Reason != "NewReplicaSetAvailable" || deployment.Status.ObservedGeneration != deployment.Generation):
		return violated("a condition lies in the end", "%s, and has observed generation %d of %d, although every object is Ready", told, deployment.Status.ObservedGeneration, deployment.Generation)
	case progressing.Reason == "ReplicaSetUpdated" && !strings.HasPrefix(progressing.Message, "no deadline yet") && deployment.Status.ObservedGeneration == deployment.Generation:
		return violated("no deadline in the end", "%s, although nothing has happened for long", told)
	}
	return nil
}

// deploymentOnMembers reports whether every object is Ready with what all of its clusters
// have, and on which cluster the Deployment lacks replicas; empty for none.
func (w *World) deploymentOnMembers(ctx context.Context, objects []cached.Object, key karmada.Key) (everyone bool, ill string) {
	everyone = true
	for _, object := range objects {
		everyone = everyone && meta.IsStatusConditionTrue(object.GetStatus().Conditions, propagationv1alpha1.ConditionReady)
		for _, target := range w.truth.desired.targets(object) {
			row := statusRow(object, target.Name)
			if row == nil || row.Applied != metav1.ConditionTrue || row.Reason == propagationv1alpha1.ReasonSuspended {
				everyone = false
				continue
			}
			if ailment := w.ailmentOf(target.Name, key); ailment != "" && w.isReady(ctx, target.Name) {
				ill = target.Name + ": " + ailment
			}
		}
	}
	return everyone, ill
}

// statusRow returns the row of a cluster; nil if there is none.
func statusRow(object cached.Object, cluster string) *propagationv1alpha1.ClusterStatus {
	for i := range object.GetStatus().Clusters {
		if row := &object.GetStatus().Clusters[i]; row.Name == cluster {
			return row
		}
	}
	return nil
}
