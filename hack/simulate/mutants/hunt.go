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
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// budget is how long to look for one mutant.
type budget struct {
	seed, seeds uint64
	steps       int
	timeout     time.Duration
	// parallel is how many mutants run at the same time.
	parallel int
	// results is the name of a file for the verdicts; empty for none.
	results string
}

// verdict is what became of a mutant.
type verdict struct {
	// Invariant is the check that found it; empty if none did.
	Invariant string
	// What the check found.
	What string
	// Steps is how many steps were made until then, over all seeds.
	Steps int
	// Reached: the changed code was called.
	Reached bool
	// Seeds is how many seeds were run if no check found it.
	Seeds uint64
}

// resultPrefix begins the line in which the test tells its verdict, and progressPrefix a
// line with the steps that were made so far.
const (
	resultPrefix   = "mutant: "
	progressPrefix = "mutant so far: "
)

// build builds the simulation with all mutants. It returns the name of the binary.
func build(ctx context.Context, root, folder string, table []Mutant) (string, error) {
	overlay, err := writeOverlay(root, folder, table)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(folder, "simulate.test")
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-tags", "mutants", "-overlay", overlay, "-o", binary, "./"+simulation)
	command.Dir, command.Stderr = root, os.Stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("building the simulation with all mutants: %w", err)
	}
	return binary, nil
}

// hunt runs the simulation with a mutant in a process of its own, because a mutant may
// panic, wait forever, or never end. 0 is the controller without any mutant.
func hunt(ctx context.Context, root, binary string, number int, theme string, with budget) (verdict, error) {
	limited, cancel := context.WithTimeout(ctx, with.timeout)
	defer cancel()
	output := &bytes.Buffer{}
	command := exec.CommandContext(limited, binary, "-test.run", "^TestMutant$", "-test.timeout", "0", "-mutant", strconv.Itoa(number), "-theme", theme,
		"-seed", strconv.FormatUint(with.seed, 10), "-runs", strconv.FormatUint(with.seeds, 10), "-steps", strconv.Itoa(with.steps)) //nolint:gosec // the binary that was just built
	command.Dir, command.Stdout, command.Stderr = filepath.Join(root, simulation), output, output
	err := command.Run()
	if ctx.Err() != nil {
		return verdict{}, ctx.Err() //nolint:wrapcheck // somebody interrupted the program
	}
	found, told := read(output.String())
	switch {
	case told:
		return found, nil
	case limited.Err() != nil:
		found.Invariant, found.What = "it does not end", fmt.Sprintf("after %v", with.timeout)
	case err != nil && command.ProcessState == nil:
		return verdict{}, fmt.Errorf("starting the simulation: %w", err)
	case err == nil:
		return verdict{}, fmt.Errorf("mutant %d: %w: %s", number, errSilent, output)
	default:
		found.Invariant, found.What = howItEnded(output.String())
	}
	return found, nil
}

var errSilent = errors.New("the simulation ended without a result")

// read reads what the test told. told is false if it did not tell how it ended.
func read(output string) (found verdict, told bool) {
	lines := bufio.NewScanner(strings.NewReader(output))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if encoded, is := strings.CutPrefix(lines.Text(), resultPrefix); is {
			return found, json.Unmarshal([]byte(encoded), &found) == nil
		}
		if steps, is := strings.CutPrefix(lines.Text(), progressPrefix); is {
			found.Reached = true
			found.Steps, _ = strconv.Atoi(steps)
		}
	}
	return found, false
}

var panicked = regexp.MustCompile(`(?m)^(?:panic|fatal error): (.*)$`)

// howItEnded explains why a process ended without a verdict.
func howItEnded(output string) (invariant, what string) {
	found := panicked.FindStringSubmatch(output)
	switch {
	case found == nil:
		return "the simulation fails", output[max(0, len(output)-500):]
	case strings.Contains(found[1], "deadlock"):
		return "it waits forever", found[1]
	}
	return "it panics", found[1]
}
