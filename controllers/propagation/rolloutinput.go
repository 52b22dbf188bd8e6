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

package propagation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/controllers/revision"
	"github.com/karmada-direct/karmada-direct/controllers/rollout"
)

// rolloutInput returns everything that the decision about a rollout depends on.
func (r *Reconciler) rolloutInput(ctx context.Context, object cached.Object, observed *decide.Observed, revisions *customize.Revisions, known *rolling) (*rollout.Input, error) {
	reference := observed.Spec.Resource
	in := &rollout.Input{
		// The clock of the machine may be set while the process runs.
		Now: r.started.Add(r.Clock.Since(r.started)), Watched: r.Clock.Since(r.started),
		Strategy: rollout.StrategyOf(observed.Spec.Rollout), Status: rollout.StatusOf(observed.Status.Rollout),
		UpdateRevision: observed.Resource.Revision,
		HasSnapshots:   len(known.stored) > 0,
		NeverRollBack:  render.GroupOf(reference.APIVersion) == "apiextensions.k8s.io",
		Commands:       rollout.CommandsOf(object.GetAnnotations()),
	}
	works := &workRevisions{
		r: r, ctx: ctx, observed: observed, revisions: revisions, known: known, own: ownReplicas(observed.Spec),
		requested: in.UpdateRevision, status: in.Status, turns: turnsOf(in.Status),
	}
	if err := works.adopt(object); err != nil {
		return nil, err
	}
	before, refused := observed.ConfirmedBefore(), known.isRefused(observed)
	maps.Copy(before, known.confirmed)
	in.Clusters = make([]rollout.Cluster, 0, len(observed.Targets))
	for _, target := range observed.Targets {
		labels, err := r.labelsFor(ctx, in.Strategy, target.Cluster)
		if err != nil {
			return nil, err
		}
		assigned := ""
		if work := observed.Work(target.Cluster); work != nil {
			assigned = works.nameOf(target.Cluster, work)
		}
		member := observed.MemberOf(target, labels, assigned, before[target.Cluster])
		member.Withheld = refused && assigned != works.turns[target.Cluster]
		in.Clusters = append(in.Clusters, member)
	}
	in.Equivalent = works.isEquivalent(in.Clusters)
	return in, nil
}

// isRefused reports whether the API server refuses to store a revision.
func (k *rolling) isRefused(observed *decide.Observed) bool {
	for name := range k.made {
		if _, refused := observed.Setbacks[slotOf(name)]; refused {
			return true
		}
	}
	return false
}

// labelsFor returns the labels of a cluster if a stage selects by labels.
func (r *Reconciler) labelsFor(ctx context.Context, strategy *rollout.Strategy, name string) (map[string]string, error) {
	if strategy == nil || !slices.ContainsFunc(strategy.Stages, func(stage rollout.Stage) bool { return stage.ClusterSelector != nil }) {
		return nil, nil
	}
	cluster := &clusterv1alpha1.Cluster{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, cluster); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	return cluster.Labels, nil
}

// turnsOf returns, by cluster, the revisions of the turns.
func turnsOf(status *rollout.Status) map[string]string {
	turns := map[string]string{}
	if status == nil {
		return turns
	}
	for i := range status.Turns {
		for _, cluster := range status.Turns[i].ClusterNames {
			turns[cluster] = status.Turns[i].Revision
		}
	}
	return turns
}

// workRevisions determines which revisions Works were given.
type workRevisions struct {
	r         *Reconciler
	ctx       context.Context //nolint:containedctx // it lives for one reconcile
	observed  *decide.Observed
	revisions *customize.Revisions
	known     *rolling
	// own are, by cluster, the replicas in the spec.
	own       map[string]*int64
	requested string
	status    *rollout.Status
	// turns are, by cluster, the revisions of the turns.
	turns map[string]string
	// adopted is the revision that was taken from the Works; empty for none.
	adopted string
}

// nameOf returns the revision that the Work of a cluster was given.
func (w *workRevisions) nameOf(cluster string, work *workv1alpha1.Work) string {
	name := w.writtenTo(cluster, work)
	for _, preferred := range w.candidates(cluster) {
		if preferred == name || w.isSame(cluster, preferred, name) {
			return preferred
		}
	}
	return name
}

// isSame reports whether two revisions are the same for a cluster.
func (w *workRevisions) isSame(cluster, one, other string) bool {
	hash := w.outline(one).HashOn(cluster)
	return hash != "" && hash == w.outline(other).HashOn(cluster)
}

// outline returns the outline of a revision; nil if it is not stored, or cannot be read.
func (w *workRevisions) outline(name string) *revision.Snapshot {
	if !w.known.stored[name] && w.known.made[name] == nil && w.known.outlines[name] == nil {
		return nil
	}
	outline, err := w.revisions.Outline(w.ctx, name)
	if err != nil {
		return nil
	}
	return outline
}

// candidates are the revisions that a Work may have, the most probable first.
func (w *workRevisions) candidates(cluster string) []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(w.turns[cluster])
	if w.status == nil {
		add(w.adopted)
		add(w.requested)
		return names
	}
	if w.status.Phase == rollout.Progressing {
		add(w.status.UpdateRevision)
	}
	add(w.status.CurrentRevision)
	return names
}

// writtenTo returns the revision that was written to a Work. An earlier version of the
// controller, which knows nothing of rollouts, leaves the name of an earlier one on it, and
// so does the end of a rollout.
func (w *workRevisions) writtenTo(cluster string, work *workv1alpha1.Work) string {
	named, content := work.Annotations[propagationv1alpha1.RolloutRevisionAnnotation], work.Annotations[propagationv1alpha1.RevisionAnnotation]
	if w.outline(named) == nil && !w.isKnown(named) {
		named = ""
	}
	names := append([]string{named}, w.candidates(cluster)...)
	// A revision that is the same for the cluster may have got another name since.
	names = append(append(names, w.requested), slices.Sorted(maps.Keys(w.known.stored))...)
	for _, name := range names {
		if w.outline(name) != nil && w.hasContent(cluster, name, work) {
			return name
		}
	}
	return cmp.Or(named, w.adopted, content)
}

// isKnown reports whether a revision is stored, or the status names it.
func (w *workRevisions) isKnown(name string) bool {
	return w.known.stored[name] || w.status != nil && (slices.Contains([]string{w.status.UpdateRevision, w.status.CurrentRevision, w.status.FailedRevision}, name) ||
		slices.ContainsFunc(w.status.Turns, func(turn rollout.Turn) bool { return turn.Revision == name }))
}

// hasContent reports whether a cluster gets what was written to its Work of a revision, with
// the replicas and the origin that the Work has.
func (w *workRevisions) hasContent(cluster, name string, work *workv1alpha1.Work) bool {
	overlay := customize.Overlay{Origin: &revision.Origin{UID: render.TemplateUID(work), Generation: render.TemplateGeneration(work)}}
	if replicas, found := render.Replicas(work); found {
		overlay.Replicas = &replicas
	}
	overlays := []customize.Overlay{overlay}
	if render.IsEdited(work) {
		// These may be what somebody has edited.
		overlay.Replicas = cmp.Or(w.own[cluster], w.known.replicas)
		overlays = append(overlays, overlay, customize.Overlay{Origin: &w.known.origin, Replicas: overlay.Replicas})
	}
	wrote := cmp.Or(work.Annotations[propagationv1alpha1.RevisionAnnotation], render.Revision(work))
	return slices.ContainsFunc(overlays, func(overlay customize.Overlay) bool {
		rendering := w.revisions.On(w.ctx, cluster, name, overlay)
		return rendering.Reason == "" && rendering.Revision == wrote
	})
}

// isEquivalent reports whether the requested revision is a new one, but the same for every
// cluster that has got the one before.
func (w *workRevisions) isEquivalent(clusters []rollout.Cluster) bool {
	if w.status == nil || w.requested == "" || w.requested == w.status.UpdateRevision {
		return false
	}
	before := w.status.UpdateRevision
	return !slices.ContainsFunc(clusters, func(cluster rollout.Cluster) bool {
		got := w.turns[cluster.Name] == before || cluster.Assigned == before
		return got && !w.isSame(cluster.Name, before, w.requested)
	})
}

// isUnsaved reports whether a Work holds what its cluster had before the first rollout, and
// that was not taken over because clusters had different versions.
func (k *rolling) isUnsaved(work *workv1alpha1.Work, assigned string) bool {
	return work != nil && work.Annotations[propagationv1alpha1.RevisionAnnotation] == assigned &&
		!k.stored[assigned] && k.made[assigned] == nil && k.outlines[assigned] == nil
}

// hasNothingFor reports whether a revision was taken from the clusters before the first
// rollout, and a cluster was not among them.
func (k *rolling) hasNothingFor(cluster, name string) bool {
	outline := k.outlines[name]
	return outline != nil && outline.Adopted && outline.Clusters[cluster] == ""
}
