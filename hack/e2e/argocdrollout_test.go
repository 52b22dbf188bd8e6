//go:build e2e && e2e_argocd

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
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// calm is for how long nothing may happen after a rollback. Argo CD compares everything with
// Git several times in it.
const calm = 10 * time.Minute

// shopInStages is the shop with a rollout: first member1, then member2.
func shopInStages(image string) string {
	return strings.TrimRight(shopInGit(image, "0"), "\n") + `
  rollout:
    stages: [{name: canary, clusterNames: [member1]}]
    minReadySeconds: 1
    progressDeadlineSeconds: 30
    onFailure: Rollback
`
}

// A bad image fails on the canary and is rolled back, while Git still has it. Argo CD sees
// that and heals nothing: the Application stays Synced and Degraded, and nobody writes
// anything. The fix in Git is rolled out.
func TestArgoCDRollsBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.NoteWork(testbed.Reference("apps/v1", "Deployment", "shop"))
	ns.refuses(member1, "pods", `object.spec.containers.all(c, c.image != "nginx:bad")`)
	app := ns.newApplication(map[string]string{"shop.yaml": shopInStages("nginx:1.27")}, ns.membersRun("nginx:1.27", ""))
	app.Becomes("Healthy")

	never := func(context.Context) error { return errors.New("it is rolled back") }
	app.Commits(map[string]string{"shop.yaml": shopInStages("nginx:bad")}, never)
	rolledBack := func(context.Context) error {
		object := named(&DirectPropagation{}, "shop")
		ns.versionOf(object)
		if rollout := object.Status.Rollout; rollout == nil || rollout.Phase != propagationv1alpha1.RolloutPhaseRolledBack {
			return fmt.Errorf("the rollout is %+v", rollout)
		}
		return nil
	}
	ns.Within(2*testbed.Patience, "the rollout is rolled back", rolledBack)
	ns.Eventually("the members run the image from before", ns.membersRun("nginx:1.27", ""))
	ns.isLeftAlone(app, calm)

	app.Commits(map[string]string{"shop.yaml": shopInStages("nginx:1.28")}, ns.membersRun("nginx:1.28", ""))
	app.Becomes("Healthy")
}

// isLeftAlone checks that an Application stays Synced and Degraded, that Argo CD syncs
// nothing, and that nobody writes the shop or its DirectPropagation.
func (ns *Namespace) isLeftAlone(app *Application, duration time.Duration) {
	ns.T.Helper()
	before := app.Becomes("Degraded")
	for _, kind := range []string{"Deployment", "DirectPropagation"} {
		ns.T.Logf("%s: %s", kind, before.messageOf(kind))
	}
	shop, object := named(&appsv1.Deployment{}, "shop"), named(&DirectPropagation{}, "shop")
	versions := ns.versionOf(shop) + " " + ns.versionOf(object)
	ns.Throughout(duration, "Argo CD leaves the rollback alone", func(ctx context.Context) error {
		now, err := app.status(ctx)
		switch {
		case err != nil:
			return err
		case now.Sync.Status != "Synced" || now.Health.Status != "Degraded":
			return fmt.Errorf("the Application is %v", now)
		case len(now.History) != len(before.History) || now.OperationState.StartedAt != before.OperationState.StartedAt:
			return fmt.Errorf("Argo CD has synced again:\nbefore: %v\nafter: %v", before, now)
		}
		if now := ns.versionOf(shop) + " " + ns.versionOf(object); now != versions {
			return fmt.Errorf("the Deployment and the DirectPropagation had versions %s, and now have %s", versions, now)
		}
		return ns.membersRun("nginx:1.27", "")(ctx)
	})
}
