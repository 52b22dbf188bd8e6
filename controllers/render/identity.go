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

package render

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/karmada-io/karmada/pkg/util"
)

// identityLength is the length of an identity: 48 bits in base64.
const identityLength = 8

// Identity is a short name of an object within its namespace. The name of a Work
// does not distinguish kinds with the same name in two groups, or names that differ
// only in case.
func Identity(kind schema.GroupKind, name string) string {
	sum := sha256.Sum256([]byte(kind.Group + "/" + kind.Kind + "/" + name))
	return base64.RawURLEncoding.EncodeToString(sum[:identityLength*6/8])
}

var namespaceKind = schema.GroupKind{Group: corev1.GroupName, Kind: "Namespace"}

// irreplaceableKinds are the built-in kinds that hold data or other objects:
// deleting one of them deletes what it holds.
var irreplaceableKinds = sets.New(
	namespaceKind,
	schema.GroupKind{Group: corev1.GroupName, Kind: util.PersistentVolumeClaimKind},
	schema.GroupKind{Group: corev1.GroupName, Kind: util.PersistentVolumeKind},
	schema.GroupKind{Group: "apiextensions.k8s.io", Kind: util.CRDKind},
)

// isIrreplaceable reports whether an object must not be deleted and re-created. It
// is unknown what a custom resource represents; it may be a database.
func isIrreplaceable(object *unstructured.Unstructured) bool {
	kind := object.GroupVersionKind().GroupKind()
	if irreplaceableKinds.Has(kind) || !isBuiltIn(kind.Group) {
		return true
	}
	if kind != (schema.GroupKind{Group: appsv1.GroupName, Kind: util.StatefulSetKind}) {
		return false
	}
	claims, _, _ := unstructured.NestedSlice(object.Object, "spec", "volumeClaimTemplates")
	return len(claims) > 0
}

// isBuiltIn reports whether the API group is one of Kubernetes itself, whose names
// have no dot or end in .k8s.io. Groups of custom resources that are developed
// under k8s.io count as custom, except those that Kubernetes serves.
func isBuiltIn(group string) bool {
	return !strings.Contains(group, ".") || builtInGroups.Has(group)
}

var builtInGroups = sets.New(
	"admissionregistration.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io",
	"events.k8s.io", "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io",
	"resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
)
