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

package apiserver_test

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
)

// waiting returns a clientset whose requests wait, on a server with a namespace.
func waiting(t *testing.T) (*apiserver.Server, *kubernetes.Clientset) {
	t.Helper()
	server := newServer(t)
	create(t, clientOf(t, server, "user"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	set, err := kubernetes.NewForConfig(server.Config("controller"))
	if err != nil {
		t.Fatal(err)
	}
	return server, set
}

// creating creates a ConfigMap, and sends the result.
func creating(ctx context.Context, set *kubernetes.Clientset, name string) <-chan error {
	result := make(chan error, 1)
	go func() {
		_, err := set.CoreV1().ConfigMaps("shop").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		result <- err
	}()
	return result
}

// only returns the one request that waits.
func only(t *testing.T, server *apiserver.Server) *apiserver.Call {
	t.Helper()
	synctest.Wait()
	pending := server.Pending()
	if len(pending) != 1 {
		t.Fatalf("%d requests wait: %v", len(pending), pending)
	}
	return pending[0]
}

func exists(t *testing.T, server *apiserver.Server, name string) bool {
	t.Helper()
	err := clientOf(t, server, "user").Get(t.Context(), keyOf(name), &corev1.ConfigMap{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestDecisions makes every decision about a request once.
func TestDecisions(t *testing.T) {
	t.Parallel()
	for name, decision := range map[string]struct {
		decide func(*apiserver.Call) bool
		is     func(error) bool
		exists bool
	}{
		"serve": {decide: (*apiserver.Call).Serve, is: func(err error) bool { return err == nil }, exists: true},
		"refuse": {
			decide: func(c *apiserver.Call) bool {
				return c.Refuse(apierrors.NewConflict(c.GroupResource(), "web", errors.New("no")))
			},
			is: apierrors.IsConflict,
		},
		"drop":           {decide: (*apiserver.Call).Drop, is: func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		"serve and drop": {decide: (*apiserver.Call).ServeAndDrop, is: func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }, exists: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, set := waiting(t)
				result := creating(t.Context(), set, "web")
				call := only(t, server)
				if want := "controller create configmaps shop/"; call.String() != want {
					t.Errorf("the request is %q, want %q", call, want)
				}
				if exists(t, server, "web") {
					t.Error("the request took effect before the decision")
				}
				if !decision.decide(call) {
					t.Error("the request did not wait")
				}
				if err := <-result; !decision.is(err) {
					t.Errorf("the client got %v", err)
				}
				if exists(t, server, "web") != decision.exists {
					t.Errorf("the ConfigMap exists: %t", !decision.exists)
				}
				if decision.decide(call) {
					t.Error("the request was decided twice")
				}
			})
		})
	}
}

// TestRefusalWithDelay expects the client to repeat a request by itself.
func TestRefusalWithDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, set := waiting(t)
		result, began := creating(t.Context(), set, "web"), time.Now()
		only(t, server).Refuse(apierrors.NewTooManyRequests("busy", 7))
		<-time.After(7 * time.Second)
		only(t, server).Serve()
		if err := <-result; err != nil {
			t.Error(err)
		}
		if waited := time.Since(began); waited != 7*time.Second {
			t.Errorf("the client waited for %v, want 7s", waited)
		}
	})
}

// TestCancel expects a canceled request to wait no longer, and a decided one to be
// answered although it is canceled.
func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, set := waiting(t)
		ctx, cancel := context.WithCancel(t.Context())
		first := creating(ctx, set, "first")
		call := only(t, server)
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the client got %v", err)
		}
		if call.Serve() || len(server.Pending()) > 0 || exists(t, server, "first") {
			t.Error("the canceled request took effect")
		}
		ctx, cancel = context.WithCancel(t.Context())
		second := creating(ctx, set, "second")
		only(t, server).Serve()
		cancel()
		if err := <-second; err != nil {
			t.Errorf("the client got %v", err)
		}
	})
}

// TestOrder expects requests in an order that does not depend on when they came.
func TestOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, set := waiting(t)
		for _, name := range []string{"c", "a", "b"} {
			creating(t.Context(), set, name)
			synctest.Wait()
			go func() {
				_, _ = set.CoreV1().ConfigMaps("shop").Get(t.Context(), name, metav1.GetOptions{ResourceVersion: "0"})
			}()
		}
		synctest.Wait()
		got := []string{}
		for _, call := range server.Pending() {
			got = append(got, call.String())
		}
		create, get := "controller create configmaps shop/", "controller get configmaps shop/"
		want := []string{create, create, create, get + "a ?resourceVersion=0", get + "b ?resourceVersion=0", get + "c ?resourceVersion=0"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		server.Pending()[0].Serve()
		if !exists(t, server, "a") {
			t.Error("the bodies of requests do not count")
		}
		server.Close()
	})
}

// TestServeStale reads the past.
func TestServeStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, set := waiting(t)
		before := server.ResourceVersion()
		create(t, clientOf(t, server, "user"), configMapOf("web"))
		for _, read := range []struct {
			version string
			stale   bool
		}{{"0", true}, {"", false}} {
			result := make(chan int, 1)
			go func() {
				list, err := set.CoreV1().ConfigMaps("shop").List(t.Context(), metav1.ListOptions{ResourceVersion: read.version})
				if err != nil {
					t.Error(err)
				}
				result <- len(list.Items)
			}()
			call := only(t, server)
			if call.MayBeStale() != read.stale {
				t.Errorf("a list with the resourceVersion %q may be stale: %t", read.version, !read.stale)
			}
			call.ServeStale(before)
			if found := <-result; (found == 0) != read.stale {
				t.Errorf("a list with the resourceVersion %q has %d items", read.version, found)
			}
		}
	})
}

// TestClose expects nothing to wait after the end.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, set := waiting(t)
		first := creating(t.Context(), set, "first")
		synctest.Wait()
		server.Close()
		for _, result := range []<-chan error{first, creating(t.Context(), set, "second")} {
			if err := <-result; !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("the client got %v", err)
			}
		}
		create(t, clientOf(t, server, "user"), configMapOf("third"))
	})
}

// TestDeny takes permissions away from one client.
func TestDeny(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	resource := apiserver.Request{Resource: "configmaps"}
	server.Deny("controller", resource.GroupResource(), "list", "get")
	denied, other := clientOf(t, server, "controller"), clientOf(t, server, "user")
	err := denied.List(t.Context(), &corev1.ConfigMapList{})
	if want := `configmaps is forbidden: User "controller" cannot list resource "configmaps" in API group "" at the cluster scope`; !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("the denied client got %v, want %s", err, want)
	}
	err = denied.Get(t.Context(), keyOf("web"), &corev1.ConfigMap{})
	if want := `configmaps "web" is forbidden: User "controller" cannot get resource "configmaps" in API group "" in the namespace "shop"`; err == nil || err.Error() != want {
		t.Errorf("the denied client got %v, want %s", err, want)
	}
	if err := other.List(t.Context(), &corev1.ConfigMapList{}); err != nil {
		t.Errorf("the other client got %v", err)
	}
	server.Allow("controller", resource.GroupResource(), "list")
	if err := denied.List(t.Context(), &corev1.ConfigMapList{}); err != nil {
		t.Errorf("the client that is allowed got %v", err)
	}
}

// TestServerSideApply expects it to be refused.
func TestServerSideApply(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s := newTranscript(t, &http.Client{Transport: server.Immediate("user")}, "http://simulated")
	code, answer := s.ask(&step{method: http.MethodPatch, as: "application/apply-patch+yaml", path: maps + "/web", body: configMap(`"name":"web"`, "")})
	if code != http.StatusUnsupportedMediaType {
		t.Errorf("%d %s", code, answer)
	}
}

// TestDelay: a request that seems to have failed takes effect later, once.
func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, set := waiting(t)
		result := creating(t.Context(), set, "web")
		call := only(t, server)
		arrive := call.Delay()
		if err := <-result; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client got %v", err)
		}
		if exists(t, server, "web") {
			t.Error("the request took effect at once")
		}
		if call.Delay() != nil {
			t.Error("the request was delayed twice")
		}
		if arrive(); !exists(t, server, "web") {
			t.Error("the request took no effect")
		}
	})
}
