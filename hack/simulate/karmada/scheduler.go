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
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
)

// scheduler is karmada-scheduler as far as it matters here: it takes a cluster that is
// being removed off the bindings, without which the Cluster would not go.
type scheduler struct{ *process }

// runScheduler adds the scheduler to karmada-controller-manager. In truth, it is a process
// of its own.
func (p *process) runScheduler() {
	c := newController("karmada-scheduler", p.karmada.now, 1, true, scheduler{p}.begin)
	p.runners = append(p.runners, c)
	p.clusters.handlers = append(p.clusters.handlers, func(change change[*clusterv1alpha1.Cluster]) {
		if change.deleted() || change.fresh.DeletionTimestamp.IsZero() {
			return
		}
		for _, binding := range p.bindings.all() {
			if specOf(binding).TargetContains(change.object().Name) {
				c.queue.add(keyOf(binding))
			}
		}
	})
	p.bindings.handlers = append(p.bindings.handlers, func(change change[client.Object]) {
		if !change.deleted() {
			c.queue.add(keyOf(change.fresh))
		}
	})
}

func (s scheduler) begin(key types.NamespacedName) *step {
	return &step{name: "looks for clusters that leave", do: func(context.Context) (*step, error) {
		binding, err := s.bindings.get(key, "resourcebindings.work.karmada.io")
		if err != nil || binding.GetDeletionTimestamp() != nil {
			return nil, nil // the only error is that the binding is gone
		}
		spec := specOf(binding)
		staying := slices.DeleteFunc(slices.Clone(spec.Clusters), func(target workv1alpha2.TargetCluster) bool { return s.leaves(target.Name) })
		if len(staying) == len(spec.Clusters) {
			return nil, nil
		}
		spec.Clusters = staying
		return &step{name: "writes the clusters", do: func(ctx context.Context) (*step, error) {
			return nil, s.karmada.client.Update(ctx, binding)
		}}, nil
	}}
}

// leaves reports whether a cluster is being removed. One that is not known yet stays.
func (s scheduler) leaves(name string) bool {
	cluster := s.clusters.objects[types.NamespacedName{Name: name}]
	return cluster != nil && !cluster.DeletionTimestamp.IsZero()
}
