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
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Lane is a ConfigMap and the DirectPropagation of the same name, as a user wants
// them.
type Lane struct {
	NS *Namespace
	// Name of both.
	Name string
	// Clusters that the DirectPropagation names; without any, there is none.
	Clusters []string
	// Says is the content of the ConfigMap; if empty, it stays as it is.
	Says string
}

// Named returns the lane with a name, in a namespace.
func (l Lane) Named(ns *Namespace, name string) Lane {
	l.NS, l.Name = ns, name
	ns.NoteWork(Reference("v1", "ConfigMap", name))
	return l
}

func (l Lane) String() string { return fmt.Sprintf("%s saying %q on %v", l.Name, l.Says, l.Clusters) }

// Next returns what the user wants next.
func (l Lane) Next(numbers *rand.Rand, round int) Lane {
	members := l.NS.Bed.Options.Members
	switch numbers.IntN(4) {
	case 0, 1:
		l.Says = fmt.Sprintf("version %d", round)
	case 2:
		l.Clusters = [][]string{{members[0].Name}, {members[1].Name}, NamesOf(members)}[numbers.IntN(3)]
	case 3:
		if len(l.Clusters) > 0 {
			l.Clusters = nil
		} else {
			l.Clusters = NamesOf(members)
		}
	}
	return l
}

func (l Lane) settings() *corev1.ConfigMap {
	settings := ConfigMap(l.Name, l.Says)
	settings.Namespace = l.NS.Name
	return settings
}

func (l Lane) object() *DirectPropagation {
	return NewDirectPropagation(l.NS.Name, l.Name, ReferenceTo(l.settings()), l.Clusters...)
}

// Brings writes what the user wants to the control plane. It returns an error while an
// object with the name of a new one is being deleted.
func (l Lane) Brings(ctx context.Context) error {
	karmada := l.NS.Bed.Karmada
	if l.Says != "" {
		if err := Put(ctx, karmada, l.settings(), Saying(l.Says)); err != nil {
			return err
		}
	}
	if len(l.Clusters) == 0 {
		if err := karmada.Delete(ctx, l.object()); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting DirectPropagation %s: %w", l.Name, err)
		}
		return nil
	}
	existing := l.object()
	if err := karmada.Get(ctx, client.ObjectKeyFromObject(existing), existing); err == nil && existing.DeletionTimestamp != nil {
		return fmt.Errorf("the previous DirectPropagation %s is still being deleted", l.Name)
	}
	return Put(ctx, karmada, l.object(), func(object *DirectPropagation) { object.Spec.Clusters = Targets(l.Clusters...) })
}

// IsReached returns an error unless the control plane and every member are as the
// user wants them.
func (l Lane) IsReached(ctx context.Context) error {
	if err := l.isReported(ctx); err != nil {
		return err
	}
	settings := l.settings()
	for _, member := range l.NS.Bed.Options.Members {
		if slices.Contains(l.Clusters, member.Name) {
			if err := member.Runs(ctx, settings); err != nil {
				return err
			}
			continue
		}
		if err := member.Lacks(ctx, settings); err != nil {
			return err
		}
		if _, err := l.NS.Work(ctx, settings, member); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Work for %s still exists (reading it: %w)", member, err)
		}
	}
	return nil
}

func (l Lane) isReported(ctx context.Context) error {
	object := l.object()
	err := l.NS.Bed.Karmada.Get(ctx, client.ObjectKeyFromObject(object), object)
	if len(l.Clusters) == 0 {
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("DirectPropagation %s still exists (reading it: %w)", l.Name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading DirectPropagation %s: %w", l.Name, err)
	}
	resource, err := l.NS.ResourceOf(ctx, object)
	if err != nil {
		return err
	}
	revision, err := RevisionOf(propagationv1alpha1.ConflictAbort, resource)
	if err != nil {
		return err
	}
	if err := IsReady(object, object.Generation, revision); err != nil {
		return err
	}
	if len(object.Status.Clusters) != len(l.Clusters) || slices.ContainsFunc(object.Status.Conditions, isTrouble) {
		return fmt.Errorf("the status is not final: %+v", object.Status)
	}
	return nil
}

// isTrouble reports whether a condition is one of those that exist only while
// something remains to be done.
func isTrouble(condition metav1.Condition) bool {
	return condition.Type != propagationv1alpha1.ConditionReady
}
