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
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

const (
	crdName   = "directpropagations.propagation.karmada-direct.io"
	namespace = "karmada-system" // on the Karmada API server
)

// preset is a way of installing Karmada.
type preset struct {
	name        string
	secret, key string
	values      []string
	jobs        int
	// before prepares the Karmada API server manually.
	before func(*testing.T)
}

var presets = []preset{
	{name: "karmadactl", secret: "karmada-controller-manager-config", key: "karmada.config"},
	{
		name: "helm", secret: "prod-kubeconfig", key: "kubeconfig", jobs: 1,
		values: []string{"karmada.preset=helm", "karmada.name=prod", "crds.install=job", "rbac.install=job"},
	},
	{
		name: "operator", secret: "prod-admin-config", key: "karmada.config",
		values: []string{"karmada.preset=operator", "karmada.name=prod", "crds.install=none", "rbac.install=none"},
		before: func(t *testing.T) {
			kubectl(t, "apply", "--server-side", "-k", filepath.Join(bed.Root, "cmd", "controller-manager", "install"))
		},
	},
	{
		name: "custom", secret: "mine", key: "config",
		values: []string{
			"karmada.preset=custom", "karmada.kubeconfigSecret.name=mine", "karmada.kubeconfigSecret.key=config",
			"rbac.leastPrivilege=false", "rbac.install=none",
		},
	},
}

// Each way of installing Karmada leaves a different Secret. Each way of installing
// CRDs and roles is used at least once. What the chart renders then serves a user
// from start to end.
func TestPresets(t *testing.T) {
	for _, preset := range presets {
		t.Run(preset.name, func(t *testing.T) {
			forgetInstallation(t)
			r := newRelease(t)
			r.hasSecret(preset.secret, preset.key, adminKubeconfig(t))
			if preset.before != nil {
				preset.before(t)
			}
			notes := r.installs(chartFolder(), preset.values...)
			if want := fmt.Sprintf("of Secret %s (key %s)", preset.secret, preset.key); !strings.Contains(notes, want) {
				t.Errorf("the notes do not contain %q:\n%s", want, notes)
			}
			for _, pod := range r.jobPods(preset.jobs) {
				prepare(t, pod).runs()
			}
			r.startsOne()
			theWholeJourney(t)
			nothingInTheHostCluster(t)
		})
	}
}

// kubectl runs kubectl against the Karmada API server.
func kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	printed, err := run(t, "kubectl", append(arguments, "--kubeconfig", bed.Fleet.Kubeconfig("karmada"))...)
	if err != nil {
		t.Fatal(err)
	}
	return printed
}

// forgetInstallation removes from the Karmada API server what an installation has
// created there, so that the next one has to create it.
func forgetInstallation(t *testing.T) {
	t.Helper()
	// A failed test may have left objects that no controller handles any more.
	left := &propagationv1alpha1.DirectPropagationList{}
	if err := karmada.List(t.Context(), left); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	for i := range left.Items {
		t.Logf("an earlier test has left DirectPropagation %s/%s", left.Items[i].Namespace, left.Items[i].Name)
		letGo := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := karmada.Patch(t.Context(), &left.Items[i], letGo); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, "delete", "--ignore-not-found", "--timeout=1m", "-f", filepath.Join(bed.Root, "cmd", "controller-manager", "install", "install.yaml"),
		"-f", filepath.Join(bed.Root, "cmd", "controller-manager", "install", "guardrails.yaml"))
	kubectl(t, "delete", "--ignore-not-found", "secret,lease", "--namespace", namespace, "karmada-direct-token", "karmada-direct-credentials", "karmada-direct")
}

// nothingInTheHostCluster checks that the host cluster does not contain what belongs
// on the Karmada API server.
func nothingInTheHostCluster(t *testing.T) {
	t.Helper()
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := host.List(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	if len(crds.Items) > 0 {
		t.Errorf("the host cluster has CRD %s", crds.Items[0].Name)
	}
	roles, bindings := &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}
	for _, list := range []client.ObjectList{roles, bindings} {
		if err := host.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for _, role := range roles.Items {
		if strings.Contains(role.Name, "direct") {
			t.Errorf("the host cluster has ClusterRole %s", role.Name)
		}
	}
	for _, binding := range bindings.Items {
		if strings.Contains(binding.Name, "direct") {
			t.Errorf("the host cluster has ClusterRoleBinding %s", binding.Name)
		}
	}
}
