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
	corev1 "k8s.io/api/core/v1"
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
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.rollout.progress`,description="The stage that a change has reached with the clusters that are ready in it, or what has become of the rollout."
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
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.rollout.progress`,description="The stage that a change has reached with the clusters that are ready in it, or what has become of the rollout."
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
// +kubebuilder:validation:XValidation:rule="!has(self.clusterTolerations) || self.clusterTolerations.size() == 0 || has(self.clusterSelector)",message="must not be set without clusterSelector, because clusters that are named in clusters get the resource whatever taints they have",fieldPath=".clusterTolerations"
// +kubebuilder:validation:XValidation:rule="!has(self.clusters) || !self.clusters.exists(c, has(c.overriders)) || !(self.resource.apiVersion.split('/')[0] in ['rbac.authorization.k8s.io', 'authorization.openshift.io', 'security.openshift.io', 'user.openshift.io', 'certificates.k8s.io', 'admissionregistration.k8s.io', 'apiregistration.k8s.io', 'apiextensions.k8s.io'] || self.resource.apiVersion == 'v1' && self.resource.kind in ['Namespace', 'ResourceQuota', 'LimitRange'])",message="must not have overriders for a resource that grants permissions or limits what users of a namespace may do, which must be the same on every cluster; use a ClusterOverridePolicy",fieldPath=".clusters"
// +kubebuilder:validation:XValidation:rule="!(has(self.rollout) || has(oldSelf.rollout)) || self.resource.kind == oldSelf.resource.kind && self.resource.name == oldSelf.resource.name && self.resource.apiVersion.contains('/') == oldSelf.resource.apiVersion.contains('/') && (!self.resource.apiVersion.contains('/') || self.resource.apiVersion.split('/')[0] == oldSelf.resource.apiVersion.split('/')[0])",message="must not name another resource while spec.rollout is set; only the version in apiVersion may change. Create another object for the other resource, or remove spec.rollout first",fieldPath=".resource"
type PropagationSpec struct {
	// resource names the resource to propagate. You can change it: the old
	// resource is withdrawn from a cluster after the new one is written for it.
	// While rollout is set, only the version in apiVersion can change.
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
	// gets the resource, unless it has a taint that clusterTolerations does not
	// tolerate. A cluster that no longer matches is treated like one that is removed
	// from the list. An empty selector selects every cluster.
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="must have one of the operators In, NotIn, Exists and DoesNotExist",fieldPath=".matchExpressions"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : !(e.operator in ['Exists', 'DoesNotExist'] && has(e.values) && e.values.size() > 0))",message="must have values with the operators In and NotIn, and no values with Exists and DoesNotExist",fieldPath=".matchExpressions"
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// clusterTolerations tolerates taints of Cluster objects. A cluster with a taint
	// that has the effect NoSchedule or NoExecute, as set by karmadactl cordon and
	// karmadactl taint, is not selected by clusterSelector unless the taint is
	// tolerated. Clusters that have the resource already keep it, and clusters in
	// clusters get it whatever taints they have. The taints that Karmada sets while it
	// has no contact with a cluster do not count.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	ClusterTolerations []ClusterToleration `json:"clusterTolerations,omitempty"`

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

	// rollout lets a change reach the clusters stage by stage. The next clusters get
	// it only after the previous ones have confirmed it and have been healthy with
	// it, and it stops or rolls back automatically when too many fail. Without
	// rollout, every change reaches all clusters at once. Changes of replicas are not
	// rolled out: they always reach all clusters at once.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

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

// ClusterToleration tolerates taints. The fields and their meaning are those of
// clusterTolerations in a PropagationPolicy.
// +kubebuilder:validation:XValidation:rule="has(self.key) || has(self.operator) && self.operator == 'Exists'",message="must have a key, or the operator Exists to tolerate every taint",fieldPath=".key"
// +kubebuilder:validation:XValidation:rule="!(has(self.operator) && self.operator == 'Exists') || !has(self.value) || self.value.size() == 0",message="must not have a value with the operator Exists",fieldPath=".value"
type ClusterToleration struct {
	// key is the key of the taints that are tolerated. Without a key, all are, and
	// the operator must be Exists.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +optional
	Key string `json:"key,omitempty"`

	// operator is Equal to tolerate taints with the key and the value, or Exists to
	// tolerate taints with the key whatever their value is. The default is Equal.
	// +kubebuilder:validation:Enum=Exists;Equal
	// +optional
	Operator corev1.TolerationOperator `json:"operator,omitempty"`

	// value is the value of the taints that are tolerated.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Value string `json:"value,omitempty"`

	// effect is the effect of the taints that are tolerated. Without an effect, all
	// are.
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +optional
	Effect corev1.TaintEffect `json:"effect,omitempty"`

	// tolerationSeconds has no effect, because the controller evicts nothing. It is
	// accepted so that you can copy the tolerations of a PropagationPolicy.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
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
	// +kubebuilder:validation:Maximum=2147483647
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
