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

package throttle

import (
	"container/list"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

const (
	// most is the number of requests in flight from which on there is no limit: the
	// workers of the controller send fewer.
	most = 128
	// calm is how long no request may be rejected before the limit rises.
	calm = 5 * time.Second
	// rising is how often the limit rises, and defaultPause how long nothing is sent if
	// even single requests are rejected and the API server does not say for how long.
	rising, defaultPause = time.Second, time.Second
	// longestPause limits what the API server asks for.
	longestPause = 10 * time.Second
)

// purpose is what a request is made for: an object of a namespace, since a moment.
type purpose struct {
	namespace string
	since     time.Time
}

type purposeKey struct{}

// For returns a context for the requests that are made for an object of a namespace. Those
// whose work began first go first, so that it ends, rather than all at the same time.
func For(ctx context.Context, namespace string, since time.Time) context.Context {
	return context.WithValue(ctx, purposeKey{}, purpose{namespace: namespace, since: since})
}

// Throttle limits how many requests of a process are in flight.
//
// There is no limit until the API server rejects a request with status 429. The limit is
// then half of what was in flight, and half again each time that happens to a request
// sent since. If the API server rejects a request that was alone, nothing is sent for as
// long as it asks for. When it has not rejected anything for a while, the limit rises by a
// tenth each second. Requests that have to wait stand in one line for each namespace, and
// the lines take turns.
type Throttle struct {
	clock clock.WithDelayedExecution
	log   logr.Logger

	mu sync.Mutex
	// limit of the requests in flight; 0 if there is none.
	limit    int
	inFlight int
	// rejected is when a request was last rejected, cut when the limit was last reduced, and
	// rose when it last rose.
	rejected, cut, rose time.Time
	// paused is until when nothing is sent.
	paused time.Time
	// lines are where requests wait, and turns the namespaces in the order of their turns.
	lines map[string]*list.List
	turns []string
}

// New returns a throttle without a limit. It logs when a limit begins and ends.
func New(clock clock.WithDelayedExecution, log logr.Logger) *Throttle {
	return &Throttle{clock: clock, log: log, lines: map[string]*list.List{}}
}

// Wrap returns a transport whose requests the throttle limits, except watches and those
// that ask what the API server serves. The latter are few, and others wait for the answers.
func (t *Throttle) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{next: next, throttle: t}
}

type transport struct {
	next     http.RoundTripper
	throttle *Throttle
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if watch := request.URL.Query().Get("watch"); watch == "true" || watch == "1" || isDiscovery(request.URL.Path) {
		return t.next.RoundTrip(request) //nolint:wrapcheck // a transport passes errors on
	}
	if err := t.throttle.await(request.Context()); err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // a transport closes it in any case
		}
		return nil, err
	}
	sent := t.throttle.clock.Now()
	response, err := t.next.RoundTrip(request)
	var rejected *http.Response
	if err == nil && response.StatusCode == http.StatusTooManyRequests {
		rejected = response
	}
	t.throttle.answered(sent, rejected)
	return response, err //nolint:wrapcheck // a transport passes errors on
}

// isDiscovery reports whether a path, of an API server that may be behind another path, is
// /api, /api/<version>, /apis, /apis/<group> or /apis/<group>/<version>.
func isDiscovery(path string) bool {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i, segment := range segments {
		switch below := len(segments) - i - 1; segment {
		case "api":
			return below <= 1
		case "apis":
			return below <= 2
		}
	}
	return false
}

// await returns when a request may be sent, or an error if its context ends before.
func (t *Throttle) await(ctx context.Context) error {
	t.mu.Lock()
	t.rise()
	if t.limit == 0 {
		t.inFlight++
		t.mu.Unlock()
		return nil
	}
	what, _ := ctx.Value(purposeKey{}).(purpose)
	turn := make(chan struct{})
	line, place := t.queue(what, turn)
	t.send()
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-turn: // its turn came at the same time
		t.inFlight--
	default:
		line.Remove(place)
	}
	t.send()
	return ctx.Err() //nolint:wrapcheck // a transport passes errors on
}

// waiting is a request in a line. Its turn has come when the channel is closed.
type waiting struct {
	since time.Time
	turn  chan struct{}
}

// queue puts a request into the line of its namespace, behind those whose work began
// before.
func (t *Throttle) queue(what purpose, turn chan struct{}) (line *list.List, place *list.Element) {
	line, has := t.lines[what.namespace]
	if !has {
		line = list.New()
		t.lines[what.namespace], t.turns = line, append(t.turns, what.namespace)
	}
	request := waiting{since: what.since, turn: turn}
	for before := line.Back(); before != nil; before = before.Prev() {
		if !before.Value.(waiting).since.After(what.since) { //nolint:forcetypeassert // lines contain nothing else
			return line, line.InsertAfter(request, before)
		}
	}
	return line, line.PushFront(request)
}

// send lets requests go that wait, as many as the limit allows.
func (t *Throttle) send() {
	for len(t.turns) > 0 && (t.limit == 0 || t.inFlight < t.limit) && !t.clock.Now().Before(t.paused) {
		namespace := t.turns[0]
		t.turns = slices.Delete(t.turns, 0, 1)
		line := t.lines[namespace]
		if first := line.Front(); first != nil {
			line.Remove(first)
			t.inFlight++
			close(first.Value.(waiting).turn) //nolint:forcetypeassert // lines contain nothing else
		}
		if line.Len() == 0 {
			delete(t.lines, namespace)
			continue
		}
		t.turns = append(t.turns, namespace)
	}
}

// answered records the response to a request; rejected is nil unless its status is 429.
func (t *Throttle) answered(sent time.Time, rejected *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rejected != nil {
		t.reduce(sent, rejected)
	}
	t.inFlight--
	if rejected == nil {
		t.rise()
	}
	t.send()
}

// reduce halves the limit, once for all requests that were in flight at the same time.
func (t *Throttle) reduce(sent time.Time, rejected *http.Response) {
	now := t.clock.Now()
	t.rejected = now
	if sent.Before(t.cut) {
		return
	}
	t.cut = now
	switch {
	case t.limit == 0:
		t.limit = max(1, t.inFlight/2)
		t.log.Info("The API server rejects requests, so fewer are sent at a time, and the namespaces take turns", "limit", t.limit)
	case t.limit > 1:
		t.limit /= 2
	default:
		t.pause(now, rejected)
	}
}

// pause sends nothing for as long as the API server asks for.
func (t *Throttle) pause(now time.Time, rejected *http.Response) {
	pause := defaultPause
	if seconds, err := strconv.Atoi(rejected.Header.Get("Retry-After")); err == nil && seconds > 0 {
		pause = min(time.Duration(seconds)*time.Second, longestPause)
	}
	t.paused = now.Add(pause)
	t.clock.AfterFunc(pause, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.send()
	})
}

// rise lets more requests go if none has been rejected for a while. It makes up for seconds
// in which nothing was sent or answered, except for those in which nothing might be sent.
func (t *Throttle) rise() {
	now, next := t.clock.Now(), t.rejected.Add(calm)
	for _, other := range []time.Time{t.paused, t.rose.Add(rising)} {
		if other.After(next) {
			next = other
		}
	}
	for ; t.limit > 0 && !next.After(now); next = next.Add(rising) {
		t.rose = next
		t.limit += max(1, t.limit/10)
		if t.limit >= most {
			t.limit = 0
			t.log.Info("The API server accepts all requests again")
		}
	}
}
