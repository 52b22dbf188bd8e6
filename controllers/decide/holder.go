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

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// TakenOver returns who has taken over a Work, whatever else its metadata says: a
// policy's binding, or a controller of Karmada that writes into every Work with the
// name that it derives. It is empty if nobody has.
func TakenOver(work *workv1alpha1.Work) string {
	for _, kind := range bindingKinds {
		if work.Labels[kind.label] != "" {
			return kind.kind + " " + names.NamespacedKey(work.Annotations[kind.namespace], work.Annotations[kind.name])
		}
	}
	if controller := metav1.GetControllerOfNoCopy(work); controller != nil {
		return fmt.Sprintf("Karmada, for %s %s", controller.Kind, controller.Name)
	}
	if render.IsRewritten(work) {
		return UnknownHolder
	}
	for label := range work.Labels {
		if slices.ContainsFunc(karmadaLabels, func(prefix string) bool { return strings.HasPrefix(label, prefix) }) {
			return UnknownHolder
		}
	}
	return ""
}

// karmadaLabels are the prefixes of the labels by which Karmada's controllers
// recognize the Works that they create.
var karmadaLabels = []string{
	"endpointslice.karmada.io/", "federatedresourcequota.karmada.io/", "multiclusterservice.karmada.io/",
}

// bindingKinds are the kinds from which Karmada renders Works, with the label and
// the annotations that identify those Works.
var bindingKinds = []struct{ kind, label, namespace, name string }{
	{"ResourceBinding", workv1alpha2.ResourceBindingPermanentIDLabel, workv1alpha2.ResourceBindingNamespaceAnnotationKey, workv1alpha2.ResourceBindingNameAnnotationKey},
	{"ClusterResourceBinding", workv1alpha2.ClusterResourceBindingPermanentIDLabel, "", workv1alpha2.ClusterResourceBindingAnnotationKey},
}

// UnknownHolder names the holder of a Work that has no mark of this project or of a
// policy.
const UnknownHolder = "Karmada or another controller"

// ConflictsIn are the clusters for which a status reports a conflict.
func ConflictsIn(status *propagationv1alpha1.PropagationStatus) map[string]bool {
	clusters := map[string]bool{}
	for i := range status.Clusters {
		if status.Clusters[i].Reason == propagationv1alpha1.ReasonConflict {
			clusters[status.Clusters[i].Name] = true
		}
	}
	return clusters
}

// ClaimOf names the policy that has claimed a resource; empty if none has.
func ClaimOf(resource *unstructured.Unstructured) string {
	labels, annotations := resource.GetLabels(), resource.GetAnnotations()
	switch {
	case labels[policyv1alpha1.PropagationPolicyPermanentIDLabel] != "":
		return "PropagationPolicy " + names.NamespacedKey(annotations[policyv1alpha1.PropagationPolicyNamespaceAnnotation], annotations[policyv1alpha1.PropagationPolicyNameAnnotation])
	case labels[policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel] != "":
		return "ClusterPropagationPolicy " + annotations[policyv1alpha1.ClusterPropagationPolicyAnnotation]
	case resource.GroupVersionKind().GroupKind() == corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind() && IsSynchronized(resource):
		return namespaceSynchronization
	}
	return ""
}

// namespaceSynchronization names what propagates Namespaces to every cluster.
const namespaceSynchronization = "Karmada's namespace synchronization, which passes over Namespaces with the label " + policyv1alpha1.NamespaceSkipAutoPropagationLabel + "=true"

// IsSynchronized reports whether Karmada propagates a Namespace by itself.
func IsSynchronized(namespace metav1.Object) bool {
	skipped := strings.EqualFold(namespace.GetLabels()[policyv1alpha1.NamespaceSkipAutoPropagationLabel], "true")
	return !skipped && namespace.GetName() != metav1.NamespaceDefault
}
