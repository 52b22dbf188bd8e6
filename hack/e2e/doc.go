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

// Package e2e tests what users do, on a real fleet: Karmada with a push and a pull
// member, and the controller as a separate process. Only the kubelets are simulated.
//
//	make e2e                                   # start a fleet, run all tests, stop the fleet
//	E2E_KEEP=1 make e2e                        # keep the fleet; the output says how to reach it
//	E2E_FLEET=.fleet/e2e make e2e              # use a running fleet
//	E2E_CONTROLLER=/tmp/controller make e2e    # use a controller that is already built
//	make e2e TESTFLAGS='-run Crash' E2E_SEED=7 # one test, with the random numbers of an earlier run
//	make e2e-argocd                            # the tests with Argo CD, on a fleet that has it
//
// The fleet, the controller process and the vocabulary of the tests come from
// hack/testbed. Files are named after what they test. Three files hold shared code:
//
//	main_test.go               options of the test bed
//	witness_test.go            checks that rows tell the truth
//	application_test.go        Applications of Argo CD and their Git repositories
//
// Tests that stop the controller run first, one at a time. All others run in
// parallel, each in its own namespace.
//
// Two rules make the tests sound. First, to verify a confirmation, they read the
// member after they have seen the status that claims it. Content only moves forward,
// so if something is missing then, it was also missing when the status claimed it.
// Second, no test sleeps: tests wait for a state, or poll continuously for what must
// not happen.
package e2e
