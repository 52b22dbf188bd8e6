//go:build e2e

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

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// DirectPropagation is what these tests are about.
type DirectPropagation = propagationv1alpha1.DirectPropagation

// story is all that a watch shows of the DirectPropagations of a namespace:
// every state that the API server ever stored, none left out.
type story struct {
	open  func() (watch.Interface, error)
	ended chan struct{}

	mu      sync.Mutex
	watch   watch.Interface
	stopped bool
	latest  map[string]*DirectPropagation // nil once it is gone
	history map[string][]*DirectPropagation
	changed chan struct{} // closed, and replaced, whenever something changes
	readers map[string][]chan<- *DirectPropagation
	fault   error
}

// follow begins to watch a namespace.
func follow(t *testing.T, namespace string) *story {
	t.Helper()
	// The watch outlives the test's own context: cleaning up is watched too.
	open := func() (watch.Interface, error) {
		return karmada.Watch(context.WithoutCancel(t.Context()), &propagationv1alpha1.DirectPropagationList{}, client.InNamespace(namespace))
	}
	watching, err := open()
	if err != nil {
		t.Fatalf("watching DirectPropagations: %v", err)
	}
	s := &story{
		watch: watching, open: open, ended: make(chan struct{}), changed: make(chan struct{}),
		latest: map[string]*DirectPropagation{}, history: map[string][]*DirectPropagation{}, readers: map[string][]chan<- *DirectPropagation{},
	}
	go s.read()
	return s
}

func (s *story) read() {
	defer close(s.ended)
	for s.readWatch() {
	}
}

// readWatch reads to the end of the watch, and reports whether there is another
// one to read: an API server whose cache lags may refuse a watch before its first
// event.
func (s *story) readWatch() bool {
	s.mu.Lock()
	events, begun := s.watch.ResultChan(), false
	s.mu.Unlock()
	for event := range events {
		if event.Type == watch.Error && !begun && apierrors.IsTimeout(apierrors.FromObject(event.Object)) {
			return s.reopen()
		}
		begun = true
		object, ok := event.Object.(*DirectPropagation)
		s.mu.Lock()
		switch {
		case !ok:
			s.fault = fmt.Errorf("watching DirectPropagations: %w", apierrors.FromObject(event.Object))
		case event.Type == watch.Deleted:
			s.latest[object.Name] = nil
		default:
			s.latest[object.Name] = object
			s.history[object.Name] = append(s.history[object.Name], object)
			for _, reader := range s.readers[object.Name] {
				reader <- object
			}
		}
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
	}
	return false
}

func (s *story) reopen() bool {
	watching, err := s.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.fault = fmt.Errorf("watching DirectPropagations: %w", err)
		return false
	}
	s.watch.Stop()
	if s.stopped {
		watching.Stop()
	}
	s.watch = watching
	return true
}

// end stops watching.
func (s *story) end() {
	s.mu.Lock()
	s.stopped = true
	s.watch.Stop()
	s.mu.Unlock()
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, readers := range s.readers {
		for _, reader := range readers {
			close(reader)
		}
	}
	s.readers = nil
}

// state returns an object as it was seen last, and a channel that is closed
// when anything changes.
func (s *story) state(name string) (*DirectPropagation, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest[name], s.changed, s.fault
}

// Propagation is a DirectPropagation of a test.
type Propagation struct {
	ns   *Namespace
	Name string
}

// route is a DirectPropagation that does not say yet where to.
type route struct {
	ns       *Namespace
	name     string
	resource propagationv1alpha1.ResourceReference
	tune     func(*DirectPropagation)
}

// Propagates begins the making of a DirectPropagation.
func (ns *Namespace) Propagates(name string, resource client.Object) *route {
	return &route{ns: ns, name: name, resource: referenceTo(resource)}
}

// PropagatesReference does so for a resource that there is no object of.
func (ns *Namespace) PropagatesReference(name string, resource propagationv1alpha1.ResourceReference) *route {
	return &route{ns: ns, name: name, resource: resource}
}

// With has more said in the spec.
func (r *route) With(tune func(*DirectPropagation)) *route {
	r.tune = tune
	return r
}

// To makes the DirectPropagation.
func (r *route) To(where ...*Member) *Propagation {
	r.ns.t.Helper()
	return r.ToClusters(namesOf(where)...)
}

// ToClusters makes the DirectPropagation, to clusters that need not exist.
func (r *route) ToClusters(clusters ...string) *Propagation {
	r.ns.t.Helper()
	object := directPropagation(r.ns.Name, r.name, r.resource, clusters...)
	if r.tune != nil {
		r.tune(object)
	}
	r.ns.noteWork(r.resource)
	if err := karmada.Create(r.ns.ctx, object); err != nil {
		r.ns.t.Fatalf("creating DirectPropagation %s: %v", r.name, err)
	}
	return &Propagation{ns: r.ns, Name: r.name}
}

// Changes changes the DirectPropagation.
func (p *Propagation) Changes(mutate func(*DirectPropagation)) {
	p.ns.t.Helper()
	object := &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns.Name, Name: p.Name}}
	if err := change(p.ns.ctx, karmada, object, mutate); err != nil {
		p.ns.t.Fatal(err)
	}
	p.ns.noteWork(object.Spec.Resource)
}

// MovesTo changes its clusters.
func (p *Propagation) MovesTo(where ...*Member) {
	p.ns.t.Helper()
	p.Changes(func(object *DirectPropagation) { object.Spec.Clusters = targets(namesOf(where)...) })
}

// IsDeleted deletes it, and waits until it is gone.
func (p *Propagation) IsDeleted() {
	p.ns.t.Helper()
	object := &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns.Name, Name: p.Name}}
	if err := karmada.Delete(p.ns.ctx, object); err != nil {
		p.ns.t.Fatalf("deleting DirectPropagation %s: %v", p.Name, err)
	}
	p.IsGone()
}

// IsGone waits until it is gone.
func (p *Propagation) IsGone() {
	p.ns.t.Helper()
	p.ns.eventually("DirectPropagation "+p.Name+" is gone", func(ctx context.Context) error {
		err := karmada.Get(ctx, client.ObjectKey{Namespace: p.ns.Name, Name: p.Name}, &DirectPropagation{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

// OnEveryState calls a function with every state that the watch has shown and
// will show, in their order, until the test ends. The function runs in a goroutine of
// its own: it records, and what it recorded is judged later.
func (p *Propagation) OnEveryState(see func(*DirectPropagation)) {
	const plenty = 10000 // the watch must not wait for who reads
	states := make(chan *DirectPropagation, plenty)
	s := p.ns.story
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range s.history[p.Name] {
		states <- state
	}
	s.readers[p.Name] = append(s.readers[p.Name], states)
	go func() {
		for state := range states {
			see(state)
		}
	}()
}

// awaits waits until the object is in a state that check has nothing to
// complain of, and returns it in that state.
func (p *Propagation) awaits(what string, check func(*DirectPropagation) error) (*DirectPropagation, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	alive := time.NewTicker(time.Second)
	defer alive.Stop()
	for {
		object, changed, err := p.ns.story.state(p.Name)
		if err = errors.Join(err, manager.fault()); err != nil {
			return nil, err
		}
		complaint := errors.New("there is no such object")
		if object != nil {
			complaint = check(object)
		}
		if complaint == nil {
			return object, nil
		}
		select {
		case <-changed:
		case <-alive.C: // to see that the controller is
		case <-deadline.C:
			return nil, fmt.Errorf("waited %v until DirectPropagation %s %s: %w", patience, p.Name, what, complaint)
		case <-p.ns.ctx.Done():
			return nil, p.ns.ctx.Err()
		}
	}
}

// Becomes waits until the object is in a state.
func (p *Propagation) Becomes(what string, check func(*DirectPropagation) error) *DirectPropagation {
	p.ns.t.Helper()
	object, err := p.awaits(what, check)
	if err != nil {
		p.ns.t.Fatalf("%v\n%s", err, p.ns.dump())
	}
	return object
}

// BecomesReady waits until Ready is True for what the control plane has now.
// At that very moment, every cluster must run it.
func (p *Propagation) BecomesReady() *DirectPropagation {
	p.ns.t.Helper()
	object, err := p.ready(p.ns.ctx)
	if err != nil {
		p.ns.t.Fatalf("%v\n%s", err, p.ns.dump())
	}
	return object
}

// ready is BecomesReady for goroutines, which may not end a test.
func (p *Propagation) ready(ctx context.Context) (*DirectPropagation, error) {
	wanted := &DirectPropagation{}
	if err := karmada.Get(ctx, client.ObjectKey{Namespace: p.ns.Name, Name: p.Name}, wanted); err != nil {
		return nil, fmt.Errorf("reading DirectPropagation %s: %w", p.Name, err)
	}
	resource, err := p.ns.resourceOf(ctx, wanted)
	if err != nil {
		return nil, err
	}
	revision, err := revisionUnder(wanted.Spec.ConflictResolution, resource)
	if err != nil {
		return nil, err
	}
	object, err := p.awaits("is Ready with revision "+revision, func(object *DirectPropagation) error {
		return isReady(object, wanted.Generation, revision)
	})
	if err != nil {
		return nil, err
	}
	typed, err := typedOf(resource)
	if err != nil {
		return nil, err
	}
	for _, member := range members {
		if !slices.Contains(clustersOf(object), member.Name) {
			continue
		}
		if err := member.runs(ctx, typed); err != nil {
			return nil, fmt.Errorf("DirectPropagation %s says Ready for revision %s, and yet: %w", p.Name, revision, err)
		}
	}
	return object, nil
}

// isReady tells why an object is not Ready with a revision everywhere.
func isReady(object *DirectPropagation, generation int64, revision string) error {
	status := &object.Status
	if observed := ptr.Deref(status.ObservedGeneration, -1); observed < generation {
		return fmt.Errorf("observedGeneration is %d, not %d", observed, generation)
	}
	ready := meta.FindStatusCondition(status.Conditions, propagationv1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration < generation {
		return fmt.Errorf("Ready is %s", say(ready))
	}
	if len(status.Clusters) < len(object.Spec.Clusters) {
		return fmt.Errorf("%d rows for %d clusters", len(status.Clusters), len(object.Spec.Clusters))
	}
	for _, name := range clustersOf(object) {
		row := rowOf(object, name)
		if row == nil || row.Applied != metav1.ConditionTrue || row.Health != propagationv1alpha1.HealthHealthy || row.Revision != revision {
			return fmt.Errorf("the row of %s is %+v, without revision %s", name, row, revision)
		}
	}
	return nil
}

// Says waits until Ready is not True for a reason, in these very words.
func (p *Propagation) Says(reason, message string) *DirectPropagation {
	p.ns.t.Helper()
	wanted := &DirectPropagation{}
	if err := karmada.Get(p.ns.ctx, client.ObjectKey{Namespace: p.ns.Name, Name: p.Name}, wanted); err != nil {
		p.ns.t.Fatalf("reading DirectPropagation %s: %v", p.Name, err)
	}
	return p.Becomes(fmt.Sprintf("says %s: %q", reason, message), func(object *DirectPropagation) error {
		ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
		if ready == nil || ready.Status == metav1.ConditionTrue || ready.ObservedGeneration < wanted.Generation || ready.Reason != reason || ready.Message != message {
			return fmt.Errorf("Ready is %s", say(ready))
		}
		return nil
	})
}

// RowSays waits until the row of a cluster says something, in these very
// words.
func (p *Propagation) RowSays(cluster string, applied metav1.ConditionStatus, reason, message string) *DirectPropagation {
	p.ns.t.Helper()
	return p.Becomes(fmt.Sprintf("says of %s: %s %s: %q", cluster, applied, reason, message), func(object *DirectPropagation) error {
		row := rowOf(object, cluster)
		if row == nil || row.Applied != applied || row.Reason != reason || row.Message != message {
			return fmt.Errorf("the row is %+v", row)
		}
		return nil
	})
}

func say(condition *metav1.Condition) string {
	if condition == nil {
		return "missing"
	}
	return fmt.Sprintf("%s for generation %d: %s: %q", condition.Status, condition.ObservedGeneration, condition.Reason, condition.Message)
}

func rowOf(object *DirectPropagation, cluster string) *propagationv1alpha1.ClusterStatus {
	for i := range object.Status.Clusters {
		if object.Status.Clusters[i].Name == cluster {
			return &object.Status.Clusters[i]
		}
	}
	return nil
}

func clustersOf(object *DirectPropagation) []string {
	clusters := make([]string, 0, len(object.Spec.Clusters))
	for _, cluster := range object.Spec.Clusters {
		clusters = append(clusters, cluster.Name)
	}
	return clusters
}

// resourceOf reads the resource that a DirectPropagation names.
func (ns *Namespace) resourceOf(ctx context.Context, object *DirectPropagation) (*unstructured.Unstructured, error) {
	named := object.Spec.Resource
	resource := &unstructured.Unstructured{}
	resource.SetAPIVersion(named.APIVersion)
	resource.SetKind(named.Kind)
	if err := karmada.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: named.Name}, resource); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", named.Kind, named.Name, err)
	}
	return resource, nil
}

// revisionOf is the revision that a resource has as it is: the one thing that
// is taken from the code under test, which is pure there. That a revision is
// what the member runs is never taken from it.
func revisionOf(resource *unstructured.Unstructured) (string, error) {
	return revisionUnder(propagationv1alpha1.ConflictAbort, resource)
}

func revisionUnder(resolution propagationv1alpha1.ConflictResolution, resource *unstructured.Unstructured) (string, error) {
	manifest, err := render.NewManifest(resource, resolution)
	if err != nil {
		return "", fmt.Errorf("rendering %s: %w", resource.GetName(), err)
	}
	return manifest.Revision, nil
}

// transitions tells in a line what a status says, to be shown in a failure.
func transitions(states []*DirectPropagation) string {
	out := &strings.Builder{}
	for _, state := range states {
		ready := meta.FindStatusCondition(state.Status.Conditions, propagationv1alpha1.ConditionReady)
		fmt.Fprintf(out, "  %s Ready %s;", state.ResourceVersion, say(ready))
		for _, row := range state.Status.Clusters {
			fmt.Fprintf(out, " %s %s/%s/%s/%s", row.Name, row.Applied, row.Health, row.Reason, row.Revision)
		}
		fmt.Fprintln(out)
	}
	return out.String()
}

// latest is the object as the watch has shown it last.
func (p *Propagation) latest() *DirectPropagation {
	object, _, _ := p.ns.story.state(p.Name)
	return object
}

// wasNotReadySince checks that Ready was not True all the time since a state:
// it cannot have been, when the resource has changed.
func (p *Propagation) wasNotReadySince(before *DirectPropagation) {
	p.ns.t.Helper()
	after := p.latest()
	states := p.ns.story.between(before, after)
	for _, state := range states {
		if ready := meta.FindStatusCondition(state.Status.Conditions, propagationv1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue {
			return
		}
	}
	p.ns.t.Errorf("Ready of %s was True throughout, although the resource has changed:\n%s", p.Name, transitions(states))
}

// between returns the states of an object that were seen after one and up to
// another.
func (s *story) between(before, after *DirectPropagation) []*DirectPropagation {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.history[after.Name]
	first := slices.IndexFunc(all, func(state *DirectPropagation) bool { return state.ResourceVersion == before.ResourceVersion })
	last := slices.IndexFunc(all, func(state *DirectPropagation) bool { return state.ResourceVersion == after.ResourceVersion })
	return slices.Clone(all[first+1 : last+1])
}

// revisionNow is the revision that a resource has now on the control plane.
func (ns *Namespace) revisionNow(resource client.Object) string {
	ns.t.Helper()
	named := referenceTo(resource)
	generic, err := ns.resourceOf(ns.ctx, directPropagation(ns.Name, "", named))
	if err != nil {
		ns.t.Fatal(err)
	}
	revision, err := revisionOf(generic)
	if err != nil {
		ns.t.Fatal(err)
	}
	return revision
}

// isBecause waits until Ready is not True for a reason.
func (p *Propagation) isBecause(reason string) {
	p.ns.t.Helper()
	p.Becomes("is not Ready because of "+reason, func(object *DirectPropagation) error {
		ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
		if ready == nil || ready.Status == metav1.ConditionTrue || ready.Reason != reason {
			return fmt.Errorf("Ready is %s", say(ready))
		}
		return nil
	})
}
