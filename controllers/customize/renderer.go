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

package customize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Render renders the manifest that all clusters share and each variant. It returns
// what may be remembered of them, and a Renderer to render them again. What is
// already known for this version of the resource is not rendered.
func (r *Customizer) Render(ctx context.Context, observed *decide.Observed, template *unstructured.Unstructured, found *Variants, known Recollection) (Recollection, *Renderer, error) {
	rendered := &Renderer{
		customizer: r, now: observed.Now, template: template, size: sizeOf(template.Object), resolution: observed.Spec.ConflictResolution, variants: found,
	}
	done, err := r.admissions.admit(ctx, rendered.size)
	if err != nil {
		return Recollection{}, nil, err
	}
	defer done()
	learned := Recollection{Generation: observed.Generation, Inputs: found.Inputs, Resource: known.Resource, variants: map[string]*decide.Rendering{}}
	if known.Resource.Revision == "" {
		manifest, err := rendered.sharedManifest()
		if err != nil {
			return Recollection{}, nil, err
		}
		learned.Resource.Revision = manifest.Revision
	}
	// The last one rendered is kept, and written first.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(found.ByName))) {
		rendering, found := known.variants[name]
		if !found || rendering.IsDue(observed.Now) {
			rendering = rendered.learn(name)
		}
		learned.variants[name] = rendering
	}
	return learned, rendered, nil
}

// RenderPoll is how often a failed rendering is tried again. It may have called a
// webhook of Karmada's resource interpreter, which no watch observes.
const RenderPoll = 30 * time.Second

// Renderer renders a resource for clusters from what was read before. It therefore
// always renders the same, unless a webhook of Karmada's interpreter answers
// differently.
type Renderer struct {
	customizer *Customizer
	// now is when the resource was read.
	now        time.Time
	resolution propagationv1alpha1.ConflictResolution
	variants   *Variants
	// size is the approximate size of the resource in bytes.
	size int64
	// Forget drops what is remembered when it turns out to be wrong.
	Forget func()

	// mu ensures that one variant is rendered at a time.
	mu sync.Mutex
	// template is the resource, nil if it is no longer needed. shared is the
	// manifest of clusters without a variant, and last that of the last rendered
	// variant. Nothing else of an object is kept.
	template *unstructured.Unstructured
	shared   *render.Manifest
	last     *render.Manifest
	// lastName is the name of the last rendered variant.
	lastName string
}

// ErrAnotherRevision means that a manifest does not have the planned revision. A
// webhook of Karmada's interpreter may have answered differently.
var ErrAnotherRevision = errors.New("rendered again, the manifest has another revision")

// Manifest renders what a cluster should get. It returns ErrAnotherRevision if that
// does not have the planned revision.
func (r *Renderer) Manifest(_ context.Context, wanted decide.Rendering) (*render.Manifest, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	manifest, err := r.variantManifest(wanted.Variant)
	if err == nil && manifest.Revision != wanted.Revision {
		r.Forget()
		err = fmt.Errorf("%w: %s instead of %s", ErrAnotherRevision, manifest.Revision, wanted.Revision)
	}
	return manifest, err
}

// Admit waits until the resource may be written, and returns a function to call when
// the write is done.
func (r *Renderer) Admit(ctx context.Context) (func(), error) {
	return r.customizer.admissions.admit(ctx, r.size)
}

// variantManifest renders a variant, or, without one, what all clusters share.
func (r *Renderer) variantManifest(name string) (*render.Manifest, error) {
	switch name {
	case "":
		return r.sharedManifest()
	case r.lastName:
		return r.last, nil
	}
	object, _, failure := r.apply(r.variants.ByName[name])
	if failure != nil {
		return nil, errors.New(failure.Message)
	}
	return r.keep(name, object)
}

func (r *Renderer) sharedManifest() (*render.Manifest, error) {
	if r.shared != nil {
		return r.shared, nil
	}
	manifest, err := r.manifestOf(r.template, r.resolution)
	if err != nil {
		return nil, err
	}
	r.shared = manifest
	if len(r.variants.ByName) == 0 {
		r.template = nil
	}
	return manifest, nil
}

// keep renders a variant and keeps it instead of the last one.
func (r *Renderer) keep(name string, object *unstructured.Unstructured) (*render.Manifest, error) {
	r.last, r.lastName = nil, ""
	manifest, err := r.manifestOf(object, r.variants.ByName[name].resolution)
	if err == nil {
		r.last, r.lastName = manifest, name
	}
	return manifest, err
}

func (r *Renderer) manifestOf(object *unstructured.Unstructured, resolution propagationv1alpha1.ConflictResolution) (*render.Manifest, error) {
	return render.NewManifest(object, resolution, r.customizer.localPrefixes...) //nolint:wrapcheck // it says all
}

// learn renders what clusters with a variant get, and returns what may be remembered
// of it.
func (r *Renderer) learn(name string) *decide.Rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := r.variants.ByName[name]
	object, records, failure := r.apply(wanted)
	if failure != nil {
		return failure
	}
	if len(records) == 0 && wanted.resolution == r.resolution && equality.Semantic.DeepEqual(r.template.Object, object.Object) {
		return nil
	}
	manifest, err := r.keep(name, object)
	if err != nil {
		return overrideFailed("after overrides: " + err.Error())
	}
	return &decide.Rendering{Variant: name, Revision: manifest.Revision, Overrides: records}
}

// apply changes a copy of the resource, as Karmada's binding controller does:
// replicas first, then override policies, then the overriders of the spec. It
// returns the copy and the annotations that record the policies, or the failure.
func (r *Renderer) apply(wanted *variant) (*unstructured.Unstructured, map[string]string, *decide.Rendering) {
	return r.applyTo(r.template.DeepCopy(), wanted)
}

// applyTo applies a variant to a copy of the resource, which may have other replicas.
func (r *Renderer) applyTo(object *unstructured.Unstructured, wanted *variant) (*unstructured.Unstructured, map[string]string, *decide.Rendering) {
	if wanted.replicas != nil {
		var failure *decide.Rendering
		if object, failure = r.reviseReplicas(object, *wanted.replicas); failure != nil {
			return nil, nil, failure
		}
	}
	override := wanted.override
	if why := guarded(r.template.GroupVersionKind()); why != "" {
		override = func(object *unstructured.Unstructured) (map[string]string, *decide.Rendering) {
			return wanted.overrideGuarded(object, why)
		}
	}
	records, failure := override(object)
	if failure != nil {
		return nil, nil, failure
	}
	if err := sameIdentity(r.template, object); err != nil {
		return nil, nil, overrideFailed(err.Error())
	}
	return object, records, nil
}

// reviseReplicas sets the replicas of a resource. Whether the interpreter supports a
// kind stays the same until its configuration changes. A revision that fails now may
// succeed later, if a webhook does it.
func (r *Renderer) reviseReplicas(object *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, *decide.Rendering) {
	gvk := object.GroupVersionKind()
	failure := &decide.Rendering{Reason: propagationv1alpha1.ReasonRenderFailed, Field: "replicas"}
	if !r.customizer.interpreter.HookEnabled(gvk, configv1alpha1.InterpreterOperationReviseReplica) {
		failure.Message = fmt.Sprintf("Karmada's resource interpreter cannot revise the replicas of %s %s; leave replicas out, or write a ResourceInterpreterCustomization with replicaRevision",
			gvk.GroupVersion(), gvk.Kind)
		return nil, failure
	}
	revised, err := r.customizer.interpreter.ReviseReplica(object, int64(replicas))
	if err != nil {
		failure.Message = fmt.Sprintf("revising the replicas of %s %s: %v", gvk.Kind, object.GetName(), err)
		failure.Retry = r.now.Add(RenderPoll)
		return nil, failure
	}
	return revised, nil
}

// admissions limits the bytes of resources that are rendered or written
// concurrently, over all reconciles. Encoding, sending and decoding a Work briefly
// takes about ten times its size. Small resources never wait.
type admissions struct{ bytes *semaphore.Weighted }

// admitted is how many bytes of resources may be rendered or written concurrently.
const admitted = 8 << 20

func newAdmissions() admissions { return admissions{bytes: semaphore.NewWeighted(admitted)} }

// admit waits until a resource of a size may be rendered or written, and returns a
// function to call when that is done.
func (a admissions) admit(ctx context.Context, size int64) (func(), error) {
	size = min(size, admitted)
	if err := a.bytes.Acquire(ctx, size); err != nil {
		return nil, fmt.Errorf("waiting for memory: %w", err)
	}
	return func() { a.bytes.Release(size) }, nil
}

// sizeOf is the approximate size of a decoded value in bytes.
func sizeOf(value any) int64 {
	size := int64(16)
	switch value := value.(type) {
	case string:
		size += int64(len(value))
	case []any:
		for i := range value {
			size += sizeOf(value[i])
		}
	case map[string]any:
		for key := range value {
			size += 32 + int64(len(key)) + sizeOf(value[key])
		}
	}
	return size
}
