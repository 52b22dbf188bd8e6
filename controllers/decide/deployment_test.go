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
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// deployed is a Deployment of two replicas on clusters, with a clock and the status that was
// written last.
type deployed struct {
	object *appsv1.Deployment
	state  Deployment
	now    time.Time
	next   time.Time
}

func newDeployed(clusters ...string) *deployed {
	d := &deployed{object: &appsv1.Deployment{}, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	d.object.Generation = 1
	d.object.Spec.Replicas = ptr.To[int32](2)
	d.object.Spec.ProgressDeadlineSeconds = ptr.To[int32](600)
	for _, cluster := range clusters {
		d.state.Clusters = append(d.state.Clusters, DeploymentOnCluster{Cluster: cluster, Wanted: 2, Confirmed: true})
	}
	return d
}

// reports has a cluster report a generation of the resource and a number of replicas: all,
// those of the current generation, and those that are available.
func (d *deployed) reports(cluster string, generation, replicas, updated, available int32) {
	at := slices.IndexFunc(d.state.Clusters, func(known DeploymentOnCluster) bool { return known.Cluster == cluster })
	known := &d.state.Clusters[at]
	known.Healthy = int64(updated) >= known.Wanted && available >= updated
	known.Report = fmt.Appendf(nil, `{"generation":1,"observedGeneration":1,"resourceTemplateGeneration":%d,"replicas":%d,"updatedReplicas":%d,"readyReplicas":%d,"availableReplicas":%d}`,
		generation, replicas, updated, available, available)
}

// settle aggregates as Karmada does: it adds the counts, and takes the generation over if
// all clusters have reported it.
func (d *deployed) settle() {
	before, status := d.object.DeepCopy(), &d.object.Status
	*status = appsv1.DeploymentStatus{ObservedGeneration: status.ObservedGeneration, Conditions: status.Conditions}
	current := 0
	for i := range d.state.Clusters {
		report := decoded[deploymentReport](d.state.Clusters[i].Report)
		status.Replicas += int32(report.Replicas)
		status.UpdatedReplicas += int32(report.UpdatedReplicas)
		status.ReadyReplicas += int32(report.AvailableReplicas)
		status.AvailableReplicas += int32(report.AvailableReplicas)
		if report.ResourceTemplateGeneration >= d.object.Generation {
			current++
		}
	}
	if current == len(d.state.Clusters) {
		status.ObservedGeneration = d.object.Generation
	}
	d.next = d.state.Settle(before, d.object, d.now)
}

// is settles and checks the conditions, status.replicas and the observed generation.
func (d *deployed) is(t *testing.T, available, progressing string, replicas int32, observed int64) {
	t.Helper()
	d.settle()
	got := map[appsv1.DeploymentConditionType]string{}
	for _, condition := range d.object.Status.Conditions {
		got[condition.Type] = fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
	}
	want := map[appsv1.DeploymentConditionType]string{appsv1.DeploymentAvailable: available, appsv1.DeploymentProgressing: progressing}
	if progressing == "" {
		delete(want, appsv1.DeploymentProgressing)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if status := d.object.Status; status.Replicas != replicas || status.ObservedGeneration != observed {
		t.Errorf("%d replicas and generation %d, want %d and %d", status.Replicas, status.ObservedGeneration, replicas, observed)
	}
	if status := d.object.Status; max(status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas) > status.Replicas {
		t.Errorf("the API server refuses %+v", status)
	}
	if d.rolledOut() && progressing != isComplete && progressing != "" && d.state.Failure == "" {
		t.Errorf("kubectl rollout status and Argo CD take it for complete: %+v", d.object.Status)
	}
	again := d.object.DeepCopy()
	d.settle()
	if diff := cmp.Diff(again.Status, d.object.Status); diff != "" {
		t.Errorf("the same reports give another status (-before +after):\n%s", diff)
	}
}

// rolledOut is the rule of kubectl rollout status and of Argo CD.
func (d *deployed) rolledOut() bool {
	status := &d.object.Status
	return status.ObservedGeneration >= d.object.Generation && status.UpdatedReplicas >= *d.object.Spec.Replicas &&
		status.Replicas <= status.UpdatedReplicas && status.AvailableReplicas >= status.UpdatedReplicas
}

const (
	isAvailable = "True MinimumReplicasAvailable: every cluster has minimum availability"
	isComplete  = "True NewReplicaSetAvailable: every cluster runs the current generation"
)

func lacks(clusters string) string {
	return "False MinimumReplicasUnavailable: " + clusters
}

func waitsFor(clusters string) string {
	return "True ReplicaSetUpdated: " + clusters
}

// A Deployment is available and complete when every cluster says so.
func TestDeploymentIsComplete(t *testing.T) {
	d := newDeployed("m1", "m2")
	d.reports("m1", 1, 2, 2, 2)
	d.is(t, lacks("1 of 2 clusters do not have minimum availability: m2"), waitsFor(unlimited+"1 of 2 clusters do not run the current generation: m2"), 2, 0)
	// The Pods of one cluster are as many as the spec asks for.
	d.reports("m2", 1, 0, 0, 0)
	d.is(t, lacks("1 of 2 clusters do not have minimum availability: m2"), waitsFor("1 of 2 clusters do not run the current generation: m2"), 2, 1)
	d.reports("m2", 1, 2, 2, 1)
	d.is(t, lacks("1 of 2 clusters do not have minimum availability: m2"), waitsFor("1 of 2 clusters do not run the current generation: m2"), 4, 1)
	d.reports("m2", 1, 2, 2, 2)
	d.is(t, isAvailable, isComplete, 2, 1)
	if !d.next.IsZero() {
		t.Errorf("a complete Deployment is judged again at %s", d.next)
	}
	// Later, replicas fail. As on one cluster, the Deployment stays complete.
	d.now = d.now.Add(time.Hour)
	d.reports("m2", 1, 2, 2, 1)
	d.is(t, lacks("1 of 2 clusters do not have minimum availability: m2"), isComplete, 4, 1)
}

// The clusters of a Deployment that is updated are available all the time. The update
// counts from the moment in which all clusters report it.
func TestDeploymentIsUpdated(t *testing.T) {
	d := newDeployed("m1", "m2")
	d.reports("m1", 1, 2, 2, 2)
	d.reports("m2", 1, 2, 2, 2)
	d.is(t, isAvailable, isComplete, 2, 1)
	d.now, d.object.Generation = d.now.Add(time.Hour), 2
	before := d.object.Status.DeepCopy()
	d.object.Spec.Replicas = ptr.To[int32](5)
	d.settle()
	if diff := cmp.Diff(before, &d.object.Status); diff != "" {
		t.Errorf("the status is written before any cluster reports the change (-before +after):\n%s", diff)
	}
	d.object.Spec.Replicas = ptr.To[int32](2)
	d.reports("m1", 2, 3, 1, 2)
	d.is(t, isAvailable, isComplete, 5, 1)
	d.reports("m2", 2, 3, 1, 2)
	d.is(t, isAvailable, waitsFor("2 of 2 clusters do not run the current generation: m1, m2"), 6, 2)
	d.reports("m1", 2, 2, 2, 2)
	// An old replica is left.
	d.reports("m2", 2, 3, 2, 3)
	d.is(t, isAvailable, waitsFor("1 of 2 clusters do not run the current generation: m2"), 5, 2)
	d.reports("m2", 2, 2, 2, 2)
	d.is(t, isAvailable, isComplete, 2, 2)
}

// A Deployment without progress fails at its deadline, whatever process looks then, and
// recovers when there is progress.
func TestDeploymentMissesItsDeadline(t *testing.T) {
	d := newDeployed("m1", "m2")
	d.reports("m1", 1, 2, 2, 2)
	d.reports("m2", 1, 2, 2, 0)
	began := d.now
	unavailable, waiting := lacks("1 of 2 clusters do not have minimum availability: m2"), "1 of 2 clusters do not run the current generation: m2"
	d.is(t, unavailable, waitsFor(waiting), 4, 1)
	d.now = began.Add(5 * time.Minute)
	d.is(t, unavailable, waitsFor(waiting), 4, 1)
	if want := began.Add(10 * time.Minute); !d.next.Equal(want) {
		t.Errorf("judged again at %s, want %s", d.next, want)
	}
	d.reports("m2", 1, 2, 2, 1)
	d.is(t, unavailable, waitsFor(waiting), 4, 1)
	d.now = began.Add(15*time.Minute - time.Second)
	d.is(t, unavailable, waitsFor(waiting), 4, 1)
	d.now = began.Add(15 * time.Minute)
	d.is(t, unavailable, "False ProgressDeadlineExceeded: no progress within progressDeadlineSeconds: "+waiting, 4, 1)
	d.now = began.Add(time.Hour)
	d.is(t, unavailable, "False ProgressDeadlineExceeded: no progress within progressDeadlineSeconds: "+waiting, 4, 1)
	if !d.next.IsZero() {
		t.Errorf("a failed Deployment is judged again at %s", d.next)
	}
	// A new generation begins anew.
	d.object.Generation = 2
	d.reports("m1", 2, 2, 2, 2)
	d.reports("m2", 2, 3, 1, 0)
	d.is(t, unavailable, waitsFor(waiting), 5, 2)
	if want := d.now.Add(10 * time.Minute); !d.next.Equal(want) {
		t.Errorf("judged again at %s, want %s", d.next, want)
	}
	d.reports("m2", 2, 2, 2, 2)
	d.is(t, isAvailable, isComplete, 2, 2)
}

// A cluster without a Work, without a report, or that does not confirm what it was sent,
// keeps a Deployment from being complete.
func TestDeploymentOnLateClusters(t *testing.T) {
	d := newDeployed("m1", "m2")
	d.reports("m1", 1, 2, 2, 2)
	d.reports("m2", 1, 2, 2, 2)
	d.state.Missing = []string{"m3", "m4", "m5", "m6"}
	d.is(t, lacks("4 of 6 clusters do not have minimum availability: m3, m4, m5 and 1 more"),
		waitsFor(unlimited+"4 of 6 clusters do not run the current generation: m3, m4, m5 and 1 more"), 4, 0)
	d.state.Missing, d.state.Clusters[1].Confirmed = nil, false
	d.is(t, isAvailable, waitsFor("1 of 2 clusters do not run the current generation: m2"), 4, 1)
	d.state.Clusters[1].Confirmed = true
	d.is(t, isAvailable, isComplete, 2, 1)
	// What every cluster has reached is not lost while the same is sent again.
	d.state.Clusters[1].Confirmed = false
	d.is(t, isAvailable, isComplete, 2, 1)
	d.state.Clusters[1].Confirmed, d.state.Missing = true, []string{"m3"}
	d.is(t, lacks("1 of 3 clusters do not have minimum availability: m3"), waitsFor(unlimited+"1 of 3 clusters do not run the current generation: m3"), 4, 1)
	// A cluster that joins has all the time it needs until it reports.
	d.now = d.now.Add(time.Hour)
	d.is(t, lacks("1 of 3 clusters do not have minimum availability: m3"), waitsFor(unlimited+"1 of 3 clusters do not run the current generation: m3"), 4, 1)
	d.state.Missing, d.state.Clusters = nil, append(d.state.Clusters, DeploymentOnCluster{Cluster: "m3", Wanted: 2, Confirmed: true})
	d.reports("m3", 1, 2, 2, 0)
	d.is(t, lacks("1 of 3 clusters do not have minimum availability: m3"), waitsFor("1 of 3 clusters do not run the current generation: m3"), 6, 1)
	if want := d.now.Add(10 * time.Minute); !d.next.Equal(want) {
		t.Errorf("judged again at %s, want %s", d.next, want)
	}
}

// The deadline does not run while clusters have not reported the generation, while the
// Deployment is paused, and if there is none.
func TestDeploymentWithoutDeadline(t *testing.T) {
	waiting := waitsFor(unlimited + "1 of 1 clusters do not run the current generation: m1")
	unavailable := lacks("1 of 1 clusters do not have minimum availability: m1")
	behind := newDeployed("m1")
	behind.object.Generation = 2
	behind.reports("m1", 1, 2, 2, 0)
	paused := newDeployed("m1")
	paused.object.Spec.Paused = true
	paused.reports("m1", 1, 2, 2, 0)
	for name, d := range map[string]*deployed{"behind": behind, "paused": paused} {
		t.Run(name, func(t *testing.T) {
			observed := d.object.Generation % 2
			d.is(t, unavailable, waiting, 2, observed)
			d.now = d.now.Add(time.Hour)
			d.is(t, unavailable, waiting, 2, observed)
			if !d.next.IsZero() {
				t.Errorf("judged again at %s", d.next)
			}
		})
	}
	endless := newDeployed("m1")
	endless.object.Spec.ProgressDeadlineSeconds = ptr.To[int32](math.MaxInt32)
	endless.reports("m1", 1, 5, 5, 2)
	endless.is(t, isAvailable, "", 5, 1)
	endless.reports("m1", 1, 5, 5, 5)
	endless.is(t, isAvailable, "", 2, 1)
}

// A failed rollout fails the Deployment, and a new one begins anew.
func TestDeploymentOfAFailedRollout(t *testing.T) {
	d := newDeployed("m1", "m2")
	d.reports("m1", 1, 2, 2, 2)
	d.reports("m2", 1, 2, 2, 2)
	d.object.Generation, d.state.Failure = 2, "the rollout has failed"
	d.is(t, isAvailable, "False ProgressDeadlineExceeded: the rollout has failed", 4, 2)
	d.now = d.now.Add(time.Hour)
	// A retry goes on with the same generation, which no cluster has.
	d.state.Failure = ""
	d.is(t, isAvailable, "False ProgressDeadlineExceeded: the rollout has failed", 4, 1)
	d.now = d.now.Add(time.Hour)
	d.is(t, isAvailable, "False ProgressDeadlineExceeded: the rollout has failed", 4, 1)
	if !d.next.IsZero() {
		t.Errorf("judged again at %s, although no cluster has reported the generation", d.next)
	}
	d.object.Generation = 3
	d.reports("m1", 3, 3, 1, 2)
	d.reports("m2", 3, 3, 1, 2)
	d.is(t, isAvailable, waitsFor("2 of 2 clusters do not run the current generation: m1, m2"), 6, 3)
}

// Minimum availability is what the strategy of the Deployment allows on each cluster.
func TestDeploymentMayLackReplicas(t *testing.T) {
	for _, c := range []struct {
		unavailable, surge string
		wanted             int64
		want               int64
	}{
		{"25%", "25%", 3, 0}, {"25%", "25%", 4, 1}, {"0", "1", 10, 0}, {"0", "0", 10, 1}, {"3", "1", 2, 2}, {"nonsense", "1", 10, 0},
	} {
		d := newDeployed()
		d.object.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: ptr.To(intstr.Parse(c.unavailable)), MaxSurge: ptr.To(intstr.Parse(c.surge)),
		}}
		if got := (&progress{after: d.object}).mayLack(c.wanted); got != c.want {
			t.Errorf("%s unavailable and %s more of %d: %d may lack, want %d", c.unavailable, c.surge, c.wanted, got, c.want)
		}
	}
	d := newDeployed()
	d.object.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	if got := (&progress{after: d.object}).mayLack(10); got != 0 {
		t.Errorf("%d may lack during a re-creation, want 0", got)
	}
}

// A user-defined aggregation that builds a status of its own takes no time away.
func TestDeploymentWithAnotherAggregation(t *testing.T) {
	d := newDeployed("m1")
	d.reports("m1", 1, 2, 2, 1)
	d.settle()
	began := d.now
	for range 3 {
		d.now = d.now.Add(time.Minute)
		before := d.object.DeepCopy()
		d.object.Status.Conditions = nil
		if d.next = d.state.Settle(before, d.object, d.now); !d.next.Equal(began.Add(10 * time.Minute)) {
			t.Errorf("judged again at %s", d.next)
		}
		if diff := cmp.Diff(before.Status.Conditions, d.object.Status.Conditions); diff != "" {
			t.Errorf("conditions (-before +after):\n%s", diff)
		}
	}
}

// While one cluster has no Pods yet, the failure of a Pod on another one is no progress.
func TestFailureIsNoProgress(t *testing.T) {
	d := newDeployed("m1", "m2")
	d.reports("m1", 1, 2, 2, 2)
	d.reports("m2", 1, 0, 0, 0)
	d.settle()
	began := d.next
	for _, available := range []int32{1, 0} {
		d.now = d.now.Add(time.Minute)
		d.reports("m1", 1, 2, 2, available)
		if d.settle(); !d.next.Equal(began) {
			t.Errorf("the deadline moves from %s to %s when a Pod fails", began, d.next)
		}
	}
}

// A Deployment of no replicas, which only overrides give some clusters, is not complete to
// kubectl either while another cluster lacks it.
func TestDeploymentOfNoReplicas(t *testing.T) {
	d := newDeployed("m1")
	d.object.Spec.Replicas = ptr.To[int32](0)
	d.reports("m1", 1, 2, 2, 2)
	d.is(t, isAvailable, isComplete, 0, 1)
	d.state.Missing = []string{"m2"}
	d.is(t, lacks("1 of 2 clusters do not have minimum availability: m2"), waitsFor(unlimited+"1 of 2 clusters do not run the current generation: m2"), 2, 1)
}

// Replicas that fail and recover between two generations count as what they are.
func TestRecoveryBeforeAChange(t *testing.T) {
	d := newDeployed("m1")
	d.reports("m1", 1, 2, 2, 2)
	d.settle()
	d.reports("m1", 1, 2, 2, 0)
	d.settle()
	d.object.Generation = 2
	d.reports("m1", 1, 2, 2, 2)
	d.settle()
	if status := &d.object.Status; status.AvailableReplicas != 2 || status.UnavailableReplicas != 0 {
		t.Errorf("the status is %+v, want 2 available replicas", status)
	}
}

// Counts from the middle of a change do not stay once those that have begun with it have finished.
func TestOthersHaveNotBegun(t *testing.T) {
	d := newDeployed("m1", "m2")
	d.reports("m1", 1, 2, 2, 2)
	d.reports("m2", 1, 2, 2, 2)
	d.settle()
	d.object.Generation = 2
	d.reports("m1", 2, 3, 2, 3)
	d.settle()
	d.reports("m1", 2, 2, 2, 2)
	d.settle()
	if status := &d.object.Status; status.Replicas != 4 || status.UpdatedReplicas != 4 {
		t.Errorf("the status is %+v, want the sums, which are 4", status)
	}
}
