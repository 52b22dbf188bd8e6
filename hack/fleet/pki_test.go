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
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A server with the certificates of one control plane is ready only for a client
// that trusts its CA.
func TestReadyCheckVerifiesTheServer(t *testing.T) {
	dir := t.TempDir()
	for _, plane := range []string{"one", "two"} {
		if err := writePKI(filepath.Join(dir, plane)); err != nil {
			t.Fatal(err)
		}
	}
	port := serveTLS(t, filepath.Join(dir, "one"))
	check := func(plane string) error {
		ready, err := newReadyCheck(&Process{Name: plane, ReadyURL: httpsURL(port, "/readyz"), CAFile: filepath.Join(dir, plane, "ca.crt")})
		if err != nil {
			t.Fatal(err)
		}
		return ready(t.Context())
	}
	if err := check("one"); err != nil {
		t.Errorf("with its own CA: %v", err)
	}
	checkError(t, check("two"), "certificate signed by unknown authority")
}

func TestKubeconfigIsComplete(t *testing.T) {
	dir := t.TempDir()
	pki := filepath.Join(dir, "pki")
	if err := writePKI(pki); err != nil {
		t.Fatal(err)
	}
	port := serveTLS(t, pki)
	path := filepath.Join(dir, "member1.kubeconfig")
	if err := writeKubeconfig(path, pki, "member1", port); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := getOK(t.Context(), client, config.Host+"/readyz"); err != nil {
		t.Error(err)
	}
}

func serveTLS(t *testing.T, pki string) (port int) {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(filepath.Join(pki, "server.crt"), filepath.Join(pki, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}
