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
	"fmt"
	"math/bits"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
	// waiting is the number of workers that wait for a request. Nobody begins to wait once
	// the queue is ending; idle is signaled when nobody waits.
	waiting int
	ending  bool
	idle    *sync.Cond
}

// newFairQueue returns a queue for a controller.
func newFairQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	q := &fairQueue{
		PriorityQueue: priorityqueue.New(name, func(options *priorityqueue.Opts[reconcile.Request]) { options.RateLimiter = limiter }),
		steps:         map[reconcile.Request]int{},
		lengths:       map[string]int{},
	}
	q.idle = sync.NewCond(&q.mu)
	return q
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
	if !q.beginWait() {
		return reconcile.Request{}, 0, true
	}
	request, priority, shutdown := q.PriorityQueue.GetWithPriority()
	return request, baseOf(priority), q.endWait(request) || shutdown
}

// ShutDown implements workqueue.TypedInterface.
//
// The queue of controller-runtime v0.23 hands out requests while it holds its locks. If a
// worker returns because of the shutdown at that moment, nobody takes the request, the locks
// are never released, and other workers wait for them until the process is killed
// (kubernetes-sigs/controller-runtime#3538, fixed in v0.25). Therefore this function gives
// every waiting worker something to return with, and only then shuts the queue down.
func (q *fairQueue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ending {
		return
	}
	q.ending = true
	for i := range q.waiting {
		q.PriorityQueue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprintf("/shutdown/%d", i)}})
	}
	for q.waiting > 0 {
		q.idle.Wait()
	}
	q.PriorityQueue.ShutDown()
}

// ShutDownWithDrain implements workqueue.TypedInterface. As in controller-runtime, nothing
// is drained.
func (q *fairQueue) ShutDownWithDrain() { q.ShutDown() }

// beginWait counts a worker that is about to wait, unless the queue is ending.
func (q *fairQueue) beginWait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ending {
		return false
	}
	q.waiting++
	return true
}

// endWait takes back what beginWait counted, forgets the request that the worker takes out
// of the queue, and reports whether the queue is ending.
func (q *fairQueue) endWait(request reconcile.Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting--
	if q.waiting == 0 {
		q.idle.Broadcast()
	}
	q.leave(request)
	return q.ending
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

// leave forgets a request that is taken out of the queue. The caller holds the lock.
func (q *fairQueue) leave(request reconcile.Request) {
	if _, found := q.steps[request]; !found {
		return // it was taken, added and taken again in the meantime
	}
	delete(q.steps, request)
	if q.lengths[request.Namespace]--; q.lengths[request.Namespace] == 0 {
		delete(q.lengths, request.Namespace)
	}
}
