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
//	main.go         TestMain: interrupts, -timeout, list of failed tests
//	bed.go          starts and stops the fleet, the clients and the controller
//	controller.go   the controller process, installed with its default role
//	audit.go        the proxy that records every write of a controller
//	request.go      extracts from a request what it writes
//	recorder.go     records everything that a watch reports, with times
//	await.go        waits, and reports why a wait failed
//	namespace.go    a test's own namespace, on all control planes
//	clean.go        checks that a test leaves nothing behind
//	resource.go     creates and changes resources, and checks them on members
//	propagation.go  creates, changes and deletes DirectPropagations
//	states.go       the states of a DirectPropagation
//	checks.go       checks for a state
//	kind.go         CustomResourceDefinitions
//	member.go       the objects of a member
//	builders.go     builds objects
//	dump.go         what a failed test prints about its namespace
//	machine/        processes of this machine, without Kubernetes
//
// To verify a confirmation, tests read the member after they have seen the status
// that claims it. Content only moves forward, so if something is missing then, it
// was also missing when the status claimed it. No test sleeps: tests wait for a
// state, or poll continuously for what must not happen.
package testbed
