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

	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// undisturbed has some time pass in which nothing fails: the controller gets all answers and
// sees all events, and Karmada acts if asked. It ends earlier when it is to stop.
func (w *World) undisturbed(ctx context.Context, lasting time.Duration, karmadas bool, stop func() bool) error {
	w.mend()
	began := time.Now()
	w.truth.quietSince = began
	defer func() { w.truth.quietSince = time.Time{} }()
	for count := 0; count < 1500 && time.Since(began) < lasting; count++ {
		w.steps++
		synctest.Wait()
		if err := w.revive(ctx); err != nil {
			return err
		}
		w.notice()
		if stop() {
			return nil
		}
		busy := w.attend()
		if karmadas {
			acted, err := w.letKarmadaAct(ctx)
			if err != nil {
				return err
			}
			busy = busy || acted
		}
		if !busy {
			elapse(max(200*time.Millisecond, min(w.next(), time.Second)))
		}
		synctest.Wait()
		if err := w.truth.look(); err != nil {
			return err
		}
	}
	return nil
}

// letKarmadaAct has Karmada do one thing, and reports whether there was one.
func (w *World) letKarmadaAct(ctx context.Context) (bool, error) {
	actions, err := w.karmada.Actions(ctx)
	if err != nil {
		return false, fmt.Errorf("simulating Karmada: %w", err)
	}
	if len(actions) == 0 {
		return false, nil
	}
	w.act(ctx, actions[w.steps%len(actions)])
	return true, nil
}

func never() bool { return false }

// reach has time pass until the controller sends a request, which then waits; nil if it
// does not.
func (w *World) reach(ctx context.Context, lasting time.Duration, karmadas bool, matches func(*apiserver.Call) bool) (*apiserver.Call, error) {
	var found *apiserver.Call
	err := w.undisturbed(ctx, lasting, karmadas, func() bool {
		calls := w.pending()
		if at := slices.IndexFunc(calls, matches); at >= 0 {
			found = calls[at]
		}
		return found != nil
	})
	return found, err
}

// deletes matches the deletion of a Work; of any Work if none is named.
func deletes(namespace, name string) func(*apiserver.Call) bool {
	return func(call *apiserver.Call) bool {
		return call.Resource == "works" && call.Verb == "delete" && (name == "" || call.Namespace == namespace && call.Name == name)
	}
}

// dawdle has Karmada, and nobody else, do some things, as if the requests of the controller
// took that long.
func (w *World) dawdle(ctx context.Context, most int, matches func(karmada.Action) bool) error {
	for range most {
		actions, err := w.karmada.Actions(ctx)
		if err != nil {
			return fmt.Errorf("simulating Karmada: %w", err)
		}
		actions = slices.DeleteFunc(actions, func(action karmada.Action) bool { return isRoutine(action) || !matches(action) })
		if len(actions) == 0 {
			return nil
		}
		w.steps++
		w.act(ctx, oneOf(w.choices, actions))
		synctest.Wait()
		if err := w.truth.look(); err != nil {
			return err
		}
	}
	return nil
}

// contains matches what Karmada does by its name.
func contains(words ...string) func(karmada.Action) bool {
	return func(action karmada.Action) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(action.Name, word) })
	}
}
