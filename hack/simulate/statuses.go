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
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// judge checks that a status says nothing that is not true.
func (t *truth) judge(object cached.Object) {
	status := object.GetStatus()
	if status.ObservedGeneration == nil || *status.ObservedGeneration != object.GetGeneration() {
		return // it is about another spec
	}
	for i := range status.Clusters {
		row := &status.Clusters[i]
		if row.Applied != metav1.ConditionTrue {
			continue
		}
		if why := t.disproves(object, row); why != "" {
			t.violated("a row lies", "%s says that %s has applied revision %s, but %s", titleOf(object), row.Name, row.Revision, why)
		}
	}
	t.judgeRows(object)
	t.judgeSummary(object)
	t.judgeRevisions(object)
	if meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionReady) {
		t.judgeReady(object)
	}
}

// judgeReady checks that an object is Ready only if all of its rows are.
func (t *truth) judgeReady(object cached.Object) {
	title, status := titleOf(object), object.GetStatus()
	rows, targets := map[string]bool{}, 0
	for i := range status.Clusters {
		row := &status.Clusters[i]
		rows[row.Name] = true
		if isRemoval(row) || row.Reason == propagationv1alpha1.ReasonClusterTainted {
			continue
		}
		targets++
		if row.Applied != metav1.ConditionTrue || row.Health != propagationv1alpha1.HealthHealthy {
			t.violated("Ready lies", "%s is Ready, but its row of %s is %s and %s", title, row.Name, row.Applied, row.Health)
		}
	}
	for _, target := range object.GetSpec().Clusters {
		if !rows[target.Name] {
			t.violated("Ready lies", "%s is Ready without a row of %s", title, target.Name)
		}
	}
	if targets == 0 {
		t.violated("Ready lies", "%s is Ready, but on no cluster", title)
	}
	if meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionStalled) {
		t.violated("Ready lies", "%s is Ready and Stalled", title)
	}
}

// judgeRevisions checks that two clusters that get the same have not both applied the
// current revision if these differ, unless changes are held back or not sent at all.
func (t *truth) judgeRevisions(object cached.Object) {
	if isUnrendered(object) || len(t.policies()) > 1 {
		return
	}
	revision, first := "", ""
	for i := range object.GetStatus().Clusters {
		row := &object.GetStatus().Clusters[i]
		target := t.targetOf(object, row.Name)
		if row.Applied != metav1.ConditionTrue || target.Replicas != nil || target.Overriders != nil {
			continue
		}
		if revision == "" {
			revision, first = row.Revision, row.Name
		}
		if row.Revision != revision {
			t.violated("a row lies", "%s says that %s has applied revision %s and %s revision %s, and both should have the same", titleOf(object), first, revision, row.Name, row.Revision)
		}
	}
}

// isRemoval reports whether a row is about a cluster that is no longer named.
func isRemoval(row *propagationv1alpha1.ClusterStatus) bool {
	switch row.Reason {
	case propagationv1alpha1.ReasonRemoving, propagationv1alpha1.ReasonRemovalBlocked, propagationv1alpha1.ReasonWriteFailed:
		return true
	}
	return false
}

// judgeSummary checks that the summary counts the rows.
func (t *truth) judgeSummary(object cached.Object) {
	summary := object.GetStatus().Summary
	if summary == nil {
		return
	}
	sum := ptr.Deref(summary.Applied, 0) + ptr.Deref(summary.Failed, 0) + ptr.Deref(summary.Pending, 0) + ptr.Deref(summary.Unreachable, 0)
	if all := ptr.Deref(summary.Clusters, 0); sum != all || ptr.Deref(summary.Healthy, 0) > ptr.Deref(summary.Applied, 0) {
		t.violated("the summary lies", "the summary of %s adds up to %d of %d clusters: %+v", titleOf(object), sum, all, summary)
	}
}

// disproves returns why a row that is True is not true; empty if it is: the content of
// the revision is what the cluster should get of the resource as it is or was, and the
// member had it when the Work that holds it was written, or later.
func (t *truth) disproves(object cached.Object, row *propagationv1alpha1.ClusterStatus) string {
	key := keyOfResource(object)
	if why := t.disprovesContent(object, row); why != "" && !isUnrendered(object) {
		return why
	}
	name := render.WorkKey(row.Name, key.Kind, key.Namespace, key.Name)
	sent := t.sent[name]
	last := -1
	for i, s := range sent {
		if s.content == row.Revision {
			last = i
		}
	}
	if last < 0 {
		return "no Work ever held it"
	}
	want, since := t.contents[row.Revision], sent[last].step
	if ran := t.ran[place{member: row.Name, key: key}]; !hadSince(ran, want, since) {
		return fmt.Sprintf("the member has not had it since step %d, when its Work was written: it had %v", since, ran[max(0, len(ran)-3):])
	}
	return ""
}

// isUnrendered reports whether nothing can be rendered from the resource now, so that
// rows are about what was sent before.
func isUnrendered(object cached.Object) bool {
	ready := meta.FindStatusCondition(object.GetStatus().Conditions, propagationv1alpha1.ConditionReady)
	if ready == nil {
		return false
	}
	switch ready.Reason {
	case propagationv1alpha1.ReasonResourceNotFound, propagationv1alpha1.ReasonResourceKindNotFound, propagationv1alpha1.ReasonResourceReadFailed,
		propagationv1alpha1.ReasonResourceScopeMismatch, propagationv1alpha1.ReasonClusterSelectorInvalid, propagationv1alpha1.ReasonResourceNotPropagatable,
		propagationv1alpha1.ReasonReviewFailed, propagationv1alpha1.ReasonForbidden:
		return true
	}
	return false
}

// disprovesContent returns why a revision is not what a cluster should get.
func (t *truth) disprovesContent(object cached.Object, row *propagationv1alpha1.ClusterStatus) string {
	proof := fmt.Sprint(titleOf(object), object.GetUID(), object.GetGeneration(), row.Name, row.Revision)
	if t.proven[proof] {
		return ""
	}
	content, target := t.contents[row.Revision], t.targetOf(object, row.Name)
	for _, resource := range slices.Backward(t.desired.resources[keyOfResource(object)]) {
		if resource == nil {
			continue
		}
		for _, policy := range t.policies() {
			if karmada.ContentHash(customized(resource, target, policy)) == content {
				t.proven[proof] = true
				return ""
			}
		}
	}
	return "that is none that it should get with this spec"
}

// policies are all that override policies have ever said, and nil.
func (t *truth) policies() []*policyv1alpha1.OverrideSpec {
	all := []*policyv1alpha1.OverrideSpec{}
	for _, name := range sortedNames(t.desired.policies) {
		for _, spec := range slices.Backward(t.desired.policies[name]) {
			if spec != nil {
				all = append(all, spec)
			}
		}
	}
	return append(all, nil)
}

// targetOf is what an object says about a cluster.
func (t *truth) targetOf(object cached.Object, cluster string) propagationv1alpha1.TargetCluster {
	for _, target := range object.GetSpec().Clusters {
		if target.Name == cluster {
			return target
		}
	}
	return propagationv1alpha1.TargetCluster{Name: cluster}
}

// hadSince reports whether a content was there at a step or later.
func hadSince(ran []sight, content string, step int) bool {
	for i, s := range ran {
		ended := i+1 < len(ran) && ran[i+1].step <= step
		if s.content == content && !ended {
			return true
		}
	}
	return false
}
