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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// observeResource reads the named resource and renders it; if full is false and the
// revisions are known, it returns only those. After a change to the kind, it
// schedules another check for the time when the API server is sure to return
// current information about the kind.
func (r *Reconciler) observeResource(ctx context.Context, object cached.Object, observed *decide.Observed, full bool) (decide.Resource, *customize.Renderer) {
	resource, means := r.readResource(ctx, object, observed, full)
	settles := r.Kinds.Unsettled(render.GroupOf(object.GetSpec().Resource.APIVersion))
	poll := &resource.Poll
	if resource.Problem != nil {
		poll = &resource.Problem.Poll
	}
	if settles > 0 && (*poll == 0 || settles < *poll) {
		*poll = settles
	}
	return resource, means
}

func (r *Reconciler) readResource(ctx context.Context, object cached.Object, observed *decide.Observed, full bool) (decide.Resource, *customize.Renderer) {
	reference, key := object.GetSpec().Resource, client.ObjectKeyFromObject(object)
	mapping, poll, problem := r.locate(reference, key)
	if problem != nil {
		return decide.Resource{Problem: problem}, nil
	}
	found, err := r.Customizer.VariantsOf(ctx, observed)
	if err != nil {
		return decide.Resource{Problem: decide.ReadFailed(err.Error(), err)}, nil
	}
	known, remembered := r.memories.of(key).recall(observed.Generation, found.Inputs)
	suffices := !full && remembered && known.Covers(found, observed.Now)
	if suffices && r.Resources.Unchanged(mapping.Resource, key.Namespace, reference.Name, known.Resource.UID, known.Resource.Version) {
		r.memories.of(key).unseen = unseen{}
		return known.Sorted(found), nil
	}
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := r.Kinds.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: reference.Name}, template); err != nil {
		r.memories.of(key).unseen = unseen{}
		return decide.Resource{Problem: decide.ReadProblem(reference, mapping, key.Namespace, err)}, nil
	}
	poll = r.untilShown(poll, mapping.Resource, key, reference.Name)
	if suffices && template.GetUID() == known.Resource.UID && template.GetResourceVersion() == known.Resource.Version {
		resource := known.Sorted(found)
		resource.Poll = poll
		return resource, nil
	}
	if problem := decide.ForbiddenObject(template); problem != nil {
		problem.Poll = poll
		return decide.Resource{Problem: problem}, nil
	}
	learned, means, err := r.learn(ctx, observed, template, found, known)
	if err != nil {
		return decide.Resource{Problem: &decide.Problem{Reason: propagationv1alpha1.ReasonRenderFailed, Message: err.Error(), Stalled: true, Poll: customize.RenderPoll}}, nil
	}
	r.memories.of(key).remember(learned)
	means.Forget = r.memories.of(key).forgetResource
	resource := learned.Sorted(found)
	resource.Poll = poll
	return resource, means
}

// locate determines which API resource an object names, and watches it. poll is how often
// to read it because it cannot be watched; 0 for never.
func (r *Reconciler) locate(reference propagationv1alpha1.ResourceReference, key types.NamespacedName) (*meta.RESTMapping, time.Duration, *decide.Problem) {
	mapping, problem := r.mapNamed(reference, key)
	if problem != nil {
		return nil, 0, problem
	}
	r.Resources.Track(key, mapping.Resource)
	poll, problem := r.watchState(mapping)
	return mapping, poll, problem
}

// learn renders a resource that was read, and determines its dependencies. What is
// already known about this version of the resource is not determined again.
func (r *Reconciler) learn(ctx context.Context, observed *decide.Observed, template *unstructured.Unstructured, found *customize.Variants, known customize.Recollection) (customize.Recollection, *customize.Renderer, error) {
	if !known.IsOf(template) {
		known = customize.Recollection{Resource: decide.Resource{UID: template.GetUID(), Version: template.GetResourceVersion(), Generation: template.GetGeneration(), ClaimedBy: decide.ClaimOf(template)}}
		if ptr.Deref(observed.Spec.PropagateDeps, false) {
			var err error
			if known.Resource.Dependencies, err = dependency.Of(template, r.Interpreter); err != nil {
				return customize.Recollection{}, nil, err
			}
		}
	}
	return r.Customizer.Render(ctx, observed, template, found, known)
}

// mapNamed determines which API resource an object names, and whether the object
// may name it.
func (r *Reconciler) mapNamed(reference propagationv1alpha1.ResourceReference, key types.NamespacedName) (*meta.RESTMapping, *decide.Problem) {
	if problem := decide.Forbidden(reference, key.Namespace); problem != nil {
		r.forget(key)
		return nil, problem
	}
	mapping, problem := r.mapKind(reference)
	if problem != nil {
		if problem.Reason == propagationv1alpha1.ReasonResourceKindNotFound {
			// There is nothing to watch until the kind is served again.
			r.Resources.Forget(key)
		}
		return nil, problem
	}
	if problem := r.owners().misplaced(reference, key.Namespace, mapping.Scope.Name()); problem != nil {
		r.Resources.Forget(key)
		return nil, problem
	}
	return mapping, nil
}

// unseen is a resource that its watch does not show, and since when.
type unseen struct {
	resource schema.GroupVersionResource
	name     string
	since    time.Time
}

// untilShown returns when to read again a resource that was just read. If it is deleted before
// its watch shows it, nobody is woken. The longer that takes, the more seldom it is read.
func (r *Reconciler) untilShown(poll time.Duration, resource schema.GroupVersionResource, key types.NamespacedName, name string) time.Duration {
	memory, now := r.memories.of(key), r.Clock.Now()
	if r.Resources.Shows(resource, key.Namespace, name) {
		memory.unseen = unseen{}
		return poll
	}
	if memory.unseen.resource != resource || memory.unseen.name != name {
		memory.unseen = unseen{resource: resource, name: name, since: now}
	}
	return decide.Sooner(poll, min(max(now.Sub(memory.unseen.since), unseenPoll), unseenMost))
}

// watchState returns what a failed watch of the kind means. Without permission to
// watch, the state of the resource is unknown until somebody grants the permission.
// Other failures may be temporary: meanwhile, every reconcile reads the resource,
// and poll says how often to reconcile.
func (r *Reconciler) watchState(mapping *meta.RESTMapping) (poll time.Duration, problem *decide.Problem) {
	err := r.Resources.Failure(mapping.Resource)
	switch {
	case err == nil:
		return 0, nil
	case apierrors.IsForbidden(err):
		failure, _ := errors.AsType[*cached.WatchError](err)
		return 0, decide.ReadDenied(failure.Verb, mapping.Resource, failure.Err)
	default:
		return watchPoll, nil
	}
}

// mapKind maps the kind of a reference to an API resource.
func (r *Reconciler) mapKind(reference propagationv1alpha1.ResourceReference) (*meta.RESTMapping, *decide.Problem) {
	gvk := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
	mapping, err := r.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, decide.KindNotFound(reference)
	}
	if err != nil {
		return nil, decide.ReadFailed(err.Error(), err)
	}
	return mapping, nil
}

// forget drops the watch of an object, and what is remembered about its resource.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.memories.of(key).forgetResource()
	r.Resources.Forget(key)
}
