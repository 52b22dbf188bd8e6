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
	"container/list"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// priorityChange is the priority of changes by users.
	priorityChange = 0
	// priorityReport is the priority of reports from clusters: after the changes in the
	// same namespace, and before the initial pass of a new process, which
	// controller-runtime puts last.
	priorityReport = handler.LowPriority / 2
)

// fairQueue is a priority queue in which no namespace keeps the others waiting: a single
// object is reconciled soon, even if another namespace has thousands in the queue.
//
// Within a priority, the namespaces take turns. The requests of each namespace are in a
// line, in the order in which they were added. The first of each line has the priority
// that it was added with, and all others have one less, so that they are taken only if no
// line has a first one. When the first leaves, the next moves up, behind the first ones of
// the other lines.
//
// The first report of a namespace counts as a change while no change in the namespace waits.
// The changes of a large tenant would otherwise keep the status of a small one from telling
// what has become of its only change.
//
// A request that is not due is not in the queue yet: however much a namespace has to do
// later, its next change is the first of its requests.
type fairQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	clock   clock.WithDelayedExecution

	mu sync.Mutex
	// later has the requests that are not due.
	later map[reconcile.Request]*laterRequest
	// lines are where requests wait, and places has the place of each.
	lines  map[line]*list.List
	places map[reconcile.Request]place
	// busy are the requests that were taken and are not done. If one was added again in
	// the meantime, it has the priority to add it with when it is done: the first of a line
	// must be one that can be taken.
	busy map[reconcile.Request]*int
	// waiting is the number of workers that wait for a request. Nobody begins to wait once
	// the queue is ending; idle is signaled when nobody waits.
	waiting int
	ending  bool
	idle    *sync.Cond
}

// line is what the requests that wait in the same line have in common.
type line struct {
	namespace string
	priority  int
}

// place is where a request waits.
type place struct {
	line    line
	element *list.Element
}

// newQueue returns the queue of the controller, and lets the reconciler see who waits.
func (r *Reconciler) newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	q := newFairQueue(name, limiter)
	r.othersWait = q.othersWait
	return q
}

// newFairQueue returns a queue for a controller.
func newFairQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) *fairQueue {
	q := &fairQueue{
		PriorityQueue: priorityqueue.New(name, func(options *priorityqueue.Opts[reconcile.Request]) { options.RateLimiter = limiter }),
		limiter:       limiter,
		clock:         clock.RealClock{},
		later:         map[reconcile.Request]*laterRequest{},
		lines:         map[line]*list.List{},
		places:        map[reconcile.Request]place{},
		busy:          map[reconcile.Request]*int{},
	}
	q.idle = sync.NewCond(&q.mu)
	return q
}

// laterRequest is when a request is due, and its priority then.
type laterRequest struct {
	priority int
	due      time.Time
	timer    clock.Timer
}

// othersWait reports whether requests of other namespaces wait for a worker.
func (q *fairQueue) othersWait(namespace string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for waiting := range q.lines {
		if waiting.namespace != namespace {
			return true
		}
	}
	return false
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
	_, queued := q.places[request]
	comes := queued || q.busy[request] != nil
	waiting := q.later[request]
	switch {
	case q.ending:
	case after <= 0 || comes:
		if waiting != nil {
			waiting.timer.Stop()
			delete(q.later, request)
			priority = max(priority, waiting.priority)
		}
		q.enter(request, priority, 0)
	case waiting == nil:
		waiting = &laterRequest{priority: priority, due: q.clock.Now().Add(after)}
		waiting.timer = q.clock.AfterFunc(after, func() { q.isDue(request, waiting) })
		q.later[request] = waiting
	default:
		waiting.priority = max(priority, waiting.priority)
		if due := q.clock.Now().Add(after); due.Before(waiting.due) {
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
	for {
		if !q.beginWait() {
			return reconcile.Request{}, 0, true
		}
		request, _, shutdown := q.PriorityQueue.GetWithPriority()
		priority, waited, ending := q.endWait(request)
		if waited || shutdown || ending {
			return request, priority, shutdown || ending
		}
		// It moved up when it had just been taken.
		q.PriorityQueue.Done(request)
	}
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

// endWait takes back what beginWait counted and takes a request out of its line. It returns
// the priority that the request was added with, whether it was in a line, and whether the
// queue is ending.
func (q *fairQueue) endWait(request reconcile.Request) (priority int, waited, ending bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting--
	if q.waiting == 0 {
		q.idle.Broadcast()
	}
	at, waited := q.places[request]
	if waited {
		q.leave(request, at)
		q.busy[request] = nil
	}
	return at.line.priority, waited, q.ending
}

// Done implements workqueue.TypedInterface.
func (q *fairQueue) Done(request reconcile.Request) {
	q.PriorityQueue.Done(request)
	q.mu.Lock()
	defer q.mu.Unlock()
	again := q.busy[request]
	delete(q.busy, request)
	if again != nil {
		q.enter(request, *again, 0)
	}
}

// enter puts a request at the end of the line of its namespace and priority. A request
// that waits with less priority changes lines.
func (q *fairQueue) enter(request reconcile.Request, priority int, after time.Duration) {
	if again, busy := q.busy[request]; busy {
		q.busy[request] = ptr.To(max(priority, ptr.Deref(again, priority)))
		return
	}
	if at, waits := q.places[request]; waits {
		if at.line.priority >= priority {
			return
		}
		q.leave(request, at)
	}
	at := line{namespace: request.Namespace, priority: priority}
	waiting := q.lines[at]
	if waiting == nil {
		waiting = list.New()
		q.lines[at] = waiting
	}
	q.places[request] = place{line: at, element: waiting.PushBack(request)}
	if waiting.Len() > 1 {
		priority--
	} else {
		priority = q.urgency(at)
	}
	q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, request)
}

// leave removes a request from its line. If it was the first, the next one moves up.
func (q *fairQueue) leave(request reconcile.Request, at place) {
	waiting := q.lines[at.line]
	first := waiting.Front() == at.element
	waiting.Remove(at.element)
	delete(q.places, request)
	if waiting.Len() == 0 {
		delete(q.lines, at.line)
		if at.line.priority == priorityChange {
			q.moveUp(line{namespace: at.line.namespace, priority: priorityReport})
		}
		return
	}
	if first {
		q.moveUp(at.line)
	}
}

// urgency is the priority of the first request in a line.
func (q *fairQueue) urgency(of line) int {
	if of.priority == priorityReport && q.lines[line{namespace: of.namespace, priority: priorityChange}] == nil {
		return priorityChange
	}
	return of.priority
}

// moveUp gives the first request in a line, if there is one, the priority of a first one.
func (q *fairQueue) moveUp(in line) {
	waiting := q.lines[in]
	if waiting == nil {
		return
	}
	if first, ok := waiting.Front().Value.(reconcile.Request); ok {
		q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(q.urgency(in))}, first)
	}
}
