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
	"slices"
)

// Mutant is a defect that the simulation should find.
type Mutant struct {
	// Name says in plain English what the defect does.
	Name string
	// Why says what is wrong about it, if that is not obvious.
	Why string
	// Theme is the theme of the simulation in which the defect is looked for; empty for
	// any world. Each world with themes has each of them sooner or later.
	Theme string
	// Test is the test that finds the defect if the simulation cannot.
	Test string
	// Edits are the changes that make the defect.
	Edits []Edit
}

// Edit changes a function.
type Edit struct {
	// File is the file below controllers/, and Func the function in it: "EvidenceOf",
	// or "Ledger.Amend" for a method.
	File, Func string
	// Old is a fragment of the body of the function, and New is what replaces it. If
	// Old is empty, New is the whole body.
	Old, New string
}

var errTwice = errors.New("two mutants have the same name")

// table has all mutants. A mutant is known by its place in it, beginning with 1.
func table() []Mutant {
	return slices.Concat(reviewed, secondReview, inDecide, inPlans, inRender, inCached, inRollouts)
}

// one returns the edits of a mutant that changes one place.
func one(file, function, before, after string) []Edit {
	return []Edit{{File: file, Func: function, Old: before, New: after}}
}
