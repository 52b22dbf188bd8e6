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
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

type (
	// directPropagation is what these tests are about.
	directPropagation = propagationv1alpha1.DirectPropagation
	// status says why a row or a condition is not as it should be.
	check = func(*directPropagation) error
)

// space is a namespace that one test has for itself, on all planes.
type space struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // the life of the test
	name string
}

// newSpace makes a namespace and waits until Karmada has made it on every
// member. When the test is over, nothing may be left of what it propagated.
func newSpace(t *testing.T) *space {
	t.Helper()
	return newSpaceOn(t, members...)
}

// newSpaceOn does so while some members are not there.
func newSpaceOn(t *testing.T, there ...*member) *space {
	t.Helper()
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "/")
	s := &space{t: t, ctx: t.Context(), name: fmt.Sprintf("%.40s-%s", word, rand.String(5))}
	if err := karmada.Create(s.ctx, namespaceOf(s.name)); err != nil {
		t.Fatalf("creating namespace %s: %v", s.name, err)
	}
	t.Cleanup(s.leave)
	for _, m := range there {
		if _, err := awaits(s.ctx, patience, func(ctx context.Context) error {
			return m.Get(ctx, client.ObjectKey{Name: s.name}, &corev1.Namespace{})
		}); err != nil {
			t.Fatalf("namespace %s does not come to %s: %v", s.name, m.Name, err)
		}
	}
	return s
}

// leave deletes what the test made, and checks that nothing is left of it.
func (s *space) leave() {
	s.ctx = context.Background() // the test's own is done
	defer failed.note(s.t)
	if err := karmada.DeleteAllOf(s.ctx, &directPropagation{}, client.InNamespace(s.name)); err != nil {
		s.t.Errorf("deleting the DirectPropagations: %v", err)
	}
	if _, err := awaits(s.ctx, patience, s.isClean); err != nil {
		s.t.Errorf("something is left of %s: %v\n%s", s.name, err, s.dump())
	}
	if err := karmada.Delete(s.ctx, namespaceOf(s.name)); err != nil {
		s.t.Errorf("deleting namespace %s: %v", s.name, err)
	}
}

// isClean tells what is left of the test on any plane.
func (s *space) isClean(ctx context.Context) error {
	list := &propagationv1alpha1.DirectPropagationList{}
	if err := karmada.List(ctx, list, client.InNamespace(s.name)); err != nil {
		return err
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("DirectPropagation %s is left", list.Items[0].Name)
	}
	for _, m := range members {
		maps := &corev1.ConfigMapList{}
		if err := m.List(ctx, maps, client.InNamespace(s.name), client.MatchingLabels{"karmada.io/managed": "true"}); err != nil {
			return err
		}
		if len(maps.Items) > 0 {
			return fmt.Errorf("ConfigMap %s is left on %s", maps.Items[0].Name, m.Name)
		}
	}
	return nil
}

// has creates an object on the control plane.
func (s *space) has(object client.Object) {
	s.t.Helper()
	object.SetNamespace(s.name)
	if err := karmada.Create(s.ctx, object); err != nil {
		s.t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// says makes a ConfigMap, or makes it say something else, and returns its
// revision then, and when it was written.
func (s *space) says(name, text string) (revision string, at time.Time) {
	s.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}
	at = time.Now()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		err := karmada.Get(s.ctx, client.ObjectKeyFromObject(object), object)
		object.Data = map[string]string{"says": text}
		if apierrors.IsNotFound(err) {
			return karmada.Create(s.ctx, object)
		}
		if err != nil {
			return err
		}
		return karmada.Update(s.ctx, object)
	})
	if err != nil {
		s.t.Fatalf("writing ConfigMap %s: %v", name, err)
	}
	return s.revision(object), at
}

// revision is the revision of a resource as it is now on the control plane.
// That a member runs it is never taken from the code under test.
func (s *space) revision(resource client.Object) string {
	s.t.Helper()
	generic := &unstructured.Unstructured{}
	reference := referenceTo(resource)
	generic.SetAPIVersion(reference.APIVersion)
	generic.SetKind(reference.Kind)
	if err := karmada.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: reference.Name}, generic); err != nil {
		s.t.Fatalf("reading %s %s: %v", reference.Kind, reference.Name, err)
	}
	manifest, err := render.NewManifest(generic, propagationv1alpha1.ConflictAbort)
	if err != nil {
		s.t.Fatalf("rendering %s %s: %v", reference.Kind, reference.Name, err)
	}
	return manifest.Revision
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func configMapIn(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// referenceTo names a resource as spec.resource does.
func referenceTo(resource client.Object) propagationv1alpha1.ResourceReference {
	gvk, err := apiutil.GVKForObject(resource, scheme)
	if err != nil {
		panic(err) // a kind that the scheme lacks is a mistake in the test
	}
	return propagationv1alpha1.ResourceReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: resource.GetName()}
}

func targets(clusters ...string) []propagationv1alpha1.TargetCluster {
	named := make([]propagationv1alpha1.TargetCluster, 0, len(clusters))
	for _, cluster := range clusters {
		named = append(named, propagationv1alpha1.TargetCluster{Name: cluster})
	}
	return named
}

// propagates makes a DirectPropagation of a resource.
func (s *space) propagates(name string, resource client.Object, clusters ...string) *directPropagation {
	s.t.Helper()
	object := &directPropagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: referenceTo(resource), Clusters: targets(clusters...)},
	}
	return s.makes(object)
}

func (s *space) makes(object *directPropagation) *directPropagation {
	s.t.Helper()
	object.Namespace = s.name
	if err := karmada.Create(s.ctx, object); err != nil {
		s.t.Fatalf("creating DirectPropagation %s: %v", object.Name, err)
	}
	return object
}

// edits changes a DirectPropagation, and returns when.
func (s *space) edits(name string, mutate func(*directPropagation)) time.Time {
	s.t.Helper()
	at := time.Now()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object := &directPropagation{}
		if err := karmada.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: name}, object); err != nil {
			return err
		}
		mutate(object)
		return karmada.Update(s.ctx, object)
	})
	if err != nil {
		s.t.Fatalf("changing DirectPropagation %s: %v", name, err)
	}
	return at
}

// deletes deletes a DirectPropagation without waiting, and returns when.
func (s *space) deletes(name string) time.Time {
	s.t.Helper()
	at := time.Now()
	if err := karmada.Delete(s.ctx, &directPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}); err != nil {
		s.t.Fatalf("deleting DirectPropagation %s: %v", name, err)
	}
	return at
}

// goes waits until a DirectPropagation is gone, and returns when.
func (s *space) goes(name string, since time.Time, limit time.Duration) time.Time {
	s.t.Helper()
	event, err := propagations.await(s.ctx, since, limit, func(event seen) error {
		if event.Object.GetNamespace() != s.name || event.Object.GetName() != name {
			return errElsewhere
		}
		if !event.Gone {
			return errors.New("it is there")
		}
		return nil
	})
	if err != nil {
		s.t.Fatalf("DirectPropagation %s does not go: %v\n%s", name, err, s.dump())
	}
	return event.At
}

// until returns when, since a moment, a DirectPropagation was first seen as it
// should be.
func (s *space) until(name string, since time.Time, limit time.Duration, is check) time.Time {
	s.t.Helper()
	at, _ := s.first(name, since, limit, is)
	return at
}

func (s *space) first(name string, since time.Time, limit time.Duration, is check) (time.Time, *directPropagation) {
	s.t.Helper()
	event, err := propagations.await(s.ctx, since, limit, func(event seen) error {
		object, _ := event.Object.(*directPropagation)
		switch {
		case object.Namespace != s.name || object.Name != name:
			return errElsewhere
		case event.Gone:
			return errors.New("it is gone")
		default:
			return is(object)
		}
	})
	if err != nil {
		s.t.Fatalf("DirectPropagation %s is not as it should be: %v\n%s", name, err, s.dump())
	}
	object, _ := event.Object.(*directPropagation)
	return event.At, object
}

// settled waits until a DirectPropagation is Ready with a revision, and the
// members that it names have it, and returns when it was.
func (s *space) settled(name, revision string, since time.Time, limit time.Duration) time.Time {
	s.t.Helper()
	at, object := s.first(name, since, limit, ready(revision))
	for _, m := range members {
		if slices.Contains(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: m.Name}) {
			s.runs(m, object.Spec.Resource.Name)
		}
	}
	return at
}

// states are the states of a DirectPropagation that were seen since a moment.
func (s *space) states(name string, since time.Time) []*directPropagation {
	states := []*directPropagation{}
	for _, event := range propagations.since(since) {
		object, _ := event.Object.(*directPropagation)
		if !event.Gone && object.Namespace == s.name && object.Name == name {
			states = append(states, object)
		}
	}
	return states
}

// latest is a DirectPropagation as it was seen last; nil when it is gone.
func (s *space) latest(name string) *directPropagation {
	object, _ := propagations.now(client.ObjectKey{Namespace: s.name, Name: name}).(*directPropagation)
	return object
}

// stays checks every state of a DirectPropagation for some time, and the one
// it is in at the beginning.
func (s *space) stays(name string, duration time.Duration, is check) {
	s.t.Helper()
	began := time.Now()
	throughout(s.t, duration, "DirectPropagation "+name, func(context.Context) error {
		object := s.latest(name)
		if object == nil {
			return errors.New("it is gone")
		}
		return is(object)
	})
	for _, state := range s.states(name, began) {
		if err := is(state); err != nil {
			s.t.Fatalf("DirectPropagation %s, of which a state was seen: %v", name, err)
		}
	}
}

// runs checks that a member has a ConfigMap as it is on the control plane, now.
func (s *space) runs(m *member, name string) {
	s.t.Helper()
	if err := s.differs(s.ctx, m, name); err != nil {
		s.t.Errorf("%s is said to run it, and yet: %v", m.Name, err)
	}
}

// differs tells how a ConfigMap on a member differs from the control plane's.
func (s *space) differs(ctx context.Context, m *member, name string) error {
	key := client.ObjectKey{Namespace: s.name, Name: name}
	want, have := configMap(name), configMap(name)
	if err := karmada.Get(ctx, key, want); err != nil {
		return err
	}
	if err := m.Get(ctx, key, have); err != nil {
		return err
	}
	if !maps.Equal(want.Data, have.Data) {
		return fmt.Errorf("%s has %v, not %v", m.Name, have.Data, want.Data)
	}
	return nil
}

// lacks tells that a member has a ConfigMap; nil when it has not.
func (s *space) lacks(ctx context.Context, m *member, name string) error {
	err := m.Get(ctx, client.ObjectKey{Namespace: s.name, Name: name}, configMap(name))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("%s has ConfigMap %s", m.Name, name), err)
}

// comesToLack waits until a member does not have a ConfigMap.
func (s *space) comesToLack(m *member, name string, limit time.Duration) time.Time {
	s.t.Helper()
	at, err := awaits(s.ctx, limit, func(ctx context.Context) error { return s.lacks(ctx, m, name) })
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.dump())
	}
	return at
}

// ready: Ready is True, and every row confirms a revision.
func ready(revision string) check {
	return func(object *directPropagation) error {
		condition := conditionOf(object, propagationv1alpha1.ConditionReady)
		if condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != object.Generation {
			return fmt.Errorf("Ready is %+v", condition)
		}
		for _, target := range object.Spec.Clusters {
			if err := applied(target.Name, revision)(object); err != nil {
				return err
			}
		}
		return nil
	}
}

// applied: the row of a cluster confirms a revision.
func applied(cluster, revision string) check {
	return func(object *directPropagation) error {
		row := rowOf(object, cluster)
		if row.Applied != metav1.ConditionTrue || row.Revision != revision {
			return fmt.Errorf("the row of %s is %+v, without revision %s", cluster, row, revision)
		}
		return nil
	}
}

// says: the row of a cluster has a reason.
func rowSays(cluster string, status metav1.ConditionStatus, reason string) check {
	return func(object *directPropagation) error {
		if row := rowOf(object, cluster); row.Applied != status || row.Reason != reason {
			return fmt.Errorf("the row of %s is %+v, not %s %s", cluster, row, status, reason)
		}
		return nil
	}
}

// unconfirmed: the row of a cluster does not claim that it runs what it cannot
// have heard of, and Ready is not True.
func unconfirmed(cluster string) check {
	return func(object *directPropagation) error {
		if row := rowOf(object, cluster); row.Applied != metav1.ConditionUnknown {
			return fmt.Errorf("the row of %s is %+v", cluster, row)
		}
		if condition := conditionOf(object, propagationv1alpha1.ConditionReady); condition.Status != metav1.ConditionFalse {
			return fmt.Errorf("Ready is %+v", condition)
		}
		return nil
	}
}

func all(checks ...check) check {
	return func(object *directPropagation) error {
		for _, is := range checks {
			if err := is(object); err != nil {
				return err
			}
		}
		return nil
	}
}

func rowOf(object *directPropagation, cluster string) propagationv1alpha1.ClusterStatus {
	for _, row := range object.Status.Clusters {
		if row.Name == cluster {
			return row
		}
	}
	return propagationv1alpha1.ClusterStatus{}
}

func conditionOf(object *directPropagation, kind string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(object.Status.Conditions, kind), metav1.Condition{})
}

// work is the Work of a ConfigMap on a cluster as it was seen last.
func (s *space) work(cluster, name string) *workv1alpha1.Work {
	work, _ := works.now(s.workKey(cluster, name)).(*workv1alpha1.Work)
	return work
}

func (s *space) workKey(cluster, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: names.GenerateExecutionSpaceName(cluster), Name: names.GenerateWorkName("ConfigMap", name, s.name)}
}

// dump shows the objects of the namespace, and their Works.
func (s *space) dump() string {
	out := &strings.Builder{}
	show := func(object client.Object) {
		text, err := yaml.Marshal(object)
		fmt.Fprintf(out, "----\n%s", text)
		if err != nil {
			fmt.Fprintln(out, err)
		}
	}
	propagations.mu.Lock()
	for _, object := range propagations.latest {
		if object.GetNamespace() == s.name {
			show(object)
		}
	}
	propagations.mu.Unlock()
	works.mu.Lock()
	defer works.mu.Unlock()
	for _, object := range works.latest {
		if strings.HasPrefix(object.GetAnnotations()[propagationv1alpha1.OwnerNamespaceAnnotation], s.name) {
			show(object)
		}
	}
	return out.String()
}
