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
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// everything turns on all that is off by default.
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

// What belongs on the Karmada API server is in no chart that goes into the host
// cluster, whatever is set: no CRD, no role, nothing that needs one.
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

func TestPresets(t *testing.T) {
	for _, test := range []struct {
		settings     []string
		secret, file string
	}{
		{nil, "karmada-controller-manager-config", "karmada.config"},
		{[]string{"karmada.preset=karmadactl"}, "karmada-controller-manager-config", "karmada.config"},
		{[]string{"karmada.preset=helm"}, "karmada-kubeconfig", "kubeconfig"},
		{[]string{"karmada.preset=helm", "karmada.name=mine"}, "mine-kubeconfig", "kubeconfig"},
		{[]string{"karmada.preset=operator", "karmada.name=mine"}, "mine-admin-config", "karmada.config"},
		{[]string{"karmada.preset=operator", "karmada.kubeconfigSecret.name=other"}, "other", "karmada.config"},
		{[]string{"karmada.preset=custom", "karmada.kubeconfigSecret.name=other"}, "other", "kubeconfig"},
		{[]string{"karmada.preset=custom", "karmada.kubeconfigSecret.name=other", "karmada.kubeconfigSecret.key=value"}, "other", "value"},
	} {
		t.Run(strings.Join(test.settings, " "), func(t *testing.T) {
			r := render(t, test.settings...)
			volume := r.pod().Volumes[0]
			if volume.Secret.SecretName != test.secret || volume.Secret.Items[0] != (corev1.KeyToPath{Key: test.file, Path: "kubeconfig"}) {
				t.Errorf("the volume is %+v", volume.Secret)
			}
			if want := "of Secret " + test.secret + " (key " + test.file + ")"; !strings.Contains(r.notes, want) {
				t.Errorf("the notes lack %q:\n%s", want, r.notes)
			}
		})
	}
}

// A Secret that is mounted by subPath never shows its renewal.
func TestSecretIsMountedAsAFolder(t *testing.T) {
	for _, settings := range [][]string{nil, {"rbac.leastPrivilege=false"}, {"crds.install=job"}} {
		r := render(t, settings...)
		pods := []corev1.PodSpec{r.pod()}
		if r.has("Job") {
			pods = append(pods, typed[batchv1.Job](r, "Job").Spec.Template.Spec)
		}
		for _, pod := range pods {
			for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
				for _, mount := range container.VolumeMounts {
					if mount.SubPath != "" || mount.SubPathExpr != "" {
						t.Errorf("%v: %s mounts %s by subPath", settings, container.Name, mount.Name)
					}
				}
			}
		}
	}
}

func names(containers []corev1.Container) []string {
	list := []string{}
	for _, container := range containers {
		list = append(list, container.Name)
	}
	return list
}

// Who installs what, and who sees which kubeconfig.
func TestWhoInstalls(t *testing.T) {
	for _, test := range []struct {
		settings  []string
		init, job []string
	}{
		{nil, []string{"install-crds", "install-rbac", "write-kubeconfig"}, nil},
		{[]string{"rbac.leastPrivilege=false"}, []string{"install-crds", "install-rbac"}, nil},
		{[]string{"crds.install=job"}, []string{"install-rbac", "write-kubeconfig"}, []string{"install-crds"}},
		{[]string{"guardrails.enabled=true"}, []string{"install-crds", "install-rbac", "install-guardrails", "write-kubeconfig"}, nil},
		{[]string{"guardrails.enabled=true", "rbac.install=job"}, []string{"install-crds", "write-kubeconfig"}, []string{"install-rbac", "install-guardrails"}},
		{[]string{"guardrails.enabled=true", "rbac.install=none"}, []string{"install-crds", "write-kubeconfig"}, nil},
		{[]string{"crds.install=job", "rbac.install=job"}, []string{"write-kubeconfig"}, []string{"install-crds", "install-rbac"}},
		{[]string{"crds.install=none", "rbac.install=none"}, []string{"write-kubeconfig"}, nil},
		{[]string{"crds.install=none", "rbac.install=none", "rbac.leastPrivilege=false"}, []string{}, nil},
	} {
		t.Run(strings.Join(test.settings, " "), func(t *testing.T) {
			r := render(t, test.settings...)
			pod := r.pod()
			if got := names(pod.InitContainers); !slices.Equal(got, test.init) {
				t.Errorf("init containers %v, want %v", got, test.init)
			}
			if r.has("Job") != (test.job != nil) {
				t.Fatalf("rendered %v", r.kinds())
			}
			if test.job != nil {
				job := typed[batchv1.Job](r, "Job")
				if got := names(slices.Concat(job.Spec.Template.Spec.InitContainers, job.Spec.Template.Spec.Containers)); !slices.Equal(got, test.job) {
					t.Errorf("the Job runs %v, want %v", got, test.job)
				}
				if hooks := job.Annotations["helm.sh/hook"]; hooks != "pre-install,pre-upgrade,pre-rollback" {
					t.Errorf("the Job is a hook of %q", hooks)
				}
			}
			controller := pod.Containers[0]
			admin, own := slices.Contains(controller.Args, "--kubeconfig=/etc/karmada/kubeconfig"), slices.Contains(controller.Args, "--kubeconfig=/run/karmada-direct/kubeconfig")
			leastPrivilege := !slices.Contains(test.settings, "rbac.leastPrivilege=false")
			if admin == leastPrivilege || own != leastPrivilege {
				t.Errorf("the controller's arguments are %q", controller.Args)
			}
			for _, mount := range controller.VolumeMounts {
				if leastPrivilege && mount.Name == "karmada" {
					t.Error("the controller sees the kubeconfig that has all rights")
				}
			}
		})
	}
}

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
			t.Errorf("the controller lacks %s: %q", want, pod.Containers[0].Args)
		}
	}
	if last := pod.Containers[0].Args[len(pod.Containers[0].Args)-1]; last != "--logging-format=text" {
		t.Errorf("extraArgs do not come last: %s", last)
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

// The controller renews a token that ends, and reads the usual kinds unless
// others are named.
func TestPermissionsByDefault(t *testing.T) {
	pod := render(t).pod()
	if got := pod.InitContainers[1].Args; !slices.Equal(got, []string{"install-rbac", "--kubeconfig=/etc/karmada/kubeconfig", "--namespace=karmada-system", "--aggregate-status=true"}) {
		t.Errorf("install-rbac has %q", got)
	}
	if got := pod.InitContainers[2].Args; !slices.Contains(got, "--token-lifetime=24h") {
		t.Errorf("write-kubeconfig has %q", got)
	}
	controller := pod.Containers[0]
	if !slices.Contains(controller.Args, "--renew-token") || controller.VolumeMounts[0].Name != "own-kubeconfig" || controller.VolumeMounts[0].ReadOnly {
		t.Errorf("the controller cannot renew its token: %q, %+v", controller.Args, controller.VolumeMounts)
	}
	if args := render(t, "rbac.leastPrivilege=false").pod().Containers[0].Args; slices.Contains(args, "--renew-token") {
		t.Errorf("the controller renews the token of somebody else: %q", args)
	}
	pod = render(t, "rbac.aggregateStatus=false").pod()
	if !slices.Contains(pod.Containers[0].Args, "--aggregate-status=false") || !slices.Contains(pod.InitContainers[1].Args, "--aggregate-status=false") {
		t.Errorf("the status is aggregated: %q", pod.Containers[0].Args)
	}
}

// Metrics that are reviewed need a token of the host cluster, which no other
// container gets, and may do nothing else there.
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
			t.Errorf("the controller lacks %s: %q", want, pod.Containers[0].Args)
		}
	}
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
		"a PodMonitor sends no token of Prometheus":  {"metrics.podMonitor.enabled=true"},
		"metrics.enabled must be true":               {"metrics.enabled=false"},
		"say in networkPolicy.hostAPIServerTo where": {"networkPolicy.enabled=true"},
	} {
		if _, err := tryRender(t, append(settings, "metrics.secure.enabled=true")...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %v the error is %v", settings, err)
		}
	}
}

// Every Pod passes the restricted Pod Security Standard, by the code that the
// API server itself judges with.
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
				t.Errorf("the Pods of the %s are not restricted: %s: %s", kind, result.ForbiddenReason, result.ForbiddenDetail)
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
				t.Errorf("%s may write to its root file system", container.Name)
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
			t.Errorf("%s %s has too long a name", object.GetKind(), object.GetName())
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
			t.Errorf("a rule of the NetworkPolicy lets Pods reach everything: %+v", rule)
		}
	}
}

func TestSmallThings(t *testing.T) {
	if r := render(t, "replicaCount=1"); r.has("PodDisruptionBudget") {
		t.Error("one replica has a PodDisruptionBudget, which would hold up every drain")
	}
	r := render(t, "hostNetwork=true", "listenAddress=127.0.0.1", "---\nhostAliases: [{ip: 10.0.0.1, hostnames: [karmada]}]\nextraContainers: [{name: more, image: more}]\n")
	r.isKnown()
	if pod := r.pod(); !pod.HostNetwork || pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet || len(pod.HostAliases) != 1 || len(pod.Containers) != 2 ||
		pod.Containers[0].LivenessProbe.HTTPGet.Host != "127.0.0.1" || pod.Containers[0].ReadinessProbe.HTTPGet.Host != "127.0.0.1" {
		t.Errorf("in the network of the node, the Pod is %+v", pod)
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
		t.Errorf("without a ServiceAccount of its own, it is %q", got)
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
		t.Errorf("the notes do not tell what uninstall leaves:\n%s", notes)
	}
	if notes := render(t, "crds.install=none").notes; !strings.Contains(notes, "apply --server-side -f crds.yaml") {
		t.Errorf("the notes do not tell how to install the CRDs:\n%s", notes)
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for setting, want := range map[string]string{
		"crds.install=pod":                           "at '/crds/install': value must be one of 'initContainer', 'job', 'none'",
		"rbac.install=true":                          "at '/rbac/install': value must be one of 'initContainer', 'job', 'none'",
		"karmada.preset=kubeadm":                     "at '/karmada/preset': value must be one of 'karmadactl', 'helm', 'operator', 'custom'",
		"karmada.preset=custom":                      "say in karmada.kubeconfigSecret.name which Secret holds the kubeconfig",
		"replicaCount=two":                           "at '/replicaCount': got string, want integer",
		"controler.verbosity=1":                      "additional properties 'controler' not allowed",
		"controller.verbose=1":                       "at '/controller': additional properties 'verbose' not allowed",
		"controller.kubeAPIQPS=0":                    "at '/controller/kubeAPIQPS': exclusiveMinimum: got 0, want 0",
		"controller.kubeAPIQPS=5":                    "controller.kubeAPIBurst must be at least 1",
		"controller.leaderElection.enabled=false":    "controller.leaderElection.enabled must be true, or every replica works",
		"controller.leaderElection.leaseDuration=15": "at '/controller/leaderElection/leaseDuration': got number, want string",
		"controller.extraArgs={v=4}":                 "at '/controller/extraArgs/0': 'v=4' does not match pattern '^--'",
		"metrics.port=0":                             "at '/metrics/port': minimum: got 0, want 1",
		"image.digest=abc":                           "at '/image/digest': 'abc' does not match pattern",
		"rbac.propagated={Deployments}":              "at '/rbac/propagated/0': 'Deployments' does not match pattern",
		"image.registry=":                            "image.registry: say which registry has the image",
		"image.registry=karmada":                     "image.registry: say which registry has the image",
		"rbac.tokenLifetime=1 day":                   "at '/rbac/tokenLifetime'",
		"rbac.propagated=null":                       "", // null takes the default away, and with it the kinds
	} {
		t.Run(setting, func(t *testing.T) {
			_, err := tryRender(t, setting)
			if want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want one with %q", err, want)
			}
		})
	}
}

// The schema knows every value, and no others.
func TestSchemaFitsValues(t *testing.T) {
	loaded := loadChart(t)
	schema := map[string]any{}
	if err := json.Unmarshal(loaded.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	properties, _ := schema["properties"].(map[string]any)
	delete(properties, "global") // Helm's own
	compare(t, "", loaded.Values, schema, schema)
}

func compare(t *testing.T, path string, values, schema, root map[string]any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		definitions, _ := root["$defs"].(map[string]any)
		schema, _ = definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	properties, listed := schema["properties"].(map[string]any)
	if open, said := schema["additionalProperties"].(bool); !listed || !said || open {
		return // whatever Kubernetes takes there
	}
	for name, value := range values {
		below, known := properties[name].(map[string]any)
		if !known {
			t.Errorf("the schema does not know %s.%s", path, name)
			continue
		}
		if nested, ok := value.(map[string]any); ok {
			compare(t, path+"."+name, nested, below, root)
		}
	}
	if strings.HasSuffix(path, "Probe") || strings.HasSuffix(strings.ToLower(path), "resources") {
		return // Kubernetes has more of them than are set
	}
	for name := range properties {
		if _, known := values[name]; !known {
			t.Errorf("the schema knows %s.%s, which is no value", path, name)
		}
	}
}

func TestLint(t *testing.T) {
	image := map[string]any{"registry": "registry.example.org"}
	for _, settings := range []map[string]any{{"image": image}, {"image": image, "crds": map[string]any{"install": "job"}}} {
		linter := lint.All(chartFolder, settings, "karmada-system", true)
		for _, message := range linter.Messages {
			if message.Severity > support.InfoSev {
				t.Error(message)
			}
		}
	}
}

// What Artifact Hub shows is YAML inside of YAML, which nobody else reads.
func TestArtifactHubAnnotations(t *testing.T) {
	loaded := loadChart(t)
	for _, name := range []string{"crds", "crdsExamples", "links", "changes"} {
		var list []map[string]any
		if err := yaml.UnmarshalStrict([]byte(loaded.Metadata.Annotations["artifacthub.io/"+name]), &list); err != nil || len(list) == 0 {
			t.Errorf("annotation %s: %v, %v", name, list, err)
		}
	}
	files, err := filepath.Glob("../../apis/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the CRDs: %v, %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &crd.Object); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(loaded.Metadata.Annotations["artifacthub.io/crds"], "name: "+crd.GetName()+"\n") {
			t.Errorf("the annotation does not name %s", crd.GetName())
		}
	}
}
