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
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	with := budget{}
	flag.Uint64Var(&with.seed, "seed", 1, "the first seed")
	flag.Uint64Var(&with.seeds, "seeds", 6, "how many seeds to run for each mutant")
	flag.IntVar(&with.steps, "steps", 500, "how many steps each run has, besides those until the world is quiet")
	flag.DurationVar(&with.timeout, "timeout", 10*time.Minute, "how long all runs of one mutant may take")
	flag.IntVar(&with.parallel, "parallel", 1, "how many mutants to run at the same time")
	flag.StringVar(&with.results, "results", "", "a file for the verdicts; if it exists, mutants that were found are not run again, and the others continue with the next seed; valid for one state of the code")
	only := flag.String("only", "", "run only the mutants that match this regular expression: their packages, a colon, and their name")
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
	earlier, err := readResults(with.results)
	if err != nil {
		return err
	}
	chosen, themes := []int{}, []string{}
	for i := range all {
		if wanted.MatchString(packagesOf(&all[i]) + ": " + all[i].Name) {
			chosen = append(chosen, i)
			if all[i].Test == "" {
				themes = append(themes, all[i].Theme)
			}
		}
	}
	if err := checkHealthy(ctx, place, binary, themes, with, earlier); err != nil {
		return err
	}
	verdicts, err := huntAll(ctx, place, binary, all, chosen, with, earlier)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s", markdown(all, chosen, verdicts))
	return nil
}

// checkHealthy runs the same seeds without any mutant, in each theme.
func checkHealthy(ctx context.Context, root, binary string, themes []string, with budget, earlier *results) error {
	slices.Sort(themes)
	for _, theme := range slices.Compact(themes) {
		healthy, err := earlier.further("without any mutant: "+theme, with, func(rest budget) (verdict, error) { return hunt(ctx, root, binary, 0, theme, rest) })
		if err != nil {
			return err
		}
		if healthy.Invariant != "" {
			return fmt.Errorf("%w: theme %q: %s: %s", errRed, theme, healthy.Invariant, healthy.What)
		}
		fmt.Printf("without any mutant, theme %q: %s steps, nothing found\n", theme, thousands(healthy.Steps))
	}
	return nil
}

// huntAll hunts some of the mutants, several at a time, and prints each verdict. It
// begins with the verdicts of an earlier run, if there are any.
func huntAll(ctx context.Context, root, binary string, all []Mutant, chosen []int, with budget, earlier *results) (map[int]verdict, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, with.parallel))
	mu, verdicts := sync.Mutex{}, map[int]verdict{}
	for _, i := range chosen {
		if all[i].Test != "" {
			continue // the simulation cannot find it
		}
		group.Go(func() error {
			found, err := earlier.further(all[i].Name, with, func(rest budget) (verdict, error) { return hunt(ctx, root, binary, i+1, all[i].Theme, rest) })
			mu.Lock()
			defer mu.Unlock()
			verdicts[i] = found
			if err == nil {
				fmt.Printf("%3d of %d  %s: %s\n", len(verdicts), len(chosen), all[i].Name, found)
			}
			return err
		})
	}
	return verdicts, group.Wait() //nolint:wrapcheck // it says which mutant
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
