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
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// answerProbes answers the probes of the kubelet while there is no manager that does: the
// process is alive, but not ready. Otherwise, the kubelet restarts a process that waits for
// its API server, with a back-off of up to five minutes. The returned function ends this,
// and the manager can then listen on the address.
func answerProbes(ctx context.Context, address string) (end func(), err error) {
	if address == "" || address == "0" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on --health-probe-bind-address %s: %w", address, err)
	}
	answers := http.NewServeMux()
	answers.HandleFunc("/healthz", func(response http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(response, "ok") })
	answers.HandleFunc("/readyz", func(response http.ResponseWriter, _ *http.Request) {
		http.Error(response, "waiting for the Karmada API server", http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: answers, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // it returns when it is closed
	}()
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}
