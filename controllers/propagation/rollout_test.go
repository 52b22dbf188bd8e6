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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
)

// stage is a test of a rollout to member1, and then to member2.
type stage struct {
	*bench
	t     *testing.T
	clock *testingclock.FakePassiveClock
}

// newStage returns a shop whose clusters have the first revision, confirmed and healthy.
func newStage(t *testing.T, change func(*propagationv1alpha1.Rollout)) *stage {
	t.Helper()
	object := webPropagation()
	object.Spec.Rollout = canaryFirst()
	if change != nil {
		change(object.Spec.Rollout)
	}
	s := &stage{t: t, clock: testingclock.NewFakePassiveClock(time.Now())}
	s.bench = newBench(t, webDeployment(), object, memberCluster("member1"), memberCluster("member2"))
	s.Clock, s.started = s.clock, s.clock.Now()
	s.goesOn()
	if status := s.rollout(); status == nil || status.Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Fatalf("the first rollout has not ended: %+v", status)
	}
	return s
}

func canaryFirst() *propagationv1alpha1.Rollout {
	percent, none := intstr.FromString("100%"), intstr.FromInt32(0)
	return &propagationv1alpha1.Rollout{
		Stages:         []propagationv1alpha1.RolloutStage{{Name: "canary", ClusterNames: []string{"member1"}}},
		MaxConcurrency: &percent, MaxFailures: &none, MinReadySeconds: ptr.To[int32](0), SoakSeconds: ptr.To[int32](0),
		ProgressDeadlineSeconds: ptr.To[int32](100), OnFailure: propagationv1alpha1.RolloutFailurePause,
	}
}

// goesOn lets the clusters confirm, and be healthy with, whatever they get, until nothing
// changes anymore.
func (s *stage) goesOn() {
	s.t.Helper()
	for range 10 {
		s.settle(s.t)
		before := len(s.writes)
		s.confirmUnlessSuspended()
		s.settle(s.t)
		if len(s.writes) == before {
			return
		}
	}
	s.t.Fatal("the rollout does not settle")
}

// confirmUnlessSuspended confirms what Karmada would attempt.
func (s *stage) confirmUnlessSuspended() {
	s.t.Helper()
	for _, work := range s.works(s.t) {
		if !ptr.Deref(work.Spec.SuspendDispatching, false) {
			s.confirmWork(work, workv1alpha1.ResourceHealthy)
		}
	}
}

func (s *stage) confirmWork(work workv1alpha1.Work, health workv1alpha1.ResourceHealth) {
	s.t.Helper()
	confirmWork(s.t, s.bench, work, health)
	reported := s.workOn(s.t, strings.TrimPrefix(work.Namespace, "karmada-es-"))
	reported.Status.ManifestStatuses[0].Status = &runtime.RawExtension{Raw: []byte(`{"replicas":1,"updatedReplicas":1}`)}
	if err := s.server.Status().Update(s.t.Context(), reported); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) rollout() *propagationv1alpha1.RolloutStatus {
	return s.propagation(s.t).Status.Rollout
}

// imageOn is the image in the Work of a cluster.
func (s *stage) imageOn(cluster string) string {
	s.t.Helper()
	work := s.workOn(s.t, cluster)
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		s.t.Fatal(err)
	}
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	container, _ := containers[0].(map[string]any)
	image, _ := container["image"].(string)
	return image
}

func (s *stage) conditionsOfDeployment() (conditions []string) {
	s.t.Helper()
	s.clock.SetTime(s.clock.Now().Add(2 * statusInterval)) // it is not written more often
	s.settle(s.t)
	deployment := &appsv1.Deployment{}
	if err := s.server.Get(s.t.Context(), web, deployment); err != nil {
		s.t.Fatal(err)
	}
	for _, condition := range deployment.Status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s %s %s", condition.Type, condition.Status, condition.Reason))
	}
	return conditions
}

func (s *stage) images(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, []string{s.imageOn("member1"), s.imageOn("member2")}); diff != "" {
		s.t.Errorf("images (-want +got):\n%s\n%+v", diff, s.propagation(s.t).Status)
	}
}

// otherIsUntouched checks that the Work of the cluster that is not the canary was not
// written.
func (s *stage) otherIsUntouched() {
	s.t.Helper()
	for _, write := range s.writes {
		if strings.Contains(write, "karmada-es-member2/") {
			s.t.Errorf("the Work of a cluster that waits was written: %s", write)
		}
	}
}

// restarts forgets everything that a process remembers.
func (s *stage) restarts() {
	s.memories.forget(web)
	s.ledger = cached.NewLedger(clock.RealClock{})
	s.started = s.clock.Now()
}

// A change reaches the canary first, and the other cluster after the canary has confirmed
// it and is healthy.
func TestCanaryComesFirst(t *testing.T) {
	s := newStage(t, nil)
	s.images("nginx:1", "nginx:1")
	s.changeImage(t, "nginx:2")
	s.settle(t)
	s.images("nginx:2", "nginx:1")
	row := s.rowOf(t, "member2")
	if row.Reason != propagationv1alpha1.ReasonWaiting || row.Rollout == nil || row.Rollout.Stage != propagationv1alpha1.RolloutDefaultStage {
		t.Errorf("row of the cluster that waits: %s, %+v", described(row), row.Rollout)
	}
	s.restarts()
	s.settle(t)
	s.images("nginx:2", "nginx:1")
	s.goesOn()
	s.images("nginx:2", "nginx:2")
	if !meta.IsStatusConditionTrue(s.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady) {
		t.Errorf("not Ready: %+v", s.propagation(t).Status)
	}
	if status := s.rollout(); status.CurrentRevision != status.UpdateRevision || status.Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Errorf("the rollout is not complete: %+v", status)
	}
	revisions := &propagationv1alpha1.PropagationRevisionList{}
	if err := s.server.List(t.Context(), revisions); err != nil || len(revisions.Items) != 1 {
		t.Errorf("%d revisions are stored, want 1 (%v)", len(revisions.Items), err)
	}
	// The status of the Deployment is written at most once in this time.
	s.clock.SetTime(s.clock.Now().Add(statusInterval))
	s.settle(t)
	s.restarts()
	s.writes = nil
	s.settle(t)
	if len(s.writes) > 0 {
		t.Errorf("writes after a restart: %v", s.writes)
	}
}

// A canary that does not become healthy before its deadline fails the rollout, and is
// rolled back. The other cluster is never written.
func TestBadImageIsRolledBack(t *testing.T) {
	s := newStage(t, func(spec *propagationv1alpha1.Rollout) { spec.OnFailure = propagationv1alpha1.RolloutFailureRollback })
	s.changeImage(t, "nginx:bad")
	s.settle(t)
	s.images("nginx:bad", "nginx:1")
	s.confirmWork(*s.workOn(t, "member1"), workv1alpha1.ResourceUnhealthy)
	s.settle(t)
	s.clock.SetTime(s.clock.Now().Add(101 * time.Second))
	s.settle(t)
	s.images("nginx:1", "nginx:1")
	s.goesOn()
	status := s.propagation(t).Status
	if status.Rollout.Phase != propagationv1alpha1.RolloutPhaseRolledBack || status.Rollout.FailedRevision != status.Rollout.UpdateRevision {
		t.Errorf("not rolled back: %+v", status.Rollout)
	}
	if stalled := meta.FindStatusCondition(status.Conditions, propagationv1alpha1.ConditionStalled); stalled == nil || stalled.Reason != propagationv1alpha1.ReasonRolledBack {
		t.Errorf("conditions: %+v", status.Conditions)
	}
	s.otherIsUntouched()
	if diff := cmp.Diff([]string{"Available True MinimumReplicasAvailable", "Progressing False ProgressDeadlineExceeded"}, s.conditionsOfDeployment()); diff != "" {
		t.Errorf("conditions of the Deployment (-want +got):\n%s", diff)
	}
	s.restarts()
	s.writes = nil
	s.settle(t)
	if len(s.writes) > 0 {
		t.Errorf("writes after a restart: %v", s.writes)
	}
	s.changeImage(t, "nginx:1")
	s.goesOn()
	if status := s.rollout(); status.Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Errorf("the revert has not completed the rollout: %+v", status)
	}
	if diff := cmp.Diff([]string{"Available True MinimumReplicasAvailable"}, s.conditionsOfDeployment()); diff != "" {
		t.Errorf("conditions of the Deployment after the revert (-want +got):\n%s", diff)
	}
}

// Scaling reaches every cluster at once and starts no rollout, whatever revision a cluster
// has.
func TestScalingStartsNoRollout(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.settle(t)
	update := s.rollout().UpdateRevision
	deployment := &appsv1.Deployment{}
	if err := s.server.Get(t.Context(), web, deployment); err != nil {
		t.Fatal(err)
	}
	deployment.Spec.Replicas = ptr.To[int32](5)
	if err := s.server.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	s.settle(t)
	s.images("nginx:2", "nginx:1")
	for _, cluster := range []string{"member1", "member2"} {
		if raw := string(s.workOn(t, cluster).Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"replicas":5`) {
			t.Errorf("%s is not scaled: %s", cluster, raw)
		}
	}
	if now := s.rollout().UpdateRevision; now != update {
		t.Errorf("scaling has made revision %s out of %s", now, update)
	}
}

// A Work of a cluster that waits comes back with the revision that the cluster has, after
// somebody has deleted it.
func TestDeletedWorkComesBackWithItsRevision(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.settle(t)
	work := s.workOn(t, "member2")
	work.Finalizers = nil
	if err := s.server.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Delete(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	s.restarts()
	s.settle(t)
	s.images("nginx:2", "nginx:1")
}

// An object that gets spec.rollout together with a change keeps what the clusters have,
// without a write, until it is their turn.
func TestAdoptionKeepsWhatClustersHave(t *testing.T) {
	b := newBench(t, aShop()...)
	s := &stage{t: t, bench: b, clock: testingclock.NewFakePassiveClock(time.Now())}
	s.Clock, s.started = s.clock, s.clock.Now()
	s.goesOn()
	object := s.propagation(t)
	object.Spec.Rollout, object.Generation = canaryFirst(), 2
	object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	if err := s.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.changeImage(t, "nginx:2")
	s.settle(t)
	s.images("nginx:2", "nginx:1")
	if status := s.rollout(); status.CurrentRevision == "" || status.CurrentRevision == status.UpdateRevision {
		t.Errorf("no revision was taken from the clusters: %+v", status)
	}
	s.goesOn()
	s.images("nginx:2", "nginx:1")
	s.otherIsUntouched()
	s.restarts()
	s.settle(t)
	s.changeImage(t, "nginx:1")
	s.goesOn()
	s.images("nginx:1", "nginx:1")
	if status := s.rollout(); status.Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Errorf("what the clusters had before is another revision: %+v", status)
	}
}

// Overriders that set the replicas win over those of the resource, also if both were the
// same when the revision was rendered.
func TestOverriddenReplicasStay(t *testing.T) {
	for _, overridden := range []string{"1", "3"} {
		t.Run(overridden, func(t *testing.T) {
			s := newStage(t, nil)
			object := s.propagation(t)
			object.Spec.Clusters[0].Overriders = patch(policyv1alpha1.OverriderOpReplace, "/spec/replicas", overridden)
			object.Generation++
			if err := s.server.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			s.goesOn()
			deployment := &appsv1.Deployment{}
			if err := s.server.Get(t.Context(), web, deployment); err != nil {
				t.Fatal(err)
			}
			deployment.Spec.Replicas = ptr.To[int32](5)
			if err := s.server.Update(t.Context(), deployment); err != nil {
				t.Fatal(err)
			}
			s.goesOn()
			if raw := string(s.workOn(t, "member1").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"replicas":`+overridden) {
				t.Errorf("member1: %s", raw)
			}
		})
	}
}
