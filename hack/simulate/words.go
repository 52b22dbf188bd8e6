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

package simulate

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// isExplained checks what a row says that is not True and need not be.
func (w *World) isExplained(object cached.Object, target propagationv1alpha1.TargetCluster, row *propagationv1alpha1.ClusterStatus, resource *unstructured.Unstructured) error {
	switch row.Reason {
	case propagationv1alpha1.ReasonApplyFailed:
		remedies := w.remedies(target.Name, keyOfResource(object), object.GetSpec().ConflictResolution, resource)
		if len(remedies) > 0 && !slices.ContainsFunc(remedies, func(remedy string) bool { return strings.Contains(row.Message, remedy) }) {
			return violated("no remedy", "%s says of %s: %s, and names none of the remedies %q", titleOf(object), row.Name, row.Message, remedies)
		}
	case propagationv1alpha1.ReasonForbidden:
		return w.isNew(object, target, row, resource)
	}
	return nil
}

// remedies are what may help if a member refuses an object.
func (w *World) remedies(name string, key karmada.Key, resolution propagationv1alpha1.ConflictResolution, resource *unstructured.Unstructured) []string {
	member, remedies := w.karmada.Member(name), []string{}
	if _, hasNamespace := member.Runs(schemaNamespace, "", key.Namespace); key.Namespace != "" && !hasNamespace {
		remedies = append(remedies, "propagate the namespace, or create it there", "wait until it is gone")
	}
	if !member.Serves(key.GroupVersionKind) {
		remedies = append(remedies, "install its API there", "install it in the control plane and on the cluster")
	}
	if running, found := member.Runs(key.GroupVersionKind, key.Namespace, key.Name); found && !isManaged(running.Object) && resolution != propagationv1alpha1.ConflictOverwrite {
		remedies = append(remedies, "spec.conflictResolution: Overwrite")
	}
	if w.users.denied[name] {
		remedies = append(remedies, "change the resource or the webhook's policy")
	}
	if w.isFrozenThere(name, key, resource) {
		remedies = append(remedies, "delete it on the cluster", "undo the change, or, unless it holds data, delete the resource")
	}
	return remedies
}

// isNew checks that an account is not forbidden to propagate what its cluster already has:
// only what is new needs a permission.
func (w *World) isNew(object cached.Object, target propagationv1alpha1.TargetCluster, row *propagationv1alpha1.ClusterStatus, resource *unstructured.Unstructured) error {
	key := keyOfResource(object)
	held := w.truth.works[render.WorkKey(row.Name, key.Kind, key.Namespace, key.Name)]
	if held == nil || !isOurs(held.work) || held.work.DeletionTimestamp != nil || ownerOf(held.work) != titleOf(object) || !isRenderable(target, key) {
		return nil
	}
	generation := manifestOf(held.work).GetAnnotations()[workv1alpha2.ResourceTemplateGenerationAnnotationKey]
	same := generation == "" || generation == strconv.FormatInt(resource.GetGeneration(), 10)
	if same && w.differs(object, target, held, resource) == "" {
		return violated("forbidden too early", "%s says of %s: %s, but the Work already holds the same", titleOf(object), row.Name, row.Message)
	}
	return nil
}

// isMissed checks that no row of an object whose resource does not exist says that a Work
// is still to be written.
func (w *World) isMissed(ctx context.Context, object cached.Object) error {
	key := keyOfResource(object)
	for i := range object.GetStatus().Clusters {
		row := &object.GetStatus().Clusters[i]
		held := w.truth.works[render.WorkKey(row.Name, key.Kind, key.Namespace, key.Name)]
		if held == nil && w.isTarget(object, row.Name) && w.isReady(ctx, row.Name) && row.Reason == propagationv1alpha1.ReasonApplying {
			return violated("a wrong row", "%s says of %s: %s, but the resource does not exist", titleOf(object), row.Name, row.Message)
		}
	}
	return nil
}
