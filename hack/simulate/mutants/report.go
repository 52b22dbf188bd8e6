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
	"fmt"
	"path"
	"slices"
	"strings"
)

// markdown is the table for docs/reliability.md with some of the mutants, and how many
// of them were found by the simulation, and by tests that are named in the table.
func markdown(table []Mutant, chosen []int, verdicts map[int]verdict) string {
	text, found, tested := &strings.Builder{}, 0, 0
	fmt.Fprintln(text, "| The defect | In | Found by | After steps |")
	fmt.Fprintln(text, "|---|---|---|---:|")
	for _, i := range chosen {
		by, steps := "**not found**", "-"
		switch {
		case table[i].Test != "":
			tested++
			by = "`" + table[i].Test + "`"
		case verdicts[i].Invariant != "":
			found++
			by, steps = verdicts[i].Invariant, thousands(verdicts[i].Steps)
		case !verdicts[i].Reached:
			by = "**not found**; its code is not called"
		}
		fmt.Fprintf(text, "| %s | %s | %s | %s |\n", table[i].Name, packagesOf(&table[i]), by, steps)
	}
	fmt.Fprintf(text, "\nfound %d of %d; tests find %d more\n", found, len(chosen), tested)
	return text.String()
}

// packagesOf names the packages that a mutant changes.
func packagesOf(mutant *Mutant) string {
	names := []string{}
	for _, edit := range mutant.Edits {
		if name := path.Dir(edit.File); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// thousands writes a number as people do: 12,345.
func thousands(number int) string {
	digits := fmt.Sprint(number)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
