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
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout defines how a change reaches the clusters.
// +kubebuilder:validation:XValidation:rule="self.progressDeadlineSeconds > self.minReadySeconds",message="must be greater than minReadySeconds; raise it, or lower minReadySeconds",fieldPath=".progressDeadlineSeconds"
type Rollout struct {
	// stages are groups of clusters that a change reaches one after the other. A
	// stage begins when every cluster of the previous one is ready, apart from those
	// that may fail and those that cannot get the change now, and when the previous
	// one has soaked and is approved. A cluster belongs to the first stage that
	// names or selects it. Clusters that match no stage form a last one with the
	// name default. Without stages, all clusters are in that one.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Stages []RolloutStage `json:"stages,omitempty"`

	// maxConcurrency is the maximum number of clusters of a stage that get the
	// change at the same time: a number, or a percentage of the clusters of the
	// stage, rounded down. It is always at least one cluster. The default is 100%,
	// which is all clusters of the stage at once. To get the change to one cluster
	// after the other, use 1.
	// +kubebuilder:default="100%"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 2147483647 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number of clusters of at least 1, for example 5, or a percentage from 1% to 100%, for example 25%"
	// +optional
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`

	// maxFailures is the number of clusters of a stage that may fail: a number, or a
	// percentage of the clusters of the stage, rounded down. With one more, the
	// rollout stops, and onFailure applies. The default is 0. A percentage of a
	// small stage may stand for no cluster: 5% of 10 clusters tolerates no failure.
	// +kubebuilder:default=0
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^([1-9]?[0-9]|100)%$')",message="must be a number of clusters, for example 1, or a percentage from 0% to 100%, for example 10%"
	// +optional
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`

	// minReadySeconds is how long a cluster must report the resource as healthy,
	// without interruption and counted from its confirmation of the change, before
	// it counts as ready. The default is 10. Most kinds do not say which revision
	// their health describes, so a value of 0 can let a change pass that makes the
	// resource unhealthy a moment later.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// soakSeconds is how long a whole stage must have been healthy before the next
	// one begins. If a cluster of the stage becomes unhealthy, the time starts
	// again. The default is 0. An approval ends the time early.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	SoakSeconds *int32 `json:"soakSeconds,omitempty"`

	// progressDeadlineSeconds is the time in which a cluster must become ready,
	// counted from when it is its turn. A cluster that is not ready by then has
	// failed. The default is 600. It must be greater than minReadySeconds.
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// onFailure defines what happens when more clusters of a stage have failed than
	// maxFailures allows. Pause starts nothing more: clusters keep what they have.
	// Rollback returns the clusters that have the change to the revision that was
	// last rolled out completely; it never writes the resource in the control plane.
	// The default is Pause.
	// +kubebuilder:default=Pause
	// +optional
	OnFailure RolloutFailurePolicy `json:"onFailure,omitempty"`

	// paused starts nothing more while it is true, neither forward nor back. What
	// has begun on a cluster continues there, and its deadline does not stand still.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// RolloutStage is a group of clusters that get a change before those of the next
// stage.
// +kubebuilder:validation:XValidation:rule="has(self.clusterNames) || has(self.clusterSelector)",message="must say which clusters belong to the stage, in clusterNames or by clusterSelector; all other clusters form the stage default without being named",fieldPath=".clusterNames"
type RolloutStage struct {
	// name is the name of the stage. The status, Events and approvals refer to it.
	// The name default is reserved for the stage of all clusters that match no
	// other stage.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a name of lower-case letters, digits and '-', for example canary"
	// +kubebuilder:validation:XValidation:rule="self != 'default'",message="must not be default, which is the stage of all clusters that match no other stage; choose another name"
	// +required
	Name string `json:"name,omitempty"`

	// clusterNames are names of Karmada Cluster objects. Only those that get the
	// resource, according to clusters and clusterSelector of the spec, belong to the
	// stage.
	// +listType=set
	// +kubebuilder:validation:MaxItems=2000
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="must name at least one cluster, or be left out in favor of clusterSelector"
	// +kubebuilder:validation:items:MaxLength=48
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a Karmada Cluster, as kubectl get clusters shows it: lower-case letters, digits and '-'"
	// +optional
	ClusterNames []string `json:"clusterNames,omitempty"`

	// clusterSelector selects clusters by the labels of their Cluster objects, in
	// addition to those in clusterNames. It only sorts the clusters that get the
	// resource into stages. An empty selector selects all of them.
	// +optional
	ClusterSelector *StageSelector `json:"clusterSelector,omitempty"`

	// maxConcurrency overrides that of the rollout for this stage.
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 2147483647 : self.size() == 4 && self.startsWith('100%') || self.charAt(0) in ['1', '2', '3', '4', '5', '6', '7', '8', '9'] && (self.size() == 2 && self.charAt(1) == '%' || self.size() == 3 && self.charAt(1) in ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'] && self.charAt(2) == '%')",message="must be a number of clusters of at least 1, for example 5, or a percentage from 1% to 100%, for example 25%"
	// +optional
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`

	// soakSeconds overrides that of the rollout for this stage.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	SoakSeconds *int32 `json:"soakSeconds,omitempty"`

	// approval defines whether somebody must approve the stage before the next one
	// begins. Required waits for the annotation
	// propagation.karmada-direct.io/rollout-approve, whose value names the stage and
	// the revision: canary@71f5fbd608ae0205. By default, no approval is needed.
	// +optional
	Approval RolloutApproval `json:"approval,omitempty"`
}

// StageSelector selects clusters by the labels of their Cluster objects. It is a
// LabelSelector of Kubernetes whose number of expressions is limited, so that the API
// server can check those of all stages.
// +structType=atomic
type StageSelector struct {
	// matchLabels are labels that a cluster must have.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// matchExpressions are requirements that a cluster must meet, all of them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:XValidation:rule="self.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']",message="must have one of the operators In, NotIn, Exists and DoesNotExist",fieldPath=".operator"
	// +kubebuilder:validation:items:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : !(self.operator in ['Exists', 'DoesNotExist'] && has(self.values) && self.values.size() > 0)",message="must have values with the operators In and NotIn, and no values with Exists and DoesNotExist",fieldPath=".values"
	// +optional
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// RolloutFailurePolicy defines what happens when too many clusters of a stage have
// failed.
// +kubebuilder:validation:Enum=Pause;Rollback
type RolloutFailurePolicy string

const (
	// RolloutFailurePause starts nothing more.
	RolloutFailurePause RolloutFailurePolicy = "Pause"
	// RolloutFailureRollback returns the clusters to the current revision.
	RolloutFailureRollback RolloutFailurePolicy = "Rollback"
)

// RolloutApproval defines whether a stage needs an approval.
// +kubebuilder:validation:Enum=Required
type RolloutApproval string

// RolloutApprovalRequired means that somebody must approve the stage for the revision
// before it counts as passed.
const RolloutApprovalRequired RolloutApproval = "Required"

// RolloutDefaultStage is the name of the stage of all clusters that match no other one.
const RolloutDefaultStage = "default"
