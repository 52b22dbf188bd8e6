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

package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Audit is a proxy between a controller and the Karmada API server. It records every
// write and can drop the connection at a chosen one.
type Audit struct {
	upstream *httputil.ReverseProxy
	listener net.Listener
	server   *http.Server

	mu     sync.Mutex
	writes []Write
	trap   *Trap
	gate   http.HandlerFunc
}

// Trap fires at the n-th write.
type Trap struct {
	// At is the number of the write at which the trap fires, counted from 1.
	At int
	// Forward lets that write reach the API server; only the response is lost.
	Forward bool
	// Spring is called while the controller waits for the response.
	Spring func()

	seen   int
	sprung chan struct{}
}

// NewAudit starts a proxy on loopback that forwards to the Karmada API server with
// the controller's credentials. The proxy adds the credentials because clients send
// a token only over TLS. If the caller does not close the proxy, the bed does.
func (b *Bed) NewAudit() (*Audit, error) {
	config, err := ConfigFrom(b.credentials)
	if err != nil {
		return nil, err
	}
	a, err := newAudit(config)
	if err == nil {
		b.audits = append(b.audits, a)
	}
	return a, err
}

func newAudit(config *rest.Config) (*Audit, error) {
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
	a := &Audit{listener: listener, upstream: &httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // pass on watch events immediately
		ErrorLog:      log.New(io.Discard, "", 0),
	}}
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = a.server.Serve(listener) }() // returns when Close is called
	return a, nil
}

// URL returns the address that the controller uses as its API server.
func (a *Audit) URL() string { return "http://" + a.listener.Addr().String() }

// Close stops the proxy and closes all connections through it.
func (a *Audit) Close() error {
	if err := a.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("closing the audit: %w", err)
	}
	return nil
}

var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// Gate sets a function that sees each request, watches included, before it is
// forwarded. A request that the function responds to itself is neither forwarded nor
// recorded. Set it before the controller starts.
func (a *Audit) Gate(gate http.HandlerFunc) { a.gate = gate }

// ServeHTTP forwards a request and records it if it is a write.
func (a *Audit) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	if a.gate != nil {
		gated := &gated{ResponseWriter: response}
		if a.gate(gated, request); gated.responded {
			return
		}
	}
	verb, isWrite := verbs[request.Method]
	if !isWrite {
		a.upstream.ServeHTTP(response, request)
		return
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the controller died while it was sending
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	written := describe(verb, request.URL.Path, body)
	spring := a.arrived(written)
	if spring == nil {
		a.upstream.ServeHTTP(a.recorder(response, written), request)
		return
	}
	if spring.Forward {
		// The sender dies now, but the write must still go through.
		a.upstream.ServeHTTP(a.recorder(&nowhere{header: http.Header{}}, written), request.WithContext(context.WithoutCancel(request.Context())))
	}
	spring.Spring()
	close(spring.sprung)
	panic(http.ErrAbortHandler) // no response
}

// arrived counts a write for the trap. It returns the trap if the trap fires.
func (a *Audit) arrived(written Write) *Trap {
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

func (a *Audit) note(written Write, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	written.At, written.Status = time.Now(), status
	a.writes = append(a.writes, written)
}

// Set sets a trap. The returned channel is closed when the trap has fired.
func (a *Audit) Set(t *Trap) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.sprung = make(chan struct{})
	a.trap = t
	return t.sprung
}

// Disarm removes the trap and reports whether it has fired or is firing.
func (a *Audit) Disarm() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	fired := a.trap == nil
	a.trap = nil
	return fired
}

// Since returns the writes that were answered at or after a moment and that the
// filter keeps, except writes for leader election. A nil filter keeps all writes.
func (a *Audit) Since(moment time.Time, keep func(Write) bool) []Write {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.writes), func(w Write) bool {
		return w.At.Before(moment) || w.isLease() || keep != nil && !keep(w)
	})
}

// recorder returns a response writer that records a write as soon as its response is
// known.
func (a *Audit) recorder(response http.ResponseWriter, written Write) http.ResponseWriter {
	return &recorder{ResponseWriter: response, answered: func(status int) { a.note(written, status) }}
}

// recorder calls answered before the response is sent, so a caller that has the
// response finds the write in the record.
type recorder struct {
	http.ResponseWriter
	answered func(status int)
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if status >= http.StatusOK { // earlier statuses are not the final response
		r.answered(status)
	}
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets the reverse proxy flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// gated notices a response of the gate.
type gated struct {
	http.ResponseWriter
	responded bool
}

// WriteHeader implements http.ResponseWriter.
func (g *gated) WriteHeader(status int) {
	g.responded = true
	g.ResponseWriter.WriteHeader(status)
}

// nowhere discards the response.
type nowhere struct{ header http.Header }

// Header implements http.ResponseWriter.
func (n *nowhere) Header() http.Header { return n.header }

// Write implements http.ResponseWriter.
func (*nowhere) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements http.ResponseWriter.
func (*nowhere) WriteHeader(int) {}
