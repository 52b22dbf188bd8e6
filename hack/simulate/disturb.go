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
)

// disturb breaks something, or repairs it.
func (w *World) disturb(ctx context.Context) error {
	switch w.choices.below(8) {
	case 0:
		member := w.karmada.Member(oneOf(w.choices, memberNames))
		if member.IsCut() {
			w.tell("%s can be reached again", member.Name)
			member.Mend()
		} else {
			w.tell("%s cannot be reached", member.Name)
			member.Cut()
		}
	case 1:
		w.tell("the history of the API server is compacted")
		w.server.Compact()
	case 2:
		return w.crash(ctx)
	case 3:
		return w.settle(ctx)
	default:
		w.tell("karmada-controller-manager is restarted")
		w.karmada.StopManager()
		w.karmada.StartManager()
	}
	return nil
}

// crash ends the controller in the middle of what it does, and starts it again. To the
// world, it has ended: nobody answers it anymore.
func (w *World) crash(ctx context.Context) error {
	w.tell("%s crashes", w.replica.name)
	return w.restart(ctx)
}

// revive starts the controller again if it has ended by itself, as it does if its
// caches do not fill in time.
func (w *World) revive(ctx context.Context) error {
	select {
	case err := <-w.replica.ended:
		w.tell("%s ends: %v", w.replica.name, err)
		w.replica.hasEnded = true
		return w.restart(ctx)
	default:
		return nil
	}
}

// restart starts the controller as a new process.
func (w *World) restart(ctx context.Context) error {
	started, err := startReplica(ctx, fmt.Sprintf("%s-%d", theController, len(w.dead)+2), w.server)
	w.dead, w.replica = append(w.dead, w.replica), started
	return err
}

// end ends all replicas, also those that have crashed, so that no goroutine is left. A
// manager that is canceled while it starts never ends: therefore everybody is answered
// until all have started.
func (w *World) end(ctx context.Context) error {
	w.dead = append(w.dead, w.replica)
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
