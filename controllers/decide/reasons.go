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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Reason is everything that depends on the reason of a row or of Ready.
type Reason struct {
	name string
	// rows are the values that applied may have in a row with this reason. It is
	// empty if only the object as a whole can have the reason.
	rows []metav1.ConditionStatus
	// Trouble: as the reason of Ready, it is worth an Event.
	Trouble bool
	// Starting: a normal start goes through it.
	Starting bool
	// departing: the cluster loses the resource, or does not get it, and starts over when it
	// comes back.
	departing bool
	// Revealing: it reveals something about the resource that only accounts that may
	// get it should know.
	Revealing bool
}

// Values of applied that rows with a reason may have.
var (
	applies        = []metav1.ConditionStatus{metav1.ConditionTrue}
	fails          = []metav1.ConditionStatus{metav1.ConditionFalse}
	waits          = []metav1.ConditionStatus{metav1.ConditionUnknown}
	failsOrWaits   = []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown}
	appliesOrWaits = []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionUnknown}
)

// reasons has every reason of the status, the worst first. If several rows have
// problems, Ready has the worst of their reasons. docs/troubleshooting.md has a
// section for each reason.
var reasons = []Reason{
	// Reasons of the object as a whole. No row has them.
	{name: propagationv1alpha1.ReasonDeleting},
	{name: propagationv1alpha1.ReasonResourceKindNotFound, Trouble: true},
	{name: propagationv1alpha1.ReasonResourceScopeMismatch, Trouble: true},
	{name: propagationv1alpha1.ReasonResourceNotPropagatable, Trouble: true, Revealing: true},
	{name: propagationv1alpha1.ReasonNamespaceReserved, Trouble: true},
	{name: propagationv1alpha1.ReasonResourceReadFailed, Trouble: true},
	{name: propagationv1alpha1.ReasonClusterSelectorInvalid, Trouble: true},
	{name: propagationv1alpha1.ReasonNoClusterSelected, Trouble: true},
	{name: propagationv1alpha1.ReasonRevisionUnreadable, Trouble: true},
	{name: propagationv1alpha1.ReasonRevisionTooLarge, Trouble: true, Revealing: true},
	{name: propagationv1alpha1.ReasonRolloutStateLost, Trouble: true},
	{name: propagationv1alpha1.ReasonRolloutFailed, Trouble: true},
	{name: propagationv1alpha1.ReasonRollbackFailed, Trouble: true},
	{name: propagationv1alpha1.ReasonRolledBack, Trouble: true},

	// Reasons of rows.
	{name: propagationv1alpha1.ReasonConflict, rows: fails, Trouble: true, departing: true},
	{name: propagationv1alpha1.ReasonForbidden, rows: fails, Trouble: true},
	{name: propagationv1alpha1.ReasonReviewFailed, rows: waits, Trouble: true},
	{name: propagationv1alpha1.ReasonWriteFailed, rows: failsOrWaits, Trouble: true},
	{name: propagationv1alpha1.ReasonRenderFailed, rows: fails, Trouble: true, Revealing: true},
	{name: propagationv1alpha1.ReasonOverrideFailed, rows: fails, Trouble: true},
	{name: propagationv1alpha1.ReasonApplyFailed, rows: fails, Trouble: true},
	{name: propagationv1alpha1.ReasonClusterNotFound, rows: fails, Trouble: true, departing: true},
	{name: propagationv1alpha1.ReasonAPINotEnabled, rows: fails, Trouble: true},
	{name: propagationv1alpha1.ReasonClusterTerminating, rows: fails, Trouble: true, departing: true},
	{name: propagationv1alpha1.ReasonClusterNotReady, rows: waits, Trouble: true},
	{name: propagationv1alpha1.ReasonRemovalBlocked, rows: waits, departing: true},
	{name: propagationv1alpha1.ReasonUnhealthy, rows: applies, Trouble: true, Starting: true},
	{name: propagationv1alpha1.ReasonResourceNotFound, rows: fails, Trouble: true, Revealing: true},
	// What a rollout is about to do. No row has these reasons, but rows with the reasons
	// above are worse.
	{name: propagationv1alpha1.ReasonRolloutRollingBack},
	{name: propagationv1alpha1.ReasonRolloutPaused},
	{name: propagationv1alpha1.ReasonRolloutAwaitingApproval},
	{name: propagationv1alpha1.ReasonRolloutSoaking},
	{name: propagationv1alpha1.ReasonRolloutProgressing},
	{name: propagationv1alpha1.ReasonApplying, rows: waits, Starting: true},
	{name: propagationv1alpha1.ReasonHealthUnknown, rows: applies, Starting: true},
	{name: propagationv1alpha1.ReasonSuspended, rows: appliesOrWaits},
	{name: propagationv1alpha1.ReasonWaiting, rows: waits},
	{name: propagationv1alpha1.ReasonRemoving, rows: waits, departing: true},
	{name: propagationv1alpha1.ReasonClusterTainted, rows: fails, Trouble: true, departing: true},
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

// ReasonNamed looks a reason up in the table. A test checks that the table has every
// reason.
func ReasonNamed(name string) Reason {
	if rank, found := ranks[name]; found {
		return reasons[rank]
	}
	return Reason{name: name}
}
