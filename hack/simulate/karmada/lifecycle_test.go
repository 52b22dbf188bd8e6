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
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// ready is the condition Ready of the cluster m1.
func (w *world) ready() metav1.Condition {
	w.Helper()
	ready := meta.FindStatusCondition(w.cluster("m1").Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	if ready == nil {
		return metav1.Condition{}
	}
	return *ready
}

func (w *world) lacks(object, key string) bool {
	w.Helper()
	switch object {
	case "Cluster":
		return apierrors.IsNotFound(w.c.Get(w.ctx, types.NamespacedName{Name: key}, &clusterv1alpha1.Cluster{}))
	default:
		return apierrors.IsNotFound(w.c.Get(w.ctx, types.NamespacedName{Name: key}, &corev1.Namespace{}))
	}
}

// The fact is in cluster.Controller.syncCluster: the execution namespace comes after the
// Cluster, then the taint, then the finalizer, and only then does anybody look at the
// member.
func TestClusterJoins(t *testing.T) {
	w := newWorld(t)
	w.k.AddMember("m1", push)
	w.actions() // Karmada starts
	w.must(w.c.Create(w.ctx, NewCluster("m1", push)))
	w.does("sees the creation of Cluster", "m1")
	if !w.lacks("Namespace", "karmada-es-m1") {
		t.Fatal("the execution namespace is there at once")
	}
	w.does("/cluster ", "reads the Cluster")
	w.does("/cluster ", "creates the execution namespace")
	if w.lacks("Namespace", "karmada-es-m1") {
		t.Fatal("there is no execution namespace")
	}
	w.does("/cluster ", "writes the taints")
	if taints := w.cluster("m1").Spec.Taints; len(taints) != 1 || taints[0].Key != clusterv1alpha1.TaintClusterNotReady {
		t.Errorf("taints %v", taints)
	}
	w.pass(time.Second)
	cluster := w.cluster("m1")
	if !util.IsClusterReady(&cluster.Status) || len(cluster.Spec.Taints) != 0 || len(cluster.Status.APIEnablements) == 0 {
		t.Errorf("after a second: %+v", cluster)
	}
}

// The facts are in status.ClusterStatusController and its thresholdAdjustedReadyCondition:
// a push cluster is polled every 10 s, and changes after 30 s.
func TestPushClusterIsLostAndFound(t *testing.T) {
	w, member := shop(t, push)
	member.Cut()
	w.pass(25 * time.Second)
	if ready := w.ready(); ready.Status != metav1.ConditionTrue {
		t.Fatalf("after 25 s: %+v", ready)
	}
	w.pass(20 * time.Second)
	if ready := w.ready(); ready.Status != metav1.ConditionFalse || ready.Reason != "ClusterNotReachable" {
		t.Fatalf("after 45 s: %+v", ready)
	}
	if taints := w.cluster("m1").Spec.Taints; len(taints) != 1 || taints[0].Key != clusterv1alpha1.TaintClusterNotReady {
		t.Errorf("taints %v", taints)
	}
	member.Mend()
	w.pass(25 * time.Second)
	if ready := w.ready(); ready.Status != metav1.ConditionFalse {
		t.Fatalf("25 s after the end: %+v", ready)
	}
	w.pass(20 * time.Second)
	if ready := w.ready(); ready.Status != metav1.ConditionTrue {
		t.Fatalf("45 s after the end: %+v", ready)
	}
}

// The fact is in cluster.Controller.tryUpdateClusterHealth: a pull cluster is Unknown
// after 40 s without a lease. Its agent goes on with what it knows.
func TestPullClusterIsLostAndFound(t *testing.T) {
	w, member := shop(t, pull)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	member.Cut()
	w.changes(key, func(work *workv1alpha1.Work) { setManifest(t, work, configMap("two"), 2) })
	w.pass(35 * time.Second)
	if ready := w.ready(); ready.Status != metav1.ConditionTrue {
		t.Fatalf("after 35 s: %+v", ready)
	}
	w.pass(25 * time.Second)
	if ready := w.ready(); ready.Status != metav1.ConditionUnknown || ready.Reason != "ClusterStatusUnknown" {
		t.Fatalf("after a minute: %+v", ready)
	}
	w.must(member.Delete(settingsKey))
	w.pass(time.Minute)
	w.runs(member, "one") // recreated by the agent, of the Work that it knows
	member.Mend()
	w.pass(time.Minute)
	if ready := w.ready(); ready.Status != metav1.ConditionTrue {
		t.Fatalf("a minute after the end: %+v", ready)
	}
	w.runs(member, "two")
}

// The fact is in metav1.Now in the agent: the times of conditions are those of the
// member's clock.
func TestAgentWritesItsOwnTime(t *testing.T) {
	w, member := shop(t, pull)
	member.ClockOffset = time.Hour
	key := w.sends(configMap("one"), "m1")
	at := w.now
	w.pass(time.Second)
	for _, condition := range w.work(key).Status.Conditions {
		if got := condition.LastTransitionTime.Sub(at); got < time.Hour || got > time.Hour+time.Second {
			t.Errorf("%s is %v ahead", condition.Type, got)
		}
	}
}

// The fact is in cluster.Controller.removeCluster: the deletion of a Cluster empties its
// execution namespace, and so the member. It may come back under the same name.
func TestClusterIsRemovedAndComesBack(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		mode := w.cluster("m1").Spec.SyncMode
		key := w.sends(configMap("one"), "m1")
		w.pass(time.Second)
		w.must(w.c.Delete(w.ctx, w.cluster("m1")))
		w.pass(time.Minute)
		if !w.lacks("Cluster", "m1") || !w.lacks("Namespace", "karmada-es-m1") {
			w.Fatal("the Cluster or its namespace is still there")
		}
		w.runs(member, "")
		for _, deletion := range member.Deletions() {
			if deletion.Key == settingsKey && deletion.Cause == DeletedThere {
				w.Errorf("%+v", deletion)
			}
		}
		w.must(w.c.Create(w.ctx, NewCluster("m1", mode)))
		w.pass(time.Minute)
		w.must(w.c.Create(w.ctx, workOf(w.T, configMap("back"), "m1")))
		w.pass(time.Minute)
		w.says(key, dispatching, applied)
		w.runs(member, "back")
	})
}

// The fact is in cluster.Controller.removeExecutionSpace: a pull cluster whose agent is
// silent is removed without being cleaned up.
func TestSilentPullClusterIsRemoved(t *testing.T) {
	w, member := shop(t, pull)
	w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	member.Cut()
	w.pass(2 * time.Minute)
	w.must(w.c.Delete(w.ctx, w.cluster("m1")))
	w.pass(2 * time.Minute)
	if !w.lacks("Cluster", "m1") {
		t.Fatal("the Cluster is still there")
	}
	w.runs(member, "one")
}

// The fact is in karmadactl unregister: the Works of a pull cluster are deleted before
// its Cluster, and whoever restores them holds it up.
func TestUnregister(t *testing.T) {
	w, member := shop(t, pull)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	w.k.Unregister("m1")
	w.rest()
	w.now = w.now.Add(commandPause)
	w.does("karmadactl /m1: lists the Works")
	w.does("karmadactl /m1: deletes Work")
	if w.cluster("m1").DeletionTimestamp != nil {
		t.Fatal("the Cluster is being deleted before its Works")
	}
	w.pass(time.Minute)
	if done, err := w.k.CommandResult("m1"); !done || err != nil {
		t.Errorf("done %v, error %v", done, err)
	}
	if !w.isGone(&workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}) || !w.lacks("Cluster", "m1") {
		t.Error("something is left")
	}
	w.runs(member, "")
}

// The fact is in karmadactl unregister: a Work that is restored at once lets the command
// fail after a minute.
func TestUnregisterIsHeldUp(t *testing.T) {
	w, _ := shop(t, pull)
	w.k.Unregister("m1")
	for range 80 {
		if key := keyOf(workOf(t, configMap("one"), "m1")); w.isGone(&workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}) {
			w.sends(configMap("one"), "m1")
		}
		w.pass(time.Second)
	}
	if done, err := w.k.CommandResult("m1"); !done || err == nil {
		t.Errorf("done %v, error %v", done, err)
	}
	if w.cluster("m1").DeletionTimestamp != nil {
		t.Error("the Cluster is being deleted")
	}
}

// The fact is in karmadactl unjoin --force: it strips the finalizers of a cluster that
// cannot be cleaned up.
func TestUnjoinByForce(t *testing.T) {
	w, member := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	member.Refuse = nil
	member.Cut()
	w.k.Unjoin("m1", true)
	w.pass(10 * time.Minute)
	if done, err := w.k.CommandResult("m1"); !done || err != nil {
		t.Errorf("done %v, error %v", done, err)
	}
	if !w.lacks("Cluster", "m1") || !w.isGone(&workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}) {
		t.Error("something is left")
	}
	w.runs(member, "one")
}

// The facts are in namespace.Controller: the Work of a namespace has a controller that
// owns it, none of the labels of a binding, and no conflict resolution. It goes with the
// namespace, and with it all that the member has there.
func TestNamespaceSync(t *testing.T) {
	w, member := shop(t, push)
	key := types.NamespacedName{Namespace: "karmada-es-m1", Name: names.GenerateWorkName("Namespace", "shop", "")}
	work := w.work(key)
	if owner := metav1.GetControllerOf(work); owner == nil || owner.Kind != "Namespace" || owner.Name != "shop" {
		t.Errorf("owner %+v", owner)
	}
	if len(work.Labels) != 1 || len(work.Annotations) != 0 {
		t.Errorf("labels %v, annotations %v", work.Labels, work.Annotations)
	}
	if manifest := string(work.Spec.Workload.Manifests[0].Raw); !strings.Contains(manifest, `"resourcetemplate.karmada.io/uid":"uid-`) {
		t.Errorf("manifest %s", manifest)
	}
	w.must(member.Create(configMap("made on the member")))
	w.must(w.c.Delete(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	w.pass(time.Minute)
	w.runs(member, "")
	var causes []Cause
	for _, deletion := range member.Deletions() {
		causes = append(causes, deletion.Cause)
	}
	if len(causes) != 2 || causes[0] != NamespaceDeleted || causes[1] != Withdrawn {
		t.Errorf("causes %v", causes)
	}
}

// The fact is in namespace.Controller.namespaceShouldBeSynced, and in the label that
// skips a namespace.
func TestNamespacesThatAreNotSynced(t *testing.T) {
	for name, want := range map[string]bool{
		"shop": true, "default": false, "kube-public": false, "karmada-system": false, "karmada-es-m1": false, "my-kube-thing": false,
	} {
		if got := isSynced(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); got != want {
			t.Errorf("%s is synced: %v", name, got)
		}
	}
	skipped := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"namespace.karmada.io/skip-auto-propagation": "TRUE"}}}
	if isSynced(skipped) {
		t.Error("a namespace with the label is synced")
	}
}

// bound creates the template of a policy on the control plane, and its binding.
func (w *world) bound(says string, clusters ...string) *workv1alpha2.ResourceBinding {
	w.Helper()
	template := configMap(says)
	w.must(w.c.Create(w.ctx, template))
	binding := NewBinding(template, "binding-id", clusters...)
	w.must(w.c.Create(w.ctx, binding))
	return binding
}

// The facts are in binding.ensureWork and ctrlutil.CreateOrUpdateWork: a binding takes
// over the Work that somebody else made, and merges its marks into those that are there.
func TestBindingAdoptsAWork(t *testing.T) {
	w, member := shop(t, push)
	work := workOf(t, configMap("mine"), "m1")
	work.Labels = map[string]string{"mine": "yes"}
	w.must(w.c.Create(w.ctx, work))
	w.pass(time.Second)
	uid := w.work(keyOf(work)).UID
	w.bound("theirs", "m1")
	w.pass(time.Second)
	got := w.work(keyOf(work))
	if got.UID != uid || got.Labels["mine"] != "yes" || got.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] != "binding-id" {
		t.Errorf("the Work is %+v", got.ObjectMeta)
	}
	if got.Annotations[workv1alpha2.ResourceConflictResolutionAnnotation] != "abort" {
		t.Errorf("annotations %v", got.Annotations)
	}
	w.runs(member, "theirs")
}

// The facts are in binding.ResourceBindingController: a cluster that a binding no longer
// names loses its Work, and so does each when the binding goes.
func TestBindingLetsGo(t *testing.T) {
	w, first := shop(t, push)
	second := w.joined("m2", pull)
	w.pass(time.Second)
	binding := w.bound("theirs", "m1", "m2")
	w.pass(time.Second)
	w.runs(first, "theirs")
	w.runs(second, "theirs")
	w.must(w.c.Get(w.ctx, keyOf(binding), binding))
	binding.Spec.Clusters = binding.Spec.Clusters[:1]
	w.must(w.c.Update(w.ctx, binding))
	w.pass(time.Second)
	w.runs(first, "theirs")
	w.runs(second, "")
	w.must(w.c.Delete(w.ctx, configMap("theirs"))) // the binding goes with its template
	w.pass(time.Second)
	w.runs(first, "")
	if err := w.c.Get(w.ctx, keyOf(binding), binding); !apierrors.IsNotFound(err) {
		t.Errorf("the binding is still there: %v", err)
	}
}

// The fact is in cluster.Controller.isTargetClusterRemoved: the Cluster goes when the
// scheduler has taken it off the bindings.
func TestClusterOfABindingIsRemoved(t *testing.T) {
	w, member := shop(t, push)
	binding := w.bound("theirs", "m1")
	w.pass(time.Second)
	w.runs(member, "theirs")
	w.must(w.c.Delete(w.ctx, w.cluster("m1")))
	w.pass(2 * time.Minute)
	w.must(w.c.Get(w.ctx, keyOf(binding), binding))
	if !w.lacks("Cluster", "m1") || len(binding.Spec.Clusters) > 0 {
		t.Errorf("the Cluster is there, or the binding names it: %v", binding.Spec.Clusters)
	}
}

// A change of the template reaches the members.
func TestBindingFollowsItsTemplate(t *testing.T) {
	w, member := shop(t, push)
	w.bound("one", "m1")
	w.pass(time.Second)
	template := configMap("one")
	w.must(w.c.Get(w.ctx, keyOf(template), template))
	if template.GetName() == "" {
		t.Fatalf("template %v", template.Object)
	}
	w.must(unstructured.SetNestedField(template.Object, "two", "data", "says"))
	w.must(w.c.Update(w.ctx, template))
	w.pass(time.Second)
	w.runs(member, "two")
}

// A restart loses what a process knew, and nothing else.
func TestRestart(t *testing.T) {
	w, member := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.attempts(key, "reads the Work", "writes Dispatching", "applies")
	w.k.StopManager()
	w.cannot("/execution", key.Name)
	w.k.StartManager()
	w.cannot("/execution", key.Name, "writes Applied")
	w.pass(time.Second)
	w.says(key, dispatching, applied)
	w.runs(member, "one")
}

// An agent that is cut off cannot start; one that starts knows nothing of before.
func TestAgentStarts(t *testing.T) {
	w, member := shop(t, pull)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	w.k.StopAgent("m1")
	w.changes(key, func(work *workv1alpha1.Work) { setManifest(t, work, configMap("two"), 2) })
	member.Cut()
	w.k.StartAgent("m1")
	w.pass(time.Minute)
	w.runs(member, "one")
	w.cannot("karmada-agent-m1")
	member.Mend()
	w.pass(time.Second)
	w.runs(member, "two")
	w.pass(time.Minute)
	if ready := w.ready(); ready.Status != metav1.ConditionTrue {
		t.Errorf("Ready is %+v", ready)
	}
}

// Nothing but the actions moves the world, and the same choices make the same story.
func TestStoryIsRepeatable(t *testing.T) {
	tell := func() string {
		w := newWorld(t).at(7)
		w.joined("m1", push)
		w.joined("m2", pull)
		w.namespace("shop")
		key := w.sends(configMap("one"), "m1")
		w.sends(deployment("web:1"), "m2")
		w.pass(30 * time.Second)
		w.changes(key, func(work *workv1alpha1.Work) { work.Spec.PreserveResourcesOnDeletion = ptr.To(true) })
		w.pass(30 * time.Second)
		return strings.Join(w.story, "\n")
	}
	if first, second := tell(), tell(); first != second {
		t.Errorf("two stories:\n%s\n\n%s", first, second)
	}
}
