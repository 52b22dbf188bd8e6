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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// reason is all that depends on the reason of a row or of Ready.
type reason struct {
	name string
	// rows are the values that applied may have in a row with this reason; none if
	// only the object as a whole can have it.
	rows []metav1.ConditionStatus
	// trouble: as the reason of Ready it is worth an Event.
	trouble bool
	// starting: a good start goes through it.
	starting bool
	// departing: the cluster loses the resource, and starts anew when it comes back.
	departing bool
	// revealing: it says something about the resource that only those may know who
	// may get it.
	revealing bool
}

// Values of applied that rows with a reason may have.
var (
	applies        = []metav1.ConditionStatus{metav1.ConditionTrue}
	fails          = []metav1.ConditionStatus{metav1.ConditionFalse}
	waits          = []metav1.ConditionStatus{metav1.ConditionUnknown}
	failsOrWaits   = []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown}
	appliesOrWaits = []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionUnknown}
)

// reasons has every reason of the status, the worst first: of several rows, the
// worst is the reason of Ready. docs/troubleshooting.md has a section on each.
var reasons = []reason{
	// Of the object as a whole. No row has them.
	{name: propagationv1alpha1.ReasonDeleting},
	{name: propagationv1alpha1.ReasonResourceKindNotFound, trouble: true},
	{name: propagationv1alpha1.ReasonResourceScopeMismatch, trouble: true},
	{name: propagationv1alpha1.ReasonResourceNotPropagatable, trouble: true, revealing: true},
	{name: propagationv1alpha1.ReasonNamespaceReserved, trouble: true},
	{name: propagationv1alpha1.ReasonResourceReadFailed, trouble: true},
	{name: propagationv1alpha1.ReasonClusterSelectorInvalid, trouble: true},
	{name: propagationv1alpha1.ReasonNoClusterSelected, trouble: true},

	// Of rows.
	{name: propagationv1alpha1.ReasonConflict, rows: fails, trouble: true, departing: true},
	{name: propagationv1alpha1.ReasonForbidden, rows: fails, trouble: true},
	{name: propagationv1alpha1.ReasonReviewFailed, rows: waits, trouble: true},
	{name: propagationv1alpha1.ReasonWriteFailed, rows: failsOrWaits, trouble: true},
	{name: propagationv1alpha1.ReasonRenderFailed, rows: fails, trouble: true, revealing: true},
	{name: propagationv1alpha1.ReasonOverrideFailed, rows: fails, trouble: true},
	{name: propagationv1alpha1.ReasonApplyFailed, rows: fails, trouble: true},
	{name: propagationv1alpha1.ReasonClusterNotFound, rows: fails, trouble: true, departing: true},
	{name: propagationv1alpha1.ReasonAPINotEnabled, rows: fails, trouble: true},
	{name: propagationv1alpha1.ReasonClusterTerminating, rows: fails, trouble: true, departing: true},
	{name: propagationv1alpha1.ReasonClusterNotReady, rows: waits, trouble: true},
	{name: propagationv1alpha1.ReasonRemovalBlocked, rows: waits, departing: true},
	{name: propagationv1alpha1.ReasonUnhealthy, rows: applies, trouble: true, starting: true},
	{name: propagationv1alpha1.ReasonResourceNotFound, rows: fails, trouble: true, revealing: true},
	{name: propagationv1alpha1.ReasonApplying, rows: waits, starting: true},
	{name: propagationv1alpha1.ReasonHealthUnknown, rows: applies, starting: true},
	{name: propagationv1alpha1.ReasonSuspended, rows: appliesOrWaits},
	{name: propagationv1alpha1.ReasonRemoving, rows: waits, departing: true},
	{name: propagationv1alpha1.ReasonApplied, rows: applies},
	{name: propagationv1alpha1.ReasonPropagated},
}

// ranks are the positions of reasons, by name.
var ranks = func() map[string]int {
	ranks := make(map[string]int, len(reasons))
	for i := range reasons {
		ranks[reasons[i].name] = i
	}
	return ranks
}()

// reasonNamed is what is known of a reason. Every reason is in the table, which a
// test checks.
func reasonNamed(name string) reason {
	if rank, found := ranks[name]; found {
		return reasons[rank]
	}
	return reason{name: name}
}
