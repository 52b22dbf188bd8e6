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
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/controllers/revision"
)

// errNotAdopted means that what clusters have cannot become a revision.
var errNotAdopted = errors.New("what the clusters have cannot be kept for a rollout")

// adopt takes a revision from the Works that clusters have had since before the first
// rollout, if they have it in common.
func (w *workRevisions) adopt(object cached.Object) error {
	if w.requested == "" || w.status == nil && w.hasRevisions() || w.status != nil && (w.status.CurrentRevision == "" || w.outline(w.status.CurrentRevision) != nil) {
		return nil
	}
	before := w.before()
	if len(before) == 0 {
		return nil
	}
	works, err := w.r.readWorks(w.ctx, before)
	if err != nil {
		return err
	}
	snapshot, err := w.r.Customizer.Adopt(works, w.outline(w.requested))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAdopted, err)
	}
	if snapshot.Dependencies, err = w.dependenciesOf(works); err != nil {
		return err
	}
	name, err := snapshot.Name()
	if err != nil || w.status != nil && name != w.status.CurrentRevision {
		return err
	}
	made, err := newRevision(w.observed.Owner, w.r.revisionNamespace(object), name, object.GetSpec().Resource, snapshot)
	if err != nil {
		return err
	}
	w.adopted, w.known.made[name] = name, made
	w.revisions.Add(name, snapshot)
	return nil
}

// adoptionProblem explains why what clusters have cannot become a revision; nil for other
// errors.
func adoptionProblem(err error) *decide.Problem {
	switch {
	case errors.Is(err, revision.ErrTooLarge):
		return tooLarge()
	case errors.Is(err, errNotAdopted):
		return &decide.Problem{Reason: propagationv1alpha1.ReasonRenderFailed, Message: "spec.rollout: " + err.Error(), Stalled: true, Poll: customize.RenderPoll}
	}
	return nil
}

// hasRevisions reports whether a Work holds a revision that is stored. Then the status was
// lost, and the clusters need none to be made for them.
func (w *workRevisions) hasRevisions() bool {
	return slices.ContainsFunc(w.observed.Targets, func(target render.Target) bool {
		work := w.observed.Work(target.Cluster)
		if work == nil {
			return false
		}
		named := work.Annotations[propagationv1alpha1.RolloutRevisionAnnotation]
		return w.known.stored[named] && w.outline(named) != nil && w.hasContent(target.Cluster, named, work)
	})
}

// dependenciesOf returns the dependencies of what Works hold. The Works are not compact.
func (w *workRevisions) dependenciesOf(works map[string]*workv1alpha1.Work) ([]configv1alpha1.DependentObjectReference, error) {
	var all []configv1alpha1.DependentObjectReference
	seen := map[string]bool{}
	for _, cluster := range slices.Sorted(maps.Keys(works)) {
		compact := w.observed.Work(cluster)
		if seen[render.Revision(compact)] {
			continue
		}
		seen[render.Revision(compact)] = true
		object, _, err := render.Held(works[cluster])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNotAdopted, err)
		}
		found, err := dependency.Of(object, w.r.Interpreter)
		if err != nil && ptr.Deref(w.observed.Spec.PropagateDeps, false) {
			return nil, fmt.Errorf("%w: %w", errNotAdopted, err)
		}
		for _, dependent := range found {
			if !slices.ContainsFunc(all, func(one configv1alpha1.DependentObjectReference) bool {
				return dependency.Key(one) == dependency.Key(dependent)
			}) {
				all = append(all, dependent)
			}
		}
	}
	return all, nil
}

// before are, by cluster, the Works of all clusters, if they hold one revision, as far as
// that can be seen, and that is another one than the requested one. For a Work that somebody
// has edited, or deletes, it is one that holds the same as was written to that.
func (w *workRevisions) before() map[string]*workv1alpha1.Work {
	works, differ, first := map[string]*workv1alpha1.Work{}, false, (*workv1alpha1.Work)(nil)
	broken, byRevision := map[string]string{}, map[string]*workv1alpha1.Work{}
	for _, target := range w.observed.Targets {
		work := w.observed.Work(target.Cluster)
		if work == nil || render.OwnerOf(work).UID != w.observed.Owner.UID {
			continue
		}
		if work.DeletionTimestamp != nil || render.IsEdited(work) {
			broken[target.Cluster] = work.Annotations[propagationv1alpha1.RevisionAnnotation]
			continue
		}
		if first == nil {
			first = work
		}
		if !agrees(first, work) {
			return nil
		}
		differ = differ || !w.hasContent(target.Cluster, w.requested, work)
		works[target.Cluster], byRevision[render.Revision(work)] = work, work
	}
	if !differ {
		return nil
	}
	for cluster, wrote := range broken {
		if same := byRevision[wrote]; same != nil {
			works[cluster] = same
		}
	}
	return works
}

// agrees reports whether two Works were rendered from the same version of a resource, as
// far as that can be seen.
func agrees(one, other *workv1alpha1.Work) bool {
	if render.Revision(one) == render.Revision(other) {
		return true
	}
	return render.TemplateUID(one) == render.TemplateUID(other) && render.TemplateGeneration(one) > 0 &&
		render.TemplateGeneration(one) == render.TemplateGeneration(other)
}

// readWorks reads Works with their content, by cluster. Works with the same content are read
// once, because there may be thousands.
func (r *Reconciler) readWorks(ctx context.Context, compact map[string]*workv1alpha1.Work) (map[string]*workv1alpha1.Work, error) {
	whole, byContent := make(map[string]*workv1alpha1.Work, len(compact)), map[string]*workv1alpha1.Work{}
	for _, cluster := range slices.Sorted(maps.Keys(compact)) {
		work := compact[cluster]
		content := render.Revision(work) + fmt.Sprint(render.Overrides(work))
		if byContent[content] == nil {
			read := &workv1alpha1.Work{}
			if err := r.Live.Get(ctx, client.ObjectKeyFromObject(work), read); err != nil {
				return nil, r.unlessGone(err, "reading Work %s/%s", work.Namespace, work.Name)
			}
			if read.UID != work.UID || read.ResourceVersion != work.ResourceVersion && read.Generation != work.Generation {
				return nil, &lookAgainError{what: "reading Work " + work.Namespace + "/" + work.Name, err: errNewer}
			}
			byContent[content] = read
		}
		whole[cluster] = byContent[content]
	}
	return whole, nil
}
