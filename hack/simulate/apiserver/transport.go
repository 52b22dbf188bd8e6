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
	"context"
	"net/http"
)

// transport takes the requests of one client to the server.
type transport struct {
	server *Server
	client string
	// prompt requests are answered at once.
	prompt bool
}

// Transport returns what the requests of a client go through. They wait in Pending
// until somebody decides what becomes of them, except for discovery and, with
// PromptEvents, for writing Events: libraries send these while they hold locks, so they
// are answered at once.
func (s *Server) Transport(client string) http.RoundTripper {
	return &transport{server: s, client: client}
}

// Immediate returns what the requests of a client go through that are answered at
// once. Its watches deliver every event at once.
func (s *Server) Immediate(client string) http.RoundTripper {
	return &transport{server: s, client: client, prompt: true}
}

// RoundTrip carries out a request, or has it wait.
func (t *transport) RoundTrip(from *http.Request) (*http.Response, error) {
	r, err := read(t.client, from)
	if err != nil {
		return nil, err
	}
	ctx := from.Context()
	if err := ctx.Err(); err != nil {
		return nil, err //nolint:wrapcheck // the client compares it
	}
	if isDiscovery(r.path) || t.prompt || t.server.promptEvents && isEvent(r) {
		if err := t.server.awaitDiscovery(ctx, r); err != nil {
			return nil, err
		}
		return t.prompted(r).response(from), nil
	}
	decided, err := await(ctx, t.server.park(r))
	if err != nil {
		return nil, err
	}
	return decided.response(from), nil
}

func (t *transport) prompted(r *request) *answer {
	answered := t.server.serve(r)
	if stream := answered.stream; stream != nil {
		t.server.mu.Lock()
		defer t.server.mu.Unlock()
		stream.prompt = true
		stream.deliver(len(stream.waiting))
	}
	return answered
}

// await returns what was decided about a request. If the request is canceled at the
// same time, the decision counts.
func await(ctx context.Context, parked *Call) (*answer, error) {
	select {
	case decided := <-parked.result:
		return decided.answer, decided.err
	case <-ctx.Done():
		if parked.take() {
			return nil, ctx.Err() //nolint:wrapcheck // the client compares it
		}
		decided := <-parked.result
		return decided.answer, decided.err
	}
}
