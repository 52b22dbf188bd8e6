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
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Wrong values are rejected, with an explanation, before anything is installed.
func TestWrongValues(t *testing.T) {
	r := newRelease(t)
	for value, want := range map[string]string{
		"crds.install=pod":       "at '/crds/install': value must be one of 'initContainer', 'job', 'none'",
		"karmada.preset=kubeadm": "at '/karmada/preset': value must be one of 'karmadactl', 'helm', 'operator', 'custom'",
		"replicas=3":             "additional properties 'replicas' not allowed",
		"image.registry=":        "say which registry has the image",
		"karmada.preset=custom":  "say in karmada.kubeconfigSecret.name which Secret holds the kubeconfig of the Karmada API server",
	} {
		printed, err := r.run(helm3, "install", r.name, chartFolder(), "--set", "image.registry="+registry, "--set", value)
		if err == nil || !strings.Contains(printed, want) {
			t.Errorf("with %s helm printed\n%swithout %q", value, printed, want)
		}
	}
	if printed := r.helm("list", "--all", "--short"); strings.TrimSpace(printed) != "" {
		t.Errorf("a release was created: %s", printed)
	}
}

// The chart is packaged, pushed to a registry and installed from there, with every
// option for which the host cluster has the kinds.
func TestEverythingFromARegistry(t *testing.T) {
	r := newRelease(t)
	r.hasSecret("karmada-controller-manager-config", "karmada.config", adminKubeconfig(t))
	archive := t.TempDir()
	printed, err := run(t, helm3, "package", chartFolder(), "--destination", archive)
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Glob(filepath.Join(archive, "direct-propagation-*.tgz"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("helm package made %v: %s", packages, printed)
	}
	repository := "oci://" + startRegistry(t) + "/charts"
	if printed, err := run(t, helm3, "push", packages[0], repository, "--plain-http"); err != nil || !strings.Contains(printed, "Digest: sha256:") {
		t.Fatalf("helm push printed %s, %v", printed, err)
	}
	pulled := t.TempDir()
	r.helm("pull", repository+"/direct-propagation", "--plain-http", "--destination", pulled)
	packages, err = filepath.Glob(filepath.Join(pulled, "direct-propagation-*.tgz"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("helm pull made %v, %v", packages, err)
	}
	r.installs(packages[0], "networkPolicy.enabled=true", "priorityClass.create=true", "priorityClass.name="+r.namespace, "metrics.dashboard.enabled=true",
		"extraObjects[0].apiVersion=v1", "extraObjects[0].kind=ConfigMap", "extraObjects[0].metadata.name=more")
	for _, object := range []string{"networkpolicy/kd-direct-propagation", "poddisruptionbudget/kd-direct-propagation", "configmap/kd-direct-propagation-dashboard", "configmap/more", "priorityclass/" + r.namespace} {
		if _, err := r.run("kubectl", "get", object); err != nil {
			t.Error(err)
		}
	}
	jobs := &batchv1.JobList{}
	if err := host.List(t.Context(), jobs, client.InNamespace(r.namespace)); err != nil || len(jobs.Items) > 0 {
		t.Errorf("there are %d Jobs, %v", len(jobs.Items), err)
	}
}
