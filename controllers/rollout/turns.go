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

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// watchTime is how long a process must have watched the clusters before it declares one
// of them failed: after an outage of the control plane, every deadline may have passed.
const watchTime = 60 * time.Second

// turn is the turn of one cluster. Times are Unix times; 0 means never. The zero value is
// no turn.
type turn struct {
	revision                            string
	kind                                TurnKind
	started, healthy, stopped, withheld int64
	failed                              bool
}

func (t *turn) exists() bool { return t.started != 0 }

// isRunning reports whether the turn is neither over, nor stopped, nor failed.
func (t *turn) isRunning() bool { return t.exists() && t.stopped == 0 && !t.failed }

// takeTurns gives each member the turn that is recorded for it. A time in the future is
// that of another clock; what is counted from it starts again.
func (d *decision) takeTurns() {
	turns := map[string]turn{}
	for i := range d.next.Turns {
		group := &d.next.Turns[i]
		for _, name := range group.ClusterNames {
			turns[name] = turn{
				revision: group.Revision, kind: group.Kind, failed: group.Failed,
				started: group.StartedAt.Unix(), healthy: unix(group.HealthySince), stopped: unix(group.StoppedAt), withheld: unix(group.WithheldSince),
			}
		}
	}
	for i := range d.members {
		m := &d.members[i]
		m.turn, m.recorded = turns[m.Name], turns[m.Name]
		m.turn.started = min(m.turn.started, d.stamp())
		m.turn.healthy = min(m.turn.healthy, d.stamp())
		m.turn.stopped = min(m.turn.stopped, d.stamp())
		m.turn.withheld = min(m.turn.withheld, d.stamp())
	}
}

// grouped is the inverse of takeTurns.
func grouped(members []member) []Turn {
	names := map[turn][]string{}
	for i := range members {
		if members[i].turn.exists() {
			names[members[i].turn] = append(names[members[i].turn], members[i].Name)
		}
	}
	turns := make([]Turn, 0, len(names))
	for t, clusters := range names {
		turns = append(turns, Turn{
			Revision: t.revision, Kind: t.kind, Failed: t.failed, ClusterNames: clusters,
			StartedAt: metav1.Unix(t.started, 0), HealthySince: timeOf(t.healthy), StoppedAt: timeOf(t.stopped), WithheldSince: timeOf(t.withheld),
		})
	}
	slices.SortFunc(turns, func(a, b Turn) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt.Time), strings.Compare(a.ClusterNames[0], b.ClusterNames[0]))
	})
	return turns
}

func unix(at *metav1.Time) int64 {
	if at == nil {
		return 0
	}
	return at.Unix()
}

func timeOf(seconds int64) *metav1.Time {
	if seconds == 0 {
		return nil
	}
	return ptr.To(metav1.Unix(seconds, 0))
}

// begin gives a member a turn.
func (d *decision) begin(m *member, revision string, kind TurnKind) {
	m.turn = turn{revision: revision, kind: kind, started: d.stamp()}
	d.lookAgain(d.remaining(m.turn.started, d.deadline()))
}

// observeTurns ends turns whose clusters are done, and finds clusters that have failed,
// have relapsed, or have lost the update revision. Those begin without waiting for a slot.
func (d *decision) observeTurns() {
	update := d.next.UpdateRevision
	for i := range d.members {
		m := &d.members[i]
		switch {
		case m.turn.exists():
			d.observe(m)
		case d.next.Phase != Progressing:
		case m.has(update) && m.isBad() && !m.isStopped():
			d.begin(m, update, Relapse)
		case m.hasLost(update):
			d.begin(m, update, Regular)
		}
	}
}

// observe updates the clocks of a turn.
func (d *decision) observe(m *member) {
	if m.turn.kind == Relapse && !m.has(m.turn.revision) {
		// It has lost what it had, and gets it again.
		m.turn.kind = Regular
	}
	if m.isGood(m.turn.revision) {
		d.goOn(m)
		d.observeHealth(m)
		return
	}
	m.turn.healthy = 0
	switch {
	case !m.turn.isRunning():
	case m.isStopped():
		d.goOn(m)
		m.turn.stopped = d.stamp()
	case !m.Withheld:
		d.goOn(m)
		d.observeDeadline(m)
	default:
		if m.turn.withheld == 0 {
			m.turn.withheld = d.stamp()
		}
		// Nothing else may say that it no longer is.
		d.lookAgain(max(time.Second, time.Duration(d.deadline())*time.Second/10))
	}
}

// goOn starts the clock of a turn again that stood still because the cluster could not get
// what it should have.
func (d *decision) goOn(m *member) {
	if m.turn.withheld != 0 {
		m.turn.started, m.turn.withheld = d.stamp(), 0
	}
}

// observeHealth ends the turn of a healthy cluster after minReadySeconds. Until then,
// the cluster does not fail.
func (d *decision) observeHealth(m *member) {
	if m.turn.healthy == 0 {
		m.turn.healthy = d.stamp()
	}
	seconds := ptr.Deref(d.strategy.MinReadySeconds, defaultMinReadySeconds)
	if left := d.remaining(m.turn.healthy, seconds); left > 0 && seconds > 0 {
		d.lookAgain(left)
		return
	}
	m.turn = turn{}
}

// observeDeadline lets a cluster fail whose time is over.
func (d *decision) observeDeadline(m *member) {
	if left := max(d.remaining(m.turn.started, d.deadline()), watchTime-d.in.Watched); left > 0 {
		d.lookAgain(left)
		return
	}
	m.turn.failed = true
	d.event(propagationv1alpha1.EventClusterFailed, fmt.Sprintf("cluster %s has not become healthy with revision %s within %d s", m.Name, m.turn.revision, d.deadline()))
}

func (d *decision) deadline() int32 {
	return ptr.Deref(d.strategy.ProgressDeadlineSeconds, defaultProgressDeadlineSeconds)
}

// takesSlot reports whether the turn of a cluster takes a slot of its stage. A cluster
// that is on its way back does not hold up the others while it has no contact.
func (d *decision) takesSlot(m *member) bool {
	switch {
	case !m.turn.exists() || m.turn.failed:
		return false
	case m.turn.stopped != 0:
		// Until the Work is suspended, Karmada may still apply it.
		return m.Dispatched
	case m.turn.revision == d.next.CurrentRevision:
		return m.Ready
	}
	return true
}
