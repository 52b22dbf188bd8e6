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
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// notHealthy is the message of a row for a Work that is reported as not healthy.
func notHealthy(work *workv1alpha1.Work) string {
	const message = "the cluster runs the current revision and reports it not healthy"
	if detail := ailment(work); detail != "" {
		return message + ": " + detail
	}
	return message
}

// ailment is a short explanation from the cluster's report of why an object is not
// healthy; empty if the report does not explain it.
func ailment(work *workv1alpha1.Work) string {
	if len(work.Status.ManifestStatuses) == 0 {
		return ""
	}
	manifest := &work.Status.ManifestStatuses[0]
	raw := []byte("{}")
	if manifest.Status != nil && len(manifest.Status.Raw) > 0 {
		raw = manifest.Status.Raw
	}
	kind := schema.GroupKind{Group: manifest.Identifier.Group, Kind: manifest.Identifier.Kind}
	wanted, known := render.Replicas(work)
	switch explain := ailments[kind]; {
	case explain != nil:
		if detail := explain(raw); detail != "" {
			return detail
		}
	case scaledKinds[kind]:
		if detail := scaledAilment(raw, wanted, known); detail != "" {
			return detail
		}
	}
	return anyAilment(raw)
}

// scaledKinds run a number of replicas.
var scaledKinds = map[schema.GroupKind]bool{
	{Group: appsv1.GroupName, Kind: "Deployment"}:  true,
	{Group: appsv1.GroupName, Kind: "ReplicaSet"}:  true,
	{Group: appsv1.GroupName, Kind: "StatefulSet"}: true,
}

// ailments explain the reports of other built-in kinds.
var ailments = map[schema.GroupKind]func([]byte) string{
	{Group: appsv1.GroupName, Kind: "DaemonSet"}:             daemonSetAilment,
	{Group: batchv1.GroupName, Kind: "Job"}:                  jobAilment,
	{Group: corev1.GroupName, Kind: "PersistentVolumeClaim"}: claimAilment,
	{Group: corev1.GroupName, Kind: "Pod"}:                   podAilment,
	{Group: corev1.GroupName, Kind: "Service"}:               addressAilment,
	{Group: networkingv1.GroupName, Kind: "Ingress"}:         addressAilment,
	{Group: policyv1.GroupName, Kind: "PodDisruptionBudget"}: budgetAilment,
}

// decoded reads a report. It skips fields of an unexpected type, and still reads the
// others.
func decoded[T any](raw []byte) *T {
	report := new(T)
	_ = json.Unmarshal(raw, report)
	return report
}

// behind is the message for an object whose controller has not seen its current
// spec.
const behind = "its controller has not acted on the current revision yet"

// scaledReport is what Karmada keeps of the status of workloads with replicas.
// A ReplicaSet reports no updated ones.
type scaledReport struct {
	Generation         int64 `json:"generation"`
	ObservedGeneration int64 `json:"observedGeneration"`
	Replicas           int64 `json:"replicas"`
	UpdatedReplicas    int64 `json:"updatedReplicas"`
	AvailableReplicas  int64 `json:"availableReplicas"`
	// UnavailableReplicas is in the status of Deployments only.
	UnavailableReplicas int64               `json:"unavailableReplicas"`
	Conditions          []reportedCondition `json:"conditions"`
}

// reportedCondition is a condition of any API. It omits the times, whose format
// differs between APIs.
type reportedCondition struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
}

// scaledAilment counts replicas. The desired number is the one that was sent; the
// cluster may have scaled beyond that.
func scaledAilment(raw []byte, wanted int64, known bool) string {
	report := decoded[scaledReport](raw)
	if !known {
		wanted = max(1, report.Replicas)
	}
	wanted = max(wanted, report.UpdatedReplicas)
	var detail string
	switch {
	case report.ObservedGeneration > 0 && report.ObservedGeneration < report.Generation:
		detail = behind
	case report.UpdatedReplicas < wanted && report.AvailableReplicas > report.UpdatedReplicas && report.UpdatedReplicas > 0,
		report.UpdatedReplicas < wanted && report.AvailableReplicas >= wanted:
		detail = fmt.Sprintf("%d of %d replicas updated, %d available", report.UpdatedReplicas, wanted, report.AvailableReplicas)
	case report.AvailableReplicas < wanted:
		detail = fmt.Sprintf("%d of %d replicas available", report.AvailableReplicas, wanted)
	case report.UnavailableReplicas > 0:
		detail = fmt.Sprintf("%d of %d replicas unavailable; an earlier one stays until the updated one is available", report.UnavailableReplicas, report.Replicas)
	default:
		return ""
	}
	return detail + obstacles(report.Conditions)
}

// obstacles are what a workload says keeps it from having its replicas.
func obstacles(conditions []reportedCondition) (detail string) {
	for _, condition := range conditions {
		if condition.Type == string(appsv1.DeploymentReplicaFailure) && condition.Status == metav1.ConditionTrue ||
			condition.Type == string(appsv1.DeploymentProgressing) && condition.Status == metav1.ConditionFalse {
			detail += "; " + joined(condition.Reason, condition.Message)
		}
	}
	return detail
}

func daemonSetAilment(raw []byte) string {
	report := decoded[struct {
		Generation int64 `json:"generation"`
		appsv1.DaemonSetStatus
	}](raw)
	desired := report.DesiredNumberScheduled
	switch {
	case report.ObservedGeneration > 0 && report.ObservedGeneration < report.Generation:
		return behind
	case report.UpdatedNumberScheduled < desired && report.NumberReady >= desired:
		return fmt.Sprintf("%d of %d nodes updated, %d ready", report.UpdatedNumberScheduled, desired, report.NumberReady)
	case report.NumberReady < desired:
		return fmt.Sprintf("%d of %d nodes ready", report.NumberReady, desired)
	case report.NumberAvailable < desired:
		return fmt.Sprintf("%d of %d nodes available", report.NumberAvailable, desired)
	}
	return ""
}

func jobAilment(raw []byte) string {
	report := decoded[batchv1.JobStatus](raw)
	for _, condition := range report.Conditions {
		if condition.Status == corev1.ConditionTrue && condition.Type == batchv1.JobFailed {
			return joined("Job has failed", condition.Reason, condition.Message)
		}
		if condition.Status == corev1.ConditionTrue && condition.Type == batchv1.JobSuspended {
			return "Job is suspended"
		}
	}
	return fmt.Sprintf("%d Pods active, %d succeeded, %d failed", report.Active, report.Succeeded, report.Failed)
}

func claimAilment(raw []byte) string {
	if phase := decoded[corev1.PersistentVolumeClaimStatus](raw).Phase; phase != "" && phase != corev1.ClaimBound {
		return "claim is " + string(phase)
	}
	return ""
}

func budgetAilment(raw []byte) string {
	report := decoded[policyv1.PodDisruptionBudgetStatus](raw)
	if report.CurrentHealthy >= report.DesiredHealthy {
		return ""
	}
	return fmt.Sprintf("%d of %d Pods healthy", report.CurrentHealthy, report.DesiredHealthy)
}

// addressAilment is about load balancers. Other Services are never reported as not
// healthy.
func addressAilment(raw []byte) string {
	for _, ingress := range decoded[corev1.ServiceStatus](raw).LoadBalancer.Ingress {
		if ingress.IP != "" || ingress.Hostname != "" {
			return ""
		}
	}
	return "no load balancer address yet"
}

// podAilment names the phase and the first of these that is reported: why a
// container waits, why it terminated, why the Pod is not scheduled.
func podAilment(raw []byte) string {
	report := decoded[corev1.PodStatus](raw)
	if report.Phase == "" {
		return ""
	}
	summary := "Pod is " + string(report.Phase)
	if report.Phase == corev1.PodRunning {
		summary += ", not ready"
	}
	if report.Reason != "" {
		return joined(summary, report.Reason, report.Message)
	}
	return joined(summary, containersAilment(slices.Concat(report.InitContainerStatuses, report.ContainerStatuses)), unscheduled(report.Conditions))
}

func containersAilment(containers []corev1.ContainerStatus) string {
	// What every container goes through explains least.
	ordinary := []string{"ContainerCreating", "PodInitializing"}
	var found string
	for i := range containers {
		state := containers[i].State
		switch {
		case state.Waiting != nil && state.Waiting.Reason != "" && !slices.Contains(ordinary, state.Waiting.Reason):
			return joined(state.Waiting.Reason, state.Waiting.Message)
		case state.Terminated != nil && state.Terminated.ExitCode != 0:
			found = joined(state.Terminated.Reason, state.Terminated.Message)
		case state.Waiting != nil && found == "":
			found = state.Waiting.Reason
		}
	}
	return found
}

func unscheduled(conditions []corev1.PodCondition) string {
	for i := range conditions {
		if conditions[i].Type == corev1.PodScheduled && conditions[i].Status == corev1.ConditionFalse {
			return joined(conditions[i].Reason, conditions[i].Message)
		}
	}
	return ""
}

// anyAilment reads the report of an unknown kind: the condition that explains most,
// or else the phase.
func anyAilment(raw []byte) string {
	report := decoded[struct {
		Conditions []reportedCondition `json:"conditions"`
		Phase      string              `json:"phase"`
		Reason     string              `json:"reason"`
		Message    string              `json:"message"`
	}](raw)
	var worst *reportedCondition
	for i := range report.Conditions {
		condition := &report.Conditions[i]
		if rank := gravity(condition); rank < harmless && (worst == nil || rank < gravity(worst)) {
			worst = condition
		}
	}
	if worst != nil {
		return joined(fmt.Sprintf("%s is %s", worst.Type, worst.Status), worst.Reason, worst.Message)
	}
	if report.Phase != "" {
		return joined("phase is "+report.Phase, report.Reason, report.Message)
	}
	return joined(report.Reason, report.Message)
}

// harmless is the gravity of a condition that explains nothing.
const harmless = 6

// gravity ranks conditions by how well they explain why an object is not healthy,
// the best first.
func gravity(condition *reportedCondition) int {
	kind := condition.Type
	isReady, isMain := kind == "Ready", slices.Contains(mainConditions, kind)
	switch condition.Status {
	case metav1.ConditionFalse:
		switch {
		case isReady:
			return 0
		case isMain:
			return 1
		case !isNegative(kind) && (!slices.Contains(neutralConditions, kind) || condition.Reason == "ProgressDeadlineExceeded"):
			return 3
		}
	case metav1.ConditionTrue:
		if isNegative(kind) {
			return 2
		}
	case metav1.ConditionUnknown:
		switch {
		case isReady || isMain:
			return 4
		case !isNegative(kind) && !slices.Contains(neutralConditions, kind):
			return 5
		}
	}
	return harmless
}

// mainConditions summarize an object.
var mainConditions = []string{"Available", "Healthy", "Established", "Complete", "Completed", "Succeeded", "Synced", "Accepted", "Programmed"}

// neutralConditions do not show by their status whether an object is healthy.
var neutralConditions = []string{
	"Progressing", "Reconciling", "Suspended", "Paused", "Terminating", "Deleting", "Updating", "Upgrading", "Running", "ScalingLimited", "NonStructuralSchema",
}

// isNegative reports whether a condition is bad when it is True.
func isNegative(kind string) bool {
	return slices.ContainsFunc([]string{"Stalled", "Degraded", "Failed", "Failure", "FailureTarget", "Error", "Unavailable", "Unhealthy", "NotReady", "Pressure", "Conflict"},
		func(ending string) bool { return strings.HasSuffix(kind, ending) })
}

// joined joins words with colons and omits empty ones.
func joined(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), ": ")
}
