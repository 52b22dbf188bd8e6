//go:build faults

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

package faults

import (
	"testing"
	"time"
)

// observation is how long it is watched that nothing is claimed.
const observation = 20 * time.Second

// What nobody carries out is not confirmed, for as long as it takes. The
// members that others serve confirm it meanwhile.
func TestControllersStopped(t *testing.T) {
	for _, fault := range []struct {
		process            string
		silent, confirming []*member
	}{
		{karmadaControllers, []*member{member1, member3}, []*member{member2}},
		{agent2, []*member{member2}, []*member{member1, member3}},
	} {
		t.Run(fault.process, func(t *testing.T) {
			s := newSpace(t)
			old, began := s.says("settings", "one")
			s.propagates("settings", configMap("settings"), "member1", "member2", "member3")
			s.settled("settings", old, began, patience)

			stops(t, fault.process)
			revision, at := s.says("settings", "two")
			still := []check{}
			for _, m := range fault.confirming {
				lasted(t, fault.process+" stopped, resource changed → row of "+m.Name+" True", s.until("settings", at, patience, applied(m.Name, revision)).Sub(at), 10*time.Second)
				s.runs(m, "settings")
				still = append(still, applied(m.Name, revision))
			}
			for _, m := range fault.silent {
				still = append(still, unconfirmed(m.Name))
			}
			s.until("settings", at, 5*time.Second, all(still...))
			s.stays("settings", observation, all(still...))
			for _, m := range fault.silent {
				if s.differs(t.Context(), m, "settings") == nil {
					t.Errorf("%s has the change: the test proves nothing", m.Name)
				}
			}

			started := starts(t, fault.process)
			confirmed := s.settled("settings", revision, at, patience)
			lasted(t, fault.process+" started again → Ready True", confirmed.Sub(started), 15*time.Second)
			for _, state := range s.states("settings", at) {
				for _, m := range fault.silent {
					if row := rowOf(state, m.Name); row.Revision == revision && row.Applied != "True" {
						t.Errorf("a row claimed the new revision before it was confirmed: %+v", row)
					}
				}
			}
		})
	}
}
