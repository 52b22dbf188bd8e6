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
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/controllers/revision"
	"github.com/karmada-direct/karmada-direct/controllers/rollout"
)

// errNewer means that the cache is older than what was read.
var errNewer = errors.New("the cache is older")

// revisionNamespace is the namespace of the snapshots of an object.
func (r *Reconciler) revisionNamespace(object cached.Object) string {
	if object.GetNamespace() == "" {
		return r.RevisionNamespace
	}
	return object.GetNamespace()
}

// revisionName is the name of the snapshot of a revision.
func revisionName(owner types.UID, revision string) string { return string(owner) + "-" + revision }

// newRevision returns the object that stores a snapshot. It returns revision.ErrTooLarge if
// the snapshot does not fit.
func newRevision(owner render.Owner, namespace, name string, resource propagationv1alpha1.ResourceReference, snapshot *revision.Snapshot) (*propagationv1alpha1.PropagationRevision, error) {
	data, digest, err := snapshot.Encode()
	if err != nil {
		return nil, err //nolint:wrapcheck // it says all
	}
	return &propagationv1alpha1.PropagationRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: revisionName(owner.UID, name),
			Labels: map[string]string{propagationv1alpha1.OwnerUIDLabel: string(owner.UID)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: propagationv1alpha1.SchemeGroupVersion.String(), Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: ptr.To(true),
			}},
		},
		Owner:    propagationv1alpha1.RevisionOwner{Kind: owner.Kind, Name: owner.Name, UID: owner.UID},
		Revision: name, Resource: resource, Digest: digest, Data: data,
	}, nil
}

// snapshotIn returns the snapshot in a stored revision, if the revision is to be trusted.
func snapshotIn(stored *propagationv1alpha1.PropagationRevision, owner render.Owner, name string, resource propagationv1alpha1.ResourceReference) (*revision.Snapshot, error) {
	if stored.Owner.UID != owner.UID || stored.Revision != name || stored.Resource.Kind != resource.Kind || stored.Resource.Name != resource.Name {
		return nil, fmt.Errorf("PropagationRevision %s/%s: %w: it is about another revision, resource or owner", stored.Namespace, stored.Name, revision.ErrNotTrusted)
	}
	snapshot, err := revision.Decode(stored.Data, stored.Digest)
	if err != nil {
		return nil, fmt.Errorf("PropagationRevision %s/%s: %w: %w", stored.Namespace, stored.Name, revision.ErrNotTrusted, err)
	}
	return snapshot, nil
}

// loadSnapshot reads the snapshot of a revision.
func (r *Reconciler) loadSnapshot(ctx context.Context, object cached.Object, known *rolling, name string) (*revision.Snapshot, error) {
	stored := known.made[name]
	if stored == nil {
		stored = &propagationv1alpha1.PropagationRevision{}
		key := types.NamespacedName{Namespace: r.revisionNamespace(object), Name: revisionName(object.GetUID(), name)}
		if err := r.Live.Get(ctx, key, stored); err != nil {
			if apierrors.IsNotFound(err) {
				r.lost(object, known, name) // somebody has deleted it
			}
			return nil, fmt.Errorf("reading PropagationRevision %s: %w", key, err)
		}
	}
	snapshot, err := snapshotIn(stored, r.ownerOf(object), name, object.GetSpec().Resource)
	switch {
	case errors.Is(err, revision.ErrNotTrusted):
		r.lost(object, known, name)
	case err == nil && known.made[name] == nil:
		known.stored[name] = true
	}
	return snapshot, err
}

// lost records that the snapshot of a revision is not stored. If it is the requested one, it
// is made again.
func (r *Reconciler) lost(object cached.Object, known *rolling, name string) {
	delete(known.stored, name)
	r.memories.of(client.ObjectKeyFromObject(object)).forgetResource()
}

// listStored determines which revisions of an object are stored.
func (r *Reconciler) listStored(ctx context.Context, object cached.Object, known *rolling) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(propagationv1alpha1.SchemeGroupVersion.WithKind("PropagationRevisionList"))
	uid := string(object.GetUID())
	err := r.Live.List(ctx, list, client.InNamespace(r.revisionNamespace(object)), client.MatchingLabels{propagationv1alpha1.OwnerUIDLabel: uid})
	if err != nil && !isUnserved(err) { // what is not served is not stored
		return fmt.Errorf("listing the PropagationRevisions of %s %s/%s: %w", r.Kind, object.GetNamespace(), object.GetName(), err)
	}
	clear(known.stored)
	for i := range list.Items {
		if name := list.Items[i].Name; len(name) > len(uid) {
			known.stored[name[len(uid)+1:]] = true
		}
	}
	return nil
}

// storeSnapshots stores the snapshots that a decision needs, before any Work is written. If
// one is refused, no Work is written that depends on it.
func (r *Reconciler) storeSnapshots(ctx context.Context, object cached.Object, observed *decide.Observed, plan *decide.Plan, known *rolling) error {
	needed := neededRevisions(observed)
	for _, name := range slices.Sorted(maps.Keys(known.made)) {
		made := known.made[name]
		if !needed[name] || known.stored[name] {
			// Somebody has requested another one since.
			delete(known.made, name)
			continue
		}
		if setback, found := observed.Setbacks[slotOf(name)]; found && setback.Until.After(observed.Now) {
			holdBack(observed, plan, name, setback.Err, setback.Until)
			continue
		}
		if err := r.storeSnapshot(ctx, object, known, name, made); saysLookAgain(err) {
			return err
		} else if err != nil {
			// It may be stored nevertheless. If it is not needed anymore then, it is deleted.
			known.stored[name] = false
			r.refuse(ctx, observed, plan, name, err)
			continue
		}
		r.memories.of(observed.Key()).settled(slotOf(name))
		known.stored[name] = true
		delete(known.made, name)
	}
	return nil
}

// slotOf identifies the write of a revision.
func slotOf(revision string) string { return "revision " + revision }

// refuse records that a revision cannot be stored, and holds back what depends on it.
func (r *Reconciler) refuse(ctx context.Context, observed *decide.Observed, plan *decide.Plan, name string, err error) {
	reconcileErrors.WithLabelValues(r.Kind, propagationv1alpha1.ReasonWriteFailed).Inc()
	until, news := r.memories.of(observed.Key()).failed(slotOf(name), name, err, observed.Now)
	if news && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(legible.Error(err), "The Karmada API server refuses a write", keyRevision, name, keyReason, propagationv1alpha1.ReasonWriteFailed)
	}
	holdBack(observed, plan, name, err, until)
}

// holdBack holds back what depends on a revision that is not stored: what clusters get of it,
// and every turn, because its cluster could not return.
func holdBack(observed *decide.Observed, plan *decide.Plan, name string, err error, until time.Time) {
	plan.HoldBack(observed, slotOf(name), err, until.Sub(observed.Now), func(cluster string) bool {
		assigned := observed.Rollout.Assigned[cluster]
		return assigned != nil && (assigned.Revision == name || assigned.State == rollout.Updating || assigned.State == rollout.Returning)
	})
}

// storeSnapshot stores one snapshot. If it is stored already, that one counts.
func (r *Reconciler) storeSnapshot(ctx context.Context, object cached.Object, known *rolling, name string, made *propagationv1alpha1.PropagationRevision) error {
	err := r.Client.Create(ctx, made.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("storing PropagationRevision %s/%s: %w", made.Namespace, made.Name, err)
		}
		return nil
	}
	stored := &propagationv1alpha1.PropagationRevision{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(made), stored); err != nil {
		return r.unlessGone(err, "reading PropagationRevision %s/%s", made.Namespace, made.Name)
	}
	if _, err := snapshotIn(stored, r.ownerOf(object), name, object.GetSpec().Resource); err != nil {
		if err := r.Client.Delete(ctx, stored, client.Preconditions{UID: &stored.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting PropagationRevision %s/%s, which cannot be trusted: %w", made.Namespace, made.Name, err)
		}
		return &lookAgainError{what: "storing PropagationRevision " + made.Name, err: err}
	}
	if stored.Digest == made.Digest {
		return nil
	}
	// Another version of this controller has stored it.
	delete(known.made, name)
	delete(known.outlines, name)
	r.memories.of(client.ObjectKeyFromObject(object)).forgetResource()
	known.stored[name] = true
	return &lookAgainError{what: "storing PropagationRevision " + made.Name, err: err}
}

// neededRevisions are the revisions whose snapshots may still be needed.
func neededRevisions(observed *decide.Observed) map[string]bool {
	needed := map[string]bool{}
	if observed.Rollout == nil || observed.Rollout.Status == nil {
		return needed
	}
	status := observed.Rollout.Status
	for _, name := range []string{status.UpdateRevision, status.CurrentRevision, status.FailedRevision} {
		needed[name] = true
	}
	for i := range observed.Rollout.Assignments {
		needed[observed.Rollout.Assignments[i].Revision] = true
	}
	return needed
}

// keptRevisions are those, and all that the recorded status or a Work names. A Work whose
// content has stayed the same may name an older one, which is not needed.
func keptRevisions(observed *decide.Observed, recorded *propagationv1alpha1.RolloutStatus, outlines map[string]*revision.Snapshot) map[string]bool {
	kept := neededRevisions(observed)
	if recorded == nil {
		return kept
	}
	if observed.Rollout != nil {
		for cluster, assigned := range observed.Rollout.Assigned {
			work := observed.Work(cluster)
			if work == nil {
				continue
			}
			named := work.Annotations[propagationv1alpha1.RolloutRevisionAnnotation]
			if hash := outlines[assigned.Revision].HashOn(cluster); hash == "" || hash != outlines[named].HashOn(cluster) {
				kept[named] = true
			}
		}
	}
	for _, name := range namedRevisions(recorded) {
		kept[name] = true
	}
	for i := range recorded.Turns {
		kept[recorded.Turns[i].Revision] = true
	}
	return kept
}

// leftovers are the owners of the snapshots that existed when this process began. The previous
// one may have ended after it recorded the end of a rollout, and before it deleted them.
type leftovers struct {
	mu     sync.Mutex
	owners map[string]bool
}

// has reports whether there may be snapshots of an object. It reads them once per process. If
// they cannot be read, there are none: objects without a rollout do not depend on the kind.
func (l *leftovers) has(ctx context.Context, reader client.Reader, owner types.UID) bool {
	if has, known := l.knows(owner); known {
		return has
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(propagationv1alpha1.SchemeGroupVersion.WithKind("PropagationRevisionList"))
	if err := reader.List(ctx, list); err != nil && !isUnserved(err) && !apierrors.IsForbidden(err) {
		return false // the next object tries again
	}
	owners := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		owners[list.Items[i].Labels[propagationv1alpha1.OwnerUIDLabel]] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owners == nil { // otherwise, another object was faster
		l.owners = owners
	}
	return l.owners[string(owner)]
}

// knows reports whether there may be snapshots of an object, and whether that is known.
func (l *leftovers) knows(owner types.UID) (has, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owners[string(owner)], l.owners != nil
}

// isUnserved reports whether the API server does not serve a kind.
func isUnserved(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// handled records that the snapshots of an object are deleted.
func (l *leftovers) handled(owner types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.owners, string(owner))
}

// pruneSnapshots deletes the snapshots that are not needed anymore: all of them if the
// object has no rollout. recorded is the status that the API server has.
func (r *Reconciler) pruneSnapshots(ctx context.Context, object cached.Object, observed *decide.Observed, recorded *propagationv1alpha1.RolloutStatus) error {
	key := client.ObjectKeyFromObject(object)
	if observed.KeepsRollout() || observed.Owner.Follows() {
		return nil
	}
	if observed.Rollout == nil && object.GetStatus().Rollout == nil && !r.memories.known(key).hasRolledOut(object.GetUID()) {
		if !r.leftovers.has(ctx, r.Live, object.GetUID()) {
			return nil
		}
	}
	known := r.memories.of(key).rollsOut(object.GetUID())
	// The cache may be older than what the previous leader has recorded.
	if err := r.refresh(ctx, object, known); err != nil {
		return err
	}
	kept := keptRevisions(observed, recorded, known.outlines)
	for _, name := range slices.Sorted(maps.Keys(known.stored)) {
		if kept[name] {
			continue
		}
		stored := &propagationv1alpha1.PropagationRevision{ObjectMeta: metav1.ObjectMeta{Namespace: r.revisionNamespace(object), Name: revisionName(object.GetUID(), name)}}
		if err := r.Client.Delete(ctx, stored); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting PropagationRevision %s/%s: %w", stored.Namespace, stored.Name, err)
		}
		delete(known.stored, name)
		delete(known.outlines, name)
		for recipe := range known.hashes {
			if recipe.Revision == name {
				delete(known.hashes, recipe)
			}
		}
	}
	r.leftovers.handled(object.GetUID())
	if observed.Rollout == nil && !rollsOut(object) {
		r.memories.of(key).rolling = nil
	}
	return nil
}
