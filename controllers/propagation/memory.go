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

package propagation

import (
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// memories holds what this process remembers about each object. The zero value is
// empty.
type memories struct {
	mu       sync.Mutex
	byObject map[types.NamespacedName]*memory
}

// of returns the memory of an object. If there is none, it creates one.
func (m *memories) of(key types.NamespacedName) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byObject == nil {
		m.byObject = map[types.NamespacedName]*memory{}
	}
	if m.byObject[key] == nil {
		m.byObject[key] = &memory{}
	}
	return m.byObject[key]
}

// known returns the memory of an object. If there is none, it returns an empty one,
// and what is written to that is lost.
func (m *memories) known(key types.NamespacedName) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.byObject[key]; known != nil {
		return known
	}
	return &memory{}
}

// retire drops what is remembered about an object that is gone, except the failures
// to remove its Works.
func (m *memories) retire(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.byObject[key]
	if before == nil {
		return
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	m.byObject[key] = &memory{said: before.said, beaten: before.beaten, setbacks: before.setbacks}
}

// forget drops everything that is remembered about an object.
func (m *memories) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byObject, key)
}

// memory is what is remembered about an object from one reconcile to the next.
// Losing it costs reads and Events, but never correctness. An object has one
// reconcile at a time; a lock protects what its parallel writes and its watches
// use.
type memory struct {
	// granted are the revisions that the account of the object may send.
	granted grantedRevisions
	// troubled means that an Event has reported trouble, and none has reported its
	// end.
	troubled bool
	// statusWritten is when the status was last written, or when a first status was
	// held back; the zero time for never.
	statusWritten time.Time
	// statusUnknown: the last write of the status failed, or seemed to.
	statusUnknown bool
	// awaited is when a status was first held back until the dependencies are checked; the
	// zero time for never.
	awaited time.Time
	// aggregation is what was last aggregated onto the resource.
	aggregation aggregation

	// unseen is the resource that is read because its watch does not show it; empty if it does.
	unseen unseen
	// succeeded is the UID of the object whose spec was known to be the newest before its
	// Works were written.
	succeeded types.UID
	// rolling is what is remembered about rollouts; nil if the object has none.
	rolling *rolling

	mu sync.Mutex
	// resource is what is remembered about the resource.
	resource customize.Recollection
	// size is how many Works or clusters the last reconcile covered, whichever is
	// more.
	size int
	// said is the error that the last reconcile ended with; empty for none.
	said string
	// beaten counts the consecutive writes that lost to another write.
	beaten int
	// setbacks are the writes that the API server last refused, by slot.
	setbacks map[string]decide.Setback
	// conflict is what is remembered about Works that somebody else holds; nil if
	// there are none.
	conflict *conflict
}

// rollsOut returns what is remembered about the rollouts of an object. Another one with the
// same name begins anew.
func (m *memory) rollsOut(object types.UID) *rolling {
	if m.rolling == nil || m.rolling.object != object {
		m.rolling = newRolling(object)
	}
	return m.rolling
}

// hasRolledOut reports whether anything is remembered about the rollouts of an object.
func (m *memory) hasRolledOut(object types.UID) bool {
	return m.rolling != nil && m.rolling.object == object
}

// recall returns what is remembered about the resource, if it was learned under the
// same spec and with the same inputs.
func (m *memory) recall(generation int64, inputs string) (customize.Recollection, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resource.Generation == generation && m.resource.Inputs == inputs && m.resource.Resource.Revision != "" {
		return m.resource, true
	}
	return customize.Recollection{}, false
}

// remember replaces what is remembered about the resource.
func (m *memory) remember(learned customize.Recollection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resource = learned
}

// forgetResource drops what is remembered about the resource.
func (m *memory) forgetResource() { m.remember(customize.Recollection{}) }

// rewrote records that a write of our own gave the resource a new version. That is
// not a change of the resource.
func (m *memory) rewrote(before, after string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resource.Resource.Version == before {
		m.resource.Resource.Version = after
	}
}

// resized records how many Works or clusters a reconcile covers.
func (m *memory) resized(size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size = size
}

// pause returns how long to collect reports from clusters before the next
// reconcile. A reconcile takes about 2 µs per cluster; N reports, each with its own
// reconcile, would keep a core busy. With the pause, an object takes a fifth of a
// core. A pause of less than a millisecond is not worth it.
func (m *memory) pause() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pause := time.Duration(m.size) * 8 * time.Microsecond; pause > time.Millisecond {
		return pause
	}
	return 0
}

// beatenAgain records that another write came before ours, and returns how long to
// wait before the next attempt: longer each time.
func (m *memory) beatenAgain() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beaten++
	return min(maxSoon, soon<<min(m.beaten-1, 16))
}

// says records the error that a reconcile ended with, and reports whether it
// differs from the previous one.
func (m *memory) says(said string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := m.said != said
	m.said = said
	return news
}

// unbeaten resets the count of beaten writes.
func (m *memory) unbeaten() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beaten = 0
}

// setbackDelay and maxSetbackDelay are the first and the longest delay before
// retrying a write for a cluster that the API server has refused. The delay doubles
// each time.
const (
	setbackDelay    = 250 * time.Millisecond
	maxSetbackDelay = 2 * time.Minute
)

// refused returns the setbacks, by slot.
func (m *memory) refused() map[string]decide.Setback {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.setbacks)
}

// failed records that a write was refused. It returns when to try again, and
// whether this refusal differs from the previous one.
func (m *memory) failed(slot, what string, err error, now time.Time) (until time.Time, news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.setbacks == nil {
		m.setbacks = map[string]decide.Setback{}
	}
	before := m.setbacks[slot]
	again := before.What == what
	after := decide.Setback{What: what, Err: err, Count: 1}
	if again {
		after.Count = before.Count + 1
	}
	delay := min(maxSetbackDelay, setbackDelay<<min(after.Count-1, 16))
	if errors.Is(err, decide.ErrChanged) {
		delay = maxSetbackDelay
	}
	after.Until = now.Add(delay)
	m.setbacks[slot] = after
	return after.Until, !again || before.Err.Error() != err.Error()
}

// settled forgets the setback of a write that the API server no longer refuses or
// that is no longer planned.
func (m *memory) settled(slot string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.setbacks, slot)
}

const (
	// minConflictPoll and maxConflictPoll bound how often Works that somebody else
	// holds are checked. The longer a conflict lasts, the less often they are
	// checked.
	minConflictPoll = 3 * time.Second
	maxConflictPoll = 2 * time.Minute
)

// conflict records who holds the Works that an object wants, so that Works that are
// not cached are read once per poll and not in every reconcile.
type conflict struct {
	// of identifies the object and the resource in conflict, see
	// decide.Observed.Claim. since is when the conflict was first seen, and read is
	// when the holders were last checked.
	of          string
	since, read time.Time
	holders     map[string]string
}

// holders returns the holders that were found last, if the object and its resource
// have not changed since, and how long to wait between two checks. The holders are
// stale if the next check is due.
func (m *memory) holders(of string, now time.Time) (holders map[string]string, stale bool, poll time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conflict == nil || m.conflict.of != of {
		return nil, true, minConflictPoll
	}
	poll = min(maxConflictPoll, max(minConflictPoll, now.Sub(m.conflict.since)/10))
	return maps.Clone(m.conflict.holders), now.Sub(m.conflict.read) >= poll, poll
}

// foundHolders replaces what is known about holders.
func (m *memory) foundHolders(of string, holders map[string]string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(holders) == 0 {
		m.conflict = nil
		return
	}
	since := now
	if m.conflict != nil && m.conflict.of == of {
		since = m.conflict.since
	}
	m.conflict = &conflict{of: of, since: since, read: now, holders: holders}
}

// metHolder records the holder of one more Work.
func (m *memory) metHolder(of, cluster, holder string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conflict == nil || m.conflict.of != of {
		m.conflict = &conflict{of: of, since: now, holders: map[string]string{}}
	}
	m.conflict.read = now
	m.conflict.holders[cluster] = holder
}

// forgetHolders makes the next reconcile check the holders again.
func (m *memory) forgetHolders() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conflict = nil
}
