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

// Condition types of the status.
const (
	// ConditionReady is True when every named cluster has confirmed the current
	// revision and reports it healthy.
	ConditionReady = "Ready"
	// ConditionReconciling is present, and True, while the controller or a
	// cluster still has something to do.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is present, and True, while a user must fix something
	// before anything can be propagated.
	ConditionStalled = "Stalled"
)

// Reasons of the Ready condition that concern the object as a whole. If only
// single clusters have a problem, the reason of Ready is that of the worst row.
const (
	// ReasonPropagated means that every cluster has confirmed the current
	// revision and reports it healthy.
	ReasonPropagated = "Propagated"
	// ReasonResourceNotFound means that the named resource does not exist.
	// Clusters keep the revision they have.
	ReasonResourceNotFound = "ResourceNotFound"
	// ReasonResourceKindNotFound means that the Karmada API server does not
	// serve the named apiVersion and kind. Clusters keep the revision they have.
	ReasonResourceKindNotFound = "ResourceKindNotFound"
	// ReasonResourceScopeMismatch means that a DirectPropagation names a
	// cluster-scoped kind, or a ClusterDirectPropagation a namespaced one. For a
	// dependency, it means that it is not in the namespace of the
	// DirectPropagation.
	ReasonResourceScopeMismatch = "ResourceScopeMismatch"
	// ReasonResourceNotPropagatable means that the kind, or this object of the
	// kind, must not be propagated.
	ReasonResourceNotPropagatable = "ResourceNotPropagatable"
	// ReasonNamespaceReserved means that the namespace belongs to Karmada or
	// Kubernetes and is not propagated.
	ReasonNamespaceReserved = "NamespaceReserved"
	// ReasonResourceReadFailed means that the resource, or the API that serves
	// it, could not be read. Nothing is deleted because of that.
	ReasonResourceReadFailed = "ResourceReadFailed"
	// ReasonRenderFailed means that no Work can be rendered from the resource: for
	// any cluster or, in a row, for that cluster.
	ReasonRenderFailed = "RenderFailed"
	// ReasonClusterSelectorInvalid means that spec.clusterSelector is not a
	// label selector. Clusters keep the revision they have.
	ReasonClusterSelectorInvalid = "ClusterSelectorInvalid"
	// ReasonNoClusterSelected means that no cluster matches
	// spec.clusterSelector and spec.clusters names none.
	ReasonNoClusterSelected = "NoClusterSelected"
	// ReasonDeleting means that the object is being deleted and
	// clusters are still to be cleaned up.
	ReasonDeleting = "Deleting"
)

// Reasons of the Ready condition that concern the rollout.
const (
	// ReasonRolloutProgressing means that clusters get the update revision, stage by
	// stage.
	ReasonRolloutProgressing = "RolloutProgressing"
	// ReasonRolloutSoaking means that every cluster of a stage is ready, and must
	// stay so for some time before the next stage begins.
	ReasonRolloutSoaking = "RolloutSoaking"
	// ReasonRolloutAwaitingApproval means that somebody must approve a stage before
	// the next one begins.
	ReasonRolloutAwaitingApproval = "RolloutAwaitingApproval"
	// ReasonRolloutPaused means that spec.rollout.paused or a command has paused the
	// rollout.
	ReasonRolloutPaused = "RolloutPaused"
	// ReasonRolloutRollingBack means that clusters return to the current revision.
	ReasonRolloutRollingBack = "RolloutRollingBack"
	// ReasonRolloutFailed means that more clusters have failed than may, and that
	// nothing more starts.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonRolledBack means that the update revision has failed, and that every
	// cluster has the current one again.
	ReasonRolledBack = "RolledBack"
	// ReasonRollbackFailed means that the update revision has failed, and that some
	// clusters have not confirmed the current one again.
	ReasonRollbackFailed = "RollbackFailed"
	// ReasonRolloutStateLost means that the status of the rollout is lost. Clusters
	// keep the revision they have.
	ReasonRolloutStateLost = "RolloutStateLost"
	// ReasonRevisionTooLarge means that the rendered revision is larger than a
	// PropagationRevision can be. Clusters keep the revision they have.
	ReasonRevisionTooLarge = "RevisionTooLarge"
	// ReasonRevisionUnreadable means that a PropagationRevision that clusters need is
	// missing, cannot be read, or cannot be trusted. Clusters keep the revision they
	// have.
	ReasonRevisionUnreadable = "RevisionUnreadable"
)

// Reasons of a row.
const (
	// ReasonApplied means that the cluster has confirmed the current revision
	// and reports it healthy.
	ReasonApplied = "Applied"
	// ReasonApplying means that the current revision is on its way to the
	// cluster, and the cluster has not confirmed it yet.
	ReasonApplying = "Applying"
	// ReasonApplyFailed means that the cluster refused the current revision.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonHealthUnknown means that the cluster has confirmed the current
	// revision, but has not reported its health yet.
	ReasonHealthUnknown = "HealthUnknown"
	// ReasonUnhealthy means that the cluster has confirmed the current revision,
	// but reports it as not healthy.
	ReasonUnhealthy = "Unhealthy"
	// ReasonWaiting means that the cluster keeps the revision it has until it is its
	// turn in the rollout.
	ReasonWaiting = "Waiting"
	// ReasonSuspended means that propagation to the cluster is suspended.
	ReasonSuspended = "Suspended"
	// ReasonConflict means that another owner already propagates this resource
	// to the cluster. The controller does not touch the Work of that owner.
	ReasonConflict = "Conflict"
	// ReasonOverrideFailed means that the overrides for this cluster cannot be
	// applied to the resource, or change something that they must not change. The
	// cluster keeps the revision it has.
	ReasonOverrideFailed = "OverrideFailed"
	// ReasonForbidden means that the service account of the object lacks a
	// permission: to get the resource, or to propagate to the cluster. The
	// cluster keeps the revision it has.
	ReasonForbidden = "Forbidden"
	// ReasonReviewFailed means that the Karmada API server could not be asked
	// what the service account of the object may do. The cluster keeps the
	// revision it has.
	ReasonReviewFailed = "ReviewFailed"
	// ReasonWriteFailed means that the Karmada API server refused a write that
	// this row needs.
	ReasonWriteFailed = "WriteFailed"
	// ReasonAPINotEnabled means that the cluster does not serve the kind.
	ReasonAPINotEnabled = "APINotEnabled"
	// ReasonClusterNotFound means that no Cluster of this name is registered.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonClusterNotReady means that Karmada has lost contact with the
	// cluster. What it runs now is unknown.
	ReasonClusterNotReady = "ClusterNotReady"
	// ReasonClusterTerminating means that the cluster is being unregistered.
	ReasonClusterTerminating = "ClusterTerminating"
	// ReasonClusterTainted means that clusterSelector matches the cluster, but the
	// cluster has a taint that clusterTolerations does not tolerate. It does not keep
	// the object from being Ready.
	ReasonClusterTainted = "ClusterTainted"
	// ReasonRemoving means that the resource is being removed from the cluster.
	ReasonRemoving = "Removing"
	// ReasonRemovalBlocked means that the resource cannot be removed from the
	// cluster until Karmada reaches the cluster again.
	ReasonRemovalBlocked = "RemovalBlocked"
)

// Labels and annotations. The controller puts all but the last two on Works.
// They are not meant for users.
const (
	// OwnerUIDLabel is, on a Work, the UID of the object that owns it.
	OwnerUIDLabel = GroupName + "/owner-uid"
	// OwnerKindAnnotation is, on a Work, the kind of the object that owns it.
	OwnerKindAnnotation = GroupName + "/owner-kind"
	// OwnerNamespaceAnnotation is, on a Work, the namespace of the object that
	// owns it. It is absent if that object is cluster-scoped.
	OwnerNamespaceAnnotation = GroupName + "/owner-namespace"
	// OwnerNameAnnotation is, on a Work, the name of the object that owns it.
	OwnerNameAnnotation = GroupName + "/owner-name"
	// RevisionAnnotation is, on a Work, the revision that the controller has written. If
	// the Work holds another one, somebody has edited it. If revisions are ever computed
	// differently, this needs another key, so that no Work counts as edited.
	RevisionAnnotation = GroupName + "/revision"
	// ConfirmedRevisionAnnotation is, on a Work, the revision that the cluster
	// had confirmed when the Work was last written.
	ConfirmedRevisionAnnotation = GroupName + "/confirmed-revision"
	// ClusterReadySinceAnnotation is, on a Work, the time since which the cluster
	// was Ready when the Work was last written. If the cluster is now Ready since
	// a later time, contact was lost in between, and the Work needs a new attempt.
	ClusterReadySinceAnnotation = GroupName + "/cluster-ready-since"

	// AttemptingSinceAnnotation is, on a suspended Work, the time since which Karmada may have
	// attempted it, RFC 3339, if it had no result when the Work was suspended. The condition
	// Dispatching then no longer shows that.
	AttemptingSinceAnnotation = GroupName + "/attempting-since"
	// ReportProofAnnotation is set on a Work that was written without a reset, because
	// the report of its cluster proves what it has applied: the revision, the generation
	// of the Work, and when it was written, RFC 3339: "1f0c 7 2026-01-01T12:00:00Z".
	ReportProofAnnotation = GroupName + "/report-proof"
	// HighestGenerationAnnotation is, on a Work, the highest generation of the resource
	// that the cluster may have been sent, if it is higher than that of the Work. Its
	// report on that generation may be older than the Work.
	HighestGenerationAnnotation = GroupName + "/highest-generation"

	// RolloutRevisionAnnotation is, on a Work, the revision of the rollout that the
	// controller has written.
	RolloutRevisionAnnotation = GroupName + "/rollout-revision"
	// ConfirmedRolloutRevisionAnnotation is, on a Work, the revision of the rollout
	// that the cluster had confirmed when the Work was last written.
	ConfirmedRolloutRevisionAnnotation = GroupName + "/confirmed-rollout-revision"

	// AttemptsAnnotation is, on a Work, how often the controller has asked Karmada
	// for a new attempt, and when it last did so, RFC 3339: "2 2026-01-01T12:00:00Z".
	// The word "deleting" follows if that was an attempt to delete the Work.
	AttemptsAnnotation = GroupName + "/attempts"
	// SupersedesAnnotation is, on a Work, the UID of a deleted resource whose
	// object the cluster may still have. The Work holds the resource that has since
	// been created with the same name.
	SupersedesAnnotation = GroupName + "/supersedes"
	// HealthFloorAnnotation is set on a Work whose content changed although the
	// generation of its template did not. It identifies the cluster's report on
	// the previous content: "generation 3", which the reported generation must
	// exceed, or "report " and a hash, from which the report must differ. If the
	// generation of the template did change, "passed 3" only counts: the previous
	// content has at most this generation in the cluster.
	HealthFloorAnnotation = GroupName + "/health-floor"

	// RetryAnnotation on an object requests an immediate new attempt for each of
	// its Works that a cluster refuses, once for each new value. On a Work, it is
	// the value that was last followed.
	RetryAnnotation = GroupName + "/retry"
	// AbandonUnreachableAnnotation, with the value "true" on an object that is
	// being deleted, lets the deletion finish although clusters that are not Ready
	// could not be cleaned up.
	AbandonUnreachableAnnotation = GroupName + "/abandon-unreachable"
)

// Annotations by which users give commands to the rollout of an object. The controller
// follows each value once and remembers it in the status, so that removing the
// annotation revokes nothing. To repeat a command, users change the text after the last
// slash. Only the first MaxCommandLength bytes of a value count.
const (
	// RolloutApproveAnnotation approves a stage for a revision, and ends its soak:
	// <stage>@<revision>, optionally with /<any text>.
	RolloutApproveAnnotation = GroupName + "/rollout-approve"
	// RolloutRetryAnnotation tries a failed revision again: <revision>, optionally
	// with /<any text>.
	RolloutRetryAnnotation = GroupName + "/rollout-retry"
	// RolloutAbortAnnotation stops the rollout of a revision, and returns the
	// clusters to the current one: <revision>, optionally with /<any text>.
	RolloutAbortAnnotation = GroupName + "/rollout-abort"
	// RolloutPauseAnnotation pauses the rollout. The value is any text.
	RolloutPauseAnnotation = GroupName + "/rollout-pause"
	// RolloutResumeAnnotation resumes a rollout that RolloutPauseAnnotation has
	// paused. The value is any text.
	RolloutResumeAnnotation = GroupName + "/rollout-resume"
)

// WorkConditionReset is, on a Work, the condition that records the generation at
// which the controller reset what the cluster had confirmed.
const WorkConditionReset = GroupName + "/Reset"

// CleanupFinalizer holds an object until its Works are gone.
const CleanupFinalizer = GroupName + "/cleanup"

// Reasons of Events that are not reasons of the status.
const (
	// EventRolloutStarted means that the rollout of a revision has begun.
	EventRolloutStarted = "RolloutStarted"
	// EventStageStarted means that a stage of the rollout has begun.
	EventStageStarted = "StageStarted"
	// EventStageCompleted means that a stage is ready, soaked and approved.
	EventStageCompleted = "StageCompleted"
	// EventApprovalRequired means that somebody must approve a stage.
	EventApprovalRequired = "ApprovalRequired"
	// EventClusterFailed means that a cluster was not ready before its deadline.
	EventClusterFailed = "ClusterFailed"
	// EventRolloutAborted means that a user has aborted the rollout.
	EventRolloutAborted = "RolloutAborted"
	// EventRolloutSuperseded means that another revision was requested before every
	// cluster had the previous one.
	EventRolloutSuperseded = "RolloutSuperseded"
	// EventRolloutCompleted means that every stage of the rollout is completed.
	EventRolloutCompleted = "RolloutCompleted"
	// EventCommandRejected means that a command that a user has given by annotation
	// cannot be followed.
	EventCommandRejected = "CommandRejected"
	// EventClustersAbandoned records which clusters were not cleaned up when the
	// deletion of the object finished.
	EventClustersAbandoned = "ClustersAbandoned"
	// EventAggregateStatusFailed means that the reports of the clusters could not
	// be aggregated into the status of the resource in the control plane.
	EventAggregateStatusFailed = "AggregateStatusFailed"
)

const (
	// MaxClusterRows is the maximum number of rows in the status.
	MaxClusterRows = 256
	// MaxDependencies is the maximum number of dependencies of an object.
	MaxDependencies = 256
	// MaxUnreadyDependencies is the maximum number of dependencies that the status
	// lists.
	MaxUnreadyDependencies = 16
	// MaxMessageLength is the maximum length of the message of a row, in bytes.
	MaxMessageLength = 256
	// MaxCommandLength is how many bytes of an annotation with a command count.
	MaxCommandLength = 256
	// MaxFailedClusters is the maximum number of failed clusters that the status of a
	// rollout names.
	MaxFailedClusters = 16
	// MaxRevisionSize is the maximum size of the data of a PropagationRevision, in
	// bytes.
	MaxRevisionSize = 1 << 20
)
