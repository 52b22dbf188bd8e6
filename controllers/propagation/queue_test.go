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
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func newTestQueue(t *testing.T) *fairQueue {
	t.Helper()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second)
	queue := newFairQueue("", limiter)
	t.Cleanup(queue.ShutDown)
	return queue
}

func requestOf(namespace string, number int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("%04d", number)}}
}

// adds adds requests of a namespace with a priority.
func (q *fairQueue) adds(namespace string, count, priority int) {
	for i := range count {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, requestOf(namespace, i))
	}
}

// takes takes everything out of the queue.
func (q *fairQueue) takes() []reconcile.Request {
	taken := []reconcile.Request{}
	for q.Len() > 0 {
		request, _ := q.Get()
		taken = append(taken, request)
		q.Done(request)
	}
	return taken
}

// turnOf is the place of the n-th request of a namespace.
func turnOf(taken []reconcile.Request, namespace string, number int) int {
	return slices.Index(taken, requestOf(namespace, number))
}

func TestNamespaceWithMuchToDoDelaysNoOther(t *testing.T) {
	queue := newTestQueue(t)
	queue.adds("large", 5000, 0)
	queue.adds("medium", 100, 0)
	queue.adds("small", 1, 0)
	taken := queue.takes()
	if len(taken) != 5101 {
		t.Fatalf("%d requests came out, not 5101", len(taken))
	}
	for _, tc := range []struct {
		namespace string
		number    int
		most      int
	}{{"small", 0, 2}, {"medium", 0, 2}, {"medium", 9, 40}, {"medium", 99, 300}} {
		if at := turnOf(taken, tc.namespace, tc.number); at > tc.most {
			t.Errorf("request %d of the %s namespace has turn %d, later than %d", tc.number, tc.namespace, at, tc.most)
		}
	}
	large := slices.DeleteFunc(taken, func(r reconcile.Request) bool { return r.Namespace != "large" })
	if !slices.IsSortedFunc(large, func(a, b reconcile.Request) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the requests of a namespace change their order")
	}
}

// In each namespace, changes by users come before reports. The first pass of a new process
// comes last.
func TestFairnessKeepsPriorities(t *testing.T) {
	queue := newTestQueue(t)
	queue.adds("small-start", 1, handler.LowPriority)
	queue.adds("large", 10_000, priorityChange)
	for i := range 10_000 {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priorityReport)}, requestOf("large", 10_000+i))
	}
	taken := queue.takes()
	for i, want := range map[int]reconcile.Request{
		0: requestOf("large", 0), 9_999: requestOf("large", 9_999), 10_000: requestOf("large", 10_000), 20_000: requestOf("small-start", 0),
	} {
		if taken[i] != want {
			t.Errorf("request %d is %v, not %v", i, taken[i], want)
		}
	}
}

// The report about the only change of a small namespace does not wait for all changes of
// a large one, whichever comes first.
func TestChangesOfOthersDelayNoReport(t *testing.T) {
	for name, order := range map[string]func(*fairQueue){
		"report last":  func(q *fairQueue) { q.adds("large", 5000, priorityChange); q.adds("small", 1, priorityReport) },
		"report first": func(q *fairQueue) { q.adds("small", 1, priorityReport); q.adds("large", 5000, priorityChange) },
		"after the change of its own namespace": func(q *fairQueue) {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priorityChange)}, requestOf("small", 1))
			q.adds("small", 1, priorityReport)
			q.adds("large", 5000, priorityChange)
		},
	} {
		t.Run(name, func(t *testing.T) {
			queue := newTestQueue(t)
			order(queue)
			if at := turnOf(queue.takes(), "small", 0); at > 3 {
				t.Errorf("the report has turn %d, later than 3", at)
			}
		})
	}
}

func TestFairQueueReturnsThePriorityThatWasGiven(t *testing.T) {
	for _, priority := range []int{0, priorityReport, handler.LowPriority} {
		queue := newTestQueue(t)
		queue.adds("shop", 100, priority)
		for range 100 {
			if _, got, _ := queue.GetWithPriority(); got != priority {
				t.Fatalf("priority %d becomes %d", priority, got)
			}
		}
	}
}

func TestFairQueueForgets(t *testing.T) {
	queue := newTestQueue(t)
	queue.adds("shop", 100, priorityReport)
	queue.adds("shop", 100, 0) // the same requests, more urgently
	queue.AddAfter(requestOf("later", 0), time.Millisecond)
	queue.AddRateLimited(requestOf("limited", 0))
	for range 102 {
		request, _ := queue.Get()
		queue.Done(request)
	}
	if len(queue.lines)+len(queue.places)+len(queue.busy)+len(queue.later) > 0 {
		t.Errorf("the queue remembers lines %v, places %v, busy %v and later %v", queue.lines, queue.places, queue.busy, queue.later)
	}
}

// A request that is made more urgent is not pushed back by its namespace: only the report
// that had moved up before goes first.
func TestRequestMovesUp(t *testing.T) {
	queue := newTestQueue(t)
	queue.adds("shop", 10, priorityReport)
	queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(0)}, requestOf("shop", 9))
	if taken := queue.takes(); taken[0] != requestOf("shop", 0) || taken[1] != requestOf("shop", 9) {
		t.Errorf("the first requests are %v", taken[:2])
	}
}

// TestWorkersEndWithTheQueue: a worker that waits in the queue when it is shut down, or that
// is about to return a request to it, is let go, whatever the queue is doing at that moment.
func TestWorkersEndWithTheQueue(t *testing.T) {
	for range 200 {
		queue := newTestQueue(t)
		workers, busy := sync.WaitGroup{}, make(chan struct{}, 20)
		for worker := range 20 {
			workers.Go(func() {
				for i := 0; ; i++ {
					queue.Add(requestOf(fmt.Sprint(worker), i))
					request, shutdown := queue.Get()
					if shutdown {
						return
					}
					queue.Done(request)
					if i == 10 {
						busy <- struct{}{}
					}
				}
			})
		}
		for range 20 {
			<-busy
		}
		queue.ShutDown()
		ended := make(chan struct{})
		go func() { workers.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("after 30 s, some workers have not ended")
		}
	}
}

// Requests that are not due count for nothing.
func TestLaterRequestsDelayNoOthers(t *testing.T) {
	queue := newTestQueue(t)
	for i := range 5000 {
		queue.AddAfter(requestOf("polls", i), time.Hour)
	}
	queue.adds("busy", 5000, 0)
	queue.Add(requestOf("polls", 4321))
	queue.Add(requestOf("polls", 6000))
	taken := queue.takes()
	for _, number := range []int{4321, 6000} {
		if at := turnOf(taken, "polls", number); at > 4 {
			t.Errorf("a change has turn %d, because its namespace polls 5000 objects", at)
		}
	}
}

// Of several additions of a request that is not due, the earliest time and the highest
// priority count, and one request comes out.
func TestLaterRequestsMerge(t *testing.T) {
	queue, now := newTestQueue(t), clocktesting.NewFakeClock(time.Now())
	queue.clock = now
	queue.AddAfter(requestOf("shop", 1), time.Hour)
	queue.AddWithOpts(priorityqueue.AddOpts{After: time.Minute, Priority: ptr.To(priorityReport)}, requestOf("shop", 1))
	queue.AddAfter(requestOf("shop", 1), time.Hour)
	now.Step(time.Minute - 1)
	if len(queue.places) > 0 {
		t.Error("a request is early")
	}
	now.Step(1)
	request, priority, _ := queue.GetWithPriority()
	if priority != 0 {
		t.Errorf("the request has priority %d", priority)
	}
	queue.Done(request)
	queue.AddAfter(requestOf("shop", 1), time.Hour)
	queue.Add(requestOf("shop", 1))
	request, _ = queue.Get()
	queue.Done(request)
	now.Step(2 * time.Hour)
	if len(queue.places) > 0 || len(queue.later) > 0 {
		t.Errorf("%d requests come twice, %d are to come", len(queue.places), len(queue.later))
	}
}

// A request that comes again as soon as it is done does not come once more later.
func TestLaterRequestMergesWithTheNext(t *testing.T) {
	queue := newTestQueue(t)
	queue.Add(requestOf("shop", 1))
	request, _ := queue.Get()
	queue.Add(request)
	queue.AddAfter(request, time.Hour)
	queue.Done(request)
	if len(queue.places) != 1 || len(queue.later) > 0 {
		t.Errorf("%d requests come next and %d later", len(queue.places), len(queue.later))
	}
}

// After the shutdown, nothing waits for its time.
func TestLaterRequestsEndWithTheQueue(t *testing.T) {
	queue := newTestQueue(t)
	queue.AddAfter(requestOf("shop", 1), time.Hour)
	waiting := queue.later[requestOf("shop", 1)]
	queue.ShutDown()
	queue.AddAfter(requestOf("shop", 2), time.Hour)
	if waiting.timer.Stop() || len(queue.later) > 0 {
		t.Errorf("a timer runs on, or %d requests are remembered", len(queue.later))
	}
}

// Nobody waits for the reports or the initial pass of another namespace, nor for those of
// the own one.
func TestLessUrgentRequestsDelayNoOthers(t *testing.T) {
	for _, priority := range []int{priorityReport, handler.LowPriority} {
		queue := newTestQueue(t)
		queue.adds("large", 5000, priority)
		queue.adds("busy", 5000, 0)
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(0)}, requestOf("large", 4321))
		if at := turnOf(queue.takes(), "large", 4321); at > 2 {
			t.Errorf("a change has turn %d, because its namespace waits for 5000 requests of priority %d", at, priority)
		}
	}
}

// Requests that are added again and again, of the own namespace or of another, do not
// overtake those that wait.
func TestHotRequestsStarveNoOthers(t *testing.T) {
	for _, namespace := range []string{"large", "hot"} {
		queue := newTestQueue(t)
		queue.adds("large", 5000, 0)
		for range 4900 {
			request, _ := queue.Get()
			queue.Done(request)
		}
		for i := range 20 {
			queue.Add(requestOf(namespace, 9000+i))
		}
		served := 0
		for range 2000 {
			request, _ := queue.Get()
			queue.Done(request)
			if number, _ := strconv.Atoi(request.Name); number >= 9000 {
				queue.Add(request)
			} else {
				served++
			}
		}
		if served < 100 {
			t.Errorf("%d of 100 requests had their turn, while 20 of namespace %s were served 2000 times", served, namespace)
		}
	}
}

// crowd is what happens to a queue from several sides at the same time.
type crowd struct {
	*testing.T
	queue *fairQueue
	// added is how often each request was added, seen is how often when it was last
	// taken, and held is how many workers have it.
	added, seen, held [32]atomic.Int64
}

// adds adds requests with different priorities and delays.
func (c *crowd) adds(count int) {
	for range count {
		i := rand.IntN(len(c.added))
		c.added[i].Add(1)
		priority := []int{0, priorityReport, handler.LowPriority}[rand.IntN(3)]
		after := time.Duration(rand.IntN(3)) * 20 * time.Microsecond
		c.queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, requestOf(strconv.Itoa(i%4), i))
	}
}

// works takes requests until the queue ends.
func (c *crowd) works() {
	for {
		request, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		i, _ := strconv.Atoi(request.Name)
		if c.held[i].Add(1) > 1 {
			c.Errorf("%v is taken twice at the same time", request)
		}
		c.seen[i].Store(c.added[i].Load())
		runtime.Gosched()
		c.held[i].Add(-1)
		c.queue.Done(request)
	}
}

// isSettled reports whether all additions were seen and nothing is left.
func (c *crowd) isSettled(context.Context) (bool, error) {
	for i := range c.added {
		if c.seen[i].Load() != c.added[i].Load() {
			return false, nil
		}
	}
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	return c.queue.Len()+len(c.queue.lines)+len(c.queue.places)+len(c.queue.busy)+len(c.queue.later) == 0, nil
}

// Whatever is added at the same time as it is taken is taken again, by one worker at a
// time, and in the end nothing is left.
func TestFairQueueLosesNothing(t *testing.T) {
	c := &crowd{T: t, queue: newTestQueue(t)}
	working, adding := sync.WaitGroup{}, sync.WaitGroup{}
	for range 6 {
		working.Go(c.works)
	}
	for range 300 {
		for range 4 {
			adding.Go(func() { c.adds(50) })
		}
		adding.Wait()
		if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Microsecond, 10*time.Second, true, c.isSettled); err != nil {
			t.Fatalf("a request was lost, or is remembered: %v", err)
		}
	}
	c.queue.ShutDown()
	working.Wait()
}
