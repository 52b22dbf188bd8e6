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
// host cluster next to a real Karmada, and runs what the chart renders.
//
//	make e2e-helm                                # start a fleet, run all tests, stop the fleet
//	E2E_KEEP=1 make e2e-helm                     # keep the fleet
//	E2E_FLEET=.fleet/e2e-helm make e2e-helm      # use a running fleet
//
// The host cluster's nodes are simulated by kwok, which reports Pods as Ready but
// runs nothing. The success of helm --wait therefore only shows that the API server
// accepts the rendered objects. These tests do what a container runtime would do,
// based on the Pod as the API server stores it: they unpack the image, create the
// volumes, and run each container as a process with exactly the arguments, files and
// user of its Pod. Its root folder contains only the image and its mounts. Not
// implemented are network namespaces, so Pods listen on 127.0.0.1 and on their own
// ports; resource limits; and read-only mounts.
//
// The files:
//
//	main_test.go         fleet and clients, from hack/testbed
//	image_test.go        images, as hack/image builds them
//	kubelet_test.go      runs Pods as processes
//	release_test.go      helm, and the namespace of a release
//	journey_test.go      what a user does on the Karmada API server
//	presets_test.go      one installation for each way to install Karmada
//	permissions_test.go  what the controller and users may do
//	upgrade_test.go      upgrade, rollback, uninstall
//	kubeconfig_test.go   a kubeconfig that is replaced
//	metrics_test.go      metrics that the chart's rules rely on
//	values_test.go       rejected values, and a registry
//	wait_test.go         charts of users, and whether helm waits for the members
//	helm4/               a separate module: Helm 4
//
// The tests run one at a time because they share one Karmada.
package helm
