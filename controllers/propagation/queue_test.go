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
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func newTestQueue(t *testing.T) *fairQueue {
	t.Helper()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second)
	queue, ok := newFairQueue("", limiter).(*fairQueue)
	if !ok {
		t.Fatal("not a fair queue")
	}
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

// turn is the place of the n-th request of a namespace.
func turn(taken []reconcile.Request, namespace string, number int) int {
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
		if at := turn(taken, tc.namespace, tc.number); at > tc.most {
			t.Errorf("request %d of the %s namespace has turn %d, later than %d", tc.number, tc.namespace, at, tc.most)
		}
	}
	large := slices.DeleteFunc(taken, func(r reconcile.Request) bool { return r.Namespace != "large" })
	if !slices.IsSortedFunc(large, func(a, b reconcile.Request) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the requests of a namespace change their order")
	}
}

// Changes by users come before reports, and reports before the first pass of a new
// process, in whatever namespace they are.
func TestFairnessKeepsPriorities(t *testing.T) {
	queue := newTestQueue(t)
	queue.adds("small-start", 1, handler.LowPriority)
	queue.adds("small-report", 1, priorityReport)
	queue.adds("large", 10_000, 0)
	queue.adds("large-report", 10_000, priorityReport)
	taken := queue.takes()
	for i, want := range map[int]string{0: "large", 9_999: "large", 10_000: "small-report", 20_000: "large-report", 20_001: "small-start"} {
		if got := taken[i].Namespace; got != want {
			t.Errorf("request %d is of namespace %s, not %s", i, got, want)
		}
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
	if diff := cmp.Diff(map[string]int{}, queue.lengths); diff != "" {
		t.Errorf("lengths (-want +got):\n%s", diff)
	}
	if len(queue.steps) > 0 {
		t.Errorf("the queue remembers %v", queue.steps)
	}
}

// A request that is made more urgent is not pushed back by its namespace.
func TestRequestMovesUp(t *testing.T) {
	queue := newTestQueue(t)
	queue.adds("shop", 10, priorityReport)
	queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(0)}, requestOf("shop", 9))
	if first, _ := queue.Get(); first != requestOf("shop", 9) {
		t.Errorf("the first request is %v", first)
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
		if at := turn(taken, "polls", number); at > 4 {
			t.Errorf("a change has turn %d, because its namespace polls 5000 objects", at)
		}
	}
}

// Of several additions of a request that is not due, the earliest time and the highest
// priority count, and one request comes out.
func TestLaterRequestsMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, began := newTestQueue(t), time.Now()
		queue.AddAfter(requestOf("shop", 1), time.Hour)
		queue.AddWithOpts(priorityqueue.AddOpts{After: time.Minute, Priority: ptr.To(priorityReport)}, requestOf("shop", 1))
		queue.AddAfter(requestOf("shop", 1), time.Hour)
		request, priority, _ := queue.GetWithPriority()
		if passed := time.Since(began).Round(time.Second); passed != time.Minute || priority != 0 {
			t.Errorf("after %v, a request comes with priority %d", passed, priority)
		}
		queue.Done(request)
		queue.AddAfter(requestOf("shop", 1), time.Hour)
		queue.Add(requestOf("shop", 1))
		request, _ = queue.Get()
		queue.Done(request)
		time.Sleep(2 * time.Hour)
		if length := queue.Len(); length > 0 || len(queue.later) > 0 {
			t.Errorf("%d requests come twice, %d are to come", length, len(queue.later))
		}
	})
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
