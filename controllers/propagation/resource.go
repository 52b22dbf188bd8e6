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

package propagation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Resource is the state of the named resource.
type Resource struct {
	// Problem says why there is no manifest; nil when there is one.
	Problem *Problem
	// UID and Version are the resource's.
	UID     types.UID
	Version string
	// Revision is the revision of the manifest that clusters share.
	Revision string
	// Renderings are, by cluster, what gets there instead.
	Renderings map[string]*Rendering
	// Dependencies are the resources that have to follow it.
	Dependencies []configv1alpha1.DependentObjectReference
	// ClaimedBy names the policy that has claimed the resource.
	ClaimedBy string
	// Poll is how often to look again because the kind cannot be watched now; 0
	// for never.
	Poll time.Duration
}

// Problem is why nothing can be rendered.
type Problem struct {
	Reason  string
	Message string
	// Stalled: a user must mend it.
	Stalled bool
	// Poll is how often to look again where no watch tells; 0 for never.
	Poll time.Duration
	// Err is a failure that may pass, to be tried again with back-off.
	Err error
}

// recollection is what is remembered of a resource, so that it is read only
// when it has changed. It holds no content.
type recollection struct {
	// generation is that of the object, inputs what else it was rendered from.
	generation int64
	inputs     string
	resource   Resource
	// variants are, by name, what clusters get that get something of their own;
	// nil for what turned out to be the same as on other clusters.
	variants map[string]*Rendering
}

// isOf reports whether what is remembered is of a resource as it is now.
func (r *recollection) isOf(template *unstructured.Unstructured) bool {
	return r.resource.Version == template.GetResourceVersion() && r.resource.UID == template.GetUID()
}

// covers reports whether all that clusters get is known.
func (r *recollection) covers(found *variants, now time.Time) bool {
	for name := range found.byName {
		if rendering, known := r.variants[name]; !known || rendering.isDue(now) {
			return false
		}
	}
	return true
}

// sorted is the resource with what each cluster gets.
func (r *recollection) sorted(found *variants) Resource {
	resource := r.resource
	for cluster, name := range found.byCluster {
		if resource.Renderings == nil {
			resource.Renderings = make(map[string]*Rendering, len(found.byCluster))
		}
		resource.Renderings[cluster] = r.variants[name]
	}
	return resource
}

// bindingKinds are the kinds that Karmada renders Works from, with the label
// and the annotations by which their Works are known.
var bindingKinds = []struct{ kind, label, namespace, name string }{
	{"ResourceBinding", workv1alpha2.ResourceBindingPermanentIDLabel, workv1alpha2.ResourceBindingNamespaceAnnotationKey, workv1alpha2.ResourceBindingNameAnnotationKey},
	{"ClusterResourceBinding", workv1alpha2.ClusterResourceBindingPermanentIDLabel, "", workv1alpha2.ClusterResourceBindingAnnotationKey},
}

// observeResource reads the named resource and renders it: only its revisions
// if those are known and full is false. While its kind changes, it has to be
// looked at again when the API server is sure to tell the kind as it is.
func (r *Reconciler) observeResource(ctx context.Context, object Object, observed *Observed, full bool) (Resource, *renderer) {
	resource, means := r.readResource(ctx, object, observed, full)
	settles := r.Kinds.Unsettled(groupOfVersion(object.GetSpec().Resource.APIVersion))
	poll := &resource.Poll
	if resource.Problem != nil {
		poll = &resource.Problem.Poll
	}
	if settles > 0 && (*poll == 0 || settles < *poll) {
		*poll = settles
	}
	return resource, means
}

func (r *Reconciler) readResource(ctx context.Context, object Object, observed *Observed, full bool) (Resource, *renderer) {
	reference, key := object.GetSpec().Resource, client.ObjectKeyFromObject(object)
	mapping, problem := r.mapNamed(reference, key)
	if problem != nil {
		return Resource{Problem: problem}, nil
	}
	r.Resources.Track(key, mapping.Resource)
	poll, problem := r.watchState(mapping)
	if problem != nil {
		return Resource{Problem: problem}, nil
	}
	found, err := r.Customizer.variantsOf(ctx, observed)
	if err != nil {
		return Resource{Problem: readFailed(err.Error(), err)}, nil
	}
	known, remembered := r.memories.of(key).recall(observed.Generation, found.inputs)
	suffices := !full && remembered && known.covers(found, observed.Now)
	if suffices && r.Resources.Unchanged(mapping.Resource, key.Namespace, reference.Name, known.resource.UID, known.resource.Version) {
		return known.sorted(found), nil
	}
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := r.Kinds.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: reference.Name}, template); err != nil {
		return Resource{Problem: readProblem(reference, mapping, key.Namespace, err)}, nil
	}
	if suffices && template.GetUID() == known.resource.UID && template.GetResourceVersion() == known.resource.Version {
		resource := known.sorted(found)
		resource.Poll = poll
		return resource, nil
	}
	if problem := forbiddenObject(template); problem != nil {
		return Resource{Problem: problem}, nil
	}
	learned, means, err := r.learn(ctx, observed, template, found, known)
	if err != nil {
		return Resource{Problem: &Problem{Reason: propagationv1alpha1.ReasonRenderFailed, Message: err.Error(), Stalled: true, Poll: renderPoll}}, nil
	}
	r.memories.of(key).remember(learned)
	means.forget = r.memories.of(key).forgetResource
	resource := learned.sorted(found)
	resource.Poll = poll
	return resource, means
}

// learn renders a resource that was read, and finds out what has to follow it. What
// is known of this version of it is not found out again.
func (r *Reconciler) learn(ctx context.Context, observed *Observed, template *unstructured.Unstructured, found *variants, known recollection) (recollection, *renderer, error) {
	if !known.isOf(template) {
		dependencies, err := r.dependenciesOf(observed, template)
		if err != nil {
			return recollection{}, nil, err
		}
		known = recollection{resource: Resource{
			UID: template.GetUID(), Version: template.GetResourceVersion(), ClaimedBy: claimOf(template), Dependencies: dependencies,
		}}
	}
	return r.Customizer.render(ctx, observed, template, found, known)
}

// mapNamed finds out which resource of the API an object names, and whether it may
// name it.
func (r *Reconciler) mapNamed(reference propagationv1alpha1.ResourceReference, key types.NamespacedName) (*meta.RESTMapping, *Problem) {
	if problem := forbidden(reference, key.Namespace); problem != nil {
		r.forget(key)
		return nil, problem
	}
	mapping, problem := r.mapKind(reference)
	if problem != nil {
		if problem.Reason == propagationv1alpha1.ReasonResourceKindNotFound {
			// There is nothing to watch until it comes back.
			r.Resources.Forget(key)
		}
		return nil, problem
	}
	return mapping, r.owners().misplaced(reference, key.Namespace, mapping.Scope.Name())
}

// watchState says what a failed watch of the kind means. Without the permission to
// watch, nothing can be said about the resource until somebody grants it. Other
// failures may pass: meanwhile the resource is read each time, every poll.
func (r *Reconciler) watchState(mapping *meta.RESTMapping) (poll time.Duration, problem *Problem) {
	err := r.Resources.Failure(mapping.Resource)
	switch {
	case err == nil:
		return 0, nil
	case apierrors.IsForbidden(err):
		failure, _ := errors.AsType[*watchError](err)
		return 0, readDenied(failure.verb, mapping.Resource, failure.err)
	default:
		return watchPoll, nil
	}
}

// mapKind resolves the kind.
func (r *Reconciler) mapKind(reference propagationv1alpha1.ResourceReference) (*meta.RESTMapping, *Problem) {
	gvk := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
	mapping, err := r.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, kindNotFound(reference)
	}
	if err != nil {
		return nil, readFailed(err.Error(), err)
	}
	return mapping, nil
}

// scopeMismatch says, by the kind of the object, which scope its resource must
// have, and what to do when it has the other.
var scopeMismatch = map[string]struct {
	wanted    meta.RESTScopeName
	otherwise string
}{
	"DirectPropagation":        {meta.RESTScopeNameNamespace, "is cluster-scoped; use a ClusterDirectPropagation for it, a DirectPropagation propagates a resource of its own namespace"},
	"ClusterDirectPropagation": {meta.RESTScopeNameRoot, "is namespaced; use a DirectPropagation in the namespace of the resource"},
}

func readFailed(message string, err error) *Problem {
	return &Problem{Reason: propagationv1alpha1.ReasonResourceReadFailed, Message: message, Err: err}
}

// readDenied says which permission the controller lacks.
func readDenied(verb string, resource schema.GroupVersionResource, err error) *Problem {
	return readFailed(fmt.Sprintf("the controller may not %s %s; grant it get, list and watch on them, as install-rbac --propagated does: %v",
		verb, resource.GroupResource(), err), err)
}

func kindNotFound(reference propagationv1alpha1.ResourceReference) *Problem {
	return &Problem{
		Reason: propagationv1alpha1.ReasonResourceKindNotFound,
		Message: fmt.Sprintf("spec.resource: the Karmada API server does not serve kind %q in %q; check the spelling, name a version that is served, or install its CustomResourceDefinition there",
			reference.Kind, reference.APIVersion),
		Stalled: true,
		Poll:    kindPoll,
	}
}

// readProblem explains why a resource could not be read.
func readProblem(reference propagationv1alpha1.ResourceReference, mapping *meta.RESTMapping, namespace string, err error) *Problem {
	name := names.NamespacedKey(namespace, reference.Name)
	switch {
	case isKindGone(err), meta.IsNoMatchError(err):
		return kindNotFound(reference)
	case apierrors.IsForbidden(err):
		return readDenied("get", mapping.Resource, err)
	case apierrors.IsNotFound(err):
		return &Problem{
			Reason:  propagationv1alpha1.ReasonResourceNotFound,
			Message: fmt.Sprintf("%s %s does not exist in the Karmada control plane", reference.Kind, name),
		}
	default:
		return readFailed(fmt.Sprintf("reading %s %s: %v", reference.Kind, name, err), err)
	}
}

// isKindGone tells a path that the API server does not know from an object
// that it does not have.
func isKindGone(err error) bool {
	status, ok := apierrors.StatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	return ok && apierrors.IsNotFound(err) && strings.Contains(status.Message, "404 page not found")
}

// forbidden says why no resource of this kind or namespace may travel; nil
// when it may.
func forbidden(reference propagationv1alpha1.ResourceReference, namespace string) *Problem {
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
	case isReservedGroup(kind.Group), slices.Contains(stationaryKinds, kind),
		// A CustomResourceDefinition is named after the group that it defines.
		kind.Kind == util.CRDKind && isReservedGroup(defines):
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

// rootCAConfigMap is published into every namespace by every cluster for itself.
const (
	rootCAConfigMap = "kube-root-ca.crt"
	configMapKind   = "ConfigMap"
)

// forbiddenObject says why this object may not travel although its kind may.
func forbiddenObject(resource *unstructured.Unstructured) *Problem {
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

// claimOf names the policy that has claimed a resource; empty when none has.
func claimOf(resource *unstructured.Unstructured) string {
	labels, annotations := resource.GetLabels(), resource.GetAnnotations()
	switch {
	case labels[policyv1alpha1.PropagationPolicyPermanentIDLabel] != "":
		return "PropagationPolicy " + names.NamespacedKey(annotations[policyv1alpha1.PropagationPolicyNamespaceAnnotation], annotations[policyv1alpha1.PropagationPolicyNameAnnotation])
	case labels[policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel] != "":
		return "ClusterPropagationPolicy " + annotations[policyv1alpha1.ClusterPropagationPolicyAnnotation]
	case resource.GroupVersionKind().GroupKind() == corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind() && isSynchronized(resource):
		return namespaceSynchronization
	}
	return ""
}

// namespaceSynchronization is what propagates Namespaces to every cluster.
const namespaceSynchronization = "Karmada's namespace synchronization, which passes over Namespaces with the label " + policyv1alpha1.NamespaceSkipAutoPropagationLabel + "=true"

// isSynchronized reports whether Karmada propagates a Namespace by itself.
func isSynchronized(namespace metav1.Object) bool {
	skipped := strings.EqualFold(namespace.GetLabels()[policyv1alpha1.NamespaceSkipAutoPropagationLabel], "true")
	return !skipped && namespace.GetName() != metav1.NamespaceDefault
}

// forget drops what is remembered for an object, and its watch.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.memories.of(key).forgetResource()
	r.Resources.Forget(key)
}
