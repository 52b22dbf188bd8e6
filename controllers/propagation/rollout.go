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
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/controllers/revision"
	"github.com/karmada-direct/karmada-direct/controllers/rollout"
)

// rolling is what is remembered about the rollouts of an object. Losing it costs reads.
type rolling struct {
	// object is the UID of the object.
	object types.UID
	// fresh: the status has been read from the API server since this process started. A
	// cached one may be older than what the previous leader has recorded.
	fresh bool
	// origin and replicas are those of the resource that was last read; nil if it has no
	// replicas, or has not been read.
	origin   revision.Origin
	replicas *int64
	// outlines are the snapshots without content, hashes what was rendered from them.
	outlines map[string]*revision.Snapshot
	hashes   map[customize.Recipe]string
	// stored are the revisions whose snapshots are stored, or, if false, may be. made are
	// those that are still to be stored.
	stored map[string]bool
	made   map[string]*propagationv1alpha1.PropagationRevision
	// confirmed are, by cluster, the revisions that clusters have confirmed last. The rows
	// of a status do not have all clusters of a large object.
	confirmed map[string]string
}

func newRolling(object types.UID) *rolling {
	return &rolling{
		object:   object,
		outlines: map[string]*revision.Snapshot{}, hashes: map[customize.Recipe]string{},
		stored: map[string]bool{}, made: map[string]*propagationv1alpha1.PropagationRevision{},
	}
}

// rollsOut reports whether a rollout decides what the clusters of an object get. Without
// spec.rollout, it still does if the requested revision has failed.
func rollsOut(object cached.Object) bool {
	status := object.GetStatus().Rollout
	return object.GetSpec().Rollout != nil ||
		status != nil && status.FailedRevision != "" && status.FailedRevision == status.UpdateRevision
}

// observeRollout decides what the targets get in a rollout, and returns the means to render
// that. If the object no longer has a rollout, it decides nothing and returns no means.
func (r *Reconciler) observeRollout(ctx context.Context, object cached.Object, observed *decide.Observed) (*customize.Revisions, error) {
	known := r.memories.of(client.ObjectKeyFromObject(object)).rollsOut(object.GetUID())
	if err := r.refresh(ctx, object, known); err != nil {
		return nil, err
	}
	revisions := r.revisionsOf(object, observed, known)
	resource, err := r.requestedRevision(ctx, object, observed, revisions, known)
	if err != nil {
		return nil, err
	}
	observed.Resource = resource
	if err := r.observeHolders(ctx, observed); err != nil {
		return nil, err
	}
	if resource.Problem != nil && observed.Status.Rollout == nil {
		return revisions, nil // there is nothing to begin with
	}
	in, err := r.rolloutInput(ctx, object, observed, revisions, known)
	if problem := adoptionProblem(err); problem != nil {
		observed.Resource.Problem = problem
		return revisions, nil
	}
	if err != nil {
		return nil, err
	}
	decision, err := rollout.Decide(in)
	if err != nil {
		observed.Resource.Problem = &decide.Problem{Reason: propagationv1alpha1.ReasonRenderFailed, Message: "spec.rollout: " + err.Error(), Stalled: true}
		return revisions, nil
	}
	if decision.Status == nil {
		return nil, nil //nolint:nilnil // the object does not have a rollout
	}
	r.followRollout(ctx, observed, revisions, known, in, decision)
	return revisions, nil
}

// followRollout lets an observation follow a decision.
func (r *Reconciler) followRollout(ctx context.Context, observed *decide.Observed, revisions *customize.Revisions, known *rolling, in *rollout.Input, decision rollout.Decision) {
	renderings, own := make(map[string]*decide.Rendering, len(observed.Targets)), ownReplicas(observed.Spec)
	for i := range decision.Assignments {
		assigned := &decision.Assignments[i]
		if assigned.Revision == "" || !observed.Clusters[assigned.Cluster].Exists {
			renderings[assigned.Cluster] = decide.Held(fmt.Sprintf("revision %s waits for the turn of stage %s", decision.Status.UpdateRevision, assigned.Stage))
			continue
		}
		if known.hasNothingFor(assigned.Cluster, assigned.Revision) {
			had := "the cluster had nothing before the rollout"
			if work := observed.Work(assigned.Cluster); work != nil && !known.stored[work.Annotations[propagationv1alpha1.RolloutRevisionAnnotation]] {
				had = "it is not known what the cluster had before the rollout"
			}
			renderings[assigned.Cluster] = decide.Held(had + "; it keeps what it has until the turn of stage " + assigned.Stage)
			continue
		}
		if known.isUnsaved(observed.Work(assigned.Cluster), assigned.Revision) {
			renderings[assigned.Cluster] = decide.Held(fmt.Sprintf("the cluster keeps what it had before the rollout; revision %s waits for the turn of stage %s", decision.Status.UpdateRevision, assigned.Stage))
			continue
		}
		overlay := known.overlay(observed, own[assigned.Cluster], assigned.Cluster, assigned.Revision, in.UpdateRevision)
		renderings[assigned.Cluster] = revisions.On(ctx, assigned.Cluster, assigned.Revision, overlay)
	}
	observed.Follow(decide.NewRollout(decision), renderings)
	r.followers(ctx, observed, revisions)
}

// followers determines the dependencies of all revisions that clusters have been assigned,
// and which clusters need each. Until a rollout is complete, every cluster also keeps what
// the current revision needs.
func (r *Reconciler) followers(ctx context.Context, observed *decide.Observed, revisions *customize.Revisions) {
	clusters := map[string]map[string]bool{}
	assign := func(name, cluster string) {
		if clusters[name] == nil {
			clusters[name] = map[string]bool{}
		}
		clusters[name][cluster] = true
	}
	status := observed.Rollout.Status
	for i := range observed.Rollout.Assignments {
		assigned := &observed.Rollout.Assignments[i]
		assign(assigned.Revision, assigned.Cluster)
		if status.Phase != rollout.Completed {
			assign(status.CurrentRevision, assigned.Cluster)
		}
	}
	needed := map[types.NamespacedName]map[string]bool{}
	delete(clusters, "")
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		outline, err := revisions.Outline(ctx, name)
		if err != nil { // rows say what cannot be read
			observed.Rollout.FollowersUnknown = true
			continue
		}
		for _, dependent := range outline.Dependencies {
			key := dependency.Key(dependent)
			if needed[key] == nil {
				needed[key] = map[string]bool{}
				observed.Resource.Dependencies = append(observed.Resource.Dependencies, dependent)
			}
			maps.Copy(needed[key], clusters[name])
		}
	}
	maps.DeleteFunc(needed, func(_ types.NamespacedName, on map[string]bool) bool { return len(on) == len(observed.Targets) })
	observed.Rollout.Followers = needed
}

// refresh reads the status of an object from the API server once per process.
func (r *Reconciler) refresh(ctx context.Context, object cached.Object, known *rolling) error {
	if known.fresh {
		return nil
	}
	older := r.isNewest(ctx, client.ObjectKeyFromObject(object), func(newest cached.Object) bool {
		return newest.GetResourceVersion() == object.GetResourceVersion()
	})
	if older != nil && !errors.Is(older, errOlder) {
		return older
	}
	// Listed last: what the status names was stored before.
	if err := r.listStored(ctx, object, known); err != nil {
		return err
	}
	known.fresh = true
	return older
}

// revisionsOf returns the means to render the revisions of an object.
func (r *Reconciler) revisionsOf(object cached.Object, observed *decide.Observed, known *rolling) *customize.Revisions {
	revisions := r.Customizer.Revisions(known.outlines, known.hashes)
	revisions.Load = func(ctx context.Context, name string) (*revision.Snapshot, error) {
		return r.loadSnapshot(ctx, object, known, name)
	}
	revisions.Overriders = map[string]*policyv1alpha1.Overriders{}
	for i := range observed.Spec.Clusters {
		if cluster := &observed.Spec.Clusters[i]; cluster.Overriders != nil {
			revisions.Overriders[cluster.Name] = cluster.Overriders
		}
	}
	return revisions
}

// overlay returns what may change on a cluster without a new revision. The requested
// revision is about the resource as it is now. A Work of any other revision keeps what it
// was rendered from. own is the number of replicas that the spec has for the cluster; nil
// for none.
func (k *rolling) overlay(observed *decide.Observed, own *int64, cluster, assigned, requested string) customize.Overlay {
	overlay := customize.Overlay{Replicas: cmp.Or(own, k.replicas)}
	work := observed.Work(cluster)
	if overlay.Replicas == nil && work != nil && !render.IsEdited(work) {
		if replicas, found := render.Replicas(work); found {
			overlay.Replicas = &replicas
		}
	}
	switch {
	case requested != "" && assigned == requested:
		overlay.Origin = &k.origin
	case work != nil && !render.IsEdited(work) && work.Annotations[propagationv1alpha1.RolloutRevisionAnnotation] == assigned:
		overlay.Origin = &revision.Origin{UID: render.TemplateUID(work), Generation: render.TemplateGeneration(work)}
	}
	return overlay
}

// ownReplicas are, by cluster, the replicas in a spec.
func ownReplicas(spec *propagationv1alpha1.PropagationSpec) map[string]*int64 {
	own := map[string]*int64{}
	for i := range spec.Clusters {
		if replicas := spec.Clusters[i].Replicas; replicas != nil {
			own[spec.Clusters[i].Name] = ptr.To(int64(*replicas))
		}
	}
	return own
}

// recordRollout records what a rollout has decided before Works are written, and stores the
// snapshots that are needed to repair them. It returns the object as it was written.
func (r *Reconciler) recordRollout(ctx context.Context, object cached.Object, observed *decide.Observed, plan *decide.Plan) (cached.Object, error) {
	if observed.Rollout == nil {
		if plan.RemoveFinalizer {
			return object, r.pruneSnapshots(ctx, object, observed, nil)
		}
		return object, nil
	}
	status := observed.Rollout.Status.API()
	if observed.Rollout.RecordFirst {
		after := object.GetStatus().DeepCopy()
		after.Rollout = status
		var err error
		if object, err = r.putStatus(ctx, object, after); err != nil {
			return nil, err
		}
		r.tellRollout(object, observed.Rollout.Events)
	}
	known := r.memories.of(client.ObjectKeyFromObject(object)).rollsOut(object.GetUID())
	known.confirmed = make(map[string]string, len(observed.Rollout.Assignments))
	for i := range observed.Rollout.Assignments {
		assigned := &observed.Rollout.Assignments[i]
		cluster := observed.Clusters[assigned.Cluster]
		if _, held := observed.Holders[assigned.Cluster]; cluster.Exists && !cluster.Terminating && !held {
			known.confirmed[assigned.Cluster] = assigned.Confirmed
		}
	}
	return object, r.storeSnapshots(ctx, object, observed, plan, known)
}

// tellRollout records the Events of a decision. Those that tell records because Ready has
// their reason are left to it.
func (r *Reconciler) tellRollout(object cached.Object, events []rollout.Event) {
	for _, event := range events {
		if decide.ReasonNamed(event.Reason).Trouble {
			continue
		}
		kind := corev1.EventTypeNormal
		if event.Warning {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(object, nil, kind, event.Reason, "Roll out", "%s", legible.Fit(event.Message, legible.MaxNote))
	}
}
