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
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// operation is one change, or several, of what users want.
type operation struct {
	name  string
	from  wish
	steps []func(*wish)
	does  effect
}

// effect is what an operation does that may come too late, or too early, for another one.
type effect int

const (
	// sends: the clusters get something new, because the spec changes.
	sends effect = iota + 1
	// feeds: the clusters get something new, because something else changes, which the
	// controller watches separately.
	feeds
	// holds: the clusters get nothing new anymore.
	holds
	// withdraws: a cluster loses what it has.
	withdraws
	// keeps: a cluster keeps what it loses from now on.
	keeps
	// drops: somebody deletes a Work. Whether its object stays is what the Work says then.
	drops
	// empties: somebody takes the manifest out of a Work. If the Work is deleted before the
	// controller has put it back, Karmada does not know what to delete.
	empties
)

// races reports whether the end of two operations, one immediately after the other, depends
// on how much of the first the controller has seen before the second, or in which order it
// sees them. Users who care wait in between.
func (o operation) races(next operation) bool {
	switch next.does {
	case holds:
		return o.does == sends || o.does == feeds || o.does == drops || o.does == empties
	case feeds:
		return o.does == holds
	case keeps:
		return o.does == withdraws
	case drops:
		return o.does == holds || o.does == keeps
	case empties:
		return o.does == holds || o.does == withdraws
	}
	return false
}

// that says what an operation does.
func (o operation) that(does effect) operation {
	o.does = does
	return o
}

// then returns both operations, one after the other.
func (o operation) then(next operation) operation {
	return operation{name: o.name + ", " + next.name, from: o.from, steps: slices.Concat(o.steps, next.steps)}
}

// operations are all that users can do with the API.
func operations() []operation {
	nothing := wish{kind: configMaps}
	settings := wish{kind: configMaps, says: "version 1", spec: specTo(targets...)}
	web := wish{kind: deployments, says: "version 1", spec: specTo(targets...)}
	one := func(name string, from wish, step func(*wish)) operation {
		return operation{name: name, from: from, steps: []func(*wish){step}}
	}
	tuned := func(name string, from wish, tune func(*propagationv1alpha1.PropagationSpec)) operation {
		return one(name, from, tunes(tune))
	}
	return []operation{
		one("create", nothing, func(w *wish) { w.says, w.spec = "version 1", specTo(targets...) }).that(sends),
		one("change the resource", settings, func(w *wish) { w.says += "+" }).that(feeds),
		one("label the resource", settings, func(w *wish) { w.labels = map[string]string{"tier": "gold"} }).that(feeds),
		tuned("add a cluster", settings.with(specTo(member1)), clustersAre(targets...)).that(sends),
		tuned("remove the push cluster", settings, clustersAre(member2)).that(withdraws),
		tuned("remove the pull cluster", settings, clustersAre(member1)).that(withdraws),
		tuned("select by labels", settings, func(spec *propagationv1alpha1.PropagationSpec) {
			spec.Clusters, spec.ClusterSelector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{crashLabel: "here"}}
		}),
		one("delete", settings, func(w *wish) { w.spec = nil }).that(withdraws),
		tuned("preserve", settings, preserves).that(keeps),
		one("delete and preserve", settings.with(tunedSpec(preserves)), func(w *wish) { w.spec = nil }),
		tuned("override on one cluster", settings, overrides).that(sends),
		tuned("suspend", settings, func(spec *propagationv1alpha1.PropagationSpec) {
			spec.Suspension = propagationv1alpha1.Suspension{Dispatching: ptr.To(true)}
		}).that(holds),
		tuned("suspend on one cluster", settings, func(spec *propagationv1alpha1.PropagationSpec) {
			spec.Suspension = propagationv1alpha1.Suspension{DispatchingOnClusters: propagationv1alpha1.SuspendClusters{ClusterNames: []string{member2.Name}}}
		}).that(holds),
		tuned("overwrite", settings, func(spec *propagationv1alpha1.PropagationSpec) {
			spec.ConflictResolution = propagationv1alpha1.ConflictOverwrite
		}).that(sends),
		tuned("act for an account without permission", settings, func(spec *propagationv1alpha1.PropagationSpec) { spec.ServiceAccountName = "nobody" }).that(holds),
		one("delete the resource", settings, func(w *wish) { w.says = "" }).that(holds),
		one("create the resource again", settings, func(w *wish) { w.by = recreates }).that(feeds),
		one("edit a Work", settings, func(w *wish) { w.by = editsWork }).that(empties),
		one("delete a Work", settings, func(w *wish) { w.by = deletesWork }).that(drops),
		tuned("set replicas on one cluster", web, setsReplicas).that(sends),
		tuned("propagate dependencies", web, dependencies).that(sends),
		one("stop propagating dependencies", web.with(tunedSpec(dependencies)), tunes(func(spec *propagationv1alpha1.PropagationSpec) { spec.PropagateDeps = nil })),
		tuned("do not aggregate the status", web, func(spec *propagationv1alpha1.PropagationSpec) { spec.AggregateStatus = ptr.To(false) }),
		one("change the workload", web, func(w *wish) { w.says += "+" }).that(feeds),
	}
}

// specTo returns the spec of an object that propagates to members.
func specTo(where ...*Member) *propagationv1alpha1.PropagationSpec {
	return &propagationv1alpha1.PropagationSpec{Clusters: testbed.Targets(testbed.NamesOf(where)...)}
}

func tunedSpec(tune func(*propagationv1alpha1.PropagationSpec)) *propagationv1alpha1.PropagationSpec {
	spec := specTo(targets...)
	tune(spec)
	return spec
}

// tunes returns a step that changes the spec of the object. If there is no object, it
// creates one.
func tunes(tune func(*propagationv1alpha1.PropagationSpec)) func(*wish) {
	return func(w *wish) {
		if w.spec == nil {
			w.spec = specTo(targets...)
		}
		w.spec = w.spec.DeepCopy()
		tune(w.spec)
	}
}

// clustersAre replaces the clusters, and keeps what the spec says about those that stay.
func clustersAre(where ...*Member) func(*propagationv1alpha1.PropagationSpec) {
	return func(spec *propagationv1alpha1.PropagationSpec) {
		wanted := testbed.Targets(testbed.NamesOf(where)...)
		for i := range wanted {
			at := slices.IndexFunc(spec.Clusters, func(c propagationv1alpha1.TargetCluster) bool { return c.Name == wanted[i].Name })
			if at >= 0 {
				wanted[i] = spec.Clusters[at]
			}
		}
		spec.Clusters = wanted
	}
}

func preserves(spec *propagationv1alpha1.PropagationSpec) {
	spec.PreserveResourcesOnDeletion = ptr.To(true)
}

func dependencies(spec *propagationv1alpha1.PropagationSpec) { spec.PropagateDeps = ptr.To(true) }

func overrides(spec *propagationv1alpha1.PropagationSpec) {
	for i := range spec.Clusters[:min(1, len(spec.Clusters))] {
		spec.Clusters[i].Overriders = &policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
			{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"where": "here"}},
		}}
	}
}

// setsReplicas sets the replicas on the first cluster that the spec names.
func setsReplicas(spec *propagationv1alpha1.PropagationSpec) {
	for i := range spec.Clusters[:min(1, len(spec.Clusters))] {
		spec.Clusters[i].Replicas = ptr.To[int32](3)
	}
}

// recreates deletes the resource and creates it again.
func recreates(ctx context.Context, w wish) error {
	if err := karmada.Delete(ctx, w.resource()); client.IgnoreNotFound(err) != nil {
		return err
	}
	return client.IgnoreAlreadyExists(karmada.Create(ctx, w.resource()))
}

// editsWork has somebody remove what the first Work contains.
func editsWork(ctx context.Context, w wish) error {
	work, err := w.ns.Work(ctx, w.resource(), targets[0])
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return testbed.Change(ctx, karmada, work, func(work *workv1alpha1.Work) {
		work.Spec.Workload.Manifests = nil
	})
}

// deletesWork has somebody delete the first Work.
func deletesWork(ctx context.Context, w wish) error {
	work, err := w.ns.Work(ctx, w.resource(), targets[0])
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(karmada.Delete(ctx, work))
}
