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

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// everything enables everything that is off by default.
var everything = []string{
	"metrics.serviceMonitor.enabled=true", "metrics.podMonitor.enabled=true", "metrics.prometheusRule.enabled=true", "metrics.dashboard.enabled=true",
	"networkPolicy.enabled=true", "priorityClass.create=true", "crds.install=job", "rbac.install=job",
}

func TestDefaults(t *testing.T) {
	r := render(t)
	r.isKnown()
	want := []string{
		"Deployment/kd-direct-propagation", "PodDisruptionBudget/kd-direct-propagation",
		"Service/kd-direct-propagation-metrics", "ServiceAccount/kd-direct-propagation",
	}
	if got := r.kinds(); !slices.Equal(got, want) {
		t.Errorf("rendered %v, want %v", got, want)
	}
	for _, object := range r.objects {
		if object.GetNamespace() != "karmada-system" {
			t.Errorf("%s is in namespace %q", object.GetKind(), object.GetNamespace())
		}
	}
	if pdb := typed[policyv1.PodDisruptionBudget](r, "PodDisruptionBudget"); pdb.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("the PodDisruptionBudget is %+v", pdb.Spec)
	}
}

// Whatever the values are, the chart installs nothing into the host cluster that
// belongs on the Karmada API server: no CRDs, no custom resources, and no RBAC.
func TestNothingOfKarmadaInTheHostCluster(t *testing.T) {
	for _, settings := range [][]string{nil, everything, {"crds.install=none", "rbac.install=none", "rbac.leastPrivilege=false"}} {
		for _, object := range render(t, settings...).objects {
			group := object.GroupVersionKind().Group
			if group == "apiextensions.k8s.io" || group == "rbac.authorization.k8s.io" || strings.HasSuffix(group, "karmada-direct.io") {
				t.Errorf("with %v, the host cluster gets %s %s", settings, object.GetKind(), object.GetName())
			}
		}
	}
	if crds := loadChart(t).CRDObjects(); len(crds) > 0 {
		t.Errorf("Helm would install %d CRDs into the host cluster", len(crds))
	}
}

// Every Pod meets the restricted Pod Security Standard, according to the code that
// the API server uses.
func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := render(t, append(slices.Clone(everything), "listenAddress=127.0.0.1")...)
	pods := map[string]corev1.PodSpec{"Deployment": r.pod(), "Job": typed[batchv1.Job](r, "Job").Spec.Template.Spec}
	for kind, pod := range pods {
		level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
		for _, result := range evaluator.EvaluatePod(level, &metav1.ObjectMeta{}, &pod) {
			if !result.Allowed {
				t.Errorf("the Pods of the %s do not meet the restricted standard: %s: %s", kind, result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("the Pods of the %s get a token of the host cluster", kind)
		}
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			if container.Resources.Requests.Cpu().IsZero() || container.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s has resources %+v", container.Name, container.Resources)
			}
			if container.SecurityContext.ReadOnlyRootFilesystem == nil || !*container.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s may write to its root filesystem", container.Name)
			}
		}
	}
}

func TestEverything(t *testing.T) {
	r := render(t, append(slices.Clone(everything), "commonLabels.team=platform", "podLabels.app=kd", "priorityClass.name=important")...)
	r.isKnown()
	for _, object := range r.objects {
		if object.GetLabels()["team"] != "platform" {
			t.Errorf("%s %s lacks the common label", object.GetKind(), object.GetName())
		}
		if len(object.GetName()) > 63 {
			t.Errorf("%s %s has a name that is too long", object.GetKind(), object.GetName())
		}
	}
	for _, kind := range []string{"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap", "NetworkPolicy", "PriorityClass", "Job"} {
		r.find(kind)
	}
	if class := typed[schedulingv1.PriorityClass](r, "PriorityClass"); class.Name != "important" || class.Value != 1000000 {
		t.Errorf("the PriorityClass is %+v", class)
	}
	if class := r.pod().PriorityClassName; class != "important" {
		t.Errorf("the Pods have priority class %q", class)
	}
	for _, constraint := range r.pod().TopologySpreadConstraints {
		if constraint.LabelSelector == nil || constraint.LabelSelector.MatchLabels["app.kubernetes.io/instance"] != "kd" {
			t.Errorf("a topology spread constraint selects %+v", constraint.LabelSelector)
		}
	}
	network := typed[networkingv1.NetworkPolicy](r, "NetworkPolicy").Spec
	if len(network.PolicyTypes) != 2 || len(network.Ingress) != 1 || network.Ingress[0].Ports[0].Port.IntValue() != 8080 || len(network.Egress) != 2 {
		t.Errorf("the NetworkPolicy is %+v", network)
	}
	for _, rule := range network.Egress {
		if len(rule.To) == 0 {
			t.Errorf("a rule of the NetworkPolicy allows traffic to all destinations: %+v", rule)
		}
	}
}

func TestOtherValues(t *testing.T) {
	if r := render(t, "replicaCount=1"); r.has("PodDisruptionBudget") {
		t.Error("a single replica has a PodDisruptionBudget, which would block every drain")
	}
	r := render(t, "hostNetwork=true", "listenAddress=127.0.0.1", "---\nhostAliases: [{ip: 10.0.0.1, hostnames: [karmada]}]\nextraContainers: [{name: more, image: more}]\n")
	r.isKnown()
	if pod := r.pod(); !pod.HostNetwork || pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet || len(pod.HostAliases) != 1 || len(pod.Containers) != 2 ||
		pod.Containers[0].LivenessProbe.HTTPGet.Host != "127.0.0.1" || pod.Containers[0].ReadinessProbe.HTTPGet.Host != "127.0.0.1" {
		t.Errorf("with hostNetwork, the Pod is %+v", pod)
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	for setting, want := range map[string]string{
		"image.registry=localhost:5000": "localhost:5000/karmada-direct/controller-manager:" + loadChart(t).AppVersion(),
		"image.registry=localhost":      "localhost/karmada-direct/controller-manager:" + loadChart(t).AppVersion(),
		"image.tag=v9":                  "registry.example.org/karmada-direct/controller-manager:v9",
		"image.digest=" + digest:        "registry.example.org/karmada-direct/controller-manager@" + digest,
		"image.repository=team/direct":  "registry.example.org/team/direct:" + loadChart(t).AppVersion(),
		"---\nimage: {registry: \"\", repository: ghcr.example.org/direct}": "ghcr.example.org/direct:" + loadChart(t).AppVersion(),
	} {
		if got := render(t, setting).pod().Containers[0].Image; got != want {
			t.Errorf("%s: the image is %s, want %s", setting, got, want)
		}
	}
	if got := render(t, "serviceAccount.create=false").pod().ServiceAccountName; got != "default" {
		t.Errorf("without its own ServiceAccount, the Pod uses %q", got)
	}
	r = render(t, `---
extraObjects:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: "{{ .Release.Name }}-one"}
- |
  apiVersion: v1
  kind: Secret
  metadata: {name: "{{ .Release.Name }}-two"}
`)
	if one, two := r.find("ConfigMap").GetName(), r.find("Secret").GetName(); one != "kd-one" || two != "kd-two" {
		t.Errorf("the extra objects are %s and %s", one, two)
	}
	if notes := render(t).notes; !strings.Contains(notes, `"helm uninstall" ends the controller and nothing else`) {
		t.Errorf("the notes do not say what uninstalling leaves:\n%s", notes)
	}
	if notes := render(t, "crds.install=none").notes; !strings.Contains(notes, "apply --server-side -f apis/crds") {
		t.Errorf("the notes do not say how to install the CRDs:\n%s", notes)
	}
}
