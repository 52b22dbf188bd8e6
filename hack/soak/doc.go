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

// Package soak lets random users and failing members keep the controller busy for a
// long time on a real fleet, and checks that the process does not grow and that
// everything settles.
//
//	make soak DURATION=1h                 # start a fleet, run, stop the fleet
//	make soak DURATION=10m PACE=500ms     # faster users
//	SOAK_SEED=7 make soak DURATION=1h     # with the random numbers of an earlier run
//
// The samples and a plot of them are written to docs/reliability.
//
//	main_test.go    options of the test bed
//	soak_test.go    the test
//	users_test.go   what users and members do
//	sample_test.go  measures the process; what flat means
package soak
