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
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The alerts and the dashboard use only metrics that the running controller serves.
func TestMetrics(t *testing.T) {
	forgetInstallation(t)
	r := newRelease(t)
	r.hasSecret("karmada-controller-manager-config", "karmada.config", adminKubeconfig(t))
	r.installs(chartFolder())
	running := r.startsOne()
	j := creates(t, "hello")
	missing(t) // a reconcile that ends in trouble
	rules := r.helm(slices.Concat([]string{"template", r.name, chartFolder(), "--show-only", "templates/prometheusrule.yaml", "--set", "image.registry=" + registry, "--set", "metrics.prometheusRule.enabled=true"})...)
	dashboard, err := os.ReadFile(filepath.Join(chartFolder(), "dashboards", "karmada-direct.json"))
	if err != nil {
		t.Fatal(err)
	}
	// The metrics of the process come from /proc, which these root folders do not have.
	wanted := map[string]bool{}
	for _, name := range regexp.MustCompile(`\b(karmada_direct|controller_runtime|workqueue|rest_client|leader_election)_\w+`).FindAllString(rules+string(dashboard), -1) {
		wanted[name] = true
	}
	if len(wanted) < 8 {
		t.Fatalf("alerts and dashboard use only %v", wanted)
	}
	eventually(t, "every metric is served", func(ctx context.Context) error {
		text, err := metrics(ctx, running)
		if err != nil {
			return err
		}
		for name := range wanted {
			if !strings.Contains(text, "\n"+name+"{") {
				return fmt.Errorf("%s is not served", name)
			}
		}
		return nil
	})
	j.deletes()
}

// missing creates a DirectPropagation of a resource that does not exist. It is
// deleted when the test ends.
func missing(t *testing.T) {
	t.Helper()
	object := (&traveler{namespace: "default"}).propagation()
	object.Name, object.Spec.Resource.Name = "helm-missing", "helm-missing"
	if err := karmada.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		content, _ := json.Marshal(object.Status)
		if err := karmada.Delete(context.Background(), object); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%v, %s", err, content)
		}
		eventually(t, "it is gone", func(ctx context.Context) error {
			if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it still exists (%v)", err)
			}
			return nil
		})
	})
}
