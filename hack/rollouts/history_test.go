//go:build rollouts

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

package rollouts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// moment is a state that the API server stored: of the object, or of one of its Works.
type moment struct {
	version uint64
	status  *propagationv1alpha1.RolloutStatus
	work    *workv1alpha1.Work
	gone    bool
}

// history returns everything that the API server stored about an object and its Works, in
// order.
func history(t *testing.T, p *testbed.Propagation, resource propagationv1alpha1.ResourceReference, since time.Time) []moment {
	t.Helper()
	var moments []moment
	for _, state := range p.States(since) {
		moments = append(moments, moment{version: versionOf(t, state.ResourceVersion), status: state.Status.Rollout})
	}
	for _, member := range members {
		for _, seen := range works.Of(p.NS.WorkKey(resource, member.Name), since) {
			work, _ := seen.Object.(*workv1alpha1.Work)
			moments = append(moments, moment{version: versionOf(t, work.ResourceVersion), work: work, gone: seen.Gone})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Compare(a.version, b.version) })
	return moments
}

func versionOf(t *testing.T, text string) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// isOrderly checks a history: a cluster changes its revision only in a turn that was
// recorded before; no stage has more turns in progress than it may; and no cluster gets the
// update revision before all earlier stages are passed. It returns the number of changes.
func isOrderly(t *testing.T, moments []moment) (changes int) {
	t.Helper()
	var recorded *propagationv1alpha1.RolloutStatus
	held := map[string]string{}
	for _, m := range moments {
		switch {
		case m.work == nil:
			if recorded = m.status; recorded != nil {
				isWithinBounds(t, recorded)
			}
		case m.gone:
			delete(held, m.work.Namespace)
		default:
			revision, had := m.work.Annotations[propagationv1alpha1.RolloutRevisionAnnotation], held[m.work.Namespace]
			held[m.work.Namespace] = revision
			if had == "" || had == revision || recorded == nil {
				continue
			}
			changes++
			mayChange(t, recorded, strings.TrimPrefix(m.work.Namespace, "karmada-es-"), revision)
		}
	}
	return changes
}

// turnOf returns the recorded turn of a cluster; nil if it has none.
func turnOf(status *propagationv1alpha1.RolloutStatus, cluster string) *propagationv1alpha1.RolloutTurn {
	for i := range status.Turns {
		if slices.Contains(status.Turns[i].ClusterNames, cluster) {
			return &status.Turns[i]
		}
	}
	return nil
}

// mayChange fails the test if a cluster has got a revision out of turn.
func mayChange(t *testing.T, recorded *propagationv1alpha1.RolloutStatus, cluster, revision string) {
	t.Helper()
	turn := turnOf(recorded, cluster)
	if turn == nil || turn.Revision != revision {
		t.Errorf("%s got revision %s without a recorded turn: %s", cluster, revision, describe(recorded))
		return
	}
	if recorded.Phase != propagationv1alpha1.RolloutPhaseProgressing || revision != recorded.UpdateRevision {
		return
	}
	for i := range recorded.Stages {
		if recorded.Stages[i].Name == stageOf(cluster) {
			return
		}
		if recorded.Stages[i].PassedAt == nil {
			t.Errorf("%s got revision %s before stage %s was passed: %s", cluster, revision, recorded.Stages[i].Name, describe(recorded))
		}
	}
}

// isWithinBounds fails the test if a stage has too many turns in progress.
func isWithinBounds(t *testing.T, recorded *propagationv1alpha1.RolloutStatus) {
	t.Helper()
	running := map[string]int32{}
	for _, turn := range recorded.Turns {
		if turn.StoppedAt == nil && !ptr.Deref(turn.Failed, false) && turn.Kind == "" && turn.Revision == recorded.UpdateRevision {
			for _, cluster := range turn.ClusterNames {
				running[stageOf(cluster)]++
			}
		}
	}
	for i := range recorded.Stages {
		stage := &recorded.Stages[i]
		if limit := ptr.Deref(stage.MaxConcurrency, 0); running[stage.Name] > limit {
			t.Errorf("stage %s has %d turns in progress, more than %d: %s", stage.Name, running[stage.Name], limit, describe(recorded))
		}
	}
}

// stageOf is the stage of a cluster in these tests: member1 is the canary, members 2 and 3
// are the ring, and all others belong to no stage.
func stageOf(cluster string) string {
	switch cluster {
	case member1.Name:
		return "canary"
	case member2.Name, member3.Name:
		return "ring"
	}
	return propagationv1alpha1.RolloutDefaultStage
}

// describe is a status in a few words.
func describe(status *propagationv1alpha1.RolloutStatus) string {
	if status == nil {
		return "no rollout"
	}
	words := []string{string(status.Phase), status.Progress, "current " + status.CurrentRevision, "update " + status.UpdateRevision, "failed " + status.FailedRevision}
	for i := range status.Stages {
		stage := &status.Stages[i]
		words = append(words, fmt.Sprintf("%s: %d of %d ready, %d failed, %d deferred, passed %t", stage.Name, ptr.Deref(stage.Ready, 0), ptr.Deref(stage.Clusters, 0),
			ptr.Deref(stage.Failed, 0), ptr.Deref(stage.Deferred, 0), stage.PassedAt != nil))
	}
	for i := range status.Turns {
		words = append(words, fmt.Sprintf("turn of %v to %s", status.Turns[i].ClusterNames, status.Turns[i].Revision))
	}
	return strings.Join(words, "; ")
}
