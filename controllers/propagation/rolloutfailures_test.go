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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

func (s *stage) revisions() (names []string) {
	s.t.Helper()
	list := &propagationv1alpha1.PropagationRevisionList{}
	if err := s.server.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Revision)
	}
	return names
}

func (s *stage) changes(change func(*propagationv1alpha1.DirectPropagation)) {
	s.t.Helper()
	object := s.propagation(s.t)
	change(object)
	object.Generation++
	if err := s.server.Update(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

// Whatever write fails, or whenever the process ends, the canary comes first, and the
// rollout ends.
func TestRolloutSurvivesAnyFailure(t *testing.T) {
	for way, writes := range map[string]int{"refused": 5, "process ends": 10} {
		for n := range writes {
			t.Run(fmt.Sprintf("%s at write %d", way, n), func(t *testing.T) {
				s := newStage(t, nil)
				s.changeImage(t, "nginx:2")
				count := 0
				s.refuse = func(write string) error {
					if strings.Contains(write, "update Work karmada-es-member2") && s.imageOn("member1") != "nginx:2" {
						t.Errorf("member2 is written first: %s", write)
					}
					if count++; count == n+1 {
						if way == "process ends" {
							s.restarts()
						}
						return apierrors.NewTimeoutError("slow", 1)
					}
					return nil
				}
				s.goesOn()
				s.images("nginx:2", "nginx:2")
				if revisions := s.revisions(); len(revisions) != 1 || s.rollout().Phase != propagationv1alpha1.RolloutPhaseCompleted {
					t.Errorf("the rollout is %s, with revisions %v", s.rollout().Phase, revisions)
				}
			})
		}
	}
}

// If the status of a rollout is lost, every cluster keeps what it has until somebody
// requests a retry.
func TestLostStatusHoldsEverything(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.settle(t)
	object := s.propagation(t)
	object.Status.Rollout = nil
	if err := s.server.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.restarts()
	s.goesOn()
	s.images("nginx:2", "nginx:1")
	if stalled := meta.FindStatusCondition(s.propagation(t).Status.Conditions, propagationv1alpha1.ConditionStalled); stalled == nil || stalled.Reason != propagationv1alpha1.ReasonRolloutStateLost {
		t.Fatalf("Stalled is %+v", stalled)
	}
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Annotations = map[string]string{propagationv1alpha1.RolloutRetryAnnotation: object.Status.Rollout.UpdateRevision}
	})
	s.goesOn()
	s.images("nginx:2", "nginx:2")
}

// A snapshot that somebody has changed is not used. What the cluster has stays.
func TestTamperedRevisionIsNotUsed(t *testing.T) {
	s := newStage(t, nil)
	first := s.rollout().CurrentRevision
	s.changeImage(t, "nginx:2")
	s.settle(t)
	list := &propagationv1alpha1.PropagationRevisionList{}
	if err := s.server.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Revision == first {
			list.Items[i].Data = append(list.Items[i].Data, 0)
			if err := s.server.Update(t.Context(), &list.Items[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
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
	if row := s.rowOf(t, "member2"); row.Reason != propagationv1alpha1.ReasonRevisionUnreadable {
		t.Errorf("row: %s", described(row))
	}
	s.goesOn()
	s.images("nginx:2", "nginx:2")
}

// Without spec.rollout, every cluster gets the requested revision, and nothing is left of
// the rollout, unless the revision has failed.
func TestRemovedRolloutReleases(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.settle(t)
	s.images("nginx:2", "nginx:1")
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.Rollout = nil })
	s.goesOn()
	s.images("nginx:2", "nginx:2")
	if revisions := s.revisions(); len(revisions) > 0 || s.rollout() != nil {
		t.Errorf("left: %v, %+v", revisions, s.rollout())
	}
	for _, cluster := range []string{"member1", "member2"} {
		if row := s.rowOf(t, cluster); row.Rollout != nil || row.Reason != propagationv1alpha1.ReasonApplied {
			t.Errorf("row: %s, %+v", described(row), row.Rollout)
		}
	}
}

// A mistake in the spec during a rollout loses nothing.
func TestMistakeDuringRolloutLosesNothing(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.settle(t)
	before, revisions := s.rollout(), s.revisions()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) {
		object.Spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Nonsense"}}}
	})
	for range 3 {
		if err := s.reconcile(t); err == nil {
			t.Error("the mistake is no error")
		}
	}
	s.images("nginx:2", "nginx:1")
	if row := s.rowOf(t, "member2"); row.Reason != propagationv1alpha1.ReasonWaiting {
		t.Errorf("row of the cluster that waits: %s", described(row))
	}
	if diff := cmp.Diff(before.Turns, s.rollout().Turns); diff != "" || len(s.revisions()) != len(revisions) {
		t.Errorf("turns (-before +after):\n%s; revisions %v, before %v", diff, s.revisions(), revisions)
	}
	s.restarts()
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.ClusterSelector = nil })
	s.goesOn()
	s.images("nginx:2", "nginx:2")
}

// A rollback needs no resource: it goes on after the resource was deleted.
func TestRollbackWithoutResource(t *testing.T) {
	s := newStage(t, func(spec *propagationv1alpha1.Rollout) { spec.OnFailure = propagationv1alpha1.RolloutFailureRollback })
	s.changeImage(t, "nginx:bad")
	s.settle(t)
	s.confirmWork(*s.workOn(t, "member1"), workv1alpha1.ResourceUnhealthy)
	s.settle(t)
	if err := s.server.Delete(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	s.restarts()
	s.clock.SetTime(s.clock.Now().Add(101 * time.Second))
	s.settle(t)
	s.images("nginx:1", "nginx:1")
}

// A rollout stores one revision and writes each Work once. The status is written before and
// after each turn, and here, where nothing waits for a second, also in between.
func TestRolloutWritesAreCounted(t *testing.T) {
	s := newStage(t, nil)
	s.changeImage(t, "nginx:2")
	s.goesOn()
	kinds := map[string]int{}
	for _, write := range s.writes {
		verb, _, _ := strings.Cut(write, " shop/")
		kinds[verb]++
	}
	want := map[string]int{
		"create PropagationRevision": 1, "delete PropagationRevision": 1,
		"patch status of Work karmada-es-member1/web-56d6c779bb": 1, "update Work karmada-es-member1/web-56d6c779bb": 1,
		"patch status of Work karmada-es-member2/web-56d6c779bb": 1, "update Work karmada-es-member2/web-56d6c779bb": 1,
	}
	if statuses := kinds["update status of DirectPropagation"]; statuses < 4 || statuses > 8 {
		t.Errorf("%d writes of the status", statuses)
	}
	delete(kinds, "update status of DirectPropagation")
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s\n%v", diff, s.writes)
	}
}

// A dependency follows to the clusters whose revision needs it, and stays on those that wait.
func TestDependenciesComeWithTheirRevision(t *testing.T) {
	s := newStage(t, nil)
	mounts := func(name string) {
		t.Helper()
		deployment := &appsv1.Deployment{}
		if err := s.server.Get(t.Context(), web, deployment); err != nil {
			t.Fatal(err)
		}
		deployment.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		}}}
		if err := s.server.Update(t.Context(), deployment); err != nil {
			t.Fatal(err)
		}
	}
	follows := func(name string, want ...string) {
		t.Helper()
		clusters := []string{}
		if object := s.requirements.Object(types.NamespacedName{Namespace: "shop", Name: "v1/ConfigMap/" + name}); object != nil {
			for _, cluster := range object.Spec.Clusters {
				clusters = append(clusters, cluster.Name)
			}
		}
		if diff := cmp.Diff(append([]string{}, want...), clusters); diff != "" {
			t.Errorf("clusters with %s (-want +got):\n%s", name, diff)
		}
	}
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.PropagateDeps = ptr.To(true) })
	mounts("one")
	s.goesOn()
	follows("one", "member1", "member2")
	mounts("two")
	s.settle(t)
	follows("one", "member1", "member2")
	follows("two", "member1")
	s.goesOn()
	follows("one")
	follows("two", "member1", "member2")
}
