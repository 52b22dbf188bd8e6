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
				t.Errorf("the notes do not contain %q:\n%s", want, r.notes)
			}
		})
	}
}

// A Secret that is mounted with subPath is never updated.
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
