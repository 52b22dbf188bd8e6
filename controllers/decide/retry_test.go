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
	"maps"
	"testing"
	"time"
)

// TestUnansweredAttemptsBackOff: each attempt at a member that does not answer occupies one
// of Karmada's workers for 32 s, and delays all other clusters. The controller asks for such
// attempts less and less often.
func TestUnansweredAttemptsBackOff(t *testing.T) {
	observed := scene(one, on("member1", isUnanswered))
	work := observed.Work("member1")
	nudges := 0
	for observed.Now.Before(now.Add(time.Hour)) {
		plan := NewPlan(observed)
		if len(plan.Writes) == 0 {
			if plan.Wait == 0 {
				t.Fatal("nothing is planned")
			}
			observed.Now = observed.Now.Add(plan.Wait)
			continue
		}
		if !plan.Writes[0].Reset || !plan.Writes[0].Nudge {
			t.Fatalf("the plan is to %v", plan.Steps())
		}
		nudges++
		maps.Copy(work.Annotations, plan.Writes[0].AllNotes())
		ends := observed.Now.Add(32 * time.Second)
		work.Status.Conditions = append(ResetConditions(work, confirmedRevision(work), observed.Now), conditionAt(dispatched, observed.Now), conditionAt(applied, ends))
		observed.Now = ends
	}
	if nudges < 10 || nudges > 20 {
		t.Errorf("%d attempts in an hour, want 10 to 20", nudges)
	}
}
