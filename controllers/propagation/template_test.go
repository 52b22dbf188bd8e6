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
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// faultyScript is an interpreter whose script for aggregation fails.
type faultyScript struct{ nativeInterpreter }

func (faultyScript) AggregateStatus(*unstructured.Unstructured, []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	return nil, errors.New("line 3: attempt to index a nil value")
}

// A failed aggregation ends no timer: a status that is held back is written when it
// is due. The failure is logged once, and tried again after longer and longer.
func TestFailedAggregationKeepsTheTimers(t *testing.T) {
	b := newBench(t, aShop()...)
	native, _ := b.Interpreter.ResourceInterpreter.(nativeInterpreter)
	b.Interpreter.ResourceInterpreter = faultyScript{native}
	watched(t, b, new(int))
	b.settle(t)
	passive := clocktesting.NewFakePassiveClock(time.Now())
	b.Clock = passive
	work := b.workOn(t, "member1")
	b.confirm(t)
	*work = *b.workOn(t, "member1")
	work.Status.ManifestStatuses[0].Status = &runtime.RawExtension{Raw: []byte(`{"replicas":1}`)}
	if err := b.server.Status().Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	log, counter := &chronicle{}, reconcileErrors.WithLabelValues(b.Kind, propagationv1alpha1.EventAggregateStatusFailed)
	before, attempts, waited := counted(t, counter), 0, time.Duration(0)
	for end := passive.Now().Add(5 * time.Minute); passive.Now().Before(end); attempts++ {
		result, err := b.Reconcile(logr.NewContext(t.Context(), log.logger(0)), ctrl.Request{NamespacedName: web})
		if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > retryLimit {
			t.Fatalf("after %d attempts: %+v, %v", attempts, result, err)
		}
		waited = result.RequeueAfter
		passive.SetTime(passive.Now().Add(result.RequeueAfter))
	}
	if waited != retryLimit || attempts > 25 {
		t.Errorf("%d attempts in five minutes, the last after %v", attempts, waited)
	}
	if got := counted(t, counter) - before; int(got) != attempts {
		t.Errorf("%v of %d failures are counted", got, attempts)
	}
	if logged := words(log.lines, "attempt to index a nil value"); logged != 1 {
		t.Errorf("the failure is logged %d times", logged)
	}
}

// When the process ends, requests are canceled in the middle of an aggregation. No Event
// reports that.
func TestEndOfTheProcessIsNoEvent(t *testing.T) {
	b := newBench(t, aShop()...)
	native, _ := b.Interpreter.ResourceInterpreter.(nativeInterpreter)
	b.Interpreter.ResourceInterpreter = faultyScript{native}
	b.settle(t)
	b.confirm(t)
	work := b.workOn(t, "member1")
	work.Status.ManifestStatuses[0].Status = &runtime.RawExtension{Raw: []byte(`{"replicas":1}`)}
	if err := b.server.Status().Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	object := b.propagation(t)
	observed, _, err := b.observe(t.Context(), object, false)
	if err != nil {
		t.Fatal(err)
	}
	ending, end := context.WithCancel(t.Context())
	end()
	if b.reportOnTemplate(ending, object, observed); len(b.events.Events) > 0 {
		t.Errorf("an Event reports %q", <-b.events.Events)
	}
	if b.reportOnTemplate(t.Context(), object, observed); len(b.events.Events) != 1 {
		t.Errorf("%d Events report a script that fails", len(b.events.Events))
	}
}

// TestTemplateStatus: what clusters report is aggregated onto the resource. That
// takes one write per change, and none if nothing changes.
func TestTemplateStatus(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	for _, work := range b.works(t) {
		work.Status.ManifestStatuses[0].Status = &runtime.RawExtension{Raw: []byte(
			`{"replicas":2,"readyReplicas":2,"updatedReplicas":2,"availableReplicas":2,"observedGeneration":7,"generation":7,"resourceTemplateGeneration":0}`)}
		if err := b.server.Status().Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
	b.writes = nil
	b.settle(t)
	deployment := &appsv1.Deployment{}
	if err := b.server.Get(t.Context(), web, deployment); err != nil {
		t.Fatal(err)
	}
	// At rest, every cluster has what the Deployment asks for: one replica.
	if status := deployment.Status; status.ReadyReplicas != 1 || status.AvailableReplicas != 1 || status.Replicas != 1 {
		t.Errorf("status: %+v, want 1 replica", status)
	}
	b.writes = nil
	b.settle(t)
	b.memories.of(web).aggregation = aggregation{}
	b.memories.of(web).forgetResource()
	b.settle(t)
	if len(b.writes) > 0 {
		t.Errorf("idle and after a restart: %v", b.writes)
	}

	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.AggregateStatus = ptr.To(false) })
	deployment.Status = appsv1.DeploymentStatus{}
	if err := b.server.Status().Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if err := b.server.Get(t.Context(), web, deployment); err != nil || deployment.Status.Replicas != 0 {
		t.Errorf("written although it is switched off: %+v, %v", deployment.Status, err)
	}
}

// countingWorks counts the reads of Works that bypass the cache.
func countingWorks(b *bench) *int {
	reads := 0
	b.Live = interceptor.NewClient(b.server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isWork := object.(*workv1alpha1.Work); isWork {
				reads++
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	return &reads
}

// reportLarge has a cluster report replicas, in a status that is too large for the
// cache.
func (b *bench) reportLarge(t *testing.T, cluster string, replicas int) {
	t.Helper()
	work := b.workOn(t, cluster)
	work.Status.ManifestStatuses[0].Status = &runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"replicas":%[1]d,"readyReplicas":%[1]d,"resourceTemplateGeneration":0,"conditions":[{"type":"Large","message":%[2]q}]}`, replicas, strings.Repeat("x", 4<<10))}
	if err := b.server.Status().Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
}

// templateReplicasAre checks the aggregated status of the resource.
func (b *bench) templateReplicasAre(t *testing.T, want int32) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := b.server.Get(t.Context(), web, deployment); err != nil || deployment.Status.Replicas != want {
		t.Errorf("%d replicas, want %d: %v", deployment.Status.Replicas, want, err)
	}
}

// TestLargeStatusIsReadOnce: a status that is too large for the cache is read only
// when it has changed and may be written.
func TestLargeStatusIsReadOnce(t *testing.T) {
	b, passive := newBench(t, aShop()...), clocktesting.NewFakePassiveClock(time.Now())
	b.Clock = passive
	b.settle(t)
	b.confirm(t)
	reads := countingWorks(b)
	b.reportLarge(t, "member1", 2)
	b.reportLarge(t, "member2", 3)
	b.settle(t)
	b.templateReplicasAre(t, 5)
	*reads = 0
	for range 3 {
		b.settle(t)
	}
	if *reads > 0 {
		t.Errorf("nothing has changed: %d reads", *reads)
	}
	b.reportLarge(t, "member2", 4)
	for range 3 {
		if err := b.reconcile(t); err != nil {
			t.Fatal(err)
		}
	}
	if *reads > 0 {
		t.Errorf("too early to write: %d reads", *reads)
	}
	passive.SetTime(passive.Now().Add(statusInterval))
	b.settle(t)
	b.templateReplicasAre(t, 6)
	if *reads != 2 {
		t.Errorf("%d reads, want one for each cluster", *reads)
	}
}
