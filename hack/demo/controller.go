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

// controller is a controller-manager that runs in the background, as it is
// kept in a file from one call of this program to the next.
type controller struct {
	// PID, StartTime and Boot together name one process of all that ever ran:
	// a process id alone is used again and again.
	PID       int    `json:"pid"`
	StartTime string `json:"startTime"`
	Boot      string `json:"boot"`
	// Program is the hash of what runs.
	Program string `json:"program"`
	Health  string `json:"health"`
	Metrics string `json:"metrics"`
}

func (f *fleet) controllerProgram() string { return filepath.Join(f.dir, "controller-manager") }
func (f *fleet) controllerState() string   { return filepath.Join(f.dir, "controller-manager.json") }
func (f *fleet) controllerLog() string {
	return filepath.Join(f.dir, "logs", "controller-manager.log")
}

// compileController starts to compile the controller. The caller waits for the
// end in useController. The flags for the compiler are those of "go run", so that
// nothing is compiled twice.
func (f *fleet) compileController(ctx context.Context) {
	compiled := make(chan error, 1)
	f.compiled = compiled
	go func() { compiled <- machine.BuildController(ctx, f.root, f.compiledController(), "-ldflags=-s -w") }()
}

func (f *fleet) compiledController() string {
	return filepath.Join(f.root, "bin", "demo", "controller-manager")
}

// useController waits for the compiled controller and copies it to the fleet's
// folder: whatever is built elsewhere while the demo runs does not disturb it.
func (f *fleet) useController() error {
	if err := <-f.compiled; err != nil {
		return err
	}
	program, err := os.ReadFile(f.compiledController())
	if err != nil {
		return fmt.Errorf("reading the controller: %w", err)
	}
	// Renaming does not disturb one that runs.
	beside := f.controllerProgram() + ".new"
	if err := os.WriteFile(beside, program, 0o755); err != nil {
		return fmt.Errorf("copying the controller: %w", err)
	}
	return os.Rename(beside, f.controllerProgram())
}

// installCRDs has the program install the kinds that it serves.
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

// startController makes sure that the controller runs, as it was built now.
func (f *fleet) startController(ctx context.Context, out *printer) error {
	program, err := hashOf(f.controllerProgram())
	if err != nil {
		return err
	}
	if running, err := f.runningController(); err != nil {
		return err
	} else if running != nil {
		if running.Program == program && isReady(ctx, running.Health) {
			out.line("It runs already, as process %d.", running.PID)
			return nil
		}
		out.line("One that was built before runs as process %d; ending it.", running.PID)
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

// launch starts the program on its own, so that it outlives this one, and
// records which process it is.
func (f *fleet) launch(started *controller) (died <-chan error, err error) {
	log, err := os.OpenFile(f.controllerLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the controller's log: %w", err)
	}
	defer log.Close()
	command := exec.Command(f.controllerProgram(), //nolint:noctx // it is to outlive this program
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
		return nil, fmt.Errorf("the controller ended at once: %w\n%s", err, machine.Tail(f.controllerLog(), 20, nil))
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

// awaitReady waits until the controller says that it is ready.
func awaitReady(ctx context.Context, started *controller, died <-chan error) error {
	const patience, interval = 30 * time.Second, 50 * time.Millisecond
	ended := false
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-died:
			ended = true
			return false, fmt.Errorf("the controller ended: %w", errors.Join(err, os.ErrProcessDone))
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

// runningController returns the controller that an earlier call started; nil
// when it does not run any more.
func (f *fleet) runningController() (*controller, error) {
	raw, err := os.ReadFile(f.controllerState())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // none was started, which is no error
	}
	if err != nil {
		return nil, fmt.Errorf("reading which process the controller is: %w", err)
	}
	recorded := &controller{}
	if err := json.Unmarshal(raw, recorded); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.controllerState(), err)
	}
	if !recorded.runs() {
		return nil, nil //nolint:nilnil // it ended by itself
	}
	return recorded, nil
}

// stopController ends exactly the process that was started, if it still runs.
func (f *fleet) stopController(ctx context.Context, out *printer) error {
	running, err := f.runningController()
	if err != nil || running == nil {
		return err
	}
	// The handle stands for the process. It is taken before the process is
	// looked at: should it end in between, nobody else gets the signal.
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
			return fmt.Errorf("ending the controller, process %d: %w", running.PID, err)
		}
		// Time enough to give the lease back, so that the next one need not wait.
		const patience, interval = 15 * time.Second, 50 * time.Millisecond
		_ = wait.PollUntilContextTimeout(ctx, interval, patience, true, func(context.Context) (bool, error) { return !running.runs(), nil })
	}
	if running.runs() {
		return fmt.Errorf("the controller, process %d, does not end", running.PID)
	}
	out.line("The controller, process %d, has ended.", running.PID)
	if err := os.Remove(f.controllerState()); err != nil {
		return fmt.Errorf("deleting the record of the controller: %w", err)
	}
	return nil
}

// runs reports whether the very process still runs.
func (c *controller) runs() bool {
	startTime, boot, err := identify(c.PID)
	return err == nil && startTime == c.StartTime && boot == c.Boot
}

// identify says when the process of an id started, in ticks since which boot.
func identify(pid int) (startTime, boot string, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", "", fmt.Errorf("looking at process %d: %w", pid, err)
	}
	// After the program's name, which may hold blanks and brackets, come the
	// state, field 3, and others; the start time is field 22.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, start = 0, 22 - 3
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return "", "", os.ErrProcessDone
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", "", fmt.Errorf("reading which boot this is: %w", err)
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
