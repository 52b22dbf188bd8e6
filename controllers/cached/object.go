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

package cached

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Object is what DirectPropagation and ClusterDirectPropagation have in common.
type Object interface {
	client.Object
	GetSpec() *propagationv1alpha1.PropagationSpec
	GetStatus() *propagationv1alpha1.PropagationStatus
}

// Compact is a cache transform for the kinds of this project: it drops the managed
// fields, and stores strings that objects share once.
func Compact(cached any) (any, error) {
	object, ok := cached.(Object)
	if !ok {
		return cached, nil
	}
	object.SetManagedFields(nil)
	spec, status := object.GetSpec(), object.GetStatus()
	render.Intern(&spec.Resource.APIVersion, &spec.Resource.Kind)
	for i := range spec.Clusters {
		render.Intern(&spec.Clusters[i].Name)
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		render.Intern(&condition.Type, &condition.Reason, &condition.Message)
	}
	for i := range status.Clusters {
		row := &status.Clusters[i]
		render.Intern(&row.Name, &row.Reason, &row.Message, &row.Revision)
	}
	return object, nil
}
