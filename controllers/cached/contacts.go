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
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
)

// Contacts remember when Karmada lost contact with clusters, which a Cluster that is Ready
// again does not say. The zero value remembers nothing.
type Contacts struct {
	mu    sync.Mutex
	known map[string]contact
}

// contact is the last known state of a cluster.
type contact struct {
	ready       bool
	since, lost time.Time
}

// Saw records a state of a Cluster. It is called with every state, in order.
func (c *Contacts) Saw(cluster *clusterv1alpha1.Cluster) {
	ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	if ready == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := contact{ready: ready.Status == metav1.ConditionTrue, since: ready.LastTransitionTime.Time}
	switch last := c.known[cluster.Name]; {
	case !now.ready:
		now.lost = now.since
	case !last.ready || last.since.Equal(now.since):
		now.lost = last.lost
	}
	if c.known == nil {
		c.known = map[string]contact{}
	}
	c.known[cluster.Name] = now
}

// LostAt returns when contact was lost before a Cluster became Ready, or not Ready; the zero
// time if that is not known.
func (c *Contacts) LostAt(cluster *clusterv1alpha1.Cluster) time.Time {
	ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	c.mu.Lock()
	defer c.mu.Unlock()
	last, found := c.known[cluster.Name]
	if ready == nil || !found || last.ready != (ready.Status == metav1.ConditionTrue) || !last.since.Equal(ready.LastTransitionTime.Time) {
		return time.Time{}
	}
	return last.lost
}
