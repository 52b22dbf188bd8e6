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
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// loopback is the only address that a fleet listens on.
const loopback = "127.0.0.1"

// Ports are chosen below the range that Linux uses for outgoing connections by
// default (32768 and up). A port in that range could be in use when a stopped
// process needs it again.
const (
	firstPort = 20000
	lastPort  = 32767
)

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

func httpURL(port int, path string) string { return "http://" + address(port) + path }

func httpsURL(port int, path string) string { return "https://" + address(port) + path }

// choosePorts chooses n ports that are free and not taken.
func choosePorts(n int, taken map[int]bool, isFree func(int) bool) ([]int, error) {
	ports := make([]int, 0, n)
	for _, offset := range rand.Perm(lastPort - firstPort + 1) {
		if len(ports) == n {
			break
		}
		if port := firstPort + offset; !taken[port] && isFree(port) {
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("choosing ports: only %d of %d are free between %d and %d", len(ports), n, firstPort, lastPort)
	}
	slices.Sort(ports)
	return ports, nil
}

func portIsFree(port int) bool {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// registry is a file that lists the folders of the user's fleets. A new fleet uses
// it to avoid the ports of fleets whose processes are stopped or about to start.
type registry struct{ path string }

func openRegistry() (registry, error) {
	cache, err := cacheRoot()
	if err != nil {
		return registry{}, err
	}
	return registry{path: filepath.Join(cache, "fleets")}, nil
}

// update locks the registry, passes its folders to change, and writes back what
// change returns.
func (r registry) update(ctx context.Context, change func(dirs []string) ([]string, error)) error {
	lock, err := lockFile(ctx, r.path+".lock")
	if err != nil {
		return err
	}
	defer lock.release()
	data, err := os.ReadFile(r.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the list of fleets: %w", err)
	}
	dirs, err := change(slices.Collect(nonEmptyLines(string(data))))
	if err != nil {
		return err
	}
	return writeFile(r.path, []byte(strings.Join(dirs, "\n")+"\n"), 0o644)
}

// add creates a new fleet on ports that no other fleet uses, and registers its
// folder. It calls create with the registry locked, and create must save the fleet.
func (r registry) add(ctx context.Context, dir string, create func(taken map[int]bool) error) error {
	return r.update(ctx, func(dirs []string) ([]string, error) {
		taken := map[int]bool{}
		known := []string{dir}
		for _, other := range dirs {
			state, err := loadState(other)
			if err != nil || other == dir {
				continue // gone without `fleet down`: drop it
			}
			known = append(known, other)
			for _, port := range state.ports() {
				taken[port] = true
			}
		}
		return known, create(taken)
	})
}

// remove drops a fleet from the registry.
func (r registry) remove(ctx context.Context, dir string) error {
	return r.update(ctx, func(dirs []string) ([]string, error) {
		return slices.DeleteFunc(dirs, func(d string) bool { return d == dir }), nil
	})
}

func nonEmptyLines(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); line != "" && !yield(line) {
				return
			}
		}
	}
}
