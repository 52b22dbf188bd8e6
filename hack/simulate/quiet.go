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
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

const (
	// silence is for how long nothing must be written before the world is quiet.
	silence = 10 * time.Minute
	// patience is how long it may take until it is.
	patience = 6 * time.Hour
)

// settle repairs everything, and waits until nobody writes anymore. Then everything
// must be as if it had always been calm.
func (w *World) settle(ctx context.Context) error {
	w.tell("calm begins")
	for _, name := range memberNames {
		w.karmada.Member(name).Mend()
	}
	version, since, began := w.server.ResourceVersion(), time.Now(), time.Now()
	for time.Since(since) < silence {
		w.steps++
		synctest.Wait()
		if err := w.revive(ctx); err != nil {
			return err
		}
		if err := w.calmly(ctx); err != nil {
			return err
		}
		synctest.Wait()
		if err := w.truth.look(); err != nil {
			return err
		}
		if now := w.server.ResourceVersion(); now != version {
			version, since = now, time.Now()
		}
		if time.Since(began) > patience {
			return violated("never quiet", "writes go on after %v of calm", patience)
		}
	}
	w.tell("calm ends: nothing was written for %v", silence)
	return w.isRight(ctx)
}

// calmly does all that can be done now, or has time pass.
func (w *World) calmly(ctx context.Context) error {
	calls, streams := w.pending(), w.waiting()
	for _, call := range calls {
		w.serve(call)
	}
	for _, stream := range streams {
		w.mention("%s: %d events", stream, stream.Waiting())
		stream.Deliver(stream.Waiting())
	}
	actions, err := w.karmada.Actions(ctx)
	if err != nil {
		return fmt.Errorf("simulating Karmada: %w", err)
	}
	if len(actions) > 0 {
		w.act(ctx, actions[w.steps%len(actions)])
	}
	if len(calls)+len(streams)+len(actions) == 0 {
		elapse(w.next())
	}
	return nil
}

// isRight checks that members have the desired objects, and that the status says so.
func (w *World) isRight(ctx context.Context) error {
	list := &propagationv1alpha1.DirectPropagationList{}
	if err := w.plane.List(ctx, list); err != nil {
		return fmt.Errorf("listing DirectPropagations: %w", err)
	}
	wanted := map[place]int{}
	for i := range list.Items {
		object := &list.Items[i]
		if object.DeletionTimestamp != nil {
			return violated("never deleted", "DirectPropagation %s is still being deleted", object.Name)
		}
		if err := w.isTold(ctx, object); err != nil {
			return err
		}
		for where := range wantedBy(object) {
			wanted[where]++
		}
	}
	return w.isClean(wanted)
}

// isTold checks the status of a DirectPropagation.
func (w *World) isTold(ctx context.Context, object *propagationv1alpha1.DirectPropagation) error {
	ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != object.Generation {
		return violated("no status", "DirectPropagation %s has no status of its generation", object.Name)
	}
	resource := named(object.Spec.Resource)
	if err := w.plane.Get(ctx, keyOf(resource), resource); err != nil {
		if ready.Status == metav1.ConditionTrue {
			return violated("Ready lies in the end", "DirectPropagation %s is Ready without its resource", object.Name)
		}
		return nil
	}
	for i := range object.Status.Clusters {
		row := &object.Status.Clusters[i]
		if err := w.isRowTold(object, row, karmada.ContentHash(resource)); err != nil {
			return err
		}
	}
	return nil
}

// isRowTold checks a row against the member.
func (w *World) isRowTold(object *propagationv1alpha1.DirectPropagation, row *propagationv1alpha1.ClusterStatus, content string) error {
	told := fmt.Sprintf("DirectPropagation %s says of %s: %s %s", object.Name, row.Name, row.Applied, row.Reason)
	switch {
	case row.Reason == propagationv1alpha1.ReasonConflict, isSuspended(object),
		row.Reason == propagationv1alpha1.ReasonRenderFailed && isCustom(object, row.Name) && object.Spec.Resource.Kind == "ConfigMap":
		return nil
	case row.Applied != metav1.ConditionTrue:
		return violated("not applied in the end", "%s (%s), although nothing is wrong", told, row.Message)
	case isCustom(object, row.Name):
		return nil
	}
	key := keyNamed(object.Spec.Resource, object.Namespace)
	running, found := w.karmada.Member(row.Name).Runs(key.GroupVersionKind, key.Namespace, key.Name)
	if !found || running.Content != content {
		return violated("a row lies in the end", "%s, but the member has it: %t, with the content: %t", told, found, running.Content == content)
	}
	return nil
}

func isSuspended(object *propagationv1alpha1.DirectPropagation) bool {
	return ptr.Deref(object.Spec.Suspension.Dispatching, false)
}

func isCustom(object *propagationv1alpha1.DirectPropagation, cluster string) bool {
	for _, target := range object.Spec.Clusters {
		if target.Name == cluster {
			return target.Replicas != nil
		}
	}
	return false
}

// isClean checks that nothing is left on a member that nobody wants, unless somebody
// asked to keep it.
func (w *World) isClean(wanted map[place]int) error {
	for _, name := range memberNames {
		for _, key := range w.karmada.Member(name).Keys() {
			where := place{member: name, key: key}
			if key.Namespace == namespace && wanted[where] == 0 && !w.users.kept[where] {
				return violated("left behind", "%s is still on %s, and nobody wants it there", key, name)
			}
		}
	}
	return nil
}
