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

package testbed

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Check returns an error that describes what is wrong with an object, or nil.
type Check = func(*DirectPropagation) error

// IsReady checks that an object is Ready for a generation or a later one, with a
// revision in every row.
func IsReady(object *DirectPropagation, generation int64, revision string) error {
	status := &object.Status
	if observed := ptr.Deref(status.ObservedGeneration, -1); observed < generation {
		return fmt.Errorf("observedGeneration is %d, not %d", observed, generation)
	}
	ready := meta.FindStatusCondition(status.Conditions, propagationv1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration < generation {
		return fmt.Errorf("Ready is %s", Say(ready))
	}
	if len(status.Clusters) < len(object.Spec.Clusters) {
		return fmt.Errorf("%d rows for %d clusters", len(status.Clusters), len(object.Spec.Clusters))
	}
	for _, name := range ClustersOf(object) {
		row := RowOf(object, name)
		if row.Applied != metav1.ConditionTrue || row.Health != propagationv1alpha1.HealthHealthy || row.Revision != revision {
			return fmt.Errorf("the row of %s is %+v, not healthy with revision %s", name, row, revision)
		}
	}
	return nil
}

// ReadyWith checks that Ready is True for the current spec, and that every row
// confirms a revision.
func ReadyWith(revision string) Check {
	return func(object *DirectPropagation) error { return IsReady(object, object.Generation, revision) }
}

// Applied checks that the row of a cluster confirms a revision.
func Applied(cluster, revision string) Check {
	return func(object *DirectPropagation) error {
		row := RowOf(object, cluster)
		if row.Applied != metav1.ConditionTrue || row.Revision != revision {
			return fmt.Errorf("the row of %s is %+v, not applied with revision %s", cluster, row, revision)
		}
		return nil
	}
}

// RowSays checks that the row of a cluster has a state and a reason.
func RowSays(cluster string, applied metav1.ConditionStatus, reason string) Check {
	return func(object *DirectPropagation) error {
		if row := RowOf(object, cluster); row.Applied != applied || row.Reason != reason {
			return fmt.Errorf("the row of %s is %+v, not %s %s", cluster, row, applied, reason)
		}
		return nil
	}
}

// NoRow checks that there is no row of a cluster.
func NoRow(cluster string) Check {
	return func(object *DirectPropagation) error {
		if row := RowOf(object, cluster); row.Name != "" {
			return fmt.Errorf("there is a row: %+v", row)
		}
		return nil
	}
}

// Unconfirmed checks that the row of a cluster is Unknown, because the cluster
// cannot have received the change, and that Ready is not True.
func Unconfirmed(cluster string) Check {
	return func(object *DirectPropagation) error {
		if row := RowOf(object, cluster); row.Applied != metav1.ConditionUnknown {
			return fmt.Errorf("the row of %s is %+v, not Unknown", cluster, row)
		}
		return NotReady(object)
	}
}

// NotReady checks that Ready is False.
func NotReady(object *DirectPropagation) error {
	if condition := ConditionOf(object, propagationv1alpha1.ConditionReady); condition.Status != metav1.ConditionFalse {
		return fmt.Errorf("Ready is %+v, not False", condition)
	}
	return nil
}

// NotReadyFor checks that Ready is False for a reason.
func NotReadyFor(reason string) Check {
	return func(object *DirectPropagation) error {
		if condition := ConditionOf(object, propagationv1alpha1.ConditionReady); condition.Status != metav1.ConditionFalse || condition.Reason != reason {
			return fmt.Errorf("Ready is %+v, not False for %s", condition, reason)
		}
		return nil
	}
}

// All checks that an object passes all checks.
func All(checks ...Check) Check {
	return func(object *DirectPropagation) error {
		for _, check := range checks {
			if err := check(object); err != nil {
				return err
			}
		}
		return nil
	}
}

// RowOf returns the row of a cluster, or an empty row without a name if there is
// none.
func RowOf(object *DirectPropagation, cluster string) propagationv1alpha1.ClusterStatus {
	for i := range object.Status.Clusters {
		if object.Status.Clusters[i].Name == cluster {
			return object.Status.Clusters[i]
		}
	}
	return propagationv1alpha1.ClusterStatus{}
}

// ConditionOf returns a condition, or an empty condition without a type if there is
// none.
func ConditionOf(object *DirectPropagation, kind string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(object.Status.Conditions, kind), metav1.Condition{})
}

// ClustersOf returns the names of the clusters that an object names.
func ClustersOf(object *DirectPropagation) []string {
	clusters := make([]string, 0, len(object.Spec.Clusters))
	for _, cluster := range object.Spec.Clusters {
		clusters = append(clusters, cluster.Name)
	}
	return clusters
}

// Say formats a condition for a message.
func Say(condition *metav1.Condition) string {
	if condition == nil {
		return "missing"
	}
	return fmt.Sprintf("%s for generation %d: %s: %q", condition.Status, condition.ObservedGeneration, condition.Reason, condition.Message)
}
