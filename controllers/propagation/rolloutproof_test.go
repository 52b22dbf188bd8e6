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
	"k8s.io/apimachinery/pkg/util/intstr"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// refuses lets a cluster refuse what it had confirmed.
func (s *stage) refuses(cluster string) {
	s.t.Helper()
	work := s.workOn(s.t, cluster)
	meta.SetStatusCondition(&work.Status.Conditions, metav1.Condition{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionFalse, Reason: "AppliedFailed", Message: "timeout"})
	work.Status.Conditions[1].LastTransitionTime = metav1.NewTime(s.clock.Now().Add(-time.Minute))
	if err := s.server.Status().Update(s.t.Context(), work); err != nil {
		s.t.Fatal(err)
	}
}

// A cluster that is done keeps the revision, whatever becomes of the proof: refused later,
// re-created after a deletion there, or edited. Paused, it would not come back.
func TestDoneClusterKeepsItsRevision(t *testing.T) {
	for name, disturb := range map[string]func(s *stage){
		"refused": func(s *stage) { s.refuses("member1") },
		"recreated": func(s *stage) {
			work := s.workOn(t, "member1")
			work.Status.Conditions[1].Reason = "ReCreateSuccessful"
			if err := s.server.Status().Update(t.Context(), work); err != nil {
				t.Fatal(err)
			}
		},
		"edited": func(s *stage) {
			work := s.workOn(t, "member1")
			work.Spec.Workload.Manifests[0].Raw = []byte(strings.ReplaceAll(string(work.Spec.Workload.Manifests[0].Raw), "nginx:2", "evil"))
			if err := s.server.Update(t.Context(), work); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.changes(func(object *propagationv1alpha1.DirectPropagation) {
				object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
			})
			s.changeImage(t, "nginx:2")
			s.goesOn()
			s.images("nginx:2", "nginx:1")
			s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout.Paused = ptr.To(true) })
			s.goesOn()
			disturb(s)
			s.settle(t)
			s.images("nginx:2", "nginx:1")
		})
	}
}

// In a failed rollout that pauses, nothing is sent back by itself.
func TestFailedRolloutKeepsWhatIsDone(t *testing.T) {
	s := newStage(t, func(spec *propagationv1alpha1.Rollout) { spec.Stages = nil })
	s.changeImage(t, "nginx:2")
	s.settle(t)
	s.confirmWork(*s.workOn(t, "member1"), workv1alpha1.ResourceHealthy)
	s.settle(t)
	s.clock.SetTime(s.clock.Now().Add(101 * time.Second))
	s.settle(t)
	if s.rollout().Phase != propagationv1alpha1.RolloutPhaseFailed {
		t.Fatalf("%+v", s.rollout())
	}
	s.images("nginx:2", "nginx:2")
	s.refuses("member1")
	s.settle(t)
	s.images("nginx:2", "nginx:2")
}

// In a failed rollout that pauses, a deleted Work comes back with what the cluster had.
func TestDeletedWorkComesBackInAFailedRollout(t *testing.T) {
	s := newStage(t, func(spec *propagationv1alpha1.Rollout) { spec.Stages = nil })
	s.changeImage(t, "nginx:2")
	s.settle(t)
	s.confirmWork(*s.workOn(t, "member1"), "Healthy")
	s.settle(t)
	s.clock.SetTime(s.clock.Now().Add(101 * time.Second))
	s.settle(t)
	work := s.workOn(t, "member1")
	work.Finalizers = nil
	_ = s.server.Update(t.Context(), work)
	_ = s.server.Delete(t.Context(), work)
	s.writes = nil
	for range 5 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(4 * time.Second))
	}
	if got := s.imageOn("member1"); got != "nginx:2" {
		t.Errorf("phase %s: the cluster gets %s; writes %q", s.rollout().Phase, got, s.writes)
	}
}

// newFirstRollout creates an object whose first rollout waits for the approval of its canary.
func newFirstRollout(t *testing.T) *stage {
	t.Helper()
	object := webPropagation()
	needsApproval(object)
	s := &stage{t: t, clock: testingclock.NewFakePassiveClock(time.Now())}
	s.bench = newBench(t, webDeployment(), object, memberCluster("member1"), memberCluster("member2"))
	s.Clock, s.started = s.clock, s.clock.Now()
	s.goesOn()
	return s
}

// In the first rollout, a cluster that is done is not suspended when it refuses the revision
// later.
func TestDoneClusterIsNotSuspended(t *testing.T) {
	s := newFirstRollout(t)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout.Paused = ptr.To(true) })
	s.goesOn()
	s.refuses("member1")
	s.settle(t)
	if ptr.Deref(s.workOn(t, "member1").Spec.SuspendDispatching, false) {
		t.Errorf("suspended; row %s", described(s.rowOf(t, "member1")))
	}
}

// A cluster that was removed from Karmada and registered again begins anew: in a failed
// rollout, it does not get the failed revision.
func TestReregisteredClusterBeginsAnew(t *testing.T) {
	s := newStage(t, func(spec *propagationv1alpha1.Rollout) { spec.Stages = nil })
	s.changeImage(t, "nginx:2")
	s.settle(t)
	s.confirmWork(*s.workOn(t, "member1"), "Healthy")
	s.settle(t)
	s.clock.SetTime(s.clock.Now().Add(101 * time.Second))
	s.settle(t)
	member := memberCluster("member1")
	if err := s.server.Delete(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	work := s.workOn(t, "member1")
	work.Finalizers = nil
	_ = s.server.Update(t.Context(), work)
	_ = s.server.Delete(t.Context(), work)
	s.settle(t)
	if err := s.server.Create(t.Context(), memberCluster("member1")); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(4 * time.Second))
	}
	if got := s.imageOn("member1"); got != "nginx:1" {
		t.Errorf("phase %s: the new cluster gets %s", s.rollout().Phase, got)
	}
}

// A new revision that is the same for the clusters that are done leaves them alone.
func TestEquivalentRevisionKeepsWhatIsDone(t *testing.T) {
	s := newStage(t, nil)
	if err := s.server.Create(t.Context(), memberCluster("member3")); err != nil {
		t.Fatal(err)
	}
	edit := func(change func(*appsv1.Deployment)) {
		deployment := &appsv1.Deployment{}
		if err := s.server.Get(t.Context(), web, deployment); err != nil {
			t.Fatal(err)
		}
		change(deployment)
		deployment.Generation++
		if err := s.server.Update(t.Context(), deployment); err != nil {
			t.Fatal(err)
		}
	}
	pinned := patch(policyv1alpha1.OverriderOpReplace, "/spec/template/spec/containers/0/image", `"pinned"`)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Clusters = []propagationv1alpha1.TargetCluster{{Name: "member1", Overriders: pinned}, {Name: "member2", Overriders: pinned}, {Name: "member3"}}
		one := intstr.FromInt32(1)
		object.Spec.Rollout.MaxConcurrency = &one
		object.Spec.Rollout.Stages[0].ClusterNames = []string{"member1", "member2"}
	})
	s.goesOn()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	})
	s.goesOn()
	edit(func(deployment *appsv1.Deployment) {
		deployment.Spec.Template.Annotations = map[string]string{"feature": "new"}
	})
	s.goesOn()
	if s.rollout().Reason != propagationv1alpha1.ReasonRolloutAwaitingApproval {
		t.Fatalf("%+v", s.rollout())
	}
	// For member1 and member2, whose image is pinned, this is the same.
	edit(func(deployment *appsv1.Deployment) { deployment.Spec.Template.Spec.Containers[0].Image = "nginx:3" })
	s.settle(t)
	for _, cluster := range []string{"member1", "member2"} {
		if raw := string(s.workOn(t, cluster).Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"feature":"new"`) {
			t.Errorf("%s was sent back to the old revision", cluster)
		}
	}
}
