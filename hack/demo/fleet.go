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
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// fleet is the fleet of the demo. Displayed paths are relative to the repository's
// root, so that users can type them.
type fleet struct {
	name string
	root string
	dir  string
	// running is set when the fleet program is built.
	running *machine.Fleet
	// compiled receives the result of compiling the controller.
	compiled <-chan error
}

func (f *fleet) kubeconfig(cluster string) string {
	return filepath.Join(f.dir, cluster+".kubeconfig")
}

// members returns the members of the running fleet.
func (f *fleet) members() []machine.FleetMember { return f.running.State.Members }

// up starts the fleet if it is not running.
func (f *fleet) up(ctx context.Context, out *printer) error {
	all, err := f.run(ctx, func(line string) { showFleetLine(out, line) }, "up")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, all)
	}
	return f.running.Load()
}

// exists reports whether a fleet of this name exists.
func (f *fleet) exists() bool {
	_, err := os.Stat(filepath.Join(f.dir, "fleet.json"))
	return err == nil
}

// run runs the fleet program, passes each line of output to show, and returns the
// whole output.
func (f *fleet) run(ctx context.Context, show func(line string), arguments ...string) (_ string, err error) {
	if f.running, err = machine.NewFleet(ctx, f.root, f.name, filepath.Join(f.root, "bin", "demo", "fleet")); err != nil {
		return "", err
	}
	reader, writer := io.Pipe()
	finished := make(chan error, 1)
	go func() {
		finished <- f.running.Run(ctx, writer, arguments...)
		_ = writer.Close()
	}()
	all := &strings.Builder{}
	lines := bufio.NewScanner(reader)
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		show(lines.Text())
	}
	return all.String(), errors.Join(lines.Err(), <-finished)
}

// fleetStep matches a line of "fleet up" about one of its many steps.
var fleetStep = regexp.MustCompile(`^ +\d+\.\d+s {2}`)

// showFleetLine shows the lines of "fleet up" that interest a newcomer: what takes
// minutes, the members, and that the fleet is up. Other steps are shown only
// briefly.
func showFleetLine(out *printer, line string) {
	switch {
	case strings.HasPrefix(line, "Fleet ") && strings.Contains(line, " is up"), strings.HasSuffix(line, "registered and Ready"):
		out.passing("")
		out.line("%s", strings.TrimSpace(line))
	case fleetStep.MatchString(line):
		out.passing(strings.TrimSpace(line))
	case strings.HasPrefix(line, "  ") && !strings.Contains(line, "kubectl") && !strings.Contains(line, "export"):
		// Progress of compiling the fleet's programs, the first time.
		out.line("%s", strings.TrimSpace(line))
	}
}

// kubectl runs the fleet's kubectl and shows the command and its output.
func (f *fleet) kubectl(ctx context.Context, out *printer, cluster string, arguments ...string) error {
	shown := quoted(arguments)
	if cluster != karmada {
		shown = "--kubeconfig " + f.kubeconfig(cluster) + " " + shown
	}
	out.line("$ kubectl %s", shown)
	command := exec.CommandContext(ctx, f.running.Tool("kubectl"), append([]string{"--kubeconfig", f.kubeconfig(cluster)}, arguments...)...)
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

// quoted joins the arguments of a command as a shell takes them.
func quoted(arguments []string) string {
	shown := make([]string, len(arguments))
	for i, argument := range arguments {
		if shown[i] = argument; strings.Contains(argument, `"`) {
			shown[i] = "'" + argument + "'"
		}
	}
	return strings.Join(shown, " ")
}
