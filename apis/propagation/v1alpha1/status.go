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

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PropagationStatus reports what is applied on each cluster. It follows kstatus:
// an object is fully reconciled when observedGeneration equals its generation and
// Ready is True.
type PropagationStatus struct {
	// observedGeneration is the generation of the object that this status
	// describes. It is -1 if the controller has not seen the object yet.
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready and, only while they are True, Reconciling and Stalled.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// summary counts the named clusters by their state. While the object is being
	// deleted, it counts the clusters that are still to be cleaned up.
	// +optional
	Summary *Summary `json:"summary,omitempty"`

	// clusters has one row for each cluster, the worst first, and at most 256 rows.
	// The controller owns and writes the whole list.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Clusters []ClusterStatus `json:"clusters,omitempty"`

	// dependencies reports the state of the dependencies of the resource if
	// propagateDeps is true.
	// +optional
	Dependencies *Dependencies `json:"dependencies,omitempty"`

	// rollout reports the rollout of the last change, stage by stage. It is absent
	// unless spec.rollout is set, or a revision has failed that nobody has replaced
	// since spec.rollout was removed.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// omitted is the number of clusters that have no row because there are more
	// than 256. The summary counts all clusters.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Omitted *int32 `json:"omitted,omitempty"`
}

// Summary counts the clusters that the spec names. applied, failed, pending
// and unreachable add up to clusters.
type Summary struct {
	// progress shows how many clusters have confirmed the current revision and
	// report it healthy, out of all clusters, for example 3/4.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=16
	// +required
	Progress string `json:"progress,omitempty"`

	// clusters is the number of clusters that the spec names.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Clusters *int32 `json:"clusters,omitempty"`

	// applied is the number of clusters that have confirmed the current
	// revision, healthy or not.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Applied *int32 `json:"applied,omitempty"`

	// healthy is the number of clusters that have confirmed the current
	// revision and report it healthy.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Healthy *int32 `json:"healthy,omitempty"`

	// failed is the number of clusters whose row is False.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Failed *int32 `json:"failed,omitempty"`

	// pending is the number of clusters that have not answered yet.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Pending *int32 `json:"pending,omitempty"`

	// unreachable is the number of clusters that Karmada reports as not Ready.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Unreachable *int32 `json:"unreachable,omitempty"`
}

// Dependencies counts the dependencies of the named resource.
type Dependencies struct {
	// total is the number of dependencies.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Total *int32 `json:"total,omitempty"`

	// ready is the number of dependencies that every cluster has confirmed, or
	// gets from another owner.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Ready *int32 `json:"ready,omitempty"`

	// unready lists dependencies that are not ready, with the reason. It has at
	// most 16 entries.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Unready []UnreadyDependency `json:"unready,omitempty"`
}

// UnreadyDependency is a dependency that is not ready on every cluster.
type UnreadyDependency struct {
	// apiVersion is the group and version of the resource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	APIVersion string `json:"apiVersion,omitempty"`

	// kind is the kind of the resource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind,omitempty"`

	// name is the name of the resource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// reason is the reason of the worst cluster, or of the dependency itself.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Reason string `json:"reason,omitempty"`

	// message explains the reason in one sentence. It has at most 256 bytes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Message string `json:"message,omitempty"`
}

// Health is what a cluster reports about the health of the resource.
// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
type Health string

const (
	// HealthHealthy means that the cluster reports the resource as healthy.
	HealthHealthy Health = "Healthy"
	// HealthUnhealthy means that the cluster reports the resource as not healthy.
	HealthUnhealthy Health = "Unhealthy"
	// HealthUnknown means that the cluster has not reported on the current
	// revision, or that its report is not reliable at the moment.
	HealthUnknown Health = "Unknown"
)

// ClusterStatus is the row of one cluster.
type ClusterStatus struct {
	// name is the name of the Karmada Cluster object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=48
	// +required
	Name string `json:"name,omitempty"`

	// applied is True if the cluster has confirmed the current revision, False if
	// the cluster cannot or may not get it, and Unknown if the cluster has not
	// answered or cannot be asked.
	// +kubebuilder:validation:Enum=True;False;Unknown
	// +required
	Applied metav1.ConditionStatus `json:"applied,omitempty"`

	// health is what the cluster reports about the health of the resource.
	// +required
	Health Health `json:"health,omitempty"`

	// reason explains the state of the row in one word.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Reason string `json:"reason,omitempty"`

	// message explains the state of the row in one sentence. It has at most 256
	// bytes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Message string `json:"message,omitempty"`

	// revision is the content hash of the manifest that the cluster confirmed
	// last. It stays the same until the cluster confirms a newer revision.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Revision string `json:"revision,omitempty"`

	// rollout is where the cluster stands in the rollout. It is absent unless the
	// status of the object has a rollout.
	// +optional
	Rollout *ClusterRollout `json:"rollout,omitempty"`

	// lastTransitionTime is the last time that applied, health or reason changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
}
