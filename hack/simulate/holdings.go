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
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// holding is a Work, and what is known of it.
type holding struct {
	work *workv1alpha1.Work
	// where is what it puts where.
	where place
	// edited: somebody else than the controller has written its spec or marks.
	edited bool
	// leaving: it is being deleted, and may take the object along.
	leaving bool
	// late: Karmada had no contact with the cluster when its deletion began.
	late bool
}

// isOurs reports whether a Work has the marks of an owner and none of a policy or of
// Karmada, nor a manifest of Karmada.
func isOurs(work *workv1alpha1.Work) bool {
	return isInSpace(work) && work.Labels[propagationv1alpha1.OwnerUIDLabel] != "" && metav1.GetControllerOf(work) == nil && !isRewritten(work) &&
		work.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] == "" && work.Labels[workv1alpha2.ClusterResourceBindingPermanentIDLabel] == ""
}

// isHeld reports whether a Work puts something at a place.
func (t *truth) isHeld(where place) bool {
	for _, held := range t.works {
		if held.where == where && !held.leaving {
			return true
		}
	}
	return false
}

// ownerOf names the object that owns a Work, as titleOf does.
func ownerOf(work *workv1alpha1.Work) string {
	owner := render.OwnerOf(work)
	if owner.Kind == render.DependencyKind {
		return theDependencies
	}
	return owner.Kind + " " + owner.Name
}

// clusterOf is the cluster of an execution namespace.
func clusterOf(namespace string) string {
	return strings.TrimPrefix(namespace, names.ExecutionSpacePrefix)
}

// sortedHoldings are Works in the order of their names.
func sortedHoldings(works map[types.NamespacedName]*holding) []*holding {
	sorted := slices.Collect(maps.Values(works))
	slices.SortFunc(sorted, func(a, b *holding) int {
		return cmp.Or(cmp.Compare(a.work.Namespace, b.work.Namespace), cmp.Compare(a.work.Name, b.work.Name))
	})
	return sorted
}

// wroteWork checks that the controller writes and deletes only its own Works, and that it
// deletes no Work that an object still needs.
func (t *truth) wroteWork(write apiserver.Write) {
	key := types.NamespacedName{Namespace: write.Namespace, Name: write.Name}
	if write.After != nil {
		key = nameOf(write.After)
	}
	held := t.works[key]
	t.checkGuard(write)
	if isController(write.Client) && write.Before != nil && held != nil {
		t.checkHolder(write, held)
		t.checkRelease(write, held)
		t.checkResumed(write)
	}
	if write.After == nil {
		t.workEnded(write, key, held)
		return
	}
	work := into(write.After, &workv1alpha1.Work{})
	if held == nil && isController(write.Client) {
		t.checkNew(key)
	}
	t.checkReleased(write, work)
	if held == nil || held.work.UID != work.UID {
		held = &holding{work: work}
		t.works[key] = held
	}
	t.workChanged(write, held, work)
}

// checkHolder checks a write of the controller to a Work that exists.
func (t *truth) checkHolder(write apiserver.Write, held *holding) {
	if !isOurs(held.work) {
		// Whoever took the marks of the owner away did not take the Work over: it still
		// holds exactly what the controller has sent.
		if held.work.Labels[propagationv1alpha1.OwnerUIDLabel] == "" && held.edited && (render.OwnerOf(held.work).Kind != "" || resolutionOf(held.work) != "") && metav1.GetControllerOf(held.work) == nil && !isBound(held.work) {
			return
		}
		t.violated("foreign Work written", "the controller has written Work %s of somebody else", nameOf(held.work))
		return
	}
	if write.After == nil {
		return
	}
	work := into(write.After, &workv1alpha1.Work{})
	before, after := ownerOf(held.work), ownerOf(work)
	if before == theDependencies || isHandedOver(held, work) {
		return // whoever names a resource takes precedence, and so does Karmada
	}
	if before != after && t.wanted[held.where][before] && t.isSettled(held.where) && !held.edited {
		t.violated("Work taken away", "Work %s was %s's, who still wants it, and now is %s's", nameOf(work), before, after)
	}
}

// checkNew checks that a Work is not created for a cluster that everybody has known to leave
// for a while: as long as it has Works, it cannot.
func (t *truth) checkNew(key types.NamespacedName) {
	const known = 30 * time.Second
	cluster := render.ClusterOf(key.Namespace)
	if _, registered := t.desired.clusters[cluster]; registered || t.quietSince.IsZero() {
		return
	}
	if time.Since(t.quietSince) > known && time.Since(t.leaving[cluster]) > known {
		t.violated("a leaving cluster is kept", "Work %s is created although the cluster leaves", key)
	}
}

func isBound(work *workv1alpha1.Work) bool {
	return work.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] != "" || work.Labels[workv1alpha2.ClusterResourceBindingPermanentIDLabel] != ""
}

// workChanged records what a Work holds now.
func (t *truth) workChanged(write apiserver.Write, held *holding, work *workv1alpha1.Work) {
	before := held.work
	held.work = work
	byController := isController(write.Client)
	if byController && ownerOf(before) != ownerOf(work) {
		held.edited = false
	}
	if write.Client == theUsers {
		held.edited = true
	}
	manifest := manifestOf(work)
	if manifest == nil {
		return
	}
	t.recordRefusal(nameOf(work), work)
	held.where = place{member: render.ClusterOf(work.Namespace), key: karmada.KeyOf(manifest)}
	if work.DeletionTimestamp != nil && before.DeletionTimestamp == nil {
		t.workLeaves(write, held)
	}
	if work.DeletionTimestamp == nil && byController && write.Subresource == "" {
		t.checkPermission(held)
		delete(t.kept, held.where)
	}
	t.learn(held)
}

// learn records what a Work holds, and which content a revision stands for.
func (t *truth) learn(held *holding) {
	content := karmada.ContentHash(manifestOf(held.work))
	compact := held.work.DeepCopy()
	if _, err := render.Compact(compact); err != nil {
		panic(err) // a bug of the simulation
	}
	revision, key := render.Revision(compact), nameOf(held.work)
	if sent := t.sent[key]; len(sent) == 0 || sent[len(sent)-1].content != revision {
		t.sent[key] = append(sent, sight{step: t.w.steps, content: revision})
	}
	t.contents[revision] = content
	t.releases.apart[content] = unscaled(manifestOf(held.work))
}

// workLeaves checks that a Work that the controller deletes is not wanted, and that it
// is deleted as its owner asked.
func (t *truth) workLeaves(write apiserver.Write, held *holding) {
	preserve := ptr.Deref(held.work.Spec.PreserveResourcesOnDeletion, false)
	held.leaving = !preserve || held.edited
	_, ready := t.ready[held.where.member]
	held.late = !ready
	if !isController(write.Client) || held.edited || !isOurs(held.work) {
		return
	}
	t.checkNamespace(held)
	t.checkReplaced(held)
	owner := ownerOf(held.work)
	if t.isWanted(held.where, owner) && t.isSettled(held.where) && !t.isRenewedLate(held) {
		t.violated("Work deleted", "the controller has deleted Work %s of %s, who has wanted it all the time", nameOf(held.work), owner)
	}
	t.checkPreserved(held, owner, preserve)
}

// isWanted reports whether an owner wants something on a cluster, and has no reason not to
// have it there: what follows an object goes only where the object goes.
func (t *truth) isWanted(where place, owner string) bool {
	if owner != theDependencies || !t.wanted[where][owner] {
		return t.wanted[where][owner]
	}
	return t.left[where.member] < t.calm && slices.ContainsFunc(slices.Collect(maps.Values(t.desired.objects)), func(object cached.Object) bool {
		return t.w.isTarget(object, where.member) && slices.Contains(t.desired.followers(object), where.key) && !t.w.isLeftOut(object, where.member)
	})
}

// checkPreserved checks that what a Work has brought stays if its owner asked for that, and
// goes if not.
func (t *truth) checkPreserved(held *holding, owner string, preserve bool) {
	said := t.said[owner]
	_, orphaned := t.orphans[types.UID(held.work.Labels[propagationv1alpha1.OwnerUIDLabel])]
	switch {
	case said == nil || orphaned: // the Work knows what it asked for last
	case preserve && said.preserve < t.calm && !t.saysNow(owner, true):
		t.violated("preserved without a reason", "Work %s of %s is deleted so that its object stays, which nobody asked for", nameOf(held.work), owner)
	case !preserve && said.remove < t.calm && !t.saysNow(owner, false):
		t.violated("not preserved", "Work %s of %s is deleted with its object, which should stay", nameOf(held.work), owner)
	}
}

// isSettled reports whether nobody has stopped wanting something since the controller
// last had time to see everything, and nobody has replaced the resource.
func (t *truth) isSettled(where place) bool {
	stopped, ever := t.withdrawn[where]
	renewed, replaced := t.renewed[where.key]
	return (!ever || stopped < t.calm) && (!replaced || renewed < t.calm)
}

// isRenewedLate reports whether a Work has been given the content of a resource that was
// replaced long ago: a rollout, or what kept the controller from writing it, may bring that
// later.
func (t *truth) isRenewedLate(held *holding) bool {
	_, replaced := t.renewed[held.where.key]
	supersedes, _ := render.Supersedes(held.work)
	return replaced && supersedes
}

// saysNow reports whether an object asks for preserving now.
func (t *truth) saysNow(owner string, preserve bool) bool {
	object := t.desired.objects[owner]
	return object != nil && preserves(object) == preserve
}

// workEnded records that a Work is gone, and whether its object may have stayed.
func (t *truth) workEnded(write apiserver.Write, key types.NamespacedName, held *holding) {
	delete(t.works, key)
	delete(t.refused, key)
	t.gone[key] = time.Now()
	if held == nil {
		return
	}
	if held.work.DeletionTimestamp == nil {
		t.workLeaves(write, held)
	}
	t.ended[key] = held
	_, registered := t.desired.clusters[held.where.member]
	// karmadactl takes the finalizers off when it unregisters a cluster by force.
	stripped := held.work.DeletionTimestamp == nil && !slices.Contains(held.work.Finalizers, util.ExecutionControllerFinalizer)
	if held.edited || stripped || !registered || ptr.Deref(held.work.Spec.PreserveResourcesOnDeletion, false) {
		t.kept[held.where] = true
	}
}

// checkEnd checks that an object is let go after its Works.
func (t *truth) checkEnd(write apiserver.Write, object cached.Object) {
	had := write.Before != nil && slices.Contains(write.Before.GetFinalizers(), propagationv1alpha1.CleanupFinalizer)
	if !isController(write.Client) || !had || object.GetAnnotations()[propagationv1alpha1.AbandonUnreachableAnnotation] == "true" {
		return
	}
	for key, held := range t.works {
		_, registered := t.desired.clusters[held.where.member]
		if isOurs(held.work) && held.work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(object.GetUID()) && registered {
			t.violated("finalizer too early", "%s is let go before its Work %s", titleOf(object), strings.TrimPrefix(key.String(), "/"))
		}
	}
}

// checkUnique checks that no object has two Works of the same resource for a cluster.
func (t *truth) checkUnique() *violation {
	found := map[string]types.NamespacedName{}
	for key, held := range t.works {
		if !isOurs(held.work) || held.work.DeletionTimestamp != nil {
			continue
		}
		what := ownerOf(held.work) + " " + held.where.member + " " + held.where.key.String()
		if other, twice := found[what]; twice {
			return violated("two Works", "Works %s and %s hold the same: %s", key, other, what)
		}
		found[what] = key
	}
	return nil
}
