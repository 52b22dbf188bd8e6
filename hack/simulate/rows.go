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
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// said is what a row said last.
type said struct {
	// applied is the revision since when the row is True; empty if it is not.
	applied string
	since   time.Time
	// first: there was no row before it became True.
	first bool
	// revision is the revision that the row named, of a Work with a UID, and process how
	// many processes of the controller had been started.
	revision string
	work     types.UID
	process  int
}

// judgeRows checks what rows say against what they said before.
func (t *truth) judgeRows(object cached.Object) {
	rows := map[string]*said{}
	for i := range object.GetStatus().Clusters {
		row := &object.GetStatus().Clusters[i]
		id := fmt.Sprint(titleOf(object), " ", object.GetUID(), " ", row.Name)
		before := t.rows[id]
		key := keyOfResource(object)
		held := t.works[render.WorkKey(row.Name, key.Kind, key.Namespace, key.Name)]
		now := &said{revision: row.Revision, process: t.w.started}
		if held != nil {
			now.work = held.work.UID
			t.judgeMemory(object, row, before, held)
		}
		if row.Applied == metav1.ConditionTrue {
			now.applied, now.since, now.first = row.Revision, time.Now(), before == nil
			if before != nil && before.applied == row.Revision {
				now.since, now.first = before.since, before.first
			}
			t.judgeHealth(object, row, now)
		}
		rows[id] = now
	}
	for i := range t.told[titleOf(object)] {
		delete(t.rows, t.told[titleOf(object)][i])
	}
	t.told[titleOf(object)] = nil
	for id, now := range rows {
		t.rows[id] = now
		t.told[titleOf(object)] = append(t.told[titleOf(object)], id)
	}
}

// judgeMemory checks that a row does not forget which revision its cluster has confirmed. If
// a cluster has refused the Work, or Karmada has re-created its object, nothing remembers that.
func (t *truth) judgeMemory(object cached.Object, row *propagationv1alpha1.ClusterStatus, before *said, held *holding) {
	const seen = 10 * time.Second // the row before may have been about an earlier Work
	if before == nil || before.revision == "" || row.Revision != "" || time.Since(held.work.CreationTimestamp.Time) < seen || before.process != t.w.started || held.edited || held.work.DeletionTimestamp != nil || before.work != held.work.UID || t.everRefused[held.work.UID] {
		return
	}
	if isOurs(held.work) && held.work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(object.GetUID()) && held.where.key == keyOfResource(object) {
		t.violated("a revision is forgotten", "%s said that %s has revision %s, and no longer says that it has any", titleOf(object), row.Name, before.revision)
	}
}

// reportTime is for how long at least the health of a workload is not trusted that the
// member may have reported about the previous content.
const reportTime = 8 * time.Second

// judgeHealth checks that a Deployment is called healthy only if it was with this content.
// A report may never come if the content means the same to the member.
func (t *truth) judgeHealth(object cached.Object, row *propagationv1alpha1.ClusterStatus, now *said) {
	key := keyOfResource(object)
	if key.Kind != "Deployment" || row.Health != propagationv1alpha1.HealthHealthy || now.first || time.Since(now.since) > reportTime {
		return
	}
	content, known := t.contents[row.Revision]
	if known && !t.healthy[place{member: row.Name, key: key}][content] {
		t.violated("health lies", "%s says that %s is healthy on %s, which it has not been with revision %s", titleOf(object), key, row.Name, row.Revision)
	}
}

// recordHealth records that a Deployment is healthy with its content.
func (t *truth) recordHealth(where place, object *unstructured.Unstructured, content string) {
	if where.key.Kind != "Deployment" {
		return
	}
	number := func(fields ...string) int64 {
		found, _, _ := unstructured.NestedInt64(object.Object, fields...)
		return found
	}
	wanted := number("spec", "replicas")
	if number("status", "observedGeneration") != object.GetGeneration() || number("status", "updatedReplicas") != wanted || number("status", "availableReplicas") != wanted {
		return
	}
	if t.healthy[where] == nil {
		t.healthy[where] = map[string]bool{}
	}
	t.healthy[where][content] = true
}
