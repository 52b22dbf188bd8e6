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
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// controller is a controller-manager that runs in the background. It is stored in a
// file between calls of this program.
type controller struct {
	// PID, StartTime and Boot together identify a process. A process ID alone is
	// reused.
	PID       int    `json:"pid"`
	StartTime string `json:"startTime"`
	Boot      string `json:"boot"`
	// Program is the hash of the running program.
	Program string `json:"program"`
	Health  string `json:"health"`
	Metrics string `json:"metrics"`
}

func (f *fleet) controllerProgram() string { return filepath.Join(f.dir, "controller-manager") }
func (f *fleet) controllerState() string   { return filepath.Join(f.dir, "controller-manager.json") }
func (f *fleet) controllerLog() string {
	return filepath.Join(f.dir, "logs", "controller-manager.log")
}

// compileController starts to compile the controller. useController waits for the
// result. The compiler flags are those of "go run", so that nothing is compiled
// twice.
func (f *fleet) compileController(ctx context.Context) {
	compiled := make(chan error, 1)
	f.compiled = compiled
	go func() { compiled <- machine.BuildController(ctx, f.root, f.compiledController(), "-ldflags=-s -w") }()
}

func (f *fleet) compiledController() string {
	return filepath.Join(f.root, "bin", "demo", "controller-manager")
}

// useController waits for the compiled controller and copies it to the fleet's
// folder, so that other builds do not disturb a running demo.
func (f *fleet) useController() error {
	if err := <-f.compiled; err != nil {
		return err
	}
	program, err := os.ReadFile(f.compiledController())
	if err != nil {
		return fmt.Errorf("reading the controller: %w", err)
	}
	// Renaming does not disturb a running program.
	beside := f.controllerProgram() + ".new"
	if err := os.WriteFile(beside, program, 0o755); err != nil {
		return fmt.Errorf("copying the controller: %w", err)
	}
	return os.Rename(beside, f.controllerProgram())
}

// installCRDs makes the controller program install its CRDs.
func (f *fleet) installCRDs(ctx context.Context, out *printer) error {
	out.line("$ controller-manager install-crds --kubeconfig %s", f.kubeconfig(karmada))
	command := exec.CommandContext(ctx, f.controllerProgram(), "install-crds", "--kubeconfig", f.kubeconfig(karmada))
	command.Dir = f.root
	said, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("installing the CustomResourceDefinitions: %w\n%s", err, said)
	}
	out.line("%s", said)
	return nil
}

// startController ensures that the controller is running in its current build.
func (f *fleet) startController(ctx context.Context, out *printer) error {
	program, err := hashOf(f.controllerProgram())
	if err != nil {
		return err
	}
	if running, err := f.runningController(); err != nil {
		return err
	} else if running != nil {
		if running.Program == program && isReady(ctx, running.Health) {
			out.line("It is already running as process %d.", running.PID)
			return nil
		}
		out.line("An older build is running as process %d; stopping it.", running.PID)
		if err := f.stopController(ctx, out); err != nil {
			return err
		}
	}
	started := &controller{Program: program}
	if started.Health, err = machine.FreeAddress(ctx); err != nil {
		return err
	}
	if started.Metrics, err = machine.FreeAddress(ctx); err != nil {
		return err
	}
	died, err := f.launch(started)
	if err != nil {
		return err
	}
	if err := awaitReady(ctx, started, died); err != nil {
		return fmt.Errorf("%w; the end of %s:\n%s", err, f.controllerLog(), machine.Tail(f.controllerLog(), 20, nil))
	}
	out.line("process %d", started.PID)
	out.line("log     %s", f.controllerLog())
	out.line("health  http://%s/readyz", started.Health)
	out.line("metrics http://%s/metrics", started.Metrics)
	return nil
}

// launch starts the program in its own session, so that it outlives this program,
// and records its process.
func (f *fleet) launch(started *controller) (died <-chan error, err error) {
	log, err := os.OpenFile(f.controllerLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the controller's log: %w", err)
	}
	defer log.Close()
	command := exec.Command(f.controllerProgram(), //nolint:noctx // it must outlive this program
		"--kubeconfig", f.kubeconfig(karmada),
		"--health-probe-bind-address", started.Health,
		"--metrics-bind-address", started.Metrics)
	command.Dir = f.root
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the controller: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	started.PID = command.Process.Pid
	if started.StartTime, started.Boot, err = identify(started.PID); err != nil {
		return nil, fmt.Errorf("the controller exited immediately: %w\n%s", err, machine.Tail(f.controllerLog(), 20, nil))
	}
	raw, err := json.MarshalIndent(started, "", "  ")
	if err == nil {
		err = os.WriteFile(f.controllerState(), append(raw, '\n'), 0o644)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("recording the controller's process: %w", err), command.Process.Kill())
	}
	return exited, nil
}

// awaitReady waits until the controller is ready.
func awaitReady(ctx context.Context, started *controller, died <-chan error) error {
	const patience, interval = 30 * time.Second, 50 * time.Millisecond
	ended := false
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-died:
			ended = true
			return false, fmt.Errorf("the controller exited: %w", errors.Join(err, os.ErrProcessDone))
		default:
			return isReady(ctx, started.Health), nil
		}
	})
	if err != nil && !ended {
		return fmt.Errorf("the controller is not ready after %v: %w", patience, err)
	}
	return err
}

func isReady(ctx context.Context, address string) bool {
	return machine.Answers(ctx, "http://"+address+"/readyz")
}

// runningController returns the controller that an earlier call has started, or nil
// if it is no longer running.
func (f *fleet) runningController() (*controller, error) {
	raw, err := os.ReadFile(f.controllerState())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // none was started, which is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of the controller: %w", err)
	}
	recorded := &controller{}
	if err := json.Unmarshal(raw, recorded); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.controllerState(), err)
	}
	if !recorded.runs() {
		return nil, nil //nolint:nilnil // it has exited
	}
	return recorded, nil
}

// stopController stops exactly the process that was started, if it is still running.
func (f *fleet) stopController(ctx context.Context, out *printer) error {
	running, err := f.runningController()
	if err != nil || running == nil {
		return err
	}
	// The handle refers to the process. It is opened before the process is identified:
	// if the process ends in between, no other process gets the signal.
	process, err := os.FindProcess(running.PID)
	if err != nil {
		return fmt.Errorf("finding the controller: %w", err)
	}
	defer func() { _ = process.Release() }()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !running.runs() {
			break
		}
		if err := process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping the controller, process %d: %w", running.PID, err)
		}
		// This is enough time to release the lease, so that the next controller does not
		// have to wait.
		const patience, interval = 15 * time.Second, 50 * time.Millisecond
		_ = wait.PollUntilContextTimeout(ctx, interval, patience, true, func(context.Context) (bool, error) { return !running.runs(), nil })
	}
	if running.runs() {
		return fmt.Errorf("the controller, process %d, does not exit", running.PID)
	}
	out.line("The controller, process %d, is stopped.", running.PID)
	if err := os.Remove(f.controllerState()); err != nil {
		return fmt.Errorf("deleting the record of the controller: %w", err)
	}
	return nil
}

// runs reports whether this process is still running.
func (c *controller) runs() bool {
	startTime, boot, err := identify(c.PID)
	return err == nil && startTime == c.StartTime && boot == c.Boot
}

// identify returns the start time of a process in ticks since boot, and the ID of
// that boot.
func identify(pid int) (startTime, boot string, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", "", fmt.Errorf("reading process %d: %w", pid, err)
	}
	// The program's name may contain spaces and parentheses. After it come the state,
	// which is field 3, and other fields. The start time is field 22.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, start = 0, 22 - 3
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return "", "", os.ErrProcessDone
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", "", fmt.Errorf("reading the boot ID: %w", err)
	}
	return fields[start], strings.TrimSpace(string(id)), nil
}

func hashOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}
