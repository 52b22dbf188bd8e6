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

package decide

import "testing"

// TestSuspendedWhileAnAttemptIsInFlight: a user suspends dispatching and changes the
// resource while Karmada attempts the previous content. That attempt ends after the reset,
// so its True is in front of Dispatching. The new content must not be dispatched.
func TestSuspendedWhileAnAttemptIsInFlight(t *testing.T) {
	w := newWorld()
	w.content = 1
	w.our.decide(w)
	w.our.write(w)
	w.karmada.advance(w)
	w.karmada.step(w, false)
	w.karmada.step(w, false)
	w.suspended, w.content = true, 2
	for range 3 {
		w.our.advance(w)
	}
	w.our.decide(w)
	w.our.write(w)
	w.our.write(w)
	for range 5 {
		w.karmada.advance(w)
	}
	for w.karmada.phase != idle || w.karmada.queued {
		w.karmada.step(w, false)
		w.karmada.advance(w)
	}
	for range 10 {
		w.our.advance(w)
	}
	for range 5 {
		w.our.decide(w)
		w.our.write(w)
		w.our.write(w)
		w.karmada.advance(w)
		w.karmada.step(w, false)
	}
	if err := w.lie(); err != nil {
		t.Error(err)
	}
	if w.member != "revision1" {
		t.Errorf("the member has %s", w.member)
	}
}
