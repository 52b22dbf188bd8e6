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

package main

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// loadLabel is the label of all objects of a load.
const loadLabel = "bench.karmada-direct.io/load"

// load is what is propagated: a number of resources of a kind, all to the same clusters.
type load struct {
	content
	namespace string
	name      string
	objects   int
	clusters  []string
}

func (l *load) object(i int) string { return fmt.Sprintf("%s-%04d", l.name, i) }

func (l *load) meta(i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.namespace, Name: l.object(i), Labels: map[string]string{loadLabel: l.name}}
}

// workKey is the key of the Work of a resource on a cluster.
func (l *load) workKey(cluster string, i int) types.NamespacedName {
	return render.WorkKey(cluster, l.kind, l.namespace, l.object(i))
}

// keys returns the keys of all Works of the load, each with the index of its object.
func (l *load) keys() map[types.NamespacedName]int {
	keys := make(map[types.NamespacedName]int, l.objects*len(l.clusters))
	for i := range l.objects {
		for _, cluster := range l.clusters {
			keys[l.workKey(cluster, i)] = i
		}
	}
	return keys
}

func (l *load) works() int { return l.objects * len(l.clusters) }

// template returns a resource.
func (l *load) template(i, revision int) client.Object {
	return l.make(l.meta(i), strconv.Itoa(revision))
}

func (l *load) propagation(i int) *propagationv1alpha1.DirectPropagation {
	object := &propagationv1alpha1.DirectPropagation{
		ObjectMeta: l.meta(i),
		Spec: propagationv1alpha1.PropagationSpec{
			Resource: propagationv1alpha1.ResourceReference{APIVersion: l.apiVersion, Kind: l.kind, Name: l.object(i)},
		},
	}
	for _, cluster := range l.clusters {
		object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: cluster})
	}
	return object
}

// createTemplates creates the resources.
func (l *load) createTemplates(ctx context.Context, c client.Client) error {
	return parallel(l.objects, workers, func(i int) error {
		if err := c.Create(ctx, l.template(i, 1)); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating template %s: %w", l.object(i), err)
		}
		return nil
	})
}

// setRevision changes the resources.
func (l *load) setRevision(ctx context.Context, c client.Client, revision int, sent func(int)) error {
	return parallel(l.objects, workers, func(i int) error {
		sent(i)
		return l.setOne(ctx, c, i, revision)
	})
}

func (l *load) setOne(ctx context.Context, c client.Client, i, revision int) error {
	if err := c.Patch(ctx, l.empty(l.namespace, l.object(i)), l.patch(revision)); err != nil {
		return fmt.Errorf("changing template %s: %w", l.object(i), err)
	}
	return nil
}

func (l *load) deleteTemplates(ctx context.Context, c client.Client, sent func(int)) error {
	return parallel(l.objects, workers, func(i int) error {
		sent(i)
		if err := c.Delete(ctx, l.empty(l.namespace, l.object(i))); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting template %s: %w", l.object(i), err)
		}
		return nil
	})
}

func (l *load) createPropagations(ctx context.Context, c client.Client, sent func(int)) error {
	return parallel(l.objects, workers, func(i int) error {
		sent(i)
		if err := c.Create(ctx, l.propagation(i)); err != nil {
			return fmt.Errorf("creating DirectPropagation %s: %w", l.object(i), err)
		}
		return nil
	})
}

func (l *load) deletePropagations(ctx context.Context, c client.Client, sent func(int)) error {
	return parallel(l.objects, workers, func(i int) error {
		sent(i)
		if err := c.Delete(ctx, l.propagation(i)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting DirectPropagation %s: %w", l.object(i), err)
		}
		return nil
	})
}

// manifest renders a resource as the controller does.
func (l *load) manifest(ctx context.Context, c client.Client, i int) (*render.Manifest, error) {
	template := l.empty(l.namespace, l.object(i))
	if err := c.Get(ctx, client.ObjectKeyFromObject(template), template); err != nil {
		return nil, fmt.Errorf("reading template %s: %w", l.object(i), err)
	}
	return render.NewManifest(template, propagationv1alpha1.ConflictAbort)
}

// list reads the Works of the load.
func (l *load) list(ctx context.Context, c client.Client) (map[types.NamespacedName]*workv1alpha1.Work, error) {
	keys, found := l.keys(), map[types.NamespacedName]*workv1alpha1.Work{}
	const page = 500
	list := &workv1alpha1.WorkList{}
	for {
		if err := c.List(ctx, list, client.Limit(page), client.Continue(list.Continue)); err != nil {
			return nil, fmt.Errorf("listing Works: %w", err)
		}
		for i := range list.Items {
			work := list.Items[i]
			if _, ours := keys[client.ObjectKeyFromObject(&work)]; ours {
				found[client.ObjectKeyFromObject(&work)] = &work
			}
		}
		if list.Continue == "" {
			return found, nil
		}
	}
}

// check verifies every Work after a phase.
func (l *load) check(ctx context.Context, c client.Client, p phase) error {
	switch p {
	case phaseCreate:
		return l.verify(ctx, c, 1)
	case phaseUpdate:
		return l.verify(ctx, c, 2)
	default:
		return nil
	}
}

// verify reads every Work and checks its content.
func (l *load) verify(ctx context.Context, c client.Client, revision int) error {
	found, err := l.list(ctx, c)
	if err != nil {
		return err
	}
	if len(found) != l.works() {
		return fmt.Errorf("there are %d Works of %s, not %d", len(found), l.name, l.works())
	}
	for key, work := range found {
		content := &unstructured.Unstructured{}
		if len(work.Spec.Workload.Manifests) != 1 {
			return fmt.Errorf("Work %s has %d manifests", key, len(work.Spec.Workload.Manifests)) //nolint:staticcheck // a kind's name
		}
		if err := content.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
			return fmt.Errorf("reading the manifest of Work %s: %w", key, err)
		}
		if has := l.revisionOf(content); has != strconv.Itoa(revision) {
			return fmt.Errorf("Work %s carries revision %q, not %d", key, has, revision) //nolint:staticcheck // a kind's name
		}
	}
	return nil
}
