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

package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

func statusOf(observed *Observed, result Outcome) *propagationv1alpha1.PropagationStatus {
	return NewStatus(observed, &result)
}

// told describes a row in words, with what is wrong with it.
func told(row propagationv1alpha1.ClusterStatus) string {
	if allowed := ReasonNamed(row.Reason).rows; !slices.Contains(allowed, row.Applied) {
		return fmt.Sprintf("%s: reason %s goes with %v and not with %s", row.Name, row.Reason, allowed, row.Applied)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s: %s", row.Name, row.Applied, row.Health, row.Reason, row.Revision, row.Message))
}

// rowCase is what was observed and done, and the row of the cluster in words.
type rowCase struct {
	observed *Observed
	result   Outcome
	want     string
}

func checkRows(t *testing.T, cases map[string]rowCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rows := statusOf(tc.observed, tc.result).Clusters
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			if diff := cmp.Diff(tc.want, told(rows[0])); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
		})
	}
}

// ofGeneration is healthy, with the generation of the template that was rendered and
// the one that the cluster reports.
func ofGeneration(rendered, reported string) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) {
		payload(rendered)(work)
		says(`{"resourceTemplateGeneration":` + reported + `}`)(work)
	}
}

func remembers(work *workv1alpha1.Work) {
	work.Annotations[propagationv1alpha1.ConfirmedRevisionAnnotation] = older
}

// TestRowsOfAnswers: a cluster has answered, or not.
func TestRowsOfAnswers(t *testing.T) {
	checkRows(t, map[string]rowCase{
		"confirmed and healthy":        {scene(one, on("member1", isConfirmed, isHealthy)), Outcome{}, "member1 True Healthy Applied c0ffee:"},
		"confirmed, no health yet":     {scene(one, on("member1", isConfirmed)), Outcome{}, "member1 True Unknown HealthUnknown c0ffee: the cluster runs the current revision and has not reported its health yet"},
		"confirmed, not healthy":       {scene(one, on("member1", isConfirmed, reports(workv1alpha1.ResourceUnhealthy))), Outcome{}, "member1 True Unhealthy Unhealthy c0ffee: the cluster runs the current revision and reports it not healthy"},
		"health of this generation":    {scene(one, on("member1", isConfirmed, ofGeneration("3", "3"))), Outcome{}, "member1 True Healthy Applied c0ffee:"},
		"health of an old generation":  {scene(one, on("member1", isConfirmed, ofGeneration("3", "2"))), Outcome{}, "member1 True Unknown HealthUnknown c0ffee: the cluster runs the current revision and has not reported its health yet"},
		"written, not confirmed":       {scene(one, on("member1", isHealthy, remembers)), Outcome{}, "member1 Unknown Unknown Applying 0ddba11: waiting for the cluster to confirm the current revision"},
		"a True of an older attempt":   {scene(one, on("member1", conditions(applied), isHealthy)), Outcome{}, "member1 Unknown Unknown Applying : waiting for the cluster to confirm the current revision"},
		"a True without an answer":     {scene(one, on("member1", isUnanswered, isHealthy)), Outcome{}, "member1 Unknown Unknown Applying : Karmada's request to the cluster took so long that the cluster may not have answered; it is repeated until the cluster confirms the current revision"},
		"a True of an unknown attempt": {scene(one, on("member1", conditions(applied, dispatched), isHealthy)), Outcome{}, "member1 Unknown Unknown Applying : waiting for the cluster to confirm the current revision"},
		"still the old revision":       {scene(one, on("member1", revision(older), isConfirmed, isHealthy)), Outcome{}, "member1 Unknown Unknown Applying 0ddba11: the current revision is not written yet"},
		"refused":                      {scene(one, on("member1", isRefused, isHealthy, remembers)), Outcome{}, "member1 False Unknown ApplyFailed 0ddba11: denied by quota"},
		"refused a moment ago":         {scene(one, on("member1", refusedAt(now.Add(-time.Second)))), Outcome{}, "member1 Unknown Unknown Applying : waiting for the cluster to confirm the current revision"},
		"another content was refused": {
			scene(one, refusedBefore, on("member1", refusedAt(now.Add(-time.Second)), wasReset(time.Minute))), Outcome{}, "member1 Unknown Unknown Applying : waiting for the cluster to confirm the current revision",
		},
		"refused by a clock that was ahead": {
			scene(one, refusedBefore, on("member1", refusedAt(now.Add(-time.Second)))), Outcome{}, "member1 False Unknown ApplyFailed : denied by quota",
		},
	})
}

// TestRowsOfWrites: what keeps the current revision from the cluster.
func TestRowsOfWrites(t *testing.T) {
	checkRows(t, map[string]rowCase{
		"not written":                  {scene(one), Outcome{}, "member1 Unknown Unknown Applying : the Work is not written yet"},
		"write refused":                {scene(one), Outcome{Failures: map[string]error{"member1": errors.New("admission webhook denied the request")}}, "member1 False Unknown WriteFailed : admission webhook denied the request"},
		"update refused":               {scene(one, on("member1", isConfirmed, revision(older))), Outcome{Failures: map[string]error{"member1": errors.New("too large")}}, "member1 Unknown Unknown WriteFailed 0ddba11: too large"},
		"deleted by hand":              {scene(one, on("member1", isConfirmed, terminating(now))), Outcome{}, "member1 Unknown Unknown Applying c0ffee: the Work is being deleted; it is restored when that is done"},
		"deleted by hand, and gone":    {scene(one, func(o *Observed) { o.Lost = map[string]time.Time{"member1": now.Add(-time.Second)} }), Outcome{}, "member1 Unknown Unknown Applying : the Work was deleted; it is restored within three seconds"},
		"the same, without a resource": {scene(one, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound, Message: "not there"}), func(o *Observed) { o.Lost = map[string]time.Time{"member1": now.Add(-time.Second)} }), Outcome{}, "member1 False Unknown ResourceNotFound : not there"},
		"being deleted, the same":      {scene(one, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound, Message: "not there"}), on("member1", isConfirmed, terminating(now))), Outcome{}, "member1 Unknown Unknown Applying c0ffee: the Work is being deleted; it is written again only when the resource can be propagated again"},
		"held, known before":           {scene(one, func(o *Observed) { o.Holders["member1"] = "DirectPropagation shop/other" }), Outcome{}, "member1 False Unknown Conflict : Deployment web is already propagated to this cluster by DirectPropagation shop/other; this object takes over when that owner releases it"},
		"held, found on writing":       {scene(one), Outcome{Holders: map[string]string{"member1": "ResourceBinding shop/web-deployment"}}, "member1 False Unknown Conflict : Deployment web is already propagated to this cluster by ResourceBinding shop/web-deployment; this object takes over when that owner releases it"},
		"suspended and current":        {scene(one, suspended, on("member1", isConfirmed, isHealthy, isSuspended)), Outcome{}, "member1 True Healthy Suspended c0ffee: the cluster runs the current revision; changes are held back while propagation is suspended"},
		"not suspended yet":            {scene(one, suspended, on("member1", isConfirmed, isHealthy)), Outcome{}, "member1 True Healthy Applied c0ffee:"},
		"suspended and behind":         {scene(one, suspended, on("member1", remembers, isSuspended)), Outcome{}, "member1 Unknown Unknown Suspended 0ddba11: propagation to the cluster is suspended; the current revision waits"},
		"resource missing, kept":       {scene(one, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound, Message: "gone"}), on("member1", revision(older), isConfirmed, isHealthy)), Outcome{}, "member1 True Healthy Applied 0ddba11:"},
		"resource missing, never sent": {scene(one, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound, Message: "gone"})), Outcome{}, "member1 False Unknown ResourceNotFound : gone"},
	})
}

// TestRowsOfClusters: a cluster that cannot be used, whatever its Work says.
func TestRowsOfClusters(t *testing.T) {
	checkRows(t, map[string]rowCase{
		"no such cluster":     {scene(one, cluster("member1", Cluster{})), Outcome{}, "member1 False Unknown ClusterNotFound : no Cluster member1 is registered with Karmada; register it, or take it off spec.clusters"},
		"cluster terminating": {scene(one, cluster("member1", Cluster{Exists: true, Terminating: true})), Outcome{}, "member1 False Unknown ClusterTerminating : the cluster is being unregistered from Karmada"},
		"no contact":          {scene(one, cluster("member1", Cluster{Exists: true, Message: "ClusterNotReachable: down"}), on("member1", isConfirmed, isHealthy)), Outcome{}, "member1 Unknown Unknown ClusterNotReady c0ffee: Karmada has no contact with the cluster: ClusterNotReachable: down"},
		"kind not enabled":    {scene(one, cluster("member1", Cluster{Exists: true, Ready: true, API: clusterv1alpha1.APIDisabled})), Outcome{}, "member1 False Unknown APINotEnabled : the cluster does not serve apps/v1 Deployment; install it there"},
	})
}

// TestRowsOfRemovals: a cluster that the object no longer names.
func TestRowsOfRemovals(t *testing.T) {
	checkRows(t, map[string]rowCase{
		"removing":                {scene(nil, on("member1", isConfirmed), cluster("member1", readyCluster)), Outcome{}, "member1 Unknown Unknown Removing c0ffee: the resource is being removed from the cluster"},
		"removed, resource stays": {scene(nil, preserving, on("member1", isConfirmed), cluster("member1", readyCluster)), Outcome{}, "member1 Unknown Unknown Removing c0ffee: the resource stays on the cluster; its Work is being removed"},
		"removal refused":         {scene(nil, on("member1", terminating(now)), cluster("member1", readyCluster)), Outcome{Failures: map[string]error{"member1": errors.New("denied")}}, "member1 Unknown Unknown WriteFailed : denied"},
		"removal out of reach":    {scene(nil, deleting, on("member1", terminating(now)), cluster("member1", Cluster{Exists: true, Message: "ClusterNotReachable: down"})), Outcome{}, "member1 Unknown Unknown RemovalBlocked : the resource is removed when Karmada reaches the cluster again: ClusterNotReachable: down"},
	})
}

func TestConditions(t *testing.T) {
	two := []string{"member1", "member2"}
	good := []sceneOption{on("member1", isConfirmed, isHealthy), on("member2", isConfirmed, isHealthy)}
	for name, tc := range map[string]struct {
		observed *Observed
		want     []string
	}{
		"done": {scene(two, good...), []string{
			"Ready True Propagated: each of 2 clusters has confirmed revision c0ffee and reports it healthy"}},
		"one behind": {scene(two, good[0], on("member2")), []string{
			"Ready False Applying: 1 of 2 clusters ready; member2: waiting for the cluster to confirm the current revision",
			"Reconciling True Applying: 1 of 2 clusters ready; member2: waiting for the cluster to confirm the current revision"}},
		"the worst is named": {scene(two, on("member1"), on("member2", isRefused)), []string{
			"Ready False ApplyFailed: 0 of 2 clusters ready; member2: denied by quota",
			"Reconciling True ApplyFailed: 0 of 2 clusters ready; member2: denied by quota"}},
		"resource missing": {scene(two, append(good, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound, Message: "gone"}))...), []string{
			"Ready False ResourceNotFound: gone", "Reconciling True ResourceNotFound: gone"}},
		"resource unreadable": {scene(two, append(good, problem(Problem{Reason: propagationv1alpha1.ReasonResourceReadFailed, Message: "timeout", Err: errors.New("timeout")}))...), []string{
			"Ready Unknown ResourceReadFailed: timeout", "Reconciling True ResourceReadFailed: timeout"}},
		"a user must fix it": {scene(two, problem(Problem{Reason: propagationv1alpha1.ReasonResourceScopeMismatch, Message: "wrong", Stalled: true})), []string{
			"Ready False ResourceScopeMismatch: wrong", "Stalled True ResourceScopeMismatch: wrong"}},
		"done, one to be cleaned up": {scene(two, append(good, on("member3"), cluster("member3", readyCluster))...), []string{
			"Ready True Propagated: each of 2 clusters has confirmed revision c0ffee and reports it healthy",
			"Reconciling True Removing: 1 cluster still to be cleaned up; member3: the resource is being removed from the cluster"}},
		"deleting": {scene(nil, deleting, on("member1", terminating(now)), cluster("member1", readyCluster)), []string{
			"Ready False Deleting: 1 cluster still to be cleaned up; member1: the resource is being removed from the cluster",
			"Reconciling True Deleting: 1 cluster still to be cleaned up; member1: the resource is being removed from the cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, condition := range statusOf(tc.observed, Outcome{}).Conditions {
				got = append(got, fmt.Sprintf("%s %s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStatusNeverLies checks the status of every scene against the contract.
func TestStatusNeverLies(t *testing.T) {
	everyScene(func(name string, observed *Observed) {
		status := statusOf(observed, Outcome{})
		summary := status.Summary
		if *summary.Applied+*summary.Failed+*summary.Pending+*summary.Unreachable != *summary.Clusters {
			t.Errorf("%s: the summary does not add up: %+v", name, summary)
		}
		for _, row := range status.Clusters {
			proof := pending
			if work := observed.Work(row.Name); work != nil {
				proof, _ = EvidenceOf(work)
			}
			state := observed.Clusters[row.Name]
			if row.Applied == metav1.ConditionTrue && (proof != Confirmed || !state.Ready || state.Terminating) {
				t.Errorf("%s: %s", name, told(row))
			}
			if row.Applied == metav1.ConditionTrue && observed.Resource.Problem == nil && row.Revision != observed.Resource.Revision {
				t.Errorf("%s: applied is True for an old revision: %s", name, told(row))
			}
			if row.Health != propagationv1alpha1.HealthUnknown && row.Applied != metav1.ConditionTrue {
				t.Errorf("%s: health of what is not applied: %s", name, told(row))
			}
		}
		ready := meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionReady)
		if ready && len(observed.Targets) > 0 && (observed.Resource.Problem != nil || *summary.Healthy != *summary.Clusters) {
			t.Errorf("%s: Ready although not all is well: %v", name, status.Conditions)
		}
		reconciling := meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionReconciling)
		stalled := meta.IsStatusConditionTrue(status.Conditions, propagationv1alpha1.ConditionStalled)
		if !ready && reconciling == stalled {
			t.Errorf("%s: not Ready must be Reconciling or Stalled: %v", name, status.Conditions)
		}
		for _, condition := range status.Conditions {
			if condition.ObservedGeneration != observed.Generation || condition.Type != propagationv1alpha1.ConditionReady && condition.Status != metav1.ConditionTrue {
				t.Errorf("%s: %+v", name, condition)
			}
		}
	})
}

// TestStatusIsStable: a status that is built again from the same data is the same,
// and keeps its times.
func TestStatusIsStable(t *testing.T) {
	everyScene(func(name string, observed *Observed) {
		first := statusOf(observed, Outcome{})
		observed.Status, observed.Now = first, observed.Now.Add(time.Hour)
		second := statusOf(observed, Outcome{})
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%s: (-first +second):\n%s", name, diff)
		}
	})
}

func TestRowsAreBounded(t *testing.T) {
	names := make([]string, 0, 300)
	options := make([]sceneOption, 0, 300)
	for i := range 300 {
		name := fmt.Sprintf("member%03d", i)
		names = append(names, name)
		options = append(options, on(name, isConfirmed, isHealthy))
	}
	options[299] = on("member299", isRefused)
	status := statusOf(scene(names, options...), Outcome{})
	if len(status.Clusters) != 256 || ptr.Deref(status.Omitted, 0) != 44 {
		t.Errorf("%d rows, %d omitted", len(status.Clusters), ptr.Deref(status.Omitted, 0))
	}
	if status.Clusters[0].Name != "member299" {
		t.Errorf("the worst row must come first, not %s", told(status.Clusters[0]))
	}
	if status.Summary.Progress != "299/300" || *status.Summary.Failed != 1 {
		t.Errorf("the summary must count what has no row: %+v", status.Summary)
	}
}

// TestSummaryOfADeletion counts the clusters that are still to be cleaned up.
func TestSummaryOfADeletion(t *testing.T) {
	status := statusOf(scene(nil, deleting, on("member1", terminating(now)), cluster("member1", readyCluster),
		on("member2", terminating(now)), cluster("member2", Cluster{Exists: true})), Outcome{})
	if got := status.Summary; got.Progress != "0/2" || *got.Pending != 1 || *got.Unreachable != 1 {
		t.Errorf("summary %+v", got)
	}
}
