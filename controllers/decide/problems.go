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

package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// ReadFailed reports that the resource could not be read, but may be readable soon.
func ReadFailed(message string, err error) *Problem {
	return &Problem{Reason: propagationv1alpha1.ReasonResourceReadFailed, Message: message, Err: err}
}

// ReadDenied reports which permission the controller lacks.
func ReadDenied(verb string, resource schema.GroupVersionResource, err error) *Problem {
	return ReadFailed(fmt.Sprintf("the controller may not %s %s; grant it get, list and watch on them, as install-rbac --propagated does: %v",
		verb, resource.GroupResource(), err), err)
}

// KindNotFound reports that the API server does not serve the kind.
func KindNotFound(reference propagationv1alpha1.ResourceReference) *Problem {
	return &Problem{
		Reason: propagationv1alpha1.ReasonResourceKindNotFound,
		Message: fmt.Sprintf("spec.resource: the Karmada API server does not serve kind %q in %q; check the spelling, name a version that is served, or install its CustomResourceDefinition there",
			reference.Kind, reference.APIVersion),
		Stalled: true,
		Poll:    KindPoll,
	}
}

// ReadProblem explains why a resource could not be read.
func ReadProblem(reference propagationv1alpha1.ResourceReference, mapping *meta.RESTMapping, namespace string, err error) *Problem {
	name := names.NamespacedKey(namespace, reference.Name)
	switch {
	case isKindGone(err), meta.IsNoMatchError(err):
		return KindNotFound(reference)
	case apierrors.IsForbidden(err):
		return ReadDenied("get", mapping.Resource, err)
	case apierrors.IsNotFound(err):
		return &Problem{
			Reason:  propagationv1alpha1.ReasonResourceNotFound,
			Message: fmt.Sprintf("%s %s does not exist in the Karmada control plane", reference.Kind, name),
		}
	default:
		return ReadFailed(fmt.Sprintf("reading %s %s: %v", reference.Kind, name, err), err)
	}
}

// isKindGone distinguishes a path that the API server does not know from an object
// that does not exist.
func isKindGone(err error) bool {
	status, ok := apierrors.StatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	return ok && apierrors.IsNotFound(err) && strings.Contains(status.Message, "404 page not found")
}

// Forbidden explains why no resource of this kind or namespace may be propagated;
// nil if it may.
func Forbidden(reference propagationv1alpha1.ResourceReference, namespace string) *Problem {
	kind := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()
	if kind == (schema.GroupKind{Group: "", Kind: "Namespace"}) {
		namespace = reference.Name
	}
	if names.IsReservedNamespace(namespace) || strings.HasPrefix(namespace, "kube-") {
		return &Problem{
			Reason:  propagationv1alpha1.ReasonNamespaceReserved,
			Message: fmt.Sprintf("namespace %s is reserved for Karmada or Kubernetes and is not propagated; use another namespace", namespace),
			Stalled: true,
		}
	}
	_, defines, _ := strings.Cut(reference.Name, ".")
	switch {
	case IsReservedGroup(kind.Group), slices.Contains(stationaryKinds, kind),
		// A CustomResourceDefinition is named after the group that it defines.
		kind.Kind == util.CRDKind && IsReservedGroup(defines):
		return notPropagatable(reference.Kind, reference.Name, "this kind only has a meaning in the control plane that it was made in")
	}
	return nil
}

// stationaryKinds are the kinds that describe one control plane.
var stationaryKinds = []schema.GroupKind{
	{Group: "", Kind: "Event"},
	{Group: "events.k8s.io", Kind: "Event"},
	{Group: "coordination.k8s.io", Kind: "Lease"},
	{Group: "", Kind: "Node"},
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"},
}

// Every cluster publishes its own rootCAConfigMap in every namespace.
const (
	rootCAConfigMap = "kube-root-ca.crt"
	configMapKind   = "ConfigMap"
)

// ForbiddenObject explains why this object may not be propagated although its kind
// may.
func ForbiddenObject(resource *unstructured.Unstructured) *Problem {
	kind, name := resource.GetKind(), resource.GetName()
	if resource.GroupVersionKind().Group != corev1.GroupName {
		return nil
	}
	secretType, _, _ := unstructured.NestedString(resource.Object, "type")
	switch {
	case kind == util.SecretKind && secretType == string(corev1.SecretTypeServiceAccountToken):
		return notPropagatable(kind, name, "a service account token is only valid in the cluster that issued it")
	case kind == configMapKind && name == rootCAConfigMap:
		return notPropagatable(kind, name, "every cluster publishes its own")
	case kind == util.PodKind && metav1.GetControllerOf(resource) != nil:
		return notPropagatable(kind, name, "it belongs to a controller; propagate that controller's object instead")
	}
	return nil
}

func notPropagatable(kind, name, why string) *Problem {
	return &Problem{
		Reason:  propagationv1alpha1.ReasonResourceNotPropagatable,
		Message: fmt.Sprintf("spec.resource: %s %s must not be propagated: %s", kind, name, why),
		Stalled: true,
	}
}

// IsReservedGroup reports whether a group or a domain belongs to Karmada or to this
// project.
func IsReservedGroup(group string) bool {
	return group == "karmada.io" || strings.HasSuffix(group, ".karmada.io") || group == propagationv1alpha1.GroupName
}
