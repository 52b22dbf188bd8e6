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
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// countWrite checks that the controller does not write the same again and again.
func (t *truth) countWrite(write apiserver.Write) {
	if !isController(write.Client) || write.Resource == "leases" || write.Resource == "events" || t.quietSince.IsZero() {
		return
	}
	what := fmt.Sprint(write.Resource, " ", write.Namespace, "/", write.Name)
	t.written[what]++
	if most := 60 + 4*int(time.Since(t.quietSince)/time.Minute); t.written[what] > most {
		t.violated("too many writes", "the controller has written %s %d times in %v in which nobody has changed anything", what, t.written[what], time.Since(t.quietSince))
	}
}

// checkCall checks, while nothing fails, that the controller does not write Works that are
// gone for longer than it takes to see that.
func (t *truth) checkCall(call *apiserver.Call) {
	if writes(call) && call.Resource != "leases" && call.Resource != "events" {
		t.working[call.Client] = true
	}
	const known = 2 * time.Second
	const repeated = 10 * time.Second // client-go repeats requests that were too many
	if t.quietSince.IsZero() || time.Since(t.quietSince) < repeated || call.Resource != "works" || call.Name == "" || !isController(call.Client) || !writes(call) {
		return
	}
	key := nameOfCall(call)
	if gone, ended := t.gone[key]; ended && t.works[key] == nil && time.Since(gone) > known {
		t.violated("what is gone is written", "the controller sends a request to %s Work %s, which has been gone for %v", call.Verb, key, time.Since(gone))
	}
}

// recordRefusal records since when a cluster refuses a Work.
func (t *truth) recordRefusal(key types.NamespacedName, work *workv1alpha1.Work) {
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	if applied != nil && strings.HasPrefix(applied.Reason, "ReCreate") {
		t.everRefused[work.UID] = true // this takes the place of a confirmation, too
	}
	if applied == nil || applied.Status != metav1.ConditionFalse {
		delete(t.refused, key)
	} else if _, known := t.refused[key]; !known {
		t.refused[key] = time.Now()
		t.everRefused[work.UID] = true
	}
}

// isPersistent checks that what a cluster has refused since before all was quiet was
// attempted again: at least every five minutes.
func (w *World) isPersistent(lasted time.Duration) error {
	if lasted < 7*time.Minute {
		return nil
	}
	began := time.Now().Add(-lasted)
	for _, held := range sortedHoldings(w.truth.works) {
		key := nameOf(held.work)
		since, refused := w.truth.refused[key]
		object := w.truth.desired.objects[ownerOf(held.work)]
		if !refused || since.After(began) || object == nil || object.GetDeletionTimestamp() != nil || !isOurs(held.work) || held.work.DeletionTimestamp != nil || w.truth.attempts[key] > 0 {
			continue
		}
		if w.mayBeAttempted(object, held) {
			return violated("too few attempts", "%s refuses Work %s of %s for %v, and the controller does not try again: %s", held.where.member, key, titleOf(object), time.Since(since), rowOf(object, held.where.member))
		}
	}
	return nil
}

// rowOf describes the row of a cluster.
func rowOf(object cached.Object, cluster string) string {
	for _, row := range object.GetStatus().Clusters {
		if row.Name == cluster {
			return fmt.Sprintf("%s %s %s (%s)", row.Applied, row.Reason, row.Revision, row.Message)
		}
	}
	return "no row"
}

// mayBeAttempted reports whether nothing keeps the controller from trying again what a
// cluster refuses. What somebody has written into a Work is not tried again, and stays until it
// is the turn of the cluster if nobody knows what was there before.
func (w *World) mayBeAttempted(object cached.Object, held *holding) bool {
	name := held.where.member
	ready, known := w.truth.ready[name]
	resource := w.truth.desired.latest(held.where.key)
	return keyOfResource(object) == held.where.key && w.isTarget(object, name) && known && ready.Before(w.truth.quietSince) && !w.karmada.Member(name).IsCut() &&
		!isSuspended(object.GetSpec(), name) && !isHeldBack(object, name) && (!held.edited || !waitsForTurn(object, name)) && !w.users.hampers(name) && w.wrongAsAWhole(object, resource) == "" && !isClaimed(resource) &&
		w.mayGet(object, name) && isRenderable(w.truth.targetOf(object, name), held.where.key) && held.work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(object.GetUID())
}

// waitsForTurn reports whether a rollout has not come to a cluster.
func waitsForTurn(object cached.Object, cluster string) bool {
	row := statusRow(object, cluster)
	return row != nil && row.Reason == propagationv1alpha1.ReasonWaiting
}

// checkRelease checks that the controller does not let a Work go in place of Karmada while
// Karmada cannot reach the cluster: the object there would keep Karmada's marks.
func (t *truth) checkRelease(write apiserver.Write, held *holding) {
	const known, seen = 10 * time.Second, 2 * time.Second
	before := write.Before.GetFinalizers()
	kept := write.After != nil && slices.Contains(write.After.GetFinalizers(), util.ExecutionControllerFinalizer)
	if !slices.Contains(before, util.ExecutionControllerFinalizer) || kept || t.quietSince.IsZero() || time.Since(t.quietSince) < seen {
		return
	}
	since, ready := t.ready[held.where.member]
	if !ready && time.Since(since) > known && t.lost[held.where.member].Before(time.Now().Add(-known)) && t.desired.clusters[held.where.member] != nil {
		t.violated("released too early", "the controller lets Work %s go although Karmada cannot reach the cluster", nameOf(held.work))
	}
}

// checkResumed checks that the controller resumes dispatching of a Work only by bringing it
// to what users want, and never as a side effect of asking for another attempt.
func (t *truth) checkResumed(write apiserver.Write) {
	if write.Verb != "patch" || write.Subresource != "" || write.After == nil || write.After.GetDeletionTimestamp() != nil {
		return
	}
	before, after := into(write.Before, &workv1alpha1.Work{}), into(write.After, &workv1alpha1.Work{})
	// A patch that brings a Work to what users want also says who owns it.
	meant := bytes.Contains(write.Body, []byte(propagationv1alpha1.OwnerUIDLabel))
	if util.IsWorkSuspendDispatching(before) && !util.IsWorkSuspendDispatching(after) && !meant {
		t.violated("a suspension ends", "the controller asks for another attempt at Work %s, which is suspended", nameOf(after))
	}
}

// recordReady records since when Karmada has contact with a cluster, or has none.
func (t *truth) recordReady(name string, ready bool) {
	if _, was := t.ready[name]; was == ready {
		return
	}
	if ready {
		t.ready[name] = time.Now()
		return
	}
	delete(t.ready, name)
	t.lost[name] = time.Now()
}

// checkReplaced checks that a Work that its owner wants is deleted only as long as its
// cluster refuses it, or if it withholds it.
func (t *truth) checkReplaced(held *holding) {
	stopped, ever := t.withdrawn[held.where]
	renewed, replaced := t.renewed[held.where.key]
	owner := ownerOf(held.work)
	if !t.wanted[held.where][owner] || ever && stopped >= t.calm || held.where.key == keyNamed(team, "") {
		return
	}
	if holdsData(held.where.key) {
		t.violated("data is deleted", "the controller deletes Work %s in order to replace %s, which may hold data", nameOf(held.work), held.where.key)
	}
	if replaced && renewed >= t.calm && meta.IsStatusConditionTrue(held.work.Status.Conditions, workv1alpha1.WorkApplied) {
		t.violated("deleted although accepted", "the controller deletes Work %s of %s, which its cluster has accepted", nameOf(held.work), owner)
	}
}

// checkPermission checks that an account does not propagate what came into being when it
// had lacked the permission for longer than an answer counts.
func (t *truth) checkPermission(held *holding) {
	const counts = 70 * time.Second
	object := t.desired.objects[ownerOf(held.work)]
	if object == nil || object.GetSpec().ServiceAccountName == "" || object.GetNamespace() == "" || keyOfResource(object) != held.where.key {
		return
	}
	came, known := t.came[held.where.key]
	since, acts := t.acts[titleOf(object)]
	resource := t.desired.latest(held.where.key)
	if !known || !acts || !since.Before(came) || resource == nil {
		return
	}
	for _, permission := range []string{"", held.where.member} {
		if t.w.users.grants[permission] || came.Sub(t.w.users.revoked[permission]) < counts {
			continue
		}
		target := t.targetOf(object, held.where.member)
		if karmada.ContentHash(manifestOf(held.work)) == karmada.ContentHash(customized(resource, target, t.policy())) {
			t.violated("sent without permission", "Work %s of %s holds what is newer than the permission %q of its account", nameOf(held.work), titleOf(object), permission)
		}
	}
}

// hasFollowers checks the Works of what follows resources: each cluster gets what those
// ask for that need it there.
func (w *World) hasFollowers(ctx context.Context) error {
	for _, held := range sortedHoldings(w.truth.works) {
		member := held.where.member
		if ownerOf(held.work) != theDependencies || !isOurs(held.work) || held.work.DeletionTimestamp != nil || w.users.hampers(member) || !w.isReady(ctx, member) {
			continue
		}
		should, asked := w.asksOfFollower(held)
		resource := w.truth.desired.latest(held.where.key)
		if !asked || resource != nil && isClaimed(resource) {
			continue
		}
		is := terms{resolutionOf(held.work) == "overwrite", ptr.Deref(held.work.Spec.SuspendDispatching, false), ptr.Deref(held.work.Spec.PreserveResourcesOnDeletion, false)}
		if resource == nil || w.isUnreadable(held.where.key) {
			is.overwrite = should.overwrite // the content stays as it is
		}
		if is != should {
			return violated("a wrong dependency", "Work %s of a dependency has the terms %+v, not %+v", nameOf(held.work), is, should)
		}
	}
	return nil
}

// terms are what those ask for that need a dependency on a cluster.
type terms struct{ overwrite, suspend, preserve bool }

// asksOfFollower is what is asked of a dependency. asked is false if nobody needs it, or if
// it is not known who does.
func (w *World) asksOfFollower(held *holding) (sum terms, asked bool) {
	sum.suspend = true
	for _, object := range w.truth.desired.objects {
		if ptr.Deref(object.GetSpec().PropagateDeps, false) && (w.isMoody(object) || object.GetDeletionTimestamp() != nil) {
			return terms{}, false
		}
		if !slices.Contains(w.truth.desired.followers(object), held.where.key) || !w.isTarget(object, held.where.member) {
			continue
		}
		asked = true
		sum.overwrite = sum.overwrite || object.GetSpec().ConflictResolution == propagationv1alpha1.ConflictOverwrite
		sum.suspend = sum.suspend && isSuspended(object.GetSpec(), held.where.member)
		sum.preserve = sum.preserve || preserves(object)
	}
	return sum, asked
}
