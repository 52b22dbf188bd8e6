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
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// setbackDelay and maxSetbackDelay bound how long after the API server has
// refused a write for a cluster the same is tried again. It doubles each time.
const (
	setbackDelay    = 250 * time.Millisecond
	maxSetbackDelay = 2 * time.Minute
)

// errChanged says that the API server took a write and kept something else. It
// will the next time, too.
var errChanged = errors.New("something changes the Work while it is written, mostly a mutating webhook of the Karmada API server; exclude Works, or the namespaces karmada-es-*, from it")

// Setback is a write for a cluster that the API server has refused.
type Setback struct {
	// What was to be written; anything else is not held back by it.
	What string
	// Until is when it is tried again.
	Until time.Time
	Err   error

	count int
}

// what tells writes apart that may fare differently.
func (w *Write) what(observed *Observed) string {
	return fmt.Sprint("write ", w.Rendering.Revision, " ", observed.Resource.UID, " ", observed.Generation)
}

func (r *Removal) what() string { return "remove " + string(r.Work.UID) }

// slot is what the setbacks of writes for a cluster are kept under.
func (w *Write) slot() string { return w.Target.Cluster }

// slot is what the setbacks of a removal are kept under. A cluster may have several
// Works to remove, beside one to write, and each is refused for itself.
func (r *Removal) slot() string { return r.Cluster + "/" + string(r.Work.UID) }

// setbacks remembers, by object and slot, what the API server has refused, so
// that trouble with one cluster neither repeats with every change of another nor
// holds that one up.
type setbacks struct {
	mu       sync.Mutex
	byObject map[types.NamespacedName]map[string]Setback
}

func newSetbacks() *setbacks {
	return &setbacks{byObject: map[types.NamespacedName]map[string]Setback{}}
}

// of returns those of an object; nil when there are none.
func (s *setbacks) of(key types.NamespacedName) map[string]Setback {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byObject[key])
}

// failed records that a write was refused. It returns when to try again, and
// whether the refusal is news.
func (s *setbacks) failed(key types.NamespacedName, slot, what string, err error, now time.Time) (until time.Time, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byObject[key] == nil {
		s.byObject[key] = map[string]Setback{}
	}
	before := s.byObject[key][slot]
	again := before.What == what
	after := Setback{What: what, Err: err, count: 1}
	if again {
		after.count = before.count + 1
	}
	delay := min(maxSetbackDelay, setbackDelay<<min(after.count-1, 16))
	if errors.Is(err, errChanged) {
		delay = maxSetbackDelay
	}
	after.Until = now.Add(delay)
	s.byObject[key][slot] = after
	return after.Until, !again || before.Err.Error() != err.Error()
}

// settled forgets what the API server has taken, or nobody wants any more.
func (s *setbacks) settled(key types.NamespacedName, slot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byObject[key], slot)
	if len(s.byObject[key]) == 0 {
		delete(s.byObject, key)
	}
}

// forget drops all of an object.
func (s *setbacks) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byObject, key)
}
