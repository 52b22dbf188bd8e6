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
`

// Users deploy with their own charts. Helm 4 waits for the members. Helm 3 waits
// only for the built-in kinds of Kubernetes, as the documentation says.
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
		"values.yaml":            "second: member2\n",
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
