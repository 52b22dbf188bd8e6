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

// Package rollouts tests rollouts across clusters on a real fleet of six members, four
// push and two pull. What happened is judged by the order in which the API server stored
// the status of objects and their Works.
//
//	make rollouts                                          # start a fleet, run all tests, stop the fleet
//	ROLLOUTS_FLEET=.fleet/rollouts make rollouts           # use a running fleet and keep it
//	go test -tags rollouts -v -run Canary ./hack/rollouts  # one test
//	ROLLOUTS_KEEP=1 make rollouts                          # keep the fleet
//
// history_test.go reads the history of a rollout and checks what must hold for each of
// them.
package rollouts
