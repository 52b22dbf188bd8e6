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

package karmada

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// The defaults of Karmada's flags --rate-limiter-*.
const (
	backoffBase = 5 * time.Millisecond
	backoffMax  = 1000 * time.Second
	bucketRate  = 10
	bucketSize  = 100
)

// key names what a controller works on.
type key interface {
	comparable
	fmt.Stringer
}

// queue is a work queue with back-off, like controller-runtime's priority queue: it
// holds each key once, with the earliest time at which somebody wanted it.
type queue[K key] struct {
	now      func() time.Time
	due      map[K]time.Time
	failures map[K]int
	// bucket, if any, limits how often the keys of the queue are retried, all
	// together.
	bucket *bucket
}

func newQueue[K key](now func() time.Time, limited bool) *queue[K] {
	q := &queue[K]{now: now, due: map[K]time.Time{}, failures: map[K]int{}}
	if limited {
		q.bucket = &bucket{tokens: bucketSize, at: now()}
	}
	return q
}

// add wants a key to be handled now.
func (q *queue[K]) add(k K) { q.addAfter(k, 0) }

// addAfter wants a key to be handled after a while.
func (q *queue[K]) addAfter(k K, after time.Duration) {
	at := q.now().Add(after)
	if had, ok := q.due[k]; !ok || at.Before(had) {
		q.due[k] = at
	}
}

// retry wants a key that failed to be handled again, later each time.
func (q *queue[K]) retry(k K) {
	delay := min(time.Duration(float64(backoffBase)*math.Pow(2, float64(min(q.failures[k], 40)))), backoffMax)
	q.failures[k]++
	if q.bucket != nil {
		delay = max(delay, q.bucket.take(q.now()))
	}
	q.addAfter(k, delay)
}

// forget begins the back-off of a key anew.
func (q *queue[K]) forget(k K) { delete(q.failures, k) }

// take removes a key that a controller begins to handle.
func (q *queue[K]) take(k K) { delete(q.due, k) }

// ready returns the keys that are due, sorted.
func (q *queue[K]) ready() []K {
	now := q.now()
	var keys []K
	for k, at := range q.due {
		if !at.After(now) {
			keys = append(keys, k)
		}
	}
	return sorted(keys)
}

func sorted[K key](keys []K) []K {
	slices.SortFunc(keys, func(a, b K) int { return cmp.Compare(a.String(), b.String()) })
	return keys
}

func sortedKeys[K key, V any](from map[K]V) []K { return sorted(slices.Collect(maps.Keys(from))) }

// bucket is a token bucket over an injected clock.
type bucket struct {
	tokens float64
	at     time.Time
}

// take reserves a token, and returns how long to wait for it.
func (b *bucket) take(now time.Time) time.Duration {
	b.tokens = min(b.tokens+now.Sub(b.at).Seconds()*bucketRate, bucketSize)
	b.at = now
	b.tokens--
	if b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens / bucketRate * float64(time.Second))
}
