//go:build e2e

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

// Package e2e tells journeys of users on a real fleet: Karmada with a push and
// a pull member, the controller as a process of its own, and nothing faked but
// kubelets.
//
//	make e2e                                   # a fleet, all journeys, and it is gone again
//	E2E_KEEP=1 make e2e                        # the fleet stays, and the output says how to reach it
//	E2E_FLEET=.fleet/e2e make e2e              # on a fleet that runs
//	E2E_CONTROLLER=/tmp/controller make e2e    # with a controller that is built already
//	make e2e TESTFLAGS='-run Crash' E2E_SEED=7 # one journey, with the random numbers of an earlier run
//	make e2e-argocd                            # the journeys with Argo CD, on a fleet that has it
//
// The fleet, the controller's process and the language that journeys are told in
// come from hack/testbed. A file is named after what its tests are about; three
// hold what several of them need:
//
//	main_test.go               what the test bed is asked for
//	witness_test.go            checks that rows tell the truth
//	application_test.go        Applications of Argo CD and their Git repositories
//
// Tests that end the controller's process come first, one after the other;
// all others run beside each other in namespaces of their own.
//
// Two rules make the tests sound. A confirmation is checked by reading the
// member after the status that claims it was seen: content only ever moves
// forward, so what is missing then was missing when it was claimed. And no
// test sleeps: it waits for a state, or watches without a pause for what must
// not happen.
package e2e
