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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// upOptions are the flags of `fleet up`.
type upOptions struct {
	dir           string
	config        Config
	keepOnFailure bool
	// explicit says that the user asked for these members and arguments, and
	// would not be served by a fleet that has others.
	explicit bool
}

// up brings a fleet to where all its processes run and all its members are
// registered, whatever is missing for that.
func up(ctx context.Context, options upOptions, out *progress) error {
	if _, err := os.Stat(statePath(options.dir)); errors.Is(err, os.ErrNotExist) {
		if err := create(ctx, options, out); err != nil {
			return err
		}
	}
	state, lock, err := lockState(ctx, options.dir)
	if err != nil {
		return err
	}
	defer lock.release()
	if err := state.accepts(options); err != nil {
		return err
	}
	if !state.isBuilt() { // the user emptied the cache
		built, err := ensureAllBuilt(ctx, state.Config, out)
		if err != nil {
			return err
		}
		state.use(built)
	}
	return state.bringUp(ctx, options.keepOnFailure, out)
}

// create lays out a new fleet in a folder of its own.
func create(ctx context.Context, options upOptions, out *progress) error {
	if err := options.config.validate(); err != nil {
		return err
	}
	if err := claimDir(options.dir); err != nil {
		return err
	}
	built, err := ensureAllBuilt(ctx, options.config, out)
	if err != nil {
		return err
	}
	fleets, err := openRegistry()
	if err != nil {
		return err
	}
	return fleets.add(ctx, options.dir, func(taken map[int]bool) error {
		if _, err := os.Stat(statePath(options.dir)); err == nil {
			return nil // another `up` was faster
		}
		_, err := newState(options.config, options.dir, built, taken)
		return err
	})
}

// claimDir makes the folder of a fleet. One that holds something else is
// refused, because `fleet down` deletes it.
func claimDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("looking into the fleet's folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty and holds no fleet; a fleet needs a folder of its own", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the fleet's folder: %w", err)
	}
	return nil
}

// accepts refuses to call a fleet up that is not the one asked for.
func (s *State) accepts(options upOptions) error {
	if !options.explicit {
		return nil
	}
	asked := options.config
	sameMembers := formatMembers(s.Members) == formatMembers(asked.Members)
	if sameMembers && s.Host == asked.Host && s.ArgoCD == asked.ArgoCD && slices.Equal(s.ComponentArgs, asked.ComponentArgs) {
		return nil
	}
	host := "no host cluster"
	switch {
	case s.ArgoCD:
		host = "a host cluster with Argo CD"
	case s.Host:
		host = "a host cluster"
	}
	return fmt.Errorf("fleet %s exists with members %s, %s and component arguments %s; to change them, end it with `fleet down` first",
		s.Name, formatMembers(s.Members), host, formatComponentArgs(s.ComponentArgs))
}

// bringUp starts what does not run and installs what is not there.
func (s *State) bringUp(ctx context.Context, keepOnFailure bool, out *progress) error {
	if err := s.writeCredentials(); err != nil {
		return err
	}
	steps := out
	if s.complete() {
		steps = out.silent() // the steps only make sure
	}
	for i := range s.Members {
		s.Members[i].Unjoined = false
	}
	out.println("Fleet %s in %s", s.Name, s.Dir)
	started := &startedProcesses{}
	err := runTasks(ctx, append(s.processTasks(s.Processes, started, steps), s.setupTasks(steps)...))
	if err != nil {
		err = fmt.Errorf("bringing up fleet %s: %w", s.Name, err)
		if !keepOnFailure {
			out.println("That failed; ending what was started.")
			err = errors.Join(err, s.stopAll(ctx, started.list, syscall.SIGTERM))
		}
		return err
	}
	s.reportUp(started.list, out)
	return nil
}

// complete tells whether everything runs and all members should be registered.
func (s *State) complete() bool {
	return !slices.ContainsFunc(s.Processes, func(p *Process) bool { return !proc.runs(p.Identity) }) &&
		!slices.ContainsFunc(s.Members, func(m Member) bool { return m.Unjoined })
}

// startedProcesses are those that one call started.
type startedProcesses struct {
	mu   sync.Mutex
	list []*Process
}

func (s *startedProcesses) add(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, p)
}

// processTasks see to it that processes run.
func (s *State) processTasks(processes []*Process, started *startedProcesses, out *progress) []task {
	tasks := make([]task, len(processes))
	for i, p := range processes {
		tasks[i] = task{name: p.Name, needs: p.Needs, run: func(ctx context.Context) error {
			if proc.runs(p.Identity) {
				return failedIf(p, awaitReady(ctx, p, nil))
			}
			started.add(p)
			if err := s.start(ctx, p); err != nil {
				return err
			}
			out.step("%s", p.Name)
			return nil
		}}
	}
	return tasks
}

func failedIf(p *Process, err error) error {
	if err == nil {
		return nil
	}
	return failed(p, err)
}

// setupTasks are what there is to do besides starting processes. Each does
// nothing where it was done before.
func (s *State) setupTasks(out *progress) []task {
	tasks := slices.Concat(s.karmadaTasks(), s.hostTasks(), s.argoCDTasks())
	for _, m := range s.Members {
		tasks = append(tasks, s.memberTasks(m)...)
	}
	for i, t := range tasks {
		tasks[i].run = func(ctx context.Context) error {
			if err := t.run(ctx); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			out.step("%s", t.name)
			return nil
		}
	}
	return tasks
}

// writeCredentials makes certificates and kubeconfigs of control planes that
// have none.
func (s *State) writeCredentials() error {
	contexts := map[string]string{groupKarmada: karmadaContext}
	if s.Host {
		contexts[groupHost] = groupHost
	}
	for _, m := range s.Members {
		contexts[m.Name] = m.Name
	}
	for name, context := range contexts {
		path := s.kubeconfig(name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		pki := filepath.Join(s.Dir, "pki", name)
		if err := writePKI(pki); err != nil {
			return fmt.Errorf("making the certificates of %s: %w", name, err)
		}
		port := s.process(plane{name: name}.apiServer()).Port
		if err := writeKubeconfig(path, pki, context, port); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) reportUp(started []*Process, out *progress) {
	switch len(started) {
	case 0:
		out.println("Fleet %s is up already: nothing had to be started.", s.Name)
	case len(s.Processes):
		out.println("Fleet %s is up after %s.", s.Name, time.Since(out.started).Round(100*time.Millisecond))
	default:
		names := make([]string, len(started))
		for i, p := range started {
			names[i] = p.Name
		}
		out.println("Fleet %s is up again: started %s.", s.Name, strings.Join(names, ", "))
	}
	out.println(`
Try it:
  export PATH=%s:$PATH
  export KUBECONFIG=%s
  kubectl get clusters`, s.Bin, s.kubeconfig(groupKarmada))
	if s.Host {
		out.println("  kubectl --kubeconfig %s get nodes   # the host cluster", s.kubeconfig(groupHost))
	}
	if s.ArgoCD {
		out.println("  kubectl --kubeconfig %s get applications --namespace %s   # Argo CD; the Karmada API server is its cluster %q", s.kubeconfig(groupHost), argoCDNamespace, groupKarmada)
	}
	for _, m := range s.Members {
		out.println("  kubectl --kubeconfig %s get nodes   # %s, %s", s.kubeconfig(m.Name), m.Name, m.Mode)
	}
}
