//go:build integration

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
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Metrics are served over TLS to clients that the host cluster allows to read them.
// A token of the Karmada API server is not valid there.
func TestSecureMetricsAreReviewedByTheHostCluster(t *testing.T) {
	kubeconfig, karmada := start(t)
	if _, err := call(t, "install-crds", "--kubeconfig", kubeconfig); err != nil {
		t.Fatal(err)
	}
	hostKubeconfig, host := startHost(t)
	address := freeAddress(t)
	ended := make(chan error, 1)
	go func() {
		_, err := call(t, "--kubeconfig", kubeconfig, "--leader-elect=false", "--health-probe-bind-address=0",
			"--metrics-bind-address="+address, "--metrics-secure", "--metrics-host-kubeconfig="+hostKubeconfig)
		ended <- err
	}()
	reader, other, stranger := tokenFor(t, host, "reader"), tokenFor(t, host, "other"), tokenFor(t, karmada, "stranger")
	lets(t, host, "reader")
	lets(t, karmada, "stranger")
	for _, request := range []struct {
		who, token string
		status     int
		body       string
	}{
		{"a reader", reader, http.StatusOK, "go_goroutines"},
		{"somebody without the permission", other, http.StatusForbidden, `user "system:serviceaccount:default:other" must be allowed to get /metrics in the host cluster`},
		{"somebody of the Karmada API server", stranger, http.StatusUnauthorized, "Unauthorized"},
		{"nobody", "", http.StatusUnauthorized, "Unauthorized"},
	} {
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			select {
			case err := <-ended:
				return false, fmt.Errorf("the manager ended by itself: %w", err)
			default:
			}
			status, body, err := scrape("https://"+address, request.token)
			return err == nil && status == request.status && strings.Contains(body, request.body), nil
		})
		if err != nil {
			t.Errorf("%s does not come to get %d with %q: %v", request.who, request.status, request.body, err)
		}
	}
	if status, _, err := scrape("http://"+address, reader); err == nil && status == http.StatusOK {
		t.Error("metrics are served without TLS")
	}
}

func startHost(t *testing.T) (string, client.Client) {
	t.Helper()
	environment := &envtest.Environment{}
	if _, err := environment.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	options := defaultOptions()
	options.kubeconfig = filepath.Join(t.TempDir(), "host.kubeconfig")
	if err := os.WriteFile(options.kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	host, err := options.connect()
	if err != nil {
		t.Fatal(err)
	}
	return options.kubeconfig, host
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func tokenFor(t *testing.T, server client.Client, name string) string {
	t.Helper()
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := server.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := server.SubResource("token").Create(t.Context(), owner, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// lets allows an account to read /metrics.
func lets(t *testing.T, server client.Client, name string) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := server.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func scrape(server, token string) (int, string, error) {
	request, err := http.NewRequest(http.MethodGet, server+"/metrics", http.NoBody) //nolint:noctx // the client has a timeout
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	caller := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it is self-signed
	response, err := caller.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
