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

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// observation is how long the test checks that nothing is claimed.
const observation = 20 * time.Second

// While a controller or an agent is stopped, its members confirm nothing. Members
// that are served by others still confirm the change.
func TestControllersStopped(t *testing.T) {
	for _, fault := range []struct {
		process            string
		silent, confirming []*Member
	}{
		{karmadaControllers, []*Member{member1, member3}, []*Member{member2}},
		{agent2, []*Member{member2}, []*Member{member1, member3}},
	} {
		t.Run(fault.process, func(t *testing.T) {
			ns := newNamespace(t)
			old, began := ns.Writes("settings", "one")
			ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2", "member3")
			ns.Propagation("settings").Settles(old, began)

			stops(t, fault.process)
			revision, at := ns.Writes("settings", "two")
			still := []testbed.Check{}
			for _, m := range fault.confirming {
				lasted(t, fault.process+" stopped, resource changed → row of "+m.Name+" True", ns.Propagation("settings").Until(at, testbed.Applied(m.Name, revision)).Sub(at), 10*time.Second)
				ns.runs(m, "settings")
				still = append(still, testbed.Applied(m.Name, revision))
			}
			for _, m := range fault.silent {
				still = append(still, testbed.Unconfirmed(m.Name))
			}
			ns.Propagation("settings").UntilWithin(at, 5*time.Second, testbed.All(still...))
			ns.Propagation("settings").Stays(observation, testbed.All(still...))
			for _, m := range fault.silent {
				if ns.Differs(t.Context(), m, testbed.ConfigMap("settings", "")) == nil {
					t.Errorf("%s has the change, so the test proves nothing", m.Name)
				}
			}

			started := starts(t, fault.process)
			confirmed := ns.Propagation("settings").Settles(revision, at)
			lasted(t, fault.process+" started again → Ready True", confirmed.Sub(started), 15*time.Second)
			for _, state := range ns.Propagation("settings").States(at) {
				for _, m := range fault.silent {
					if row := testbed.RowOf(state, m.Name); row.Revision == revision && row.Applied != "True" {
						t.Errorf("a row claimed the new revision before it was confirmed: %+v", row)
					}
				}
			}
		})
	}
}
