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
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A ConfigMap reaches both members. So does a change, and Ready is False until it
// has arrived. Deleting the DirectPropagation withdraws the ConfigMap and leaves no
// Work behind.
func TestConfigMapIsPropagated(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", "version 1")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).To(member1, member2)
	truth := hasWitness(p, settings, versionOfConfigMap)
	for version := 1; version <= 5; version++ {
		if version > 1 {
			testbed.Changes(ns.Namespace, settings, testbed.Saying(fmt.Sprintf("version %d", version)))
		}
		if err := truth.knows(p.NS.Revision(settings), version); err != nil {
			t.Fatal(err)
		}
		before := p.Latest()
		p.BecomesReady()
		if version > 1 {
			p.WasNotReadySince(before)
		}
	}
	truth.holds(t, nil)

	p.IsDeleted()
	ns.Eventually("nothing is left", ns.IsClean)
	ns.Eventually("the resource itself is untouched", func(ctx context.Context) error {
		return karmada.Get(ctx, client.ObjectKeyFromObject(settings), settings)
	})
}

// A row reports a Deployment as healthy only when it is Available on the member,
// with the image of the row's revision. A change that the member cannot roll out is
// applied, but not healthy.
func TestDeploymentIsHealthyOnlyWhenAvailable(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := testbed.Deployment("web", "web:1", 3)
	// Long enough to distinguish a report on the previous version from one on this
	// version.
	web.Spec.MinReadySeconds = 2
	ns.Has(web)
	p := ns.Propagates("web", web).To(member1, member2)
	truth := hasWitness(p, web, versionOfDeployment)
	learn := func(version int) {
		t.Helper()
		if err := truth.knows(ns.Revision(web), version); err != nil {
			t.Fatal(err)
		}
	}
	learn(1)
	p.BecomesReady()

	testbed.Changes(ns.Namespace, web, func(web *appsv1.Deployment) { web.Spec.Template.Spec.Containers[0].Image = "web:2" })
	learn(2)
	p.BecomesReady()

	testbed.Changes(ns.Namespace, web, func(web *appsv1.Deployment) {
		web.Spec.Template.Spec.Containers[0].Image = "web:3"
		web.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "none"}
	})
	learn(3)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonUnhealthy, unhealthy+"1 of 3 replicas updated, 3 available")
	}
	p.Says(propagationv1alpha1.ReasonUnhealthy, "0 of 2 clusters ready; member1: "+unhealthy+"1 of 3 replicas updated, 3 available")

	testbed.Changes(ns.Namespace, web, func(web *appsv1.Deployment) {
		web.Spec.Template.Spec.Containers[0].Image = "web:4"
		web.Spec.Template.Spec.NodeSelector = nil
	})
	learn(4)
	p.BecomesReady()
	truth.holds(t, healthIsEarned)
}

// healthIsEarned checks a claim about a Deployment that did not change between the
// claim and the read.
func healthIsEarned(heard claim) error {
	if heard.health != string(propagationv1alpha1.HealthHealthy) {
		return nil
	}
	found, _ := heard.found.(*appsv1.Deployment)
	return testbed.IsAvailable(found)
}

// A cluster that is added to the list gets the resource, a cluster that is removed
// loses it, and the others are not affected.
func TestClustersComeAndGo(t *testing.T) {
	t.Parallel()
	for _, order := range [][]*Member{{member1, member2}, {member2, member1}} {
		first, second := order[0], order[1]
		t.Run("first "+first.Mode, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			settings := testbed.ConfigMap("settings", "for whoever is named")
			ns.Has(settings)
			p := ns.Propagates("settings", settings).To(first)
			p.BecomesReady()
			ns.Now("the other member lacks it", func(ctx context.Context) error { return second.Lacks(ctx, settings) })
			work, err := ns.Work(ns.Ctx, settings, first)
			if err != nil {
				t.Fatal(err)
			}

			p.MovesTo(first, second)
			p.BecomesReady()
			p.MovesTo(second)
			p.BecomesReady()
			ns.ComeToLack(settings, first)
			ns.NowRun(settings, second)
			p.MovesTo(first, second)
			p.BecomesReady()
			again, err := ns.Work(ns.Ctx, settings, first)
			if err != nil || again.UID == work.UID {
				t.Fatalf("the Work for %s is still the old one (%v)", first, err)
			}
		})
	}
}

// When the object names another resource, the old one is withdrawn from a member
// only after the new one is written for it.
func TestAnotherResourceIsNamed(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	before, after := testbed.ConfigMap("before", "old"), testbed.ConfigMap("after", "new")
	ns.Has(before)
	ns.Has(after)
	p := ns.Propagates("settings", before).To(member1, member2)
	p.BecomesReady()

	mark := time.Now()
	p.Changes(func(object *DirectPropagation) { object.Spec.Resource = testbed.ReferenceTo(after) })
	p.BecomesReady()
	ns.ComeToLack(before, members...)
	ns.NowRun(after, members...)
	created := 0
	for _, call := range bed.Audit.Since(mark, ns.IsOurs) {
		switch {
		case call.Resource == "works" && call.Verb == "create":
			created++
		case call.Resource == "works" && call.Verb == "delete" && created < len(members):
			t.Errorf("a Work was deleted when only %d of %d new ones were written:\n%s", created, len(members), testbed.Listing(bed.Audit.Since(mark, ns.IsOurs)))
		}
	}

	// A resource that does not exist yet replaces nothing.
	p.Changes(func(object *DirectPropagation) { object.Spec.Resource = testbed.Reference("v1", "ConfigMap", "later") })
	p.Says(propagationv1alpha1.ReasonResourceNotFound, fmt.Sprintf("ConfigMap %s/later does not exist in the Karmada control plane", ns.Name))
	ns.NowRun(after, members...)
	later := testbed.ConfigMap("later", "at last")
	ns.Has(later)
	p.BecomesReady()
	ns.ComeToLack(after, members...)
}

func versionOfConfigMap(object client.Object) int {
	settings, _ := object.(*corev1.ConfigMap)
	return numberIn(settings.Data["says"])
}

func versionOfDeployment(object client.Object) int {
	web, _ := object.(*appsv1.Deployment)
	return numberIn(strings.TrimPrefix(web.Spec.Template.Spec.Containers[0].Image, web.Name+":"))
}
