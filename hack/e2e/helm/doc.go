//go:build e2e_helm

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

// Package helm installs charts/direct-propagation with the real helm into a real
// host cluster beside a real Karmada, and has what it rendered do its work.
//
//	make e2e-helm                                # a fleet, all tests, and it is gone again
//	E2E_KEEP=1 make e2e-helm                     # the fleet stays
//	E2E_FLEET=.fleet/e2e-helm make e2e-helm      # on a fleet that runs
//
// The host cluster's nodes are kwok's: it says that Pods are Ready, and runs
// nothing. So that helm --wait ends shows that the API server takes what was
// rendered, and no more. What a container runtime would do is done here, from
// the Pod as the API server stores it: the image is unpacked, volumes are made
// of what is in them, and each container is a process with exactly the arguments,
// files and user of its Pod, and with nothing else: its root folder holds the
// image and its mounts. What is not done: network namespaces, so Pods are told
// to listen on 127.0.0.1 and on ports of their own; limits of resources; and
// read-only mounts.
//
// What stands where:
//
//	main_test.go         fleet and clients, from hack/testbed
//	image_test.go        images, as hack/image builds them
//	kubelet_test.go      Pods become processes
//	release_test.go      helm, and the namespace of a release
//	journey_test.go      what a user does on the Karmada API server
//	presets_test.go      installations, by each way in which Karmada is installed
//	permissions_test.go  what the controller and users may do
//	upgrade_test.go      upgrade, rollback, uninstall
//	kubeconfig_test.go   a kubeconfig that is replaced
//	metrics_test.go      metrics that the chart's rules rely on
//	values_test.go       values that are refused, and a registry
//	wait_test.go         charts of users, and whether helm waits for the members
//	helm4/               a module of its own: Helm 4
//
// The tests run one after the other: they share one Karmada.
package helm
