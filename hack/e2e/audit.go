//go:build e2e

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

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// call is a write that the controller sent to the Karmada API server.
type call struct {
	At        time.Time
	Verb      string
	Resource  string // with its subresource: works/status
	Namespace string
	Name      string
	Status    int // 0 when there was no answer
}

func (c call) String() string {
	return fmt.Sprintf("%s %s %s %s/%s → %d", c.At.Format("15:04:05.000"), c.Verb, c.Resource, c.Namespace, c.Name, c.Status)
}

// isLease tells the renewal of the leader's lease, which goes on for ever, and
// the Event that tells who has it.
func (c call) isLease() bool {
	return c.Resource == "leases" || c.Resource == "events" && strings.HasPrefix(c.Name, "karmada-direct.")
}

// auditor stands between the controller and the Karmada API server. It counts
// every write, exactly, and may be told to cut the connection at one.
type auditor struct {
	upstream *httputil.ReverseProxy
	listener net.Listener
	server   *http.Server

	mu    sync.Mutex
	calls []call
	trap  *trap
}

// trap fires at the n-th write.
type trap struct {
	// At is which write it fires at, counted from 1.
	At int
	// Forward lets that write reach the API server; only the answer is lost.
	Forward bool
	// Spring is called while the controller waits for an answer.
	Spring func()

	seen   int
	sprung chan struct{}
}

// newAuditor serves on loopback and forwards to the API server of config with
// the credentials of config.
func newAuditor(config *rest.Config) (*auditor, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the Karmada API server: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the Karmada API server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the controller: %w", err)
	}
	a := &auditor{listener: listener, upstream: &httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches are told at once
		ErrorLog:      log.New(io.Discard, "", 0),
	}}
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = a.server.Serve(listener) }() // it ends by Close
	return a, nil
}

// url is where the controller finds its API server.
func (a *auditor) url() string { return "http://" + a.listener.Addr().String() }

func (a *auditor) close() error {
	if err := a.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("closing the auditor: %w", err)
	}
	return nil
}

var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// ServeHTTP forwards a request, and notes it if it is a write.
func (a *auditor) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	verb, isWrite := verbs[request.Method]
	if !isWrite {
		a.upstream.ServeHTTP(response, request)
		return
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the controller died while it sent
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	written := describe(verb, request.URL.Path, body)
	spring := a.arrived(written)
	if spring == nil {
		recorded := &statusRecorder{ResponseWriter: response}
		a.upstream.ServeHTTP(recorded, request)
		a.note(written, recorded.status)
		return
	}
	if spring.Forward {
		// Whoever sent it dies now; the write must not die with it.
		recorded := &statusRecorder{ResponseWriter: &nowhere{header: http.Header{}}}
		a.upstream.ServeHTTP(recorded, request.WithContext(context.WithoutCancel(request.Context())))
		a.note(written, recorded.status)
	}
	spring.Spring()
	close(spring.sprung)
	panic(http.ErrAbortHandler) // no answer
}

// arrived counts a write for the trap, and returns the trap if it fires.
func (a *auditor) arrived(written call) *trap {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trap == nil || written.isLease() {
		return nil
	}
	a.trap.seen++
	if a.trap.seen != a.trap.At {
		return nil
	}
	fired := a.trap
	a.trap = nil
	return fired
}

func (a *auditor) note(written call, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	written.At, written.Status = time.Now(), status
	a.calls = append(a.calls, written)
}

// set sets a trap. The channel is closed when it has fired.
func (a *auditor) set(t *trap) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.sprung = make(chan struct{})
	a.trap = t
	return t.sprung
}

// disarm takes the trap away, and tells whether it has fired or is firing.
func (a *auditor) disarm() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	fired := a.trap == nil
	a.trap = nil
	return fired
}

// mark is a moment to count from.
func (a *auditor) mark() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

// since returns the writes since a mark that a filter lets pass, the leader's
// lease aside.
func (a *auditor) since(mark int, keep func(call) bool) []call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.calls[mark:]), func(c call) bool { return c.isLease() || !keep(c) })
}

// describe reads from a request what it writes.
func describe(verb, path string, body []byte) call {
	written := call{Verb: verb}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[min(2, len(parts)):] // api/v1
	} else {
		parts = parts[min(3, len(parts)):] // apis/group/version
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		written.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		written.Resource = parts[0]
	}
	if len(parts) > 1 {
		written.Name = parts[1]
	}
	if len(parts) > 2 {
		written.Resource += "/" + parts[2]
	}
	if written.Resource == "subjectaccessreviews" {
		describeReview(&written, body)
	} else if written.Name == "" {
		var named struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if json.Unmarshal(body, &named) == nil { // protobuf hides its name
			written.Name = named.Metadata.Name
		}
	}
	return written
}

// describeReview reads what a review asks: the namespace is that of the account,
// and the name is the permission.
func describeReview(written *call, body []byte) {
	review := &authorizationv1.SubjectAccessReview{}
	if _, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, review); err != nil || review.Spec.ResourceAttributes == nil {
		return
	}
	account, action := strings.Split(review.Spec.User, ":"), review.Spec.ResourceAttributes
	written.Namespace = account[max(0, len(account)-2)]
	written.Name = strings.TrimSuffix(fmt.Sprintf("%s %s/%s", action.Verb, action.Resource, action.Name), "/")
}

// statusRecorder remembers how a request was answered.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets the reverse proxy flush.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// nowhere takes an answer that nobody gets.
type nowhere struct{ header http.Header }

// Header implements http.ResponseWriter.
func (n *nowhere) Header() http.Header { return n.header }

// Write implements http.ResponseWriter.
func (*nowhere) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements http.ResponseWriter.
func (*nowhere) WriteHeader(int) {}
