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

// RolloutStatus is everything that is recorded about the rollouts of an object.
type RolloutStatus struct {
	// phase is what happens to the clusters. Progressing: they get the update
	// revision, stage by stage. Completed: they have it. Failed: too many have
	// failed, and nothing more starts. RollingBack: they return to the current
	// revision. RolledBack: they have returned. Reverting: the current revision is
	// requested again, and they return to it. StateLost: the status was lost, and
	// every cluster keeps what it has.
	// +required
	Phase RolloutPhase `json:"phase,omitempty"`

	// progress shows where the rollout is: while the phase is Progressing, the stage
	// with the clusters that are ready out of all clusters of the stage, for example
	// canary 1/2; otherwise the phase.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=96
	// +required
	Progress string `json:"progress,omitempty"`

	// reason is why the rollout is where it is, in one word. It is empty if there is
	// nothing to wait for.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// currentRevision is the last revision that was rolled out completely. A
	// rollback returns to it. It is empty if there is none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// updateRevision is the requested revision: a hash of the resource without its
	// status and replicas, and of everything that customizes it per cluster. The same
	// input always gives the same revision, so that a revert in Git is recognized.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// failedRevision is a revision that failed or was aborted. It is not tried again
	// until another one is complete, or until somebody requests a retry.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	FailedRevision string `json:"failedRevision,omitempty"`

	// failure is where failedRevision failed. It is absent if that was aborted before
	// too many clusters failed.
	// +optional
	Failure *RolloutFailure `json:"failure,omitempty"`

	// paused is true if the annotation
	// propagation.karmada-direct.io/rollout-pause has paused the rollout.
	// +optional
	Paused *bool `json:"paused,omitempty"`

	// stage is the name of the first stage that is not passed. It is empty unless the
	// phase is Progressing.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Stage string `json:"stage,omitempty"`

	// stages has an entry for each stage, in order, including the stage default if
	// clusters belong to it.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=21
	// +optional
	Stages []RolloutStageStatus `json:"stages,omitempty"`

	// turns has every cluster whose turn is not over, or has failed. Clusters with
	// the same values share an entry.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +optional
	Turns []RolloutTurn `json:"turns,omitempty"`

	// handled are the last commands, given by annotation, that were followed or
	// rejected. Each is followed once. To repeat one, change the text after its last
	// slash.
	// +optional
	Handled RolloutCommands `json:"handled,omitempty,omitzero"`
}

// RolloutPhase is what happens to the clusters.
// +kubebuilder:validation:Enum=Progressing;Completed;Failed;RollingBack;RolledBack;Reverting;StateLost
type RolloutPhase string

const (
	// RolloutPhaseProgressing means that clusters get the update revision, stage by
	// stage.
	RolloutPhaseProgressing RolloutPhase = "Progressing"
	// RolloutPhaseCompleted means that clusters have the update revision. Those that
	// come late get it too.
	RolloutPhaseCompleted RolloutPhase = "Completed"
	// RolloutPhaseFailed means that too many clusters have failed, and nothing more
	// starts.
	RolloutPhaseFailed RolloutPhase = "Failed"
	// RolloutPhaseRollingBack means that clusters return to the current revision.
	RolloutPhaseRollingBack RolloutPhase = "RollingBack"
	// RolloutPhaseRolledBack means that clusters have returned to the current
	// revision. Those that come late do so too.
	RolloutPhaseRolledBack RolloutPhase = "RolledBack"
	// RolloutPhaseReverting means that the user has requested the current revision
	// again, and clusters return to it.
	RolloutPhaseReverting RolloutPhase = "Reverting"
	// RolloutPhaseStateLost means that the status was lost, and every cluster keeps
	// what it has.
	RolloutPhaseStateLost RolloutPhase = "StateLost"
)

// RolloutFailure is where a revision failed.
type RolloutFailure struct {
	// stage is the stage with too many failed clusters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Stage string `json:"stage,omitempty"`

	// clusters is the number of failed clusters.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Clusters *int32 `json:"clusters,omitempty"`

	// clusterNames are the first 16 of the failed clusters, by name.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=48
	// +optional
	ClusterNames []string `json:"clusterNames,omitempty"`
}

// RolloutStageStatus is the state of one stage.
type RolloutStageStatus struct {
	// name is the name of the stage.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// clusters is the number of clusters of the stage.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Clusters *int32 `json:"clusters,omitempty"`

	// updated is the number of clusters for which the update revision is written.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Updated *int32 `json:"updated,omitempty"`

	// ready is the number of clusters that have confirmed the update revision and
	// have been healthy with it for minReadySeconds.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Ready *int32 `json:"ready,omitempty"`

	// failed is the number of clusters that were not ready before their deadline.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Failed *int32 `json:"failed,omitempty"`

	// deferred is the number of clusters that cannot get the update revision now,
	// because they are suspended, not Ready, being unregistered, or held by another
	// owner. They get it later, and the rollout does not wait for them.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Deferred *int32 `json:"deferred,omitempty"`

	// maxConcurrency is the number of clusters that may get the change at the same
	// time, resolved from a percentage.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	MaxConcurrency *int32 `json:"maxConcurrency,omitempty"`

	// maxFailures is the number of clusters that may fail, resolved from a
	// percentage.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	MaxFailures *int32 `json:"maxFailures,omitempty"`

	// resolvedFor is the number of clusters that percentages refer to: the highest
	// number since the stage began.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	ResolvedFor *int32 `json:"resolvedFor,omitempty"`

	// startedAt is when the stage began for the update revision.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// readySince is the time since which the whole stage has been healthy with the
	// update revision. The soak is counted from it.
	// +optional
	ReadySince *metav1.Time `json:"readySince,omitempty"`

	// approvedRevision is the revision for which somebody has approved the stage.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ApprovedRevision string `json:"approvedRevision,omitempty"`

	// passedAt is when the stage was ready, soaked and approved. The next stage may
	// have begun since then.
	// +optional
	PassedAt *metav1.Time `json:"passedAt,omitempty"`
}

// RolloutTurn is what clusters have in common that are changing their revision.
type RolloutTurn struct {
	// revision is what the clusters get.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Revision string `json:"revision,omitempty"`

	// kind is why the clusters have a turn. It is empty if their stage brings them to
	// the revision. Late: the stage was passed before. Relapse: the clusters were
	// ready, and became unhealthy or refuse the revision.
	// +optional
	Kind RolloutTurnKind `json:"kind,omitempty"`

	// startedAt is when the turn began, or was no longer withheld, plus the time for which
	// it was stopped.
	// progressDeadlineSeconds is counted from it.
	// +required
	StartedAt metav1.Time `json:"startedAt,omitzero"`

	// healthySince is the time since which the clusters have been healthy with the
	// revision. minReadySeconds is counted from it.
	// +optional
	HealthySince *metav1.Time `json:"healthySince,omitempty"`

	// stoppedAt is the time since which the clusters have been suspended, held by
	// another owner, or unregistered. Their deadline stands still.
	// +optional
	StoppedAt *metav1.Time `json:"stoppedAt,omitempty"`

	// withheldSince is the time since which the API server refuses to store the revision.
	// The deadline of the clusters begins when it is stored.
	// +optional
	WithheldSince *metav1.Time `json:"withheldSince,omitempty"`

	// failed is true if the clusters were not ready before their deadline.
	// +optional
	Failed *bool `json:"failed,omitempty"`

	// clusterNames are the names of the clusters.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MaxLength=48
	// +optional
	ClusterNames []string `json:"clusterNames,omitempty"`
}

// RolloutTurnKind is why a cluster has a turn.
// +kubebuilder:validation:Enum=Late;Relapse
type RolloutTurnKind string

const (
	// RolloutTurnLate is a turn that begins after the stage was passed.
	RolloutTurnLate RolloutTurnKind = "Late"
	// RolloutTurnRelapse is a turn of clusters that were ready and became unhealthy,
	// or refuse the revision.
	RolloutTurnRelapse RolloutTurnKind = "Relapse"
)

// RolloutCommands are commands that users give by annotation. Each is the value of the
// annotation, of which only the first 256 bytes count.
type RolloutCommands struct {
	// approve is the value of propagation.karmada-direct.io/rollout-approve.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Approve string `json:"approve,omitempty"`

	// retry is the value of propagation.karmada-direct.io/rollout-retry.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Retry string `json:"retry,omitempty"`

	// abort is the value of propagation.karmada-direct.io/rollout-abort.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Abort string `json:"abort,omitempty"`

	// pause is the value of propagation.karmada-direct.io/rollout-pause.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Pause string `json:"pause,omitempty"`

	// resume is the value of propagation.karmada-direct.io/rollout-resume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Resume string `json:"resume,omitempty"`
}

// ClusterRollout is where a cluster stands in a rollout.
type ClusterRollout struct {
	// stage is the stage that the cluster belongs to.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Stage string `json:"stage,omitempty"`

	// assignedRevision is the revision of the rollout that is assigned to the
	// cluster: what it gets, or keeps, now.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	AssignedRevision string `json:"assignedRevision,omitempty"`

	// confirmedRevision is the revision of the rollout that the cluster has confirmed
	// last.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ConfirmedRevision string `json:"confirmedRevision,omitempty"`
}
