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

package karmada

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native/prune"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/lifted"
)

// What follows is objectwatcher.ObjectWatcher: each function does at most one write to
// a member.

// createOnMember is ObjectWatcher.Create: it looks into the cache once more, and counts
// an object that appeared there meanwhile as created.
func (p *process) createOnMember(cluster string, desired *unstructured.Unstructured) error {
	k := KeyOf(desired)
	if _, err := p.cached(cluster, k); err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	member, err := p.member(cluster, "Post")
	if err != nil {
		return err
	}
	if err := member.hears(); err != nil {
		return err
	}
	created, err := member.create(desired)
	if err = member.answered("Post", err); err != nil {
		return err
	}
	p.recordVersion(cluster, created)
	return nil
}

// updateOnMember is ObjectWatcher.Update.
func (p *process) updateOnMember(cluster string, desired, observed *unstructured.Unstructured) error {
	if !mayUpdate(desired, observed) {
		return fmt.Errorf("resource(kind=%s, %s/%s) already exists in the cluster %v and the %s strategy value is empty, Karmada will not manage this resource",
			desired.GetKind(), desired.GetNamespace(), desired.GetName(), cluster, workv1alpha2.ResourceConflictResolutionAnnotation)
	}
	if err := p.mapped(desired.GroupVersionKind()); err != nil {
		return err
	}
	desired = retainClusterFields(desired, observed)
	interpreter := p.karmada.interpreter
	if interpreter.HookEnabled(desired.GroupVersionKind(), configv1alpha1.InterpreterOperationRetain) {
		retained, err := interpreter.Retain(desired, observed)
		if err != nil {
			return err
		}
		desired = retained
	}
	if isUpToDate(desired, observed) {
		p.recordVersion(cluster, observed)
		return nil
	}
	member, err := p.member(cluster, "Put")
	if err != nil {
		return err
	}
	if err := member.hears(); err != nil {
		return err
	}
	updated, err := member.update(desired)
	if err = member.answered("Put", err); err != nil {
		return err
	}
	p.recordVersion(cluster, updated)
	return nil
}

// deleteOnMember is ObjectWatcher.Delete, for a Work that is being deleted. What the
// cache does not show is not deleted.
func (p *process) deleteOnMember(cluster string, desired *unstructured.Unstructured, work *workv1alpha1.Work) error {
	k := KeyOf(desired)
	observed, err := p.cached(cluster, k)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !isManaged(observed) {
		return nil
	}
	member, err := p.member(cluster, "Delete")
	if err != nil {
		return err
	}
	err = member.remove(k, doom{cause: Withdrawn, work: keyOf(work)})
	if err = member.answered("Delete", err); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	delete(p.versions[cluster], k)
	return nil
}

func isManaged(object *unstructured.Unstructured) bool {
	return util.GetLabelValue(object.GetLabels(), util.ManagedByKarmadaLabel) == util.ManagedByKarmadaLabelValue
}

// mayUpdate is ObjectWatcher's allowUpdate.
func mayUpdate(desired, observed *unstructured.Unstructured) bool {
	resolution := util.GetAnnotationValue(desired.GetAnnotations(), workv1alpha2.ResourceConflictResolutionAnnotation)
	return isManaged(observed) || resolution == workv1alpha2.ResourceConflictResolutionOverwrite
}

// retainClusterFields keeps what the member has of its own. It changes the desired
// object, as the original does.
func retainClusterFields(desired, observed *unstructured.Unstructured) *unstructured.Unstructured {
	desired.SetResourceVersion(observed.GetResourceVersion())
	desired.SetFinalizers(observed.GetFinalizers())
	desired.SetOwnerReferences(observed.GetOwnerReferences())
	util.RetainAnnotations(desired, observed)
	util.RetainLabels(desired, observed)
	return desired
}

// isUpToDate is ObjectWatcher's resourceDeepEqual.
func isUpToDate(desired, observed *unstructured.Unstructured) bool {
	pruned := observed.DeepCopy()
	if err := prune.RemoveIrrelevantFields(pruned, prune.RemoveJobTTLSeconds); err != nil {
		return false
	}
	return equality.Semantic.DeepEqual(desired, retainClusterFields(pruned, observed))
}

func (p *process) recordVersion(cluster string, object *unstructured.Unstructured) {
	if p.versions[cluster] == nil {
		p.versions[cluster] = map[Key]string{}
	}
	p.versions[cluster][KeyOf(object)] = lifted.ObjectVersion(object)
}

// needsUpdate is ObjectWatcher.NeedsUpdate.
func (p *process) needsUpdate(cluster string, desired, observed *unstructured.Unstructured) bool {
	return lifted.ObjectNeedsUpdate(desired, observed, p.versions[cluster][KeyOf(desired)])
}
