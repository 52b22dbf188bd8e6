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
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/overridemanager"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// overridePolicies lists the policies that may concern the resource of an object.
func (r *Customizer) overridePolicies(ctx context.Context, observed *decide.Observed) ([]client.Object, error) {
	group, namespace := render.GroupOf(observed.Spec.Resource.APIVersion), observed.Owner.Namespace
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

// concerns reports whether a policy may select a resource of an API group. It checks
// nothing else: overrides may change the labels that the next policy selects by.
func concerns(spec *policyv1alpha1.OverrideSpec, group string) bool {
	return len(spec.ResourceSelectors) == 0 || slices.ContainsFunc(spec.ResourceSelectors, func(selector policyv1alpha1.ResourceSelector) bool {
		return render.GroupOf(selector.APIVersion) == group
	})
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

// rulesOf are the rules of an override policy, including one in the deprecated
// format with a single rule.
func rulesOf(policy client.Object) []policyv1alpha1.RuleWithCluster {
	spec := specOf(policy)
	if len(spec.OverrideRules) > 0 {
		return spec.OverrideRules
	}
	return []policyv1alpha1.RuleWithCluster{{TargetCluster: spec.TargetCluster, Overriders: spec.Overriders}} //nolint:staticcheck // deprecated, and still applied by Karmada
}

// givenPolicies presents override policies to Karmada's override manager as if there
// were no others. Their rules are for any cluster, so no cluster is read either.
type givenPolicies struct {
	client.Client

	everywhere []policyv1alpha1.ClusterOverridePolicy
	here       []policyv1alpha1.OverridePolicy
}

// apply changes an object as the policies require.
//
// Karmada's override manager panics if the predicate of an image overrider names an
// item that a list does not have, and if parts of the object that it changes are not as
// those of a workload. That is a mistake in the policy like any other.
func (p *givenPolicies) apply(object *unstructured.Unstructured, policy *culprit) (byCluster, byNamespace *overridemanager.AppliedOverrides, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = p.panicked(object, policy, cause)
		}
	}()
	return overridemanager.New(p, policy).ApplyOverridePolicies(object, "") //nolint:wrapcheck // it says all
}

// panicked returns why the override manager has panicked at an object, and records the
// policy. The object is as the overriders before the culprit have left it.
func (p *givenPolicies) panicked(object *unstructured.Unstructured, policy *culprit, cause any) error {
	for i := range p.everywhere {
		for _, rule := range rulesOf(&p.everywhere[i]) {
			if err := panicOf(object, &rule.Overriders); err != nil {
				policy.Eventf(nil, "", "", "", p.everywhere[i].Name, "")
				return err
			}
		}
	}
	for i := range p.here {
		for _, rule := range rulesOf(&p.here[i]) {
			if err := panicOf(object, &rule.Overriders); err != nil {
				policy.Eventf(nil, "", "", "", p.here[i].Namespace, p.here[i].Name, "")
				return err
			}
		}
	}
	policy.policy = ""
	return cannotApply(cause)
}

func cannotApply(cause any) error { return fmt.Errorf("Karmada cannot apply it: %v", cause) } //nolint:staticcheck // a name

// panicOf returns why the override manager panics if it applies overriders to an object,
// and nil if it does not.
func panicOf(object *unstructured.Unstructured, overriders *policyv1alpha1.Overriders) error {
	for _, image := range overriders.ImageOverrider {
		cause := causeOf(object, policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{image}})
		if cause != nil && image.Predicate != nil {
			return fmt.Errorf("imageOverrider: predicate.path %s names nothing in the resource (%v)", image.Predicate.Path, cause)
		}
	}
	if cause := causeOf(object, *overriders); cause != nil {
		return cannotApply(cause)
	}
	return nil
}

// causeOf returns what the override manager panics with if it applies overriders to a copy
// of an object.
func causeOf(object *unstructured.Unstructured, overriders policyv1alpha1.Overriders) (cause any) {
	defer func() { cause = recover() }()
	alone := policyv1alpha1.ClusterOverridePolicy{Spec: policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: overriders}}}}
	policies := &givenPolicies{everywhere: []policyv1alpha1.ClusterOverridePolicy{alone}}
	_, _, _ = overridemanager.New(policies, &culprit{}).ApplyOverridePolicies(object.DeepCopy(), "") // an error is no panic
	return nil
}

// Get returns the cluster.
func (p *givenPolicies) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// List returns a list of override policies.
func (p *givenPolicies) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *policyv1alpha1.ClusterOverridePolicyList:
		list.Items = p.everywhere
	case *policyv1alpha1.OverridePolicyList:
		list.Items = p.here
	}
	return nil
}

// culprit remembers which override policy failed. Only the Event that Karmada would
// send names the policy.
type culprit struct {
	record.FakeRecorder

	policy string
}

// Eventf records the policy of an Event instead of sending the Event. The arguments
// are the namespace (of an OverridePolicy), the name and the cluster.
func (c *culprit) Eventf(_ runtime.Object, _, _, _ string, arguments ...any) {
	switch len(arguments) {
	case 2:
		c.policy = fmt.Sprintf("ClusterOverridePolicy %s: ", arguments[0])
	case 3:
		c.policy = fmt.Sprintf("OverridePolicy %s/%s: ", arguments[0], arguments[1])
	}
}

func (c *culprit) prefix() string { return c.policy }

// recordsOf returns the annotations that record the policies; nil if there are none.
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

// nameOf names an applied OverridePolicy if there is only one.
func nameOf(applied *overridemanager.AppliedOverrides, policies []policyv1alpha1.OverridePolicy) string {
	name := policies[0].Name
	if applied != nil && len(applied.AppliedItems) > 0 {
		name = applied.AppliedItems[0].PolicyName
	}
	return fmt.Sprintf("OverridePolicy %s/%s: ", policies[0].Namespace, name)
}
