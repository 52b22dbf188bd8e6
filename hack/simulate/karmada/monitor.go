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

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
)

// probe is what the monitor knows of the signs of life of a pull cluster.
type probe struct {
	at    time.Time
	ready *metav1.Condition
	lease time.Time
}

// monitor is monitorClusterHealth of the cluster controller: it calls a pull cluster
// Unknown whose agent is silent.
type monitor struct{ *process }

// runMonitor adds the monitor to karmada-controller-manager.
func (p *process) runMonitor() {
	c := newController(p.name+"/cluster-monitor", p.karmada.now, 1, false, monitor{p}.begin)
	p.runners = append(p.runners, c)
	p.clusters.handlers = append(p.clusters.handlers, func(change change[*clusterv1alpha1.Cluster]) {
		if change.created() && change.fresh.Spec.SyncMode == clusterv1alpha1.Pull {
			c.queue.add(keyOf(change.fresh))
		}
	})
}

// begin is tryUpdateClusterHealth for one cluster.
func (m monitor) begin(key types.NamespacedName) *step {
	return &step{name: "looks for signs of life", do: func(context.Context) (*step, error) {
		cluster, err := m.clusters.get(key, "clusters.cluster.karmada.io")
		if err != nil { // the only error is that the Cluster is gone
			delete(m.probes, key.Name)
			return nil, nil
		}
		if !m.isSilent(cluster) {
			return nil, again{after: monitorPeriod}
		}
		return m.pronounce(cluster), nil
	}}
}

// isSilent takes the signs of life of a cluster in, and reports whether they have
// stopped.
func (m monitor) isSilent(cluster *clusterv1alpha1.Cluster) bool {
	now := m.karmada.now()
	ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	known, grace := m.probes[cluster.Name], monitorGrace
	if ready == nil {
		grace = startupGrace
	}
	switch {
	case known == nil && ready == nil:
		known = &probe{at: cluster.CreationTimestamp.Time}
	case known == nil || !equality.Semantic.DeepEqual(known.ready, ready):
		known = &probe{at: now, ready: ready.DeepCopy()}
	}
	if renewed := m.karmada.renewed[cluster.Name]; renewed.After(known.lease) {
		known.lease, known.at = renewed, now
	}
	m.probes[cluster.Name] = known
	return now.After(known.at.Add(grace)) && (ready == nil || ready.Status != metav1.ConditionUnknown)
}

// pronounce writes that nothing is known of a cluster.
func (m monitor) pronounce(cluster *clusterv1alpha1.Cluster) *step {
	unknown := metav1.Condition{
		Type: clusterv1alpha1.ClusterConditionReady, Status: metav1.ConditionUnknown, LastTransitionTime: metav1.NewTime(m.now()),
		Reason: "ClusterStatusUnknown", Message: "Cluster status controller stopped posting cluster status.",
	}
	if meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady) == nil {
		unknown.Reason, unknown.Message = "ClusterStatusNeverUpdated", "Cluster status controller never posted cluster status."
	}
	return writeStatus(m.process, "writes Ready Unknown", m.clusters, cluster, func(cluster *clusterv1alpha1.Cluster) {
		meta.SetStatusCondition(&cluster.Status.Conditions, unknown)
	}, func(err error) (*step, error) {
		if err != nil {
			return nil, err
		}
		if known := m.probes[cluster.Name]; known != nil { // the Cluster may be gone
			known.ready = &unknown
		}
		return nil, again{after: monitorPeriod}
	})
}
