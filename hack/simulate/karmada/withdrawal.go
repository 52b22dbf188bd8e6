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
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
)

// withdraw is handleWorkDelete: what happens to the member when a Work is deleted.
func (a *attempt) withdraw() (*step, error) {
	if ptr.Deref(a.work.Spec.PreserveResourcesOnDeletion, false) {
		return a.each("unmarks the object on the member", a.unmark), nil
	}
	if util.IsClusterReady(&a.cluster.Status) {
		return a.each("deletes from the member", func(workload *unstructured.Unstructured) error {
			return a.deleteOnMember(a.cluster.Name, workload, a.work)
		}), nil
	}
	if a.cluster.DeletionTimestamp.IsZero() {
		return nil, fmt.Errorf("cluster(%s) not ready", a.cluster.Name)
	}
	return a.release(), nil
}

// each does something for every manifest, one per step, and then lets the Work go. The
// first error ends the pass.
func (a *attempt) each(name string, do func(*unstructured.Unstructured) error) *step {
	return a.eachFrom(0, name, do)
}

func (a *attempt) eachFrom(index int, name string, do func(*unstructured.Unstructured) error) *step {
	manifests := a.work.Spec.Workload.Manifests
	if index == len(manifests) {
		return a.release()
	}
	return &step{name: name, do: func(context.Context) (*step, error) {
		workload := &unstructured.Unstructured{}
		if err := workload.UnmarshalJSON(manifests[index].Raw); err != nil {
			return nil, err
		}
		if err := do(workload); err != nil {
			return nil, err
		}
		return a.eachFrom(index+1, name, do), nil
	}}
}

// unmark is cleanupPolicyClaimMetadata for one manifest. It fails if the object is not
// there, and also if it was unmarked before: Karmada does not update what it does not
// manage. It does not ask whether the cluster is Ready.
func (a *attempt) unmark(workload *unstructured.Unstructured) error {
	observed, err := a.cached(a.cluster.Name, KeyOf(workload))
	if err != nil {
		return err
	}
	if workload.GetNamespace() == "" {
		util.RemoveLabels(workload, policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel)
		util.RemoveAnnotations(workload, policyv1alpha1.ClusterPropagationPolicyAnnotation)
	} else {
		util.RemoveLabels(workload, policyv1alpha1.PropagationPolicyPermanentIDLabel)
		util.RemoveAnnotations(workload, policyv1alpha1.PropagationPolicyNamespaceAnnotation, policyv1alpha1.PropagationPolicyNameAnnotation)
	}
	util.RemoveLabels(workload, util.ManagedResourceLabels...)
	util.RemoveAnnotations(workload, util.ManagedResourceAnnotations...)
	return a.updateOnMember(a.cluster.Name, workload, observed)
}

// release is removeFinalizer. It writes the Work as the attempt read it; after a
// conflict, the whole pass is retried.
func (a *attempt) release() *step {
	return &step{name: "drops the finalizer", do: func(ctx context.Context) (*step, error) {
		if !controllerutil.RemoveFinalizer(a.work, util.ExecutionControllerFinalizer) {
			return nil, nil
		}
		api, err := a.api()
		if err != nil {
			return nil, err
		}
		return nil, api.Update(ctx, a.work)
	}}
}
