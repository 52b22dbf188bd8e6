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
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/karmada-direct/karmada-direct/controllers/rollout"
)

// Deployment is what is known about a Deployment on the clusters that should have it. The
// status that Karmada aggregates from the reports has counts but no conditions, without
// which Helm, Flux and kubectl wait for a Deployment forever.
type Deployment struct {
	// Clusters are those with a Work.
	Clusters []DeploymentOnCluster
	// Missing are those without one.
	Missing []string
	// Failure is why a rollout of the Deployment has failed; empty if none has.
	Failure string
}

// DeploymentOnCluster is what is known about a Deployment on one cluster.
type DeploymentOnCluster struct {
	Cluster string
	// Wanted is the number of replicas that the cluster was sent.
	Wanted int64
	// Confirmed: the cluster has what it was sent.
	Confirmed bool
	// Healthy: the cluster reports the Deployment as healthy.
	Healthy bool
	// Report is the status that the cluster has reported last, even if it has refused
	// something since; nil if it has reported none.
	Report []byte
}

// Fingerprint identifies what is known in addition to the reports.
func (d *Deployment) Fingerprint() []byte {
	found := fmt.Appendf(nil, " %q %q", d.Missing, d.Failure)
	for i := range d.Clusters {
		found = fmt.Appendf(found, " %d %t", d.Clusters[i].Wanted, d.Clusters[i].Healthy && d.Clusters[i].Confirmed)
	}
	return found
}

const (
	reasonAvailable   = "MinimumReplicasAvailable"
	reasonUnavailable = "MinimumReplicasUnavailable"
	reasonComplete    = "NewReplicaSetAvailable"
	reasonUpdated     = "ReplicaSetUpdated"
	// reasonExceeded is the reason by which kubectl rollout status, Helm, Argo CD and Flux
	// recognize that a Deployment has failed.
	reasonExceeded = "ProgressDeadlineExceeded"
)

// progress compares two states of a Deployment.
type progress struct {
	*Deployment

	before, after *appsv1.Deployment
	now           time.Time
}

// Settle completes an aggregated status: it sets the conditions as the deployment
// controller of one cluster would, for all clusters together. before is the Deployment with
// its previous status, and after the one with the new counts. Settle returns when to look
// again whether the deadline for progress has passed; the zero time for never.
func (d *Deployment) Settle(before, after *appsv1.Deployment, now time.Time) (deadline time.Time) {
	progress := &progress{Deployment: d, before: before, after: after, now: now}
	// A user-defined aggregation may build a status of its own, without the conditions.
	for _, kind := range []appsv1.DeploymentConditionType{appsv1.DeploymentAvailable, appsv1.DeploymentProgressing} {
		if last := conditionOf(&before.Status, kind); last != nil {
			progress.unset(kind)
			after.Status.Conditions = append(after.Status.Conditions, *last)
		}
	}
	progress.setAvailable()
	if d.Failure != "" {
		// Clusters do not report the newest generation, so that who waits for that would
		// wait forever.
		after.Status.ObservedGeneration = max(after.Status.ObservedGeneration, after.Generation)
		progress.set(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonExceeded, d.Failure)
		return time.Time{}
	}
	progress.observe()
	behind := progress.behind()
	status, last := &after.Status, &before.Status
	switch {
	case len(behind) == 0 && d.isHealthy():
		// To kstatus, more replicas than the spec says are replicas still to be removed. The API
		// server accepts no other count that is greater than that of all replicas.
		replicas := ptr.Deref(after.Spec.Replicas, 1)
		status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas = replicas, replicas, replicas, replicas
		status.UnavailableReplicas = 0
	case progress.isAtRest():
		status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas = last.Replicas, last.UpdatedReplicas, last.ReadyReplicas, last.AvailableReplicas
		status.UnavailableReplicas = last.UnavailableReplicas
	case len(behind) > 0:
		progress.holdBack()
	}
	return progress.judge(behind)
}

// observe corrects the observed generation. Karmada compares only clusters that have a Work,
// and never takes a generation back, but after a failed rollout it was that of
// the spec without any report on it.
func (p *progress) observe() {
	status, last := &p.after.Status, conditionOf(&p.before.Status, appsv1.DeploymentProgressing)
	switch {
	case p.haveReported():
	case last != nil && isFailure(last):
		status.ObservedGeneration = min(status.ObservedGeneration, p.after.Generation-1)
	case len(p.Missing) > 0:
		status.ObservedGeneration = p.before.Status.ObservedGeneration
	}
}

// haveReported reports whether every cluster has reported the current generation.
func (p *progress) haveReported() bool {
	return len(p.Missing) == 0 && !slices.ContainsFunc(p.Clusters, func(cluster DeploymentOnCluster) bool {
		return cluster.Report == nil || decoded[deploymentReport](cluster.Report).ResourceTemplateGeneration < p.after.Generation
	})
}

// isFailure reports whether a condition says that a rollout has failed.
func isFailure(progressing *appsv1.DeploymentCondition) bool {
	return progressing.Reason == reasonExceeded && !strings.HasPrefix(progressing.Message, overdue)
}

// holdBack keeps the counts from saying that the Deployment is complete, for tools that look at
// nothing else once the generation is observed: the sum of some clusters may be what the spec
// asks of one.
func (p *progress) holdBack() {
	status, wanted := &p.after.Status, ptr.Deref(p.after.Spec.Replicas, 1)
	saysComplete := status.UpdatedReplicas >= wanted && status.Replicas <= status.UpdatedReplicas && status.AvailableReplicas >= status.UpdatedReplicas
	switch {
	case status.ObservedGeneration < p.after.Generation || !saysComplete:
	case wanted > 0:
		status.UpdatedReplicas = wanted - 1
	case status.Replicas > 0:
		status.UpdatedReplicas = status.Replicas - 1
	}
}

// isHealthy reports whether every cluster reports the Deployment as healthy.
func (d *Deployment) isHealthy() bool {
	return !slices.ContainsFunc(d.Clusters, func(cluster DeploymentOnCluster) bool { return !cluster.Healthy })
}

// isAtRest reports whether the Deployment was complete and well, and no cluster is in the middle of the
// current generation. Until all have reported it, the previous counts mislead nobody, and
// other ones would cost a write.
func (p *progress) isAtRest() bool {
	last, status := conditionOf(&p.before.Status, appsv1.DeploymentProgressing), &p.before.Status
	wasWell := status.AvailableReplicas >= status.Replicas && status.UnavailableReplicas == 0 && status.UpdatedReplicas >= status.Replicas
	return wasWell && last != nil && last.Reason == reasonComplete && p.after.Status.ObservedGeneration < p.after.Generation && len(p.Missing) == 0 && p.isHealthy() &&
		!slices.ContainsFunc(p.Clusters, func(cluster DeploymentOnCluster) bool {
			report := decoded[deploymentReport](cluster.Report)
			return report.UpdatedReplicas < report.Replicas
		})
}

// setAvailable sets the condition Available: whether every cluster has as many available
// replicas as its own deployment controller requires.
func (p *progress) setAvailable() {
	lacking := slices.Clone(p.Missing)
	for i := range p.Clusters {
		if !p.isAvailable(&p.Clusters[i]) {
			lacking = append(lacking, p.Clusters[i].Cluster)
		}
	}
	if len(lacking) == 0 {
		p.set(appsv1.DeploymentAvailable, corev1.ConditionTrue, reasonAvailable, "every cluster has minimum availability")
		return
	}
	p.set(appsv1.DeploymentAvailable, corev1.ConditionFalse, reasonUnavailable,
		fmt.Sprintf("%d of %d clusters do not have minimum availability: %s", len(lacking), len(p.Clusters)+len(p.Missing), rollout.Listed(lacking, len(lacking))))
}

func (p *progress) isAvailable(cluster *DeploymentOnCluster) bool {
	if cluster.Report == nil {
		return false
	}
	return cluster.Healthy || decoded[scaledReport](cluster.Report).AvailableReplicas >= cluster.Wanted-p.mayLack(cluster.Wanted)
}

// mayLack is how many of the wanted replicas may be unavailable during an update.
func (p *progress) mayLack(wanted int64) int64 {
	strategy := p.after.Spec.Strategy
	if strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || strategy.RollingUpdate == nil || wanted > math.MaxInt32 {
		return 0
	}
	scaled := func(value *intstr.IntOrString, up bool) int64 {
		count, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(value, intstr.FromInt32(0)), int(wanted), up)
		if err != nil {
			return 0
		}
		return int64(count)
	}
	lack := scaled(strategy.RollingUpdate.MaxUnavailable, false)
	if lack == 0 && scaled(strategy.RollingUpdate.MaxSurge, true) == 0 {
		// Otherwise, no update would be possible.
		lack = 1
	}
	return min(lack, wanted)
}

// judge sets the condition Progressing, and returns the deadline for progress. behind are the
// clusters that do not run the current generation, or run more than that.
func (p *progress) judge(behind []string) (deadline time.Time) {
	last := conditionOf(&p.before.Status, appsv1.DeploymentProgressing)
	limit := ptr.Deref(p.after.Spec.ProgressDeadlineSeconds, math.MaxInt32)
	switch {
	case limit == math.MaxInt32:
		p.unset(appsv1.DeploymentProgressing)
	case len(behind) == 0:
		p.set(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonComplete, "every cluster runs the current generation")
	case last != nil && p.after.Status.ObservedGeneration < p.after.Generation:
		// Nobody believes conditions of an earlier generation.
	default:
		message := fmt.Sprintf("%d of %d clusters do not run the current generation: %s", len(behind), len(p.Clusters)+len(p.Missing), rollout.Listed(behind, len(behind)))
		deadline = p.await(last, message, time.Duration(limit)*time.Second)
	}
	return deadline
}

// await sets the condition Progressing of a Deployment that some clusters do not run yet.
// It returns the deadline, which does not run before all clusters have reported, and while
// the Deployment is paused.
func (p *progress) await(last *appsv1.DeploymentCondition, message string, allowed time.Duration) (deadline time.Time) {
	switch {
	case !p.haveReported() || p.after.Spec.Paused:
		p.set(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonUpdated, unlimited+message)
		return time.Time{}
	case p.hasProgressed(last):
		p.refresh(corev1.ConditionTrue, reasonUpdated, message)
		return p.now.Add(allowed)
	case last.Reason == reasonExceeded:
		p.set(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonExceeded, overdue+message)
		return time.Time{}
	case !p.now.Before(last.LastUpdateTime.Add(allowed)):
		p.refresh(corev1.ConditionFalse, reasonExceeded, overdue+message)
		return time.Time{}
	}
	p.set(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonUpdated, message)
	return last.LastUpdateTime.Add(allowed)
}

// unlimited begins the message of a Deployment whose deadline does not run.
const unlimited = "no deadline yet: "

// overdue begins the message of a Deployment that made no progress until its deadline.
const overdue = "no progress within progressDeadlineSeconds: "

// behind are the clusters that do not run the current generation, or run replicas of an
// earlier one as well. If there were none before, then what a cluster has once reached
// stays so, even if its replicas fail, as in the status that a deployment controller
// writes.
func (p *progress) behind() []string {
	last := conditionOf(&p.before.Status, appsv1.DeploymentProgressing)
	wasComplete := last != nil && last.Reason == reasonComplete && p.before.Status.ObservedGeneration == p.after.Generation
	behind := slices.Clone(p.Missing)
	for i := range p.Clusters {
		cluster := &p.Clusters[i]
		report := decoded[deploymentReport](cluster.Report)
		runs := cluster.Report != nil && report.ResourceTemplateGeneration >= p.after.Generation && report.UpdatedReplicas >= report.Replicas
		if !runs || !wasComplete && (!cluster.Healthy || !cluster.Confirmed) {
			behind = append(behind, cluster.Cluster)
		}
	}
	return behind
}

// deploymentReport is what Karmada keeps of the status of a Deployment.
type deploymentReport struct {
	scaledReport

	ResourceTemplateGeneration int64 `json:"resourceTemplateGeneration"`
}

// hasProgressed reports whether the time for progress begins anew.
func (p *progress) hasProgressed(last *appsv1.DeploymentCondition) bool {
	before, after := &p.before.Status, &p.after.Status
	return last == nil || last.Reason == reasonComplete ||
		isFailure(last) || strings.HasPrefix(last.Message, unlimited) ||
		before.ObservedGeneration != after.ObservedGeneration ||
		!p.mayBeHeldBack(before) && (after.UpdatedReplicas > before.UpdatedReplicas || after.Replicas-after.UpdatedReplicas < before.Replicas-before.UpdatedReplicas) ||
		after.ReadyReplicas > before.ReadyReplicas ||
		after.AvailableReplicas > before.AvailableReplicas
}

// mayBeHeldBack reports whether a count of updated replicas may be one that holdBack has set.
// It says nothing about progress then.
func (p *progress) mayBeHeldBack(status *appsv1.DeploymentStatus) bool {
	wanted := ptr.Deref(p.after.Spec.Replicas, 1)
	return wanted == 0 || status.UpdatedReplicas == wanted-1
}

// refresh sets the condition Progressing, and when it was last updated.
func (p *progress) refresh(status corev1.ConditionStatus, reason, message string) {
	p.set(appsv1.DeploymentProgressing, status, reason, message)
	conditionOf(&p.after.Status, appsv1.DeploymentProgressing).LastUpdateTime = metav1.NewTime(p.now).Rfc3339Copy()
}

// set sets a condition. Its times stay as long as its status and reason do.
func (p *progress) set(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) {
	condition, now := conditionOf(&p.after.Status, kind), metav1.NewTime(p.now).Rfc3339Copy()
	if condition == nil {
		p.after.Status.Conditions = append(p.after.Status.Conditions, appsv1.DeploymentCondition{Type: kind})
		condition = conditionOf(&p.after.Status, kind)
	}
	if condition.Status != status {
		condition.LastTransitionTime = now
	}
	if condition.Status != status || condition.Reason != reason {
		condition.LastUpdateTime = now
	}
	condition.Status, condition.Reason, condition.Message = status, reason, message
}

func (p *progress) unset(kind appsv1.DeploymentConditionType) {
	p.after.Status.Conditions = slices.DeleteFunc(p.after.Status.Conditions, func(condition appsv1.DeploymentCondition) bool { return condition.Type == kind })
}

func conditionOf(status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}
