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
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/overridemanager"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Rendering is what a cluster is to get of a resource. It holds no content: the
// manifest is rendered again when it is written.
type Rendering struct {
	// Variant names what is rendered; empty for what all clusters share.
	Variant string
	// Revision is the revision of the manifest.
	Revision string
	// Overrides records the override policies that were applied.
	Overrides map[string]string
	// Reason and Message say why the cluster can get nothing; empty when it can.
	Reason, Message string
	// Field is the field of spec.clusters that the message is about; empty for none.
	Field string
	// Retry is when a failure that may pass is tried again; the zero time for
	// never.
	Retry time.Time
}

// isDue reports whether a failure is to be tried again.
func (r *Rendering) isDue(now time.Time) bool {
	return r != nil && !r.Retry.IsZero() && !now.Before(r.Retry)
}

// on is what a cluster is to get.
func (r *Resource) on(cluster string) Rendering {
	shared := r.Renderings[cluster]
	if shared == nil {
		return Rendering{Revision: r.Revision}
	}
	special := *shared
	if special.Field != "" {
		special.Message = fmt.Sprintf("spec.clusters, %s of %s: %s", special.Field, cluster, special.Message)
	}
	return special
}

// variants are what clusters get of a resource instead of what all share. Two
// clusters for which the spec asks the same and to which the same rules of
// override policies apply get the same, and it is rendered once. So a registry
// that one policy sets on 5,000 clusters is one variant.
type variants struct {
	// inputs is a fingerprint of all that renderings depend on beside the resource
	// and the spec: a rendering that is remembered holds as long as it does not
	// change. It is empty, as it mostly is, when there is nothing.
	inputs string
	// policies may concern the resource. What a variant is named after is their
	// order here.
	policies []client.Object
	// byName are the variants that a cluster gets, byCluster their names.
	byName    map[string]*variant
	byCluster map[string]string
}

// variant is what is done to a resource before it is rendered.
type variant struct {
	name string
	// everywhere and here are the override policies, with only the rules that
	// apply, and for any cluster.
	everywhere []policyv1alpha1.ClusterOverridePolicy
	here       []policyv1alpha1.OverridePolicy
	replicas   *int32
	overriders *policyv1alpha1.Overriders
	// resolution is what becomes of a conflict.
	resolution propagationv1alpha1.ConflictResolution
}

// customizer finds out what each cluster gets of a resource.
type customizer struct {
	// client reads Clusters and override policies.
	client client.Reader
	// interpreter revises replicas.
	interpreter *interpreter
	// localPrefixes begin the keys of labels and annotations that do not travel.
	localPrefixes []string
	// admissions bounds the memory that renderings and writes take.
	admissions admissions
}

// variantsOf sorts the clusters by what they get.
func (r *customizer) variantsOf(ctx context.Context, observed *Observed) (*variants, error) {
	policies, err := r.overridePolicies(ctx, observed)
	if err != nil {
		return nil, err
	}
	found := &variants{policies: policies, byName: map[string]*variant{}, byCluster: map[string]string{}}
	own := map[string]*propagationv1alpha1.TargetCluster{}
	for i := range observed.Spec.Clusters {
		if cluster := &observed.Spec.Clusters[i]; cluster.Replicas != nil || cluster.Overriders != nil {
			own[cluster.Name] = cluster
		}
	}
	found.inputs = r.renderingInputs(observed, policies, own)
	if len(policies) == 0 && len(own) == 0 && len(observed.Terms) == 0 {
		return found, nil
	}
	for _, target := range observed.Targets {
		if !observed.Clusters[target.Cluster].Exists {
			continue
		}
		if err := r.assign(ctx, found, observed, target.Cluster, own[target.Cluster]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// renderingInputs is the fingerprint of policies and of the interpreter.
func (r *customizer) renderingInputs(observed *Observed, policies []client.Object, own map[string]*propagationv1alpha1.TargetCluster) string {
	sum := sha256.New()
	interpreted := ptr.Deref(observed.Spec.PropagateDeps, false)
	for _, asked := range own {
		interpreted = interpreted || asked.Replicas != nil
	}
	if interpreted {
		fmt.Fprintln(sum, "interpreter", r.interpreter.epoch())
	} else if len(policies) == 0 {
		return ""
	}
	for _, policy := range policies {
		fmt.Fprintln(sum, policy.GetUID(), policy.GetResourceVersion())
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// assign finds the variant that a cluster gets, if it gets one.
func (r *customizer) assign(ctx context.Context, found *variants, observed *Observed, name string, asked *propagationv1alpha1.TargetCluster) error {
	cluster := &clusterv1alpha1.Cluster{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	key := []byte{}
	for i, policy := range found.policies {
		for j, rule := range rulesOf(policy) {
			if rule.TargetCluster == nil || util.ClusterMatches(cluster, *rule.TargetCluster) {
				key = fmt.Appendf(key, "%d.%d ", i, j)
			}
		}
	}
	if asked != nil && asked.Replicas != nil {
		key = fmt.Appendf(key, "replicas %d ", *asked.Replicas)
	}
	if asked != nil && asked.Overriders != nil {
		content, err := json.Marshal(asked.Overriders)
		if err != nil {
			return fmt.Errorf("encoding spec.clusters[].overriders of %s: %w", name, err)
		}
		key = fmt.Appendf(key, "overriders %x", sha256.Sum256(content))
	}
	resolution := observed.resolutionOn(name)
	if resolution != observed.Spec.ConflictResolution {
		key = fmt.Appendf(key, "on conflict %s ", resolution)
	}
	if len(key) == 0 {
		return nil
	}
	known := found.byName[string(key)]
	if known == nil {
		known = found.newVariant(string(key), cluster, asked)
		known.resolution = resolution
		found.byName[known.name] = known
	}
	found.byCluster[name] = known.name
	return nil
}

// newVariant is the variant of a cluster.
func (v *variants) newVariant(name string, cluster *clusterv1alpha1.Cluster, asked *propagationv1alpha1.TargetCluster) *variant {
	made := &variant{name: name}
	if asked != nil {
		made.replicas, made.overriders = asked.Replicas, asked.Overriders
	}
	for _, policy := range v.policies {
		rules := []policyv1alpha1.RuleWithCluster{}
		for _, rule := range rulesOf(policy) {
			if rule.TargetCluster == nil || util.ClusterMatches(cluster, *rule.TargetCluster) {
				rules = append(rules, policyv1alpha1.RuleWithCluster{Overriders: rule.Overriders})
			}
		}
		if len(rules) == 0 {
			continue
		}
		spec := policyv1alpha1.OverrideSpec{ResourceSelectors: specOf(policy).ResourceSelectors, OverrideRules: rules}
		meta := metav1.ObjectMeta{Namespace: policy.GetNamespace(), Name: policy.GetName()}
		if policy.GetNamespace() == "" {
			made.everywhere = append(made.everywhere, policyv1alpha1.ClusterOverridePolicy{ObjectMeta: meta, Spec: spec})
		} else {
			made.here = append(made.here, policyv1alpha1.OverridePolicy{ObjectMeta: meta, Spec: spec})
		}
	}
	return made
}

// specOf is the spec of an override policy of either kind.
func specOf(policy client.Object) *policyv1alpha1.OverrideSpec {
	switch policy := policy.(type) {
	case *policyv1alpha1.OverridePolicy:
		return &policy.Spec
	case *policyv1alpha1.ClusterOverridePolicy:
		return &policy.Spec
	default:
		return &policyv1alpha1.OverrideSpec{}
	}
}

// rulesOf are the rules of an override policy, also of one that has a single
// rule as it was written before there could be several.
func rulesOf(policy client.Object) []policyv1alpha1.RuleWithCluster {
	spec := specOf(policy)
	if len(spec.OverrideRules) > 0 {
		return spec.OverrideRules
	}
	return []policyv1alpha1.RuleWithCluster{{TargetCluster: spec.TargetCluster, Overriders: spec.Overriders}} //nolint:staticcheck // deprecated, and still applied by Karmada
}

// overridePolicies lists the policies that may concern the resource of an object.
func (r *customizer) overridePolicies(ctx context.Context, observed *Observed) ([]client.Object, error) {
	group, namespace := groupOfVersion(observed.Spec.Resource.APIVersion), observed.Owner.Namespace
	policies := []client.Object{}
	everywhere := &policyv1alpha1.ClusterOverridePolicyList{}
	if err := r.client.List(ctx, everywhere, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ClusterOverridePolicies: %w", err)
	}
	for i := range everywhere.Items {
		if concerns(&everywhere.Items[i].Spec, group) {
			policies = append(policies, &everywhere.Items[i])
		}
	}
	if namespace != "" {
		here := &policyv1alpha1.OverridePolicyList{}
		if err := r.client.List(ctx, here, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the OverridePolicies of namespace %s: %w", namespace, err)
		}
		for i := range here.Items {
			if concerns(&here.Items[i].Spec, group) {
				policies = append(policies, &here.Items[i])
			}
		}
	}
	slices.SortFunc(policies, func(a, b client.Object) int { return cmp.Compare(a.GetUID(), b.GetUID()) })
	return policies, nil
}

// concerns reports whether a policy may select a resource of an API group. More
// is not asked: overrides may change the labels that the next policy selects by.
func concerns(spec *policyv1alpha1.OverrideSpec, group string) bool {
	return len(spec.ResourceSelectors) == 0 || slices.ContainsFunc(spec.ResourceSelectors, func(selector policyv1alpha1.ResourceSelector) bool {
		return groupOfVersion(selector.APIVersion) == group
	})
}

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

func overrideFailed(message string) *Rendering {
	return &Rendering{Reason: propagationv1alpha1.ReasonOverrideFailed, Message: message}
}

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

// override changes an object as policies and the spec want it, and returns the
// annotations that record the policies.
func (v *variant) override(object *unstructured.Unstructured) (map[string]string, *Rendering) {
	policy := &culprit{}
	byCluster, byNamespace, err := overridemanager.New(&givenPolicies{everywhere: v.everywhere, here: v.here}, policy).ApplyOverridePolicies(object, "")
	if err != nil {
		return nil, overrideFailed(policy.prefix() + err.Error())
	}
	records, err := recordsOf(byCluster, byNamespace)
	if err != nil {
		return nil, overrideFailed(err.Error())
	}
	if v.overriders == nil {
		return records, nil
	}
	inline := policyv1alpha1.ClusterOverridePolicy{Spec: policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: *v.overriders}}}}
	if _, _, err := overridemanager.New(&givenPolicies{everywhere: []policyv1alpha1.ClusterOverridePolicy{inline}}, &culprit{}).ApplyOverridePolicies(object, ""); err != nil {
		failure := overrideFailed(err.Error())
		failure.Field = "overriders"
		return nil, failure
	}
	return records, nil
}

// recordsOf are the annotations that record the policies; nil for none.
func recordsOf(byCluster, byNamespace *overridemanager.AppliedOverrides) (map[string]string, error) {
	var records map[string]string
	for key, applied := range map[string]*overridemanager.AppliedOverrides{util.AppliedClusterOverrides: byCluster, util.AppliedOverrides: byNamespace} {
		if applied == nil {
			continue
		}
		content, err := applied.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("recording the override policies: %w", err)
		}
		if content == nil {
			continue
		}
		if records == nil {
			records = map[string]string{}
		}
		record := string(content)
		render.Intern(&record)
		records[key] = record
	}
	return records, nil
}

// culprit remembers which override policy failed; only the Event that Karmada
// would make of it names the policy.
type culprit struct {
	record.FakeRecorder

	policy string
}

// Eventf takes down the policy of an Event instead of sending it. The arguments
// are the namespace, for an OverridePolicy, the name, and the cluster.
func (c *culprit) Eventf(_ runtime.Object, _, _, _ string, arguments ...any) {
	switch len(arguments) {
	case 2:
		c.policy = fmt.Sprintf("ClusterOverridePolicy %s: ", arguments[0])
	case 3:
		c.policy = fmt.Sprintf("OverridePolicy %s/%s: ", arguments[0], arguments[1])
	}
}

func (c *culprit) prefix() string { return c.policy }

// givenPolicies presents override policies to Karmada's override manager as all
// that there are. Their rules are for any cluster, so no cluster is read either.
type givenPolicies struct {
	client.Client

	everywhere []policyv1alpha1.ClusterOverridePolicy
	here       []policyv1alpha1.OverridePolicy
}

// Get answers for the cluster.
func (p *givenPolicies) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// List answers a list of override policies.
func (p *givenPolicies) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *policyv1alpha1.ClusterOverridePolicyList:
		list.Items = p.everywhere
	case *policyv1alpha1.OverridePolicyList:
		list.Items = p.here
	}
	return nil
}

// sameIdentity tells, as an error, which part of a resource overrides have
// changed that is not theirs to change: Karmada finds the object on the member
// by it.
func sameIdentity(before, after *unstructured.Unstructured) error {
	for field, values := range map[string][2]string{
		"apiVersion":         {before.GetAPIVersion(), after.GetAPIVersion()},
		"kind":               {before.GetKind(), after.GetKind()},
		"metadata.name":      {before.GetName(), after.GetName()},
		"metadata.namespace": {before.GetNamespace(), after.GetNamespace()},
	} {
		if values[0] != values[1] {
			return fmt.Errorf("overrides must not change %s, here from %q to %q", field, values[0], values[1])
		}
	}
	switch {
	case !maps.Equal(reserved(before.GetLabels()), reserved(after.GetLabels())):
		return errors.New("overrides must not change labels of Karmada, those of karmada.io and its subdomains")
	case !maps.Equal(reserved(before.GetAnnotations()), reserved(after.GetAnnotations())):
		return errors.New("overrides must not change annotations of Karmada, those of karmada.io and its subdomains")
	case !slices.Equal(before.GetFinalizers(), after.GetFinalizers()):
		return errors.New("overrides must not change metadata.finalizers")
	}
	return nil
}

// reserved picks the labels or annotations that Karmada or this project acts on.
func reserved(values map[string]string) map[string]string {
	picked := map[string]string{}
	for key, value := range values {
		if domain, _, qualified := strings.Cut(key, "/"); qualified && isReservedGroup(domain) {
			picked[key] = value
		}
	}
	return picked
}

// isReservedGroup tells whether a group or a domain is Karmada's or our own.
func isReservedGroup(group string) bool {
	return group == "karmada.io" || strings.HasSuffix(group, ".karmada.io") || group == propagationv1alpha1.GroupName
}

// attributesOf are what override policies can select a cluster by.
func attributesOf(cluster *clusterv1alpha1.Cluster) string {
	return fmt.Sprint(cluster.Labels, cluster.Spec.Provider, cluster.Spec.Region, cluster.Spec.Zone, cluster.Spec.Zones)
}
