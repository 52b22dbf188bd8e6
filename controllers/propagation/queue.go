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
	"k8s.io/utils/ptr"
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
//
// A request that is not due is not in the queue yet: however much a namespace has to do
// later, its next change is the first of its requests.
type fairQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	limiter workqueue.TypedRateLimiter[reconcile.Request]

	mu sync.Mutex
	// later has the requests that are not due.
	later map[reconcile.Request]*laterRequest
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
		limiter:       limiter,
		later:         map[reconcile.Request]*laterRequest{},
		steps:         map[reconcile.Request]int{},
		lengths:       map[string]int{},
	}
	q.idle = sync.NewCond(&q.mu)
	return q
}

// laterRequest is when a request is due, and its priority then.
type laterRequest struct {
	priority int
	due      time.Time
	timer    *time.Timer
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *fairQueue) AddWithOpts(options priorityqueue.AddOpts, requests ...reconcile.Request) {
	for _, request := range requests {
		after := options.After
		if options.RateLimited {
			if limited := q.limiter.When(request); after == 0 || limited < after {
				after = limited
			}
		}
		q.add(request, ptr.Deref(options.Priority, 0), after)
	}
}

// add adds a request that is due after a duration. Of several additions of the same
// request, the earliest time and the highest priority count.
func (q *fairQueue) add(request reconcile.Request, priority int, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, queued := q.steps[request]
	waiting := q.later[request]
	switch {
	case q.ending:
	case after <= 0 || queued:
		if waiting != nil {
			waiting.timer.Stop()
			delete(q.later, request)
			priority = max(priority, waiting.priority)
		}
		q.enter(request, priority, 0)
	case waiting == nil:
		waiting = &laterRequest{priority: priority, due: time.Now().Add(after)}
		waiting.timer = time.AfterFunc(after, func() { q.isDue(request, waiting) })
		q.later[request] = waiting
	default:
		waiting.priority = max(priority, waiting.priority)
		if due := time.Now().Add(after); due.Before(waiting.due) {
			waiting.due = due
			waiting.timer.Reset(after)
		}
	}
}

// isDue puts a request into the queue, unless it was put there in the meantime.
func (q *fairQueue) isDue(request reconcile.Request, waiting *laterRequest) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.later[request] == waiting {
		delete(q.later, request)
		// The queue counts requests with a delay as retries.
		q.enter(request, waiting.priority, time.Nanosecond)
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
	for _, waiting := range q.later {
		waiting.timer.Stop()
	}
	clear(q.later)
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

// enter puts a request into the queue and counts it, unless it is there already.
func (q *fairQueue) enter(request reconcile.Request, priority int, after time.Duration) {
	step, found := q.steps[request]
	if !found {
		step = min(bits.Len(uint(q.lengths[request.Namespace])), priorityGap-1) //nolint:gosec // a length is not negative
		q.steps[request] = step
		q.lengths[request.Namespace]++
	}
	priority -= step
	q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, request)
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
