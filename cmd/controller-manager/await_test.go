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
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// starting is what an API server answers while it loads its roles.
var starting = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(`user "karmada-direct" cannot get path "/apis": RBAC: clusterrole.rbac.authorization.k8s.io "system:discovery" not found`))

// A process that starts before its API server does waits for it. If it exited, the
// back-off of its restarts would add up to five minutes.
func TestStartWaitsForTheServer(t *testing.T) {
	for name, refusal := range map[string]*apierrors.StatusError{
		"the server loads its roles": starting,
		"the server is overloaded":   apierrors.NewTooManyRequests("try again", 0),
		"etcd is down":               apierrors.NewInternalError(errors.New("etcdserver: request timed out")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused := &atomic.Bool{}
			server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
				if !refused.Swap(true) {
					refuse(response, refusal)
					return
				}
				response.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(response).Encode(metav1.APIResourceList{})
			}))
			t.Cleanup(server.Close)
			if err := awaitAPIs(t.Context(), &rest.Config{Host: server.URL}); err != nil {
				t.Errorf("the process exits: %v", err)
			}
		})
	}
}

// TestProbesAreAnsweredWhileTheServerIsDown: the kubelet restarts a process that does not
// answer, and each time it waits longer before it does.
func TestProbesAreAnsweredWhileTheServerIsDown(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		refuse(response, apierrors.NewServiceUnavailable("down"))
	}))
	t.Cleanup(server.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it returns immediately
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, &rest.Config{Host: server.URL}, &options{healthProbeAddress: address}) }()
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
			if err != nil {
				return false, err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false, nil //nolint:nilerr // nobody listens yet
			}
			return response.StatusCode == want, response.Body.Close()
		})
		if err != nil {
			t.Errorf("%s does not answer %d: %v", path, want, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the process ended with %v", err)
	}
	after, err := net.Listen("tcp", address) //nolint:noctx // it returns immediately
	if err != nil {
		t.Fatalf("the manager could not listen: %v", err)
	}
	_ = after.Close()
}

// refuse answers as an API server does.
func refuse(response http.ResponseWriter, refusal *apierrors.StatusError) {
	status := refusal.ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(int(status.Code))
	_ = json.NewEncoder(response).Encode(status)
}

func TestStartFails(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal *apierrors.StatusError
		want    string
	}{
		"no permission": {apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(`user "nobody" cannot get path "/apis"`)), "for work.karmada.io/v1alpha1"},
		"no such user":  {apierrors.NewUnauthorized("unknown"), "for work.karmada.io/v1alpha1"},
		"no such API":   {apierrors.NewNotFound(schema.GroupResource{}, ""), "does not serve work.karmada.io/v1alpha1"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) { refuse(response, tc.refusal) }))
			t.Cleanup(server.Close)
			if err := awaitAPIs(t.Context(), &rest.Config{Host: server.URL}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("awaitAPIs() = %v, want: %s", err, tc.want)
			}
		})
	}
}

func TestPasses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", listener.Addr().String()); err == nil || !passes(err) { //nolint:noctx // it fails immediately
		t.Errorf("passes(%v) = false", err)
	}
	// A load balancer without a server behind it closes the connection.
	closing := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(closing.Close)
	if _, err := http.Get(closing.URL); err == nil || !passes(err) { //nolint:noctx,bodyclose // it fails immediately
		t.Errorf("passes(%v) = false", err)
	}
	if passes(&net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}) {
		t.Error("a host that does not exist counts as one that is down")
	}
}

// TestLeaseDoesNotWaitInLine: while the API server rejects requests and the controller
// therefore sends nothing, the lease is renewed.
func TestLeaseDoesNotWaitInLine(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if !strings.Contains(request.URL.Path, "/leases/") {
			response.Header().Set("Retry-After", "10")
			response.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(server.Close)
	settings := &options{leaderElect: true, leaseDuration: 15 * time.Second, renewDeadline: 10 * time.Second}
	controller, lease, err := settings.clients(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	get := func(config *rest.Config, path string) error {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	for range 2 {
		if err := get(controller, "/api/v1/configmaps"); err != nil {
			t.Fatal(err)
		}
	}
	if err := get(controller, "/api/v1/configmaps"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request while the API server rejects all requests ends with %v, want it to wait", err)
	}
	if err := get(lease, "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/karmada-direct"); err != nil {
		t.Errorf("the lease waits: %v", err)
	}
}
