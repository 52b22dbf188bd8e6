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

package dependency

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// ExpectOf records that resources may follow an object, if its spec asks for that.
func (r *Requirements) ExpectOf(kind string, object cached.Object) {
	if ptr.Deref(object.GetSpec().PropagateDeps, false) && object.GetDeletionTimestamp() == nil {
		r.expect(Requirer{Kind: kind, Key: client.ObjectKeyFromObject(object)})
	}
}

// Of are the dependencies of a resource, as Karmada's interpreter reports them.
func Of(template *unstructured.Unstructured, interpreter resourceinterpreter.ResourceInterpreter) ([]configv1alpha1.DependentObjectReference, error) {
	if !interpreter.HookEnabled(template.GroupVersionKind(), configv1alpha1.InterpreterOperationInterpretDependency) {
		return nil, nil
	}
	found, err := interpreter.GetDependencies(template)
	if err != nil {
		return nil, fmt.Errorf("spec.propagateDeps: finding the dependencies of %s %s: %w", template.GetKind(), template.GetName(), err)
	}
	slices.SortFunc(found, func(a, b configv1alpha1.DependentObjectReference) int {
		return decide.CompareKeys(Key(a), Key(b))
	})
	found = slices.CompactFunc(found, func(a, b configv1alpha1.DependentObjectReference) bool {
		return a.Name != "" && a.LabelSelector == nil && b.LabelSelector == nil && Key(a) == Key(b)
	})
	if len(found) > propagationv1alpha1.MaxDependencies {
		return nil, fmt.Errorf("spec.propagateDeps: %s %s needs %d resources; the limit is %d. Split it, or remove propagateDeps and propagate the resources with objects of their own",
			template.GetKind(), template.GetName(), len(found), propagationv1alpha1.MaxDependencies)
	}
	return found, nil
}

// OutOfReach explains why a dependency is not propagated; empty if it is. An object
// in a namespace reaches nothing outside of it, whatever an interpreter reports.
func OutOfReach(owner render.Owner, dependency configv1alpha1.DependentObjectReference) (reason, message string) {
	switch {
	case dependency.Name == "":
		return propagationv1alpha1.ReasonRenderFailed, "it is selected by labels, and only dependencies that are named are followed"
	case owner.Namespace == "" || owner.Namespace == dependency.Namespace:
		return "", ""
	case dependency.Namespace == "":
		return propagationv1alpha1.ReasonResourceScopeMismatch, fmt.Sprintf(
			"no namespace is named for it; have dependencyInterpretation name namespace %s, or use a ClusterDirectPropagation if the kind is cluster-scoped", owner.Namespace)
	default:
		return propagationv1alpha1.ReasonResourceScopeMismatch, fmt.Sprintf(
			"it is in namespace %s, and what follows a DirectPropagation is in its own; propagate it by a DirectPropagation there", dependency.Namespace)
	}
}

// notChecked is the message about a dependency that this process has not looked at.
const notChecked = "not checked yet"

// Unchecked reports whether this process has not looked at some dependency yet, of those
// that a status lists.
func Unchecked(status *propagationv1alpha1.Dependencies) bool {
	return status != nil && slices.ContainsFunc(status.Unready, func(unready propagationv1alpha1.UnreadyDependency) bool {
		return unready.Reason == propagationv1alpha1.ReasonApplying && unready.Message == notChecked
	})
}

// Faring is the state of the dependencies of an object on its clusters; nil if it
// has none.
func (r *Requirements) Faring(observed *decide.Observed) *propagationv1alpha1.Dependencies {
	if !ptr.Deref(observed.Spec.PropagateDeps, false) || observed.Deleting {
		return nil
	}
	who := Requirer{Kind: observed.Owner.Kind, Key: observed.Key()}
	sum := &propagationv1alpha1.Dependencies{Total: ptr.To(int32(len(observed.Resource.Dependencies)))} //nolint:gosec // MaxDependencies at most
	ready := int32(0)
	for _, dependency := range observed.Resource.Dependencies {
		reason, message := OutOfReach(observed.Owner, dependency)
		if reason == "" {
			reason, message = r.Fares(who, Key(dependency), observed.TargetSet)
		}
		if reason == "" {
			ready++
		} else if len(sum.Unready) < propagationv1alpha1.MaxUnreadyDependencies {
			sum.Unready = append(sum.Unready, unready(dependency, reason, message))
		}
	}
	sum.Ready = &ready
	return sum
}

// unready describes a dependency in what the API accepts. Nothing else checks what an
// interpreter reports, and a refused status would hide all other news of the object.
func unready(dependency configv1alpha1.DependentObjectReference, reason, message string) propagationv1alpha1.UnreadyDependency {
	named := func(text, otherwise string, limit int) string {
		return legible.Fit(cmp.Or(legible.Text(text), otherwise), limit)
	}
	return propagationv1alpha1.UnreadyDependency{
		APIVersion: named(dependency.APIVersion, "(none)", 317), Kind: named(dependency.Kind, "(none)", 63),
		Name: named(dependency.Name, "(by labels)", 253), Reason: reason, Message: legible.ForRow(message),
	}
}

// TroublesOf lists the clusters on which a dependency is not in place, the worst
// first. It is in place if another owner propagates it.
func TroublesOf(observed *decide.Observed, rows []propagationv1alpha1.ClusterStatus) []Trouble {
	troubles := []Trouble{}
	for i := range rows {
		row := &rows[i]
		if !observed.Targeted(row.Name) || row.Applied == metav1.ConditionTrue || row.Reason == propagationv1alpha1.ReasonConflict {
			continue
		}
		found := Trouble{cluster: row.Name, reason: row.Reason, message: row.Message}
		if problem := observed.Resource.Problem; problem != nil {
			found.reason, found.message = problem.Reason, strings.TrimPrefix(problem.Message, "spec.resource: ")
		}
		troubles = append(troubles, found)
	}
	return troubles
}
