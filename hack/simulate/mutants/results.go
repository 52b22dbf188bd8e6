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
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// results are verdicts by the names of mutants, so that a run can go on where an earlier
// one has ended.
type results struct {
	path string

	mu     sync.Mutex
	byName map[string]verdict
}

// readResults reads a file that an earlier run has left, if there is one.
func readResults(path string) (*results, error) {
	known := &results{path: path, byName: map[string]verdict{}}
	if path == "" {
		return known, nil
	}
	content, err := os.ReadFile(path) //nolint:gosec // the user names it
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the results of an earlier run: %w", err)
	}
	if err := json.Unmarshal(content, &known.byName); err != nil {
		return nil, fmt.Errorf("reading the results of an earlier run in %s: %w", path, err)
	}
	return known, nil
}

// further returns the verdict about a mutant. It runs the seeds that no earlier run has
// made.
func (r *results) further(name string, with budget, run func(rest budget) (verdict, error)) (verdict, error) {
	r.mu.Lock()
	before := r.byName[name]
	r.mu.Unlock()
	if before.Invariant != "" || before.Seeds >= with.seeds {
		return before, nil
	}
	rest := with
	rest.seed, rest.seeds = with.seed+before.Seeds, with.seeds-before.Seeds
	found, err := run(rest)
	if err != nil {
		return verdict{}, err
	}
	found.Steps, found.Reached, found.Seeds = before.Steps+found.Steps, before.Reached || found.Reached, with.seeds
	return found, r.save(name, found)
}

// save records a verdict.
func (r *results) save(name string, found verdict) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byName[name] = found
	if r.path == "" {
		return nil
	}
	content, err := json.MarshalIndent(r.byName, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(r.path, content, 0o600); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}
