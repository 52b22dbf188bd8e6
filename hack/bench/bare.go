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
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// bare is the limit of what is possible: a client that knows in advance what to
// write, watches nothing, and writes what the controller would write, with the same
// concurrency.
type bare struct {
	*ground
	load *load
	// slots limit the concurrent writes of Works, over all objects.
	slots chan struct{}
	live  map[types.NamespacedName]*workv1alpha1.Work
}

func newBare(g *ground, l *load) contender {
	return &bare{ground: g, load: l, slots: make(chan struct{}, writers)}
}

func (b *bare) before(ctx context.Context, p phase) (err error) {
	if p == phaseCreate {
		return nil
	}
	if p == phaseUpdate {
		// The limit of an update includes only the writes of Works.
		if err := b.load.setRevision(ctx, b.client, 2, func(int) {}); err != nil {
			return err
		}
		return b.awaitAnswers(ctx)
	}
	b.live, err = b.load.list(ctx, b.client)
	return err
}

// awaitAnswers waits until the agents have responded to all Works, and reads the
// Works. From then on, only the plain client writes them.
func (b *bare) awaitAnswers(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, time.Second, longPatience, true, func(ctx context.Context) (_ bool, err error) {
		if b.live, err = b.load.list(ctx, b.client); err != nil {
			return false, err
		}
		for _, work := range b.live {
			if !meta.IsStatusConditionTrue(work.Status.Conditions, workv1alpha1.WorkApplied) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for a response to all Works: %w", err)
	}
	return nil
}

func (b *bare) do(ctx context.Context, p phase, sent func(int)) error {
	return parallel(b.load.objects, workers, func(i int) error {
		sent(i)
		switch p {
		case phaseCreate:
			return b.create(ctx, i)
		case phaseUpdate:
			return b.update(ctx, i)
		default:
			return b.remove(ctx, i)
		}
	})
}

func (b *bare) after(context.Context) error { return nil }

// create writes the object, its finalizer, its Works and its status.
func (b *bare) create(ctx context.Context, i int) error {
	object := b.load.propagation(i)
	if err := b.client.Create(ctx, object); err != nil {
		return fmt.Errorf("creating the object: %w", err)
	}
	before := object.DeepCopy()
	controllerutil.AddFinalizer(object, propagationv1alpha1.CleanupFinalizer)
	if err := b.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the finalizer: %w", err)
	}
	manifest, err := b.load.manifest(ctx, b.client, i)
	if err != nil {
		return err
	}
	owner := ownerOf(object)
	err = b.each(func(cluster string) error {
		work, err := manifest.NewWork(owner, render.Target{Cluster: cluster, ReadySince: time.Now().UTC().Format(time.RFC3339)})
		if err != nil {
			return err
		}
		return b.client.Create(ctx, work)
	})
	if err != nil {
		return fmt.Errorf("creating Works: %w", err)
	}
	object.Status = b.status(object, manifest.Revision)
	if err := b.client.Status().Update(ctx, object); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

// each calls a function for every cluster, with the same concurrency as the
// controller.
func (b *bare) each(do func(cluster string) error) error {
	return parallel(len(b.load.clusters), writers, func(c int) error {
		b.slots <- struct{}{}
		defer func() { <-b.slots }()
		return do(b.load.clusters[c])
	})
}

func ownerOf(object *propagationv1alpha1.DirectPropagation) render.Owner {
	return render.Owner{Kind: "DirectPropagation", Namespace: object.Namespace, Name: object.Name, UID: object.UID}
}

// status returns a status like the last one that the controller writes.
func (b *bare) status(object *propagationv1alpha1.DirectPropagation, revision string) propagationv1alpha1.PropagationStatus {
	const mostRows = 256
	count := len(b.load.clusters)
	status := propagationv1alpha1.PropagationStatus{
		ObservedGeneration: ptr.To(object.Generation),
		Summary: &propagationv1alpha1.Summary{
			Progress: fmt.Sprintf("%d/%d", count, count),
			Clusters: ptr.To(int32(count)), Applied: ptr.To(int32(count)), Healthy: ptr.To(int32(count)),
			Failed: ptr.To[int32](0), Pending: ptr.To[int32](0), Unreachable: ptr.To[int32](0),
		},
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: propagationv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: propagationv1alpha1.ReasonPropagated,
		Message: "each cluster has confirmed the revision and reports it healthy", ObservedGeneration: object.Generation,
	})
	for _, cluster := range b.load.clusters[:min(count, mostRows)] {
		status.Clusters = append(status.Clusters, propagationv1alpha1.ClusterStatus{
			Name: cluster, Applied: metav1.ConditionTrue, Health: propagationv1alpha1.HealthHealthy,
			Reason: propagationv1alpha1.ReasonApplied, Revision: revision, LastTransitionTime: metav1.Now(),
		})
	}
	if count > mostRows {
		status.Omitted = ptr.To(int32(count - mostRows))
	}
	return status
}

// update resets what the clusters have confirmed, if that is necessary, and writes the new
// spec.
func (b *bare) update(ctx context.Context, i int) error {
	manifest, err := b.load.manifest(ctx, b.client, i)
	if err != nil {
		return err
	}
	return b.each(func(cluster string) error {
		live := b.live[b.load.workKey(cluster, i)]
		if !b.load.reported {
			var err error
			if live, err = b.reset(ctx, live); err != nil {
				return err
			}
		}
		updated, err := manifest.UpdatedWork(live, render.OwnerOf(live), render.Target{Cluster: cluster}, manifest.Revision)
		if err != nil {
			return err
		}
		if err := b.client.Update(ctx, updated); err != nil {
			return fmt.Errorf("updating a Work: %w", err)
		}
		return nil
	})
}

// reset removes what a cluster has confirmed.
func (b *bare) reset(ctx context.Context, live *workv1alpha1.Work) (*workv1alpha1.Work, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": live.ResourceVersion},
		"status": map[string]any{"conditions": []metav1.Condition{{
			Type: propagationv1alpha1.WorkConditionReset, Status: metav1.ConditionTrue, Reason: "Reset", LastTransitionTime: metav1.Now(),
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the reset: %w", err)
	}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name}}
	if err := b.client.Status().Patch(ctx, work, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, fmt.Errorf("resetting a Work: %w", err)
	}
	return work, nil
}

// remove deletes the Works and then removes the object's finalizer.
func (b *bare) remove(ctx context.Context, i int) error {
	object := b.load.propagation(i)
	if err := b.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return fmt.Errorf("reading the object: %w", err)
	}
	if err := b.client.Delete(ctx, object); err != nil {
		return fmt.Errorf("deleting the object: %w", err)
	}
	err := b.each(func(cluster string) error {
		live := b.live[b.load.workKey(cluster, i)]
		return client.IgnoreNotFound(b.client.Delete(ctx, live, client.Preconditions{UID: &live.UID}))
	})
	if err != nil {
		return fmt.Errorf("deleting Works: %w", err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := b.client.Patch(ctx, object, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}
