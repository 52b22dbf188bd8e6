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
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// breakWorkloads has the Pods of a member no longer become available, or become so again.
func (u *users) breakWorkloads(context.Context) (string, error) {
	name := oneOf(u.w.choices, memberNames)
	u.w.broken[name] = !u.w.broken[name]
	u.w.karmada.Member(name).Broken = func(karmada.Key) bool { return u.w.broken[name] }
	return fmt.Sprintf("has Pods on %s fail to become available: %t", name, u.w.broken[name]), nil
}

// repairWorkloads has all Pods become available.
func (u *users) repairWorkloads(context.Context) (string, error) {
	if len(u.w.broken) == 0 {
		return "", nil
	}
	clear(u.w.broken)
	return "has all Pods become available", nil
}

// ailmentOf is what a row must say of a workload that is not healthy; empty if it is.
func (w *World) ailmentOf(member string, key karmada.Key) string {
	running, found := w.karmada.Member(member).Runs(key.GroupVersionKind, key.Namespace, key.Name)
	if !found || key.Kind != "Deployment" {
		return ""
	}
	available, _, _ := unstructured.NestedInt64(running.Object.Object, "status", "availableReplicas")
	wanted, _, _ := unstructured.NestedInt64(running.Object.Object, "spec", "replicas")
	if available >= wanted {
		return ""
	}
	return fmt.Sprintf("%d of %d replicas available", available, wanted)
}

// isHealthTold checks what a row that is True says of the health of an object.
func (w *World) isHealthTold(told string, row *propagationv1alpha1.ClusterStatus, key karmada.Key) error {
	ailment, health := w.ailmentOf(row.Name, key), propagationv1alpha1.HealthHealthy
	if ailment != "" {
		health = propagationv1alpha1.HealthUnhealthy
	}
	if row.Health == propagationv1alpha1.HealthUnknown && !w.karmada.Member(row.Name).Serves(key.GroupVersionKind) {
		return nil // Karmada cannot report on what it has not begun to watch
	}
	if row.Health != health {
		return violated("not healthy in the end", "%s (%s), and health is %s, not %s", told, row.Message, row.Health, health)
	}
	if !strings.Contains(row.Message, ailment) {
		return violated("a wrong ailment", "%s (%s), and does not say: %s", told, row.Message, ailment)
	}
	return nil
}
