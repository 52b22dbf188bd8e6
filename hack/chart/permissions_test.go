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
	"testing"
)

// By default, the controller renews its expiring token and may read the usual kinds.
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
		t.Errorf("the controller renews a token that is not its own: %q", args)
	}
	pod = render(t, "rbac.aggregateStatus=false").pod()
	if !slices.Contains(pod.Containers[0].Args, "--aggregate-status=false") || !slices.Contains(pod.InitContainers[1].Args, "--aggregate-status=false") {
		t.Errorf("the status is aggregated: %q", pod.Containers[0].Args)
	}
}
