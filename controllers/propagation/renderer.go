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
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// render renders the manifest that all clusters share and each variant, and
// returns what may be remembered of them and the means to render them again.
// What is known of this version of the resource is not rendered.
func (r *customizer) render(ctx context.Context, observed *Observed, template *unstructured.Unstructured, found *variants, known recollection) (recollection, *renderer, error) {
	rendered := &renderer{
		customizer: r, now: observed.Now, template: template, size: sizeOf(template.Object), resolution: observed.Spec.ConflictResolution, variants: found,
	}
	done, err := r.admissions.admit(ctx, rendered.size)
	if err != nil {
		return recollection{}, nil, err
	}
	defer done()
	learned := recollection{generation: observed.Generation, inputs: found.inputs, resource: known.resource, variants: map[string]*Rendering{}}
	if known.resource.Revision == "" {
		manifest, err := rendered.sharedManifest()
		if err != nil {
			return recollection{}, nil, err
		}
		learned.resource.Revision = manifest.Revision
	}
	// The one that is rendered last is kept, and written first.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(found.byName))) {
		rendering, found := known.variants[name]
		if !found || rendering.isDue(observed.Now) {
			rendering = rendered.learn(name)
		}
		learned.variants[name] = rendering
	}
	return learned, rendered, nil
}

// renderPoll is how often a rendering that failed is tried again. It may have
// asked a webhook of Karmada's resource interpreter, which no watch tells of.
const renderPoll = 30 * time.Second

// renderer renders a resource for clusters, from what was read before. So it
// renders the same however often it is asked, unless a webhook of Karmada's
// interpreter answers differently.
type renderer struct {
	customizer *customizer
	// now is when the resource was read.
	now        time.Time
	resolution propagationv1alpha1.ConflictResolution
	variants   *variants
	// size is about how many bytes the resource takes.
	size int64
	// forget drops what is remembered, once it turns out to be wrong.
	forget func()

	// mu has one variant rendered at a time.
	mu sync.Mutex
	// template is the resource, nil when it is not needed any more; shared is the
	// manifest of clusters that get no variant, and last that of the variant that
	// was rendered last. No more is held of an object at a time.
	template *unstructured.Unstructured
	shared   *render.Manifest
	last     *render.Manifest
	// lastName is the variant that last was rendered for.
	lastName string
}

// errAnotherRevision says that a manifest is not what was decided on. A webhook of
// Karmada's interpreter may have answered differently.
var errAnotherRevision = errors.New("rendered again, the manifest has another revision")

// manifest renders what a cluster is to get. It returns errAnotherRevision when that
// is not what was decided on.
func (r *renderer) manifest(wanted Rendering) (*render.Manifest, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	manifest, err := r.variantManifest(wanted.Variant)
	if err == nil && manifest.Revision != wanted.Revision {
		r.forget()
		err = fmt.Errorf("%w: %s instead of %s", errAnotherRevision, manifest.Revision, wanted.Revision)
	}
	return manifest, err
}

// admit waits until the resource may be written, and returns what to call when
// that is done.
func (r *renderer) admit(ctx context.Context) (func(), error) {
	return r.customizer.admissions.admit(ctx, r.size)
}

// variantManifest renders a variant, or what all clusters share for no variant.
func (r *renderer) variantManifest(name string) (*render.Manifest, error) {
	switch name {
	case "":
		return r.sharedManifest()
	case r.lastName:
		return r.last, nil
	}
	object, _, failure := r.apply(r.variants.byName[name])
	if failure != nil {
		return nil, errors.New(failure.Message)
	}
	return r.keep(name, object)
}

func (r *renderer) sharedManifest() (*render.Manifest, error) {
	if r.shared != nil {
		return r.shared, nil
	}
	manifest, err := r.manifestOf(r.template, r.resolution)
	if err != nil {
		return nil, err
	}
	r.shared = manifest
	if len(r.variants.byName) == 0 {
		r.template = nil
	}
	return manifest, nil
}

// keep renders a variant and keeps it instead of the last one.
func (r *renderer) keep(name string, object *unstructured.Unstructured) (*render.Manifest, error) {
	r.last, r.lastName = nil, ""
	manifest, err := r.manifestOf(object, r.variants.byName[name].resolution)
	if err == nil {
		r.last, r.lastName = manifest, name
	}
	return manifest, err
}

func (r *renderer) manifestOf(object *unstructured.Unstructured, resolution propagationv1alpha1.ConflictResolution) (*render.Manifest, error) {
	return render.NewManifest(object, resolution, r.customizer.localPrefixes...) //nolint:wrapcheck // it says all
}

// learn finds out what clusters with a variant get, and keeps of it what may be
// remembered.
func (r *renderer) learn(name string) *Rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := r.variants.byName[name]
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
	return &Rendering{Variant: name, Revision: manifest.Revision, Overrides: records}
}

// apply changes a copy of the resource, as Karmada's binding controller does:
// replicas first, then override policies, then what the spec itself overrides.
// It returns the copy and what records the policies, or why there is none.
func (r *renderer) apply(wanted *variant) (*unstructured.Unstructured, map[string]string, *Rendering) {
	object := r.template.DeepCopy()
	if wanted.replicas != nil {
		var failure *Rendering
		if object, failure = r.reviseReplicas(object, *wanted.replicas); failure != nil {
			return nil, nil, failure
		}
	}
	override := wanted.override
	if why := guarded(r.template.GroupVersionKind()); why != "" {
		override = func(object *unstructured.Unstructured) (map[string]string, *Rendering) {
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

// reviseReplicas sets the replicas of a resource. Whether a kind has some is
// known until the configuration of the interpreter changes; what it cannot do
// now, it may do later, if it is a webhook.
func (r *renderer) reviseReplicas(object *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, *Rendering) {
	gvk := object.GroupVersionKind()
	failure := &Rendering{Reason: propagationv1alpha1.ReasonRenderFailed, Field: "replicas"}
	if !r.customizer.interpreter.HookEnabled(gvk, configv1alpha1.InterpreterOperationReviseReplica) {
		failure.Message = fmt.Sprintf("Karmada's resource interpreter cannot revise the replicas of %s %s; leave replicas out, or write a ResourceInterpreterCustomization with replicaRevision",
			gvk.GroupVersion(), gvk.Kind)
		return nil, failure
	}
	revised, err := r.customizer.interpreter.ReviseReplica(object, int64(replicas))
	if err != nil {
		failure.Message = fmt.Sprintf("revising the replicas of %s %s: %v", gvk.Kind, object.GetName(), err)
		failure.Retry = r.now.Add(renderPoll)
		return nil, failure
	}
	return revised, nil
}

// admissions bounds the bytes of resources that are rendered or written at once,
// over all reconciles. Encoding, sending and decoding a Work takes some ten times
// its size for a moment. Small resources never wait for it.
type admissions struct{ bytes *semaphore.Weighted }

// admitted is how many bytes of resources are rendered or written at once.
const admitted = 8 << 20

func newAdmissions() admissions { return admissions{bytes: semaphore.NewWeighted(admitted)} }

// admit waits until a resource of a size may be rendered or written, and returns
// what to call when that is done.
func (a admissions) admit(ctx context.Context, size int64) (func(), error) {
	size = min(size, admitted)
	if err := a.bytes.Acquire(ctx, size); err != nil {
		return nil, fmt.Errorf("waiting for memory: %w", err)
	}
	return func() { a.bytes.Release(size) }, nil
}

// sizeOf is about how many bytes a value takes, decoded.
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
