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
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// override changes an object as policies and the spec require, and returns the
// annotations that record the policies.
func (v *variant) override(object *unstructured.Unstructured) (map[string]string, *decide.Rendering) {
	policy := &culprit{}
	byCluster, byNamespace, err := (&givenPolicies{everywhere: v.everywhere, here: v.here}).apply(object, policy)
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
	if _, _, err := (&givenPolicies{everywhere: []policyv1alpha1.ClusterOverridePolicy{inline}}).apply(object, &culprit{}); err != nil {
		failure := overrideFailed(err.Error())
		failure.Field = "overriders"
		return nil, failure
	}
	return records, nil
}

func overrideFailed(message string) *decide.Rendering {
	return &decide.Rendering{Reason: propagationv1alpha1.ReasonOverrideFailed, Message: message}
}

// sameIdentity returns an error if overrides have changed a part of a resource that
// they must not change, because Karmada uses it to find the object on the member.
func sameIdentity(before, after *unstructured.Unstructured) error {
	// In this order: the same mistake always gives the same message.
	for _, field := range []struct{ name, before, after string }{
		{"apiVersion", before.GetAPIVersion(), after.GetAPIVersion()},
		{"kind", before.GetKind(), after.GetKind()},
		{"metadata.name", before.GetName(), after.GetName()},
		{"metadata.namespace", before.GetNamespace(), after.GetNamespace()},
	} {
		if field.before != field.after {
			return fmt.Errorf("overrides must not change %s, here from %q to %q", field.name, field.before, field.after)
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

// reserved selects the labels or annotations that Karmada or this project acts on.
func reserved(values map[string]string) map[string]string {
	picked := map[string]string{}
	for key, value := range values {
		if domain, _, qualified := strings.Cut(key, "/"); qualified && decide.IsReservedGroup(domain) {
			picked[key] = value
		}
	}
	return picked
}
