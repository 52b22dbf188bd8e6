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
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// pauses are how long time passes when nothing else happens.
var pauses = []time.Duration{10 * time.Millisecond, 10 * time.Millisecond, 200 * time.Millisecond, time.Second, time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute}

// step does the next thing, and checks what must hold then.
func (w *World) step(ctx context.Context) error {
	synctest.Wait()
	w.steps++
	if err := w.revive(ctx); err != nil {
		return err
	}
	w.arrive(false)
	w.notice()
	quiet, busy := 33, 35
	if w.habits.themed {
		quiet, busy = 31, 33
	}
	switch chosen := w.choices.below(40); {
	case chosen < quiet:
		if err := w.progress(ctx); err != nil {
			return err
		}
	case chosen < busy:
		w.pass(oneOf(w.choices, pauses))
	case chosen < 39:
		if err := w.users.act(ctx); err != nil {
			return err
		}
	case w.habits.faults:
		if err := w.disturb(ctx); err != nil {
			return err
		}
	}
	synctest.Wait()
	return w.truth.look()
}

// elapse moves the virtual clock.
func elapse(pause time.Duration) { time.Sleep(pause) } //nolint:forbidigo // in a bubble, it takes no time

// pass lets time pass, and tells it.
func (w *World) pass(pause time.Duration) {
	w.mention("%v pass", pause)
	elapse(pause)
}

// progress answers a request of the controller, shows it an event, or has Karmada do
// something. If there is nothing to do, time passes.
func (w *World) progress(ctx context.Context) error {
	calls, streams := w.pending(), w.waiting()
	actions, err := w.karmada.Actions(ctx)
	if err != nil {
		return fmt.Errorf("simulating Karmada: %w", err)
	}
	routine := slices.Clone(actions)
	actions = slices.DeleteFunc(actions, isRoutine)
	routine = slices.DeleteFunc(routine, func(action karmada.Action) bool { return !isRoutine(action) })
	chosen := w.choices.below(10)
	switch {
	case len(calls)+len(streams) > 0 && (chosen < 5 || len(actions)+len(routine) == 0):
		if chosen := w.choices.below(len(calls) + len(streams)); chosen < len(calls) {
			w.answer(calls[chosen])
		} else {
			w.show(streams[chosen-len(calls)])
		}
	case len(actions) > 0 && (chosen < 9 || len(routine) == 0):
		w.act(ctx, oneOf(w.choices, actions))
	case len(routine) > 0:
		w.act(ctx, oneOf(w.choices, routine))
	default:
		w.pass(w.next())
	}
	return nil
}

// isRoutine reports whether Karmada does something all the time, such as looking at the
// health of a cluster.
func isRoutine(action karmada.Action) bool {
	for _, controller := range []string{"/cluster-status ", "/lease ", "/cluster-monitor "} {
		if strings.Contains(action.Name, controller) {
			return true
		}
	}
	return false
}

// isAlive reports whether a client is a replica that runs and can be answered.
func (w *World) isAlive(client string) bool {
	return slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.name == client && !r.frozen })
}

// pending are the requests of the controller that wait. Those of replicas that have
// crashed wait forever.
func (w *World) pending() []*apiserver.Call {
	return slices.DeleteFunc(w.server.Pending(), func(call *apiserver.Call) bool { return !w.isAlive(call.Client) })
}

// waiting are the watches with events that the controller has not seen.
func (w *World) waiting() []*apiserver.Stream {
	waiting := []*apiserver.Stream{}
	for _, stream := range w.server.Streams() {
		if w.isAlive(stream.Client) && stream.Waiting() > 0 {
			waiting = append(waiting, stream)
		}
	}
	return waiting
}

// next is how long it takes until Karmada has something to do, a second at most.
func (w *World) next() time.Duration {
	if deadline, known := w.karmada.NextDeadline(); known {
		return max(time.Millisecond, min(time.Second, time.Until(deadline)))
	}
	return time.Second
}

func (w *World) act(ctx context.Context, action karmada.Action) {
	if err := action.Do(ctx); err != nil {
		w.add(isRoutine(action), "%s: %v", action.Name, err)
		return
	}
	w.add(isRoutine(action), "%s", action.Name)
}

// serve answers a request.
func (w *World) serve(call *apiserver.Call) {
	if refusal := w.refusal(call); refusal != nil {
		w.mention("%s: %s", call, refusal.Status().Reason)
		call.Refuse(refusal)
		return
	}
	if w.death.strikes(call) {
		w.die(call)
		return
	}
	if w.outdated > 0 && call.Verb == "list" && strings.HasSuffix(call.Resource, "directpropagations") && call.MayBeStale() {
		w.tell("%s: as of version %d", call, w.outdated)
		call.ServeStale(w.outdated)
		return
	}
	w.truth.checkCall(call)
	w.add(!writes(call) || call.Resource == "events" || call.Resource == "leases", "%s", call)
	w.serving = call
	call.Serve()
	w.serving = nil
}

// lateCall is a request that takes effect later.
type lateCall struct {
	what   string
	arrive func()
	// at is when an API server gives up on a request.
	at time.Time
}

// delay has a request take effect later than the controller believes that it failed.
func (w *World) delay(call *apiserver.Call) {
	w.tell("%s: lost, and under way", call)
	if arrive := call.Delay(); arrive != nil {
		w.late = append(w.late, &lateCall{what: call.String(), arrive: arrive, at: time.Now().Add(time.Minute)})
	}
}

// arrive has requests take effect that must now, or all of them.
func (w *World) arrive(all bool) {
	w.late = slices.DeleteFunc(w.late, func(late *lateCall) bool {
		due := all || !time.Now().Before(late.at)
		if due {
			w.tell("%s: takes effect", late.what)
			late.arrive()
		}
		return due
	})
}

func writes(call *apiserver.Call) bool {
	return call.Verb != "get" && call.Verb != "list" && call.Verb != "watch"
}

// fault chooses one of n faults; 0, which is none, in a world without faults, and if
// nothing else may fail.
func (w *World) fault(n int, may bool) int {
	if !w.habits.faults || !may {
		return 0
	}
	return w.choices.below(n)
}

// answer decides what becomes of a request.
func (w *World) answer(call *apiserver.Call) {
	switch w.fault(60, w.refusal(call) == nil) {
	case 51:
		if writes(call) {
			w.delay(call)
			return
		}
	case 52, 53:
		if call.MayBeStale() {
			version := w.server.ResourceVersion() - int64(w.choices.below(100))
			w.tell("%s: as of %d versions ago", call, w.server.ResourceVersion()-version)
			call.ServeStale(version)
			return
		}
	case 54:
		w.tell("%s: unavailable", call)
		call.Refuse(apierrors.NewServiceUnavailable("not now"))
		return
	case 55:
		if writes(call) {
			w.tell("%s: conflict", call)
			call.Refuse(apierrors.NewConflict(schema.GroupResource{Group: call.Group, Resource: call.Resource}, call.Name, errOutdated))
			return
		}
	case 56:
		w.tell("%s: too many requests", call)
		w.busy[call.String()] = true
		call.Refuse(apierrors.NewTooManyRequests("busy", 1+w.choices.below(5)))
		return
	case 57:
		w.tell("%s: internal error", call)
		call.Refuse(apierrors.NewInternalError(errBroken))
		return
	case 58:
		w.tell("%s: lost", call)
		call.Drop()
		return
	case 59:
		w.tell("%s: done, and the answer is lost", call)
		call.ServeAndDrop()
		return
	}
	w.serve(call)
}

// show decides what a watch shows.
func (w *World) show(stream *apiserver.Stream) {
	switch w.fault(100, true) {
	case 98:
		w.tell("%s: cut", stream)
		stream.Cut()
	case 99:
		w.tell("%s: expired", stream)
		stream.Expire()
	default:
		count := stream.Waiting() - w.choices.below(stream.Waiting())
		w.mention("%s: %d of %d events", stream, count, stream.Waiting())
		stream.Deliver(count)
	}
}
