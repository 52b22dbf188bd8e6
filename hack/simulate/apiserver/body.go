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

package apiserver

import (
	"io"
	"sync"
)

// body is the body of the answer to a watch request. Reading waits until something
// has been delivered.
type body struct {
	// done ends with the request.
	done <-chan struct{}
	// wake has an entry if there may be something to read.
	wake chan struct{}

	mu     sync.Mutex
	unread []byte
	// reason is why nothing follows what is unread; nil while more may follow.
	reason error
	closed bool
}

func newBody(done <-chan struct{}) *body { return &body{done: done, wake: make(chan struct{}, 1)} }

func (b *body) write(data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason == nil && !b.closed {
		b.unread = append(b.unread, data...)
		b.rouse()
	}
}

// end has readers get a reason after what is unread.
func (b *body) end(reason error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason == nil {
		b.reason = reason
	}
	b.rouse()
}

func (b *body) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Read returns what has been delivered. It waits if there is nothing. If the client
// has ended the watch, it returns EOF: client-go makes any other error an event, and
// leaks the goroutine that hands the event over when nobody reads any more.
func (b *body) Read(into []byte) (int, error) {
	for {
		n, err := b.take(into)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-b.wake:
		case <-b.done:
			return 0, io.EOF
		}
	}
}

func (b *body) take(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, io.EOF
	}
	if len(b.unread) == 0 {
		return 0, b.reason
	}
	n := copy(into, b.unread)
	b.unread = b.unread[n:]
	return n, nil
}

// Close ends the watch.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.rouse()
	return nil
}

// isClosed reports whether the client has ended the watch.
func (b *body) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.done:
		return true
	default:
		return b.closed
	}
}
