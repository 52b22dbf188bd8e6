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
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// Some resources decide who may do what. The API server of the control plane
// requires more than write permission for them: nobody can bind a role that they do
// not hold, or raise their own quota. Overrides are applied after this check, with
// Karmada's permissions on the member. Therefore, what users of a namespace can
// write (overriders of a spec, and OverridePolicies) must not change these
// resources. ClusterOverridePolicies may: they belong to administrators, as these
// resources do.
//
// Intentionally left out:
//   - ServiceAccount: its annotations may name a cloud identity, but whoever may
//     name one here may write one; to have another identity in each cluster is what
//     overriders are for.
//   - workloads: a user who may create one may ask for any serviceAccountName.
//   - CertificateSigningRequest: it is never propagated.
//   - TokenReview, SubjectAccessReview and their like are stored nowhere.
//   - kinds of other projects that grant something: there is no end of them. An
//     admission policy can refuse overriders for them.
//
// The rule of PropagationSpec in apis/propagation/v1alpha1 has the same lists.

// guardedGroups are API groups whose resources must not differ between clusters
// because of what users of a namespace can write.
var guardedGroups = map[string]string{
	// Roles and bindings: the API server checks escalation.
	"rbac.authorization.k8s.io": grantsPermissions,
	// The same in OpenShift, where rbac resources appear under this group too.
	"authorization.openshift.io": grantsPermissions,
	// SecurityContextConstraints name the users whose Pods they admit.
	"security.openshift.io": grantsPermissions,
	// Groups and their members.
	"user.openshift.io": grantsPermissions,
	// ClusterTrustBundles: the API server checks the right to attest for a signer.
	"certificates.k8s.io": grantsPermissions,
	// Webhooks see and change what others write; policies decide what they may.
	"admissionregistration.k8s.io": grantsPermissions,
	// An APIService redirects all requests to a group.
	"apiregistration.k8s.io": grantsPermissions,
	// A conversion webhook sees and changes all objects of the kind.
	"apiextensions.k8s.io": grantsPermissions,
}

// guardedKinds are such kinds in the core group.
var guardedKinds = map[string]string{
	// Its labels decide which Pod Security level, admission webhooks and network
	// policies apply to it.
	"Namespace": limits,
	// They limit users of the namespace, who can only read them.
	"ResourceQuota": limits,
	"LimitRange":    limits,
}

const (
	grantsPermissions = "grants permissions"
	limits            = "limits what users of a namespace may do"
)

// guarded explains why what users of a namespace can write must not override the
// resources of a kind; empty if it may.
func guarded(kind schema.GroupVersionKind) string {
	why := guardedGroups[kind.Group]
	if kind.Group == corev1.GroupName {
		why = guardedKinds[kind.Kind]
	}
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s %s and must be the same on every cluster; use a ClusterOverridePolicy", kind.Kind, why)
}

// overrideGuarded applies only ClusterOverridePolicies, and returns a failure if
// anything else would change the object.
func (v *variant) overrideGuarded(object *unstructured.Unstructured, why string) (map[string]string, *decide.Rendering) {
	if v.overriders != nil {
		failure := overrideFailed(why)
		failure.Field = "overriders"
		return nil, failure
	}
	records, failure := (&variant{everywhere: v.everywhere}).override(object)
	if failure != nil || len(v.here) == 0 {
		return records, failure
	}
	changed, policies := object.DeepCopy(), &givenPolicies{here: v.here}
	_, applied, err := policies.apply(changed, &culprit{})
	if err == nil && equality.Semantic.DeepEqual(object.Object, changed.Object) {
		// A policy on the registry of images, for example, has no effect here.
		return records, nil
	}
	return nil, overrideFailed(nameOf(applied, v.here) + why)
}
