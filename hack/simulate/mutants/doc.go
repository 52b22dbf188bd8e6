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

// Command mutants proves that the simulation finds defects: it puts one defect after
// another into the controller, runs the simulation, and prints which defect was found
// after how many steps, and by which check.
//
// All defects are in one binary. For each function with mutants, an overlay of the
// compiler adds a copy per mutant, and the original function begins with a switch:
//
//	if mutant.Is(12) {
//		return EvidenceOf__12(work)
//	}
//
//	table.go    what a mutant is, and all of them
//	review.go   defects that a review found earlier
//	decide.go, render.go, cached.go, rollouts.go  further defects in these packages
//	overlay.go  the overlay for a build
//	rewrite.go  one file of it
//	hunt.go     one run of the simulation per mutant
//	report.go   the table for docs/reliability.md
//
// Package mutant holds the number of the mutant that runs.
package main
