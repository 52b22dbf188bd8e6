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
	"cmp"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Call is a request that waits for a decision. Each method that decides reports
// whether the request still waited: it may have been canceled.
type Call struct {
	Request

	server *Server
	from   *request
	result chan outcome
}

// outcome is what the client gets.
type outcome struct {
	answer *answer
	err    error
}

// errRefused is the error of a connection that was never made.
var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// park adds a request to those that wait.
func (s *Server) park(r *request) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	parked := &Call{Request: r.Request, server: s, from: r, result: make(chan outcome, 1)}
	if s.closed {
		parked.result <- outcome{err: errRefused}
		return parked
	}
	s.calls = append(s.calls, parked)
	return parked
}

// Close ends the simulation: requests that wait fail, as do later ones that would have
// to wait, watches end, and no discovery hangs. Client and Immediate still work.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, call := range s.calls {
		call.result <- outcome{err: errRefused}
	}
	s.calls = nil
	for _, stream := range slices.Clone(s.streams) {
		stream.end(io.EOF)
	}
	for _, outage := range s.outages {
		close(outage.over)
	}
	s.outages = map[string]*outage{}
}

// Pending returns the requests that wait, by client, verb, resource, name, options
// and body. The order does not depend on when they came.
func (s *Server) Pending() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := slices.Clone(s.calls)
	slices.SortStableFunc(pending, func(a, b *Call) int { return a.from.compare(b.from) })
	return pending
}

// take removes a request from those that wait. It reports whether it was one.
func (c *Call) take() bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	at := slices.Index(c.server.calls, c)
	if at >= 0 {
		c.server.calls = slices.Delete(c.server.calls, at, at+1)
	}
	return at >= 0
}

// Serve carries the request out and answers it.
func (c *Call) Serve() bool {
	if !c.take() {
		return false
	}
	c.result <- outcome{answer: c.server.serve(c.from)}
	return true
}

// MayBeStale reports whether the client accepts an answer from the past, as the watch
// cache of an API server gives for the resourceVersion 0.
func (c *Call) MayBeStale() bool { return c.from.mayBeStale() }

// ServeStale answers a read with what was the case at a resourceVersion, or at the
// oldest later one that the request and the history allow. Requests that may not be
// answered from the past get the newest state.
func (c *Call) ServeStale(resourceVersion int64) bool {
	c.from.staleAt = resourceVersion
	return c.Serve()
}

// Refuse answers with an error before the request takes effect.
func (c *Call) Refuse(err apierrors.APIStatus) bool {
	if !c.take() {
		return false
	}
	status := err.Status()
	c.result <- outcome{answer: failed(&apierrors.StatusError{ErrStatus: status})}
	return true
}

// Drop fails the connection before the request takes effect.
func (c *Call) Drop() bool {
	if !c.take() {
		return false
	}
	c.result <- outcome{err: errRefused}
	return true
}

// ServeAndDrop carries the request out, and loses the answer.
func (c *Call) ServeAndDrop() bool {
	if !c.take() {
		return false
	}
	if answered := c.server.serve(c.from); answered.stream != nil {
		answered.stream.Cut()
	}
	c.result <- outcome{err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}}
	return true
}

// Delay fails the connection, although the request is still under way: it takes effect
// when the returned function is called. The function is nil if the request no longer
// waited.
func (c *Call) Delay() (arrive func()) {
	if !c.take() {
		return nil
	}
	c.result <- outcome{err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}}
	return func() { c.server.serve(c.from) }
}

// String describes the request in one line.
func (c *Call) String() string { return c.from.String() }

// String describes a request in one line.
func (r *request) String() string {
	line := &strings.Builder{}
	fmt.Fprintf(line, "%s %s %s", r.Client, r.Verb, r.GroupResource())
	if r.Namespace != "" || r.Name != "" {
		fmt.Fprintf(line, " %s", strings.TrimPrefix(r.key().String(), "/"))
	}
	if r.Subresource != "" {
		fmt.Fprintf(line, " (%s)", r.Subresource)
	}
	if r.chosen != "" {
		fmt.Fprintf(line, " ?%s", r.chosen)
	}
	return line.String()
}

// options returns the options of a request without those that clients choose at
// random.
func (r *request) options() string {
	kept := make([]string, 0, len(r.query))
	for _, name := range sortedKeys(r.query) {
		switch name {
		case "timeoutSeconds", "timeout", "watch", "fieldManager":
		default:
			kept = append(kept, name+"="+strings.Join(r.query[name], ","))
		}
	}
	return strings.Join(kept, "&")
}

// compare orders requests by what they are.
func (r *request) compare(to *request) int {
	return cmp.Or(
		cmp.Compare(r.Client, to.Client), cmp.Compare(r.Verb, to.Verb),
		cmp.Compare(r.Group, to.Group), cmp.Compare(r.Resource, to.Resource), cmp.Compare(r.Version, to.Version),
		cmp.Compare(r.Namespace, to.Namespace), cmp.Compare(r.Name, to.Name), cmp.Compare(r.Subresource, to.Subresource),
		cmp.Compare(r.chosen, to.chosen), cmp.Compare(r.accept, to.accept), cmp.Compare(string(r.body), string(to.body)),
	)
}

func sortedKeys[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
