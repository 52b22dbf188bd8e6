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
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// newEcho returns a link to a server that sends back what it receives, and a connection
// through the link.
func newEcho(t *testing.T) (*Link, net.Conn) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			connection, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = connection.Close() }()
				_, _ = io.Copy(connection, connection)
			}()
		}
	}()
	link, err := NewLink(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	return link, dial(t, link)
}

func dial(t *testing.T, link *Link) net.Conn {
	t.Helper()
	client, err := net.Dial("tcp", link.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// echo sends bytes and returns how many come back within a limit, after which time, and
// the error that ended the rest.
func echo(t *testing.T, client net.Conn, size int, limit time.Duration) (received int, took time.Duration, err error) {
	t.Helper()
	began := time.Now()
	if err := client.SetDeadline(began.Add(limit)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = client.Write(make([]byte, size)) }()
	received, err = io.ReadFull(client, make([]byte, size))
	return received, time.Since(began), err
}

func TestLink(t *testing.T) {
	const patience = 10 * time.Second
	for name, tc := range map[string]struct {
		state LinkState
		size  int
		least time.Duration
	}{
		"works":          {LinkState{}, 100_000, 0},
		"delays":         {LinkState{Delay: 100 * time.Millisecond, Jitter: 20 * time.Millisecond}, 1, 160 * time.Millisecond},
		"loses packets":  {LinkState{Loss: 1}, 1, 2 * retransmission},
		"limits its use": {LinkState{BytesPerSecond: 100_000}, 50_000, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link, client := newEcho(t)
			link.Becomes(tc.state)
			received, took, err := echo(t, client, tc.size, patience)
			if err != nil || took < tc.least {
				t.Errorf("%d of %d bytes came back after %v, not after at least %v: %v", received, tc.size, took, tc.least, err)
			}
		})
	}
}

func TestLinkIsSilent(t *testing.T) {
	link, client := newEcho(t)
	link.Becomes(LinkState{Silent: true})
	if received, _, err := echo(t, client, 10, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes came back through a silent link: %v", received, err)
	}
	link.Becomes(LinkState{})
	if err := client.SetDeadline(time.Now().Add(Patience)); err != nil {
		t.Fatal(err)
	}
	if received, err := io.ReadFull(client, make([]byte, 10)); err != nil {
		t.Errorf("only %d bytes came back when the link worked again: %v", received, err)
	}
}

func TestLinkForgets(t *testing.T) {
	link, client := newEcho(t)
	if _, _, err := echo(t, client, 10, Patience); err != nil {
		t.Fatal(err)
	}
	link.Forgets()
	if received, _, err := echo(t, client, 10, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes came back through a forgotten connection: %v", received, err)
	}
	if _, _, err := echo(t, dial(t, link), 10, Patience); err != nil {
		t.Errorf("a new connection does not work: %v", err)
	}
}

func TestLinkCutsResponses(t *testing.T) {
	link, client := newEcho(t)
	link.Becomes(LinkState{CutAfter: 10_000})
	received, _, err := echo(t, client, 50_000, Patience)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) || received == 0 || received > 20_000 {
		t.Errorf("%d bytes came back before the connection was cut: %v", received, err)
	}
	if link.Cut() != 1 {
		t.Errorf("%d connections were cut", link.Cut())
	}
}
