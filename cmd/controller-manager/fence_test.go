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
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const (
	leasePath = "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/karmada-direct"
	worksPath = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-member1/works"
)

// server answers every request with a status.
type server struct {
	status  int
	reached []string
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	s.reached = append(s.reached, request.Method+" "+request.URL.Path)
	return &http.Response{StatusCode: s.status, Body: http.NoBody}, nil
}

// fenced is a client behind a fence, whose clock stands still.
type fenced struct {
	*testing.T
	server *server
	clock  *leaseClock
	now    time.Time
	url    string
}

func newFenced(t *testing.T) *fenced {
	t.Helper()
	return newFencedAt(t, "http://karmada")
}

// newFencedAt returns a client of an API server with a URL.
func newFencedAt(t *testing.T, url string) *fenced {
	t.Helper()
	return newFencedFor(t, url, 15*time.Second)
}

func newFencedFor(t *testing.T, url string, duration time.Duration) *fenced {
	t.Helper()
	clock, err := newLeaseClock(&rest.Config{Host: url}, duration)
	if err != nil {
		t.Fatal(err)
	}
	f := &fenced{T: t, server: &server{status: http.StatusOK}, clock: clock, now: time.Now(), url: url}
	f.clock.now = func() time.Time { return f.now }
	return f
}

// send sends a request and reports whether it reached the server.
func (f *fenced) send(method, path string) bool {
	f.Helper()
	return f.sendBody(method, path, nil)
}

func (f *fenced) sendBody(method, path string, body []byte) bool {
	f.Helper()
	request, err := http.NewRequestWithContext(f.Context(), method, strings.TrimSuffix(f.url, "/")+path, bytes.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	before := len(f.server.reached)
	response, err := f.clock.wraps(f.server).RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	reached := len(f.server.reached) > before
	if refused := errors.Is(err, errLeaseExpired); refused == reached {
		f.Fatalf("%s %s: refused: %t, reached the server: %t", method, path, refused, reached)
	}
	return reached
}

func TestWritesNeedTheLease(t *testing.T) {
	f := newFenced(t)
	if f.send(http.MethodPost, worksPath) {
		t.Error("a replica writes that has never held the lease")
	}
	f.send(http.MethodPut, leasePath)
	f.now = f.now.Add(14 * time.Second)
	if !f.send(http.MethodPost, worksPath) {
		t.Error("the leader cannot write")
	}
	f.now = f.now.Add(time.Second)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if f.send(method, worksPath) {
			t.Errorf("%s passes, although the lease has expired", method)
		}
	}
	f.send(http.MethodPut, leasePath)
	if !f.send(http.MethodDelete, worksPath+"/web") {
		t.Error("a leader cannot write after it has renewed its lease")
	}
}

func TestEveryReplicaMayReadAndAskAndElect(t *testing.T) {
	f := newFenced(t)
	for _, request := range [][2]string{
		{http.MethodGet, worksPath},
		{http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews"},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews"},
		{http.MethodPost, "/api/v1/namespaces/karmada-system/serviceaccounts/karmada-direct/token"},
		{http.MethodPost, "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases"},
		{http.MethodPut, leasePath},
	} {
		f.clock.renewed = time.Time{}
		if !f.send(request[0], request[1]) {
			t.Errorf("%v is refused", request)
		}
	}
}

func TestRenewalThatFailsKeepsNothingOpen(t *testing.T) {
	f := newFenced(t)
	f.server.status = http.StatusConflict
	f.send(http.MethodPut, leasePath)
	if f.send(http.MethodPost, worksPath) {
		t.Error("a replica writes whose renewal was rejected")
	}
	f.server.status = http.StatusOK
	f.send(http.MethodPut, leasePath+"-of-others")
	if f.send(http.MethodPost, worksPath) {
		t.Error("a replica writes because of another lease")
	}
}

// A lease is stored with whole seconds, so another replica takes over after 15 s.
func TestFenceKnowsTheStoredDuration(t *testing.T) {
	f := newFencedFor(t, "http://karmada", 15*time.Second+900*time.Millisecond)
	f.send(http.MethodPut, leasePath)
	f.now = f.now.Add(15 * time.Second)
	if f.send(http.MethodPost, worksPath) {
		t.Error("a replica writes while another one may lead")
	}
}

// The API server refuses a lease of no seconds, so no replica would ever become the leader.
func TestLeaseOfLessThanASecondIsRejected(t *testing.T) {
	options := defaultOptions()
	options.leaseDuration, options.renewDeadline, options.retryPeriod = 900*time.Millisecond, 500*time.Millisecond, 100*time.Millisecond
	want := "--leader-elect-lease-duration=900ms: must be at least 1s"
	if err := options.validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	options.leaseDuration = time.Second
	if err := options.validate(); err != nil {
		t.Error(err)
	}
}

// A replica that gives its lease back is not the leader any more, and may still report
// that.
func TestReleaseClosesTheFence(t *testing.T) {
	for encoding, serializer := range map[string]runtime.Serializer{
		"JSON":     json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, nil, json.SerializerOptions{}),
		"Protobuf": protobuf.NewSerializer(nil, nil),
	} {
		f := newFenced(t)
		put := func(holder *string) {
			lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: holder, LeaseDurationSeconds: ptr.To(int32(1))}}
			lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
			body, err := runtime.Encode(serializer, lease)
			if err != nil {
				t.Fatal(err)
			}
			f.sendBody(http.MethodPut, leasePath, body)
		}
		put(ptr.To("replica-1"))
		if !f.send(http.MethodPost, worksPath) {
			t.Errorf("%s: the leader cannot write", encoding)
		}
		put(nil)
		if f.send(http.MethodPost, worksPath) {
			t.Errorf("%s: a replica writes after it has released the lease", encoding)
		}
		if !f.send(http.MethodPost, "/api/v1/namespaces/karmada-system/events") {
			t.Errorf("%s: no Event can say that the replica leads no more", encoding)
		}
	}
}

// Only a request for a token passes the fence, and not a request about something that
// is called token.
func TestNameOfAnObjectOpensNoFence(t *testing.T) {
	f := newFenced(t)
	for _, path := range []string{
		"/apis/propagation.karmada-direct.io/v1alpha1/namespaces/shop/directpropagations/token",
		"/apis/propagation.karmada-direct.io/v1alpha1/clusterdirectpropagations/token",
		"/api/v1/namespaces/shop/configmaps/token",
		"/api/v1/namespaces/shop/serviceaccounts/token",
	} {
		if f.send(http.MethodPut, path) {
			t.Errorf("a replica without the lease updates %s", path)
		}
	}
}

// The API server may be behind a path of another server, for example of a proxy.
func TestFenceOfServerBehindAPath(t *testing.T) {
	for _, url := range []string{"https://proxy/", "https://proxy/clusters/karmada", "https://proxy/apis/authorization.k8s.io/"} {
		f := newFencedAt(t, url)
		if f.send(http.MethodPost, worksPath) {
			t.Errorf("%s: a replica writes that has never held the lease", url)
		}
		if !f.send(http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews") {
			t.Errorf("%s: a replica may not ask for permissions", url)
		}
		if !f.send(http.MethodPut, leasePath) {
			t.Fatalf("%s: a replica cannot acquire the lease", url)
		}
		if !f.send(http.MethodPost, worksPath) {
			t.Errorf("%s: the leader cannot write", url)
		}
	}
}
