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
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Has creates a resource on the control plane.
func (ns *Namespace) Has(resource client.Object) {
	ns.T.Helper()
	resource.SetNamespace(ns.Name)
	if err := ns.Bed.Karmada.Create(ns.Ctx, resource); err != nil {
		ns.T.Fatalf("creating %s: %v", Describe(resource), err)
	}
}

// Loses deletes a resource from the control plane.
func (ns *Namespace) Loses(resource client.Object) {
	ns.T.Helper()
	resource.SetNamespace(ns.Name)
	if err := ns.Bed.Karmada.Delete(ns.Ctx, resource); err != nil {
		ns.T.Fatalf("deleting %s: %v", Describe(resource), err)
	}
	// The next creation must not send what was read from the deleted object.
	resource.SetResourceVersion("")
	resource.SetUID("")
}

// Change updates an object on the control plane of the client. Afterwards, object
// holds what was written.
func Change[T client.Object](ctx context.Context, where client.Client, object T, mutate func(T)) error {
	err := retry.OnError(retry.DefaultBackoff, apierrors.IsConflict, func() error {
		if err := where.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		mutate(object)
		return where.Update(ctx, object)
	})
	if err != nil {
		return fmt.Errorf("changing %s: %w", Describe(object), err)
	}
	return nil
}

// Put creates an object or, if it already exists, changes it.
func Put[T client.Object](ctx context.Context, where client.Client, object T, mutate func(T)) error {
	err := where.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return Change(ctx, where, object, mutate)
	}
	if err != nil {
		return fmt.Errorf("creating %s: %w", Describe(object), err)
	}
	return nil
}

// Changes is Change for a resource of the control plane.
func Changes[T client.Object](ns *Namespace, resource T, mutate func(T)) {
	ns.T.Helper()
	if err := Change(ns.Ctx, ns.Bed.Karmada, resource, mutate); err != nil {
		ns.T.Fatal(err)
	}
}

// Saying returns a function that changes the content of a ConfigMap.
func Saying(says string) func(*corev1.ConfigMap) {
	return func(settings *corev1.ConfigMap) { settings.Data = map[string]string{"says": says} }
}

// Writes creates a ConfigMap or changes its content. It returns the new revision and
// the time before the write.
func (ns *Namespace) Writes(name, says string) (revision string, at time.Time) {
	ns.T.Helper()
	settings := ConfigMap(name, says)
	settings.Namespace = ns.Name
	at = time.Now()
	if err := Put(ns.Ctx, ns.Bed.Karmada, settings, Saying(says)); err != nil {
		ns.T.Fatal(err)
	}
	return ns.Revision(settings), at
}

// ResourceOf reads the resource that a DirectPropagation names.
func (ns *Namespace) ResourceOf(ctx context.Context, object *DirectPropagation) (*unstructured.Unstructured, error) {
	named := object.Spec.Resource
	resource := &unstructured.Unstructured{}
	resource.SetAPIVersion(named.APIVersion)
	resource.SetKind(named.Kind)
	if err := ns.Bed.Karmada.Get(ctx, ns.Key(named.Name), resource); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", named.Kind, named.Name, err)
	}
	return resource, nil
}

// Revision returns the current revision of a resource on the control plane.
func (ns *Namespace) Revision(resource client.Object) string {
	ns.T.Helper()
	generic, err := ns.ResourceOf(ns.Ctx, NewDirectPropagation(ns.Name, "", ReferenceTo(resource)))
	if err != nil {
		ns.T.Fatal(err)
	}
	revision, err := RevisionOf(propagationv1alpha1.ConflictAbort, generic)
	if err != nil {
		ns.T.Fatal(err)
	}
	return revision
}

// RevisionOf returns the revision of a resource. It is the only result that tests
// take from the code under test, and that code is pure. Whether a member runs the
// revision is always checked independently.
func RevisionOf(resolution propagationv1alpha1.ConflictResolution, resource *unstructured.Unstructured) (string, error) {
	manifest, err := render.NewManifest(resource, resolution)
	if err != nil {
		return "", fmt.Errorf("rendering %s: %w", resource.GetName(), err)
	}
	return manifest.Revision, nil
}

// Run returns an error unless all members have the resource with the given content.
func Run(ctx context.Context, resource client.Object, where ...*Member) error {
	for _, member := range where {
		if err := member.Runs(ctx, resource); err != nil {
			return err
		}
	}
	return nil
}

// Lack returns an error if a member has the resource.
func Lack(ctx context.Context, resource client.Object, where ...*Member) error {
	for _, member := range where {
		if err := member.Lacks(ctx, resource); err != nil {
			return err
		}
	}
	return nil
}

// NowRun checks, without waiting, that members have the resource with the given
// content.
func (ns *Namespace) NowRun(resource client.Object, where ...*Member) {
	ns.T.Helper()
	ns.Now("the members run it", func(ctx context.Context) error { return Run(ctx, resource, where...) })
}

// ComeToRun waits until members have the resource with the given content.
func (ns *Namespace) ComeToRun(resource client.Object, where ...*Member) {
	ns.T.Helper()
	ns.Eventually("the members run "+Describe(resource), func(ctx context.Context) error { return Run(ctx, resource, where...) })
}

// ComeToLack waits until members no longer have the resource, and returns the time
// of that.
func (ns *Namespace) ComeToLack(resource client.Object, where ...*Member) time.Time {
	ns.T.Helper()
	return ns.Within(Patience, "the members lack "+Describe(resource), func(ctx context.Context) error { return Lack(ctx, resource, where...) })
}

// Differs returns an error that shows how a resource on a member differs from the
// current one on the control plane, or nil.
func (ns *Namespace) Differs(ctx context.Context, member *Member, resource client.Object) error {
	want := newLike(resource)
	if err := ns.Bed.Karmada.Get(ctx, ns.Key(resource.GetName()), want); err != nil {
		return fmt.Errorf("reading %s: %w", Describe(resource), err)
	}
	return member.Runs(ctx, want)
}

// Event waits for an Event about an object and returns its message.
func (ns *Namespace) Event(object, reason string) (note string) {
	ns.T.Helper()
	ns.Eventually("there is an Event "+reason+" on "+object, func(ctx context.Context) error {
		list := &corev1.EventList{}
		if err := ns.Bed.Karmada.List(ctx, list, client.InNamespace(ns.Name)); err != nil {
			return fmt.Errorf("listing Events: %w", err)
		}
		for i := range list.Items {
			if event := &list.Items[i]; event.InvolvedObject.Name == object && event.Reason == reason {
				note = event.Message
				return nil
			}
		}
		return errors.New("there is none")
	})
	return note
}
