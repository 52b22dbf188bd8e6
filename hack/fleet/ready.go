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
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// newReadyCheck returns a function that checks once whether a process is ready.
func newReadyCheck(p *Process) (func(context.Context) error, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if p.CAFile != "" {
		ca, err := os.ReadFile(p.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the CA of %s: %w", p.Name, err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("reading the CA of %s: no certificate in %s", p.Name, p.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	const patience = 5 * time.Second
	if server, isRedis := strings.CutPrefix(p.ReadyURL, "redis://"); isRedis {
		return func(ctx context.Context) error { return ping(ctx, server, patience) }, nil
	}
	client := &http.Client{Transport: transport, Timeout: patience}
	return func(ctx context.Context) error { return getOK(ctx, client, p.ReadyURL) }, nil
}

// ping checks whether a redis server accepts commands.
func ping(ctx context.Context, server string, patience time.Duration) error {
	dialer := net.Dialer{Timeout: patience}
	connection, err := dialer.DialContext(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }() // nothing was written that could be lost
	const pong = "+PONG\r\n"
	answer := make([]byte, len(pong))
	_, err = connection.Write([]byte("PING\r\n"))
	if err = errors.Join(err, connection.SetReadDeadline(time.Now().Add(patience))); err == nil {
		_, err = io.ReadFull(connection, answer)
	}
	if err == nil && string(answer) != pong {
		err = fmt.Errorf("%s answers PING with %q", server, answer)
	}
	return err
}

func getOK(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// tail returns the last lines of a log file.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	return "  " + string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n  ")))
}
