//go:build faults

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

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// written is a write that a controller sent to the Karmada API server.
type written struct {
	At                              time.Time
	Verb, Resource, Namespace, Name string
	// Status is the answer; Bytes the length of what was sent.
	Status, Bytes int
}

// auditor stands between a controller and the Karmada API server, on
// loopback, and notes every write. It adds the
// controller's credentials.
type auditor struct {
	upstream *httputil.ReverseProxy
	listener net.Listener

	mu  sync.Mutex
	all []written
}

func newAuditor(t *testing.T) *auditor {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	// Clients send their token by TLS alone, so it is added here.
	own, err := clientcmd.BuildConfigFromFlags("", manager.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(own)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &auditor{listener: listener, upstream: &httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches are told at once
		ErrorLog:      log.New(io.Discard, "", 0),
	}}
	server := &http.Server{Handler: a, ReadHeaderTimeout: time.Minute, ErrorLog: a.upstream.ErrorLog}
	go func() { _ = server.Serve(listener) }() // it ends by Close
	t.Cleanup(func() { _ = server.Close() })
	return a
}

// controls is a controller whose requests are noted, not started yet.
func (a *auditor) controls(t *testing.T, name string) *controller {
	t.Helper()
	folder := filepath.Join(ground.root, "bin", "faults")
	content := clientcmdapi.NewConfig()
	content.Clusters["karmada"] = &clientcmdapi.Cluster{Server: "http://" + a.listener.Addr().String()}
	content.Contexts["karmada"] = &clientcmdapi.Context{Cluster: "karmada"}
	content.CurrentContext = "karmada"
	kubeconfig := filepath.Join(folder, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*content, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return &controller{program: manager.program, kubeconfig: kubeconfig, logs: filepath.Join(folder, name+".log")}
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
	recorded := &statusRecorder{ResponseWriter: response}
	a.upstream.ServeHTTP(recorded, request)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, describe(verb, request.URL.Path, body, recorded.status))
}

// since returns the writes since a moment that are not of the lease, and that
// a filter lets pass.
func (a *auditor) since(moment time.Time, keep func(written) bool) []written {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.all), func(w written) bool {
		return w.At.Before(moment) || w.Resource == "leases" || !keep(w)
	})
}

// describe reads from a request what it writes.
func describe(verb, path string, body []byte, status int) written {
	w := written{At: time.Now(), Verb: verb, Status: status, Bytes: len(body)}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 3 // apis/group/version
	if parts[0] == "api" {
		skip = 2
	}
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		w.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		w.Resource = parts[0]
	}
	if len(parts) > 1 {
		w.Name = parts[1]
	}
	if len(parts) > 2 {
		w.Resource += "/" + parts[2]
	}
	if w.Name == "" {
		var named struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if json.Unmarshal(body, &named) == nil { // protobuf hides its name
			w.Name = named.Metadata.Name
		}
	}
	return w
}

func (w written) String() string {
	return fmt.Sprintf("%s %s %s %s/%s → %d", w.At.Format("15:04:05.000"), w.Verb, w.Resource, w.Namespace, w.Name, w.Status)
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
