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
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Namespace is a namespace for a single test, on the control plane and on every
// member.
type Namespace struct {
	Bed *Bed
	T   *testing.T
	Ctx context.Context //nolint:containedctx // lives as long as the test
	// Name is unique, so that a fleet can be reused.
	Name string

	shared *shared
}

// NewNamespace creates a namespace and waits until Karmada has created it on every
// member, so that no test has to wait for that later. When the test ends, nothing
// that it propagated may be left.
func (b *Bed) NewNamespace(t *testing.T) *Namespace {
	t.Helper()
	return b.NewNamespaceOn(t, b.Options.Members...)
}

// NewNamespaceOn is NewNamespace for when only some members are available.
func (b *Bed) NewNamespaceOn(t *testing.T, there ...*Member) *Namespace {
	t.Helper()
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "/")
	ns := b.ExistingNamespace(t, fmt.Sprintf("%.40s-%s", word, rand.String(5)))
	if err := b.Karmada.Create(ns.Ctx, ns.object()); err != nil {
		t.Fatalf("creating namespace %s: %v", ns.Name, err)
	}
	t.Cleanup(ns.leave)
	ns.Eventually("every member has namespace "+ns.Name, func(ctx context.Context) error {
		for _, member := range there {
			if err := member.Get(ctx, client.ObjectKey{Name: ns.Name}, &corev1.Namespace{}); err != nil {
				return fmt.Errorf("%s: %w", member, err)
			}
		}
		return nil
	})
	return ns
}

// ExistingNamespace returns a namespace that already exists. It is not cleaned up.
func (b *Bed) ExistingNamespace(t *testing.T, name string) *Namespace {
	t.Helper()
	return &Namespace{Bed: b, T: t, Ctx: t.Context(), Name: name, shared: &shared{works: map[string]bool{}}}
}

// In returns the namespace for use in a subtest.
func (ns *Namespace) In(t *testing.T) *Namespace {
	t.Helper()
	inside := *ns
	inside.T, inside.Ctx = t, t.Context()
	return &inside
}

func (ns *Namespace) object() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
}

// Key returns the key of an object in the namespace.
func (ns *Namespace) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: ns.Name, Name: name}
}

// WorkKey returns the key of the Work of a resource for a cluster.
func (ns *Namespace) WorkKey(resource propagationv1alpha1.ResourceReference, cluster string) client.ObjectKey {
	return client.ObjectKey{
		Namespace: names.GenerateExecutionSpaceName(cluster),
		Name:      names.GenerateWorkName(resource.Kind, resource.Name, ns.Name),
	}
}

// Work reads the Work of a resource for a member.
func (ns *Namespace) Work(ctx context.Context, resource client.Object, member *Member) (*workv1alpha1.Work, error) {
	work, key := &workv1alpha1.Work{}, ns.WorkKey(ReferenceTo(resource), member.Name)
	if err := ns.Bed.Karmada.Get(ctx, key, work); err != nil {
		return work, fmt.Errorf("reading Work %s: %w", key, err)
	}
	return work, nil
}
