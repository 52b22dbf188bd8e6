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

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Secure metrics need a token of the host cluster. Only the controller's container
// gets it, and it allows only reviews of requests for metrics.
func TestSecureMetrics(t *testing.T) {
	r := render(t, "metrics.secure.enabled=true", "metrics.secure.certSecret=cert", "metrics.serviceMonitor.enabled=true",
		"metrics.secure.readers[0].name=prometheus", "metrics.secure.readers[0].namespace=monitoring",
		"networkPolicy.enabled=true", "---\nnetworkPolicy: {hostAPIServerTo: [{ipBlock: {cidr: 10.0.0.1/32}}]}")
	r.isKnown()
	pod := r.pod()
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		has := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "host-token" })
		if has != (container.Name == "controller-manager") {
			t.Errorf("%s has a token of the host cluster: %v", container.Name, has)
		}
	}
	for _, want := range []string{"--metrics-secure", "--metrics-tls-cert-file=/run/metrics-certificate/tls.crt", "--metrics-tls-private-key-file=/run/metrics-certificate/tls.key"} {
		if !slices.Contains(pod.Containers[0].Args, want) {
			t.Errorf("the controller's arguments do not contain %s: %q", want, pod.Containers[0].Args)
		}
	}
	bindings := bindingsOf(t, r)
	if own := bindings["system:auth-delegator"]; own.Name != pod.ServiceAccountName || own.Namespace != "karmada-system" || len(bindings) != 2 {
		t.Errorf("the bindings are %+v", bindings)
	}
	if reader := bindings[r.find("ClusterRole").GetName()]; reader.Name != "prometheus" || reader.Namespace != "monitoring" {
		t.Errorf("the metrics are read by %+v", reader)
	}
	endpoints, _, _ := unstructured.NestedSlice(r.find("ServiceMonitor").Object, "spec", "endpoints")
	endpoint, _ := endpoints[0].(map[string]any)
	name, _, _ := unstructured.NestedString(endpoint, "tlsConfig", "serverName")
	if endpoint["scheme"] != "https" || endpoint["bearerTokenFile"] == "" || name != "kd-direct-propagation-metrics.karmada-system.svc" {
		t.Errorf("Prometheus reads %v", endpoint)
	}
	if network := typed[networkingv1.NetworkPolicy](r, "NetworkPolicy").Spec; len(network.Egress) != 3 || network.Egress[2].To[0].IPBlock.CIDR != "10.0.0.1/32" {
		t.Errorf("the NetworkPolicy is %+v", network)
	}
	for want, settings := range map[string][]string{
		"a PodMonitor sends no token of Prometheus": {"metrics.podMonitor.enabled=true"},
		"metrics.enabled must be true":              {"metrics.enabled=false"},
		"set networkPolicy.hostAPIServerTo to":      {"networkPolicy.enabled=true"},
	} {
		if _, err := tryRender(t, append(settings, "metrics.secure.enabled=true")...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %v the error is %v", settings, err)
		}
	}
}

// bindingsOf returns the subjects of the ClusterRoleBindings by the names of their
// roles.
func bindingsOf(t *testing.T, r *rendered) map[string]rbacv1.Subject {
	t.Helper()
	bindings := map[string]rbacv1.Subject{}
	for _, object := range r.objects {
		if object.GetKind() == "ClusterRoleBinding" {
			binding := &rbacv1.ClusterRoleBinding{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding); err != nil {
				t.Fatal(err)
			}
			bindings[binding.RoleRef.Name] = binding.Subjects[0]
		}
	}
	return bindings
}
