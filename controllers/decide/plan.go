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
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

const (
	// settleTime limits how long the deletion of a new Work waits until Karmada is
	// known to see the member's object.
	settleTime = 10 * time.Second
	// sightTime limits the same after Karmada has written the object. If the member was
	// down, Karmada's watch of it begins anew after up to a minute: client-go backs off
	// for 30 to 60 s.
	sightTime = 65 * time.Second
	// releaseTime is how long Karmada may take to release a Work whose object should
	// stay on the member, and again after a nudge. It takes well under a second, or
	// forever.
	releaseTime = 3 * time.Second
	// restoreDelay is how long to wait before restoring a Work that somebody else
	// has deleted. It exceeds the polling interval of karmadactl unregister.
	restoreDelay = 3 * time.Second
	// leaveTime is how long Karmada has for the Works of a cluster that leaves, which are all
	// deleted at once. karmadactl waits for a minute.
	leaveTime = 20 * time.Second
	// KindPoll is how often to look for an unknown kind, in addition to the watch on
	// CustomResourceDefinitions, which does not see aggregated APIs.
	KindPoll = 15 * time.Second
)

// Plan is what has to be done.
type Plan struct {
	// AddFinalizer comes before all else.
	AddFinalizer bool
	// Writes are creations and changes of Works, one per cluster at most.
	Writes []Write
	// Removals are done after the Writes for the same cluster.
	Removals []Removal
	// HeldBack are, by cluster, writes that the API server has just refused and that
	// are not tried again yet.
	HeldBack map[string]error
	// refused are the slots of writes that come before those of the plan.
	refused []string
	// Unreported is how many Works Karmada has yet to report on.
	Unreported int
	// RemoveFinalizer lets the deletion of the object finish.
	RemoveFinalizer bool
	// Abandoned are the clusters that are not cleaned up when it does.
	Abandoned []string
	// Wait is when to look again even if nothing that is watched changes; 0 if there
	// is no need.
	Wait time.Duration
}

// group sorts writes by their variant, so that each variant is rendered once.
func (p *Plan) group() {
	slices.SortStableFunc(p.Writes, func(a, b Write) int { return strings.Compare(a.Rendering.Variant, b.Rendering.Variant) })
}

func (p *Plan) wait(duration time.Duration) { p.Wait = Sooner(p.Wait, duration) }

// Sooner returns the shorter of two times to wait. 0 and less mean that there is no
// need to look again.
func Sooner(one, other time.Duration) time.Duration {
	if other > 0 && (one == 0 || other < one) {
		return other
	}
	return one
}

// NewPlan decides what has to be done. It is pure: it reads nothing but its
// argument.
func NewPlan(observed *Observed) *Plan {
	plan := &Plan{}
	if observed.Deleting {
		planDeletion(observed, plan)
		return plan
	}
	if observed.Resource.Problem != nil {
		plan.wait(observed.Resource.Problem.Poll)
	} else {
		plan.wait(observed.Resource.Poll)
	}
	if observed.Rollout != nil {
		plan.wait(observed.Rollout.Wait)
	}
	if observed.isRenderable() {
		plan.AddFinalizer = !observed.HasFinalizer
	}
	for _, target := range observed.Targets {
		planTarget(observed, plan, target)
	}
	for _, key := range observed.surplus() {
		switch {
		case observed.Works[key].DeletionTimestamp == nil && observed.MayBeNeeded != nil && observed.MayBeNeeded(render.ClusterOf(key.Namespace)):
			plan.wait(observed.RetainPoll)
		case mayGo(observed, plan, key):
			planRemoval(observed, plan, key)
		}
	}
	plan.group()
	return plan
}

// planTarget decides what the Work of one cluster needs.
func planTarget(observed *Observed, plan *Plan, target render.Target) {
	if _, held := observed.Holders[target.Cluster]; held {
		if observed.isRenderable() {
			plan.wait(observed.ConflictPoll)
		}
		return
	}
	cluster, rendering := observed.Clusters[target.Cluster], observed.Resource.On(target.Cluster)
	if !cluster.Exists || cluster.Terminating {
		// The execution namespace of a terminating cluster may not accept new Works,
		// and its Works are being deleted.
		planLeaving(observed, plan, target.Cluster)
		return
	}
	work := observed.Work(target.Cluster)
	denial, denied := observed.Denials[target.Cluster]
	switch {
	case !observed.isRenderable():
		if observed.Status != nil && observed.Status.Rollout != nil && work != nil {
			// A rollout may have suspended it for a reason that is not known now.
			target.Suspend = target.Suspend || ptr.Deref(work.Spec.SuspendDispatching, false)
		}
		planStanding(observed, plan, target, work)
	case denied:
		plan.wait(denial.Wait)
		planStanding(observed, plan, target, work)
	case rendering.Reason != "":
		// What the cluster has stays until this is fixed.
		if rendering.Reason == propagationv1alpha1.ReasonRevisionUnreadable {
			plan.wait(KindPoll)
		}
		if !rendering.Retry.IsZero() {
			plan.wait(max(rendering.Retry.Sub(observed.Now), time.Millisecond))
		}
		planStanding(observed, plan, target, work)
	default:
		target.Overrides = rendering.Overrides
		planWork(observed, plan, target, rendering, work)
	}
}

// planLeaving completes the deletion of a Work that an object still names, on a cluster that
// leaves. Otherwise, the cluster would not leave if Karmada kept the Work.
func planLeaving(observed *Observed, plan *Plan, cluster string) {
	work := observed.Work(cluster)
	if work == nil || work.DeletionTimestamp == nil {
		return
	}
	if left := remaining(observed.Now, work.DeletionTimestamp.Time, leaveTime); left > 0 {
		plan.wait(left)
		return
	}
	planEnd(observed, plan, cluster, work)
}

// write adds a write, unless the API server has just refused the same write.
func (p *Plan) write(observed *Observed, write Write) {
	if !p.holdsBack(observed, write.Target.Cluster, write.Slot(), write.What(observed)) {
		p.Writes = append(p.Writes, write)
	}
}

// remove adds a removal, unless the API server has just refused it.
func (p *Plan) remove(observed *Observed, removal Removal) {
	if !p.holdsBack(observed, removal.Cluster, removal.Slot(), removal.What()) {
		p.Removals = append(p.Removals, removal)
	}
}

// HoldBack leaves out the writes for some clusters, because a write that comes before them
// was refused. That write is repeated after a while. What these clusters have stays until
// then, and what needs no new content is done.
func (p *Plan) HoldBack(observed *Observed, slot string, err error, wait time.Duration, concerns func(cluster string) bool) {
	if p.HeldBack == nil {
		p.HeldBack = map[string]error{}
	}
	var left []Write
	p.Removals = slices.DeleteFunc(p.Removals, func(removal Removal) bool {
		if removal.Work.DeletionTimestamp != nil || !observed.Targeted(removal.Cluster) || !concerns(removal.Cluster) {
			return false
		}
		p.HeldBack[removal.Cluster] = err // what would replace it is not written
		return true
	})
	p.Writes = slices.DeleteFunc(p.Writes, func(write Write) bool {
		if !concerns(write.Target.Cluster) {
			return false
		}
		p.HeldBack[write.Target.Cluster] = err
		left = append(left, write)
		return true
	})
	for i := range left {
		planKept(observed, p, left[i].Target, left[i].Live, !left[i].abandons())
	}
	p.refused = append(p.refused, slot)
	p.wait(max(wait, time.Millisecond))
}

// Slots are the slots of everything to write or remove, or that was refused before.
func (p *Plan) Slots() map[string]bool {
	slots := make(map[string]bool, len(p.Writes)+len(p.Removals))
	for _, slot := range p.refused {
		slots[slot] = true
	}
	for i := range p.Writes {
		slots[p.Writes[i].Slot()] = true
	}
	for i := range p.Removals {
		slots[p.Removals[i].Slot()] = true
	}
	return slots
}

// holdsBack reports whether the API server has just refused something, and records
// it.
func (p *Plan) holdsBack(observed *Observed, cluster, slot, what string) bool {
	setback, found := observed.refused(slot, what)
	if !found {
		return false
	}
	if p.HeldBack == nil {
		p.HeldBack = map[string]error{}
	}
	p.HeldBack[cluster] = setback.Err
	p.wait(setback.Until.Sub(observed.Now))
	return true
}

// restores returns how long to wait before restoring a Work that somebody else has
// deleted; 0 if there is none. karmadactl unregister deletes the Works of a pull
// cluster before it deletes the Cluster, and gives up unless one of its checks,
// which are a second apart, finds none left.
func restores(observed *Observed, cluster string) time.Duration {
	at, lost := observed.Lost[cluster]
	if !lost {
		return 0
	}
	return max(0, at.Add(restoreDelay).Sub(observed.Now))
}
