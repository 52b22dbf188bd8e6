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

// upOptions are the options of `fleet up`.
type upOptions struct {
	dir           string
	config        Config
	keepOnFailure bool
	// explicit means that the user specified the members, clusters or arguments, so
	// that a fleet with others must not be used.
	explicit bool
}

// up starts a fleet completely: it starts missing processes and registers missing
// members.
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
	if !state.isBuilt() { // the user has emptied the cache
		built, err := ensureAllBuilt(ctx, state.Config, out)
		if err != nil {
			return err
		}
		state.use(built)
	}
	return state.bringUp(ctx, options.keepOnFailure, out)
}

// create lays out a new fleet in its own folder.
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

// claimDir creates the folder of a fleet. It refuses a folder with other content,
// because `fleet down` deletes the folder.
func claimDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the fleet's folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty and contains no fleet; a fleet needs its own folder", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the fleet's folder: %w", err)
	}
	return nil
}

// accepts returns an error if the fleet differs from the one that the user asked
// for.
func (s *State) accepts(options upOptions) error {
	if !options.explicit {
		return nil
	}
	asked := options.config
	sameMembers := formatMembers(s.Members) == formatMembers(asked.Members)
	if sameMembers && s.Host == asked.Host && s.ArgoCD == asked.ArgoCD && slices.Equal(s.ComponentArgs, asked.ComponentArgs) && s.KarmadaVersion == asked.KarmadaVersion {
		return nil
	}
	host := "no host cluster"
	switch {
	case s.ArgoCD:
		host = "a host cluster with Argo CD"
	case s.Host:
		host = "a host cluster"
	}
	karmada := "the default version of Karmada"
	if s.KarmadaVersion != "" {
		karmada = "Karmada " + s.KarmadaVersion
	}
	return fmt.Errorf("fleet %s exists with members %s, %s, %s and component arguments %s; to change them, run `fleet down` first",
		s.Name, formatMembers(s.Members), host, karmada, formatComponentArgs(s.ComponentArgs))
}

// bringUp starts what is not running and installs what is missing.
func (s *State) bringUp(ctx context.Context, keepOnFailure bool, out *progress) error {
	if err := s.writeCredentials(); err != nil {
		return err
	}
	steps := out
	if s.complete() {
		steps = out.silent() // the steps only verify
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
			out.println("That failed. Stopping what was started.")
			err = errors.Join(err, s.stopAll(ctx, started.list, syscall.SIGTERM))
		}
		return err
	}
	s.reportUp(started.list, out)
	return nil
}

// complete reports whether all processes are running and all members should be
// registered.
func (s *State) complete() bool {
	return !slices.ContainsFunc(s.Processes, func(p *Process) bool { return !proc.runs(p.Identity) }) &&
		!slices.ContainsFunc(s.Members, func(m Member) bool { return m.Unjoined })
}

// startedProcesses collects the processes that one call has started.
type startedProcesses struct {
	mu   sync.Mutex
	list []*Process
}

func (s *startedProcesses) add(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, p)
}

// processTasks returns the tasks that ensure that processes are running.
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

// setupTasks returns the tasks other than starting processes. They are idempotent.
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

// writeCredentials creates certificates and kubeconfigs for control planes that have
// none.
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
		out.println("Fleet %s is up: nothing had to be started.", s.Name)
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
