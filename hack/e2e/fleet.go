//go:build e2e

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

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// What fleet the tests bring up for themselves; tests with a build tag of their
// own may want another.
var (
	fleetName  = "e2e"
	fleetFlags []string
)

// fleet is a fleet of hack/fleet that is up.
type fleet struct {
	// Dir holds the fleet's state, and Bin the programs that it runs.
	Dir string `json:"dir"`
	Bin string `json:"bin"`
	// Members are its member clusters.
	Members []struct {
		Name string `json:"name"`
		Mode string `json:"mode"`
	} `json:"members"`
	// Processes are all that run in it.
	Processes []struct {
		Name     string `json:"name"`
		Identity struct {
			PID int `json:"pid"`
		} `json:"identity"`
	} `json:"processes"`

	// program is the fleet program; empty for a fleet that somebody else runs.
	program string
}

// findFleet reads the state of a fleet that somebody else has brought up.
func findFleet(dir string) (*fleet, error) {
	state, err := os.ReadFile(filepath.Join(dir, "fleet.json"))
	if err != nil {
		return nil, fmt.Errorf("reading the state of the fleet: %w", err)
	}
	found := &fleet{}
	if err := json.Unmarshal(state, found); err != nil {
		return nil, fmt.Errorf("reading the state of the fleet in %s: %w", dir, err)
	}
	return found, nil
}

// upFleet brings a fleet up, in the place of one that an earlier run left.
func upFleet(ctx context.Context, root string, out io.Writer) (*fleet, error) {
	program, err := build(ctx, filepath.Join(root, "hack", "fleet"), ".", filepath.Join(root, "bin", "e2e", "fleet"), out)
	if err != nil {
		return nil, err
	}
	partial := &fleet{program: program, Dir: filepath.Join(root, ".fleet", fleetName)}
	if err := partial.run(ctx, out, "down"); err != nil {
		return nil, err
	}
	if err := partial.run(ctx, out, append([]string{"up"}, fleetFlags...)...); err != nil {
		return partial, err
	}
	found, err := findFleet(partial.Dir)
	if err != nil {
		return partial, err
	}
	found.program = program
	return found, nil
}

// down ends the fleet, if these tests brought it up.
func (f *fleet) down(ctx context.Context, out io.Writer) error {
	if f.program == "" {
		return nil
	}
	return f.run(ctx, out, "down")
}

// run runs a command of the fleet program. It is ended by SIGTERM, which makes
// it end what it has started.
func (f *fleet) run(ctx context.Context, out io.Writer, arguments ...string) error {
	program := exec.CommandContext(ctx, f.program, append(arguments, "--name", fleetName)...)
	program.Dir = filepath.Dir(f.program)
	program.Stdout, program.Stderr = out, out
	program.Cancel = func() error { return program.Process.Signal(syscall.SIGTERM) }
	program.WaitDelay = time.Minute
	if err := program.Run(); err != nil {
		return fmt.Errorf("fleet %s: %w", arguments[0], errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// kubeconfig is the path of the admin kubeconfig of Karmada or of a member.
func (f *fleet) kubeconfig(plane string) string {
	return filepath.Join(f.Dir, plane+".kubeconfig")
}

// build compiles a program of this repository.
func build(ctx context.Context, dir, target, program string, out io.Writer) (string, error) {
	fmt.Fprintf(out, "e2e: building %s\n", filepath.Base(program))
	command := exec.CommandContext(ctx, "go", "build", "-o", program, target)
	command.Dir = dir
	command.Stdout, command.Stderr = out, out
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("building %s: %w", filepath.Base(program), err)
	}
	return program, nil
}
