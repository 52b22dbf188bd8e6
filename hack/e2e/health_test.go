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
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// Replicas and overriders change what members run, but not the generation of the
// template. No state may report a member as healthy before it runs the new content
// and all of it is available, even if it was healthy with the old content.
func TestHealthFollowsOverrides(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := testbed.Deployment("web", "web:1", 1)
	// Long enough to distinguish a report on the old content from one on the new
	// content.
	web.Spec.MinReadySeconds = 2
	ns.Has(web)
	p := ns.Propagates("web", web).To(members...)
	truth := hasWitness(p, web, func(object client.Object) int {
		found, _ := object.(*appsv1.Deployment)
		return 10*versionOfDeployment(found) + int(*found.Spec.Replicas)
	})
	revision := ""
	for i, change := range []struct {
		version int
		tune    func(*propagationv1alpha1.TargetCluster)
	}{
		{11, func(*propagationv1alpha1.TargetCluster) {}},
		{13, func(cluster *propagationv1alpha1.TargetCluster) { cluster.Replicas = ptr.To[int32](3) }},
		{23, func(cluster *propagationv1alpha1.TargetCluster) { cluster.Overriders = imageOverrider("web:2") }},
		{33, func(cluster *propagationv1alpha1.TargetCluster) { cluster.Overriders = imageOverrider("web:3") }},
		{35, func(cluster *propagationv1alpha1.TargetCluster) { cluster.Replicas = ptr.To[int32](5) }},
	} {
		if i > 0 {
			p.Changes(func(object *DirectPropagation) {
				for n := range object.Spec.Clusters {
					change.tune(&object.Spec.Clusters[n])
				}
			})
		}
		began := time.Now()
		revision = becomesReadyAfter(p, revision)
		t.Logf("version %d was Ready after %v", change.version, time.Since(began).Round(100*time.Millisecond))
		if err := truth.knows(revision, change.version); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("checked %d claims about members", truth.holds(t, healthIsEarned))
}

// becomesReadyAfter waits until Ready is True with the same new revision in every
// row, and returns that revision.
func becomesReadyAfter(p *Propagation, before string) string {
	p.NS.T.Helper()
	state := p.Becomes("is Ready with a revision other than "+before, func(object *DirectPropagation) error {
		ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != object.Generation {
			return fmt.Errorf("Ready is %s", testbed.Say(ready))
		}
		for _, row := range object.Status.Clusters {
			if row.Revision == before || row.Revision != object.Status.Clusters[0].Revision {
				return fmt.Errorf("%s has revision %s", row.Name, row.Revision)
			}
		}
		return nil
	})
	return state.Status.Clusters[0].Revision
}

func imageOverrider(image string) *policyv1alpha1.Overriders {
	return &policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
		Path: "/spec/template/spec/containers/0/image", Operator: policyv1alpha1.OverriderOpReplace,
		Value: apiextensionsv1.JSON{Raw: fmt.Appendf(nil, "%q", image)},
	}}}
}
