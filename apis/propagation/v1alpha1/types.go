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

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=directpropagations,scope=Namespaced,shortName=dp,categories={karmada-io}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.resource.name`,description="Name of the resource that is propagated."
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.resource.kind`,priority=1,description="Kind of the resource that is propagated."
// +kubebuilder:printcolumn:name="Clusters",type=string,JSONPath=`.status.summary.progress`,description="Clusters that have confirmed the current revision and report it healthy, out of all named clusters."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True when every cluster has confirmed the current revision and reports it healthy."
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the Ready condition, in one word."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the DirectPropagation was created."
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1,description="Message of the Ready condition, in one sentence."

// DirectPropagation propagates one namespaced resource of the Karmada control
// plane to the clusters that it names. The resource must be in the namespace of
// the DirectPropagation.
type DirectPropagation struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec defines which resource is propagated to which clusters.
	// +required
	Spec PropagationSpec `json:"spec,omitzero"`

	// status reports what is applied on each cluster. Only the controller writes
	// it. observedGeneration -1 means that the controller has not seen the object
	// yet.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status PropagationStatus `json:"status,omitempty,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// DirectPropagationList is a list of DirectPropagations.
type DirectPropagationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the DirectPropagations.
	Items []DirectPropagation `json:"items"`
}

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterdirectpropagations,scope=Cluster,shortName=cdp,categories={karmada-io}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.resource.name`,description="Name of the resource that is propagated."
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.resource.kind`,priority=1,description="Kind of the resource that is propagated."
// +kubebuilder:printcolumn:name="Clusters",type=string,JSONPath=`.status.summary.progress`,description="Clusters that have confirmed the current revision and report it healthy, out of all named clusters."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True when every cluster has confirmed the current revision and reports it healthy."
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the Ready condition, in one word."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the ClusterDirectPropagation was created."
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1,description="Message of the Ready condition, in one sentence."

// ClusterDirectPropagation propagates one cluster-scoped resource of the
// Karmada control plane, such as a CustomResourceDefinition or a ClusterRole,
// to the clusters that it names.
// +kubebuilder:validation:XValidation:rule="!has(self.spec.serviceAccountName)",message="must not be set: a ClusterDirectPropagation has no namespace that the service account could be in, and always acts with the controller's permissions",fieldPath=".spec.serviceAccountName"
type ClusterDirectPropagation struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec defines which resource is propagated to which clusters.
	// +required
	Spec PropagationSpec `json:"spec,omitzero"`

	// status reports what is applied on each cluster. Only the controller writes
	// it. observedGeneration -1 means that the controller has not seen the object
	// yet.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status PropagationStatus `json:"status,omitempty,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// ClusterDirectPropagationList is a list of ClusterDirectPropagations.
type ClusterDirectPropagationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ClusterDirectPropagations.
	Items []ClusterDirectPropagation `json:"items"`
}

// PropagationSpec defines which resource is propagated to which clusters.
// +kubebuilder:validation:XValidation:rule="has(self.clusters) || has(self.clusterSelector)",message="must say which clusters get the resource, in clusters or by clusterSelector",fieldPath=".clusters"
// +kubebuilder:validation:XValidation:rule="!has(self.clusters) || !self.clusters.exists(c, has(c.overriders)) || !(self.resource.apiVersion.split('/')[0] in ['rbac.authorization.k8s.io', 'authorization.openshift.io', 'security.openshift.io', 'user.openshift.io', 'certificates.k8s.io', 'admissionregistration.k8s.io', 'apiregistration.k8s.io', 'apiextensions.k8s.io'] || self.resource.apiVersion == 'v1' && self.resource.kind in ['Namespace', 'ResourceQuota', 'LimitRange'])",message="must not have overriders for a resource that grants permissions or limits what users of a namespace may do, which must be the same on every cluster; use a ClusterOverridePolicy",fieldPath=".clusters"
type PropagationSpec struct {
	// resource names the resource to propagate. You can change it: the old
	// resource is withdrawn from a cluster after the new one is written for it.
	// +required
	Resource ResourceReference `json:"resource,omitzero"`

	// clusters are the member clusters that get the resource. A cluster that is
	// removed from the list loses the resource, unless preserveResourcesOnDeletion
	// is true.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=5000
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="must name at least one cluster; to withdraw the resource from all clusters, delete this object"
	// +optional
	Clusters []TargetCluster `json:"clusters,omitempty"`

	// clusterSelector selects member clusters by the labels of their Cluster
	// objects, in addition to those in clusters. A cluster that starts to match
	// gets the resource. A cluster that no longer matches is treated like one that
	// is removed from the list. An empty selector selects every cluster.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// conflictResolution defines what happens if a cluster already has an object of
	// the same name that Karmada does not manage. Abort leaves the object alone and
	// reports the cluster as failed. Overwrite takes the object over.
	// +kubebuilder:default=Abort
	// +optional
	ConflictResolution ConflictResolution `json:"conflictResolution,omitempty"`

	// preserveResourcesOnDeletion keeps the resource on the clusters when the
	// DirectPropagation is deleted or a cluster is removed from the list. By
	// default, the resource is removed from them.
	// +optional
	PreserveResourcesOnDeletion *bool `json:"preserveResourcesOnDeletion,omitempty"`

	// suspension stops changes from being propagated to some or all clusters. What
	// the clusters run stays as it is.
	// +optional
	Suspension Suspension `json:"suspension,omitempty,omitzero"`

	// propagateDeps also propagates what the resource needs to the same clusters:
	// ConfigMaps, Secrets, ServiceAccounts, PersistentVolumeClaims, and whatever
	// else Karmada's resource interpreter reports. Changes to these dependencies
	// are propagated too. Objects can share a dependency; it is withdrawn with the
	// last object that needs it.
	// +optional
	PropagateDeps *bool `json:"propagateDeps,omitempty"`

	// aggregateStatus defines whether the status that the clusters report is
	// aggregated into the resource in the control plane, as Karmada does for
	// resources that a policy propagates. The default is true. It has an effect on
	// every kind that Karmada's resource interpreter can aggregate.
	// +optional
	AggregateStatus *bool `json:"aggregateStatus,omitempty"`

	// serviceAccountName names a service account in the namespace of the
	// DirectPropagation. A revision is propagated to a cluster only if the account
	// may get the resource and each of its dependencies, and may propagate to the
	// cluster: verb propagate on clusters.cluster.karmada.io. If the account loses
	// a permission, clusters keep what they run. If the field is not set, the
	// default service account of the controller applies; if there is no default,
	// the permissions of the controller apply. A ClusterDirectPropagation must not
	// set this field.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a ServiceAccount: lower-case letters, digits, '-' and '.'"
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// ResourceReference names a resource of the Karmada control plane. A
// namespaced resource is always taken from the namespace of the object that
// names it.
type ResourceReference struct {
	// apiVersion is the group and version of the resource, for example v1 or
	// apps/v1.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a version or group/version in lower case, for example v1 or apps/v1"
	// +required
	APIVersion string `json:"apiVersion,omitempty"`

	// kind is the kind of the resource, for example Deployment.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$')",message="must be a kind as manifests name it, for example Deployment, and neither a plural nor with its group"
	// +required
	Kind string `json:"kind,omitempty"`

	// name is the name of the resource.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self != '' && self != '.' && self != '..' && !self.contains('/') && !self.contains('%')",message="must be the name of a resource: not empty, not '.' or '..', and without '/' and '%'"
	// +required
	Name string `json:"name,omitempty"`
}

// TargetCluster is a member cluster that gets the resource.
type TargetCluster struct {
	// name is the name of the Karmada Cluster object.
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a Karmada Cluster, as kubectl get clusters shows it: lower-case letters, digits and '-'"
	// +required
	Name string `json:"name,omitempty"`

	// replicas is the number of replicas on this cluster. The default is the
	// number in the resource. Karmada's resource interpreter must be able to revise
	// the replicas of the kind.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// overriders change the resource for this cluster, after all OverridePolicies
	// and ClusterOverridePolicies have been applied. They have the same format as
	// in those policies. They are not allowed for resources that grant permissions,
	// such as a RoleBinding, or that limit what users of a namespace may do, such
	// as a ResourceQuota.
	// +optional
	Overriders *policyv1alpha1.Overriders `json:"overriders,omitempty"`
}

// ConflictResolution defines what happens if a cluster already has an object of
// the same name that Karmada does not manage.
// +kubebuilder:validation:Enum=Abort;Overwrite
type ConflictResolution string

const (
	// ConflictAbort leaves the existing object alone.
	ConflictAbort ConflictResolution = "Abort"
	// ConflictOverwrite takes over the existing object.
	ConflictOverwrite ConflictResolution = "Overwrite"
)

// Suspension stops changes from being propagated to clusters.
// +kubebuilder:validation:XValidation:rule="has(self.dispatching) || has(self.dispatchingOnClusters)",message="must say what is suspended, in dispatching or in dispatchingOnClusters, or be left out"
// +kubebuilder:validation:XValidation:rule="!(has(self.dispatching) && self.dispatching && has(self.dispatchingOnClusters))",message="must have either dispatching: true, which suspends every cluster, or dispatchingOnClusters, which names some, and not both"
type Suspension struct {
	// dispatching suspends all clusters if it is true.
	// +optional
	Dispatching *bool `json:"dispatching,omitempty"`

	// dispatchingOnClusters names the clusters to suspend.
	// +optional
	DispatchingOnClusters SuspendClusters `json:"dispatchingOnClusters,omitempty,omitzero"`
}

// SuspendClusters names clusters that are suspended.
// +kubebuilder:validation:XValidation:rule="has(self.clusterNames) && self.clusterNames.size() > 0",message="must name at least one cluster in clusterNames, or be left out"
type SuspendClusters struct {
	// clusterNames are names of Karmada Cluster objects.
	// +listType=set
	// +kubebuilder:validation:MaxItems=5000
	// +kubebuilder:validation:items:MaxLength=48
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a Karmada Cluster, as kubectl get clusters shows it: lower-case letters, digits and '-'"
	// +optional
	ClusterNames []string `json:"clusterNames,omitempty"`
}

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

	// omitted is the number of clusters that have no row because there are more
	// than 256. The summary counts all clusters.
	// +kubebuilder:validation:Minimum=0
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
	// +required
	Clusters *int32 `json:"clusters,omitempty"`

	// applied is the number of clusters that have confirmed the current
	// revision, healthy or not.
	// +kubebuilder:validation:Minimum=0
	// +required
	Applied *int32 `json:"applied,omitempty"`

	// healthy is the number of clusters that have confirmed the current
	// revision and report it healthy.
	// +kubebuilder:validation:Minimum=0
	// +required
	Healthy *int32 `json:"healthy,omitempty"`

	// failed is the number of clusters whose row is False.
	// +kubebuilder:validation:Minimum=0
	// +required
	Failed *int32 `json:"failed,omitempty"`

	// pending is the number of clusters that have not answered yet.
	// +kubebuilder:validation:Minimum=0
	// +required
	Pending *int32 `json:"pending,omitempty"`

	// unreachable is the number of clusters that Karmada reports as not Ready.
	// +kubebuilder:validation:Minimum=0
	// +required
	Unreachable *int32 `json:"unreachable,omitempty"`
}

// Dependencies counts the dependencies of the named resource.
type Dependencies struct {
	// total is the number of dependencies.
	// +kubebuilder:validation:Minimum=0
	// +required
	Total *int32 `json:"total,omitempty"`

	// ready is the number of dependencies that every cluster has confirmed, or
	// gets from another owner.
	// +kubebuilder:validation:Minimum=0
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

	// lastTransitionTime is the last time that applied, health or reason changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
}
