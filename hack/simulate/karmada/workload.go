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

package karmada

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// working offers what the controllers of the member do to the status of workloads: one
// step observes a generation, the next starts the Pods, the last finds them available.
func (m *Member) working() []Action {
	var actions []Action
	for _, k := range sortedKeys(m.objects) {
		object := m.objects[k]
		if object.GetDeletionTimestamp() != nil {
			continue
		}
		status, does := m.nextStatus(k, object)
		if status == nil || equality.Semantic.DeepEqual(object.Object["status"], status) {
			continue
		}
		actions = append(actions, Action{
			Name: fmt.Sprintf("%s/workloads %s: %s", m.Name, k, does),
			Do:   func(context.Context) error { return m.SetStatus(k, status) },
		})
	}
	return actions
}

// nextStatus returns the status that follows the present one, and what that means; nil
// for kinds whose status nobody fills.
func (m *Member) nextStatus(k Key, object *unstructured.Unstructured) (map[string]any, string) {
	switch k.GroupVersionKind {
	case deploymentKind, statefulSetKind, replicaSetKind, daemonSetKind:
	case serviceKind:
		return balancerStatus(object), "gets an address"
	default:
		return nil, ""
	}
	wanted, found, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if !found {
		wanted = 1
	}
	rollout := rolloutOf(object, k)
	switch {
	case rollout.observed != object.GetGeneration():
		rollout = progress{observed: object.GetGeneration(), available: min(rollout.available, wanted)}
		return rollout.status(k, wanted), "observes the generation"
	case rollout.updated != wanted:
		rollout.updated, rollout.available = wanted, 0
		return rollout.status(k, wanted), "starts its Pods"
	case rollout.available != wanted && (m.Broken == nil || !m.Broken(k)):
		rollout.available = wanted
		return rollout.status(k, wanted), "is available"
	default:
		return nil, ""
	}
}

// progress is how far the rollout of a workload is.
type progress struct{ observed, updated, available int64 }

func rolloutOf(object *unstructured.Unstructured, k Key) progress {
	number := func(field string) int64 {
		value, _, _ := unstructured.NestedInt64(object.Object, "status", field)
		return value
	}
	p := progress{observed: number("observedGeneration"), updated: number("updatedReplicas"), available: number("availableReplicas")}
	switch k.GroupVersionKind {
	case daemonSetKind:
		p.updated, p.available = number("updatedNumberScheduled"), number("numberAvailable")
	case replicaSetKind:
		p.updated = number("replicas") // a ReplicaSet has no older Pods
	}
	return p
}

// status writes the progress the way the kind does.
func (p progress) status(k Key, wanted int64) map[string]any {
	switch k.GroupVersionKind {
	case daemonSetKind:
		return map[string]any{
			"observedGeneration": p.observed, "desiredNumberScheduled": wanted, "currentNumberScheduled": wanted,
			"updatedNumberScheduled": p.updated, "numberAvailable": p.available, "numberReady": p.available, "numberMisscheduled": int64(0),
		}
	case replicaSetKind:
		return map[string]any{
			"observedGeneration": p.observed, "replicas": p.updated, "readyReplicas": p.available, "availableReplicas": p.available,
		}
	default:
		return map[string]any{
			"observedGeneration": p.observed, "replicas": wanted, "updatedReplicas": p.updated,
			"readyReplicas": p.available, "availableReplicas": p.available, "unavailableReplicas": wanted - p.available,
		}
	}
}

// balancerStatus is the status of a Service of type LoadBalancer with an address.
func balancerStatus(object *unstructured.Unstructured) map[string]any {
	if kind, _, _ := unstructured.NestedString(object.Object, "spec", "type"); kind != "LoadBalancer" {
		return nil
	}
	return map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.1"}}}}
}
