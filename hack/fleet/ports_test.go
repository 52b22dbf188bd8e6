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
	"net"
	"path/filepath"
	"slices"
	"testing"
)

func TestChoosePorts(t *testing.T) {
	taken := map[int]bool{}
	busy := func(port int) bool { return port%2 == 1 }
	for range 3 {
		ports, err := choosePorts(100, taken, func(port int) bool { return !busy(port) })
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range ports {
			if taken[port] || busy(port) || port < firstPort || port > lastPort {
				t.Errorf("port %d was not available", port)
			}
			taken[port] = true
		}
	}
}

func TestChoosePortsRunsOut(t *testing.T) {
	_, err := choosePorts(1, nil, func(int) bool { return false })
	checkError(t, err, "only 0 of 1 are free")
}

func TestPortIsFree(t *testing.T) {
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if portIsFree(port) {
		t.Errorf("port %d has a listener, but is reported as free", port)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if !portIsFree(port) {
		t.Errorf("port %d has no listener, but is reported as busy", port)
	}
}

func TestRegistryKeepsFleetsApart(t *testing.T) {
	fleets := registry{path: filepath.Join(t.TempDir(), "fleets")}
	members, err := parseMembers(defaultMembers)
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string) (*State, map[int]bool) {
		var state *State
		var seen map[int]bool
		dir := filepath.Join(t.TempDir(), name)
		err := fleets.add(t.Context(), dir, func(taken map[int]bool) (err error) {
			seen = taken
			state, err = newState(Config{Name: name, Members: members}, dir, builds{}, taken)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return state, seen
	}
	one, seen := add("one")
	if len(seen) != 0 {
		t.Errorf("%d ports are taken for the first fleet, want 0", len(seen))
	}
	two, seen := add("two")
	for _, port := range one.ports() {
		if !seen[port] || slices.Contains(two.ports(), port) {
			t.Errorf("port %d is not reserved for the first fleet", port)
		}
	}
	if err := fleets.remove(t.Context(), one.Dir); err != nil {
		t.Fatal(err)
	}
	if _, seen = add("three"); len(seen) != len(two.ports()) {
		t.Errorf("%d ports are taken, want %d, those of the only remaining fleet", len(seen), len(two.ports()))
	}
}
