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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// isRight checks that members have the desired objects, and that the status says so.
func (w *World) isRight(ctx context.Context) error {
	for _, title := range sortedNames(w.truth.desired.objects) {
		object := w.truth.desired.objects[title]
		if object.GetDeletionTimestamp() != nil {
			if w.isStuck(object) {
				continue
			}
			return violated("never deleted", "%s is still being deleted", title)
		}
		if err := w.isTold(ctx, object); err != nil {
			return err
		}
		if err := w.isExact(ctx, object); err != nil {
			return err
		}
		if err := w.hasGoneOn(ctx, object); err != nil {
			return err
		}
	}
	if err := w.isDeploymentTold(ctx); err != nil {
		return err
	}
	if broken := w.truth.checkUnique(); broken != nil {
		return broken
	}
	if err := w.hasOwners(); err != nil {
		return err
	}
	if err := w.hasFollowers(ctx); err != nil {
		return err
	}
	if err := w.hasNoLeftovers(); err != nil {
		return err
	}
	return w.isClean()
}

// isStuck reports whether Karmada holds one of the Works of an object.
func (w *World) isStuck(object cached.Object) bool {
	for _, held := range w.truth.works {
		cluster := &clusterv1alpha1.Cluster{}
		isIts := held.work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(object.GetUID()) || ownerOf(held.work) == titleOf(object)
		if isIts &&
			w.plane.Get(context.Background(), client.ObjectKey{Name: held.where.member}, cluster) == nil &&
			(cluster.DeletionTimestamp != nil || w.users.hampers(held.where.member) || !util.IsClusterReady(&cluster.Status)) {
			return true
		}
	}
	return false
}

// isTold checks the status of an object.
func (w *World) isTold(ctx context.Context, object cached.Object) error {
	title, status := titleOf(object), object.GetStatus()
	ready := meta.FindStatusCondition(status.Conditions, propagationv1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != object.GetGeneration() {
		return violated("no status", "%s has no status of its generation", title)
	}
	resource := w.truth.desired.latest(keyOfResource(object))
	if why := w.wrongAsAWhole(object, resource); why != "" {
		if ready.Status == metav1.ConditionTrue {
			return violated("Ready lies in the end", "%s is Ready, although %s", title, why)
		}
		if ready.Reason == propagationv1alpha1.ReasonResourceNotFound {
			return w.isMissed(ctx, object)
		}
		return nil
	}
	rows := map[string]*propagationv1alpha1.ClusterStatus{}
	for i := range status.Clusters {
		rows[status.Clusters[i].Name] = &status.Clusters[i]
	}
	for _, target := range w.truth.desired.targets(object) {
		row := rows[target.Name]
		if row == nil {
			return violated("no row", "%s has no row of %s", title, target.Name)
		}
		if w.isLeftOut(object, target.Name) {
			continue
		}
		if err := w.isRowTold(ctx, object, target, row, resource); err != nil {
			return err
		}
	}
	return nil
}

// wrongAsAWhole returns why an object cannot be propagated at all; empty if it can.
func (w *World) wrongAsAWhole(object cached.Object, resource *unstructured.Unstructured) string {
	switch {
	case selectsNothing(object):
		return "its selector is invalid"
	case !isPropagated(keyOfResource(object)), (object.GetNamespace() == "") != isClusterWide(keyOfResource(object)):
		return "its resource is not for it"
	case !w.isServed(keyOfResource(object)):
		return unserved
	case w.isMisplaced(keyOfResource(object)):
		return misplaced
	case w.isUnreadable(keyOfResource(object)):
		return unreadable
	case resource == nil:
		return "its resource does not exist"
	}
	return ""
}

// selectsNothing reports whether the selector of an object is none.
func selectsNothing(object cached.Object) bool {
	_, err := metav1.LabelSelectorAsSelector(object.GetSpec().ClusterSelector)
	return err != nil
}

// isRowTold checks a row against the member.
func (w *World) isRowTold(ctx context.Context, object cached.Object, target propagationv1alpha1.TargetCluster, row *propagationv1alpha1.ClusterStatus, resource *unstructured.Unstructured) error {
	told := fmt.Sprintf("%s says of %s: %s %s", titleOf(object), row.Name, row.Applied, row.Reason)
	switch {
	case row.Applied != metav1.ConditionTrue && !w.excuses(ctx, object, target, row, resource):
		return violated("not applied in the end", "%s (%s), although nothing is wrong%s", told, row.Message, describeStatus(object, row.Name))
	case row.Applied != metav1.ConditionTrue:
		return w.isExplained(object, target, row, resource)
	}
	if !w.isReady(ctx, row.Name) {
		return violated("a row lies in the end", "%s, but Karmada has no contact with the cluster", told)
	}
	if w.isLost(row.Name, object) {
		return nil
	}
	key := keyOfResource(object)
	if err := w.isHealthTold(told, row, key); err != nil {
		return err
	}
	content := karmada.ContentHash(customized(resource, target, w.truth.policy()))
	member := w.karmada.Member(row.Name)
	running, found := member.Runs(key.GroupVersionKind, key.Namespace, key.Name)
	if isSuspended(object.GetSpec(), row.Name) && (!found || member.IsEdited(key.GroupVersionKind, key.Namespace, key.Name)) {
		return nil // somebody has deleted or edited it there, and Karmada neither restores it nor says so
	}
	if !found || running.Content != content {
		return violated("a row lies in the end", "%s, but the member has it: %t, with the content: %t", told, found, running.Content == content)
	}
	return nil
}

// isLost reports whether somebody on a member has deleted the copy of an object's resource
// without Karmada noticing.
func (w *World) isLost(cluster string, object cached.Object) bool {
	key := keyOfResource(object)
	return w.karmada.Member(cluster).LostUnnoticed(key.GroupVersionKind, key.Namespace, key.Name)
}

// policy is what the override policy says now; nil if there is none.
func (t *truth) policy() *policyv1alpha1.OverrideSpec {
	for _, specs := range t.desired.policies {
		return specs[len(specs)-1]
	}
	return nil
}

// excuses reports whether a row need not be True, and gives the right reason for that.
func (w *World) excuses(ctx context.Context, object cached.Object, target propagationv1alpha1.TargetCluster, row *propagationv1alpha1.ClusterStatus, resource *unstructured.Unstructured) bool {
	if reason := row.Reason; reason == propagationv1alpha1.ReasonWaiting || reason == propagationv1alpha1.ReasonRevisionUnreadable {
		return w.excusedByRollout(ctx, object, row)
	}
	spec, key := object.GetSpec(), keyOfResource(object)
	switch row.Reason {
	case propagationv1alpha1.ReasonApplying:
		return w.isWithoutSpace(ctx, row.Name)
	case propagationv1alpha1.ReasonClusterNotFound, propagationv1alpha1.ReasonClusterTerminating, propagationv1alpha1.ReasonClusterNotReady:
		return !w.isReady(ctx, row.Name)
	case propagationv1alpha1.ReasonWriteFailed:
		return w.users.hampers(row.Name)
	case propagationv1alpha1.ReasonSuspended:
		return isSuspended(spec, row.Name) || isHeldBack(object, row.Name)
	case propagationv1alpha1.ReasonConflict:
		return w.isHeldByOthers(object, row.Name, resource)
	case propagationv1alpha1.ReasonForbidden:
		return spec.ServiceAccountName != "" && (!w.users.grants[""] || !w.users.grants[row.Name])
	}
	return w.excusedByContent(object, target, row, key, resource)
}

// excusedByContent reports whether what a cluster should get is the reason why a row is not
// True.
func (w *World) excusedByContent(object cached.Object, target propagationv1alpha1.TargetCluster, row *propagationv1alpha1.ClusterStatus, key karmada.Key, resource *unstructured.Unstructured) bool {
	switch row.Reason {
	case propagationv1alpha1.ReasonRenderFailed:
		return target.Replicas != nil && key.Kind != "Deployment"
	case propagationv1alpha1.ReasonOverrideFailed:
		return target.Overriders != nil && len(target.Overriders.Plaintext) > 0
	case propagationv1alpha1.ReasonAPINotEnabled:
		return !w.karmada.Member(row.Name).Serves(key.GroupVersionKind)
	case propagationv1alpha1.ReasonApplyFailed:
		return w.refuses(row.Name, key, object.GetSpec().ConflictResolution, resource)
	}
	return false
}

// excusedByRollout reports whether a rollout is the reason why a row is not True.
func (w *World) excusedByRollout(ctx context.Context, object cached.Object, row *propagationv1alpha1.ClusterStatus) bool {
	if row.Reason == propagationv1alpha1.ReasonWaiting {
		return w.waits(ctx, object, row.Name)
	}
	return w.isUnreadableRevision(object, row.Name)
}

// isReady reports whether Karmada has contact with a cluster and keeps it.
func (w *World) isReady(ctx context.Context, name string) bool {
	cluster := &clusterv1alpha1.Cluster{}
	err := w.plane.Get(ctx, client.ObjectKey{Name: name}, cluster)
	return err == nil && cluster.DeletionTimestamp == nil && util.IsClusterReady(&cluster.Status)
}

// isHeldByOthers reports whether somebody else holds the Work that an object wants, or a
// policy has claimed the resource.
func (w *World) isHeldByOthers(object cached.Object, cluster string, resource *unstructured.Unstructured) bool {
	key := keyOfResource(object)
	held := w.truth.works[render.WorkKey(cluster, key.Kind, key.Namespace, key.Name)]
	return isClaimed(resource) || held != nil && (!isOurs(held.work) || ownerOf(held.work) != titleOf(object))
}

// isWithoutSpace reports whether a cluster has no execution namespace. Karmada does not
// create that of a cluster again that is registered while the old one is being deleted,
// and cannot delete it as long as it holds a Work to preserve whose object is gone
// (karmada#7463).
func (w *World) isWithoutSpace(ctx context.Context, cluster string) bool {
	space := &corev1.Namespace{}
	err := w.plane.Get(ctx, client.ObjectKey{Name: names.GenerateExecutionSpaceName(cluster)}, space)
	return err != nil || space.DeletionTimestamp != nil
}

// refuses reports whether a member has a reason to refuse an object.
func (w *World) refuses(name string, key karmada.Key, resolution propagationv1alpha1.ConflictResolution, resource *unstructured.Unstructured) bool {
	member := w.karmada.Member(name)
	if _, hasNamespace := member.Runs(schemaNamespace, "", key.Namespace); key.Namespace != "" && !hasNamespace {
		return true
	}
	running, found := member.Runs(key.GroupVersionKind, key.Namespace, key.Name)
	return w.users.denied[name] || w.isFrozenThere(name, key, resource) || !member.Serves(key.GroupVersionKind) || found && !isManaged(running.Object) && resolution != propagationv1alpha1.ConflictOverwrite
}

// isFrozenThere reports whether a member has another object that cannot be changed and that
// must not be replaced: it may hold data, or Karmada does not manage it.
func (w *World) isFrozenThere(name string, key karmada.Key, resource *unstructured.Unstructured) bool {
	running, found := w.karmada.Member(name).Runs(key.GroupVersionKind, key.Namespace, key.Name)
	return found && isFrozen(running.Object) && !equality.Semantic.DeepEqual(running.Object.Object["data"], resource.Object["data"]) &&
		(holdsData(key) || !isManaged(running.Object))
}

func isManaged(object *unstructured.Unstructured) bool {
	return object.GetLabels()[util.ManagedByKarmadaLabel] == util.ManagedByKarmadaLabelValue
}

func isSuspended(spec *propagationv1alpha1.PropagationSpec, cluster string) bool {
	for _, name := range spec.Suspension.DispatchingOnClusters.ClusterNames {
		if name == cluster {
			return true
		}
	}
	return ptr.Deref(spec.Suspension.Dispatching, false)
}

// awaits reports whether an object wants something else on a member that cannot be
// written there: until it is, what there was stays.
func (w *World) awaits(owner, member string) bool {
	for _, object := range w.truth.desired.objects {
		// As long as nobody knows what an object needs, nothing is withdrawn that it may.
		unknown := w.wrongAsAWhole(object, w.truth.desired.latest(keyOfResource(object))) != "" || object.GetSpec().ServiceAccountName != "" && !w.users.grants[""]
		if owner == theDependencies && ptr.Deref(object.GetSpec().PropagateDeps, false) && unknown {
			return true
		}
	}
	object := w.truth.desired.objects[owner]
	if object == nil || selectsNothing(object) {
		return object != nil
	}
	where := place{member: member, key: keyOfResource(object)}
	held := w.truth.works[render.WorkKey(member, where.key.Kind, where.key.Namespace, where.key.Name)]
	return w.truth.wanted[where][owner] && (held == nil || held.where.key != where.key || ownerOf(held.work) != owner || !isOurs(held.work))
}

// hasOwners checks that every Work of the controller is one that its owner wants.
func (w *World) hasOwners() error {
	for key, held := range w.truth.works {
		owner := w.bearerOf(held.work)
		if !isOurs(held.work) || held.work.DeletionTimestamp != nil || w.truth.wanted[held.where][owner] || w.users.refused[held.where.member] {
			continue
		}
		// Nobody knows of an object that ended without its finalizer while the controller
		// did not run.
		if w.awaits(owner, held.where.member) || w.isForgotten(held.work) {
			continue
		}
		return violated("Work left behind", "Work %s is still there, although its owner %s does not want it", key, owner)
	}
	return nil
}

// bearerOf names the owner of a Work even if somebody has removed its name.
func (w *World) bearerOf(work *workv1alpha1.Work) string {
	for title, object := range w.truth.desired.objects {
		if render.OwnerOf(work).Name == "" && work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(object.GetUID()) {
			return title
		}
	}
	return ownerOf(work)
}

// isForgotten reports whether an object ended without its finalizer, and the controller may
// not have seen that, or cannot find its Work.
func (w *World) isForgotten(work *workv1alpha1.Work) bool {
	owner := render.OwnerOf(work)
	started, orphaned := w.truth.orphans[owner.UID]
	return orphaned && (w.pair || started != w.started || owner.Name == "")
}

// isClean checks that nothing is left on a member that nobody wants, unless somebody
// asked to keep it.
func (w *World) isClean() error {
	held := map[place]bool{}
	for _, work := range w.truth.works {
		held[work.where] = true
	}
	for _, name := range memberNames {
		member := w.karmada.Member(name)
		if member.IsCut() {
			continue
		}
		for _, key := range member.Keys() {
			where := place{member: name, key: key}
			running, _ := member.Runs(key.GroupVersionKind, key.Namespace, key.Name)
			if !isPropagated(key) || len(w.truth.wanted[where]) > 0 || held[where] || w.truth.kept[where] || !isManaged(running.Object) {
				continue
			}
			return violated("left behind", "%s is still on %s, and nobody wants it there", key, name)
		}
	}
	return nil
}
