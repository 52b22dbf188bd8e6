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
	"math/bits"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// priorityReport is the priority of reports from clusters: after user changes,
// which have priority 0, and before the initial pass of a new process, which
// controller-runtime puts last.
const priorityReport = -priorityGap

// priorityGap is the distance between two priorities. Between them, the queue orders
// namespaces.
const priorityGap = -handler.LowPriority / 2

// fairQueue is a priority queue in which no namespace keeps the others waiting: a single
// object is reconciled soon, even if another namespace has thousands in the queue.
//
// Within a priority, the first request of each namespace comes first, then the second of
// each, then the next two of each, the next four, and so on. Each of these steps lowers the
// priority by one. There are few steps, because the queue's metrics have one series per
// priority.
type fairQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	mu sync.Mutex
	// steps is by how much the priority of each request in the queue is lowered.
	steps map[reconcile.Request]int
	// lengths is the number of requests in the queue, by namespace.
	lengths map[string]int
}

// newFairQueue returns a queue for a controller.
func newFairQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return &fairQueue{
		PriorityQueue: priorityqueue.New(name, func(options *priorityqueue.Opts[reconcile.Request]) { options.RateLimiter = limiter }),
		steps:         map[reconcile.Request]int{},
		lengths:       map[string]int{},
	}
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *fairQueue) AddWithOpts(options priorityqueue.AddOpts, requests ...reconcile.Request) {
	base := 0
	if options.Priority != nil {
		base = *options.Priority
	}
	for _, request := range requests {
		priority := base - q.enter(request)
		options.Priority = &priority
		q.PriorityQueue.AddWithOpts(options, request)
	}
}

// Add implements workqueue.TypedInterface.
func (q *fairQueue) Add(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{}, request)
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *fairQueue) AddAfter(request reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, request)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *fairQueue) AddRateLimited(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request)
}

// Get implements workqueue.TypedInterface.
func (q *fairQueue) Get() (reconcile.Request, bool) {
	request, _, shutdown := q.GetWithPriority()
	return request, shutdown
}

// GetWithPriority implements priorityqueue.PriorityQueue. It returns the priority that the
// request was added with, because a request that fails is added again with what this
// function returned.
func (q *fairQueue) GetWithPriority() (reconcile.Request, int, bool) {
	request, priority, shutdown := q.PriorityQueue.GetWithPriority()
	if !shutdown {
		q.leave(request)
	}
	return request, baseOf(priority), shutdown
}

// baseOf returns the priority that was lowered by fewer than priorityGap steps.
func baseOf(priority int) int { return priority / priorityGap * priorityGap }

// enter counts a request, unless it is in the queue already, and returns by how much its
// priority is lowered.
func (q *fairQueue) enter(request reconcile.Request) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if step, found := q.steps[request]; found {
		return step
	}
	step := min(bits.Len(uint(q.lengths[request.Namespace])), priorityGap-1) //nolint:gosec // a length is not negative
	q.steps[request] = step
	q.lengths[request.Namespace]++
	return step
}

// leave forgets a request that is taken out of the queue.
func (q *fairQueue) leave(request reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, found := q.steps[request]; !found {
		return // it was taken, added and taken again in the meantime
	}
	delete(q.steps, request)
	if q.lengths[request.Namespace]--; q.lengths[request.Namespace] == 0 {
		delete(q.lengths, request.Namespace)
	}
}
