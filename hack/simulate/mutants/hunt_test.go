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
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestHunt: whatever becomes of the process of a mutant, there is a verdict.
func TestHunt(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   verdict
	}{
		"a check finds it": {
			`echo 'mutant so far: 7'; echo; echo 'mutant: {"Invariant":"a row lies","What":"it is not there","Steps":12,"Reached":true}'; exit 1`,
			verdict{Invariant: "a row lies", What: "it is not there", Steps: 12, Reached: true},
		},
		"no check finds it": {`echo 'mutant: {"Steps":3000,"Reached":true}'`, verdict{Steps: 3000, Reached: true}},
		"it panics":         {`echo 'mutant so far: 7'; echo 'panic: index out of range' >&2; exit 2`, verdict{Invariant: "it panics", What: "index out of range", Steps: 7, Reached: true}},
		"it waits forever":  {`echo 'fatal error: all goroutines are asleep - deadlock!'; exit 2`, verdict{Invariant: "it waits forever", What: "all goroutines are asleep - deadlock!"}},
		"it spins":          {`echo 'mutant so far: 9'; while true; do :; done`, verdict{Invariant: "it does not end", What: "after 5s", Steps: 9, Reached: true}},
	} {
		t.Run(name, func(t *testing.T) {
			// Not parallel: a process that another test starts at this moment would hold the
			// script open for writing, and Linux refuses to run such a file.
			root, binary := played(t, test.script)
			limit := time.Minute // a busy machine takes long to start a process
			if test.want.Invariant == "it does not end" {
				limit = 5 * time.Second
			}
			got, err := hunt(t.Context(), root, binary, 1, "", budget{timeout: limit})
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

// played returns the folder of a repository, and a script in place of the simulation.
func played(t *testing.T, script string) (root, binary string) {
	t.Helper()
	root = t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, simulation), 0o750); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(root, "simulate.test")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return root, binary
}

// TestHuntNeedsAVerdict: a test that says nothing is not a mutant that lives.
func TestHuntNeedsAVerdict(t *testing.T) {
	root, binary := played(t, "exit 0")
	if _, err := hunt(t.Context(), root, binary, 1, "", budget{timeout: time.Minute}); !errors.Is(err, errSilent) {
		t.Errorf("a process that says nothing: %v", err)
	}
	if _, err := hunt(t.Context(), root, binary+"2", 1, "", budget{timeout: time.Minute}); err == nil {
		t.Error("a process that does not start counts")
	}
}

// TestMarkdown shows what is found, what is not, and what is not even called.
func TestMarkdown(t *testing.T) {
	table := []Mutant{
		{Name: "one", Edits: []Edit{{File: "decide/plan.go"}, {File: "render/work.go"}, {File: "decide/rows.go"}}},
		{Name: "two", Edits: []Edit{{File: "cached/ledger.go"}}},
		{Name: "not chosen"},
		{Name: "three", Edits: []Edit{{File: "cached/ledger.go"}}},
		{Name: "four", Test: "TestFour", Edits: []Edit{{File: "decide/plan.go"}}},
	}
	got := markdown(table, []int{0, 1, 3, 4}, map[int]verdict{0: {Invariant: "a row lies", Steps: 1234567}, 1: {Reached: true, Steps: 3}, 3: {Steps: 3}})
	const want = `| The defect | In | Found by | After steps |
|---|---|---|---:|
| one | decide, render | a row lies | 1,234,567 |
| two | cached | **not found** | - |
| three | cached | **not found**; its code is not called | - |
| four | decide | ` + "`TestFour`" + ` | - |

found 1 of 4; tests find 1 more
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
