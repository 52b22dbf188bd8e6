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

package decide

import (
	"testing"
	"time"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
)

// TestCrashBetweenResetAndUpdate: a confirmation was reset for content that is no
// longer desired when the controller is back.
func TestCrashBetweenResetAndUpdate(t *testing.T) {
	world := newWorld()
	if err := world.settle(); err != nil {
		t.Fatal(err)
	}
	world.content = 1
	world.our.decide(world)
	world.our.write(world)
	world.our.crash(world)
	world.content = 0
	if err := world.settle(); err != nil {
		t.Fatal(err)
	}
}

// TestSecondResetHasItsTime: after a nudge on contact, a second reset is what the cluster
// has yet to answer, and not the nudge.
func TestSecondResetHasItsTime(t *testing.T) {
	work := &workv1alpha1.Work{}
	for _, at := range []time.Time{now.Add(-time.Hour), now.Add(-time.Minute)} {
		work.Status.Conditions = append(work.Status.Conditions, applied)
		work.Status.Conditions = ResetConditions(work, confirmedRevision(work), at)
		if left := work.Status.Conditions; len(left) != 1 || !left[0].LastTransitionTime.Time.Equal(at) {
			t.Fatalf("reset at %v: %+v", at, left)
		}
	}
	work.Status.Conditions[0].ObservedGeneration--
	observed := scene(one, on("member1", attempted(1, now.Add(-3*time.Minute)), conditions(work.Status.Conditions...)))
	if plan := NewPlan(observed).Steps(); len(plan) > 0 {
		t.Errorf("the plan is to %v", plan)
	}
}
