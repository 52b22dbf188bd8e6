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

package karmada

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native/prune"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// Admit is Karmada's mutating webhook for Works: it stamps a Work that is created or
// updated. The id is given to a Work that has no permanent ID; the real one is random.
func Admit(work *workv1alpha1.Work, id string) error {
	if util.GetLabelValue(work.Labels, workv1alpha2.WorkPermanentIDLabel) == "" {
		util.MergeLabel(work, workv1alpha2.WorkPermanentIDLabel, id)
	}
	var manifests []workv1alpha1.Manifest
	for _, manifest := range work.Spec.Workload.Manifests {
		workload := &unstructured.Unstructured{}
		if err := json.Unmarshal(manifest.Raw, workload); err != nil {
			return fmt.Errorf("unmarshaling a manifest: %w", err)
		}
		if err := prune.RemoveIrrelevantFields(workload, prune.RemoveJobTTLSeconds); err != nil {
			return fmt.Errorf("pruning a manifest: %w", err)
		}
		util.SetLabelsAndAnnotationsForWorkload(workload, work)
		raw, err := workload.MarshalJSON()
		if err != nil {
			return fmt.Errorf("marshaling a manifest: %w", err)
		}
		manifests = append(manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	work.Spec.Workload.Manifests = manifests
	return nil
}

// NewCluster returns the Cluster that "karmadactl join" creates for a push member, or the
// agent of a pull member when it registers.
func NewCluster(member string, mode clusterv1alpha1.ClusterSyncMode) *clusterv1alpha1.Cluster {
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member}}
	cluster.Spec.SyncMode = mode
	cluster.Spec.APIEndpoint = "https://" + member
	if mode == clusterv1alpha1.Push {
		cluster.Spec.SecretRef = &clusterv1alpha1.LocalSecretReference{Namespace: names.NamespaceKarmadaCluster, Name: member}
	}
	return cluster
}

// NewBinding returns the binding that Karmada's detector and scheduler make for a
// namespaced template that a policy sends to clusters. It stays when the policy is
// deleted, and goes with the template.
func NewBinding(template *unstructured.Unstructured, id string, clusters ...string) *workv1alpha2.ResourceBinding {
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace:       template.GetNamespace(),
		Name:            names.GenerateBindingName(template.GetKind(), template.GetName()),
		Labels:          map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: id},
		Finalizers:      []string{util.BindingControllerFinalizer},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(template, template.GroupVersionKind())},
	}}
	binding.Spec.Resource = workv1alpha2.ObjectReference{
		APIVersion: template.GetAPIVersion(), Kind: template.GetKind(), Namespace: template.GetNamespace(), Name: template.GetName(),
		UID: template.GetUID(), ResourceVersion: template.GetResourceVersion(),
	}
	if replicas, found, err := unstructured.NestedInt64(template.Object, "spec", "replicas"); found && err == nil {
		binding.Spec.Replicas = int32(replicas) //nolint:gosec // replicas of a simulation are few
	}
	for _, cluster := range clusters {
		binding.Spec.Clusters = append(binding.Spec.Clusters, workv1alpha2.TargetCluster{Name: cluster, Replicas: binding.Spec.Replicas})
	}
	return binding
}
