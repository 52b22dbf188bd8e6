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
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	"k8s.io/utils/clock"
)

// elapses lets virtual time go by.
func elapses(duration time.Duration) { <-time.After(duration) }

// server accepts a limited number of requests per second, or at the same time, and
// answers after a while.
type server struct {
	rate, seats int
	takes       time.Duration

	mu                          sync.Mutex
	now, most, rejected, inside int
	second                      time.Time
	inSecond                    int
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	if !s.enters() {
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody}, nil
	}
	elapses(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (s *server) enters() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if second := time.Now().Truncate(time.Second); !second.Equal(s.second) {
		s.second, s.inSecond = second, 0
	}
	if s.seats > 0 && s.now == s.seats || s.rate > 0 && s.inSecond == s.rate {
		s.rejected++
		return false
	}
	s.now++
	s.inSecond++
	s.inside++
	s.most = max(s.most, s.now)
	return true
}

// counts returns how many requests it has rejected and accepted, and begins anew.
func (s *server) counts() (rejected, accepted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rejected, accepted = s.rejected, s.inside
	s.rejected, s.inside = 0, 0
	return rejected, accepted
}

// tenant sends requests one after another, as a worker does: it tries again after a
// second if it is rejected. It returns when so many were accepted.
func tenant(ctx context.Context, transport http.RoundTripper, namespace string, count int) {
	for accepted := 0; accepted < count && ctx.Err() == nil; {
		request, err := http.NewRequestWithContext(For(ctx, namespace, time.Now()), http.MethodGet, "https://karmada/api/v1/configmaps", http.NoBody)
		if err != nil {
			panic(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			elapses(time.Second)
			continue
		}
		accepted++
	}
}

// workers runs tenants concurrently.
func workers(ctx context.Context, transport http.RoundTripper, namespace string, count int) *sync.WaitGroup {
	group := &sync.WaitGroup{}
	for range count {
		group.Go(func() { tenant(ctx, transport, namespace, 1<<30) })
	}
	return group
}

// Without rejections, nothing waits.
func TestNoLimitWithoutRejections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		api := &server{takes: time.Second}
		group := workers(ctx, New(clock.RealClock{}, testr.New(t)).Wrap(api), "shop", 100)
		group.Wait()
		if api.most != 100 {
			t.Errorf("%d requests at the same time, want 100", api.most)
		}
	})
}

// A small tenant does not wait for the requests of a large one, and few requests are
// rejected. Without the throttle, both are different.
func TestSmallTenantDoesNotWait(t *testing.T) {
	for name, api := range map[string]*server{
		"few requests per second":       {rate: 2, takes: 5 * time.Millisecond},
		"few requests at the same time": {seats: 5, takes: 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				transport := New(clock.RealClock{}, testr.New(t)).Wrap(api)
				group := workers(ctx, transport, "large", 64)
				elapses(time.Minute)
				api.counts()
				began := time.Now()
				tenant(ctx, transport, "small", 5)
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("five requests of a small tenant took %v, want at most 15 s", took)
				}
				elapses(time.Minute)
				seconds := time.Since(began).Seconds()
				rejected, accepted := api.counts()
				if rate := float64(rejected) / seconds; rate > 2 {
					t.Errorf("%.1f requests were rejected per second, want at most 2", rate)
				}
				possible := float64(api.rate)
				if api.seats > 0 {
					possible = float64(api.seats) / api.takes.Seconds()
				}
				if rate := float64(accepted) / seconds; rate < possible/2 {
					t.Errorf("%.1f requests were accepted per second, of %.1f possible", rate, possible)
				}
				end()
				group.Wait()
			})
		})
	}
}

// When the overload ends, the limit ends.
func TestLimitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		api := &server{rate: 2}
		throttle := New(clock.RealClock{}, testr.New(t))
		group := workers(ctx, throttle.Wrap(api), "shop", 64)
		elapses(30 * time.Second)
		throttle.mu.Lock()
		limited := throttle.limit
		throttle.mu.Unlock()
		if limited == 0 || limited > 2 {
			t.Errorf("the limit under overload is %d, want 1 or 2", limited)
		}
		api.mu.Lock()
		api.rate, api.takes = 0, 10*time.Millisecond
		api.mu.Unlock()
		elapses(time.Minute)
		throttle.mu.Lock()
		if throttle.limit != 0 {
			t.Errorf("a minute after the overload, the limit is %d", throttle.limit)
		}
		throttle.mu.Unlock()
		end()
		group.Wait()
		if throttle.inFlight != 0 || len(throttle.lines) != 0 || len(throttle.turns) != 0 {
			t.Errorf("%d requests in flight, lines %v and turns %v are left", throttle.inFlight, throttle.lines, throttle.turns)
		}
	})
}

// The limit ends although nothing is sent: a controller that has nothing to do for an hour
// is not slow afterwards because a single request was rejected before.
func TestLimitEndsWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &server{rate: 1}
		transport := New(clock.RealClock{}, testr.New(t)).Wrap(api)
		for range 4 {
			ctx, end := context.WithTimeout(t.Context(), 500*time.Millisecond)
			tenant(ctx, transport, "shop", 2)
			end()
		}
		if rejected, _ := api.counts(); rejected == 0 {
			t.Fatal("nothing was rejected")
		}
		elapses(time.Hour)
		api.mu.Lock()
		api.rate, api.takes = 0, 10*time.Second
		api.mu.Unlock()
		ctx, end := context.WithTimeout(t.Context(), 5*time.Second)
		defer end()
		group := workers(ctx, transport, "shop", 50)
		elapses(time.Second)
		api.mu.Lock()
		if api.now != 50 {
			t.Errorf("%d requests at the same time, want 50", api.now)
		}
		api.mu.Unlock()
		group.Wait()
	})
}

// While nothing may be sent, the limit does not rise.
func TestLimitStaysDuringAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := New(clock.RealClock{}, testr.New(t))
		throttle.limit, throttle.inFlight = 1, 1
		throttle.answered(time.Now(), &http.Response{Header: http.Header{"Retry-After": {"10"}}})
		group := sync.WaitGroup{}
		for range 5 {
			group.Go(func() {
				if err := throttle.await(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		elapses(11 * time.Second)
		throttle.mu.Lock()
		if throttle.inFlight > 3 {
			t.Errorf("a second after a pause of 10 s, %d requests are in flight", throttle.inFlight)
		}
		throttle.mu.Unlock()
		for range 5 {
			throttle.answered(time.Now(), nil)
			elapses(time.Second)
		}
		group.Wait()
	})
}

// A request whose context ends does not wait any longer, and leaves nothing behind.
func TestWaitingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := New(clock.RealClock{}, testr.New(t))
		throttle.limit, throttle.inFlight = 1, 1 // a request that is never answered
		throttle.rejected = time.Now()
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if err := throttle.await(For(ctx, "shop", time.Now())); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the request ends with %v", err)
		}
		throttle.answered(time.Now(), nil)
		if throttle.inFlight != 0 || len(throttle.lines) != 0 || len(throttle.turns) != 0 {
			t.Errorf("%d requests in flight, lines %v and turns %v are left", throttle.inFlight, throttle.lines, throttle.turns)
		}
	})
}

// Work that began first ends first, rather than all work at the same time.
func TestFirstWorkEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := New(clock.RealClock{}, testr.New(t))
		throttle.limit, throttle.inFlight = 1, 1 // a request that others wait for
		throttle.rejected = time.Now()
		var sent []int
		group := sync.WaitGroup{}
		for i := range 3 {
			ctx := For(t.Context(), "shop", time.Now())
			group.Go(func() {
				for range 2 {
					if err := throttle.await(ctx); err != nil {
						t.Error(err)
					}
					sent = append(sent, i)
					elapses(time.Millisecond)
					throttle.answered(time.Now(), nil)
				}
			})
			elapses(time.Second)
		}
		throttle.answered(time.Now(), nil)
		group.Wait()
		// When a request has been answered, the next one in the line goes before its sender
		// can come back.
		if !slices.Equal(sent, []int{0, 1, 0, 1, 2, 2}) {
			t.Errorf("the requests went in the order %v", sent)
		}
	})
}

// A question about what the API server serves does not stand in line: who asks gives up
// after a few seconds, and does not ask again for a minute. Meanwhile, no object of the
// kind is propagated.
func TestDiscoveryDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		transport := New(clock.RealClock{}, testr.New(t)).Wrap(&server{rate: 2})
		groups := []*sync.WaitGroup{}
		for i := range 30 {
			groups = append(groups, workers(ctx, transport, strconv.Itoa(i), 1))
		}
		elapses(time.Minute)
		impatient := &http.Client{Transport: transport, Timeout: 5 * time.Second}
		for _, path := range []string{"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/behind/a/path/apis/apps/v1"} {
			response, err := impatient.Get("https://karmada" + path)
			if err != nil {
				t.Error(err)
				continue
			}
			_ = response.Body.Close()
		}
		end()
		for _, group := range groups {
			group.Wait()
		}
	})
}

func TestOnlyDiscoveryIsDiscovery(t *testing.T) {
	for path, want := range map[string]bool{
		"/api": true, "/api/v1": true, "/apis": true, "/apis/apps": true, "/apis/apps/v1": true, "/apis/apps/v1/": true, "/a/path/apis/apps/v1": true,
		"/api/v1/namespaces": false, "/apis/apps/v1/deployments": false, "/apis/apps/v1/namespaces/apis/deployments/apis": false, "/version": false,
	} {
		if got := isDiscovery(path); got != want {
			t.Errorf("isDiscovery(%q) = %t", path, got)
		}
	}
}

// Watches stay open, so they do not count.
func TestWatchesPass(t *testing.T) {
	throttle := New(clock.RealClock{}, testr.New(t))
	throttle.limit, throttle.inFlight = 1, 1
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://karmada/api/v1/configmaps?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := throttle.Wrap(&server{}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if throttle.inFlight != 1 {
		t.Errorf("%d requests in flight, want 1", throttle.inFlight)
	}
}
