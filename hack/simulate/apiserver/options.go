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

package apiserver

import (
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind that the server serves without a CustomResourceDefinition, as an
// API server serves its own kinds and those of aggregated API servers.
type Kind struct {
	// Group is empty for the core group.
	Group string
	// Versions are the served versions, the preferred one first. All of them show the
	// same content.
	Versions []string
	Kind     string
	// Plural is the name of the resource, for example works.
	Plural     string
	Namespaced bool
	// Status is true if status is a subresource.
	Status bool
	// Generation is true if the server counts changes of the content.
	Generation bool
	// Annotations is true if a change of the annotations raises the generation too, as
	// it does for Deployments.
	Annotations bool
	// Conditional is true if every update must have a resourceVersion.
	Conditional bool
	// Answer makes the kind one that is never stored, such as SubjectAccessReview: it
	// returns what a create request is answered with. It gets the name of the client
	// and may change the object.
	Answer func(client string, object *unstructured.Unstructured) error
}

// Request identifies what a client asks for.
type Request struct {
	// Client is the name of the client, as given to Transport, Client or Immediate.
	Client string
	// Verb is one of get, list, watch, create, update, patch, delete, deletecollection.
	Verb        string
	Group       string
	Version     string
	Resource    string
	Subresource string
	// Namespace is empty for cluster-scoped resources, and for all namespaces.
	Namespace string
	// Name is empty for requests for collections, and if the server makes the name.
	Name string
}

// GroupResource is the resource of the request.
func (r *Request) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}

// Write is a write that is about to take effect, or has taken effect.
type Write struct {
	Request
	// ResourceVersion is that of the write; 0 before it has taken effect.
	ResourceVersion int64
	// At is the time on the clock of the server.
	At time.Time
	// Before is nil if the object did not exist. It must not be changed.
	Before *unstructured.Unstructured
	// After is nil if the object no longer exists. It must not be changed.
	After *unstructured.Unstructured
	// Body is what the client sent. It must not be changed.
	Body []byte
}

// Options configure a Server. The zero value serves BuiltinKinds.
type Options struct {
	// Now is the clock of the server; nil for the real one.
	Now func() time.Time
	// Scheme has the Go types of built-in kinds: their objects get the defaults of the
	// scheme and lose unknown fields, they may be sent as protobuf, and strategic merge
	// patches use their tags. Kinds that it does not know keep every field. Nil for a
	// scheme with the types of client-go and CustomResourceDefinition.
	Scheme *runtime.Scheme
	// PromptEvents has the server answer at once who writes an Event. Client-go does so
	// while it holds a lock.
	PromptEvents bool
	// Kinds are served besides those of CRDs; nil for BuiltinKinds.
	Kinds []Kind
	// CRDs exist from the beginning.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// DiscoveryLag is how long it takes until discovery shows that other kinds are served.
	DiscoveryLag time.Duration
	// Mutate may change After of a write before it is validated, as mutating webhooks do.
	// It is not called for deletions and subresources. It must not write.
	Mutate func(Write) error
	// Admit may refuse a write before it takes effect, as webhooks and admission
	// policies do. It must not write.
	Admit func(Write) error
}

// BuiltinKinds are the kinds of a Kubernetes API server that controllers commonly
// use. Kinds that are never stored, such as SubjectAccessReview, are not among them.
func BuiltinKinds() []Kind {
	const rbac = "rbac.authorization.k8s.io"
	v1 := []string{"v1"}
	return []Kind{
		{Versions: v1, Kind: "Namespace", Plural: namespaces, Status: true},
		{Versions: v1, Kind: "ConfigMap", Plural: "configmaps", Namespaced: true},
		{Versions: v1, Kind: "Event", Plural: "events", Namespaced: true},
		{Versions: v1, Kind: "Secret", Plural: "secrets", Namespaced: true},
		{Versions: v1, Kind: "Service", Plural: "services", Namespaced: true, Status: true},
		{Versions: v1, Kind: "ServiceAccount", Plural: "serviceaccounts", Namespaced: true},
		{Group: apiextensionsv1.GroupName, Versions: v1, Kind: "CustomResourceDefinition", Plural: definitions, Status: true, Generation: true, Conditional: true},
		{Group: "apps", Versions: v1, Kind: "DaemonSet", Plural: "daemonsets", Namespaced: true, Status: true, Generation: true},
		{Group: "apps", Versions: v1, Kind: "Deployment", Plural: "deployments", Namespaced: true, Status: true, Generation: true, Annotations: true},
		{Group: "apps", Versions: v1, Kind: "StatefulSet", Plural: "statefulsets", Namespaced: true, Status: true, Generation: true},
		{Group: "batch", Versions: v1, Kind: "Job", Plural: "jobs", Namespaced: true, Status: true, Generation: true},
		{Group: "coordination.k8s.io", Versions: v1, Kind: "Lease", Plural: "leases", Namespaced: true, Conditional: true},
		{Group: "events.k8s.io", Versions: v1, Kind: "Event", Plural: "events", Namespaced: true},
		{Group: rbac, Versions: v1, Kind: "ClusterRole", Plural: "clusterroles"},
		{Group: rbac, Versions: v1, Kind: "ClusterRoleBinding", Plural: "clusterrolebindings"},
		{Group: rbac, Versions: v1, Kind: "Role", Plural: "roles", Namespaced: true},
		{Group: rbac, Versions: v1, Kind: "RoleBinding", Plural: "rolebindings", Namespaced: true},
	}
}
