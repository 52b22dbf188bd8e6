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

package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Fleet is a fleet of hack/fleet.
type Fleet struct {
	// Name is the name of a fleet that this process starts. It is empty for a fleet
	// that was started elsewhere.
	Name string
	// Dir is the folder of the fleet's state.
	Dir string
	// Program is the path of the fleet program.
	Program string
	// State is the content of fleet.json once the fleet is up.
	State State
}

// State is what a fleet writes to its fleet.json.
type State struct {
	// Bin is the folder of the programs that the fleet runs.
	Bin       string         `json:"bin"`
	Members   []FleetMember  `json:"members"`
	Processes []FleetProcess `json:"processes"`
}

// FleetMember is a member cluster of a fleet.
type FleetMember struct {
	Name string `json:"name"`
	// Mode is push or pull.
	Mode string `json:"mode"`
}

// FleetProcess is a process of a fleet.
type FleetProcess struct {
	Name     string   `json:"name"`
	Program  string   `json:"program"`
	Args     []string `json:"args"`
	Log      string   `json:"log"`
	ReadyURL string   `json:"readyURL"`
	// Identity is nil while the process is not running.
	Identity *struct {
		PID int `json:"pid"`
	} `json:"identity"`
}

// NewFleet compiles the fleet program and returns a fleet that is not yet started.
func NewFleet(ctx context.Context, root, name, program string) (*Fleet, error) {
	f := &Fleet{Name: name, Dir: filepath.Join(root, ".fleet", name), Program: program}
	return f, f.build(ctx, root)
}

// FindFleet returns a fleet that was started elsewhere, given the folder of its
// state. A relative folder is relative to the repository.
func FindFleet(ctx context.Context, root, dir, program string) (*Fleet, error) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir) // go test runs in the package's folder
	}
	f := &Fleet{Dir: dir, Program: program}
	return f, errors.Join(f.build(ctx, root), f.Load())
}

func (f *Fleet) build(ctx context.Context, root string) error {
	return Build(ctx, filepath.Join(root, "hack", "fleet"), ".", f.Program)
}

// Up starts the fleet. Unless keep is set, the fleet is stopped when this process
// ends, for whatever reason.
func (f *Fleet) Up(ctx context.Context, out io.Writer, keep bool, flags ...string) error {
	if err := f.Run(ctx, out, append([]string{"up"}, flags...)...); err != nil {
		return err
	}
	if !keep {
		if err := f.guard(); err != nil {
			return err
		}
	}
	return f.Load()
}

// Down stops the fleet if this process started it.
func (f *Fleet) Down(ctx context.Context, out io.Writer) error {
	if f == nil || f.Name == "" {
		return nil
	}
	return f.Run(ctx, out, "down")
}

// Load reads the current fleet.json.
func (f *Fleet) Load() error {
	content, err := os.ReadFile(filepath.Join(f.Dir, "fleet.json"))
	if err == nil {
		f.State = State{}
		err = json.Unmarshal(content, &f.State)
	}
	if err != nil {
		return fmt.Errorf("reading the state of the fleet in %s: %w", f.Dir, err)
	}
	return nil
}

// Run runs a command of the fleet program. When ctx is done, or when this process
// ends, the program receives SIGTERM and stops what it has started.
func (f *Fleet) Run(ctx context.Context, out io.Writer, arguments ...string) error {
	command := exec.CommandContext(ctx, f.Program, f.about(arguments)...)
	command.Dir = filepath.Dir(f.Program) // the program finds its sources from within the repository
	command.Stdout, command.Stderr = out, out
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	err := OnLastingThread(command.Start)
	if err == nil {
		err = command.Wait()
	}
	if err != nil {
		return fmt.Errorf("fleet %s: %w", strings.Join(arguments, " "), errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// about appends the flags that identify the fleet.
func (f *Fleet) about(arguments []string) []string {
	arguments = append(arguments, "--dir", f.Dir)
	if f.Name != "" {
		arguments = append(arguments, "--name", f.Name)
	}
	return arguments
}

// guard starts a process that stops the fleet when this process ends. Deferred
// functions do not run after SIGKILL or a panic in another goroutine, so a separate
// process must do it: the fleet program waits for the end of a pipe that only this
// process holds open.
func (f *Fleet) guard() error {
	log, err := os.Create(f.GuardLog())
	if err != nil {
		return fmt.Errorf("opening the log of the fleet's guard: %w", err)
	}
	defer log.Close()
	command := exec.Command(f.Program, f.about([]string{"down", "--after-stdin"})...) //nolint:noctx // it outlives this process
	command.Dir = filepath.Dir(f.Program)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := command.StdinPipe()
	if err != nil {
		return fmt.Errorf("making a pipe to the fleet's guard: %w", err)
	}
	guardPipes = append(guardPipes, pipe)
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting the fleet's guard: %w", err)
	}
	return nil
}

// guardPipes stay open until this process ends. The garbage collector would close a
// pipe that nothing refers to.
var guardPipes []io.Closer

// GuardLog returns the path of the guard's log.
func (f *Fleet) GuardLog() string { return f.Program + "-guard.log" }

// Kubeconfig returns the path of the admin kubeconfig of a control plane: karmada,
// host, or a member.
func (f *Fleet) Kubeconfig(plane string) string { return filepath.Join(f.Dir, plane+".kubeconfig") }

// BuildTool compiles a program that fleets do not run, such as helm, and returns its
// path.
func (f *Fleet) BuildTool(ctx context.Context, name string) (string, error) {
	command := exec.CommandContext(ctx, f.Program, "build", name)
	command.Dir = filepath.Dir(f.Program)
	folder, err := command.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return "", fmt.Errorf("building %s: %w", name, err)
	}
	return filepath.Join(strings.TrimSpace(string(folder)), name), nil
}

// Tool returns the path of a program of the fleet, such as kubectl.
func (f *Fleet) Tool(name string) string { return filepath.Join(f.State.Bin, name) }
