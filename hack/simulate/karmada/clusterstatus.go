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
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
)

// The defaults of the flags of karmada-controller-manager and karmada-agent.
const (
	statusPeriod     = 10 * time.Second // --cluster-status-update-frequency
	statusThreshold  = 30 * time.Second // --cluster-success-threshold, --cluster-failure-threshold
	leasePeriod      = 10 * time.Second // a quarter of --cluster-lease-duration
	monitorPeriod    = 5 * time.Second  // --cluster-monitor-period
	monitorGrace     = 40 * time.Second // --cluster-monitor-grace-period
	startupGrace     = 60 * time.Second // --cluster-startup-grace-period
	cleanupPeriod    = 10 * time.Second // CleanupCheckInterval, which has no flag
	simulatedVersion = "v1.35.4"
)

// threshold is what the cluster status controller saw last of a member, and since when.
type threshold struct {
	ready metav1.ConditionStatus
	since time.Time
}

// clusterStatus is the cluster status controller: status.ClusterStatusController.
type clusterStatus struct{ *process }

// runClusterStatus adds the controller to a process, and the controller of leases to an
// agent.
func (p *process) runClusterStatus() {
	s := clusterStatus{p}
	c := newController(p.name+"/cluster-status", p.karmada.now, p.karmada.options.workers(), true, s.begin)
	p.runners = append(p.runners, c)
	p.clusters.handlers = append(p.clusters.handlers, func(change change[*clusterv1alpha1.Cluster]) {
		cluster := change.object()
		ours := p.agentOf != nil || cluster.Spec.SyncMode == clusterv1alpha1.Push
		if ours && (change.created() || change.deleted() || change.old.Generation != cluster.Generation) {
			c.queue.add(keyOf(cluster))
		}
	})
	if p.agentOf == nil {
		return
	}
	renewing := newController(p.name+"/lease", p.karmada.now, 1, false, s.renew)
	p.runners = append(p.runners, renewing)
	p.startLease = func(key types.NamespacedName) { renewing.queue.add(key) }
}

// begin is Reconcile: it polls a member.
func (s clusterStatus) begin(key types.NamespacedName) *step {
	return &step{name: "polls the member", do: func(context.Context) (*step, error) {
		cluster, err := s.clusters.get(key, "clusters.cluster.karmada.io")
		if err != nil { // the only error is that the Cluster is gone
			delete(s.informers, key.Name)
			delete(s.thresholds, key.Name)
			delete(s.leases, key.Name)
			return nil, nil
		}
		if !controllerutil.ContainsFinalizer(cluster, util.ClusterControllerFinalizer) {
			return nil, errNoFinalizer
		}
		return s.poll(cluster)
	}}
}

// poll is syncClusterStatus.
func (s clusterStatus) poll(cluster *clusterv1alpha1.Cluster) (*step, error) {
	member, err := s.member(cluster.Name, "Get")
	online, healthy := err == nil, err == nil && !member.sick
	ready := s.adjusted(cluster, readyCondition(online, healthy))
	ready.LastTransitionTime = metav1.NewTime(s.now())
	collected := online && healthy && ready.Status == metav1.ConditionTrue
	if collected {
		if s.startLease != nil && !s.leases[cluster.Name] {
			s.leases[cluster.Name] = true
			s.startLease(keyOf(cluster))
		}
		s.informersOf(cluster.Name)
	}
	return writeStatus(s.process, "reports the member", s.clusters, cluster, func(cluster *clusterv1alpha1.Cluster) {
		if collected {
			cluster.Status.KubernetesVersion = simulatedVersion
			cluster.Status.APIEnablements = enablements(member)
			meta.SetStatusCondition(&cluster.Status.Conditions, s.complete())
		}
		meta.SetStatusCondition(&cluster.Status.Conditions, ready)
	}, func(err error) (*step, error) {
		if err != nil {
			return nil, err
		}
		return nil, again{after: statusPeriod}
	}), nil
}

// complete is the condition that all APIs were found.
func (s clusterStatus) complete() metav1.Condition {
	condition := util.NewCondition(clusterv1alpha1.ClusterConditionCompleteAPIEnablements, "Complete",
		"collected complete APIEnablements from the cluster", metav1.ConditionTrue)
	condition.LastTransitionTime = metav1.NewTime(s.now())
	return condition
}

// readyCondition is generateReadyCondition.
func readyCondition(online, healthy bool) metav1.Condition {
	switch {
	case !online:
		return util.NewCondition(clusterv1alpha1.ClusterConditionReady, "ClusterNotReachable", "cluster is not reachable", metav1.ConditionFalse)
	case !healthy:
		return util.NewCondition(clusterv1alpha1.ClusterConditionReady, "ClusterNotReady", "cluster is reachable but health endpoint responded without ok", metav1.ConditionFalse)
	default:
		return util.NewCondition(clusterv1alpha1.ClusterConditionReady, "ClusterReady", "cluster is healthy and ready to accept workloads", metav1.ConditionTrue)
	}
}

// adjusted is thresholdAdjustedReadyCondition: a new state must last before it counts.
func (s clusterStatus) adjusted(cluster *clusterv1alpha1.Cluster, observed metav1.Condition) metav1.Condition {
	saved, known := s.thresholds[cluster.Name]
	if !known {
		s.thresholds[cluster.Name] = threshold{ready: observed.Status}
		return observed
	}
	current := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	if current == nil {
		return observed
	}
	now := s.karmada.now()
	if saved.ready != observed.Status {
		saved = threshold{ready: observed.Status, since: now}
		s.thresholds[cluster.Name] = saved
	}
	turns := (observed.Status == metav1.ConditionTrue) != (current.Status == metav1.ConditionTrue)
	if turns && now.Before(saved.since.Add(statusThreshold)) {
		return *current
	}
	return observed
}

// enablements is getAPIEnablements.
func enablements(member *Member) []clusterv1alpha1.APIEnablement {
	groups := member.resources()
	var enabled []clusterv1alpha1.APIEnablement
	for _, group := range sortedStrings(groups) {
		resources := []clusterv1alpha1.APIResource{}
		for _, kind := range groups[group] {
			resources = append(resources, clusterv1alpha1.APIResource{Name: kind.Plural, Kind: kind.Kind})
		}
		enabled = append(enabled, clusterv1alpha1.APIEnablement{GroupVersion: group, Resources: resources})
	}
	return enabled
}

// renew renews the lease of an agent while its Cluster is there. The lease is kept in
// memory: no writer of Works looks at it.
func (s clusterStatus) renew(key types.NamespacedName) *step {
	return &step{name: "renews the lease", do: func(context.Context) (*step, error) {
		if !s.leases[key.Name] {
			return nil, nil
		}
		if !s.isCut() {
			s.karmada.renewed[key.Name] = s.karmada.now()
		}
		return nil, again{after: leasePeriod}
	}}
}
