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
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Namespace is a namespace that one test has for itself, on the control plane
// and on every member.
type Namespace struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // the life of the test
	// Name is unique, so that a fleet may be used again.
	Name string

	story *story
	works *workNames
}

// workNames are the names of all Works that a test may have caused.
type workNames struct {
	mu    sync.Mutex
	known map[string]bool
}

// newNamespace makes a namespace and waits until Karmada has made it on every
// member, so that no test waits for that in the middle of something. When the
// test is over, nothing may be left of what it propagated.
func newNamespace(t *testing.T) *Namespace {
	t.Helper()
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "/")
	ns := &Namespace{
		t: t, ctx: t.Context(), works: &workNames{known: map[string]bool{}},
		Name: fmt.Sprintf("%.40s-%s", word, rand.String(5)),
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
	if err := karmada.Create(ns.ctx, namespace); err != nil {
		t.Fatalf("creating namespace %s: %v", ns.Name, err)
	}
	ns.story = follow(t, ns.Name)
	t.Cleanup(ns.leave)
	ns.eventually("every member has namespace "+ns.Name, func(ctx context.Context) error {
		for _, member := range members {
			if err := member.client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace.DeepCopy()); err != nil {
				return fmt.Errorf("%s: %w", member, err)
			}
		}
		return nil
	})
	return ns
}

// Has creates a resource on the control plane.
func (ns *Namespace) Has(resource client.Object) {
	ns.t.Helper()
	resource.SetNamespace(ns.Name)
	if err := karmada.Create(ns.ctx, resource); err != nil {
		ns.t.Fatalf("creating %s: %v", describeObject(resource), err)
	}
}

// Loses deletes a resource from the control plane.
func (ns *Namespace) Loses(resource client.Object) {
	ns.t.Helper()
	resource.SetNamespace(ns.Name)
	if err := karmada.Delete(ns.ctx, resource); err != nil {
		ns.t.Fatalf("deleting %s: %v", describeObject(resource), err)
	}
	// What was read of it is no part of one that is made anew.
	resource.SetResourceVersion("")
	resource.SetUID("")
}

// change changes an object where it is now, on whatever plane the client is
// of, and leaves it as it was written.
func change[T client.Object](ctx context.Context, where client.Client, object T, mutate func(T)) error {
	err := retry.OnError(retry.DefaultBackoff, apierrors.IsConflict, func() error {
		if err := where.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		mutate(object)
		return where.Update(ctx, object)
	})
	if err != nil {
		return fmt.Errorf("changing %s: %w", describeObject(object), err)
	}
	return nil
}

// changes is change for a resource of the control plane.
func changes[T client.Object](ns *Namespace, resource T, mutate func(T)) {
	ns.t.Helper()
	if err := change(ns.ctx, karmada, resource, mutate); err != nil {
		ns.t.Fatal(err)
	}
}

// saying makes a ConfigMap say something else.
func saying(says string) func(*corev1.ConfigMap) {
	return func(settings *corev1.ConfigMap) { settings.Data = map[string]string{"says": says} }
}

// nowRun checks that members run a resource as it is on the control plane, now.
func (ns *Namespace) nowRun(resource client.Object, where ...*Member) {
	ns.t.Helper()
	ns.now("the members run it", func(ctx context.Context) error { return run(ctx, resource, where...) })
}

// comeToRun waits until members run a resource as it is on the control plane.
func (ns *Namespace) comeToRun(resource client.Object, where ...*Member) {
	ns.t.Helper()
	ns.eventually("the members run "+describeObject(resource), func(ctx context.Context) error { return run(ctx, resource, where...) })
}

// comeToLack waits until members do not have a resource any more.
func (ns *Namespace) comeToLack(resource client.Object, where ...*Member) {
	ns.t.Helper()
	ns.eventually("the members lack "+describeObject(resource), func(ctx context.Context) error { return lack(ctx, resource, where...) })
}

func run(ctx context.Context, resource client.Object, where ...*Member) error {
	for _, member := range where {
		if err := member.runs(ctx, resource); err != nil {
			return err
		}
	}
	return nil
}

func lack(ctx context.Context, resource client.Object, where ...*Member) error {
	for _, member := range where {
		if err := member.lacks(ctx, resource); err != nil {
			return err
		}
	}
	return nil
}

// noteWork remembers that the test may cause Works of a resource.
func (ns *Namespace) noteWork(resource propagationv1alpha1.ResourceReference) {
	ns.works.mu.Lock()
	defer ns.works.mu.Unlock()
	ns.works.known[names.GenerateWorkName(resource.Kind, resource.Name, ns.Name)] = true
}

func (ns *Namespace) workNames() []string {
	ns.works.mu.Lock()
	defer ns.works.mu.Unlock()
	return slices.Sorted(maps.Keys(ns.works.known))
}

// isOurs tells the writes that the controller does for this namespace.
func (ns *Namespace) isOurs(written call) bool {
	ns.works.mu.Lock()
	defer ns.works.mu.Unlock()
	return written.Namespace == ns.Name || ns.works.known[written.Name]
}

// work reads the Work of a resource on a member.
func (ns *Namespace) work(ctx context.Context, resource client.Object, member *Member) (*workv1alpha1.Work, error) {
	work := &workv1alpha1.Work{}
	work.Namespace = names.GenerateExecutionSpaceName(member.Name)
	work.Name = names.GenerateWorkName(referenceTo(resource).Kind, resource.GetName(), ns.Name)
	if err := karmada.Get(ctx, client.ObjectKeyFromObject(work), work); err != nil {
		return work, fmt.Errorf("reading Work %s/%s: %w", work.Namespace, work.Name, err)
	}
	return work, nil
}

// leave deletes what the test made, and checks that nothing is left of it: no
// object on a member, no Work, nothing held by a finalizer.
func (ns *Namespace) leave() {
	ns.ctx = context.Background() // the test's own is done
	defer ns.story.end()
	defer failed.note(ns.t)
	if ns.t.Failed() && keep {
		return
	}
	err := karmada.DeleteAllOf(ns.ctx, &propagationv1alpha1.DirectPropagation{}, client.InNamespace(ns.Name))
	if err != nil {
		ns.t.Errorf("deleting the DirectPropagations: %v", err)
	}
	if !ns.t.Failed() {
		if err := awaits(ns.ctx, "nothing is left", ns.isClean); err != nil {
			ns.t.Errorf("%v\n%s", err, ns.dump())
		}
	}
	if err := karmada.Delete(ns.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}); err != nil {
		ns.t.Errorf("deleting namespace %s: %v", ns.Name, err)
	}
}

// isClean tells what is left of a test; nil when nothing is.
func (ns *Namespace) isClean(ctx context.Context) error {
	list := &propagationv1alpha1.DirectPropagationList{}
	if err := karmada.List(ctx, list, client.InNamespace(ns.Name)); err != nil {
		return fmt.Errorf("listing DirectPropagations: %w", err)
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("%d DirectPropagations are left, the first: %s", len(list.Items), list.Items[0].Name)
	}
	for _, member := range members {
		for _, name := range ns.workNames() {
			key := client.ObjectKey{Namespace: names.GenerateExecutionSpaceName(member.Name), Name: name}
			if err := karmada.Get(ctx, key, &workv1alpha1.Work{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("a Work is left: %s (reading it: %v); what the controller wrote to it and to what is named like it:\n%s", key, err, ns.traceOf(name))
			}
		}
		if err := ns.isBare(ctx, member); err != nil {
			return err
		}
	}
	return nil
}

// traceOf lists what the controller wrote to a Work, and to the
// DirectPropagation that is named like the resource in it.
func (ns *Namespace) traceOf(work string) string {
	owner := work[:strings.LastIndex(work, "-")]
	return listing(auditing.since(0, func(c call) bool { return c.Name == work || c.Name == owner && c.Namespace == ns.Name }))
}

// isBare tells what a member still has of the kinds that tests propagate.
func (ns *Namespace) isBare(ctx context.Context, member *Member) error {
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.SecretList{}, &appsv1.DeploymentList{}} {
		if err := member.client.List(ctx, list, client.InNamespace(ns.Name)); err != nil {
			return fmt.Errorf("%s: listing what is left: %w", member, err)
		}
		for _, item := range itemsOf(list) {
			if item.GetName() != "kube-root-ca.crt" {
				return fmt.Errorf("%s: %s is left", member, describeObject(item))
			}
		}
	}
	return nil
}
