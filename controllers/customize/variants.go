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
	"encoding/hex"
	"encoding/json"
	"fmt"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// Customizer determines what each cluster gets of a resource.
type Customizer struct {
	// client reads Clusters and override policies.
	client client.Reader
	// interpreter revises replicas.
	interpreter *Interpreter
	// localPrefixes are the prefixes of the keys of labels and annotations that are
	// not propagated.
	localPrefixes []string
	// admissions limits the memory that renderings and writes take.
	admissions admissions
}

// Variants are what clusters get instead of the shared manifest. Clusters with the
// same settings in the spec and the same applicable rules of override policies share
// a variant, which is rendered once. A registry that one policy sets on 5,000
// clusters is therefore one variant.
type Variants struct {
	// Inputs is a fingerprint of everything that renderings depend on in addition to
	// the resource and the spec. A remembered rendering is valid until it changes.
	// It is usually empty: then renderings depend on nothing else.
	Inputs string
	// policies are those that may concern the resource. The name of a variant
	// depends on their order here.
	policies []client.Object
	// ByName are the variants that clusters get. byCluster are their names.
	ByName    map[string]*variant
	byCluster map[string]string
}

// variant is what is done to a resource before it is rendered.
type variant struct {
	name string
	// everywhere and here are the override policies with only the applicable rules,
	// changed to match any cluster.
	everywhere []policyv1alpha1.ClusterOverridePolicy
	here       []policyv1alpha1.OverridePolicy
	replicas   *int32
	overriders *policyv1alpha1.Overriders
	// resolution is the conflict resolution.
	resolution propagationv1alpha1.ConflictResolution
}

// New returns a Customizer that reads Clusters and override policies from a client.
// localPrefixes are the prefixes of the keys of labels and annotations that are not
// propagated.
func New(client client.Reader, interpreter *Interpreter, localPrefixes []string) *Customizer {
	return &Customizer{client: client, interpreter: interpreter, localPrefixes: localPrefixes, admissions: newAdmissions()}
}

// VariantsOf groups the clusters by what they get.
func (r *Customizer) VariantsOf(ctx context.Context, observed *decide.Observed) (*Variants, error) {
	policies, err := r.overridePolicies(ctx, observed)
	if err != nil {
		return nil, err
	}
	found := &Variants{policies: policies, ByName: map[string]*variant{}, byCluster: map[string]string{}}
	own := map[string]*propagationv1alpha1.TargetCluster{}
	for i := range observed.Spec.Clusters {
		if cluster := &observed.Spec.Clusters[i]; cluster.Replicas != nil || cluster.Overriders != nil {
			own[cluster.Name] = cluster
		}
	}
	found.Inputs = r.renderingInputs(policies, isInterpreted(observed, own))
	if len(policies) == 0 && len(own) == 0 && len(observed.Terms) == 0 {
		return found, nil
	}
	// One variable for all: there may be thousands, and nothing of it is kept.
	cluster := &clusterv1alpha1.Cluster{}
	for _, target := range observed.Targets {
		if !observed.Clusters[target.Cluster].Exists {
			continue
		}
		*cluster = clusterv1alpha1.Cluster{}
		if err := r.client.Get(ctx, client.ObjectKey{Name: target.Cluster}, cluster); err != nil {
			return nil, fmt.Errorf("reading Cluster %s: %w", target.Cluster, err)
		}
		if err := found.assign(observed, cluster, own[target.Cluster]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// RolloutInputs is a fingerprint of what a rollout depends on in addition to the resource
// and the spec.
func (r *Customizer) RolloutInputs(ctx context.Context, observed *decide.Observed) (string, error) {
	policies, err := r.overridePolicies(ctx, observed)
	if err != nil {
		return "", err
	}
	return "rollout " + r.renderingInputs(policies, true), nil
}

// isInterpreted reports whether renderings depend on Karmada's interpreter.
func isInterpreted(observed *decide.Observed, own map[string]*propagationv1alpha1.TargetCluster) bool {
	interpreted := ptr.Deref(observed.Spec.PropagateDeps, false)
	for _, asked := range own {
		interpreted = interpreted || asked.Replicas != nil
	}
	return interpreted
}

// renderingInputs is the fingerprint of policies and, if it is used, of the interpreter.
func (r *Customizer) renderingInputs(policies []client.Object, interpreted bool) string {
	sum := sha256.New()
	if interpreted {
		fmt.Fprintln(sum, "interpreter", r.interpreter.Epoch())
	} else if len(policies) == 0 {
		return ""
	}
	for _, policy := range policies {
		fmt.Fprintln(sum, policy.GetUID(), policy.GetResourceVersion())
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// assign determines the variant that a cluster gets, if any.
func (v *Variants) assign(observed *decide.Observed, cluster *clusterv1alpha1.Cluster, asked *propagationv1alpha1.TargetCluster) error {
	name, key := cluster.Name, []byte{}
	for i, policy := range v.policies {
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
	resolution := observed.ResolutionOn(name)
	if resolution != observed.Spec.ConflictResolution {
		key = fmt.Appendf(key, "on conflict %s ", resolution)
	}
	if len(key) == 0 {
		return nil
	}
	known := v.ByName[string(key)]
	if known == nil {
		known = v.newVariant(string(key), cluster, asked)
		known.resolution = resolution
		v.ByName[known.name] = known
	}
	v.byCluster[name] = known.name
	return nil
}

// newVariant is the variant of a cluster.
func (v *Variants) newVariant(name string, cluster *clusterv1alpha1.Cluster, asked *propagationv1alpha1.TargetCluster) *variant {
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

// AttributesOf are the attributes by which override policies can select a cluster.
func AttributesOf(cluster *clusterv1alpha1.Cluster) string {
	return fmt.Sprint(cluster.Labels, cluster.Spec.Provider, cluster.Spec.Region, cluster.Spec.Zone, cluster.Spec.Zones)
}
