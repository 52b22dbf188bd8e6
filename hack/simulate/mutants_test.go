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

package simulate

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/karmada-direct/karmada-direct/hack/simulate/mutants/mutant"
)

var mutantNumber = flag.Int("mutant", 0, "the number of the mutant to run; 0 for none")

// TestMutant runs all seeds with a mutant until a check finds it, and prints which one
// did. Package mutants starts it, in a process for each mutant.
func TestMutant(t *testing.T) {
	mutant.Active = *mutantNumber
	verdict := struct {
		Invariant, What string
		Steps           int
		Reached         bool
	}{}
	for i := range uint64(*runs) { //nolint:gosec // it is not negative
		choices := seeded(*seed+i, *steps)
		choices.theme = *only
		stop := tellProgress(verdict.Steps, choices)
		result := run(t, choices)
		stop()
		verdict.Steps += result.Steps
		verdict.Invariant, verdict.What = result.Invariant, result.Violation
		if t.Failed() && verdict.Invariant == "" {
			verdict.Invariant = "the simulation fails"
		}
		if verdict.Invariant != "" {
			break
		}
	}
	verdict.Reached = mutant.Reached
	encoded, err := json.Marshal(verdict)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nmutant: %s\n", encoded)
}

// tellProgress prints how many steps were chosen so far, every second, for the case that
// the process does not live to print its verdict.
func tellProgress(before int, choices *choices) (stop func()) {
	ticker, stopped := time.NewTicker(time.Second), make(chan struct{})
	go func() {
		for {
			select {
			case <-stopped:
				return
			case <-ticker.C:
				fmt.Printf("\nmutant so far: %d\n", before+len(choices.made))
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(stopped)
	}
}
