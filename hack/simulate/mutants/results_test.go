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
	"path/filepath"
	"testing"
)

// TestResults: a second run makes only the seeds that the first one has not made, and
// leaves alone what was found.
func TestResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	first, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, found := range map[string]verdict{"found": {Invariant: "a row lies", Steps: 5}, "alive": {Steps: 100, Reached: true}} {
		if _, err := first.further(name, budget{seed: 7, seeds: 1}, func(budget) (verdict, error) { return found, nil }); err != nil {
			t.Fatal(err)
		}
	}
	second, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	with := budget{seed: 7, seeds: 3}
	got, err := second.further("found", with, func(budget) (verdict, error) {
		t.Error("what was found is run again")
		return verdict{}, nil
	})
	if err != nil || got.Invariant != "a row lies" || got.Steps != 5 {
		t.Errorf("found: got %+v, %v", got, err)
	}
	got, err = second.further("alive", with, func(rest budget) (verdict, error) {
		if rest.seed != 8 || rest.seeds != 2 {
			t.Errorf("the rest is %+v", rest)
		}
		return verdict{Invariant: "Ready lies", Steps: 30}, nil
	})
	if want := (verdict{Invariant: "Ready lies", Steps: 130, Reached: true, Seeds: 3}); err != nil || got != want {
		t.Errorf("alive: got %+v, %v, want %+v", got, err, want)
	}
}
