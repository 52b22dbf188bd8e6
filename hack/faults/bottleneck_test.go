//go:build faults

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

package faults

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// bottleneck lets the requests of a controller through at a limited rate. As API
// priority and fairness does, it queues some and rejects all others with status 429.
type bottleneck struct {
	mu sync.Mutex
	// rate is the number of requests per second; 0 means no limit.
	rate float64
	// leasesPass lets requests for leases pass, which an API server does if a FlowSchema
	// gives them a priority level of their own.
	leasesPass bool
	// next is when the next request may pass.
	next               time.Time
	accepted, rejected int
	// perSecond counts the accepted requests of each second.
	perSecond map[int64]int
	// attempts counts the requests for each Work, rejected or not.
	attempts map[string]int
}

// queueing is how long a request waits at most before it is rejected.
const queueing = time.Second

// flow is what has passed since the bottleneck was set.
type flow struct {
	accepted, rejected int
	// attempts is the number of requests for the Work with the most of them.
	attempts int
	// peak is the number of requests accepted in the busiest second.
	peak int
}

func (f flow) String() string {
	return fmt.Sprintf("%d requests accepted, %d rejected, at most %d for one Work", f.accepted, f.rejected, f.attempts)
}

// sets begins to count, with a limit in requests per second; 0 means none.
func (b *bottleneck) sets(rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rate, b.accepted, b.rejected = rate, 0, 0
	b.attempts, b.perSecond = map[string]int{}, map[int64]int{}
}

// flow returns what has passed so far.
func (b *bottleneck) flow() flow {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := flow{accepted: b.accepted, rejected: b.rejected}
	for _, count := range b.attempts {
		f.attempts = max(f.attempts, count)
	}
	for _, count := range b.perSecond {
		f.peak = max(f.peak, count)
	}
	return f
}

// ServeHTTP delays a request until it may pass, or rejects it.
func (b *bottleneck) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	wait, passes := b.arrives(request)
	if !passes {
		response.Header().Set("Retry-After", "1")
		http.Error(response, string(metav1.StatusReasonTooManyRequests), http.StatusTooManyRequests)
		return
	}
	select {
	case <-time.After(wait):
	case <-request.Context().Done():
	}
}

func (b *bottleneck) arrives(request *http.Request) (wait time.Duration, passes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/works/") {
		b.attempts[strings.TrimSuffix(request.URL.Path, "/status")]++
	}
	passes = b.leasesPass && strings.Contains(request.URL.Path, "/leases/")
	if b.rate > 0 && !passes {
		now := time.Now()
		if b.next.Before(now) {
			b.next = now
		}
		if wait = b.next.Sub(now); wait > queueing {
			b.rejected++
			return 0, false
		}
		b.next = b.next.Add(time.Duration(float64(time.Second) / b.rate))
	}
	b.accepted++
	b.perSecond[time.Now().Unix()]++
	return wait, true
}

// learns finds out whether the API server, which audit leads to, has a priority level of
// its own for the lease.
func (b *bottleneck) learns(ctx context.Context, audit *testbed.Audit) error {
	level := &flowcontrolv1.PriorityLevelConfiguration{}
	if err := karmada.Get(ctx, client.ObjectKey{Name: "leader-election"}, level); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, audit.URL()+"/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/karmada-direct", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leasesPass = response.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) == string(level.UID)
	return response.Body.Close()
}

// refusals counts the writes that the API server itself rejected with status 429.
func refusals(writes []testbed.Write) (count int) {
	for _, w := range writes {
		if w.Status == http.StatusTooManyRequests {
			count++
		}
	}
	return count
}
