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

// Package mutant chooses which defect of the controller runs. Only an overlay, which
// package mutants writes, imports it into the controller.
package mutant

// Active is the number of the mutant that runs; 0 for none. It is set before the
// controller starts.
var Active int

// Reached reports whether a function with the mutant has been called.
var Reached bool

// Is reports whether a mutant runs.
func Is(number int) bool {
	if number != Active {
		return false
	}
	if !Reached {
		Reached = true
	}
	return true
}
