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
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// fleet is a fleet of hack/fleet. Paths are relative to the repository's root,
// so that what is shown can be typed.
type fleet struct {
	name string
	root string
	dir  string

	// bin and members are known once it is up.
	bin     string
	members []member
}

type member struct {
	Name string `json:"name"`
	Mode string `json:"mode"`
}

func (f *fleet) kubeconfig(cluster string) string {
	return filepath.Join(f.dir, cluster+".kubeconfig")
}

// up brings the fleet up, or makes sure that it is.
func (f *fleet) up(ctx context.Context, out *printer) error {
	all, err := f.run(ctx, func(line string) { showFleetLine(out, line) }, "up", "--name", f.name)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, all)
	}
	return f.load()
}

// load reads what the fleet has written about itself.
func (f *fleet) load() error {
	raw, err := os.ReadFile(filepath.Join(f.dir, "fleet.json"))
	if err != nil {
		return fmt.Errorf("reading what the fleet says of itself: %w", err)
	}
	state := struct {
		Bin     string   `json:"bin"`
		Members []member `json:"members"`
	}{}
	if err := json.Unmarshal(raw, &state); err != nil {
		return fmt.Errorf("reading %s/fleet.json: %w", f.dir, err)
	}
	f.bin, f.members = state.Bin, state.Members
	return nil
}

// exists tells whether there is a fleet of this name.
func (f *fleet) exists() bool {
	_, err := os.Stat(filepath.Join(f.dir, "fleet.json"))
	return err == nil
}

// run runs the fleet program, hands on each line, and returns all of them.
func (f *fleet) run(ctx context.Context, show func(line string), arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"-C", "hack/fleet", "run", "."}, arguments...)...)
	command.Dir = f.root
	// A fleet that is interrupted ends what it started, which takes a moment.
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	command.WaitDelay = 30 * time.Second
	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		return "", fmt.Errorf("starting hack/fleet: %w", err)
	}
	finished := make(chan error, 1)
	go func() {
		finished <- command.Wait()
		_ = writer.Close()
	}()
	all := &strings.Builder{}
	lines := bufio.NewScanner(reader)
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		show(lines.Text())
	}
	if err := errors.Join(lines.Err(), <-finished); err != nil {
		return all.String(), fmt.Errorf("hack/fleet %s: %w", strings.Join(arguments, " "), err)
	}
	return all.String(), nil
}

// fleetStep is a line of "fleet up" that tells of one of many parts.
var fleetStep = regexp.MustCompile(`^ +\d+\.\d+s {2}`)

// showFleetLine hands on what a newcomer wants to know of a fleet that comes
// up: what takes minutes, the members, and that it is up.
func showFleetLine(out *printer, line string) {
	switch {
	case strings.HasPrefix(line, "Fleet ") && strings.Contains(line, " is up"), strings.HasSuffix(line, "registered and Ready"):
		out.passing("")
		out.line("%s", strings.TrimSpace(line))
	case fleetStep.MatchString(line):
		out.passing(strings.TrimSpace(line))
	case strings.HasPrefix(line, "  ") && !strings.Contains(line, "kubectl") && !strings.Contains(line, "export"):
		// Compiling the fleet's programs, the first time.
		out.line("%s", strings.TrimSpace(line))
	}
}

// kubectl runs the fleet's kubectl, and shows the command and what it says.
func (f *fleet) kubectl(ctx context.Context, out *printer, cluster string, arguments ...string) error {
	shown := strings.Join(arguments, " ")
	if cluster != karmada {
		shown = "--kubeconfig " + f.kubeconfig(cluster) + " " + shown
	}
	out.line("$ kubectl %s", shown)
	command := exec.CommandContext(ctx, filepath.Join(f.bin, "kubectl"), append([]string{"--kubeconfig", f.kubeconfig(cluster)}, arguments...)...)
	command.Dir = f.root
	said := &bytes.Buffer{}
	command.Stdout, command.Stderr = said, said
	err := command.Run()
	if said.Len() > 0 {
		out.line("%s", said.String())
	}
	if err != nil {
		return fmt.Errorf("kubectl %s: %w", shown, err)
	}
	return nil
}

// tail returns the end of a file.
func tail(path string, lines int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
