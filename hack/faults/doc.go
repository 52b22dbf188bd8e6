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

// Package faults breaks a real fleet and looks at what is then true: Karmada's
// controllers, agents, API servers, etcd and whole members are stopped and
// started as processes, nothing is faked, and time is measured.
//
//	make faults                                            # a fleet, all faults, and it is gone again
//	FAULTS_FLEET=.fleet/faults make faults                 # on a fleet that runs; it stays
//	go test -tags faults -v -run Outage ./hack/faults      # one of them
//	FAULTS_WRITE_DOCS=1 make faults                        # and writes what was seen and measured into docs/
//	FAULTS_KEEP=1 make faults                              # the fleet stays
//	FAULTS_SEED=7 make faults                              # with the random numbers of an earlier run
//
// The fleet, the controller's process and the language come from hack/testbed. A
// file is named after what its tests are about; these hold what several need:
//
//	main_test.go       what the test bed is asked for
//	process_test.go    processes of the fleet that stop, crash and start
//	configmap_test.go  what members have of a ConfigMap
//	kinds_test.go      kinds that are installed for a test
//	figures_test.go    what was measured, and the pages made of it
//	agents/            a program that plays the agents of many clusters
//
// The tests run one after the other: each has the fleet for itself. What a test
// stops it starts again, whatever becomes of it.
//
// A confirmation is always checked by reading the member after the status that
// claims it was seen.
package faults
