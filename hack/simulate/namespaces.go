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
	"bytes"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// team is a Namespace that users propagate. Karmada synchronizes it, or not.
var team = propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "Namespace", Name: "team"}

// isSynchronized reports whether Karmada puts a Namespace on all members.
func isSynchronized(resource *unstructured.Unstructured) bool {
	return resource != nil && resource.GroupVersionKind() == schemaNamespace && resource.GetDeletionTimestamp() == nil &&
		resource.GetLabels()[policyv1alpha1.NamespaceSkipAutoPropagationLabel] != "true"
}

// isClusterWide reports whether a cluster-wide object may name a resource.
func isClusterWide(key karmada.Key) bool {
	return key.Kind == clusterRoleKind.Kind || key.Kind == team.Kind
}

// isClaimed reports whether a policy, or Karmada itself, propagates a resource.
func isClaimed(resource *unstructured.Unstructured) bool {
	return resource.GetLabels()[policyv1alpha1.PropagationPolicyPermanentIDLabel] != "" || isSynchronized(resource)
}

// isRewritten reports whether Karmada has put its own manifest into a Work. It does not
// say how conflicts are resolved.
func isRewritten(work *workv1alpha1.Work) bool {
	manifests := work.Spec.Workload.Manifests
	return len(manifests) == 1 && !bytes.Contains(manifests[0].Raw, []byte(workv1alpha2.ResourceConflictResolutionAnnotation))
}

// isHandedOver reports whether a Work of the Namespace is now one of Karmada.
func isHandedOver(held *holding, work *workv1alpha1.Work) bool {
	owner := metav1.GetControllerOf(work)
	return held.where.key == keyNamed(team, "") && owner != nil && owner.Kind == team.Kind
}

// changeNamespace does the next thing in the life of the Namespace: it is created so that
// Karmada does not synchronize it, the cluster-wide object names it, Karmada synchronizes
// it from then on, and it goes.
func (u *users) changeNamespace(ctx context.Context) (string, error) {
	space := named(team, "")
	err := u.w.plane.Get(ctx, keyOf(space), space)
	switch object := u.w.truth.desired.objects[titleOf(anObject(clusterWide))]; {
	case apierrors.IsNotFound(err):
		space = named(team, "")
		util.MergeLabel(space, policyv1alpha1.NamespaceSkipAutoPropagationLabel, "true")
		return "creates the Namespace, which Karmada does not synchronize", u.w.plane.Create(ctx, space) //nolint:wrapcheck // act wraps it
	case err != nil:
		return "", err //nolint:wrapcheck // act wraps it
	case isSynchronized(space) && u.w.choices.oneIn(2):
		return "deletes the Namespace", u.w.plane.Delete(ctx, space) //nolint:wrapcheck // act wraps it
	case object == nil || object.GetSpec().Resource != team:
		return u.nameNamespace(ctx)
	}
	return u.skipNamespace(ctx)
}

// nameNamespace has the cluster-wide object name the Namespace.
func (u *users) nameNamespace(ctx context.Context) (string, error) {
	object := anObject(clusterWide)
	err := u.w.plane.Get(ctx, keyOf(object), object)
	object.GetSpec().Resource = team
	if apierrors.IsNotFound(err) {
		object.GetSpec().Clusters = listOfClusters(u.some())
		return "creates " + titleOf(object) + " of the Namespace", u.w.plane.Create(ctx, object) //nolint:wrapcheck // act wraps it
	}
	if err != nil {
		return "", err //nolint:wrapcheck // act wraps it
	}
	return "has " + titleOf(object) + " name the Namespace", u.w.plane.Update(ctx, object) //nolint:wrapcheck // act wraps it
}

// skipNamespace changes whether Karmada synchronizes the Namespace. If it does from now
// on, the object may withdraw it at the same time.
func (u *users) skipNamespace(ctx context.Context) (string, error) {
	object, skipped := named(team, ""), false
	err := u.changed(ctx, object, func() error {
		if skipped = isSynchronized(object); skipped {
			util.MergeLabel(object, policyv1alpha1.NamespaceSkipAutoPropagationLabel, "true")
		} else {
			util.RemoveLabels(object, policyv1alpha1.NamespaceSkipAutoPropagationLabel)
		}
		return nil
	})
	what := fmt.Sprintf("has Karmada not synchronize the Namespace: %t", skipped)
	if err != nil || skipped {
		return what, err
	}
	switch u.w.choices.below(3) {
	case 1:
		object := anObject(clusterWide)
		return what + ", and deletes " + titleOf(object), u.w.plane.Delete(ctx, object) //nolint:wrapcheck // act wraps it
	case 2:
		also, err := u.changeNamed(ctx, clusterWide, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
			spec.Resource = roles[0]
			return "another resource"
		})
		return what + ", and " + also, err
	}
	return what, nil
}

// wroteNamespace records since when Karmada synchronizes the Namespace. From then on, it
// is Karmada that wants it: its Works are handed over, or deleted if it is being deleted.
func (t *truth) wroteNamespace(write apiserver.Write) {
	if !isSynchronized(write.After) {
		t.synchronized = 0
		return
	}
	if t.synchronized == 0 {
		t.synchronized = t.w.steps
	}
	for _, name := range memberNames {
		t.withdrawn[place{member: name, key: keyNamed(team, "")}] = t.w.steps
	}
}

// checkNamespace checks that the controller deletes no Work of a Namespace that Karmada
// synchronizes: Karmada would delete the Namespace on the member, with all it holds.
// Nothing keeps the label from being removed while the request is under way.
func (t *truth) checkNamespace(held *holding) {
	call := t.w.serving
	if held.where.key != keyNamed(team, "") || t.synchronized == 0 || call == nil || t.w.busy[call.String()] {
		return
	}
	if sent := t.w.arrived[call]; sent > t.synchronized {
		t.violated("a synchronized Namespace is deleted", "the controller deletes Work %s of a Namespace that Karmada synchronizes since step %d, at step %d", nameOf(held.work), t.synchronized, sent)
	}
}

// notice records when requests of the controller arrive.
func (w *World) notice() {
	arrived := map[*apiserver.Call]int{}
	for _, call := range w.server.Pending() {
		if !writes(call) {
			continue
		}
		if arrived[call] = w.arrived[call]; arrived[call] == 0 {
			arrived[call] = w.steps
		}
	}
	w.arrived = arrived
}
