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
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=propagationrevisions,scope=Namespaced
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.owner.name`,description="Name of the object that the revision belongs to."
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.revision`,description="The revision, as the status of the object names it."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the revision was requested for the first time."

// PropagationRevision is what one revision of an object was rendered to, for every
// cluster. The controller saves it before the first cluster gets the revision, so that
// clusters that are not updated yet keep exactly what they have, and a rollback restores
// it. The content may be a Secret, so only the controller should be able to read it. It
// never changes. The controller deletes it when no cluster needs it anymore.
type PropagationRevision struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// owner is the object that the revision belongs to.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="must not be changed: a revision never changes"
	// +required
	Owner RevisionOwner `json:"owner,omitzero"`

	// revision is the hash of the user's input that the status of the owner names.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="must not be changed: a revision never changes"
	// +required
	Revision string `json:"revision,omitempty"`

	// resource names the resource that was rendered.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="must not be changed: a revision never changes"
	// +required
	Resource ResourceReference `json:"resource,omitzero"`

	// digest is the SHA-256 hash of data, in lower-case hexadecimal digits. The
	// controller does not use data that do not match it.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="must be a SHA-256 hash in 64 lower-case hexadecimal digits"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="must not be changed: a revision never changes"
	// +required
	Digest string `json:"digest,omitempty"`

	// data are the rendered manifests, compressed, in a format that only the
	// controller knows. They have at most 1 MiB, which is 1398104 characters of
	// Base64.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1398104
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="must not be changed: a revision never changes"
	// +required
	Data []byte `json:"data,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// PropagationRevisionList is a list of PropagationRevisions.
type PropagationRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the PropagationRevisions.
	Items []PropagationRevision `json:"items"`
}

// RevisionOwner is the object that a revision belongs to.
type RevisionOwner struct {
	// kind is the kind of the owner.
	// +kubebuilder:validation:Enum=DirectPropagation;ClusterDirectPropagation
	// +required
	Kind string `json:"kind,omitempty"`

	// name is the name of the owner. A DirectPropagation is in the namespace of the
	// revision.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// uid is the UID of the owner, which distinguishes it from an object that has
	// since been created with the same name.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	UID types.UID `json:"uid,omitempty"`
}
