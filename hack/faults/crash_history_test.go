//go:build faults

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

package faults

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// withoutHistory removes from a Work what only tells by which writes it became what it is:
//   - the generation: a crash may cost one more write;
//   - nil and false mean the same in suspendDispatching;
//   - the note about attempts contains a time, and counts on while a cluster refuses a Work;
//   - once the cluster has confirmed the revision that the Work holds, nothing depends on
//     what it confirmed before, on a reset, on which report was the last on earlier content, or
//     on whether a report or the order of the conditions has proven it.
//
// Until then, the latter say what the row says, or what the controller does next, and stay.
func withoutHistory(work *workv1alpha1.Work) {
	current := work.Generation
	work.Generation = 0
	if !ptr.Deref(work.Spec.SuspendDispatching, false) {
		work.Spec.SuspendDispatching = nil
	}
	delete(work.Annotations, propagationv1alpha1.AttemptsAnnotation)
	if isConfirmed(work) {
		delete(work.Annotations, propagationv1alpha1.ConfirmedRevisionAnnotation)
		delete(work.Annotations, propagationv1alpha1.HealthFloorAnnotation)
		delete(work.Annotations, propagationv1alpha1.ReportProofAnnotation)
		work.Status.Conditions = slices.DeleteFunc(work.Status.Conditions, isReset)
		return
	}
	for i := range work.Status.Conditions {
		if reset := &work.Status.Conditions[i]; isReset(*reset) {
			// It matters whether a spec was written after it.
			reset.ObservedGeneration -= current
			reset.ObservedGeneration = max(reset.ObservedGeneration, -1)
		}
	}
}

func isReset(condition metav1.Condition) bool {
	return condition.Type == propagationv1alpha1.WorkConditionReset
}

// isConfirmed reports whether the cluster of a Work has confirmed what the Work holds.
func isConfirmed(work *workv1alpha1.Work) bool {
	at := func(kind string) int {
		return slices.IndexFunc(work.Status.Conditions, func(condition metav1.Condition) bool { return condition.Type == kind })
	}
	begun, applied := at(workv1alpha1.WorkDispatching), at(workv1alpha1.WorkApplied)
	return len(work.Spec.Workload.Manifests) == 1 && begun >= 0 && begun < applied &&
		work.Status.Conditions[applied].Status == metav1.ConditionTrue && work.Status.Conditions[applied].Reason == "AppliedSuccessful"
}

// withoutChanges removes from an object on a member, or from the report on one, how many
// times it has changed, if its status is about the last change.
func withoutChanges(metadata, status map[string]any) {
	if generation := metadata["generation"]; generation != nil && fmt.Sprint(generation) == fmt.Sprint(status["observedGeneration"]) {
		delete(metadata, "generation")
		delete(status, "observedGeneration")
	}
	delete(mapIn(metadata, "annotations"), "deployment.kubernetes.io/revision")
}

// withoutChangesIn does the same to the reports in the status of a Work.
func withoutChangesIn(work map[string]any) {
	reports, _ := mapIn(work, "status")["manifestStatuses"].([]any)
	for i := range reports {
		report, _ := reports[i].(map[string]any)
		withoutChanges(mapIn(report, "status"), mapIn(report, "status"))
	}
}

// mapIn returns a map in a map; nil if there is none.
func mapIn(object map[string]any, key string) map[string]any {
	inner, _ := object[key].(map[string]any)
	return inner
}
