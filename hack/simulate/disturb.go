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
	"slices"
	"testing/synctest"
	"time"
)

// disturb breaks something, or repairs it.
func (w *World) disturb(ctx context.Context) error {
	switch w.choices.below(13) {
	case 0, 1:
		w.cut()
	case 2:
		w.tell("the history of the API server is compacted")
		w.server.Compact()
	case 3, 4:
		return w.crash(ctx)
	case 5:
		w.noWebhook = !w.noWebhook
		w.tell("Karmada's webhook answers: %t", !w.noWebhook)
	case 6:
		w.restartServer()
	case 7:
		w.setClock()
	case 8, 9:
		w.freeze()
	default:
		w.tell("karmada-controller-manager is restarted")
		w.karmada.StopManager()
		w.karmada.StartManager()
	}
	return nil
}

// offsets are how far clocks of members are ahead.
var offsets = []time.Duration{0, 30 * time.Second, -30 * time.Second, time.Hour, -time.Hour}

// setClock sets the clock of a member.
func (w *World) setClock() {
	member := w.karmada.Member(oneOf(w.choices, memberNames))
	member.ClockOffset = oneOf(w.choices, offsets)
	w.tell("the clock of %s is %v ahead", member.Name, member.ClockOffset)
}

// cut severs the connection to a member, or restores it.
func (w *World) cut() {
	member := w.karmada.Member(oneOf(w.choices, memberNames))
	if member.IsCut() {
		w.tell("%s can be reached again", member.Name)
		member.Mend()
	} else {
		w.tell("%s cannot be reached", member.Name)
		member.Cut()
	}
}

// restartServer cuts all watches and loses all requests of the controller at once.
func (w *World) restartServer() {
	w.tell("the API server is restarted")
	for _, call := range w.pending() {
		call.Drop()
	}
	for _, stream := range w.server.Streams() {
		if w.isAlive(stream.Client) {
			stream.Cut()
		}
	}
}

// crash ends a process of the controller in the middle of what it does, and starts
// another. To the world, it has ended: nobody answers it anymore.
func (w *World) crash(ctx context.Context) error {
	crashed := oneOf(w.choices, w.replicas)
	w.tell("%s crashes", crashed.name)
	return w.replace(ctx, crashed)
}

// freeze has nobody answer a process of the controller for a while. What it has sent may
// take effect later.
func (w *World) freeze() {
	chosen := oneOf(w.choices, w.replicas)
	if chosen.frozen {
		w.tell("%s is answered again", chosen.name)
		chosen.frozen = false
		return
	}
	w.tell("%s gets no answers", chosen.name)
	for _, call := range w.pending() {
		if call.Client == chosen.name && writes(call) && w.choices.oneIn(2) {
			w.delay(call)
		}
	}
	chosen.frozen = true
}

// revive starts a process of the controller again if it has ended by itself, as it does
// if its caches do not fill in time, or if it no longer leads.
func (w *World) revive(ctx context.Context) error {
	if w.death.isNow() {
		return w.replace(ctx, w.death.victim)
	}
	for _, r := range slices.Clone(w.replicas) {
		select {
		case err := <-r.ended:
			w.tell("%s ends: %v", r.name, err)
			r.hasEnded = true
			if err := w.replace(ctx, r); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// replace starts a new process for one that has ended.
func (w *World) replace(ctx context.Context, ended *replica) error {
	w.dead = append(w.dead, ended)
	w.replicas = slices.DeleteFunc(w.replicas, func(r *replica) bool { return r == ended })
	return w.startReplica(ctx)
}

// end ends all replicas, also those that have crashed, so that no goroutine is left. A
// manager that is canceled while it starts never ends: therefore everybody is answered
// until all have started.
func (w *World) end(ctx context.Context) error {
	w.dead = append(w.dead, w.replicas...)
	w.replicas = nil
	const whileTheyStart = 150
	for range whileTheyStart {
		synctest.Wait()
		calls, streams := w.server.Pending(), w.server.Streams()
		for _, call := range calls {
			call.Serve()
		}
		for _, stream := range streams {
			stream.Deliver(stream.Waiting())
		}
		elapse(time.Second)
	}
	if ctx.Err() != nil {
		return ctx.Err() //nolint:wrapcheck // it is canceled
	}
	for _, replica := range w.dead {
		replica.kill()
	}
	w.server.Close()
	for _, replica := range w.dead {
		if !replica.hasEnded {
			w.mention("%s ends: %v", replica.name, <-replica.ended)
		}
	}
	elapse(time.Hour) // what is left ends
	return nil
}
