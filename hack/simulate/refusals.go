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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// disown removes Karmada's mark from an object on a member, and changes the resource:
// Karmada then no longer updates the object.
func (u *users) disown(ctx context.Context) (string, error) {
	object, member, work, err := u.aPropagation(ctx)
	if work == nil {
		return "", err
	}
	return u.disownOn(ctx, member, keyOfResource(object))
}

func (u *users) disownOn(ctx context.Context, member *karmada.Member, key karmada.Key) (string, error) {
	what := fmt.Sprintf("removes Karmada's mark from %s on %s, and changes it", key, member.Name)
	if err := member.Edit(key, func(object *unstructured.Unstructured) { util.RemoveLabels(object, util.ManagedByKarmadaLabel) }); err != nil {
		return what, err //nolint:wrapcheck // act wraps it
	}
	return what, u.changeAt(ctx, key)
}

// changeAt gives a resource content that it never had.
func (u *users) changeAt(ctx context.Context, key karmada.Key) error {
	object := objectAt(key)
	return u.changed(ctx, object, func() error { return u.filled(object) })
}

// objectAt returns an object with a key, without content.
func objectAt(key karmada.Key) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(key.GroupVersionKind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return object
}

// disownOnFastClock does the same on a pull member whose clock is ahead. Its agent
// dates what it reports.
func (u *users) disownOnFastClock(ctx context.Context) (string, error) {
	for _, held := range sortedHoldings(u.w.truth.works) {
		if modeOf(held.where.member) != clusterv1alpha1.Pull || !isOurs(held.work) || held.work.DeletionTimestamp != nil || u.w.choices.oneIn(3) {
			continue
		}
		member := u.w.karmada.Member(held.where.member)
		member.ClockOffset = time.Hour
		u.w.tell("the clock of %s is %v ahead", member.Name, member.ClockOffset)
		return u.disownOn(ctx, member, held.where.key)
	}
	return "", nil
}

// clearMember ends a conflict on a member: somebody there deletes the object that Karmada
// does not manage, or gives it Karmada's mark.
func (u *users) clearMember(context.Context) (string, error) {
	for _, name := range memberNames {
		member := u.w.karmada.Member(name)
		for _, key := range member.Keys() {
			running, _ := member.Runs(key.GroupVersionKind, key.Namespace, key.Name)
			if !isPropagated(key) || isManaged(running.Object) || u.w.choices.oneIn(3) {
				continue
			}
			if u.w.choices.oneIn(3) {
				return fmt.Sprintf("deletes %s on %s", key, name), member.Delete(key) //nolint:wrapcheck // act wraps it
			}
			if !u.w.truth.isHeld(place{member: name, key: key}) {
				continue // nobody would remove it
			}
			return fmt.Sprintf("gives %s on %s to Karmada", key, name), member.Edit(key, func(object *unstructured.Unstructured) { //nolint:wrapcheck // act wraps it
				util.MergeLabel(object, util.ManagedByKarmadaLabel, util.ManagedByKarmadaLabelValue)
			})
		}
	}
	return "", nil
}

// denyOnMember has the admission of a member deny what users propagate, or accept it again.
// What it says is not fit for a terminal.
func (u *users) denyOnMember(context.Context) (string, error) {
	member := u.w.karmada.Member(oneOf(u.w.choices, memberNames))
	if u.denied[member.Name] {
		delete(u.denied, member.Name)
		member.Refuse = nil
		return "has " + member.Name + " accept everything again", nil
	}
	u.denied[member.Name] = true
	member.Refuse = func(_ string, object *unstructured.Unstructured) error {
		if key := karmada.KeyOf(object); isPropagated(key) && key.Kind != team.Kind {
			return errDeniedThere
		}
		return nil
	}
	return "has the admission of " + member.Name + " deny what users propagate", nil
}

// acceptAll ends what webhooks of the control plane change, and what members deny.
func (u *users) acceptAll(context.Context) (string, error) {
	clear(u.altered)
	clear(u.denied)
	for _, name := range memberNames {
		u.w.karmada.Member(name).Refuse = nil
	}
	return "", nil
}

// alterWrites has a webhook change what the controller writes for a cluster, or no longer.
func (u *users) alterWrites(context.Context) (string, error) {
	name := oneOf(u.w.choices, memberNames)
	if u.altered[name] {
		delete(u.altered, name)
		return "has the webhook leave Works for " + name + " as they are", nil
	}
	u.altered[name] = true
	return "has a webhook change Works for " + name, nil
}

// hampers reports whether a webhook refuses or changes what the controller writes for a
// cluster.
func (u *users) hampers(cluster string) bool { return u.refused[cluster] || u.altered[cluster] }

// isHampered reports whether a write may be there because of a webhook that refuses or
// changes Works: the controller tries again and again to write what it should, from time to
// time it resets the status first, says how it fares, and clusters report again.
func (w *World) isHampered(write apiserver.Write) bool {
	return write.Resource == "works" && w.users.hampers(clusterOf(write.Namespace)) ||
		len(w.users.refused)+len(w.users.altered) > 0 && isController(write.Client) && (write.Subresource == "status" || write.Resource == "events")
}

// alter is what the webhook does.
func alter(work *workv1alpha1.Work) error {
	manifest := manifestOf(work)
	if manifest == nil {
		return nil
	}
	util.MergeAnnotation(manifest, "audited", "true")
	raw, err := manifest.MarshalJSON()
	if err != nil {
		return fmt.Errorf("marshaling a manifest: %w", err)
	}
	work.Spec.Workload.Manifests[0].Raw = raw
	return nil
}

// admitDeletion refuses to delete Works for some clusters.
func (w *World) admitDeletion(write apiserver.Write) error {
	if write.Resource != "works" || write.After != nil || !isController(write.Client) || !w.users.refused[clusterOf(write.Before.GetNamespace())] {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: workv1alpha1.GroupName, Resource: "works"}, write.Before.GetName(), errDenied)
}

// refuseAndMove has a webhook refuse what the controller writes for a cluster. At the same
// time, an object must be changed there, and leaves another cluster.
func (u *users) refuseAndMove(ctx context.Context) (string, error) {
	name := oneOf(u.w.choices, propagationNames)
	what, err := u.changeNamed(ctx, name, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.Clusters = listOfClusters(memberNames)
		return "all clusters"
	})
	if err != nil {
		return what, err
	}
	clear(u.refused)
	if err := u.w.undisturbed(ctx, 10*time.Second, true, never); err != nil {
		return what, err
	}
	first := u.w.choices.below(len(memberNames))
	u.refused[memberNames[first]] = true
	if object := u.w.truth.desired.objects[titleOf(anObject(name))]; object != nil {
		if err := u.changeAt(ctx, keyOfResource(object)); err != nil && !isRefusal(err) {
			return what, err
		}
	}
	return u.changeNamed(ctx, name, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		kept := memberNames[(first+1)%len(memberNames)]
		spec.Clusters = listOfClusters([]string{memberNames[first], kept})
		return fmt.Sprintf("clusters are %s, for which a webhook refuses Works, and %s", memberNames[first], kept)
	})
}

// refuseAndDelete has a webhook refuse for a minute what the controller writes for a cluster.
// Then somebody deletes the Work of the same object for another one, which must be there again
// as soon as if nothing were refused.
func (u *users) refuseAndDelete(ctx context.Context) (string, error) {
	clear(u.refused)
	clear(u.altered)
	if err := u.w.undisturbed(ctx, 10*time.Second, true, never); err != nil {
		return "", err
	}
	object, member, work, err := u.aPropagation(ctx)
	if work == nil || !meta.IsStatusConditionTrue(object.GetStatus().Conditions, propagationv1alpha1.ConditionReady) {
		return "", err
	}
	for _, name := range memberNames {
		if name != member.Name {
			u.refused[name] = true
		}
	}
	what := fmt.Sprintf("has a webhook refuse Works for all clusters but %s, and later deletes Work %s/%s", member.Name, work.Namespace, work.Name)
	if err := u.changeAt(ctx, keyOfResource(object)); err != nil {
		return what, err
	}
	if err := u.w.undisturbed(ctx, time.Minute, true, never); err != nil {
		return what, err
	}
	if err := u.w.plane.Delete(ctx, work); err != nil {
		return what, err //nolint:wrapcheck // act wraps it
	}
	return what, u.w.undisturbed(ctx, 30*time.Second, true, func() bool { return u.w.restored(nameOf(work)) })
}

// restored reports whether a Work that somebody has deleted is there again, and checks that it
// is in time.
func (w *World) restored(key types.NamespacedName) bool {
	const late = 10 * time.Second
	gone, ended := w.truth.gone[key]
	switch {
	case !ended:
		return false
	case w.truth.works[key] != nil:
		return w.truth.works[key].work.CreationTimestamp.After(gone)
	case time.Since(gone) > late:
		w.truth.violated("restored late", "Work %s, which somebody has deleted, is not there again after %v", key, late)
	}
	return false
}

// breakStatus forbids the controller to write the status of Deployments, or allows it
// again.
func (u *users) breakStatus(ctx context.Context) (string, error) {
	u.w.noStatus = !u.w.noStatus
	what, err := u.nameDeployment(ctx)
	return fmt.Sprintf("forbids the controller to write the status of Deployments: %t; and %s", u.w.noStatus, what), err
}

// mendStatus allows it.
func (u *users) mendStatus(context.Context) (string, error) {
	u.w.noStatus = false
	return "", nil
}
