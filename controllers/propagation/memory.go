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

// memories has what this process remembers of each object. The zero value
// remembers nothing.
type memories struct {
	mu       sync.Mutex
	byObject map[types.NamespacedName]*memory
}

// of is the memory of an object.
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

// known is the memory of an object, of which there may be nothing to remember. What
// is written to it then is lost.
func (m *memories) known(key types.NamespacedName) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.byObject[key]; known != nil {
		return known
	}
	return &memory{}
}

// retire drops what is remembered of an object that is gone, except how the removal
// of its Works fares.
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

// forget drops all that is remembered of an object.
func (m *memories) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byObject, key)
}

// memory is what is remembered of an object from one reconcile to the next. To
// lose it costs reads and Events, never truth. Of one object, there is one
// reconcile at a time; what its parallel writes and watches use has a lock.
type memory struct {
	// granted are the revisions that the account of the object may send.
	granted grantedRevisions
	// troubled: an Event told of trouble, and none of its end.
	troubled bool
	// statusWritten is when the status was written last, or a first status was held
	// back; the zero time for never.
	statusWritten time.Time
	// aggregation is what was aggregated onto the resource last.
	aggregation aggregation

	mu sync.Mutex
	// resource is what is remembered of the resource.
	resource customize.Recollection
	// size is how many Works and clusters the last look went over.
	size int
	// said is the error that the last reconcile ended with; empty for none.
	said string
	// beaten counts the writes in a row that others have beaten.
	beaten int
	// setbacks are, by slot, the writes that the API server refused last.
	setbacks map[string]decide.Setback
	// conflict is what is remembered of Works that somebody else holds; nil when
	// nobody does.
	conflict *conflict
}

// recall returns what is remembered of the resource, if that was learned under
// the same spec and with the same inputs.
func (m *memory) recall(generation int64, inputs string) (customize.Recollection, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resource.Generation == generation && m.resource.Inputs == inputs && m.resource.Resource.Revision != "" {
		return m.resource, true
	}
	return customize.Recollection{}, false
}

// remember replaces what is remembered of the resource.
func (m *memory) remember(learned customize.Recollection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resource = learned
}

// forgetResource drops what is remembered of the resource.
func (m *memory) forgetResource() { m.remember(customize.Recollection{}) }

// rewrote records that the resource has a new version by our own hand, which is
// no change of it.
func (m *memory) rewrote(before, after string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resource.Resource.Version == before {
		m.resource.Resource.Version = after
	}
}

// resized records how many Works and clusters a look went over.
func (m *memory) resized(size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size = size
}

// pause is how long to gather what clusters report before the next look. A look
// takes time in proportion to the clusters, some 2 µs for each; after each of N
// reports, it would keep a core busy with nothing else. So it gets a fifth of one,
// and below a millisecond it is not worth the wait.
func (m *memory) pause() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pause := time.Duration(m.size) * 8 * time.Microsecond; pause > time.Millisecond {
		return pause
	}
	return 0
}

// beatenAgain records that another one's write came before ours, and returns how
// long to wait for the next attempt: longer each time.
func (m *memory) beatenAgain() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beaten++
	return min(maxSoon, soon<<min(m.beaten-1, 16))
}

// says records the error that a reconcile ended with, and reports whether it is
// another one than before.
func (m *memory) says(said string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := m.said != said
	m.said = said
	return news
}

// unbeaten records that no write was beaten.
func (m *memory) unbeaten() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beaten = 0
}

// setbackDelay and maxSetbackDelay bound how long after the API server has
// refused a write for a cluster the same is tried again. It doubles each time.
const (
	setbackDelay    = 250 * time.Millisecond
	maxSetbackDelay = 2 * time.Minute
)

// refused returns the setbacks, by slot; nil when there are none.
func (m *memory) refused() map[string]decide.Setback {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.setbacks)
}

// failed records that a write was refused. It returns when to try again, and
// whether the refusal is news.
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

// settled forgets what the API server has taken, or nobody wants any more.
func (m *memory) settled(slot string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.setbacks, slot)
}

const (
	// minConflictPoll and maxConflictPoll bound how often Works that somebody else
	// holds are looked at: the longer a conflict lasts, the less often.
	minConflictPoll = 3 * time.Second
	maxConflictPoll = 2 * time.Minute
)

// conflict is who holds the Works that an object wants, so that what is not cached
// is read once per poll and not with every reconcile.
type conflict struct {
	// of is the resource and the generation of the object that conflict; since is
	// when this was first seen, and read when the holders were looked at last.
	of          string
	since, read time.Time
	holders     map[string]string
}

// holders returns the holders that were found last, if the object and its resource
// are what they were then, and how long to wait between two looks. They are stale
// when it is time for the next.
func (m *memory) holders(of string, now time.Time) (holders map[string]string, stale bool, poll time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conflict == nil || m.conflict.of != of {
		return nil, true, minConflictPoll
	}
	poll = min(maxConflictPoll, max(minConflictPoll, now.Sub(m.conflict.since)/10))
	return maps.Clone(m.conflict.holders), now.Sub(m.conflict.read) >= poll, poll
}

// foundHolders replaces what is known of holders.
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

// forgetHolders has the holders looked at again.
func (m *memory) forgetHolders() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conflict = nil
}
