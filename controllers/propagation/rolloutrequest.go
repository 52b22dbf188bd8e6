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

package propagation

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/revision"
)

// requestedRevision reads the resource and determines which revision the user requests. If
// that is a new one, it is rendered. The Revision of what it returns is the name of the
// revision.
func (r *Reconciler) requestedRevision(ctx context.Context, object cached.Object, observed *decide.Observed, revisions *customize.Revisions, known *rolling) (decide.Resource, error) {
	reference, key := object.GetSpec().Resource, client.ObjectKeyFromObject(object)
	mapping, poll, problem := r.locate(reference, key)
	if problem != nil {
		return decide.Resource{Problem: problem}, nil
	}
	inputs, err := r.Customizer.RolloutInputs(ctx, observed)
	if err != nil {
		return decide.Resource{Problem: decide.ReadFailed(err.Error(), err)}, nil
	}
	inputs += fmt.Sprint(unregistered(observed)) // they are compared when they return
	last, remembered := r.memories.of(key).recall(observed.Generation, inputs)
	if remembered && known.hasSomethingForAll(observed, last.Resource.Revision) && r.Resources.Unchanged(mapping.Resource, key.Namespace, reference.Name, last.Resource.UID, last.Resource.Version) {
		r.memories.of(key).unseen = unseen{}
		return last.Resource, nil
	}
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := r.Kinds.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: reference.Name}, template); err != nil {
		r.memories.of(key).unseen = unseen{}
		return decide.Resource{Problem: decide.ReadProblem(reference, mapping, key.Namespace, err)}, nil
	}
	poll = r.untilShown(poll, mapping.Resource, key, reference.Name)
	if problem := decide.ForbiddenObject(template); problem != nil {
		problem.Poll = poll
		return decide.Resource{Problem: problem}, nil
	}
	name, problem, err := r.nameRevision(ctx, object, observed, revisions, known, template)
	if problem != nil {
		problem.Poll = decide.Sooner(problem.Poll, poll)
	}
	if problem != nil || err != nil {
		return decide.Resource{Problem: problem}, err
	}
	learned := customize.Recollection{Generation: observed.Generation, Inputs: inputs, Resource: decide.Resource{
		UID: template.GetUID(), Version: template.GetResourceVersion(), Generation: template.GetGeneration(), Revision: name, ClaimedBy: decide.ClaimOf(template),
	}}
	r.memories.of(key).remember(learned)
	learned.Resource.Poll = poll
	return learned.Resource, nil
}

// nameRevision determines which revision a resource is. A revision that is known keeps its
// name, even if this version of the controller would name it differently.
func (r *Reconciler) nameRevision(ctx context.Context, object cached.Object, observed *decide.Observed, revisions *customize.Revisions, known *rolling, template *unstructured.Unstructured) (string, *decide.Problem, error) {
	failed := func(err error) (string, *decide.Problem, error) {
		return "", &decide.Problem{Reason: propagationv1alpha1.ReasonRenderFailed, Message: err.Error(), Stalled: true, Poll: customize.RenderPoll}, nil
	}
	input, err := r.Customizer.InputOf(ctx, observed, template)
	if err != nil {
		return failed(err)
	}
	replicas, scales, err := r.Customizer.Replicas(template)
	if err != nil {
		return failed(err)
	}
	known.origin, known.replicas = input.Origin, nil
	if scales {
		known.replicas = &replicas
	}
	if name, err := r.sameInput(ctx, observed, revisions, input); name != "" || err != nil {
		return name, nil, err
	}
	snapshot, err := r.Customizer.Snapshot(ctx, observed, input)
	if err != nil {
		return failed(err)
	}
	// They are kept even if they are not propagated now, because that may change.
	if snapshot.Dependencies, err = dependency.Of(template, r.Interpreter); err != nil && ptr.Deref(observed.Spec.PropagateDeps, false) {
		return failed(err)
	}
	if name := sameContent(observed, revisions, snapshot); name != "" {
		return name, nil, nil
	}
	name, err := r.Customizer.HashOf(input, observed.Targeted)
	if err != nil {
		return failed(err)
	}
	if known.isReadable(ctx, revisions, name) {
		return name, nil, nil // what is stored counts
	}
	made, err := newRevision(r.ownerOf(object), r.revisionNamespace(object), name, object.GetSpec().Resource, snapshot)
	if errors.Is(err, revision.ErrTooLarge) {
		return "", tooLarge(), nil
	}
	if err != nil {
		return failed(err)
	}
	known.made[name] = made
	revisions.Add(name, snapshot)
	return name, nil, nil
}

// isReadable reports whether a revision is stored, and can be read.
func (k *rolling) isReadable(ctx context.Context, revisions *customize.Revisions, name string) bool {
	if !k.stored[name] {
		return false
	}
	_, err := revisions.Outline(ctx, name)
	return err == nil
}

func tooLarge() *decide.Problem {
	return &decide.Problem{
		Reason:  propagationv1alpha1.ReasonRevisionTooLarge,
		Message: "spec.rollout: what the clusters get is larger than 1 MiB, compressed, so that it cannot be kept for a rollout; make the resource or the overriders smaller, or remove rollout",
		Stalled: true,
	}
}

// sameInput returns the revision for which the user has asked the same; empty if there is
// none. Clusters that came or went since do not count.
func (r *Reconciler) sameInput(ctx context.Context, observed *decide.Observed, revisions *customize.Revisions, input *revision.Input) (string, error) {
	for _, name := range namedRevisions(observed.Status.Rollout) {
		snapshot, err := revisions.Whole(ctx, name)
		if errors.Is(err, revision.ErrNotTrusted) || client.IgnoreNotFound(err) == nil && err != nil {
			continue
		}
		if err != nil {
			return "", err
		}
		if snapshot.Input == nil {
			continue
		}
		counts := func(cluster string) bool {
			_, had := snapshot.Clusters[cluster]
			return had && observed.Targeted(cluster)
		}
		before, err := r.Customizer.HashOf(snapshot.Input, counts)
		if err != nil {
			continue // what cannot be read anymore is another one
		}
		now, err := r.Customizer.HashOf(input, counts)
		if err == nil && now == before {
			return name, nil
		}
	}
	return "", nil
}

// sameContent returns the revision that was taken from the clusters before the first
// rollout, if a snapshot has the same for all of them; empty if there is none.
func sameContent(observed *decide.Observed, revisions *customize.Revisions, snapshot *revision.Snapshot) string {
	for _, name := range namedRevisions(observed.Status.Rollout) {
		adopted := revisions.Outlines[name]
		if adopted == nil || !adopted.Adopted {
			continue
		}
		if isSameOnAll(observed, adopted, snapshot, name == observed.Status.Rollout.UpdateRevision) {
			return name
		}
	}
	return ""
}

// isSameOnAll reports whether all targets had what a snapshot has for them. A cluster that
// came later had nothing. One that is not registered cannot be compared: it does not matter
// if the adopted revision is requested already.
func isSameOnAll(observed *decide.Observed, adopted, snapshot *revision.Snapshot, requested bool) bool {
	compared := false
	for i := range observed.Targets {
		cluster := observed.Targets[i].Cluster
		had := adopted.HashOn(cluster)
		if !observed.Clusters[cluster].Exists {
			if had != "" && !requested {
				return false
			}
			continue
		}
		if had == "" || had != snapshot.HashOn(cluster) {
			return false
		}
		compared = true
	}
	return compared
}

// unregistered are the targets that are not registered.
func unregistered(observed *decide.Observed) (names []string) {
	for i := range observed.Targets {
		if name := observed.Targets[i].Cluster; !observed.Clusters[name].Exists {
			names = append(names, name)
		}
	}
	return names
}

// hasSomethingForAll reports whether a revision has something for all targets. One that was
// taken from the clusters has nothing for those that came later.
func (k *rolling) hasSomethingForAll(observed *decide.Observed, name string) bool {
	for i := range observed.Targets {
		if cluster := observed.Targets[i].Cluster; observed.Clusters[cluster].Exists && k.hasNothingFor(cluster, name) {
			return false
		}
	}
	return true
}

// namedRevisions are the revisions that a status names, without those of single clusters.
func namedRevisions(status *propagationv1alpha1.RolloutStatus) []string {
	if status == nil {
		return nil
	}
	var names []string
	for _, name := range []string{status.UpdateRevision, status.CurrentRevision, status.FailedRevision} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}
