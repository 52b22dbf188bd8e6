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
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// turnOf is the turn of a cluster; nil if it has none.
func turnOf(status *propagationv1alpha1.RolloutStatus, cluster string) *propagationv1alpha1.RolloutTurn {
	for i := range status.Turns {
		if slices.Contains(status.Turns[i].ClusterNames, cluster) {
			return &status.Turns[i]
		}
	}
	return nil
}

// isRunning reports whether a cluster has a turn to a revision that goes on.
func isRunning(status *propagationv1alpha1.RolloutStatus, cluster, revision string) bool {
	if status == nil {
		return false
	}
	turn := turnOf(status, cluster)
	return turn != nil && turn.Revision == revision && turn.Kind != propagationv1alpha1.RolloutTurnRelapse && turn.StoppedAt == nil && !ptr.Deref(turn.Failed, false)
}

// wroteStatus checks the turns that begin with a status, and remembers it.
func (t *truth) wroteStatus(before, object cached.Object) {
	status := object.GetStatus().Rollout
	var last *propagationv1alpha1.RolloutStatus
	if before != nil && before.GetSpec().Rollout == nil && object.GetSpec().Rollout != nil {
		t.releases.readded[object.GetUID()] = time.Now()
	}
	if before != nil && before.GetUID() == object.GetUID() {
		last = before.GetStatus().Rollout
	}
	if history := t.releases.statuses[object.GetUID()]; status != nil || len(history) > 0 {
		t.releases.statuses[object.GetUID()] = append(history, recorded{step: t.w.steps, status: status})
	}
	if status != nil && status.FailedRevision != "" && (last == nil || last.FailedRevision != status.FailedRevision) {
		t.recordFailed(object, status.FailedRevision)
	}
	if status == nil || status.Phase != propagationv1alpha1.RolloutPhaseProgressing || object.GetSpec().Rollout == nil {
		return
	}
	t.adopted(object, last)
	t.checkPassed(object, last)
	t.checkTurns(object, last)
}

// recordFailed records what users ask for when a revision fails.
func (t *truth) recordFailed(object cached.Object, revision string) {
	latest := t.desired.latest(keyOfResource(object))
	if latest == nil {
		return
	}
	for _, target := range t.desired.targets(object) {
		which := share{owner: object.GetUID(), revision: revision, cluster: target.Name}
		t.releases.asked[which] = t.contentFor(object, latest, target.Name)
	}
}

// checkTurns checks the turns that begin with a status.
func (t *truth) checkTurns(object cached.Object, last *propagationv1alpha1.RolloutStatus) {
	status := object.GetStatus().Rollout
	update := status.UpdateRevision
	fresh := last == nil || last.UpdateRevision != update || last.Phase != status.Phase
	for _, target := range t.desired.targets(object) {
		which := share{owner: object.GetUID(), revision: update, cluster: target.Name}
		had := t.hasRevision(object, target.Name, update)
		if fresh { // what it has been given before may be the same
			t.releases.began[which] = had || last == nil || isRunning(last, target.Name, last.UpdateRevision)
		}
		if isRunning(status, target.Name, update) && (fresh || !isRunning(last, target.Name, update)) && !had && !t.releases.began[which] {
			t.checkStart(object, status, target.Name)
		}
	}
}

// adopted learns which content the revision has that was taken from the Works.
func (t *truth) adopted(object cached.Object, last *propagationv1alpha1.RolloutStatus) {
	status := object.GetStatus().Rollout
	if last != nil || status.CurrentRevision == "" || status.CurrentRevision == status.UpdateRevision {
		return
	}
	for _, held := range t.works {
		has := t.releases.had[nameOf(held.work)]
		if has.owner == object.GetUID() && has.revision == "" && has.key == keyOfResource(object) && !held.edited && held.work.DeletionTimestamp == nil {
			t.releases.contents[share{owner: has.owner, revision: status.CurrentRevision, cluster: held.where.member}] = has.content
		}
	}
}

// checkPassed checks that the clusters of a stage have had the revision for which the stage
// is passed.
func (t *truth) checkPassed(object cached.Object, last *propagationv1alpha1.RolloutStatus) {
	status := object.GetStatus().Rollout
	for i := range status.Stages {
		stage := &status.Stages[i]
		if stage.PassedAt == nil || last == nil || last.UpdateRevision != status.UpdateRevision || isPassed(last, stage.Name) {
			continue
		}
		for _, target := range t.desired.targets(object) {
			if _, ready := t.ready[target.Name]; !ready || t.stageOf(object.GetSpec().Rollout, target.Name) != stage.Name || isSuspended(object.GetSpec(), target.Name) {
				continue
			}
			if turn := turnOf(status, target.Name); turn == nil && t.neverHad(object, target.Name, status.UpdateRevision) {
				t.violated("a stage passes early", "stage %s of %s is passed, and %s never had revision %s", stage.Name, titleOf(object), target.Name, status.UpdateRevision)
			}
		}
	}
}

func isPassed(status *propagationv1alpha1.RolloutStatus, name string) bool {
	return slices.ContainsFunc(status.Stages, func(stage propagationv1alpha1.RolloutStageStatus) bool {
		return stage.Name == name && stage.PassedAt != nil
	})
}

// neverHad reports whether the Work of a cluster has a revision that the member has never
// had.
func (t *truth) neverHad(object cached.Object, cluster, revision string) bool {
	key := keyOfResource(object)
	held := t.works[render.WorkKey(cluster, key.Kind, key.Namespace, key.Name)]
	if held == nil || held.edited || held.work.DeletionTimestamp != nil || t.releases.had[nameOf(held.work)].revision != revision {
		return false
	}
	content := t.releases.contents[share{owner: object.GetUID(), revision: revision, cluster: cluster}]
	return !slices.ContainsFunc(t.ran[held.where], func(s sight) bool { return t.releases.apart[s.content] == content })
}

// hasRevision reports whether the Work of a cluster has a revision, or there is none.
func (t *truth) hasRevision(object cached.Object, cluster, revision string) bool {
	key := keyOfResource(object)
	for _, held := range t.works {
		if held.where.member != cluster || held.where.key != key || held.work.DeletionTimestamp != nil {
			continue
		}
		has := t.releases.had[nameOf(held.work)]
		same := t.releases.contents[share{owner: object.GetUID(), revision: revision, cluster: cluster}]
		latest := t.desired.latest(key)
		return has.owner != object.GetUID() || has.revision == revision || has.content == same ||
			latest != nil && has.content == t.contentFor(object, latest, cluster)
	}
	return true
}

// contentFor is what a cluster is to get of a resource, without the replicas.
func (t *truth) contentFor(object cached.Object, resource *unstructured.Unstructured, cluster string) string {
	target := t.targetOf(object, cluster)
	target.Replicas = nil // they are no part of a revision, and a mistake for most kinds
	return unscaled(customized(resource, target, t.policy()))
}

// checkStart checks that it is the turn of a cluster.
func (t *truth) checkStart(object cached.Object, status *propagationv1alpha1.RolloutStatus, cluster string) {
	const seen = time.Minute
	if !t.releases.relabeled.IsZero() && time.Since(t.releases.relabeled) < seen {
		return
	}
	spec, running := object.GetSpec().Rollout, 0
	stage := t.stageOf(spec, cluster)
	for _, target := range t.desired.targets(object) {
		which := share{owner: object.GetUID(), revision: status.UpdateRevision, cluster: target.Name}
		if t.stageOf(spec, target.Name) == stage && isRunning(status, target.Name, status.UpdateRevision) && !t.releases.began[which] {
			running++
		}
	}
	for i := range status.Stages {
		known := &status.Stages[i]
		if known.Name == stage {
			if most := int(ptr.Deref(known.MaxConcurrency, 0)); running > most {
				t.violated("too many turns", "%s begins on %s of stage %s with %d clusters in progress, of at most %d", titleOf(object), cluster, stage, running, most)
			}
			return
		}
		if known.PassedAt == nil {
			t.violated("a stage begins early", "%s begins on %s of stage %s before stage %s is passed", titleOf(object), cluster, stage, known.Name)
		}
	}
}

// stageOf names the stage of a cluster.
func (t *truth) stageOf(spec *propagationv1alpha1.Rollout, cluster string) string {
	for i := range spec.Stages {
		stage := &spec.Stages[i]
		if slices.Contains(stage.ClusterNames, cluster) {
			return stage.Name
		}
		if stage.ClusterSelector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: stage.ClusterSelector.MatchLabels})
		if err == nil && selector.Matches(t.desired.clusters[cluster]) {
			return stage.Name
		}
	}
	return propagationv1alpha1.RolloutDefaultStage
}

// relabels records when the labels of a cluster change, or it comes or goes.
func (t *truth) relabels(name string, now labels.Set) {
	if before, known := t.desired.clusters[name]; !known || now == nil || !labels.Equals(before, now) {
		t.releases.relabeled = time.Now()
	}
}
