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
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// isExact checks all that a status must say, and all that Works must hold, when all is
// quiet. It derives both from what users desire, without any code of the controller.
func (w *World) isExact(ctx context.Context, object cached.Object) error {
	for _, check := range []func(cached.Object) error{w.hasRows, w.counts, w.concludes} {
		if err := check(object); err != nil {
			return err
		}
	}
	if err := w.hasTerms(ctx, object); err != nil {
		return err
	}
	return w.hasWorks(ctx, object)
}

// hasRows checks that there is one row for each cluster that is a target or is still to be
// cleaned up, and none besides.
func (w *World) hasRows(object cached.Object) error {
	title, status := titleOf(object), object.GetStatus()
	if got := ptr.Deref(status.ObservedGeneration, 0); got != object.GetGeneration() {
		return violated("an outdated status", "the status of %s is of generation %d, not %d", title, got, object.GetGeneration())
	}
	if selectsNothing(object) {
		return nil // its rows stay as they were
	}
	rows := map[string]int{}
	for i := range status.Clusters {
		row := &status.Clusters[i]
		rows[row.Name]++
		if strings.ContainsFunc(row.Message, func(r rune) bool { return r < ' ' }) {
			return violated("illegible", "the message of %s about %s has control characters: %q", title, row.Name, row.Message)
		}
	}
	expected := map[string]bool{}
	for _, target := range w.truth.desired.targets(object) {
		expected[target.Name] = true
	}
	if name := strangeRow(rows, expected); name != "" {
		return violated("wrong rows", "%s has a row of %s, which is no cluster of it", title, name)
	}
	unsure := map[string]bool{}
	for _, held := range w.truth.works {
		if isOurs(held.work) && held.work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(object.GetUID()) {
			expected[held.where.member] = true
		} else if ownerOf(held.work) == title {
			unsure[held.where.member] = true // somebody has removed the label
		}
	}
	for _, name := range memberNames {
		if unsure[name] && rows[name] < 2 {
			continue
		}
		if want := map[bool]int{true: 1}[expected[name]]; rows[name] != want {
			return violated("wrong rows", "%s has %d rows of %s, not %d", title, rows[name], name, want)
		}
	}
	return nil
}

// strangeRow returns the name of a row that is of no cluster.
func strangeRow(rows map[string]int, expected map[string]bool) string {
	for name := range rows {
		if !expected[name] && !slices.Contains(memberNames, name) {
			return name
		}
	}
	return ""
}

// counts checks every number of the summary.
func (w *World) counts(object cached.Object) error {
	targets, status := w.countedOf(object), object.GetStatus()
	if selectsNothing(object) || status.Summary == nil {
		return nil
	}
	applied, healthy, failed, unreachable, pending := 0, 0, 0, 0, 0
	for i := range status.Clusters {
		row := &status.Clusters[i]
		if !slices.ContainsFunc(targets, func(target propagationv1alpha1.TargetCluster) bool { return target.Name == row.Name }) {
			continue
		}
		switch {
		case row.Applied == metav1.ConditionTrue:
			applied++
			if row.Health == propagationv1alpha1.HealthHealthy {
				healthy++
			}
		case row.Applied == metav1.ConditionFalse:
			failed++
		case row.Reason == propagationv1alpha1.ReasonClusterNotReady:
			unreachable++
		default:
			pending++
		}
	}
	number := func(of *int32) int32 { return ptr.Deref(of, -1) }
	s := status.Summary
	says := fmt.Sprint(s.Progress, " ", number(s.Clusters), number(s.Applied), number(s.Healthy), number(s.Failed), number(s.Unreachable), number(s.Pending))
	if should := fmt.Sprint(fmt.Sprintf("%d/%d", healthy, len(targets)), " ", int32(len(targets)), int32(applied), int32(healthy), int32(failed), int32(unreachable), int32(pending)); says != should { //nolint:gosec // there are few
		return violated("the summary lies in the end", "the summary of %s is %q, not %q", titleOf(object), says, should)
	}
	return nil
}

// concludes checks that the conditions follow from the rows, or from what is wrong with the
// object as a whole.
func (w *World) concludes(object cached.Object) error {
	title, status := titleOf(object), object.GetStatus()
	ready := meta.FindStatusCondition(status.Conditions, propagationv1alpha1.ConditionReady)
	stalled := meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionStalled)
	reconciling := meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionReconciling)
	if stalled == reconciling && (stalled || ready.Status != metav1.ConditionTrue) {
		return violated("wrong conditions", "%s is %s; Stalled: %t, Reconciling: %t", title, ready.Status, stalled, reconciling)
	}
	resource := w.truth.desired.latest(keyOfResource(object))
	if why := w.wrongAsAWhole(object, resource); why != "" {
		return w.explains(title, ready, why)
	}
	return w.sumsUp(object, ready, stalled)
}

// sumsUp checks that the conditions of an object with which nothing is wrong as a whole are
// those of its rows.
func (w *World) sumsUp(object cached.Object, ready *metav1.Condition, stalled bool) error {
	title, status := titleOf(object), object.GetStatus()
	good, targets, reasons := 0, w.countedOf(object), map[string]bool{}
	for i := range status.Clusters {
		if row := &status.Clusters[i]; w.isGood(object, row) {
			good++
		} else {
			reasons[row.Reason] = true
		}
	}
	if w.isDenied(object) && ready.Reason == propagationv1alpha1.ReasonForbidden {
		return nil
	}
	isGood := good == len(targets) && !stalls(object)
	switch {
	case stalled && !stalls(object):
		return violated("wrong conditions", "%s is Stalled (%s), although nothing is wrong with it as a whole", title, ready.Message)
	case len(targets) == 0 && ready.Reason != propagationv1alpha1.ReasonNoClusterSelected:
		return violated("wrong conditions", "%s selects no cluster, but is %s %s", title, ready.Status, ready.Reason)
	case len(targets) == 0:
	case isGood != (ready.Status == metav1.ConditionTrue):
		return violated("wrong conditions", "%s is %s, with %d of %d good rows", title, ready.Status, good, len(targets))
	case ready.Status != metav1.ConditionTrue && !reasons[ready.Reason] && !isReasonOfRollout(object, ready.Reason):
		return violated("wrong conditions", "%s is %s %s, which is the reason of no row: %v", title, ready.Status, ready.Reason, reasons)
	}
	return nil
}

// isGood reports whether a row counts for Ready.
func (w *World) isGood(object cached.Object, row *propagationv1alpha1.ClusterStatus) bool {
	return w.isTarget(object, row.Name) && row.Applied == metav1.ConditionTrue && row.Health == propagationv1alpha1.HealthHealthy
}

// countedOf are the targets of an object, with the clusters that it selects and that leave.
func (w *World) countedOf(object cached.Object) []propagationv1alpha1.TargetCluster {
	counted := slices.DeleteFunc(w.truth.desired.targets(object), func(target propagationv1alpha1.TargetCluster) bool { return w.isLeftOut(object, target.Name) })
	for i := range object.GetStatus().Clusters {
		row := &object.GetStatus().Clusters[i]
		if row.Reason == propagationv1alpha1.ReasonClusterTerminating && !w.isTarget(object, row.Name) {
			counted = append(counted, propagationv1alpha1.TargetCluster{Name: row.Name})
		}
	}
	return counted
}

func (w *World) isTarget(object cached.Object, cluster string) bool {
	return slices.ContainsFunc(w.truth.desired.targets(object), func(target propagationv1alpha1.TargetCluster) bool { return target.Name == cluster })
}

// isDenied reports whether the account of an object may not read.
func (w *World) isDenied(object cached.Object) bool {
	return object.GetSpec().ServiceAccountName != "" && !w.users.grants[""]
}

// explains checks the reason of an object that cannot be propagated at all.
func (w *World) explains(title string, ready *metav1.Condition, why string) error {
	if why == unreadable {
		return explainsOutage(title, ready)
	}
	reasons := map[string][]string{
		"its selector is invalid":     {propagationv1alpha1.ReasonClusterSelectorInvalid},
		misplaced:                     {propagationv1alpha1.ReasonResourceScopeMismatch, propagationv1alpha1.ReasonForbidden},
		unserved:                      {propagationv1alpha1.ReasonResourceKindNotFound, propagationv1alpha1.ReasonForbidden},
		"its resource does not exist": {propagationv1alpha1.ReasonResourceNotFound, propagationv1alpha1.ReasonResourceKindNotFound, propagationv1alpha1.ReasonForbidden},
	}[why]
	if ready.Status != metav1.ConditionFalse || reasons != nil && !slices.Contains(reasons, ready.Reason) {
		return violated("wrong conditions", "%s is %s %s, although %s", title, ready.Status, ready.Reason, why)
	}
	return nil
}

// hasWorks checks the Works of all targets, and that the object has a finalizer if it has
// any.
func (w *World) hasWorks(ctx context.Context, object cached.Object) error {
	title, key := titleOf(object), keyOfResource(object)
	resource := w.truth.desired.latest(key)
	if w.wrongAsAWhole(object, resource) != "" || w.isDenied(object) {
		return nil
	}
	for _, target := range w.truth.desired.targets(object) {
		if w.needsNoWork(ctx, object, target, resource) {
			continue
		}
		held := w.truth.works[render.WorkKey(target.Name, key.Kind, key.Namespace, key.Name)]
		switch {
		case held == nil && w.isYetToCome(object, target.Name):
			continue
		case held == nil && w.karmada.Member(target.Name).Serves(key.GroupVersionKind):
			return violated("a Work is missing", "%s has no Work for %s", title, target.Name)
		case held == nil || held.work.DeletionTimestamp != nil || w.isBroken(object, target.Name):
			continue
		}
		if why := w.differs(object, target, held, resource); why != "" {
			return violated("a wrong Work", "the Work of %s for %s: %s; %s", title, target.Name, why, rowOf(object, target.Name))
		}
		if !slices.Contains(object.GetFinalizers(), propagationv1alpha1.CleanupFinalizer) {
			return violated("no finalizer", "%s has a Work and no finalizer", title)
		}
	}
	return nil
}

// needsNoWork reports whether nothing is demanded of the Work for a target.
func (w *World) needsNoWork(ctx context.Context, object cached.Object, target propagationv1alpha1.TargetCluster, resource *unstructured.Unstructured) bool {
	return !w.mayHaveWork(ctx, target.Name) || w.isHeldByOthers(object, target.Name, resource) && !w.isNameless(object, target.Name) ||
		!isRenderable(target, keyOfResource(object)) || !w.mayGet(object, target.Name) || w.isLeftOut(object, target.Name)
}

// isYetToCome reports whether a rollout is yet to reach a cluster, or cannot.
func (w *World) isYetToCome(object cached.Object, cluster string) bool {
	return ptr.Deref(heldAt(object, cluster), "none") == "" || w.isUnreadableRevision(object, cluster) || strings.Contains(rowOf(object, cluster), "had nothing before the rollout")
}

// hasTerms checks what needs no content in the Works of an object: it is right even if
// nothing new can be propagated.
func (w *World) hasTerms(ctx context.Context, object cached.Object) error {
	key := keyOfResource(object)
	for _, target := range w.truth.desired.targets(object) {
		held := w.truth.works[render.WorkKey(target.Name, key.Kind, key.Namespace, key.Name)]
		if held == nil || held.work.DeletionTimestamp != nil || !isOurs(held.work) || held.work.Labels[propagationv1alpha1.OwnerUIDLabel] != string(object.GetUID()) || !w.mayHaveWork(ctx, target.Name) {
			continue
		}
		if held.where.key != key && ptr.Deref(held.work.Spec.SuspendDispatching, false) {
			continue // it holds an object that nobody names anymore, and is not resumed
		}
		// What a rollout has held back stays until the resource can be read.
		stays := w.isUnreadable(key) && object.GetSpec().Rollout == nil && object.GetStatus().Rollout != nil
		if why := differsInTerms(object, target.Name, held.work, stays); why != "" {
			return violated("wrong terms", "the Work of %s for %s: %s", titleOf(object), target.Name, why)
		}
	}
	return nil
}

// differsInTerms returns how a Work differs from what it should be, whatever its content is;
// empty if it does not. stays means that it may be suspended although nobody asks for it.
func differsInTerms(object cached.Object, cluster string, work *workv1alpha1.Work, stays bool) string {
	owner := types.NamespacedName{Namespace: work.Annotations[propagationv1alpha1.OwnerNamespaceAnnotation], Name: work.Annotations[propagationv1alpha1.OwnerNameAnnotation]}
	suspended := isSuspended(object.GetSpec(), cluster)
	switch {
	case owner != nameOf(object):
		return fmt.Sprintf("it names %s as its owner", owner)
	case !slices.Contains(work.Finalizers, util.ExecutionControllerFinalizer):
		return "it lacks the finalizer of Karmada"
	case ptr.Deref(work.Spec.SuspendDispatching, false) != suspended && !isHeldBack(object, cluster) && (suspended || !stays):
		return fmt.Sprintf("suspended: %t", !suspended)
	case ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) != preserves(object):
		return fmt.Sprintf("preserves: %t", !preserves(object))
	}
	return ""
}

// isNameless reports whether a Work of an object does not name it anymore.
func (w *World) isNameless(object cached.Object, cluster string) bool {
	key := keyOfResource(object)
	held := w.truth.works[render.WorkKey(cluster, key.Kind, key.Namespace, key.Name)]
	return held != nil && isOurs(held.work) && held.work.DeletionTimestamp == nil && render.OwnerOf(held.work).Name == "" &&
		held.work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(object.GetUID()) && !isClaimed(w.truth.desired.latest(key))
}

// mayHaveWork reports whether the controller can write Works for a cluster.
func (w *World) mayHaveWork(ctx context.Context, name string) bool {
	cluster := &clusterv1alpha1.Cluster{}
	err := w.plane.Get(ctx, client.ObjectKey{Name: name}, cluster)
	return err == nil && cluster.DeletionTimestamp == nil && !w.isWithoutSpace(ctx, name) && !w.users.hampers(name)
}

// isRenderable reports whether a cluster can get what is said of it.
func isRenderable(target propagationv1alpha1.TargetCluster, key karmada.Key) bool {
	return (target.Overriders == nil || len(target.Overriders.Plaintext) == 0) && (target.Replicas == nil || key.Kind == "Deployment")
}

// mayGet reports whether a cluster may get an object.
func (w *World) mayGet(object cached.Object, cluster string) bool {
	return object.GetSpec().ServiceAccountName == "" || w.users.grants[""] && w.users.grants[cluster]
}

// differs returns how a Work differs from what it should be; empty if it does not.
func (w *World) differs(object cached.Object, target propagationv1alpha1.TargetCluster, held *holding, resource *unstructured.Unstructured) string {
	work, spec := held.work, object.GetSpec()
	wanted := map[bool]string{true: "overwrite", false: "abort"}[spec.ConflictResolution == propagationv1alpha1.ConflictOverwrite]
	resolution, terms := resolutionOf(held.work), differsInTerms(object, target.Name, work, false)
	switch {
	case work.Labels[propagationv1alpha1.OwnerUIDLabel] != string(object.GetUID()):
		return "it is marked as that of another owner"
	case terms != "":
		return terms
	case resolution != wanted && heldAt(object, target.Name) == nil:
		return fmt.Sprintf("conflicts are resolved by %q, not %q", resolution, wanted)
	case w.ignoresRequest(object, target, work):
		return "the cluster refuses it, and the request to try again is ignored"
	}
	return w.hasContent(object, target, held, resource)
}

// resolutionOf is how a Work says that conflicts are resolved.
func resolutionOf(work *workv1alpha1.Work) string {
	return manifestOf(work).GetAnnotations()[workv1alpha2.ResourceConflictResolutionAnnotation]
}

// ignoresRequest reports whether a user has requested a new attempt at a Work that its
// cluster refuses, and none was made.
func (w *World) ignoresRequest(object cached.Object, target propagationv1alpha1.TargetCluster, work *workv1alpha1.Work) bool {
	requested := object.GetAnnotations()[propagationv1alpha1.RetryAnnotation]
	return requested != "" && !isSuspended(object.GetSpec(), target.Name) && !isHeldBack(object, target.Name) && w.isReady(context.Background(), target.Name) &&
		meta.IsStatusConditionFalse(work.Status.Conditions, workv1alpha1.WorkApplied) && work.Annotations[propagationv1alpha1.RetryAnnotation] != requested
}
