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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

func nameOfCall(call *apiserver.Call) types.NamespacedName {
	return types.NamespacedName{Namespace: call.Namespace, Name: call.Name}
}

// withdraw takes a cluster off an object, or deletes the object if it names no other.
func (u *users) withdraw(ctx context.Context, object cached.Object, cluster string) error {
	spec := object.GetSpec()
	spec.ClusterSelector = nil
	spec.Clusters = slices.DeleteFunc(spec.Clusters, func(target propagationv1alpha1.TargetCluster) bool { return target.Name == cluster })
	if len(spec.Clusters) == 0 {
		return u.w.plane.Delete(ctx, object) //nolint:wrapcheck // act wraps it
	}
	return u.w.plane.Update(ctx, object) //nolint:wrapcheck // act wraps it
}

// takeOver has a PropagationPolicy claim a resource at the moment at which the controller is
// about to delete one of its Works.
func (u *users) takeOver(ctx context.Context) (string, error) {
	object, member, work, err := u.aPropagation(ctx)
	if work == nil || !slices.Contains(resources[:3], object.GetSpec().Resource) {
		return "", err
	}
	what := fmt.Sprintf("withdraws %s from %s", titleOf(object), member.Name)
	key := keyOfResource(object)
	if err := u.withdraw(ctx, object, member.Name); err != nil {
		return what, err
	}
	call, err := u.w.reach(ctx, 20*time.Second, false, deletes(work.Namespace, work.Name))
	if call == nil {
		return what, err
	}
	claimed, err := u.bindTo(ctx, objectAt(key), member.Name)
	if err != nil {
		return what + ", and " + claimed, err
	}
	return what + ", and " + claimed, u.w.dawdle(ctx, 30, contains("inding", " sees "))
}

// vanish removes an object with its finalizers. Sometimes its Works should keep what they
// have brought, and sometimes a webhook refuses what the controller does for a while.
func (u *users) vanish(ctx context.Context) (string, error) {
	object, member, work, err := u.aPropagation(ctx)
	if work == nil {
		return "", err
	}
	what := "removes " + titleOf(object) + " with its finalizers"
	if u.w.choices.oneIn(2) {
		if _, err := u.changeNamed(ctx, object.GetName(), func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
			spec.PreserveResourcesOnDeletion = ptr.To(true)
			return ""
		}); err != nil {
			return what, err
		}
		if err := u.w.undisturbed(ctx, 2*time.Second, false, never); err != nil {
			return what, err
		}
	}
	refused := u.w.choices.oneIn(2)
	u.refused[member.Name] = u.refused[member.Name] || refused
	if err := u.w.plane.Delete(ctx, object); err != nil {
		return what, err //nolint:wrapcheck // act wraps it
	}
	if _, err := u.changeNamed(ctx, object.GetName(), func(object cached.Object, _ *propagationv1alpha1.PropagationSpec) string {
		object.SetFinalizers(nil)
		return ""
	}); err != nil {
		return what, err
	}
	if !refused {
		return what, u.w.undisturbed(ctx, 8*time.Second, true, never)
	}
	err = u.w.undisturbed(ctx, 45*time.Second, true, never)
	delete(u.refused, member.Name)
	return what + ", while a webhook refuses what happens on " + member.Name, err
}

// withdrawUnreachable deletes an object, whose Works are suspended or preserve what they have
// brought, while Karmada has no contact with one of its clusters.
func (u *users) withdrawUnreachable(ctx context.Context) (string, error) {
	object, member, work, err := u.aPropagation(ctx)
	if work == nil {
		return "", err
	}
	preserve := u.w.choices.oneIn(2)
	what := fmt.Sprintf("deletes %s while %s cannot be reached; suspended: %t, preserved: %t", titleOf(object), member.Name, !preserve, preserve)
	if _, err := u.changeNamed(ctx, object.GetName(), func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.Suspension = propagationv1alpha1.Suspension{Dispatching: ptr.To(!preserve)}
		spec.PreserveResourcesOnDeletion = ptr.To(preserve)
		return ""
	}); err != nil {
		return what, err
	}
	if err := u.w.undisturbed(ctx, 2*time.Second, true, never); err != nil {
		return what, err
	}
	member.Cut()
	if err := u.w.undisturbed(ctx, 3*time.Minute, true, func() bool {
		_, ready := u.w.truth.ready[member.Name]
		return !ready && time.Since(u.w.truth.lost[member.Name]) > 15*time.Second
	}); err != nil {
		return what, err
	}
	if err := u.w.plane.Delete(ctx, object); err != nil {
		return what, err //nolint:wrapcheck // act wraps it
	}
	return what, u.w.undisturbed(ctx, 20*time.Second, true, never)
}

// flipNamespace has Karmada synchronize the Namespace at the moment at which the controller
// is about to delete a Work of it.
func (u *users) flipNamespace(ctx context.Context) (string, error) {
	what, err := u.changeNamed(ctx, clusterWide, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		if spec.Resource != team || len(spec.Clusters) == 0 {
			spec.Resource, spec.Clusters = team, listOfClusters(memberNames)
			return "names the Namespace"
		}
		spec.Clusters = listOfClusters(u.some())
		spec.PreserveResourcesOnDeletion = ptr.To(!ptr.Deref(spec.PreserveResourcesOnDeletion, false))
		return "moves the Namespace, and preserves the opposite"
	})
	if err != nil {
		return what, err
	}
	call, err := u.w.reach(ctx, 80*time.Second, true, deletes("", ""))
	if call == nil {
		return what, err
	}
	held := u.w.truth.works[nameOfCall(call)]
	if held == nil || held.where.key != keyNamed(team, "") {
		return what, nil
	}
	space := named(team, "")
	if err := u.changed(ctx, space, func() error {
		util.RemoveLabels(space, policyv1alpha1.NamespaceSkipAutoPropagationLabel)
		return nil
	}); err != nil {
		return what, err
	}
	return what + "; Karmada synchronizes it from then on", u.w.touch(ctx, held)
}

// touch has somebody write a Work without changing what it means.
func (w *World) touch(ctx context.Context, held *holding) error {
	somebody, err := w.server.Client("somebody")
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	work := held.work.DeepCopy()
	metav1.SetMetaDataAnnotation(&work.ObjectMeta, "touched", fmt.Sprint(w.steps))
	return somebody.Update(ctx, work) //nolint:wrapcheck // act wraps it
}

// recreateStale has Karmada create again, from a Work as it was, what somebody has deleted
// on a member, while the Work changes.
func (u *users) recreateStale(ctx context.Context) (string, error) {
	object, member, work, err := u.aPropagation(ctx)
	if work == nil {
		return "", err
	}
	key := keyOfResource(object)
	what := fmt.Sprintf("deletes %s on %s, and changes it", key, member.Name)
	if err := member.Delete(key); err != nil {
		return what, err //nolint:wrapcheck // act wraps it
	}
	isRecreation := func(action karmada.Action) bool { return strings.Contains(action.Name, ": recreates the object") }
	if err := u.w.dawdle(ctx, 12, func(action karmada.Action) bool {
		return !isRecreation(action) && (strings.Contains(action.Name, key.Name) || strings.Contains(action.Name, "informer"))
	}); err != nil {
		return what, err
	}
	if err := u.changeAt(ctx, key); err != nil {
		return what, err
	}
	if err := u.w.undisturbed(ctx, 400*time.Millisecond, false, never); err != nil {
		return what, err
	}
	if err := u.w.dawdle(ctx, 8, func(action karmada.Action) bool {
		return strings.Contains(action.Name, " sees ") || strings.Contains(action.Name, "reads the Work") || strings.Contains(action.Name, "writes Dispatching")
	}); err != nil {
		return what, err
	}
	return what, u.w.dawdle(ctx, 2, func(action karmada.Action) bool {
		return isRecreation(action) || strings.Contains(action.Name, "/work-status") && strings.Contains(action.Name, "writes Applied")
	})
}

// changeAndDelete changes a resource, and deletes it on a member.
func (u *users) changeAndDelete(ctx context.Context) (string, error) {
	object, member, work, err := u.aPropagation(ctx)
	if work == nil {
		return "", err
	}
	key := keyOfResource(object)
	what := fmt.Sprintf("changes %s, and deletes it on %s", key, member.Name)
	if err := u.changeAt(ctx, key); err != nil {
		return what, err
	}
	return what, member.Delete(key) //nolint:wrapcheck // act wraps it
}

// suspendDuringAttempt suspends an object, and changes its resource, while Karmada attempts
// what it was before.
func (u *users) suspendDuringAttempt(ctx context.Context) (string, error) {
	object, member, work, err := u.aPropagation(ctx)
	if work == nil {
		return "", err
	}
	key := keyOfResource(object)
	what := fmt.Sprintf("changes %s, and suspends %s and changes it again while Karmada attempts that on %s", key, titleOf(object), member.Name)
	attempts := func(action karmada.Action) bool {
		return strings.Contains(action.Name, "/execution") && strings.Contains(action.Name, work.Namespace+"/"+work.Name) || strings.Contains(action.Name, " sees ")
	}
	if err := u.changeAt(ctx, key); err != nil {
		return what, err
	}
	if err := u.w.undisturbed(ctx, 400*time.Millisecond, false, never); err != nil {
		return what, err
	}
	if err := u.w.dawdle(ctx, 20, func(action karmada.Action) bool { return attempts(action) && !strings.Contains(action.Name, "applies") }); err != nil {
		return what, err
	}
	if _, err := u.changeNamed(ctx, object.GetName(), func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.Suspension = propagationv1alpha1.Suspension{Dispatching: ptr.To(true)}
		return ""
	}); err != nil {
		return what, err
	}
	if err := u.changeAt(ctx, key); err != nil {
		return what, err
	}
	if err := u.w.undisturbed(ctx, 400*time.Millisecond, false, never); err != nil {
		return what, err
	}
	if err := u.w.dawdle(ctx, 40, attempts); err != nil {
		return what, err
	}
	return what, u.w.undisturbed(ctx, 5*time.Second, true, never)
}

// revert changes a resource, and changes it back a moment later. In between, the process
// of the controller may have died.
func (u *users) revert(ctx context.Context) (string, error) { return u.revertAfter(ctx, false) }

func (u *users) dieAndRevert(ctx context.Context) (string, error) { return u.revertAfter(ctx, true) }

func (u *users) revertAfter(ctx context.Context, death bool) (string, error) {
	object, _, work, err := u.aPropagation(ctx)
	if work == nil {
		return "", err
	}
	key := keyOfResource(object)
	what := fmt.Sprintf("changes %s, and changes it back", key)
	before := objectAt(key)
	if err := u.w.plane.Get(ctx, keyOf(before), before); err != nil {
		return what, err //nolint:wrapcheck // act wraps it
	}
	if err := u.changeAt(ctx, key); err != nil {
		return what, err
	}
	call, err := u.w.reach(ctx, 3*time.Second, u.w.choices.oneIn(2), func(call *apiserver.Call) bool {
		return call.Resource == "works" && call.Verb == "update" && call.Subresource == ""
	})
	if err != nil {
		return what, err
	}
	if call != nil && death {
		if err := u.w.crash(ctx); err != nil {
			return what, err
		}
	}
	resource := objectAt(key)
	return what, u.changed(ctx, resource, func() error {
		for _, field := range []string{"data", "spec", "rules"} {
			if value, found := before.Object[field]; found {
				resource.Object[field] = value
			} else {
				unstructured.RemoveNestedField(resource.Object, field)
			}
		}
		return nil
	})
}

// loseDeletion takes a cluster off an object and adds it again, while the answer to the
// deletion of the Work is lost.
func (u *users) loseDeletion(ctx context.Context) (string, error) {
	object, member, work, err := u.aPropagation(ctx)
	if work == nil || len(object.GetSpec().Clusters) < 2 {
		return "", err
	}
	name, before := object.GetName(), slices.Clone(object.GetSpec().Clusters)
	what := fmt.Sprintf("withdraws %s from %s for a moment", titleOf(object), member.Name)
	if err := u.withdraw(ctx, object, member.Name); err != nil {
		return what, err
	}
	call, err := u.w.reach(ctx, 80*time.Second, true, deletes(work.Namespace, work.Name))
	if call == nil {
		return what, err
	}
	u.w.tell("%s: done, and the answer is lost", call)
	call.ServeAndDrop()
	if also, err := u.changeNamed(ctx, name, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.Clusters = before
		return "the cluster is back"
	}); err != nil {
		return what + ", and " + also, err
	}
	return what, u.w.undisturbed(ctx, 10*time.Second, true, func() bool {
		u.w.blames(name, member.Name, nameOf(work))
		return false
	})
}

// blames checks that a row does not say for long that a Work was deleted that the controller has
// deleted itself. The deletions of others are restored later.
func (w *World) blames(name, cluster string, work types.NamespacedName) {
	const known = 2 * time.Second
	gone, ended := w.truth.gone[work]
	object := w.truth.desired.objects[titleOf(anObject(name))]
	if !ended || w.truth.works[work] != nil || time.Since(gone) < known || object == nil {
		return
	}
	if said := rowOf(object, cluster); strings.Contains(said, "the Work was deleted") {
		w.truth.violated("blames others", "%s waits for others because Work %s was deleted, which it has deleted itself: %s", titleOf(object), work, said)
	}
}

// restartController ends a process of the controller, and starts another.
func (u *users) restartController(ctx context.Context) (string, error) { return "", u.w.crash(ctx) }
