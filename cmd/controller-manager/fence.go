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

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// errLeaseExpired is the error of a write that the fence refuses.
var errLeaseExpired = errors.New("the lease of this replica has expired and another replica may be the leader, so this replica writes nothing")

// fence refuses writes while the lease of this replica is expired. A replica that is
// frozen, for example with its node, and continues minutes later does not know yet that
// another one has led since: for a moment, it would go on with what it was about to
// write. The API server rejects most of these writes, because they name the version of
// the object that they replace, but a Work that has been deleted in the meantime would
// be created again.
//
// The fence sees all requests of the replica, and learns about the lease from those that
// renew it.
type fence struct {
	next http.RoundTripper
	*leaseClock
}

// leaseClock knows when the lease of this replica expires. It is shared by all clients of
// the replica.
type leaseClock struct {
	// name of the lease, and how long it is valid after a renewal.
	name     string
	duration time.Duration
	now      func() time.Time
	// base is the path of the API server, which may be behind a path of another server.
	base string

	mu      sync.Mutex
	renewed time.Time
}

// newLeaseClock returns a clock for a lease of the API server that a configuration leads to.
func newLeaseClock(config *rest.Config, duration time.Duration) (*leaseClock, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the URL of the API server: %w", err)
	}
	// As it is stored, so that others know it: in whole seconds.
	duration = duration.Truncate(time.Second)
	return &leaseClock{name: leaseName, duration: duration, now: time.Now, base: strings.TrimSuffix(path.Join("/", server.Path), "/")}, nil
}

// wraps returns a transport with a fence.
func (c *leaseClock) wraps(next http.RoundTripper) http.RoundTripper {
	return &fence{next: next, leaseClock: c}
}

// RoundTrip implements http.RoundTripper.
func (f *fence) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := f.now()
	target := strings.TrimPrefix(request.URL.Path, f.base)
	if !f.isRenewal(request.Method, target) {
		if isFenced(request.Method, target) && f.expired(sent) {
			return nil, errLeaseExpired
		}
		return f.next.RoundTrip(request) //nolint:wrapcheck // a transport passes errors on
	}
	if isRelease(request) {
		f.close()
		return f.next.RoundTrip(request) //nolint:wrapcheck // a transport passes errors on
	}
	response, err := f.next.RoundTrip(request)
	if err == nil && response.StatusCode < http.StatusMultipleChoices {
		f.renew(sent)
	}
	return response, err //nolint:wrapcheck // a transport passes errors on
}

// isRenewal reports whether a request acquires, renews or releases the lease.
func (c *leaseClock) isRenewal(method, target string) bool {
	if !strings.HasPrefix(target, "/apis/"+coordinationv1.GroupName+"/") {
		return false
	}
	return method == http.MethodPut && path.Base(target) == c.name || method == http.MethodPost && path.Base(target) == "leases"
}

// isRelease reports whether a request about the lease gives it back: a lease without a
// holder is free at once.
func isRelease(request *http.Request) bool {
	if request.GetBody == nil {
		return false
	}
	body, err := request.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil || len(content) == 0 {
		return false
	}
	lease := &coordinationv1.Lease{}
	_, _, err = clientgoscheme.Codecs.UniversalDeserializer().Decode(content, nil, lease)
	return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == ""
}

// isFenced reports whether only the leader may make a request. Every replica may read,
// ask for permissions, renew its token, and try to acquire the lease. The Events of the
// core API are those of the election; all others are of another group.
func isFenced(method, target string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	for _, group := range []string{coordinationv1.GroupName, "authorization.k8s.io", "authentication.k8s.io"} {
		if strings.HasPrefix(target, "/apis/"+group+"/") {
			return false
		}
	}
	for _, open := range []string{"/api/v1/namespaces/*/serviceaccounts/*/token", "/api/v1/namespaces/*/events"} {
		if matches, _ := path.Match(open, target); matches {
			return false
		}
	}
	return true
}

// renew records that a renewal that was sent at a moment has succeeded.
func (c *leaseClock) renew(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent.After(c.renewed) {
		c.renewed = sent
	}
}

// close records that this replica gives its lease back.
func (c *leaseClock) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewed = time.Time{}
}

// expired reports whether other replicas may hold the lease at a moment. They wait from
// when they see a renewal, which is later than when it was sent. The clock of the machine
// counts also what the process's own clock leaves out, such as the suspension of the
// machine.
func (c *leaseClock) expired(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.renewed) >= c.duration || now.Round(0).Sub(c.renewed.Round(0)) >= c.duration
}
