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
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// auditOf returns an audit of a server that answers every request with 201, and a
// channel of the writes that reached the server.
func auditOf(t *testing.T) (audit *Audit, reached chan string) {
	t.Helper()
	reached = make(chan string, 500)
	upstream := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		if request.Method != http.MethodGet {
			reached <- request.Method + " " + request.URL.Path
		}
		response.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(upstream.Close)
	audit, err := newAudit(&rest.Config{Host: upstream.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := audit.Close(); err != nil {
			t.Error(err)
		}
	})
	return audit, reached
}

func send(t *testing.T, audit *Audit, method, path, body string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, audit.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		err = response.Body.Close()
	}
	return err
}

const works = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-member1/works"

// Every write is recorded with its resource and its response. Reads and the leader's
// lease are not recorded.
func TestAuditRecordsWrites(t *testing.T) {
	t.Parallel()
	audit, _ := auditOf(t)
	for _, request := range [][3]string{
		{http.MethodGet, works, ""},
		{http.MethodPost, works, `{"metadata":{"name":"web"}}`},
		{http.MethodPatch, works + "/web/status", "{}"},
		{http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/karmada-direct", "{}"},
		{http.MethodPut, "/api/v1/namespaces/shop", "{}"},
	} {
		if err := send(t, audit, request[0], request[1], request[2]); err != nil {
			t.Fatal(err)
		}
	}
	got, want := []string{}, []string{
		"create works karmada-es-member1/web → 201 27", "patch works/status karmada-es-member1/web → 201 2", "update namespaces /shop → 201 2",
	}
	for _, write := range audit.Since(time.Time{}, nil) {
		_, text, _ := strings.Cut(write.String(), " ")
		got = append(got, fmt.Sprintf("%s %d", text, write.Bytes))
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded writes are %q, want %q", got, want)
	}
}

// A caller that has the response to a write finds the write in the record.
func TestAuditRecordsBeforeItAnswers(t *testing.T) {
	t.Parallel()
	audit, _ := auditOf(t)
	for sent := 1; sent <= 300; sent++ {
		if err := send(t, audit, http.MethodPatch, works+"/web/status", "{}"); err != nil {
			t.Fatal(err)
		}
		if recorded := len(audit.Since(time.Time{}, nil)); recorded != sent {
			t.Fatalf("%d writes were answered, but %d were recorded", sent, recorded)
		}
	}
}

// A trap forwards its write and withholds the response.
func TestAuditSpringsATrap(t *testing.T) {
	t.Parallel()
	audit, reached := auditOf(t)
	if err := send(t, audit, http.MethodPost, works, "{}"); err != nil {
		t.Fatal(err)
	}
	moment := time.Now()
	sprung := audit.Set(&Trap{At: 2, Forward: true, Spring: func() {}})
	if err := send(t, audit, http.MethodDelete, works+"/first", ""); err != nil {
		t.Errorf("the write before the trap: %v", err)
	}
	if send(t, audit, http.MethodDelete, works+"/second", "") == nil {
		t.Error("the trapped write was answered")
	}
	<-sprung
	if writes := audit.Since(moment, nil); len(writes) != 2 || writes[1].Name != "second" || !audit.Disarm() {
		t.Errorf("writes since the trap was set: %v", writes)
	}
	if len(reached) != 3 {
		t.Errorf("%d writes reached the server, want 3", len(reached))
	}
}
