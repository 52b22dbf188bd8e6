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
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

func main() {
	with := budget{}
	flag.Uint64Var(&with.seed, "seed", 1, "the first seed")
	flag.Uint64Var(&with.seeds, "seeds", 3, "how many seeds to run for each mutant")
	flag.IntVar(&with.steps, "steps", 1000, "how many steps each run has, besides those until the world is quiet")
	flag.DurationVar(&with.timeout, "timeout", 10*time.Minute, "how long all runs of one mutant may take")
	only := flag.String("only", "", "run only the mutants whose names match this regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, with, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errRed = errors.New("the controller without any mutant fails: no result means anything before that is fixed")

// run hunts all mutants, and prints the table.
func run(ctx context.Context, with budget, only string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	folder, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	all := table()
	fmt.Printf("building the simulation with %d mutants\n", len(all))
	place := strings.TrimSpace(string(root))
	binary, err := build(ctx, place, folder, all)
	if err != nil {
		return err
	}
	healthy, err := hunt(ctx, place, binary, 0, with)
	if err != nil {
		return err
	}
	if healthy.Invariant != "" {
		return fmt.Errorf("%w: %s: %s", errRed, healthy.Invariant, healthy.What)
	}
	fmt.Printf("without any mutant: %s steps, nothing found\n", thousands(healthy.Steps))
	ran, verdicts := []Mutant{}, []verdict{}
	for i := range all {
		if !wanted.MatchString(all[i].Name) {
			continue
		}
		found, err := hunt(ctx, place, binary, i+1, with)
		if err != nil {
			return err
		}
		ran, verdicts = append(ran, all[i]), append(verdicts, found)
		fmt.Printf("%3d of %d  %s  %s\n", i+1, len(all), all[i].Name, found)
	}
	fmt.Printf("\n%s", markdown(ran, verdicts))
	return nil
}

// String tells the verdict in one line.
func (v verdict) String() string {
	switch {
	case v.Invariant != "":
		return fmt.Sprintf("FOUND after %s steps: %s: %s", thousands(v.Steps), v.Invariant, v.What)
	case !v.Reached:
		return fmt.Sprintf("not found in %s steps: its code is not called", thousands(v.Steps))
	}
	return fmt.Sprintf("not found in %s steps", thousands(v.Steps))
}
