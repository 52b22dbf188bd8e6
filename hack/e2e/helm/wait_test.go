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

package helm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// settingsChart is the template of a user's chart, which is deployed to Karmada
// itself.
const settingsChart = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {says: hello}
---
apiVersion: propagation.karmada-direct.io/v1alpha1
kind: DirectPropagation
metadata: {name: settings}
spec:
  resource: {apiVersion: v1, kind: ConfigMap, name: settings}
  clusters: [{name: member1}, {name: {{ .Values.second }}}]
{{- if .Values.nodes }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  progressDeadlineSeconds: {{ .Values.deadline }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {type: {{ .Values.nodes }}}
      containers: [{name: main, image: nginx}]
---
apiVersion: propagation.karmada-direct.io/v1alpha1
kind: DirectPropagation
metadata: {name: web}
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, name: web}
  clusters: [{name: member1}, {name: member2}]
{{- end }}
`

// Users deploy with their own charts. Helm 4 waits for the members. Helm 3 waits
// only for the built-in kinds of Kubernetes, and for a Deployment in vain, as the
// documentation says.
func TestHelmWait(t *testing.T) {
	helm4 := bed.File("helm4")
	if err := machine.Build(t.Context(), filepath.Join(bed.Root, "hack", "e2e", "helm", "helm4"), "helm.sh/helm/v4/cmd/helm", helm4); err != nil {
		t.Fatal(err)
	}
	chart := usersChart(t)
	forgetInstallation(t)
	r := newRelease(t)
	r.hasSecret("karmada-controller-manager-config", "karmada.config", adminKubeconfig(t))
	r.installs(chartFolder())
	r.startsOne()

	for program, waits := range map[string]bool{helm4: true, helm3: false} {
		deploysWith(t, program, waits, chart)
	}
}

// usersChart writes a user's chart.
func usersChart(t *testing.T) string {
	t.Helper()
	chart := t.TempDir()
	for name, content := range map[string]string{
		"Chart.yaml":             "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
		"values.yaml":            "second: member2\nnodes: \"\"\ndeadline: 600\n",
		"templates/objects.yaml": settingsChart,
	} {
		path := filepath.Join(chart, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return chart
}

// deploysWith installs, upgrades and uninstalls a chart with a helm that waits for
// the members, or with one that does not.
func deploysWith(t *testing.T, program string, waits bool, chart string) {
	t.Helper()
	const missing = "second=no-such-cluster"
	namespace := "helm-" + rand.String(5)
	helm := func(arguments ...string) error {
		_, err := run(t, program, append(arguments, "--kubeconfig", bed.Fleet.Kubeconfig("karmada"), "--namespace", namespace)...)
		return err
	}
	if err := helm("install", "settings", chart, "--create-namespace", "--wait", "--timeout", "2m"); err != nil {
		t.Fatal(err)
	}
	j := &traveler{t: t, namespace: namespace}
	if waits {
		// Immediately, not a moment later.
		if err := j.told(t.Context(), "hello"); err != nil {
			t.Errorf("%s did not wait for the members: %v", program, err)
		}
	}
	j.confirmed("hello")
	err := helm("upgrade", "settings", chart, "--wait", "--timeout", "10s", "--set", missing)
	switch {
	case waits && (err == nil || !strings.Contains(err.Error(), "kind: DirectPropagation, status: InProgress")):
		t.Errorf("the upgrade by %s with %s returned: %v", program, missing, err)
	case !waits && err != nil:
		t.Errorf("%s does wait, so the documentation is wrong: %v", program, err)
	}
	waitsForDeployment(t, waits, func(arguments ...string) error {
		return helm(append([]string{"upgrade", "settings", chart, "--wait"}, arguments...)...)
	})
	if err := helm("uninstall", "settings", "--wait"); err != nil {
		t.Error(err)
	}
	eventually(t, "the members lack what was uninstalled", func(ctx context.Context) error {
		if err := j.told(ctx, "hello"); err == nil || !strings.Contains(err.Error(), "not found") {
			return fmt.Errorf("they still have it: %w", err)
		}
		return nil
	})
}

// waitsForDeployment adds a Deployment to a release. Helm 4 sees that the members run it, and
// that they cannot run it if no node is suitable. Helm 3 looks for its ReplicaSet, which
// exists only on the members.
func waitsForDeployment(t *testing.T, waits bool, upgrade func(arguments ...string) error) {
	t.Helper()
	if !waits {
		if err := upgrade("--timeout", "20s", "--set", "nodes=kwok"); err == nil || !strings.Contains(err.Error(), "context deadline exceeded") {
			t.Errorf("Helm 3 waits for a Deployment no longer in vain, so the documentation is wrong: %v", err)
		}
		return
	}
	if err := upgrade("--timeout", "3m", "--set", "nodes=kwok"); err != nil {
		t.Errorf("the members run the Deployment, and Helm does not see it: %v", err)
	}
	err := upgrade("--timeout", "3m", "--set", "nodes=missing,deadline=10")
	if err == nil || !strings.Contains(err.Error(), "kind: Deployment, status: Failed") {
		t.Errorf("the members cannot run the Deployment: %v", err)
	}
}
