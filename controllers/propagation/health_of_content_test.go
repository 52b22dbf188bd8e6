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

package propagation

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fmt"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// says returns a function that adds a healthy report to a Work.
func says(status string) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) {
		work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
			Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Kind: "Deployment"},
			Health:     workv1alpha1.ResourceHealthy, Status: &runtime.RawExtension{Raw: []byte(status)},
		}}
	}
}

// generationsOf returns the report of a Deployment.
func generationsOf(member, template int) string {
	return fmt.Sprintf(`{"generation":%d,"resourceTemplateGeneration":%d}`, member, template)
}

// report confirms every Work as Karmada does, with a report on a Deployment.
func (b *bench) report(t *testing.T, member, template int) {
	t.Helper()
	b.confirm(t)
	for _, work := range b.works(t) {
		says(generationsOf(member, template))(&work)
		if err := b.server.Status().Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
}

// floorOn returns the health floor of the Work of a cluster.
func (b *bench) floorOn(t *testing.T, cluster string) string {
	t.Helper()
	for _, work := range b.works(t) {
		if render.ClusterOf(work.Namespace) == cluster {
			return work.Annotations[propagationv1alpha1.HealthFloorAnnotation]
		}
	}
	return ""
}

// isReadyNow reports whether Ready is True once there are no more writes.
func (b *bench) isReadyNow(t *testing.T) bool {
	t.Helper()
	b.settle(t)
	return meta.IsStatusConditionTrue(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady)
}

// TestHealthAfterReplicasChange: the replicas of one cluster change, but the
// generation of the template does not. The existing report does not make the object
// Ready; a new report or the end of the wait does.
func TestHealthAfterReplicasChange(t *testing.T) {
	t.Run("a new report", aNewReport)
	t.Run("no new report", noNewReport)
	t.Run("a new template", aNewTemplate)
	t.Run("a template that returns", anEarlierTemplate)
	t.Run("a new template, and other replicas again", aNewTemplateAndReplicas)
}

// hasOtherReplicas returns a bench that was Ready until the replicas of member1
// changed.
func hasOtherReplicas(t *testing.T) (*bench, *clocktesting.FakePassiveClock) {
	t.Helper()
	objects := aShop()
	objects[0].SetGeneration(4)
	b, passive := newBench(t, objects...), clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second))
	b.Clock = passive
	b.settle(t)
	b.report(t, 7, 4)
	if !b.isReadyNow(t) {
		t.Fatalf("not Ready: %+v", b.propagation(t).Status)
	}
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.Clusters[0].Replicas = ptr.To[int32](3) })
	b.settle(t)
	const work = "Work karmada-es-member1/web-56d6c779bb"
	if got := strings.Join(b.writes, ", "); got != "patch status of "+work+", update "+work+", update status of DirectPropagation shop/web" {
		t.Errorf("writes: %s", got)
	}
	if one, two := b.floorOn(t, "member1"), b.floorOn(t, "member2"); one != "generation 7" || two != "" {
		t.Errorf("floors: %q, %q", one, two)
	}
	b.report(t, 7, 4)
	if b.isReadyNow(t) {
		t.Error("Ready because of a report on the old content")
	}
	if one, two := b.rowOf(t, "member1"), b.rowOf(t, "member2"); one.Reason != propagationv1alpha1.ReasonHealthUnknown || two.Reason != propagationv1alpha1.ReasonApplied {
		t.Errorf("rows: %s; %s", described(one), described(two))
	}
	return b, passive
}

// aNewReport: a new report ends the wait.
func aNewReport(t *testing.T) {
	t.Helper()
	b, _ := hasOtherReplicas(t)
	b.report(t, 8, 4)
	if !b.isReadyNow(t) {
		t.Errorf("not Ready: %s", described(b.rowOf(t, "member1")))
	}
	b.restart()
	b.writes = nil
	if !b.isReadyNow(t) || len(b.writes) > 0 {
		t.Errorf("after a restart: %v", b.writes)
	}
}

// noNewReport: without a new report, time ends the wait.
func noNewReport(t *testing.T) {
	t.Helper()
	b, passive := hasOtherReplicas(t)
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > decide.GenerationTime {
		t.Errorf("requeued after %v, error %v; want at most %v", result.RequeueAfter, err, decide.GenerationTime)
	}
	passive.SetTime(passive.Now().Add(decide.GenerationTime - time.Second))
	if b.isReadyNow(t) {
		t.Error("Ready before the wait is over")
	}
	b.restart()
	passive.SetTime(passive.Now().Add(time.Second))
	if !b.isReadyNow(t) {
		t.Errorf("not Ready: %s", described(b.rowOf(t, "member1")))
	}
	b.restart()
	b.writes = nil
	if !b.isReadyNow(t) || len(b.writes) > 0 {
		t.Errorf("after a restart: %v", b.writes)
	}
}

// hasNewTemplate returns a bench whose template and replicas of member1 have changed since
// the last report.
func hasNewTemplate(t *testing.T) *bench {
	t.Helper()
	b, _ := hasOtherReplicas(t)
	b.hasTemplate(t, 5, "nginx:2")
	if floor := b.floorOn(t, "member1"); floor != "passed 8" {
		t.Errorf("floor: %q", floor)
	}
	return b
}

// hasTemplate changes the template.
func (b *bench) hasTemplate(t *testing.T, generation int64, image string) {
	t.Helper()
	template := webDeployment()
	if err := b.server.Get(t.Context(), client.ObjectKeyFromObject(template), template); err != nil {
		t.Fatal(err)
	}
	template.Generation, template.Labels = generation, map[string]string{"new": "true"}
	template.Spec.Template.Spec.Containers[0].Image = image
	if err := b.server.Update(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
}

// anEarlierTemplate: the cluster gets the generation of the template again that it has
// reported last, as a rollback does. The report from then does not count.
func anEarlierTemplate(t *testing.T) {
	t.Helper()
	b := hasNewTemplate(t)
	b.hasTemplate(t, 4, "nginx:3")
	if floor := b.floorOn(t, "member1"); floor != "generation 9" {
		t.Errorf("floor: %q", floor)
	}
	b.report(t, 7, 4)
	if b.isReadyNow(t) {
		t.Error("Ready because of a report on earlier content")
	}
	b.report(t, 10, 4)
	if !b.isReadyNow(t) {
		t.Errorf("not Ready: %s", described(b.rowOf(t, "member1")))
	}
}

// aNewTemplate: the generation of a new template distinguishes the reports. The floor only
// counts.
func aNewTemplate(t *testing.T) {
	t.Helper()
	b := hasNewTemplate(t)
	b.report(t, 8, 4)
	if b.isReadyNow(t) {
		t.Error("Ready because of a report on the old template")
	}
	b.report(t, 9, 5)
	if !b.isReadyNow(t) {
		t.Errorf("not Ready: %s", described(b.rowOf(t, "member1")))
	}
}

// aNewTemplateAndReplicas: three writes are still to be reported, the last two with the same
// template. A report on the second is not taken for one on the third.
func aNewTemplateAndReplicas(t *testing.T) {
	t.Helper()
	b := hasNewTemplate(t)
	b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.Clusters[0].Replicas = ptr.To[int32](5) })
	b.settle(t)
	if floor := b.floorOn(t, "member1"); floor != "generation 9" {
		t.Errorf("floor: %q", floor)
	}
	b.report(t, 9, 5)
	if b.isReadyNow(t) {
		t.Error("Ready because of a report on the content before")
	}
	b.report(t, 10, 5)
	if !b.isReadyNow(t) {
		t.Errorf("not Ready: %s", described(b.rowOf(t, "member1")))
	}
}

// TestMetadataChangesKeepHealth: a change to only labels and annotations does not
// change the health, and needs no floor.
func TestMetadataChangesKeepHealth(t *testing.T) {
	objects := aShop()
	objects[0].SetGeneration(4)
	b := newBench(t, objects...)
	b.settle(t)
	b.report(t, 7, 4)
	template := webDeployment()
	if err := b.server.Get(t.Context(), client.ObjectKeyFromObject(template), template); err != nil {
		t.Fatal(err)
	}
	template.Labels = map[string]string{"new": "true"}
	if err := b.server.Update(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if floor := b.floorOn(t, "member1"); floor != "" {
		t.Errorf("floor: %q", floor)
	}
	b.report(t, 7, 4)
	if !b.isReadyNow(t) {
		t.Errorf("not Ready: %s", described(b.rowOf(t, "member1")))
	}
}

// restart forgets what a process loses when it restarts.
func (b *bench) restart() {
	b.memories.of(web).forgetResource()
	b.ledger = cached.NewLedger(b.Clock)
}

// Karmada calls a Deployment healthy that has one updated and one available replica, also if
// the available one is an old one and the updated one never becomes available.
func TestOldReplicaIsNotHealth(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	for _, work := range b.works(t) {
		says(`{"generation":1,"replicas":2,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"unavailableReplicas":1}`)(&work)
		if err := b.server.Status().Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
	b.settle(t)
	if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonUnhealthy {
		t.Errorf("row: %s", described(row))
	}
}
