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
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// State is a fleet as `fleet up` created it. It is stored as fleet.json in the
// fleet's folder and contains everything that the other commands need.
type State struct {
	Config
	Dir string `json:"dir"`
	// Bin is the folder of the programs, and Manifests that of the objects to install.
	Bin       string `json:"bin"`
	Manifests string `json:"manifests"`
	// ArgoCDBuild is set if the fleet has Argo CD.
	ArgoCDBuild *Build     `json:"argoCDBuild,omitempty"`
	Processes   []*Process `json:"processes"`

	mu sync.Mutex // guards process identities and saving
}

var errNoFleet = errors.New("no fleet found; start one with `fleet up`")

func statePath(dir string) string { return filepath.Join(dir, "fleet.json") }

// newState lays out a fleet and saves it without starting anything.
func newState(config Config, dir string, built builds, taken map[int]bool) (*State, error) {
	// The first layout only counts the ports.
	count := 0
	if _, err := topology(config, dir, func() int { count++; return count }); err != nil {
		return nil, err
	}
	ports, err := choosePorts(count, taken, portIsFree)
	if err != nil {
		return nil, err
	}
	processes, err := topology(config, dir, func() int {
		port := ports[0]
		ports = ports[1:]
		return port
	})
	if err != nil {
		return nil, err
	}
	state := &State{Config: config, Dir: dir, Processes: processes}
	state.use(built)
	return state, state.save()
}

// use makes the fleet run the given builds.
func (s *State) use(built builds) {
	s.Bin, s.Manifests, s.ArgoCDBuild = built.fleet.Bin, built.fleet.Manifests, built.argoCD
}

// isBuilt reports whether the fleet's programs still exist.
func (s *State) isBuilt() bool {
	if _, err := os.Stat(s.Bin); err != nil {
		return false
	}
	if s.ArgoCDBuild == nil {
		return true
	}
	_, err := os.Stat(s.ArgoCDBuild.Bin)
	return err == nil
}

func loadState(dir string) (*State, error) {
	data, err := os.ReadFile(statePath(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, errNoFleet)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the fleet's state: %w", err)
	}
	state := &State{}
	if err := json.Unmarshal(data, state); err != nil {
		return nil, fmt.Errorf("reading the fleet's state from %s: %w", statePath(dir), err)
	}
	return state, nil
}

// lockState locks and loads the state of a fleet for a command that changes it. Only
// one such command runs at a time. The caller must release the lock.
func lockState(ctx context.Context, dir string) (*State, *fileLock, error) {
	lock, err := lockDir(ctx, dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s: %w", dir, errNoFleet)
	}
	if err != nil {
		return nil, nil, err
	}
	state, err := loadState(dir)
	if err != nil {
		lock.release()
		return nil, nil, err
	}
	return state, lock, nil
}

func (s *State) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(statePath(s.Dir), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("saving the fleet's state: %w", err)
	}
	return nil
}

// setIdentity records the identity of p's process and saves it immediately, so that
// the process can be found even if this program dies.
func (s *State) setIdentity(p *Process, identity *Identity) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Identity = identity
	return s.save()
}

func (s *State) ports() []int {
	var ports []int
	for _, p := range s.Processes {
		ports = append(append(ports, p.Port), p.OtherPorts...)
	}
	return ports
}

func (s *State) process(name string) *Process {
	if i := slices.IndexFunc(s.Processes, func(p *Process) bool { return p.Name == name }); i >= 0 {
		return s.Processes[i]
	}
	return nil
}

func (s *State) member(name string) (*Member, error) {
	for i := range s.Members {
		if s.Members[i].Name == name {
			return &s.Members[i], nil
		}
	}
	return nil, fmt.Errorf("fleet %s has no member %q, only %s", s.Name, name, formatMembers(s.Members))
}

// kubeconfig returns the path of the admin kubeconfig of Karmada or of a member.
func (s *State) kubeconfig(plane string) string { return kubeconfigPath(s.Dir, plane) }

// program returns the path of a program in one of the fleet's folders, or just the
// name of a program that the machine provides.
func (s *State) program(name string) string {
	switch {
	case slices.Contains(machinePrograms, name):
		return name
	case s.ArgoCDBuild != nil && slices.Contains(argoCDRecipes[0].links, name):
		return filepath.Join(s.ArgoCDBuild.Bin, name)
	default:
		return filepath.Join(s.Bin, name)
	}
}

// path returns the PATH of the fleet's processes.
func (s *State) path() string {
	if !s.ArgoCD {
		return s.Bin
	}
	return s.Bin + string(filepath.ListSeparator) + os.Getenv("PATH") // for git
}
