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
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// hasTurn reports whether a cluster has a turn.
func (s *stage) hasTurn(cluster string) bool {
	return slices.ContainsFunc(s.rollout().Turns, func(turn propagationv1alpha1.RolloutTurn) bool {
		return slices.Contains(turn.ClusterNames, cluster)
	})
}

// An object that is deleted and created again at once begins anew: its canary comes first.
func TestRecreatedObjectBeginsWithItsCanary(t *testing.T) {
	s := newStage(t, nil)
	object := s.propagation(t)
	if err := s.server.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	for s.server.Get(t.Context(), web, object) == nil {
		_ = s.reconcile(t)
		s.finishDeletions(t)
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	}
	again := webPropagation()
	again.UID, again.Spec.Rollout = "other", canaryFirst()
	if err := s.server.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(4 * time.Second))
	}
	if !s.hasTurn("member1") || s.hasTurn("member2") {
		t.Errorf("member2 does not wait for the canary: %+v", s.rollout().Turns)
	}
}

// What clusters confirmed in a rollout that was removed does not count in the next one.
func TestRolloutAddedAgainForgetsConfirmations(t *testing.T) {
	s := newStage(t, nil)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout = nil })
	s.goesOn()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Clusters = object.Spec.Clusters[:1] })
	s.settle(t)
	s.finishDeletions(t)
	s.changesTo("nginx:2")
	s.goesOn()
	s.changesTo("nginx:1")
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		needsApproval(object)
		object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: "member2"})
	})
	s.settle(t)
	if s.hasTurn("member2") {
		t.Errorf("member2 does not wait: %+v", s.rollout().Turns)
	}
}

// What a cluster confirmed before somebody else took its Work over does not count when the
// Work comes back, whether or not the process has restarted since.
func TestConflictForgetsConfirmations(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.goesOn()
	s.images("nginx:2", "nginx:2")
	known := s.memories.of(web).rollsOut("ours")
	if known.confirmed["member1"] == "" {
		t.Fatal("nothing is confirmed")
	}
	work := s.workOn(t, "member1")
	work.Labels["resourcebinding.karmada.io/permanent-id"] = "theirs"
	if err := s.server.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	s.settle(t)
	if row := s.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonConflict {
		t.Fatalf("the row of member1: %s", described(row))
	}
	if name := known.confirmed["member1"]; name != "" {
		t.Errorf("member1 still counts as having confirmed %s", name)
	}
}

// If the status is lost, what clusters have stays saved: they can return to it.
func TestLostStatusKeepsWhatIsSaved(t *testing.T) {
	s := newStage(t, func(spec *propagationv1alpha1.Rollout) { spec.OnFailure = propagationv1alpha1.RolloutFailureRollback })
	object := s.propagation(t)
	object.Status.Rollout = nil
	if err := s.server.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.restarts()
	s.changeImage(t, "nginx:bad")
	s.goesOn()
	if phase := s.rollout().Phase; phase != propagationv1alpha1.RolloutPhaseStateLost {
		t.Fatalf("phase %s", phase)
	}
	if stored := s.revisions(); len(stored) < 2 {
		t.Errorf("what the clusters have is not saved anymore: %q", stored)
	}
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Annotations = map[string]string{propagationv1alpha1.RolloutRetryAnnotation: object.Status.Rollout.UpdateRevision}
	})
	s.settle(t)
	s.images("nginx:bad", "nginx:1")
	s.confirmWork(*s.workOn(t, "member1"), workv1alpha1.ResourceUnhealthy)
	s.settle(t)
	s.clock.SetTime(s.clock.Now().Add(101 * time.Second))
	s.settle(t)
	s.images("nginx:1", "nginx:1")
}

// newRenamed has the canary done with a revision that got another name since, and a pause.
func newRenamed(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, nil)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	})
	s.changeImage(t, "nginx:2")
	s.goesOn()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Clusters[1].Overriders = patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"site":"two"}`)
	})
	s.goesOn()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout.Paused = ptr.To(true) })
	s.goesOn()
	s.images("nginx:2", "nginx:1")
	return s
}

// A cluster keeps what it has when somebody edits its Work, also if its revision has got
// another name.
func TestEditedClusterKeepsARenamedRevision(t *testing.T) {
	s := newRenamed(t)
	work := s.workOn(t, "member1")
	work.Spec.Workload.Manifests[0].Raw = []byte(strings.ReplaceAll(string(work.Spec.Workload.Manifests[0].Raw), "nginx:2", "evil"))
	if err := s.server.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	s.settle(t)
	s.images("nginx:2", "nginx:1")
}

// A cluster whose revision has got another name, and was replaced by a third one, is still
// scaled.
func TestClusterWithARenamedRevisionIsScaled(t *testing.T) {
	s := newRenamed(t)
	s.changeImage(t, "nginx:3")
	s.goesOn()
	s.scale()
	s.goesOn()
	s.images("nginx:2", "nginx:1")
	if raw := string(s.workOn(t, "member1").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"replicas":5`) {
		t.Errorf("not scaled; row %s; stored %q", described(s.rowOf(t, "member1")), s.revisions())
	}
}

// refusesRevisions lets the API server refuse to store revisions.
func (s *stage) refusesRevisions(err error) {
	s.refuse = func(write string) error {
		if strings.Contains(write, "create PropagationRevision") {
			return err
		}
		return nil
	}
}

var errQuota = apierrors.NewForbidden(schema.GroupResource{Resource: "propagationrevisions"}, "x", errors.New("exceeded quota"))

// While the revision of another resource cannot be stored, the Work of the previous one stays.
func TestRefusedRevisionRemovesNothing(t *testing.T) {
	s := newAdoption(t)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Resource.Name = "web2" })
	_ = s.reconcile(t)
	s.changes(needsApproval)
	second := webDeployment()
	second.Name, second.UID = "web2", "second"
	if err := s.server.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	s.refusesRevisions(errQuota)
	s.writes = nil
	for range 3 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	}
	for _, write := range s.writes {
		if strings.HasPrefix(write, "delete Work ") {
			t.Errorf("%s, and nothing replaces it", write)
		}
	}
}

// While a revision cannot be stored, what needs no content still takes effect.
func TestRefusedRevisionDoesNotStopASuspension(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.refusesRevisions(errQuota)
	_ = s.reconcile(t)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Suspension.DispatchingOnClusters.ClusterNames = []string{"member1"}
	})
	for range 3 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	}
	if !ptr.Deref(s.workOn(t, "member1").Spec.SuspendDispatching, false) {
		t.Errorf("not suspended: %s", described(s.rowOf(t, "member1")))
	}
	s.images("nginx:1", "nginx:1")
}

// A cluster does not fail with a revision that it could not get.
func TestRefusedRevisionDoesNotFail(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.refusesRevisions(errQuota)
	for range 25 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(10 * time.Second))
	}
	if phase := s.rollout().Phase; phase == propagationv1alpha1.RolloutPhaseFailed {
		t.Errorf("phase %s", phase)
	}
	s.refuse = nil
	s.goesOn()
	s.images("nginx:2", "nginx:2")
}

// If the namespace of the revisions is missing, somebody looks again, and the rows say why.
func TestMissingNamespaceOfRevisionsIsReported(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.refusesRevisions(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "karmada-system"))
	result, err := s.Reconciler.reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	if err == nil && result.RequeueAfter == 0 {
		t.Error("nobody looks again")
	}
	if row := s.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonWriteFailed {
		t.Errorf("the row of member1: %s", described(row))
	}
}

// listCounter counts lists of a kind.
type listCounter struct {
	client.Reader
	kind  string
	lists *int
}

func (c listCounter) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if list.GetObjectKind().GroupVersionKind().Kind == c.kind {
		*c.lists++
	}
	return c.Reader.List(ctx, list, options...)
}

// What an object without a rollout has stored is looked for once.
func TestObjectWithoutARolloutListsNoRevisions(t *testing.T) {
	s := newStage(t, nil)
	s.restarts()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout = nil })
	s.goesOn()
	if stored := s.revisions(); len(stored) > 0 {
		t.Fatalf("still stored: %q", stored)
	}
	lists := 0
	s.Live = listCounter{s.Live, "PropagationRevisionList", &lists}
	for range 3 {
		_ = s.reconcile(t)
	}
	if lists > 0 {
		t.Errorf("%d lists of revisions in three reconciles", lists)
	}
}

// A cluster for which the new revision is the same as the current one does not fail because
// somebody has deleted the snapshot of the current one.
func TestDeletedSnapshotFailsNobody(t *testing.T) {
	s := newStage(t, nil)
	current := s.rollout().CurrentRevision
	s.deleteRevision(current)
	s.restarts()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Clusters[1].Overriders = patch(policyv1alpha1.OverriderOpAdd, "/metadata/annotations", `{"site":"two"}`)
	})
	for range 5 {
		s.goesOn()
		s.clock.SetTime(s.clock.Now().Add(100 * time.Second))
	}
	if status := s.rollout(); status.Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Errorf("phase %s: %+v", status.Phase, status.Turns)
	}
}

// A cluster that returns does not apply an abandoned revision because the one that it should
// get cannot be rendered.
func TestAbandonedRevisionIsNotResumed(t *testing.T) {
	object := webPropagation()
	needsApproval(object)
	s := &stage{t: t, clock: testingclock.NewFakePassiveClock(time.Now())}
	s.bench = newBench(t, webDeployment(), object, memberCluster("member1"), memberCluster("member2"))
	s.Clock, s.started = s.clock, s.clock.Now()
	s.settle(t) // member1 does not answer
	ready := func(status metav1.ConditionStatus) {
		cluster := &clusterv1alpha1.Cluster{}
		if err := s.server.Get(t.Context(), client.ObjectKey{Name: "member1"}, cluster); err != nil {
			t.Fatal(err)
		}
		meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: clusterv1alpha1.ClusterConditionReady, Status: status, Reason: "Test"})
		if err := s.server.Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	ready(metav1.ConditionFalse)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.Clusters[0].Overriders = patch(policyv1alpha1.OverriderOpReplace, "/spec/nowhere/to/be/found", "1")
	})
	s.settle(t)
	suspended := func() bool { return ptr.Deref(s.workOn(t, "member1").Spec.SuspendDispatching, false) }
	if !suspended() {
		t.Fatalf("the abandoned revision is not suspended: %s", described(s.rowOf(t, "member1")))
	}
	ready(metav1.ConditionTrue)
	for range 5 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(10 * time.Second))
	}
	if !suspended() {
		t.Errorf("the abandoned revision is applied: %s", described(s.rowOf(t, "member1")))
	}
}

// While the next revision cannot be stored, nobody asks for another attempt at the abandoned one.
func TestRefusedRevisionDoesNotRetryTheAbandonedOne(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:bad")
	s.settle(t)
	work := s.workOn(t, "member1")
	refused := metav1.NewTime(s.clock.Now().Add(-time.Minute))
	work.Status.Conditions = []metav1.Condition{
		{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue, Reason: "Dispatching", LastTransitionTime: refused},
		{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionFalse, Reason: "AppliedFailed", Message: "no", LastTransitionTime: refused},
	}
	if err := s.server.Status().Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	s.refusesRevisions(errQuota)
	s.changeImage(t, "nginx:2") // clears s.writes
	for range 3 {
		_ = s.reconcile(t)
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	}
	for _, write := range s.writes {
		if strings.Contains(write, " Work karmada-es-member1/") {
			t.Errorf("%s: Karmada attempts nginx:bad again", write)
		}
	}
}

// A cluster keeps what it has, also if its revision has got another name and somebody has
// edited the number of replicas.
func TestClusterScaledByHandKeepsARenamedRevision(t *testing.T) {
	s := newRenamed(t)
	work := s.workOn(t, "member1")
	raw := string(work.Spec.Workload.Manifests[0].Raw)
	edited := strings.ReplaceAll(raw, `"replicas":1`, `"replicas":7`)
	if edited == raw {
		t.Fatal("nothing edited")
	}
	work.Spec.Workload.Manifests[0].Raw = []byte(edited)
	if err := s.server.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	s.settle(t)
	s.images("nginx:2", "nginx:1")
}
