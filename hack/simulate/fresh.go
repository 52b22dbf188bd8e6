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

package simulate

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

var schemaNamespace = corev1.SchemeGroupVersion.WithKind("Namespace")

// afresh returns the portrait of a world in which only what a sketch desires ever
// happened, and what must not happen in it and did.
func afresh(t *testing.T, sketched *sketch) (painted *portrait, broken *violation) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		choices := scripted([][]int{sketched.setup})
		choices.begin()
		w, err := newWorld(ctx, choices)
		if err != nil {
			t.Fatal(err)
		}
		err = w.apply(ctx, sketched)
		if found, is := errors.AsType[*violation](err); is {
			broken = found
		} else if err != nil {
			t.Errorf("applying the same afresh: %v", err)
		}
		painted = w.paint()
		if err := w.end(ctx); err != nil {
			t.Error(err)
		}
	})
	return painted, broken
}

// apply creates what is desired.
func (w *World) apply(ctx context.Context, sketched *sketch) error {
	w.users.grants, w.users.plural, w.users.scope = sketched.grants, sketched.plural, sketched.scope
	if err := w.settle(ctx); err != nil {
		return err
	}
	for _, name := range memberNames {
		member := w.karmada.Member(name)
		if !sketched.served[name] {
			member.StopServing(widgetKind.GroupVersionKind)
		}
		for _, object := range sketched.strange[name] {
			if err := member.Create(bare(object)); err != nil {
				return fmt.Errorf("creating on %s: %w", name, err)
			}
		}
		if err := w.relabelled(ctx, name, sketched.desired.clusters[name]); err != nil {
			return err
		}
	}
	if err := w.settle(ctx); err != nil { // Karmada learns what members serve
		return err
	}
	for _, object := range sketched.objects(w.users.widgetDefinition()) {
		if err := w.plane.Create(ctx, object); err != nil {
			return fmt.Errorf("creating what is desired: %w", err)
		}
	}
	return w.settle(ctx)
}

// relabelled gives a Cluster its labels, or removes it if it has none.
func (w *World) relabelled(ctx context.Context, name string, labels map[string]string) error {
	cluster := &clusterv1alpha1.Cluster{}
	if err := w.plane.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	if labels == nil {
		return w.plane.Delete(ctx, cluster) //nolint:wrapcheck // the caller reports it
	}
	cluster.Labels = labels
	return w.plane.Update(ctx, cluster) //nolint:wrapcheck // the caller reports it
}

// objects are what is desired, in the order in which it can be created.
func (s *sketch) objects(definition client.Object) []client.Object {
	created := []client.Object{}
	if s.defined {
		created = append(created, definition)
	}
	for i := range len(resources) + len(roles) {
		key := keyNamed(roles[max(0, i-len(resources))], "")
		if i < len(resources) {
			key = keyNamed(resources[i], namespace)
		}
		if resource := s.desired.latest(key); resource != nil {
			created = append(created, bare(resource))
		}
	}
	if space := s.desired.latest(keyNamed(team, "")); space != nil {
		created = append(created, bare(space))
	}
	for _, name := range sortedNames(s.desired.policies) {
		specs := s.desired.policies[name]
		if spec := specs[len(specs)-1]; spec != nil {
			created = append(created, &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: *spec})
		}
	}
	for _, title := range sortedNames(s.desired.objects) {
		if object := bare(s.desired.objects[title]); object.GetDeletionTimestamp() == nil {
			*object.GetStatus() = propagationv1alpha1.PropagationStatus{}
			created = append(created, object)
		}
	}
	return created
}
