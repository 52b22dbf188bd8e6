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

package propagation

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// joinsThird adds a cluster to the object.
func (s *stage) joinsThird(overriders *policyv1alpha1.Overriders) {
	s.t.Helper()
	if err := s.server.Create(s.t.Context(), memberCluster("member3")); err != nil {
		s.t.Fatal(err)
	}
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: "member3", Overriders: overriders})
	})
	s.goesOn()
}

// scale gives the resource five replicas.
func (s *stage) scale() {
	s.t.Helper()
	deployment := &appsv1.Deployment{}
	if err := s.server.Get(s.t.Context(), web, deployment); err != nil {
		s.t.Fatal(err)
	}
	deployment.Generation++
	deployment.Spec.Replicas = ptr.To[int32](5)
	if err := s.server.Update(s.t.Context(), deployment); err != nil {
		s.t.Fatal(err)
	}
}

// A cluster that joined after a revision was saved, with overriders of its own, is scaled.
func TestLateClusterIsScaled(t *testing.T) {
	s := newStage(t, nil)
	s.joinsThird(patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"site":"three"}`))
	s.scale()
	s.goesOn()
	if raw := string(s.workOn(t, "member3").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"replicas":5`) {
		t.Errorf("not scaled; row: %s", described(s.rowOf(t, "member3")))
	}
}

// The same cluster is repaired.
func TestLateClusterIsRepaired(t *testing.T) {
	s := newStage(t, nil)
	s.joinsThird(patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"site":"three"}`))
	work := s.workOn(t, "member3")
	work.Spec.Workload.Manifests[0].Raw = []byte(strings.ReplaceAll(string(work.Spec.Workload.Manifests[0].Raw), "nginx:1", "evil"))
	if err := s.server.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(3 * time.Minute))
	}
	if image := s.imageOn("member3"); image != "nginx:1" {
		t.Errorf("not repaired: %s; row: %s", image, described(s.rowOf(t, "member3")))
	}
}

// The same cluster gets what its overriders have become.
func TestLateClusterGetsItsNewOverriders(t *testing.T) {
	s := newStage(t, nil)
	s.joinsThird(patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"site":"three"}`))
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Clusters[2].Overriders = patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"site":"four"}`)
	})
	s.goesOn()
	if raw := string(s.workOn(t, "member3").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"four"`) {
		status := s.propagation(t).Status
		t.Errorf("the change is ignored; Ready is %v; phase %s; observedGeneration %d", meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionReady), status.Rollout.Phase, *status.ObservedGeneration)
	}
}

// If all clusters are replaced, nothing is taken for the revision that the others had.
func TestOtherClustersAreNoRevert(t *testing.T) {
	s := newAdoption(t)
	s.changes(needsApproval)
	s.changesTo("nginx:2")
	s.goesOn()
	for _, name := range []string{"member3", "member4"} {
		if err := s.server.Create(t.Context(), memberCluster(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Clusters = []propagationv1alpha1.TargetCluster{{Name: "member3"}, {Name: "member4"}}
		object.Spec.Rollout.Stages[0].ClusterNames = []string{"member3"}
	})
	s.changesTo("nginx:3")
	s.goesOn()
	if s.rollout().UpdateRevision == s.rollout().CurrentRevision {
		t.Errorf("nginx:3 is taken for the revision that other clusters had before the first rollout; %s", described(s.rowOf(t, "member3")))
	}
}

// A return to what clusters had before the first rollout reaches a cluster that joined since.
func TestRevertReachesClustersThatJoined(t *testing.T) {
	s := newAdoption(t)
	s.changes(needsApproval)
	s.changesTo("nginx:2")
	s.goesOn()
	if err := s.server.Create(t.Context(), memberCluster("member3")); err != nil {
		t.Fatal(err)
	}
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: "member3"})
	})
	s.goesOn()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout.Stages[0].Approval = "" })
	s.changesTo("nginx:1")
	s.goesOn()
	if got := len(s.works(t)); got != 3 {
		t.Errorf("%d Works; phase %s; %s", got, s.rollout().Phase, described(s.rowOf(t, "member3")))
	}
}

// After a return to what clusters had before the first rollout, a cluster that registers
// gets it, too.
func TestClusterThatRegistersAfterARevertGetsTheResource(t *testing.T) {
	s := newAdoption(t)
	s.changes(needsApproval)
	s.changesTo("nginx:2")
	s.goesOn()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Rollout.Stages[0].Approval = ""
		object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: "member3"})
	})
	s.changesTo("nginx:1")
	s.goesOn()
	s.KeepTemplateStatus = true
	reads := 0
	watched(t, s.bench, &reads) // so that what is remembered counts
	s.settle(t)
	if err := s.server.Create(t.Context(), memberCluster("member3")); err != nil {
		t.Fatal(err)
	}
	s.goesOn()
	if got := len(s.works(t)); got != 3 {
		t.Errorf("%d Works; phase %s; %s", got, s.rollout().Phase, described(s.rowOf(t, "member3")))
	}
}

// While no cluster is registered, nothing is taken for the revision that they had.
func TestNobodyThereIsNoRevert(t *testing.T) {
	s := newAdoption(t)
	s.changes(needsApproval)
	s.changesTo("nginx:2")
	s.goesOn()
	for _, name := range []string{"member1", "member2"} {
		if err := s.server.Delete(t.Context(), memberCluster(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.changesTo("nginx:3")
	s.settle(t)
	if status := s.rollout(); status.UpdateRevision == status.CurrentRevision {
		t.Errorf("nginx:3 is taken for the revision that was adopted: %s", status.Phase)
	}
}

// The labels of one cluster that came later change nothing on another one.
func TestLateClustersDoNotChangeEachOther(t *testing.T) {
	s := newStage(t, nil)
	policy := &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "zone", UID: "policy"}, Spec: policyv1alpha1.OverrideSpec{
		OverrideRules: []policyv1alpha1.RuleWithCluster{{
			TargetCluster: &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "b"}}},
			Overriders:    *patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"zone":"b"}`),
		}},
	}}
	if err := s.server.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	s.goesOn()
	s.joinsThird(patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"site":"three"}`))
	if err := s.server.Create(t.Context(), memberCluster("member4")); err != nil {
		t.Fatal(err)
	}
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: "member4"})
	})
	s.goesOn()
	s.relabel(t, "member4", map[string]string{"zone": "b"})
	s.scale()
	s.goesOn()
	for cluster, want := range map[string]string{"member3": `"site":"three"`, "member4": `"replicas":5`} {
		if raw := string(s.workOn(t, cluster).Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, want) || !strings.Contains(raw, `"replicas":5`) {
			t.Errorf("%s has no %s: %s", cluster, want, raw)
		}
	}
	if raw := string(s.workOn(t, "member4").Spec.Workload.Manifests[0].Raw); strings.Contains(raw, `"zone"`) {
		t.Errorf("new labels start no rollout, but changed member4: %s", raw)
	}
}

// A cluster that joined late, with overriders of its own, gets what is made for its new labels
// when it is scaled, and its row does not say for a moment that this cannot be read.
func TestLateClusterWithNewLabels(t *testing.T) {
	s := newStage(t, nil)
	policy := &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "zone", UID: "policy"}, Spec: policyv1alpha1.OverrideSpec{
		OverrideRules: []policyv1alpha1.RuleWithCluster{{
			TargetCluster: &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "b"}}},
			Overriders:    *patch(policyv1alpha1.OverriderOpAdd, "/metadata/labels", `{"zone":"b"}`),
		}},
	}}
	if err := s.server.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	s.goesOn()
	s.joinsThird(patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"site":"three"}`))
	s.relabel(t, "member3", map[string]string{"zone": "b"})
	s.scale()
	for range 5 {
		_ = s.reconcile(t)
		if row := s.rowOf(t, "member3"); row.Reason == propagationv1alpha1.ReasonRevisionUnreadable {
			t.Fatalf("the row: %s", described(row))
		}
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	}
	if raw := string(s.workOn(t, "member3").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"zone":"b"`) || !strings.Contains(raw, `"replicas":5`) {
		t.Errorf("member3 has %s", raw)
	}
}

// A cluster that is not registered starts no rollout, whether or not the process restarts.
func TestUnregisteredClusterStartsNoRollout(t *testing.T) {
	s := newAdoption(t)
	s.changes(needsApproval)
	s.changesTo("nginx:2")
	s.goesOn()
	s.changesTo("nginx:1")
	s.goesOn()
	before := s.rollout()
	if before.Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Fatalf("phase %s", before.Phase)
	}
	if err := s.server.Delete(t.Context(), memberCluster("member2")); err != nil {
		t.Fatal(err)
	}
	s.restarts()
	s.scale()
	s.settle(t)
	if now := s.rollout(); now.UpdateRevision != before.UpdateRevision || now.Phase != before.Phase {
		t.Errorf("%s %s became %s %s", before.Phase, before.UpdateRevision, now.Phase, now.UpdateRevision)
	}
}

// What a user changes for a cluster while it is not registered reaches it when it returns.
func TestOverridersOfAnUnregisteredCluster(t *testing.T) {
	s := newAdoption(t)
	s.changes(needsApproval)
	s.changesTo("nginx:2")
	s.goesOn()
	s.changesTo("nginx:1")
	s.goesOn()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout.Stages[0].Approval = "" })
	s.KeepTemplateStatus = true
	reads := 0
	watched(t, s.bench, &reads) // so that what is remembered counts
	if err := s.server.Delete(t.Context(), memberCluster("member2")); err != nil {
		t.Fatal(err)
	}
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Clusters[1].Overriders = patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"site":"two"}`)
	})
	s.settle(t)
	if err := s.server.Create(t.Context(), memberCluster("member2")); err != nil {
		t.Fatal(err)
	}
	s.goesOn()
	if raw := string(s.workOn(t, "member2").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"site":"two"`) {
		t.Errorf("the overriders are ignored; phase %s; row %s", s.rollout().Phase, described(s.rowOf(t, "member2")))
	}
}
