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
	"hash/maphash"
	"slices"
	"sync"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
)

// maxEnablements bounds how many lists of served kinds are shared. Clusters of one
// version of Kubernetes with the same add-ons have the same list.
const maxEnablements = 1024

// Clusters compacts Clusters for a cache. Most of a Cluster is the list of the kinds
// that it serves, and most clusters serve the same: each list is in memory once.
type Clusters struct {
	seed maphash.Seed

	mu    sync.Mutex
	known map[uint64][]clusterv1alpha1.APIEnablement
}

// NewClusters returns a Clusters that has seen none.
func NewClusters() *Clusters {
	return &Clusters{seed: maphash.MakeSeed(), known: map[uint64][]clusterv1alpha1.APIEnablement{}}
}

// Compact is a cache transform. It drops what no decision rests on: managed fields,
// and what a scheduler wants to know of a cluster.
func (c *Clusters) Compact(cached any) (any, error) {
	cluster, ok := cached.(*clusterv1alpha1.Cluster)
	if !ok {
		return cached, nil
	}
	cluster.ManagedFields = nil
	cluster.Spec.ResourceModels = nil
	cluster.Status.NodeSummary, cluster.Status.ResourceSummary = nil, nil
	cluster.Status.APIEnablements = c.shared(cluster.Status.APIEnablements)
	return cluster, nil
}

// shared returns a list that is equal to the given one, the same for all clusters
// that serve the same.
func (c *Clusters) shared(enablements []clusterv1alpha1.APIEnablement) []clusterv1alpha1.APIEnablement {
	if len(enablements) == 0 {
		return nil
	}
	key := c.hash(enablements)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, found := c.known[key]; found && slices.EqualFunc(known, enablements, equalEnablement) {
		return known
	}
	if len(c.known) >= maxEnablements {
		clear(c.known)
	}
	c.known[key] = enablements
	return enablements
}

func (c *Clusters) hash(enablements []clusterv1alpha1.APIEnablement) uint64 {
	var sum maphash.Hash
	sum.SetSeed(c.seed)
	write := func(text string) {
		_, _ = sum.WriteString(text)
		_ = sum.WriteByte(0)
	}
	for i := range enablements {
		write(enablements[i].GroupVersion)
		for j := range enablements[i].Resources {
			write(enablements[i].Resources[j].Name)
			write(enablements[i].Resources[j].Kind)
		}
	}
	return sum.Sum64()
}

func equalEnablement(a, b clusterv1alpha1.APIEnablement) bool {
	return a.GroupVersion == b.GroupVersion && slices.Equal(a.Resources, b.Resources)
}
