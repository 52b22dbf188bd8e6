//go:build e2e

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

package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// kubectl and kstatus wait for a propagated Deployment itself, as on one cluster: they finish
// when all members run it, and fail when it makes no progress.
func TestDeploymentIsAwaited(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := testbed.Deployment("web", "web:1", 2)
	web.Spec.MinReadySeconds = 1
	ns.Has(web)
	p := ns.Propagates("web", web).To(members...)
	ns.kubectl("", "wait", "--for=condition=Available", "deployment/web", "--timeout=180s").prints("deployment.apps/web condition met")
	for _, member := range members {
		if err := hasAvailable(ns.Ctx, member, web, 2); err != nil {
			t.Errorf("Available is True: %v", err)
		}
	}
	judgesDeployment(ns, web, status.CurrentStatus)

	changesDeployment(ns, web, func(web *appsv1.Deployment) {
		web.Spec.ProgressDeadlineSeconds, web.Spec.Template.Spec.NodeSelector = ptr.To[int32](10), map[string]string{"role": "missing"}
	})
	judgesDeployment(ns, web, status.FailedStatus)
	ns.kubectlFails("", "rollout", "status", "deployment/web").has(`deployment "web" exceeded its progress deadline`)
	ns.kubectl("", "get", "deployment", "web", "--output=jsonpath={.status.conditions[?(@.type=='Progressing')].message}").
		has(`no progress within progressDeadlineSeconds: 2 of 2 clusters do not run the current generation: member1, member2`)

	changesDeployment(ns, web, func(web *appsv1.Deployment) {
		web.Spec.ProgressDeadlineSeconds, web.Spec.Template.Spec.NodeSelector, web.Spec.Template.Spec.Containers[0].Image = nil, nil, "web:2"
	})
	ns.kubectl("", "rollout", "status", "deployment/web", "--timeout=180s").has(`deployment "web" successfully rolled out`)
	ns.ComeToRun(web, members...)
	judgesDeployment(ns, web, status.CurrentStatus)
	p.BecomesReady()
}

// hasAvailable returns an error unless a member has a number of available replicas.
func hasAvailable(ctx context.Context, member *Member, web *appsv1.Deployment, replicas int32) error {
	found := &appsv1.Deployment{}
	if err := member.Get(ctx, client.ObjectKeyFromObject(web), found); err != nil {
		return fmt.Errorf("%s: %w", member, err)
	}
	if found.Status.AvailableReplicas < replicas {
		return fmt.Errorf("%s has %d available replicas, not %d", member, found.Status.AvailableReplicas, replicas)
	}
	return nil
}

// judgesDeployment waits until kstatus computes a status for a Deployment.
func judgesDeployment(ns *Namespace, web *appsv1.Deployment, want status.Status) {
	ns.T.Helper()
	ns.Eventually(fmt.Sprintf("Deployment %s is %s to kstatus", web.Name, want), func(ctx context.Context) error {
		found := &appsv1.Deployment{}
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(web), found); err != nil {
			return err //nolint:wrapcheck // the request says which
		}
		got, err := verdict(found)
		if err != nil {
			return err
		}
		if got.Status != want {
			return fmt.Errorf("it is %s: %s", got.Status, got.Message)
		}
		return nil
	})
}
