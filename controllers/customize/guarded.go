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

	"github.com/karmada-io/karmada/pkg/util/overridemanager"

	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// Some resources decide who may do what. The API server of the control plane asks
// more of whoever writes them than the right to write: nobody can bind a role that
// he does not hold, or raise his own quota. Overrides are applied after it was
// asked, with the rights of Karmada on the member. So what a namespace's users can
// write, overriders of a spec and OverridePolicies, must not change them.
// ClusterOverridePolicies may: they belong to administrators, as these resources do.
//
// Left out on purpose:
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
// by what a namespace's users can write.
var guardedGroups = map[string]string{
	// Roles and bindings: the API server checks escalation.
	"rbac.authorization.k8s.io": grantsPermissions,
	// The same in OpenShift, where rbac resources appear under this group too.
	"authorization.openshift.io": grantsPermissions,
	// SecurityContextConstraints name the users whose Pods they let through.
	"security.openshift.io": grantsPermissions,
	// Groups and their members.
	"user.openshift.io": grantsPermissions,
	// ClusterTrustBundles: the API server checks the right to attest for a signer.
	"certificates.k8s.io": grantsPermissions,
	// Webhooks see and change what others write; policies decide what they may.
	"admissionregistration.k8s.io": grantsPermissions,
	// An APIService has all requests to a group sent elsewhere.
	"apiregistration.k8s.io": grantsPermissions,
	// A conversion webhook sees and changes all objects of the kind.
	"apiextensions.k8s.io": grantsPermissions,
}

// guardedKinds are such kinds of the core group.
var guardedKinds = map[string]string{
	// Its labels decide which Pod Security level, admission webhooks and network
	// policies hold in it.
	"Namespace": limits,
	// They bound what users of the namespace take, who can read them only.
	"ResourceQuota": limits,
	"LimitRange":    limits,
}

const (
	grantsPermissions = "grants permissions"
	limits            = "limits what users of a namespace may do"
)

// guarded says why the resources of a kind must not be overridden by what a
// namespace's users can write; empty when they may.
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

// overrideGuarded applies ClusterOverridePolicies alone, and returns a failure when
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
	_, applied, err := overridemanager.New(policies, &culprit{}).ApplyOverridePolicies(changed, "")
	if err == nil && equality.Semantic.DeepEqual(object.Object, changed.Object) {
		// A registry for all images, for example, has nothing to say here.
		return records, nil
	}
	return nil, overrideFailed(nameOf(applied, v.here) + why)
}
