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
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

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
