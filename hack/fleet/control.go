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
	"slices"
	"strings"
	"syscall"
)

// stopNamed stops the named processes and all processes of the named groups.
func stopNamed(ctx context.Context, dir string, names []string, signal syscall.Signal, out *progress) error {
	state, lock, err := lockState(ctx, dir)
	if err != nil {
		return err
	}
	defer lock.release()
	processes, err := selectProcesses(state.Processes, names)
	if err != nil {
		return err
	}
	running := slices.DeleteFunc(processes, func(p *Process) bool { return !proc.runs(p.Identity) })
	if len(running) == 0 {
		out.println("%s: not running.", strings.Join(names, ", "))
		return nil
	}
	if err := state.stopAll(ctx, running, signal); err != nil {
		return err
	}
	for _, p := range running {
		out.println("stopped %s", p.Name)
	}
	return nil
}

// startNamed starts the named processes and all processes of the named groups, with
// their previous ports and data. The extra arguments apply to this start only.
func startNamed(ctx context.Context, dir string, names, extraArgs []string, out *progress) error {
	state, lock, err := lockState(ctx, dir)
	if err != nil {
		return err
	}
	defer lock.release()
	processes, err := selectProcesses(state.Processes, names)
	if err != nil {
		return err
	}
	for _, m := range state.Members {
		if agent := agentOf(m.Name); m.Unjoined && !slices.Contains(names, agent) {
			processes = slices.DeleteFunc(processes, func(p *Process) bool { return p.Name == agent })
		}
	}
	if err := state.checkNeeds(processes); err != nil {
		return err
	}
	for _, p := range processes {
		p.extraArgs = extraArgs
	}
	started := &startedProcesses{}
	if err := runTasks(ctx, state.processTasks(processes, started, out)); err != nil {
		return err
	}
	if len(started.list) == 0 {
		out.println("%s: already running.", strings.Join(names, ", "))
	}
	return nil
}

// checkNeeds returns an error if a process needs another one that is neither running
// nor about to start.
func (s *State) checkNeeds(processes []*Process) error {
	for _, p := range processes {
		for _, need := range p.Needs {
			needed := s.process(need)
			if needed == nil || slices.Contains(processes, needed) || proc.runs(needed.Identity) {
				continue
			}
			return fmt.Errorf("%s needs %s, which is not running; start it too, or start everything with `fleet up`", p.Name, need)
		}
	}
	return nil
}

// join registers a member that was removed from Karmada.
func join(ctx context.Context, dir, name string, out *progress) error {
	state, lock, err := lockState(ctx, dir)
	if err != nil {
		return err
	}
	defer lock.release()
	member, err := state.member(name)
	if err != nil {
		return err
	}
	member.Unjoined = false
	if err := state.save(); err != nil {
		return err
	}
	if err := state.awaitLeft(ctx, *member); err != nil {
		return err
	}
	if agent := state.process(agentOf(name)); agent != nil {
		started := &startedProcesses{}
		if err := runTasks(ctx, state.processTasks([]*Process{agent}, started, out)); err != nil {
			return err
		}
	}
	if err := state.register(ctx, *member); err != nil {
		return err
	}
	out.println("%s is joined and Ready.", name)
	return nil
}

// unjoin removes a member from Karmada. The cluster itself keeps running. The agent
// of a pull member does the cleanup, so it is stopped last.
func unjoin(ctx context.Context, dir, name string, force bool, out *progress) error {
	state, lock, err := lockState(ctx, dir)
	if err != nil {
		return err
	}
	defer lock.release()
	member, err := state.member(name)
	if err != nil {
		return err
	}
	if err := state.unregister(ctx, *member, force); err != nil {
		return err
	}
	member.Unjoined = true
	if err := state.save(); err != nil {
		return err
	}
	if agent := state.process(agentOf(name)); agent != nil {
		if err := state.stop(agent, syscall.SIGTERM); err != nil {
			return err
		}
	}
	out.println("%s is unjoined.", name)
	return nil
}
