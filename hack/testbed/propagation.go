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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Propagation is a test's DirectPropagation.
type Propagation struct {
	NS   *Namespace
	Name string
}

// Route is a DirectPropagation whose clusters are not chosen yet.
type Route struct {
	ns       *Namespace
	name     string
	resource propagationv1alpha1.ResourceReference
	tune     func(*DirectPropagation)
}

// Propagates begins a DirectPropagation.
func (ns *Namespace) Propagates(name string, resource client.Object) *Route {
	return ns.PropagatesReference(name, ReferenceTo(resource))
}

// PropagatesReference begins a DirectPropagation of a resource that need not exist.
func (ns *Namespace) PropagatesReference(name string, resource propagationv1alpha1.ResourceReference) *Route {
	return &Route{ns: ns, name: name, resource: resource}
}

// With sets a function that changes the object before it is created.
func (r *Route) With(tune func(*DirectPropagation)) *Route {
	r.tune = tune
	return r
}

// To creates the DirectPropagation.
func (r *Route) To(where ...*Member) *Propagation {
	r.ns.T.Helper()
	return r.ToClusters(NamesOf(where)...)
}

// ToClusters creates the DirectPropagation for clusters that need not exist.
func (r *Route) ToClusters(clusters ...string) *Propagation {
	r.ns.T.Helper()
	object := NewDirectPropagation(r.ns.Name, r.name, r.resource, clusters...)
	if r.tune != nil {
		r.tune(object)
	}
	return r.ns.Makes(object)
}

// Makes creates a DirectPropagation that is already built.
func (ns *Namespace) Makes(object *DirectPropagation) *Propagation {
	ns.T.Helper()
	object.Namespace = ns.Name
	ns.NoteWork(object.Spec.Resource)
	if err := ns.Bed.Karmada.Create(ns.Ctx, object); err != nil {
		ns.T.Fatalf("creating DirectPropagation %s: %v", object.Name, err)
	}
	return ns.Propagation(object.Name)
}

// Propagation returns a DirectPropagation of the namespace by its name.
func (ns *Namespace) Propagation(name string) *Propagation { return &Propagation{NS: ns, Name: name} }

func (p *Propagation) key() client.ObjectKey { return p.NS.Key(p.Name) }

func (p *Propagation) object() *DirectPropagation {
	return &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: p.NS.Name, Name: p.Name}}
}

// Changes updates the DirectPropagation and returns the time before the update.
func (p *Propagation) Changes(mutate func(*DirectPropagation)) time.Time {
	p.NS.T.Helper()
	object, at := p.object(), time.Now()
	if err := Change(p.NS.Ctx, p.NS.Bed.Karmada, object, mutate); err != nil {
		p.NS.T.Fatal(err)
	}
	p.NS.NoteWork(object.Spec.Resource)
	return at
}

// MovesTo replaces the clusters.
func (p *Propagation) MovesTo(where ...*Member) {
	p.NS.T.Helper()
	p.Changes(func(object *DirectPropagation) { object.Spec.Clusters = Targets(NamesOf(where)...) })
}

// Deletes deletes the object without waiting and returns the time before the
// deletion.
func (p *Propagation) Deletes() time.Time {
	p.NS.T.Helper()
	at := time.Now()
	if err := p.NS.Bed.Karmada.Delete(p.NS.Ctx, p.object()); err != nil {
		p.NS.T.Fatalf("deleting DirectPropagation %s: %v", p.Name, err)
	}
	return at
}

// IsDeleted deletes the object and waits until it is gone.
func (p *Propagation) IsDeleted() {
	p.NS.T.Helper()
	p.Deletes()
	p.IsGone()
}

// IsGone waits until the object is gone.
func (p *Propagation) IsGone() {
	p.NS.T.Helper()
	p.NS.Eventually("DirectPropagation "+p.Name+" is gone", func(ctx context.Context) error {
		err := p.NS.Bed.Karmada.Get(ctx, p.key(), &DirectPropagation{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it still exists"), err)
	})
}

// Goes waits until the watch has shown the deletion, at or after a moment, and
// returns when it did.
func (p *Propagation) Goes(since time.Time) time.Time {
	p.NS.T.Helper()
	sighting, err := p.NS.Bed.Propagations.Await(p.NS.Ctx, p.key(), since, Patience, func(seen Sighting) error {
		if !seen.Gone {
			return errors.New("it still exists")
		}
		return nil
	})
	if err != nil {
		p.NS.T.Fatalf("DirectPropagation %s is not deleted: %v\n%s", p.Name, err, p.NS.Dump())
	}
	return sighting.At
}
