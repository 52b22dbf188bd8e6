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
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// pollInterval is how often a condition that cannot be watched is checked.
	pollInterval = 50 * time.Millisecond
	// readyTimeout is how long a process may take to become ready on a busy machine.
	readyTimeout = 2 * time.Minute
	// stopTimeout is how long a process may take to exit after a signal.
	stopTimeout = 10 * time.Second
)

// processError names the process that failed and contains the end of its log.
type processError struct {
	name string
	log  string
	tail string
	err  error
}

func (e *processError) Error() string {
	return fmt.Sprintf("%s: %v\nthe end of its log, %s:\n%s", e.name, e.err, e.log, e.tail)
}

func (e *processError) Unwrap() error { return e.err }

func failed(p *Process, err error) error {
	return &processError{name: p.Name, log: p.Log, tail: tail(p.Log, 20), err: err}
}

// start starts a process that is not running and waits until it is ready.
func (s *State) start(ctx context.Context, p *Process) error {
	exited, err := s.launch(ctx, p)
	if err != nil {
		return failed(p, fmt.Errorf("starting: %w", err))
	}
	if err := awaitReady(ctx, p, exited); err != nil {
		return failed(p, err)
	}
	return nil
}

// launch starts a process in its own session, so that it outlives this program and
// its terminal. The channel receives the result when the process ends.
func (s *State) launch(ctx context.Context, p *Process) (<-chan error, error) {
	if err := os.MkdirAll(filepath.Dir(p.Log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own handle
	fmt.Fprintf(log, "=== %s: fleet starts %s\n", time.Now().Format(time.RFC3339), p.Name)

	cmd := s.command(context.WithoutCancel(ctx), p.Program, slices.Concat(p.Args, p.extraArgs)...)
	cmd.Env = append(cmd.Env, p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	identity, err := proc.identify(cmd.Process.Pid)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	if err := s.setIdentity(p, identity); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	return exited, nil
}

// command returns a command for a program of the fleet. Its environment is minimal:
// the user's kubeconfigs and caches must not affect a fleet.
func (s *State) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.program(program), args...)
	cmd.Dir = s.Dir
	cmd.Env = []string{"HOME=" + s.Dir, "PATH=" + s.path(), "TMPDIR=" + s.Dir}
	return cmd
}

// awaitReady waits until a process reports that it is ready. It fails immediately if
// the process ends.
func awaitReady(ctx context.Context, p *Process, exited <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	check, err := newReadyCheck(p)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		notReady := check(ctx)
		if notReady == nil {
			return nil
		}
		select {
		case err := <-exited:
			return fmt.Errorf("exited before it was ready: %s", exitReason(err))
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not ready after %s: %w", readyTimeout, notReady)
			}
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func exitReason(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// stop ends a process with the given signal, and kills it if that does not help. A
// process that is gone, or whose ID now belongs to another process, is left alone.
func (s *State) stop(p *Process, signal syscall.Signal) error {
	if p.Identity == nil {
		return nil
	}
	for _, sig := range []syscall.Signal{signal, syscall.SIGKILL} {
		err := proc.signal(p.Identity, sig)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("%s: sending %s to process %d: %w", p.Name, sig, p.Identity.PID, err)
		}
		if err != nil || awaitEnd(p.Identity) {
			return s.setIdentity(p, nil)
		}
	}
	return fmt.Errorf("%s: process %d does not exit", p.Name, p.Identity.PID)
}

// awaitEnd reports whether a process ends within stopTimeout.
func awaitEnd(id *Identity) bool {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	deadline := time.After(stopTimeout)
	for proc.runs(id) {
		select {
		case <-deadline:
			return false
		case <-ticker.C:
		}
	}
	return true
}
