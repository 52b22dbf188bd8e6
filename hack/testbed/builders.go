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

package testbed

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// DirectPropagation is the type that the tests are about.
type DirectPropagation = propagationv1alpha1.DirectPropagation

// ConfigMap builds a ConfigMap with one entry, "says". Namespace.Has sets its
// namespace.
func ConfigMap(name, says string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"says": says}}
}

// Deployment builds a Deployment. Its Pods become Ready on kwok's nodes, and stay
// Pending where no node of a member is suitable.
func Deployment(name, image string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers:                    []corev1.Container{{Name: "main", Image: image}},
					TerminationGracePeriodSeconds: ptr.To[int64](0),
				},
			},
		},
	}
}

// Custom builds an object of a kind that has no Go type.
func Custom(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetName(name)
	return object
}

// ReferenceTo returns a reference to a resource, as in spec.resource.
func ReferenceTo(resource client.Object) propagationv1alpha1.ResourceReference {
	gvk, err := apiutil.GVKForObject(resource, Scheme)
	if err != nil {
		panic(err) // a kind that is missing in the scheme is a mistake in the test
	}
	return propagationv1alpha1.ResourceReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: resource.GetName()}
}

// Reference returns a reference to a resource that need not exist.
func Reference(apiVersion, kind, name string) propagationv1alpha1.ResourceReference {
	return propagationv1alpha1.ResourceReference{APIVersion: apiVersion, Kind: kind, Name: name}
}

// Targets returns the named clusters, as in spec.clusters.
func Targets(names ...string) []propagationv1alpha1.TargetCluster {
	clusters := make([]propagationv1alpha1.TargetCluster, 0, len(names))
	for _, name := range names {
		clusters = append(clusters, propagationv1alpha1.TargetCluster{Name: name})
	}
	return clusters
}

// NamesOf returns the names of members.
func NamesOf(members []*Member) []string {
	names := make([]string, 0, len(members))
	for _, member := range members {
		names = append(names, member.Name)
	}
	return names
}

// NewDirectPropagation builds a DirectPropagation.
func NewDirectPropagation(namespace, name string, resource propagationv1alpha1.ResourceReference, clusters ...string) *DirectPropagation {
	return &DirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: resource, Clusters: Targets(clusters...)},
	}
}

// Describe returns how messages refer to an object.
func Describe(object client.Object) string {
	reference := ReferenceTo(object)
	return fmt.Sprintf("%s %s/%s", reference.Kind, object.GetNamespace(), object.GetName())
}

// typedOf converts an object to its Go type, if its kind has one.
func typedOf(generic *unstructured.Unstructured) (client.Object, error) {
	made, err := Scheme.New(generic.GroupVersionKind())
	if err != nil {
		return generic, nil //nolint:nilerr // a kind without a Go type stays as it is
	}
	typed, _ := made.(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(generic.Object, typed); err != nil {
		return nil, fmt.Errorf("converting %s: %w", generic.GetName(), err)
	}
	return typed, nil
}

// NodeSelectorOverrider returns overriders that let the Pods of a workload run only on nodes
// with a role. No node has any.
func NodeSelectorOverrider(role string) *policyv1alpha1.Overriders {
	return &policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
		Path: "/spec/template/spec/nodeSelector", Operator: policyv1alpha1.OverriderOpAdd,
		Value: apiextensionsv1.JSON{Raw: fmt.Appendf(nil, `{"role":%q}`, role)},
	}}}
}
