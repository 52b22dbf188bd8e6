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
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// Link is the network between clients and a server: a proxy on loopback that passes on
// TCP connections, and that can do so badly.
type Link struct {
	target   string
	listener net.Listener

	mu      sync.Mutex
	state   LinkState
	changed chan struct{} // closed and replaced whenever the state changes
	pairs   map[*pair]bool
	cut     int
}

// LinkState is how well a link works. The zero value is a link that works.
type LinkState struct {
	// Everything takes Delay, plus or minus a random part of Jitter, and stays in order.
	Delay, Jitter time.Duration
	// Loss is the share of packets that are lost, from 0 to 1. TCP sends them again after
	// a while, and holds back what follows them.
	Loss float64
	// BytesPerSecond limits each direction of a connection, unless it is 0.
	BytesPerSecond int
	// Silent means that nothing arrives, and connections stay open. What was sent in the
	// meantime arrives when this ends.
	Silent bool
	// CutAfter resets a connection after this number of bytes from the server, in the
	// middle of a response, unless it is 0.
	CutAfter int
}

const (
	// retransmission is the time after which TCP sends a lost packet again.
	retransmission = 200 * time.Millisecond
	// packet is how much a link passes on at once, in bytes.
	packet = 4096
	// inFlight is how many packets of a connection a link holds.
	inFlight = 256
)

// NewLink returns a link to a server at a host and port. Close ends it.
func NewLink(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the clients of %s: %w", target, err)
	}
	l := &Link{target: target, listener: listener, changed: make(chan struct{}), pairs: map[*pair]bool{}}
	go l.serve()
	return l, nil
}

// LinkTo returns a link to the API server of a kubeconfig, and writes a copy of the
// kubeconfig that leads through it.
func (b *Bed) LinkTo(name, kubeconfig string) (link *Link, through string, err error) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	server, err := url.Parse(cluster.Server)
	if err != nil {
		return nil, "", fmt.Errorf("reading the address in the kubeconfig %s: %w", kubeconfig, err)
	}
	if link, err = NewLink(server.Host); err != nil {
		return nil, "", err
	}
	cluster.Server = "https://" + link.Address()
	through = b.File(name + ".kubeconfig")
	if err := clientcmd.WriteToFile(*config, through); err != nil {
		return nil, "", errors.Join(fmt.Errorf("writing the kubeconfig %s: %w", through, err), link.Close())
	}
	return link, through, nil
}

// Address returns the host and port for clients.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Becomes changes how well the link works.
func (l *Link) Becomes(state LinkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	l.change()
}

// Forgets makes all connections silent forever, as a gateway does that loses its table
// of connections. New connections work.
func (l *Link) Forgets() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.forgotten = true
	}
	l.change()
}

// change wakes those that wait. The caller must hold the lock.
func (l *Link) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Cut returns the number of connections that were reset because of CutAfter.
func (l *Link) Cut() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// Close ends the link and its connections.
func (l *Link) Close() error {
	err := l.listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.close()
	}
	if err != nil {
		return fmt.Errorf("closing the link to %s: %w", l.target, err)
	}
	return nil
}

func (l *Link) serve() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // it is closed
		}
		go l.connect(client)
	}
}

func (l *Link) connect(client net.Conn) {
	server, err := net.Dial("tcp", l.target) //nolint:noctx // on loopback, it succeeds or fails immediately
	if err != nil {
		_ = client.Close()
		return
	}
	p := &pair{link: l, client: client, server: server, ended: make(chan struct{})}
	l.mu.Lock()
	l.pairs[p] = true
	l.mu.Unlock()
	go p.carry(client, server, nil)
	p.carry(server, client, new(int))
	l.mu.Lock()
	delete(l.pairs, p)
	l.mu.Unlock()
}

// pair is one connection: that of the client, and that to the server.
type pair struct {
	link           *Link
	client, server net.Conn
	once           sync.Once
	ended          chan struct{}
	// forgotten is guarded by the lock of the link.
	forgotten bool
}

func (p *pair) close() {
	p.once.Do(func() {
		close(p.ended)
		_, _ = p.client.Close(), p.server.Close()
	})
}

// piece is what was read from one side; end means that the side has closed.
type piece struct {
	data []byte
	due  time.Time
	end  bool
}

// carry passes on what one side sends. If answered is not nil, it counts the bytes.
func (p *pair) carry(from, to net.Conn, answered *int) {
	pieces := make(chan piece, inFlight)
	go p.read(from, pieces)
	for {
		select {
		case one := <-pieces:
			if !p.await(one.due) || !p.write(one, to, answered) {
				p.close()
				return
			}
		case <-p.ended:
			return
		}
	}
}

func (p *pair) read(from net.Conn, pieces chan<- piece) {
	last := time.Now()
	for {
		buffer := make([]byte, packet)
		size, err := from.Read(buffer)
		one := piece{data: buffer[:size], due: p.link.due(last, size), end: err != nil}
		last = one.due
		select {
		case pieces <- one:
		case <-p.ended:
			return
		}
		if err != nil {
			return
		}
	}
}

// due returns when data that was just sent arrives, after what was sent before it.
func (l *Link) due(last time.Time, size int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.state
	at := time.Now().Add(state.Delay)
	if state.Jitter > 0 {
		at = at.Add(rand.N(2*state.Jitter) - state.Jitter)
	}
	if state.Loss > 0 && rand.Float64() < state.Loss {
		at = at.Add(retransmission)
	}
	if at.Before(last) {
		at = last
	}
	if state.BytesPerSecond > 0 {
		at = at.Add(time.Duration(size) * time.Second / time.Duration(state.BytesPerSecond))
	}
	return at
}

// await waits until data is due and the link is not silent. It reports whether the
// connection still exists.
func (p *pair) await(due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ended:
		return false
	}
	for {
		p.link.mu.Lock()
		silent, changed := p.link.state.Silent || p.forgotten, p.link.changed
		p.link.mu.Unlock()
		if !silent {
			return true
		}
		select {
		case <-changed:
		case <-p.ended:
			return false
		}
	}
}

// write passes on data, and reports whether the connection goes on.
func (p *pair) write(one piece, to net.Conn, answered *int) bool {
	if answered != nil && p.link.cuts(answered, len(one.data)) {
		_, _ = to.Write(one.data[:len(one.data)/2])
		if tcp, ok := to.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the client receives a reset
		}
		return false
	}
	_, err := to.Write(one.data)
	return err == nil && !one.end
}

// cuts counts what the server sends, and reports whether to cut the connection now.
func (l *Link) cuts(answered *int, size int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	*answered += size
	if l.state.CutAfter == 0 || *answered < l.state.CutAfter || size == 0 {
		return false
	}
	l.cut++
	return true
}
