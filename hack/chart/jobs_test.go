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
)

func names(containers []corev1.Container) []string {
	list := []string{}
	for _, container := range containers {
		list = append(list, container.Name)
	}
	return list
}

// Each container or Job installs what the values select, and sees only the
// kubeconfig that it needs.
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
					t.Errorf("the Job is a hook for %q", hooks)
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
					t.Error("the controller can read the kubeconfig with all permissions")
				}
			}
		})
	}
}
