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
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// TestTimersOfGoneWorksAreRemoved: the timer of a revision that will never be
// confirmed takes no memory.
func TestTimersOfGoneWorksAreRemoved(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(*testing.T, *bench)
		want    int
	}{
		"a cluster is removed":                      {secondClusterLeaves, 1},
		"the object is deleted":                     {objectIsDeleted, 0},
		"the object vanishes without its finalizer": {dropFinalizer, 0},
		"the object is recreated with another UID":  {comesBack, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, aShop()...)
			b.settle(t)
			if got := b.gauges.running(); got != 2 {
				t.Fatalf("%d confirmations are awaited, want 2", got)
			}
			tc.happens(t, b)
			b.settle(t)
			if got := b.gauges.running(); got != tc.want {
				t.Errorf("%d confirmations are awaited, want %d", got, tc.want)
			}
		})
	}
}

// removeWorks removes all Works.
func removeWorks(t *testing.T, b *bench) {
	t.Helper()
	for _, work := range b.works(t) {
		work.Finalizers = nil
		if err := b.server.Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
		if err := b.server.Delete(t.Context(), &work); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		b.ledger.Gone(&work, "ours")
	}
}

// dropFinalizer makes the object vanish.
func dropFinalizer(t *testing.T, b *bench) {
	t.Helper()
	object := b.propagation(t)
	object.Finalizers = nil
	if err := b.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := b.server.Delete(t.Context(), object); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// secondClusterLeaves removes member2 from the object.
func secondClusterLeaves(t *testing.T, b *bench) {
	t.Helper()
	object := b.propagation(t)
	object.Spec.Clusters = object.Spec.Clusters[:1]
	object.Generation++
	if err := b.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	work := &workv1alpha1.Work{}
	if err := b.server.Get(t.Context(), types.NamespacedName{Namespace: "karmada-es-member2", Name: "web-56d6c779bb"}, work); err != nil {
		t.Fatal(err)
	}
	work.Finalizers = nil
	if err := b.server.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	if err := b.server.Delete(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	b.ledger.Gone(work, "ours")
}

// objectIsDeleted deletes the object with its Works.
func objectIsDeleted(t *testing.T, b *bench) {
	t.Helper()
	if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
		t.Fatal(err)
	}
	removeWorks(t, b)
}

// comesBack replaces the object with another one of the same name.
func comesBack(t *testing.T, b *bench) {
	t.Helper()
	dropFinalizer(t, b)
	removeWorks(t, b)
	again := webPropagation()
	again.UID, again.Spec.Suspension.Dispatching = "another", ptr.To(true)
	again.Spec.Clusters = []propagationv1alpha1.TargetCluster{{Name: "member3"}}
	if err := b.server.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
}

// running returns how many timers are running.
func (g *gauges) running() int {
	count := 0
	for _, clocks := range g.awaited {
		count += len(clocks)
	}
	return count
}

// counted is the value of a counter.
func counted(t *testing.T, counter prometheus.Counter) float64 {
	t.Helper()
	metric := &dto.Metric{}
	if err := counter.Write(metric); err != nil {
		t.Fatal(err)
	}
	return metric.GetCounter().GetValue()
}

// An error that no status reports is counted at every attempt: alerts depend on it.
func TestErrorsWithoutAStatusAreCounted(t *testing.T) {
	b := newBench(t, aShop()...)
	counter := reconcileErrors.WithLabelValues(b.Kind, reasonReconcileFailed)
	before := counted(t, counter)
	b.settle(t)
	b.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour)) // nothing is held back
	b.confirm(t)
	b.refuse = func(write string) error {
		if strings.HasPrefix(write, "update status of DirectPropagation") {
			return apierrors.NewForbidden(propagationv1alpha1.Resource("directpropagations"), "web", errors.New("refused by a policy"))
		}
		return nil
	}
	const attempts = 5
	for range attempts {
		_, _ = b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	}
	if got := counted(t, counter) - before; got != attempts {
		t.Errorf("%v of %d errors are counted", got, attempts)
	}
}

// Rollouts are counted by phase, and clusters that wait for their turn do not count as
// clusters that do not answer. Nothing is counted of an object that is gone.
func TestRolloutsAreCounted(t *testing.T) {
	const kind = "TestRolloutsAreCounted" // no other test counts it
	s := newStage(t, nil)
	s.gauges = newGauges(kind)
	object := s.propagation(t)
	object.Spec.Rollout.Stages[0].Approval, object.Generation = propagationv1alpha1.RolloutApprovalRequired, object.Generation+1
	if err := s.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.settle(t)
	check := func(when string, want map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, gaugesOf(t, kind)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("after the first rollout", map[string]float64{"Completed": 1, "applied": 2})
	s.changeImage(t, "nginx:2")
	s.settle(t)
	check("in progress", map[string]float64{"Progressing": 1, "pending": 1, "waiting": 1})
	s.goesOn()
	check("before the approval", map[string]float64{"AwaitingApproval": 1, "applied": 1, "waiting": 1})
	s.annotate(propagationv1alpha1.RolloutPauseAnnotation, "1")
	check("paused", map[string]float64{"Paused": 1, "applied": 1, "waiting": 1})
	s.annotate(propagationv1alpha1.RolloutAbortAnnotation, s.rollout().UpdateRevision)
	s.annotate(propagationv1alpha1.RolloutResumeAnnotation, "1")
	s.goesOn()
	check("rolled back", map[string]float64{"RolledBack": 1, "waiting": 2})
	dropFinalizer(t, s.bench)
	s.settle(t)
	check("without the object", map[string]float64{})
}

// annotate gives a command.
func (s *stage) annotate(name, value string) {
	s.t.Helper()
	object := s.propagation(s.t)
	object.Annotations = map[string]string{name: value}
	if err := s.server.Update(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
	s.settle(s.t)
}

// gaugesOf returns the gauges of a kind that are not 0, by phase or state.
func gaugesOf(t *testing.T, kind string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, gauge := range []*prometheus.GaugeVec{rollouts, clusterRows} {
		collected := make(chan prometheus.Metric, 1000)
		gauge.Collect(collected)
		close(collected)
		for value := range collected {
			metric := &dto.Metric{}
			if err := value.Write(metric); err != nil {
				t.Fatal(err)
			}
			if labels := metric.GetLabel(); labels[0].GetValue() == kind && metric.GetGauge().GetValue() != 0 {
				values[labels[1].GetValue()] = metric.GetGauge().GetValue()
			}
		}
	}
	return values
}
