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

package testbed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Latest returns the latest state that the watch has reported, or nil if the object
// does not exist.
func (p *Propagation) Latest() *DirectPropagation {
	object, _ := p.NS.Bed.Propagations.Latest(p.key()).(*DirectPropagation)
	return object
}

// States returns the states that were recorded since a moment.
func (p *Propagation) States(since time.Time) []*DirectPropagation {
	states := []*DirectPropagation{}
	for _, sighting := range p.NS.Bed.Propagations.Of(p.key(), since) {
		if object, ok := sighting.Object.(*DirectPropagation); ok && !sighting.Gone {
			states = append(states, object)
		}
	}
	return states
}

// OnEveryState calls a function with every state of the object in order, both
// recorded and future ones, until the test ends. The function runs in its own
// goroutine: it should only record, and the test judges the record later.
func (p *Propagation) OnEveryState(see func(*DirectPropagation)) {
	p.NS.onLeave(p.NS.Bed.Propagations.OnEach(p.key(), func(object client.Object) {
		if state, ok := object.(*DirectPropagation); ok {
			see(state)
		}
	}))
}

// AwaitState waits until check returns nil for the current state of the object, and
// returns that state. Unlike Becomes, it may be called from any goroutine.
func (p *Propagation) AwaitState(what string, check Check) (*DirectPropagation, error) {
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	alive := time.NewTicker(time.Second)
	defer alive.Stop()
	for {
		latest, changed := p.NS.Bed.Propagations.state(p.key())
		last := errors.New("there is no such object")
		if object, ok := latest.(*DirectPropagation); ok {
			if last = check(object); last == nil {
				return object, nil
			}
		}
		if err := p.NS.Bed.Propagations.fault(); err != nil {
			return nil, errors.Join(err, last)
		}
		select {
		case <-changed:
		case <-alive.C: // check that the controller is still running
		case <-deadline.C:
			return nil, fmt.Errorf("waited %v until DirectPropagation %s %s: %w", Patience, p.Name, what, last)
		case <-p.NS.Ctx.Done():
			return nil, p.NS.Ctx.Err()
		}
	}
}

// Becomes waits until check returns nil for the current state of the object.
func (p *Propagation) Becomes(what string, check Check) *DirectPropagation {
	p.NS.T.Helper()
	object, err := p.AwaitState(what, check)
	if err != nil {
		p.NS.T.Fatalf("%v\n%s", err, p.NS.Dump())
	}
	return object
}

// First waits for the first state since a moment for which check returns nil, for at
// most limit. It returns that state and its time. The object may have changed since.
func (p *Propagation) First(since time.Time, limit time.Duration, check Check) (time.Time, *DirectPropagation) {
	p.NS.T.Helper()
	sighting, err := p.NS.Bed.Propagations.Await(p.NS.Ctx, p.key(), since, limit, func(seen Sighting) error {
		object, ok := seen.Object.(*DirectPropagation)
		if !ok || seen.Gone {
			return errors.New("it is gone")
		}
		return check(object)
	})
	if err != nil {
		p.NS.T.Fatalf("DirectPropagation %s did not reach the wanted state: %v\n%s", p.Name, err, p.NS.Dump())
	}
	object, _ := sighting.Object.(*DirectPropagation)
	return sighting.At, object
}

// Until waits for the first state since a moment that passes the check, and returns
// its time.
func (p *Propagation) Until(since time.Time, check Check) time.Time {
	p.NS.T.Helper()
	return p.UntilWithin(since, Patience, check)
}

// UntilWithin is Until with a limit.
func (p *Propagation) UntilWithin(since time.Time, limit time.Duration, check Check) time.Time {
	p.NS.T.Helper()
	at, _ := p.First(since, limit, check)
	return at
}

// Stays checks the current state and every later one for a duration.
func (p *Propagation) Stays(duration time.Duration, check Check) {
	p.NS.T.Helper()
	began := time.Now()
	p.NS.Throughout(duration, "DirectPropagation "+p.Name, func(context.Context) error {
		object := p.Latest()
		if object == nil {
			return errors.New("it is gone")
		}
		return check(object)
	})
	for _, state := range p.States(began) {
		if err := check(state); err != nil {
			p.NS.T.Fatalf("DirectPropagation %s was in an unwanted state: %v", p.Name, err)
		}
	}
}

// BecomesReady waits until Ready is True for the current resource and spec. At that
// moment, every cluster must run the resource.
func (p *Propagation) BecomesReady() *DirectPropagation {
	p.NS.T.Helper()
	object, err := p.Ready(p.NS.Ctx)
	if err != nil {
		p.NS.T.Fatalf("%v\n%s", err, p.NS.Dump())
	}
	return object
}

// Ready is BecomesReady for goroutines, which must not end a test.
func (p *Propagation) Ready(ctx context.Context) (*DirectPropagation, error) {
	wanted := p.object()
	if err := p.NS.Bed.Karmada.Get(ctx, p.key(), wanted); err != nil {
		return nil, fmt.Errorf("reading DirectPropagation %s: %w", p.Name, err)
	}
	resource, err := p.NS.ResourceOf(ctx, wanted)
	if err != nil {
		return nil, err
	}
	revision, err := RevisionOf(wanted.Spec.ConflictResolution, resource)
	if err != nil {
		return nil, err
	}
	object, err := p.AwaitState("is Ready with revision "+revision, func(object *DirectPropagation) error {
		return IsReady(object, wanted.Generation, revision)
	})
	if err != nil {
		return nil, err
	}
	typed, err := typedOf(resource)
	if err != nil {
		return nil, err
	}
	if err := Run(ctx, typed, p.members(object)...); err != nil {
		return nil, fmt.Errorf("DirectPropagation %s is Ready with revision %s, but: %w", p.Name, revision, err)
	}
	return object, nil
}

// members returns the members that an object names.
func (p *Propagation) members(object *DirectPropagation) []*Member {
	return slices.DeleteFunc(slices.Clone(p.NS.Bed.Options.Members), func(member *Member) bool {
		return !slices.Contains(ClustersOf(object), member.Name)
	})
}

// Settles waits for the first state since a moment that is Ready with a revision,
// and returns its time. When it has seen that state, the members that the object
// names must have what the control plane has.
func (p *Propagation) Settles(revision string, since time.Time) time.Time {
	p.NS.T.Helper()
	return p.SettlesWithin(revision, since, Patience)
}

// SettlesWithin is Settles with a limit.
func (p *Propagation) SettlesWithin(revision string, since time.Time, limit time.Duration) time.Time {
	p.NS.T.Helper()
	at, object := p.First(since, limit, ReadyWith(revision))
	resource, err := p.NS.ResourceOf(p.NS.Ctx, object)
	if err != nil {
		p.NS.T.Fatal(err)
	}
	typed, err := typedOf(resource)
	if err != nil {
		p.NS.T.Fatal(err)
	}
	for _, member := range p.members(object) {
		if err := member.Runs(p.NS.Ctx, typed); err != nil {
			p.NS.T.Errorf("the status says that %s runs it, but: %v", member, err)
		}
	}
	return at
}

// Says waits until Ready is not True, with exactly this reason and message.
func (p *Propagation) Says(reason, message string) *DirectPropagation {
	p.NS.T.Helper()
	wanted := p.object()
	if err := p.NS.Bed.Karmada.Get(p.NS.Ctx, p.key(), wanted); err != nil {
		p.NS.T.Fatalf("reading DirectPropagation %s: %v", p.Name, err)
	}
	return p.Becomes(fmt.Sprintf("says %s: %q", reason, message), func(object *DirectPropagation) error {
		ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
		if ready == nil || ready.Status == metav1.ConditionTrue || ready.ObservedGeneration < wanted.Generation || ready.Reason != reason || ready.Message != message {
			return fmt.Errorf("Ready is %s", Say(ready))
		}
		return nil
	})
}

// RowSays waits until the row of a cluster has exactly this state, reason and
// message.
func (p *Propagation) RowSays(cluster string, applied metav1.ConditionStatus, reason, message string) *DirectPropagation {
	p.NS.T.Helper()
	return p.Becomes(fmt.Sprintf("has the row %s: %s %s: %q", cluster, applied, reason, message), func(object *DirectPropagation) error {
		row := RowOf(object, cluster)
		if row.Name == "" || row.Applied != applied || row.Reason != reason || row.Message != message {
			return fmt.Errorf("the row is %+v", row)
		}
		return nil
	})
}

// EveryRowSays waits until every row has a reason.
func (p *Propagation) EveryRowSays(what, reason string) {
	p.NS.T.Helper()
	p.Becomes(what, func(object *DirectPropagation) error {
		for i := range object.Status.Clusters {
			if row := &object.Status.Clusters[i]; row.Reason != reason {
				return fmt.Errorf("%s: %s: %s", row.Name, row.Reason, row.Message)
			}
		}
		return nil
	})
}

// IsBecause waits until Ready is not True, with this reason.
func (p *Propagation) IsBecause(reason string) {
	p.NS.T.Helper()
	p.Becomes("is not Ready because of "+reason, func(object *DirectPropagation) error {
		ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
		if ready == nil || ready.Status == metav1.ConditionTrue || ready.Reason != reason {
			return fmt.Errorf("Ready is %s", Say(ready))
		}
		return nil
	})
}

// WasNotReadySince checks that Ready was not True in at least one state after the
// given one, as must be the case when the resource has changed.
func (p *Propagation) WasNotReadySince(before *DirectPropagation) {
	p.NS.T.Helper()
	states := p.between(before, p.Latest())
	for _, state := range states {
		if ready := meta.FindStatusCondition(state.Status.Conditions, propagationv1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue {
			return
		}
	}
	p.NS.T.Errorf("Ready of %s was True throughout, although the resource has changed:\n%s", p.Name, transitions(states))
}

// between returns the states that were recorded after one state and up to another.
func (p *Propagation) between(before, after *DirectPropagation) []*DirectPropagation {
	all := p.States(time.Time{})
	first := slices.IndexFunc(all, func(state *DirectPropagation) bool { return state.ResourceVersion == before.ResourceVersion })
	last := slices.IndexFunc(all, func(state *DirectPropagation) bool { return state.ResourceVersion == after.ResourceVersion })
	return all[first+1 : last+1]
}

// transitions formats states for a failure message, one per line.
func transitions(states []*DirectPropagation) string {
	out := &strings.Builder{}
	for _, state := range states {
		ready := meta.FindStatusCondition(state.Status.Conditions, propagationv1alpha1.ConditionReady)
		fmt.Fprintf(out, "  %s Ready %s;", state.ResourceVersion, Say(ready))
		for _, row := range state.Status.Clusters {
			fmt.Fprintf(out, " %s %s/%s/%s/%s", row.Name, row.Applied, row.Health, row.Reason, row.Revision)
		}
		fmt.Fprintln(out)
	}
	return out.String()
}
