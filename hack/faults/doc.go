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

// Package faults breaks a real fleet and checks what the status then says. It stops
// and starts Karmada's controllers, agents, API servers, etcd and whole members as
// processes. Almost nothing is simulated, and the tests measure times.
//
//	make faults                                            # start a fleet, run all tests, stop the fleet
//	FAULTS_FLEET=.fleet/faults make faults                 # use a running fleet and keep it
//	go test -tags faults -v -run Outage ./hack/faults      # one test
//	FAULTS_WRITE_DOCS=1 make faults                        # also write the results into docs/
//	FAULTS_KEEP=1 make faults                              # keep the fleet
//	FAULTS_PREVIOUS=v0.1.0 make faults                     # upgrade from this commit or built controller, and back
//	FAULTS_OVERLOAD_WORKS=20000 make faults                # with as many Works in TestOverload
//	FAULTS_SEED=7 make faults                              # with the random numbers of an earlier run
//
// The fleet, the controller process and the vocabulary of the tests come from
// hack/testbed. Files are named after what they test. These hold shared code:
//
//	main_test.go       options of the test bed
//	process_test.go    stops, crashes and starts processes of the fleet
//	configmap_test.go  checks ConfigMaps on members
//	pairs_test.go      users that change everything meanwhile, and what they want
//	truth_test.go      compares what rows say with what members have run
//	wal_test.go        damages the log of etcd
//	network_test.go    puts links between components
//	kinds_test.go      installs kinds for a test
//	bottleneck_test.go limits the requests of a controller
//	standards_test.go  objects that set the fields of the API and do not change
//	figures_test.go    measurements, and the pages made from them
//	agents/            simulates the agents of many clusters
//
// The tests run one at a time, because each needs the whole fleet. A test always
// starts again what it has stopped, even if it fails.
//
// To verify a confirmation, tests always read the member after they have seen the
// status that claims it.
package faults
