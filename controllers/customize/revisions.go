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
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/controllers/revision"
)

// Revisions renders what clusters get in a rollout from the snapshots of revisions.
type Revisions struct {
	customizer *Customizer
	// Load reads a whole snapshot.
	Load func(ctx context.Context, name string) (*revision.Snapshot, error)
	// Outlines are the snapshots, without content, and Hashes the content hashes of
	// what was rendered from them. Both are remembered.
	Outlines map[string]*revision.Snapshot
	Hashes   map[Recipe]string
	// Overriders are, by cluster, those of the spec, for clusters that came after the
	// snapshot was made.
	Overriders map[string]*policyv1alpha1.Overriders

	mu     held
	loaded map[string]*revision.Snapshot
	// failed are why snapshots cannot be read.
	failed  map[string]error
	recipes map[string]Recipe
}

// held is a lock that is held while a snapshot is read. It is a channel because who waits
// for a mutex is not idle to package testing/synctest, in which the simulation runs.
type held chan struct{}

func (h held) lock()   { h <- struct{}{} }
func (h held) unlock() { <-h }

// Recipe is what a manifest is made from.
type Recipe struct {
	Revision, Variant string
	// UID and Generation are those of the resource.
	UID        types.UID
	Generation int64
	// Replicas is the number of replicas; -1 to leave what is in the snapshot.
	Replicas int64
}

// Revisions returns a way to render revisions. Load must be set.
func (r *Customizer) Revisions(outlines map[string]*revision.Snapshot, hashes map[Recipe]string) *Revisions {
	return &Revisions{
		customizer: r, Outlines: outlines, Hashes: hashes, mu: make(held, 1),
		loaded: map[string]*revision.Snapshot{}, failed: map[string]error{}, recipes: map[string]Recipe{},
	}
}

// Add adds a snapshot that has just been made.
func (r *Revisions) Add(name string, snapshot *revision.Snapshot) {
	r.mu.lock()
	defer r.mu.unlock()
	delete(r.failed, name)
	r.loaded[name], r.Outlines[name] = snapshot, snapshot.Outline()
}

// Whole returns the snapshot of a revision with its content.
func (r *Revisions) Whole(ctx context.Context, name string) (*revision.Snapshot, error) {
	r.mu.lock()
	defer r.mu.unlock()
	return r.whole(ctx, name)
}

func (r *Revisions) whole(ctx context.Context, name string) (*revision.Snapshot, error) {
	if snapshot := r.loaded[name]; snapshot != nil {
		return snapshot, nil
	}
	if err := r.failed[name]; err != nil {
		return nil, err
	}
	snapshot, err := r.Load(ctx, name)
	if err != nil {
		r.failed[name] = err
		return nil, err
	}
	r.loaded[name] = snapshot
	if r.Outlines[name] == nil {
		r.Outlines[name] = snapshot.Outline()
	}
	return snapshot, nil
}

// Outline returns the snapshot of a revision without its content.
func (r *Revisions) Outline(ctx context.Context, name string) (*revision.Snapshot, error) {
	r.mu.lock()
	defer r.mu.unlock()
	return r.outline(ctx, name)
}

func (r *Revisions) outline(ctx context.Context, name string) (*revision.Snapshot, error) {
	if outline := r.Outlines[name]; outline != nil {
		return outline, nil
	}
	_, err := r.whole(ctx, name)
	return r.Outlines[name], err
}

// Overlay is what may change without a new revision.
type Overlay struct {
	// Origin is that of the resource; nil for that in the snapshot.
	Origin *revision.Origin
	// Replicas is the number of replicas; nil for that in the snapshot.
	Replicas *int64
}

// On returns what a cluster gets of a revision. If the snapshot cannot be read, or has
// nothing for the cluster, the rendering says why.
func (r *Revisions) On(ctx context.Context, cluster, name string, overlay Overlay) *decide.Rendering {
	r.mu.lock()
	defer r.mu.unlock()
	rendering, err := r.on(ctx, cluster, name, overlay)
	if errors.Is(err, ErrAnotherRevision) {
		rendering, err = r.on(ctx, cluster, name, overlay) // it is known by now
	}
	if err != nil {
		return unreadable(name, err)
	}
	return rendering
}

func (r *Revisions) on(ctx context.Context, cluster, name string, overlay Overlay) (*decide.Rendering, error) {
	outline, err := r.outline(ctx, name)
	if err == nil {
		_, known := outline.Clusters[cluster]
		overriders, joined := outline.Joined[cluster]
		if !known || joined && !equality.Semantic.DeepEqual(overriders, r.Overriders[cluster]) {
			err = r.join(ctx, cluster, name)
		}
	}
	if err != nil {
		return nil, err
	}
	variant, known := outline.Clusters[cluster]
	rendering := outline.Renderings[variant]
	switch {
	case !known || rendering == nil:
		return nil, fmt.Errorf("it has nothing for cluster %s", cluster)
	case rendering.Reason != "":
		return &decide.Rendering{Reason: rendering.Reason, Message: rendering.Message, Field: rendering.Field}, nil
	}
	recipe := recipeOf(name, variant, rendering, overlay)
	text := fmt.Sprint(recipe)
	r.recipes[text] = recipe
	hash, known := r.Hashes[recipe]
	if !known {
		manifest, err := r.manifest(ctx, recipe)
		if refusal, refused := errors.AsType[*replicasError](err); refused {
			return &decide.Rendering{Reason: propagationv1alpha1.ReasonRenderFailed, Message: refusal.Error(), Field: "replicas"}, nil
		}
		if err != nil {
			return nil, err
		}
		hash = manifest.Revision
		r.Hashes[recipe] = hash
	}
	return &decide.Rendering{Variant: text, Revision: hash, Overrides: rendering.Overrides, Resolution: rendering.Resolution}, nil
}

func recipeOf(name, variant string, rendering *revision.Rendering, overlay Overlay) Recipe {
	recipe := Recipe{Revision: name, Variant: variant, Replicas: -1}
	if overlay.Replicas != nil && !rendering.FixedReplicas {
		recipe.Replicas = *overlay.Replicas
	}
	if overlay.Origin != nil {
		recipe.UID, recipe.Generation = overlay.Origin.UID, overlay.Origin.Generation
	}
	return recipe
}

func unreadable(name string, err error) *decide.Rendering {
	return &decide.Rendering{Reason: propagationv1alpha1.ReasonRevisionUnreadable, Message: fmt.Sprintf("revision %s cannot be rendered: %v", name, err)}
}

// joined renders a revision for a cluster that came after the snapshot was made, and returns
// the snapshot with that.
func (r *Revisions) joined(ctx context.Context, cluster, name string) (*revision.Snapshot, error) {
	snapshot, err := r.whole(ctx, name)
	if err != nil {
		return nil, err
	}
	if snapshot.Input == nil {
		return nil, fmt.Errorf("it was taken from the clusters that had it before the first rollout, and cluster %s had nothing", cluster)
	}
	renderer, err := r.customizer.rendererOf(snapshot.Input)
	if err != nil {
		return nil, err
	}
	return snapshot, r.customizer.join(ctx, snapshot, renderer, cluster, r.Overriders[cluster])
}

// join remembers what a cluster gets that came after the snapshot was made.
func (r *Revisions) join(ctx context.Context, cluster, name string) error {
	snapshot, err := r.joined(ctx, cluster, name)
	if err != nil {
		return err
	}
	outline := r.Outlines[name]
	if variant, known := snapshot.Clusters[cluster]; known {
		outline.Clusters[cluster] = variant
		if outline.Joined == nil {
			outline.Joined = map[string]*policyv1alpha1.Overriders{}
		}
		outline.Joined[cluster] = r.Overriders[cluster]
	}
	for variant := range snapshot.Renderings {
		if outline.Renderings[variant] == nil {
			outline.Renderings[variant] = snapshot.Outline().Renderings[variant]
		}
	}
	return nil
}

// Manifest renders what a cluster should get. It returns ErrAnotherRevision if that is not
// what was planned.
func (r *Revisions) Manifest(ctx context.Context, wanted decide.Rendering) (*render.Manifest, error) {
	r.mu.lock()
	defer r.mu.unlock()
	recipe := r.recipes[wanted.Variant]
	manifest, err := r.manifest(ctx, recipe)
	if apierrors.IsNotFound(err) || errors.Is(err, revision.ErrNotTrusted) {
		// Rows must say so.
		r.forget(recipe.Revision)
		return nil, fmt.Errorf("%w: %w", ErrAnotherRevision, err)
	}
	if err == nil && manifest.Revision != wanted.Revision {
		delete(r.Hashes, recipe)
		err = fmt.Errorf("%w: %s instead of %s", ErrAnotherRevision, manifest.Revision, wanted.Revision)
	}
	return manifest, err
}

// forget forgets what is remembered of a revision.
func (r *Revisions) forget(name string) {
	delete(r.Outlines, name)
	for recipe := range r.Hashes {
		if recipe.Revision == name {
			delete(r.Hashes, recipe)
		}
	}
}

func (r *Revisions) manifest(ctx context.Context, recipe Recipe) (*render.Manifest, error) {
	snapshot, err := r.whole(ctx, recipe.Revision)
	if err != nil {
		return nil, err
	}
	rendering := snapshot.Renderings[recipe.Variant]
	if rendering == nil {
		if rendering, err = r.variantOfJoined(ctx, recipe); err != nil {
			return nil, err
		}
	}
	object, err := render.Stored(rendering.Object)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says all
	}
	uid, generation := render.OriginOf(object)
	if recipe.Replicas >= 0 {
		if object, err = r.customizer.scaled(object, recipe.Replicas); err != nil {
			return nil, err
		}
	}
	if recipe.UID != "" {
		uid, generation = recipe.UID, recipe.Generation
	}
	return render.Restored(object, uid, generation) //nolint:wrapcheck // it says all
}

// variantOfJoined renders a variant for one of the clusters that came after the snapshot was
// made. If the labels of all of them have changed since, they get what is made for them now,
// and it returns ErrAnotherRevision.
func (r *Revisions) variantOfJoined(ctx context.Context, recipe Recipe) (*revision.Rendering, error) {
	outline := r.Outlines[recipe.Revision]
	if outline == nil {
		return nil, fmt.Errorf("revision %s has no variant %q", recipe.Revision, recipe.Variant)
	}
	var clusters []string
	for cluster := range outline.Joined {
		if outline.Clusters[cluster] == recipe.Variant {
			clusters = append(clusters, cluster)
		}
	}
	slices.Sort(clusters)
	for _, cluster := range clusters {
		snapshot, err := r.joined(ctx, cluster, recipe.Revision)
		if err != nil {
			return nil, err
		}
		if rendering := snapshot.Renderings[recipe.Variant]; rendering != nil {
			return rendering, nil
		}
	}
	for _, cluster := range clusters {
		if err := r.join(ctx, cluster, recipe.Revision); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: revision %s has no variant %q", ErrAnotherRevision, recipe.Revision, recipe.Variant)
}

// Admit waits until a resource of this size may be written, and returns a function to call
// when the write is done.
func (r *Revisions) Admit(ctx context.Context) (func(), error) {
	r.mu.lock()
	size := 0
	for _, outline := range r.Outlines {
		for _, rendering := range outline.Renderings {
			size = max(size, rendering.Size)
		}
	}
	r.mu.unlock()
	return r.customizer.admissions.admit(ctx, int64(size))
}

// clusterNamed returns a cluster; nil if it does not exist.
func (r *Customizer) clusterNamed(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	if err != nil {
		return nil, nil //nolint:nilnil // a cluster that does not exist is not an error
	}
	return cluster, nil
}

// Adopt makes a snapshot of what Works hold, by cluster. The Works are not compact; clusters
// may share one. like is a snapshot of the same object: clusters whose replicas are fixed
// there keep theirs.
func (r *Customizer) Adopt(works map[string]*workv1alpha1.Work, like *revision.Snapshot) (*revision.Snapshot, error) {
	snapshot := &revision.Snapshot{Adopted: true, Renderings: map[string]*revision.Rendering{}, Clusters: map[string]string{}}
	type held struct {
		work          *workv1alpha1.Work
		fixedReplicas bool
	}
	variants := map[held]string{}
	for cluster, work := range works {
		what := held{work, like.FixesReplicasOn(cluster)}
		if variants[what] == "" {
			variant, rendering, err := r.adopted(work, what.fixedReplicas)
			if err != nil {
				return nil, err
			}
			variants[what], snapshot.Renderings[variant] = variant, rendering
		}
		snapshot.Clusters[cluster] = variants[what]
	}
	return snapshot, nil
}

// adopted returns what a Work holds, and a name for it that says the same on every cluster.
func (r *Customizer) adopted(work *workv1alpha1.Work, fixedReplicas bool) (variant string, rendering *revision.Rendering, err error) {
	object, resolution, err := render.Held(work)
	if err != nil {
		return "", nil, err //nolint:wrapcheck // it says which Work
	}
	uid, generation := render.OriginOf(object)
	manifest, err := render.Restored(object, uid, generation)
	if err != nil {
		return "", nil, err //nolint:wrapcheck // it says all
	}
	rendering = &revision.Rendering{Resolution: resolution, Overrides: render.Overrides(work), FixedReplicas: fixedReplicas}
	if rendering.Object, err = manifest.Encode(); err != nil {
		return "", nil, err //nolint:wrapcheck // it says all
	}
	variant = manifest.Revision
	if fixedReplicas {
		variant += ", with these replicas"
	}
	if len(rendering.Overrides) > 0 {
		// A rule that changes nothing on one cluster gives it the same content.
		variant += fmt.Sprintf(", overridden %x", sha256.Sum256([]byte(fmt.Sprint(rendering.Overrides))))
	}
	rendering.Hash, err = r.contentHash(object, fixedReplicas)
	return variant, rendering, err
}
