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

package rollout

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Status is everything that is recorded about the rollouts of an object.
type Status struct {
	Phase Phase
	// Reason is why the rollout is where it is, in one word; empty if it is complete.
	Reason string
	// CurrentRevision is the last revision whose rollout is complete; empty if there is
	// none.
	CurrentRevision string
	// UpdateRevision is the requested revision.
	UpdateRevision string
	// FailedRevision is a revision that failed or was aborted. It is remembered until
	// another one is complete, or somebody requests a retry.
	FailedRevision string
	// Failure is where FailedRevision failed.
	Failure *Failure
	// Paused: a command has paused the rollout.
	Paused bool
	// Stage is the name of the first stage that is not passed; empty unless the phase
	// is Progressing.
	Stage string
	// Stages has an entry for each stage, in order.
	Stages []StageStatus
	// Turns has every cluster whose turn is not over. Clusters with the same values
	// share an entry.
	Turns []Turn
	// Handled are the last commands that were followed or rejected.
	Handled Commands
}

// Phase is what happens to the clusters.
type Phase = propagationv1alpha1.RolloutPhase

// Phases. The documentation of the package explains them.
const (
	Progressing = propagationv1alpha1.RolloutPhaseProgressing
	Completed   = propagationv1alpha1.RolloutPhaseCompleted
	Failed      = propagationv1alpha1.RolloutPhaseFailed
	RollingBack = propagationv1alpha1.RolloutPhaseRollingBack
	RolledBack  = propagationv1alpha1.RolloutPhaseRolledBack
	Reverting   = propagationv1alpha1.RolloutPhaseReverting
	StateLost   = propagationv1alpha1.RolloutPhaseStateLost
)

// Failure is where a revision failed.
type Failure struct {
	// Stage is the stage with too many failed clusters; empty if the revision was
	// aborted.
	Stage string
	// ClusterNames are the first of the failed clusters, by name.
	ClusterNames []string
	// Clusters is the number of failed clusters.
	Clusters int32
}

// StageStatus is the state of one stage.
type StageStatus struct {
	Name string
	// Clusters is the number of clusters of the stage. Of these, Updated have the update
	// revision in their Work, Ready are done, Failed were not done before their deadline,
	// and Deferred cannot get it now.
	Clusters, Updated, Ready, Failed, Deferred int32
	// MaxConcurrency and MaxFailures are the resolved numbers.
	MaxConcurrency, MaxFailures int32
	// ResolvedFor is the number of clusters that percentages refer to: the highest
	// number since the stage began.
	ResolvedFor int32
	// StartedAt is when the stage began for the update revision.
	StartedAt *metav1.Time
	// ReadySince is the time since which the whole stage has been good.
	ReadySince *metav1.Time
	// ApprovedRevision is the revision for which somebody has approved the stage.
	ApprovedRevision string
	// PassedAt is when the stage was done, soaked and approved.
	PassedAt *metav1.Time
}

// Turn is what clusters with a turn have in common.
type Turn struct {
	// Revision is what the clusters get.
	Revision string
	Kind     TurnKind
	// StartedAt is when the turn began, plus the time for which it was stopped.
	StartedAt metav1.Time
	// HealthySince is since when the clusters have been healthy with the revision.
	HealthySince *metav1.Time
	// StoppedAt is since when the clusters have been suspended, held by another owner,
	// unregistered or terminating. The clock of the turn stands still.
	StoppedAt *metav1.Time
	// WithheldSince is since when the API server refuses to store the revision.
	WithheldSince *metav1.Time
	// Failed: the turn was not over at its deadline.
	Failed       bool
	ClusterNames []string
}

// TurnKind is why a cluster has a turn.
type TurnKind = propagationv1alpha1.RolloutTurnKind

const (
	// Regular turns bring the clusters of a stage to a revision.
	Regular TurnKind = ""
	// Late turns begin after the stage was passed.
	Late = propagationv1alpha1.RolloutTurnLate
	// Relapse turns are those of clusters that were done and became unhealthy, or refuse
	// the revision. Their clock runs from that time.
	Relapse = propagationv1alpha1.RolloutTurnRelapse
)

// Commands are what users request by annotation. The zero value requests nothing. A
// command that names the update revision is followed, or rejected, once. To repeat it,
// the user changes what follows the last slash, which means nothing.
type Commands struct {
	// Approve is <stage>@<revision>, Retry and Abort are <revision>; all optionally with
	// /<anything>.
	Approve, Retry, Abort string
	// Pause and Resume are any text.
	Pause, Resume string
}
