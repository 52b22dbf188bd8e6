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
	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

const (
	// silence is for how long nothing must be written before the world is quiet. What
	// fails is tried again after five minutes or earlier.
	silence = 10 * time.Minute
	// backOff is the same while Karmada may be backing off from a member that it could not
	// reach, and that it still takes for Ready, or from a report that it could not make:
	// nobody else notices.
	backOff = 18 * time.Minute
	// content is how much silence is enough if nobody has anything to wait for.
	content = 150 * time.Second
	// patience is how long it may take until it is.
	patience = 3 * time.Hour
)

// settle repairs everything, and waits until nobody writes anymore. Then everything
// must be as if it had always been calm.
func (w *World) settle(ctx context.Context) error {
	for _, name := range memberNames {
		w.karmada.Member(name).Mend()
	}
	return w.pause(ctx)
}

// pause repairs what is between the controller and the API server, and waits until nobody
// writes anymore. Members that cannot be reached stay so.
func (w *World) pause(ctx context.Context) error {
	w.tell("calm begins")
	w.mend()
	clear(w.truth.attempts)
	clear(w.truth.written)
	w.truth.quietSince = time.Now()
	defer func() { w.truth.quietSince = time.Time{} }()
	changes, works, since, began := w.truth.changes, len(w.truth.works), time.Now(), time.Now()
	for time.Since(since) < w.silence() && (time.Since(since) < content || !w.isContent()) {
		w.steps++
		synctest.Wait()
		if err := w.revive(ctx); err != nil {
			return err
		}
		w.notice()
		if err := w.unguard(ctx); err != nil {
			return err
		}
		if err := w.calmly(ctx); err != nil {
			return err
		}
		synctest.Wait()
		if err := w.truth.look(); err != nil {
			return err
		}
		if w.truth.changes != changes || len(w.truth.works) != works {
			changes, works, since = w.truth.changes, len(w.truth.works), time.Now()
		}
		if time.Since(began) > patience {
			return violated("never quiet", "writes go on after %v of calm; the last was: %s", patience, w.truth.last)
		}
	}
	w.tell("calm ends: nothing was written for %v", time.Since(since))
	w.truth.calm = w.steps
	// Attempts become rarer, down to one in five minutes.
	most := 8 + int(time.Since(began)/(4*time.Minute))
	for key, count := range w.truth.attempts {
		if count > most {
			return violated("too many attempts", "Work %s was attempted %d times in %v", key, count, time.Since(began))
		}
	}
	if err := w.isPersistent(time.Since(began)); err != nil {
		return err
	}
	return w.isRight(ctx)
}

// silence is for how long nothing must be written before the world is quiet.
func (w *World) silence() time.Duration {
	if w.karmada.RepeatsReports() {
		return backOff
	}
	for _, held := range w.truth.works {
		applied := meta.FindStatusCondition(held.work.Status.Conditions, workv1alpha1.WorkApplied)
		if !isOurs(held.work) {
			continue
		}
		waits := held.work.DeletionTimestamp != nil || applied == nil && !ptr.Deref(held.work.Spec.SuspendDispatching, false)
		began := w.truth.quietSince
		if held.work.DeletionTimestamp != nil {
			began = held.work.DeletionTimestamp.Time
		}
		since, ready := w.truth.ready[held.where.member]
		if waits && ready && (since.Before(began) || isMistaken(held.work, since)) {
			return backOff
		}
	}
	return silence
}

// isMistaken reports whether Karmada has looked at a Work since its member is Ready, and may
// not have known that yet: then it has backed off.
func isMistaken(work *workv1alpha1.Work, ready time.Time) bool {
	looked := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkDispatching)
	return looked != nil && !looked.LastTransitionTime.Time.Before(ready.Truncate(time.Second))
}

// isContent reports whether all objects are Ready and nothing is being deleted.
func (w *World) isContent() bool {
	for _, object := range w.truth.desired.objects {
		ready := meta.IsStatusConditionTrue(object.GetStatus().Conditions, propagationv1alpha1.ConditionReady)
		if !ready || object.GetDeletionTimestamp() != nil || ptr.Deref(object.GetStatus().ObservedGeneration, 0) != object.GetGeneration() {
			return false
		}
	}
	for _, held := range w.truth.works {
		if held.work.DeletionTimestamp != nil {
			return false
		}
	}
	return len(w.truth.desired.clusters) == len(memberNames)
}

// rest has an hour pass in which nobody but the controller does anything, and checks that
// it writes nothing.
func (w *World) rest(ctx context.Context) error {
	const hour = time.Hour
	glance := 20 * time.Second
	if w.pair {
		glance = 4 * time.Second // leaders renew their leases
	}
	changes := w.truth.changes
	for began := time.Now(); time.Since(began) < hour; elapse(glance) {
		w.steps++
		synctest.Wait()
		if err := w.revive(ctx); err != nil {
			return err
		}
		for w.attend() {
			synctest.Wait()
		}
		if w.truth.changes != changes {
			return violated("not at rest", "the controller writes although nothing has changed: %s", w.truth.last)
		}
	}
	synctest.Wait()
	for w.attend() {
		synctest.Wait()
	}
	return nil
}

// attend answers all requests of the controller, and shows it all events.
func (w *World) attend() (busy bool) {
	calls, streams := w.pending(), w.waiting()
	for _, call := range calls {
		if w.isAlive(call.Client) {
			w.serve(call)
		}
	}
	for _, stream := range streams {
		if w.isAlive(stream.Client) {
			w.mention("%s: %d events", stream, stream.Waiting())
			stream.Deliver(stream.Waiting())
		}
	}
	return len(calls)+len(streams) > 0
}

// mend repairs what disturbances have broken, but for members that cannot be reached.
func (w *World) mend() {
	w.noWebhook, w.outdated = false, 0
	for _, name := range memberNames {
		w.karmada.Member(name).Silent = nil
		w.karmada.Member(name).SetHealthy(true)
	}
	for _, replica := range w.replicas {
		replica.frozen = false
	}
	w.arrive(true)
}

// calmly does all that can be done now, or has time pass.
func (w *World) calmly(ctx context.Context) error {
	busy := w.attend()
	actions, err := w.karmada.Actions(ctx)
	if err != nil {
		return fmt.Errorf("simulating Karmada: %w", err)
	}
	if len(actions) > 0 {
		w.act(ctx, actions[w.steps%len(actions)])
	}
	if !busy && len(actions) == 0 {
		elapse(w.next())
	}
	return nil
}
