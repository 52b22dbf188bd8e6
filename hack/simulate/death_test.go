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
	"flag"
	"slices"
	"testing"
	"time"
)

var (
	deaths = flag.Int("deaths", 3, "during how many operations to die, one after another; -1 for all")
	pairs  = flag.Int("pairs", 0, "during how many pairs of operations to die besides; -1 for all")
)

// TestDeathAtEveryWrite: a process of the controller dies at each write that an operation
// of a user causes, and the write takes effect or is lost. The next process finishes what
// is to be done, and all is as if nobody had died.
func TestDeathAtEveryWrite(t *testing.T) {
	told, count, done := time.Now(), 0, 0
	for _, does := range chosenOperations() {
		count += dieDuring(t, does)
		if done++; time.Since(told) > *pace {
			told = time.Now()
			t.Logf("%d operations or pairs: %d deaths", done, count)
		}
	}
	t.Logf("%d operations or pairs: %d deaths", done, count)
	if count < done {
		t.Errorf("only %d deaths: the operations cause too few writes", count)
	}
}

// chosenOperations are the operations and pairs that the flags choose.
func chosenOperations() [][]operation {
	every := everyOperation()
	singles, both := [][]operation{}, [][]operation{}
	for _, first := range every {
		singles = append(singles, []operation{first})
		for _, second := range every {
			both = append(both, []operation{first, second})
		}
	}
	return slices.Concat(firstOf(*deaths, singles), firstOf(*pairs, both))
}

// firstOf returns the first elements, or all if their number is negative.
func firstOf[T any](count int, of []T) []T {
	if count < 0 {
		return of
	}
	return of[:min(count, len(of))]
}

// dieDuring has a process die at each write that operations cause, both ways. It returns
// how many deaths that are.
func dieDuring(t *testing.T, does []operation) (count int) {
	t.Helper()
	names := ""
	for _, do := range does {
		names += " " + operationName(do)
	}
	for _, effective := range []bool{false, true} {
		for at := 1; ; at++ {
			d := &death{at: at, effective: effective}
			result := play(t, seeded(*seed, 0), d.during(does))
			if result.Violation != "" {
				t.Errorf("during%s, death %v: %s", names, d, result)
			}
			if d.victim == nil {
				break
			}
			count++
		}
	}
	return count
}
