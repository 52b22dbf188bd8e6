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
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
)

// reported is what the Work of a Deployment says of the member.
type reported struct {
	Generation                 int64 `json:"generation"`
	ResourceTemplateGeneration int64 `json:"resourceTemplateGeneration"`
	appsv1.DeploymentStatus    `json:",inline"`
	health                     workv1alpha1.ResourceHealth
}

func (w *world) reported(key types.NamespacedName) reported {
	w.Helper()
	statuses := w.work(key).Status.ManifestStatuses
	if len(statuses) != 1 {
		w.Fatalf("%d manifest statuses", len(statuses))
	}
	r := reported{health: statuses[0].Health}
	if statuses[0].Status != nil {
		w.must(json.Unmarshal(statuses[0].Status.Raw, &r))
	}
	return r
}

// The facts are in status.WorkStatusController.reflectStatus and in the native
// interpreter: the report names the generation of the template, and a workload is
// unhealthy until its Pods are available.
func TestDeploymentStatusIsReflected(t *testing.T) {
	forMode(t, func(w *world, _ *Member) {
		key := w.sends(deployment("web:1"), "m1")
		var said []workv1alpha1.ResourceHealth
		for range 300 {
			actions := w.actions()
			if len(actions) == 0 {
				break
			}
			w.take(actions[0])
			if statuses := w.work(key).Status.ManifestStatuses; len(statuses) == 1 && (len(said) == 0 || said[len(said)-1] != statuses[0].Health) {
				said = append(said, statuses[0].Health)
			}
		}
		got := w.reported(key)
		if got.ResourceTemplateGeneration != 1 || got.Generation != 1 || got.ObservedGeneration != 1 || got.AvailableReplicas != 2 {
			w.Errorf("reported %+v", got)
		}
		if len(said) != 2 || said[0] != workv1alpha1.ResourceUnhealthy || said[1] != workv1alpha1.ResourceHealthy {
			w.Errorf("health was %v", said)
		}
		w.changes(key, func(work *workv1alpha1.Work) { setManifest(w.T, work, deployment("web:2"), 7) })
		w.pass(time.Second)
		if got = w.reported(key); got.ResourceTemplateGeneration != 7 || got.Generation != 2 || got.health != workv1alpha1.ResourceHealthy {
			w.Errorf("after the update, reported %+v", got)
		}
	})
}

// The fact is in the native interpreter: Pods that never become available leave a
// workload unhealthy.
func TestBrokenWorkloadIsUnhealthy(t *testing.T) {
	w, member := shop(t, push)
	member.Broken = func(Key) bool { return true }
	key := w.sends(deployment("web:1"), "m1")
	w.pass(time.Minute)
	if got := w.reported(key); got.health != workv1alpha1.ResourceUnhealthy || got.UpdatedReplicas != 2 || got.AvailableReplicas != 0 {
		t.Errorf("reported %+v", got)
	}
}

// The fact is in status.WorkStatusController.interpretHealth: a kind without a rule is
// healthy as soon as it exists.
func TestKindWithoutRuleIsHealthy(t *testing.T) {
	w, _ := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	statuses := w.work(key).Status.ManifestStatuses
	if len(statuses) != 1 || statuses[0].Health != workv1alpha1.ResourceHealthy || statuses[0].Status != nil {
		t.Errorf("reported %+v", statuses)
	}
	if id := statuses[0].Identifier; id.Kind != "ConfigMap" || id.Version != "v1" || id.Namespace != "shop" || id.Name != "settings" {
		t.Errorf("identifier %+v", id)
	}
}

// The fact is in the native interpreter's reflectDeploymentStatus: without the annotation
// with the generation, nothing is reported.
func TestNoStatusWithoutTemplateGeneration(t *testing.T) {
	w, _ := shop(t, push)
	work := workOf(t, deployment("web:1"), "m1")
	manifest := &unstructured.Unstructured{}
	w.must(manifest.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw))
	annotations := manifest.GetAnnotations()
	delete(annotations, "resourcetemplate.karmada.io/generation")
	manifest.SetAnnotations(annotations)
	raw, err := manifest.MarshalJSON()
	w.must(err)
	work.Spec.Workload.Manifests[0].Raw = raw
	w.must(w.c.Create(w.ctx, work))
	w.pass(time.Minute)
	w.says(keyOf(work), dispatching, applied)
	if statuses := w.work(keyOf(work)).Status.ManifestStatuses; len(statuses) != 0 {
		t.Errorf("reported %+v", statuses)
	}
}

// The fact is in status.WorkStatusController.updateResource: an edit on the member is
// undone, without a change of the conditions.
func TestDriftIsRepaired(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		key := w.sends(configMap("one"), "m1")
		w.pass(time.Second)
		w.must(member.Edit(settingsKey, func(object *unstructured.Unstructured) {
			w.must(unstructured.SetNestedField(object.Object, "edited", "data", "says"))
		}))
		w.runs(member, "edited")
		w.pass(time.Second)
		w.runs(member, "one")
		w.says(key, dispatching, applied)
	})
}

// The facts are in util.RetainLabels and util.RetainAnnotations: what somebody adds on
// the member stays.
func TestMarksOfTheMemberStay(t *testing.T) {
	w, member := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	w.must(member.Edit(settingsKey, func(object *unstructured.Unstructured) {
		labels := object.GetLabels()
		labels["here"] = "yes"
		object.SetLabels(labels)
	}))
	w.changes(key, func(work *workv1alpha1.Work) { setManifest(t, work, configMap("two"), 2) })
	w.pass(time.Second)
	w.runs(member, "two")
	if running, _ := member.Runs(configMapKind, "shop", "settings"); running.Object.GetLabels()["here"] != "yes" {
		t.Errorf("labels %v", running.Object.GetLabels())
	}
}

// The fact is in status.WorkStatusController.handleDeleteEvent: an object that somebody
// deletes on the member comes back, and Applied gets another reason.
func TestDeletedObjectIsRecreated(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		key := w.sends(configMap("one"), "m1")
		w.pass(time.Second)
		w.must(member.Delete(settingsKey))
		w.pass(time.Second)
		w.runs(member, "one")
		w.says(key, dispatching, "Applied=True ReCreateSuccessful")
		if deletions := member.Deletions(); len(deletions) != 1 || deletions[0].Cause != DeletedThere {
			w.Errorf("deletions %+v", deletions)
		}
	})
}

// The fact is in status.WorkStatusController.handleDeleteEvent: it writes Applied, too,
// when the object cannot be created.
func TestDeletedObjectThatIsRefused(t *testing.T) {
	w, member := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	member.Refuse = func(string, *unstructured.Unstructured) error { return errors.New("not now") }
	w.must(member.Delete(settingsKey))
	w.pass(time.Second)
	w.says(key, dispatching, "Applied=False ReCreateFailed")
	member.Refuse = nil
	w.pass(10 * time.Minute)
	w.says(key, dispatching, "Applied=True ReCreateSuccessful")
	w.runs(member, "one")
}

// The fact is in status.WorkStatusController.handleDeleteEvent: the Work is found by the
// naming scheme. Under another name, the object stays away and Applied stays True.
func TestDeletedObjectOfAWorkWithAnotherName(t *testing.T) {
	w, member := shop(t, push)
	work := workOf(t, configMap("one"), "m1")
	work.Name = "mine"
	setManifest(t, work, configMap("one"), 1)
	w.must(w.c.Create(w.ctx, work))
	w.pass(time.Second)
	w.runs(member, "one")
	w.must(member.Delete(settingsKey))
	w.pass(10 * time.Minute)
	w.runs(member, "")
	w.says(keyOf(work), dispatching, applied)
}

// The fact is in status.WorkStatusController.recreateResourceIfNeeded: it creates the
// object of the Work that the cache shows, which may be older than the spec.
func TestRecreationMayBeStale(t *testing.T) {
	w, member := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	w.must(member.Delete(settingsKey))
	w.does("/informer m1", "sees a change of shop/settings")
	w.resets(key)
	w.changes(key, func(work *workv1alpha1.Work) { setManifest(t, work, configMap("two"), 2) })
	w.does("/work-status m1", "reads the object")
	w.does("/work-status m1", "recreates the object")
	w.catchUp(key)
	w.does("/work-status m1", "writes Applied")
	w.runs(member, "one")
	w.says(key, "Applied=True ReCreateSuccessful")
	w.pass(time.Minute)
	w.runs(member, "two")
	w.says(key, "Applied=True AppliedSuccessful", dispatching)
}

// The fact is in status.WorkStatusController.registerInformersAndStart: the cache of a
// kind is used only after the controller has seen an applied Work of the kind.
func TestCacheIsUsedOnlyOnceItIsSynced(t *testing.T) {
	w, _ := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.attempts(key, "reads the Work", "writes Dispatching", "applies", "writes Applied")
	w.cannot("/informer", "ConfigMap")
	w.catchUp(key)
	w.does("/work-status", key.Name, "reads the Work")
	w.does("/informer", "ConfigMap", "lists")
	if inf := w.k.manager.informers["m1"].kinds[configMapKind]; inf.synced {
		t.Error("the cache is in use before the controller has seen that it is filled")
	}
	w.does("/work-status", key.Name, "waits for the cache")
	if inf := w.k.manager.informers["m1"].kinds[configMapKind]; !inf.synced {
		t.Error("the cache is not in use")
	}
}

// The fact is in util.SetLabelsAndAnnotationsForWorkload and in the webhook's Handle: a
// Work and its manifest get the same permanent ID, and a second pass changes nothing.
func TestAdmit(t *testing.T) {
	work := workOf(t, deployment("web:1"), "m1")
	if err := Admit(work, "id"); err != nil {
		t.Fatal(err)
	}
	if got := work.Labels["work.karmada.io/permanent-id"]; got != "id" {
		t.Errorf("permanent ID %q", got)
	}
	manifest := string(work.Spec.Workload.Manifests[0].Raw)
	for _, want := range []string{`"work.karmada.io/permanent-id":"id"`, "resourcetemplate.karmada.io/managed-annotations", "resourcetemplate.karmada.io/managed-labels"} {
		if !strings.Contains(manifest, want) {
			t.Errorf("the manifest lacks %s: %s", want, manifest)
		}
	}
	if err := Admit(work, "other"); err != nil {
		t.Fatal(err)
	}
	if again := string(work.Spec.Workload.Manifests[0].Raw); again != manifest {
		t.Errorf("the second pass changes the manifest:\n%s\n%s", manifest, again)
	}
}

// The fact is in prune.RemoveIrrelevantFields, which the webhook calls.
func TestAdmitPrunes(t *testing.T) {
	resource := configMap("one")
	resource.SetUID("uid")
	resource.SetFinalizers([]string{"example.org/stay"})
	resource.Object["status"] = map[string]any{"said": "yes"}
	work := workOf(t, resource, "m1")
	if err := Admit(work, "id"); err != nil {
		t.Fatal(err)
	}
	manifest := string(work.Spec.Workload.Manifests[0].Raw)
	for _, gone := range []string{`"uid":"uid"`, "example.org/stay", `"status"`} {
		if strings.Contains(manifest, gone) {
			t.Errorf("the manifest still has %s: %s", gone, manifest)
		}
	}
}
