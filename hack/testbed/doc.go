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

// Package testbed is shared by the tests that run on a real fleet: hack/e2e,
// hack/e2e/helm and hack/faults, and partly by hack/bench. It starts the fleet and
// the controller process, connects to all control planes, records the controller's
// writes in a proxy, records what watches report, and provides the vocabulary in
// which the tests are written.
//
//	main.go         TestMain: interrupts, -timeout, which tests failed
//	bed.go          fleet, clients and controller come up and go down
//	controller.go   the controller's process, installed under its default role
//	audit.go        the proxy that records every write of a controller
//	request.go      which write a request is
//	recorder.go     all that a watch shows of a kind, with the time
//	await.go        waiting, and what was wrong when it was in vain
//	namespace.go    a test's own namespace, on all control planes
//	clean.go        that it is left with nothing in it
//	resource.go     resources of a namespace: created, changed, run by members
//	propagation.go  a DirectPropagation: made, changed, deleted
//	states.go       the states that it goes through
//	checks.go       what a state may be required to say
//	kind.go         CustomResourceDefinitions
//	member.go       what a member runs
//	builders.go     objects
//	dump.go         what is shown of a namespace when a test fails
//	machine/        processes of this machine, without Kubernetes
//
// To verify a confirmation, tests read the member after they have seen the status
// that claims it. Content only moves forward, so if something is missing then, it
// was also missing when the status claimed it. No test sleeps: tests wait for a
// state, or poll continuously for what must not happen.
package testbed
