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

package simulate

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// share is what a cluster gets of a revision of an object.
type share struct {
	owner             types.UID
	revision, cluster string
}

// release is what the controller has written to a Work last. It is known even when the Work
// is gone.
type release struct {
	owner             types.UID
	key               karmada.Key
	revision, content string
	// origin is the generation of the resource, and replicas are those in the manifest.
	origin   string
	replicas int64
}

// recorded is a status of a rollout, as it was stored from a step on.
type recorded struct {
	step   int
	status *propagationv1alpha1.RolloutStatus
}

// releases knows what revisions mean, and which clusters had which.
type releases struct {
	// stored are the PropagationRevisions that exist, by revision, with an empty cluster.
	// broken is when somebody has deleted or replaced one.
	stored map[share]bool
	broken map[share]time.Time
	// contents are what clusters got of revisions, without replicas.
	contents map[share]string
	// asked are what users asked for when a revision failed.
	asked map[share]string
	// had are what the controller has written to Works.
	had map[types.NamespacedName]release
	// statuses are the statuses of the rollouts of each object.
	statuses map[types.UID][]recorded
	// apart are, by what members had, the same without replicas.
	apart map[string]string
	// began are the clusters that had the update revision when its rollout began, by the
	// revision.
	began map[share]bool
	// readded is when users last added a rollout to an object.
	readded map[types.UID]time.Time
	// relabeled is when the labels of clusters have last changed.
	relabeled time.Time
}

func newReleases() *releases {
	return &releases{
		stored: map[share]bool{}, broken: map[share]time.Time{}, contents: map[share]string{}, asked: map[share]string{}, had: map[types.NamespacedName]release{}, apart: map[string]string{},
		statuses: map[types.UID][]recorded{}, began: map[share]bool{}, readded: map[types.UID]time.Time{},
	}
}

// unscaled is the content of a manifest apart from the replicas of a Deployment.
func unscaled(manifest *unstructured.Unstructured) string {
	if manifest.GetKind() == "Deployment" {
		manifest = manifest.DeepCopy()
		unstructured.RemoveNestedField(manifest.Object, "spec", "replicas")
	}
	return karmada.ContentHash(manifest)
}

// wroteRevision checks that the controller deletes no PropagationRevision that is needed.
func (t *truth) wroteRevision(write apiserver.Write) {
	object := write.After
	if object == nil {
		object = write.Before
	}
	written := into(object, &propagationv1alpha1.PropagationRevision{})
	which := share{owner: written.Owner.UID, revision: written.Revision}
	switch {
	case write.After != nil && isController(write.Client):
		t.releases.stored[which] = true
		delete(t.releases.broken, which)
	case write.After != nil:
		t.releases.stored[which] = true
	case isController(write.Client):
		t.checkPruned(which)
		delete(t.releases.stored, which)
	default:
		t.releases.broken[which] = time.Now()
		delete(t.releases.stored, which)
	}
}

// objectOf is the object with a UID; nil if it is gone.
func (t *truth) objectOf(uid types.UID) cached.Object {
	for _, object := range t.desired.objects {
		if object.GetUID() == uid {
			return object
		}
	}
	return nil
}

// isSuperfluous reports whether a cluster gets the same of a revision that the status names,
// or of the resource as it is now.
func (t *truth) isSuperfluous(object cached.Object, revision, cluster string) bool {
	content := t.releases.contents[share{owner: object.GetUID(), revision: revision, cluster: cluster}]
	if latest := t.desired.latest(keyOfResource(object)); latest != nil && content == t.contentFor(object, latest, cluster) {
		return true
	}
	return content != "" && slices.ContainsFunc(namedIn(object.GetStatus().Rollout), func(other string) bool {
		return t.releases.contents[share{owner: object.GetUID(), revision: other, cluster: cluster}] == content
	})
}

// checkPruned checks that nobody needs a revision that the controller deletes.
func (t *truth) checkPruned(which share) {
	object := t.objectOf(which.owner)
	_, broken := t.releases.broken[which]
	if object == nil || object.GetDeletionTimestamp() != nil || object.GetStatus().Rollout == nil || broken {
		return
	}
	if slices.Contains(namedIn(object.GetStatus().Rollout), which.revision) {
		t.violated("a revision is deleted", "PropagationRevision %s of %s is deleted, which its status names", which.revision, titleOf(object))
	}
	for _, held := range sortedHoldings(t.works) {
		isIts := held.work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(which.owner) && isOurs(held.work) && held.work.DeletionTimestamp == nil
		isTarget := t.w.isTarget(object, held.where.member) && held.where.key == keyOfResource(object)
		if isIts && isTarget && held.work.Annotations[propagationv1alpha1.RolloutRevisionAnnotation] == which.revision && !t.isSuperfluous(object, which.revision, held.where.member) {
			t.violated("a revision is deleted", "PropagationRevision %s of %s is deleted, which Work %s has", which.revision, titleOf(object), nameOf(held.work))
		}
	}
}

// namedIn are the revisions that a status names.
func namedIn(status *propagationv1alpha1.RolloutStatus) []string {
	names := []string{status.UpdateRevision, status.CurrentRevision, status.FailedRevision}
	for i := range status.Turns {
		names = append(names, status.Turns[i].Revision)
	}
	return names
}

// checkReleased checks that the controller writes to a Work only what the recorded status
// of the rollout lets the cluster have.
func (t *truth) checkReleased(write apiserver.Write, work *workv1alpha1.Work) {
	if !isController(write.Client) || write.Subresource != "" || work.DeletionTimestamp != nil || !isOurs(work) {
		return
	}
	manifest, object := manifestOf(work), t.objectOf(types.UID(work.Labels[propagationv1alpha1.OwnerUIDLabel]))
	if manifest == nil || object == nil || t.w.users.altered[clusterOf(work.Namespace)] {
		return
	}
	before, now := t.released(object, work, manifest)
	if write.Before != nil {
		if replaced := manifestOf(into(write.Before, &workv1alpha1.Work{})); replaced != nil && unscaled(replaced) == now.content {
			before.content = now.content // a user has written it
		}
	}
	if write.Before != nil && now.content == before.content && now.revision == before.revision {
		t.checkOrigin(object, work, before, now)
		return
	}
	t.checkContent(object, clusterOf(work.Namespace), before, now)
}

// released records what a Work holds, and returns what it held before.
func (t *truth) released(object cached.Object, work *workv1alpha1.Work, manifest *unstructured.Unstructured) (before, now release) {
	now = release{owner: object.GetUID(), key: karmada.KeyOf(manifest), revision: work.Annotations[propagationv1alpha1.RolloutRevisionAnnotation], content: unscaled(manifest)}
	now.origin = manifest.GetAnnotations()[workv1alpha2.ResourceTemplateGenerationAnnotationKey]
	now.replicas, _, _ = unstructured.NestedInt64(manifest.Object, "spec", "replicas")
	before = t.releases.had[nameOf(work)]
	switch {
	case before.key != now.key:
		before = release{}
	case before.owner != now.owner: // it was free to be taken as it is
		before = release{content: before.content}
	}
	t.releases.had[nameOf(work)] = now
	return before, now
}

// checkContent checks that a cluster may get what is new in its Work.
func (t *truth) checkContent(object cached.Object, cluster string, before, now release) {
	if now.revision != "" {
		t.checkKnown(object, cluster, now)
	}
	if now.content == before.content || object.GetDeletionTimestamp() != nil || now.key != keyOfResource(object) {
		return
	}
	for _, status := range t.releases.since(object, t.w.arrived[t.w.serving]) {
		if status == nil || t.mayGetRevision(object, status, cluster, before, now) {
			return
		}
	}
	t.violated("a revision comes early", "%s gets revision %q of %s after %q, which the recorded status does not allow", cluster, now.revision, titleOf(object), before.revision)
}

// checkOrigin checks that a Work of a cluster that waits is not written only because the
// resource has changed. If it has changed back, the cluster no longer waits, although the
// status may not say so yet.
func (t *truth) checkOrigin(object cached.Object, work *workv1alpha1.Work, before, now release) {
	held, status := t.works[nameOf(work)], object.GetStatus().Rollout
	if status == nil || held == nil || held.edited || now.revision == status.UpdateRevision || now.revision == "" || before.replicas != now.replicas {
		return
	}
	if latest := t.desired.latest(now.key); latest != nil && now.content == t.contentFor(object, latest, held.where.member) {
		return
	}
	if before.origin != now.origin {
		t.violated("a held Work is written", "Work %s waits with revision %s, and now is of generation %s, not %s", nameOf(work), now.revision, now.origin, before.origin)
	}
}

// checkKnown checks that a revision is stored, and means what it always has.
func (t *truth) checkKnown(object cached.Object, cluster string, now release) {
	const underWay = 10 * time.Second
	which := share{owner: now.owner, revision: now.revision}
	if broken := t.releases.broken[which]; !t.releases.stored[which] && time.Since(broken) > underWay {
		t.violated("an unknown revision", "%s gets revision %s of %s, which is not stored", cluster, now.revision, titleOf(object))
	}
	which.cluster = cluster
	if known := t.releases.contents[which]; known != "" && known != now.content {
		t.violated("a revision has two contents", "revision %s of %s is now something else for %s", now.revision, titleOf(object), cluster)
	}
	t.releases.contents[which] = now.content
}

// since are the statuses of an object since a request was sent, and the one from before
// it. A request that took effect late may have been sent at any time.
func (r *releases) since(object cached.Object, step int) []*propagationv1alpha1.RolloutStatus {
	found, all := []*propagationv1alpha1.RolloutStatus{}, r.statuses[object.GetUID()]
	for i, entry := range slices.Backward(all) {
		found = append(found, entry.status)
		if step > 0 && entry.step <= step || i < len(all)-50 {
			break
		}
	}
	if len(all) == 0 {
		return []*propagationv1alpha1.RolloutStatus{nil}
	}
	return found
}

// requestsFailed reports whether what users ask for is the failed revision, as far as it is
// known what clusters got of that.
func (t *truth) requestsFailed(object cached.Object, status *propagationv1alpha1.RolloutStatus) bool {
	latest, known := t.desired.latest(keyOfResource(object)), false
	for _, target := range t.desired.targets(object) {
		which := share{owner: object.GetUID(), revision: status.FailedRevision, cluster: target.Name}
		failed := cmp.Or(t.releases.contents[which], t.releases.asked[which])
		if latest == nil || failed != "" && failed != t.contentFor(object, latest, target.Name) {
			return false
		}
		known = known || failed != ""
	}
	return known
}

// mayGetRevision reports whether a status lets a cluster have a revision.
func (t *truth) mayGetRevision(object cached.Object, status *propagationv1alpha1.RolloutStatus, cluster string, before, now release) bool {
	if now.revision == "" { // the rollout has ended
		const seen = time.Minute // users may have added one again since then
		ended := object.GetSpec().Rollout == nil || time.Since(t.releases.readded[now.owner]) < seen
		failed := share{owner: now.owner, revision: status.FailedRevision, cluster: cluster}
		isFailed := now.content == cmp.Or(t.releases.contents[failed], t.releases.asked[failed], now.content)
		return ended && (status.FailedRevision != status.UpdateRevision || !isFailed || !t.requestsFailed(object, status))
	}
	allowed := []string{before.revision, status.CurrentRevision}
	if turn := turnOf(status, cluster); turn != nil {
		allowed = append(allowed, turn.Revision)
	}
	for i := range object.GetStatus().Clusters {
		if row := &object.GetStatus().Clusters[i]; row.Name == cluster && row.Rollout != nil {
			allowed = append(allowed, row.Rollout.ConfirmedRevision)
			if before.revision == "" {
				// A webhook had removed the name of what the Work was given, and is gone.
				allowed = append(allowed, row.Rollout.AssignedRevision)
			}
		}
	}
	return slices.Contains(allowed, now.revision)
}
