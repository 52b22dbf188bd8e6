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
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/controllers/revision"
)

// InputOf returns what a user asks for with a resource, for a rollout.
func (r *Customizer) InputOf(ctx context.Context, observed *decide.Observed, template *unstructured.Unstructured) (*revision.Input, error) {
	policies, err := r.overridePolicies(ctx, observed)
	if err != nil {
		return nil, err
	}
	bare, err := revision.Bare(template)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says all
	}
	input := &revision.Input{
		Resource:   bare,
		Origin:     revision.Origin{UID: template.GetUID(), Generation: template.GetGeneration()},
		Resolution: observed.Spec.ConflictResolution,
		Policies:   selecting(policies, template),
	}
	for i := range observed.Spec.Clusters {
		if cluster := &observed.Spec.Clusters[i]; cluster.Overriders != nil {
			if input.Overriders == nil {
				input.Overriders = map[string]*policyv1alpha1.Overriders{}
			}
			input.Overriders[cluster.Name] = cluster.Overriders
		}
	}
	return input, nil
}

// selecting returns the policies that select a resource. A change to any other policy is
// no new revision.
func selecting(policies []client.Object, template *unstructured.Unstructured) []revision.Policy {
	var selected []revision.Policy
	relabeled := false
	for _, policy := range policies {
		relabeled = relabeled || relabels(specOf(policy))
	}
	for _, policy := range policies {
		spec := specOf(policy)
		if len(spec.ResourceSelectors) > 0 && !selects(spec.ResourceSelectors, template, relabeled) {
			continue
		}
		selected = append(selected, revision.Policy{Namespace: policy.GetNamespace(), Name: policy.GetName(), Spec: *spec})
	}
	return revision.Sorted(selected)
}

// selects reports whether a selector matches a resource. If a policy may change labels,
// the next one may select by the new labels.
func selects(selectors []policyv1alpha1.ResourceSelector, template *unstructured.Unstructured, relabeled bool) bool {
	for i := range selectors {
		selector := selectors[i]
		if relabeled {
			selector.LabelSelector = nil
		}
		if util.ResourceMatches(template, selector) {
			return true
		}
	}
	return false
}

// relabels reports whether a policy may change the labels of a resource.
func relabels(spec *policyv1alpha1.OverrideSpec) bool {
	for _, rule := range rulesOf(&policyv1alpha1.ClusterOverridePolicy{Spec: *spec}) {
		if len(rule.Overriders.LabelsOverrider) > 0 || len(rule.Overriders.Plaintext) > 0 || len(rule.Overriders.FieldOverrider) > 0 {
			return true
		}
	}
	return false
}

// HashOf identifies what a user asks for. Only the overriders of clusters that count are
// included.
func (r *Customizer) HashOf(input *revision.Input, counts func(cluster string) bool) (string, error) {
	template, err := input.Template()
	if err != nil {
		return "", err //nolint:wrapcheck // it says all
	}
	object, err := render.Canonical(template, r.localPrefixes...)
	if err != nil {
		return "", err //nolint:wrapcheck // it says all
	}
	if object, err = r.unscaled(object); err != nil {
		return "", err
	}
	return input.Hash(object.Object, counts) //nolint:wrapcheck // cannot fail for what was decoded from JSON
}

// Replicas returns the replicas of an object, and whether Karmada's interpreter can read
// and revise them.
func (r *Customizer) Replicas(object *unstructured.Unstructured) (int64, bool, error) {
	if !r.scales(object.GroupVersionKind()) {
		return 0, false, nil
	}
	replicas, _, err := r.interpreter.GetReplicas(object)
	if err != nil {
		return 0, false, fmt.Errorf("reading the replicas of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return int64(replicas), true, nil
}

func (r *Customizer) scales(gvk schema.GroupVersionKind) bool {
	return r.interpreter.HookEnabled(gvk, configv1alpha1.InterpreterOperationReviseReplica) &&
		r.interpreter.HookEnabled(gvk, configv1alpha1.InterpreterOperationInterpretReplica)
}

// unscaled returns an object with a number of replicas that is always the same.
func (r *Customizer) unscaled(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !r.scales(object.GroupVersionKind()) {
		return object, nil
	}
	return r.scaled(object, 1)
}

func (r *Customizer) scaled(object *unstructured.Unstructured, replicas int64) (*unstructured.Unstructured, error) {
	revised, err := r.interpreter.ReviseReplica(object, replicas)
	if err != nil {
		return nil, &replicasError{what: "revising the replicas of " + object.GetKind() + " " + object.GetName(), err: err}
	}
	return revised, nil
}

// replicasError reports that the replicas of an object cannot be revised.
type replicasError struct {
	what string
	err  error
}

func (e *replicasError) Error() string { return fmt.Sprintf("%s: %v", e.what, e.err) }

func (e *replicasError) Unwrap() error { return e.err }

// Snapshot renders what all targets get of an input.
func (r *Customizer) Snapshot(ctx context.Context, observed *decide.Observed, input *revision.Input) (*revision.Snapshot, error) {
	snapshot := &revision.Snapshot{Input: input, Renderings: map[string]*revision.Rendering{}, Clusters: make(map[string]string, len(observed.Targets))}
	renderer, err := r.rendererOf(input)
	if err != nil {
		return nil, err
	}
	done, err := r.admissions.admit(ctx, renderer.size)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, target := range observed.Targets {
		if err := r.join(ctx, snapshot, renderer, target.Cluster, input.Overriders[target.Cluster]); err != nil {
			return nil, err
		}
	}
	return snapshot, nil
}

// rendererOf returns a renderer of an input.
func (r *Customizer) rendererOf(input *revision.Input) (*Renderer, error) {
	template, err := input.Template()
	if err != nil {
		return nil, err //nolint:wrapcheck // it says all
	}
	found := &Variants{ByName: map[string]*variant{}, byCluster: map[string]string{}}
	for _, policy := range input.Policies {
		found.policies = append(found.policies, policyOf(policy))
	}
	return &Renderer{customizer: r, template: template, size: sizeOf(template.Object), resolution: input.Resolution, variants: found}, nil
}

// policyOf returns a policy as the API has it.
func policyOf(policy revision.Policy) client.Object {
	meta := metav1.ObjectMeta{Namespace: policy.Namespace, Name: policy.Name}
	if policy.Namespace == "" {
		return &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: meta, Spec: policy.Spec}
	}
	return &policyv1alpha1.OverridePolicy{ObjectMeta: meta, Spec: policy.Spec}
}

// join determines what a cluster gets of a snapshot, and renders that if no other cluster
// gets the same. A cluster that does not exist is left out.
func (r *Customizer) join(ctx context.Context, snapshot *revision.Snapshot, renderer *Renderer, name string, overriders *policyv1alpha1.Overriders) error {
	cluster, err := r.clusterNamed(ctx, name)
	if err != nil || cluster == nil {
		return err
	}
	asked := &propagationv1alpha1.TargetCluster{Name: name, Overriders: overriders}
	terms := &decide.Observed{Spec: &propagationv1alpha1.PropagationSpec{ConflictResolution: snapshot.Input.Resolution}}
	if err := renderer.variants.assign(terms, cluster, asked); err != nil {
		return err
	}
	variant := renderer.variants.byCluster[name]
	if snapshot.Renderings[variant] == nil {
		rendering, err := renderer.stored(variant)
		if err != nil {
			return err
		}
		snapshot.Renderings[variant] = rendering
	}
	snapshot.Clusters[name] = variant
	return nil
}

// stored renders a variant in the form in which a snapshot keeps it. An error means that
// no cluster can get anything.
func (r *Renderer) stored(name string) (*revision.Rendering, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rendering := &revision.Rendering{Resolution: r.resolution}
	object := r.template
	if name != "" {
		changed, records, failure := r.apply(r.variants.ByName[name])
		if failure != nil {
			return &revision.Rendering{Reason: failure.Reason, Message: failure.Message, Field: failure.Field}, nil
		}
		object, rendering.Overrides = changed, records
	}
	manifest, err := r.manifestOf(object, r.resolution)
	if err != nil && name != "" {
		failure := overrideFailed("after overrides: " + err.Error())
		return &revision.Rendering{Reason: failure.Reason, Message: failure.Message}, nil
	}
	if err != nil {
		return nil, err
	}
	if rendering.Object, err = manifest.Encode(); err != nil {
		return nil, err //nolint:wrapcheck // it says all
	}
	return rendering, r.identify(rendering, name)
}

// identify sets the hash of the rendering of a variant, and whether its replicas are fixed.
func (r *Renderer) identify(rendering *revision.Rendering, name string) error {
	replicas, scales, err := r.customizer.Replicas(r.template)
	if err != nil {
		return err
	}
	if scales {
		if rendering.FixedReplicas, err = r.fixesReplicas(name, replicas); err != nil {
			return err
		}
	}
	object, err := render.Stored(rendering.Object)
	if err != nil {
		return err //nolint:wrapcheck // it says all
	}
	rendering.Hash, err = r.customizer.contentHash(object, rendering.FixedReplicas)
	return err
}

// fixesReplicas reports whether the overrides of a variant set the replicas. They may set
// those that the resource has now, so that only other ones show it.
func (r *Renderer) fixesReplicas(name string, replicas int64) (bool, error) {
	if name == "" {
		return false, nil
	}
	other, err := r.customizer.scaled(r.template.DeepCopy(), replicas+1)
	if err != nil {
		return false, err
	}
	changed, _, failure := r.applyTo(other, r.variants.ByName[name])
	if failure != nil {
		return true, nil
	}
	after, _, err := r.customizer.Replicas(changed)
	return after != replicas+1, err
}

// contentHash identifies what a stored object is, wherever it was read from. Its replicas
// count only if they are fixed.
func (r *Customizer) contentHash(object *unstructured.Unstructured, fixed bool) (string, error) {
	object = object.DeepCopy()
	if !fixed {
		var err error
		if object, err = r.unscaled(object); err != nil {
			return "", err
		}
	}
	manifest, err := render.Restored(object, "", 0)
	if err != nil {
		return "", err //nolint:wrapcheck // it says all
	}
	return manifest.Revision, nil
}
