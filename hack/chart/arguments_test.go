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

package chart

import (
	"slices"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	r := render(t,
		"rbac.propagated={deployments.apps,configmaps}", "karmada.namespace=kd",
		"controller.concurrentSyncs=3", "controller.concurrentWorkWrites=1000000", "---\ncontroller: {kubeAPIQPS: 0.5}", "controller.kubeAPIBurst=7",
		"controller.defaultServiceAccount=deployer",
		"controller.leaderElection.leaseDuration=1m", "controller.loggingFormat=json", "controller.verbosity=2", "controller.extraArgs={--logging-format=text}",
		"metrics.port=9090", "health.port=9091", "listenAddress=127.0.0.1",
	)
	pod := r.pod()
	if got := pod.InitContainers[1].Args; !slices.Equal(got, []string{"install-rbac", "--kubeconfig=/etc/karmada/kubeconfig", "--namespace=kd", "--propagated=deployments.apps,configmaps", "--aggregate-status=true"}) {
		t.Errorf("install-rbac has %q", got)
	}
	for _, want := range []string{
		"--concurrent-direct-propagation-syncs=3", "--concurrent-work-writes=1000000", "--kube-api-qps=0.5", "--kube-api-burst=7",
		"--default-service-account=deployer",
		"--leader-elect=true", "--leader-elect-resource-namespace=kd", "--leader-elect-lease-duration=1m", "--logging-format=json", "--v=2",
		"--metrics-bind-address=127.0.0.1:9090", "--health-probe-bind-address=127.0.0.1:9091",
	} {
		if !slices.Contains(pod.Containers[0].Args, want) {
			t.Errorf("the controller's arguments do not contain %s: %q", want, pod.Containers[0].Args)
		}
	}
	if last := pod.Containers[0].Args[len(pod.Containers[0].Args)-1]; last != "--logging-format=text" {
		t.Errorf("extraArgs are not the last arguments: %s", last)
	}
	for _, argument := range render(t).pod().Containers[0].Args {
		if strings.HasPrefix(argument, "--default-service-account") {
			t.Errorf("by default, the controller has %s", argument)
		}
	}
	if args := render(t, "metrics.enabled=false").pod().Containers[0].Args; !slices.Contains(args, "--metrics-bind-address=0") {
		t.Errorf("without metrics the arguments are %q", args)
	}
}

func TestGuardrailsKnowTheController(t *testing.T) {
	if got := render(t, "guardrails.enabled=true", "karmada.namespace=kd").pod().InitContainers[2].Args; !slices.Equal(got, []string{"install-guardrails", "--kubeconfig=/etc/karmada/kubeconfig", "--namespace=kd"}) {
		t.Errorf("install-guardrails has %q", got)
	}
	got := render(t, "guardrails.enabled=true", "rbac.leastPrivilege=false", "guardrails.controllerUsers={system:admin,other}").pod().InitContainers[2].Args
	if !slices.Contains(got, "--controller-users=system:admin,other") {
		t.Errorf("install-guardrails has %q", got)
	}
	if _, err := tryRender(t, "guardrails.enabled=true", "rbac.leastPrivilege=false"); err == nil || !strings.Contains(err.Error(), "list in guardrails.controllerUsers") {
		t.Errorf("without knowing the controller's user, the error is %v", err)
	}
}
