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
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// A cluster whose overrides set the replicas keeps them when its Work is adopted.
func TestAdoptionKeepsOverriddenReplicas(t *testing.T) {
	object := webPropagation()
	object.Spec.Clusters[1].Overriders = patch(policyv1alpha1.OverriderOpReplace, "/spec/replicas", "3")
	template := webDeployment()
	template.Generation = 1
	b := newBench(t, template, object, memberCluster("member1"), memberCluster("member2"))
	s := &stage{t: t, bench: b, clock: testingclock.NewFakePassiveClock(time.Now())}
	s.Clock, s.started = s.clock, s.clock.Now()
	s.goesOn()
	object = s.propagation(t)
	object.Spec.Rollout, object.Generation = canaryFirst(), 2
	object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	if err := s.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.changeImage(t, "nginx:2")
	s.goesOn()
	s.images("nginx:2", "nginx:1")
	if raw := string(s.workOn(t, "member2").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"replicas":3`) {
		t.Errorf("member2: %s", raw)
	}
	s.otherIsUntouched()
}

// A revert to what clusters had before the first rollout is recognized, although the
// resource has another generation by then.
func TestRevertToWhatWasAdopted(t *testing.T) {
	s := newAdoption(t)
	s.changes(needsApproval)
	s.changesTo("nginx:2")
	s.goesOn()
	s.images("nginx:2", "nginx:1")
	s.changesTo("nginx:1")
	s.goesOn()
	s.images("nginx:1", "nginx:1")
	if status := s.rollout(); status.Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Errorf("the revert: %s %s current %s update %s", status.Phase, status.Progress, status.CurrentRevision, status.UpdateRevision)
	}
}

// changesTo changes the image as the API server would, with another generation.
func (s *stage) changesTo(image string) {
	deployment := &appsv1.Deployment{}
	if err := s.server.Get(s.t.Context(), web, deployment); err != nil {
		s.t.Fatal(err)
	}
	deployment.Generation++
	deployment.Spec.Template.Spec.Containers[0].Image = image
	if err := s.server.Update(s.t.Context(), deployment); err != nil {
		s.t.Fatal(err)
	}
	s.writes = nil
}

// newAdoption propagates a Deployment without a rollout.
func newAdoption(t *testing.T) *stage {
	t.Helper()
	template := webDeployment()
	template.Generation = 1
	b := newBench(t, template, webPropagation(), memberCluster("member1"), memberCluster("member2"))
	s := &stage{t: t, bench: b, clock: testingclock.NewFakePassiveClock(time.Now())}
	s.Clock, s.started = s.clock, s.clock.Now()
	s.goesOn()
	return s
}

// needsApproval gives an object a rollout whose canary must be approved.
func needsApproval(object *propagationv1alpha1.DirectPropagation) {
	object.Spec.Rollout = canaryFirst()
	object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
}

// What clusters have is one revision, too, if the requested one is the same for some of
// them. All of them can return to it, and those that wait are scaled.
func TestAdoptionOfWhatPartlyStaysTheSame(t *testing.T) {
	s := newAdoption(t)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		spec := &object.Spec
		spec.Rollout = canaryFirst()
		spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
		spec.Clusters[1].Overriders = patch(policyv1alpha1.OverriderOpAdd, "/metadata/labels", `{"x":"y"}`)
	})
	s.writes = nil
	s.goesOn()
	s.otherIsUntouched()
	if status := s.rollout(); status.CurrentRevision == "" || status.CurrentRevision == status.UpdateRevision {
		t.Errorf("no revision was taken from the clusters: %+v", status)
	}
	if row := s.rowOf(t, "member2"); row.Reason != propagationv1alpha1.ReasonWaiting || row.Applied != metav1.ConditionUnknown {
		t.Errorf("the row of the cluster that waits is %+v", row)
	}
	s.scale()
	s.goesOn()
	if raw := string(s.workOn(t, "member2").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"replicas":5`) || strings.Contains(raw, `"x":"y"`) {
		t.Errorf("member2: %s", raw)
	}
}

// Works with the same content are read once, however many clusters have it.
func TestAdoptionReadsEachContentOnce(t *testing.T) {
	s := newAdoption(t)
	reads := countingWorks(s.bench)
	s.changesTo("nginx:2")
	s.changes(needsApproval)
	s.goesOn()
	if s.rollout().CurrentRevision == "" {
		t.Error("no revision was taken from the clusters")
	}
	if *reads != 1 {
		t.Errorf("%d Works were read, want 1", *reads)
	}
}

// Clusters that have different versions of the resource when spec.rollout is added keep
// them until it is their turn, and their rows say so.
func TestAdoptionOfDifferentVersions(t *testing.T) {
	s := newAdoption(t)
	before := s.workOn(t, "member2")
	s.changesTo("nginx:2")
	s.goesOn()
	now := s.workOn(t, "member2")
	now.Spec, now.Annotations = before.Spec, before.Annotations
	if err := s.server.Update(t.Context(), now); err != nil { // as if it had never been written
		t.Fatal(err)
	}
	s.changesTo("nginx:3")
	s.changes(needsApproval)
	s.goesOn()
	s.images("nginx:3", "nginx:1")
	if row := s.rowOf(t, "member2"); row.Reason != propagationv1alpha1.ReasonWaiting || row.Applied != metav1.ConditionUnknown {
		t.Errorf("the row of the cluster that waits is %+v", row)
	}
	if current := s.rollout().CurrentRevision; current != "" {
		t.Errorf("the current revision is %s", current)
	}
}

// When spec.rollout is removed, Works keep the name of their revision. If it is added again
// together with a change, clusters can return to what they had in between.
func TestRolloutIsAddedAgain(t *testing.T) {
	s := newAdoption(t)
	setRollout := func(strategy *propagationv1alpha1.Rollout) func(*propagationv1alpha1.DirectPropagation) {
		return func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout = strategy }
	}
	s.changes(setRollout(canaryFirst()))
	s.goesOn()
	s.changesTo("nginx:2")
	s.goesOn()
	s.images("nginx:2", "nginx:2")
	s.changes(setRollout(nil))
	s.goesOn()
	if revisions := s.revisions(); len(revisions) > 0 {
		t.Fatalf("revisions %v are still stored", revisions)
	}
	s.changesTo("nginx:3")
	again := canaryFirst()
	again.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	s.changes(setRollout(again))
	s.goesOn()
	s.images("nginx:3", "nginx:2")
	status := s.rollout()
	if status.CurrentRevision == "" || !slices.Contains(s.revisions(), status.CurrentRevision) {
		t.Errorf("the current revision %q is not among those stored: %v", status.CurrentRevision, s.revisions())
	}
	if row := s.rowOf(t, "member2"); row.Reason != propagationv1alpha1.ReasonWaiting {
		t.Errorf("the row of the cluster that waits is %s", described(row))
	}
	s.changesTo("nginx:2")
	s.goesOn()
	s.images("nginx:2", "nginx:2")
}

// A cluster that waits keeps the dependencies of what it has.
func TestAdoptionKeepsDependencies(t *testing.T) {
	s := newAdoption(t)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.PropagateDeps = ptr.To(true) })
	s.mounts("one")
	s.goesOn()
	s.mounts("two")
	s.changes(needsApproval)
	s.goesOn()
	if got := s.followsTo("one"); len(got) != 2 {
		t.Errorf("ConfigMap one follows only to %v; the image of member2 is %s", got, s.imageOn("member2"))
	}
}

// A cluster whose Work somebody has edited begins the rollout with what was written to it.
func TestAdoptionRepairsEditedWorks(t *testing.T) {
	s := newAdoption(t)
	work := s.workOn(t, "member2")
	work.Spec.Workload.Manifests[0].Raw = []byte(strings.ReplaceAll(string(work.Spec.Workload.Manifests[0].Raw), "nginx:1", "evil"))
	if err := s.server.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	s.changesTo("nginx:2")
	s.changes(needsApproval)
	s.goesOn()
	s.images("nginx:2", "nginx:1")
}

// If it cannot be found what clusters need of what they have, the status says so.
func TestAdoptionReportsDependenciesThatCannotBeFound(t *testing.T) {
	s := newAdoption(t)
	deployment := &appsv1.Deployment{}
	if err := s.server.Get(t.Context(), web, deployment); err != nil {
		t.Fatal(err)
	}
	for i := range propagationv1alpha1.MaxDependencies + 1 {
		name := fmt.Sprintf("c%d", i)
		deployment.Spec.Template.Spec.Volumes = append(deployment.Spec.Template.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		}})
	}
	deployment.Generation++
	if err := s.server.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	s.goesOn()
	s.mounts("one") // replaces all volumes
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		needsApproval(object)
		object.Spec.PropagateDeps = ptr.To(true)
	})
	for range 3 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(10 * time.Second))
	}
	object := s.propagation(t)
	ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
	if *object.Status.ObservedGeneration != object.Generation || ready.Reason != propagationv1alpha1.ReasonRenderFailed {
		t.Errorf("nothing is reported: %+v", object.Status.Conditions)
	}
}
