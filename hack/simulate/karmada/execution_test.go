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
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
)

const push, pull = clusterv1alpha1.Push, clusterv1alpha1.Pull

// shop is a world with one member, on which Karmada has made the namespace "shop".
func shop(t *testing.T, mode clusterv1alpha1.ClusterSyncMode) (*world, *Member) {
	t.Helper()
	w := newWorld(t)
	member := w.joined("m1", mode)
	w.namespace("shop")
	if _, ok := member.Runs(namespaceKind, "", "shop"); !ok {
		t.Fatalf("m1 has no namespace shop:\n%s", strings.Join(w.story, "\n"))
	}
	return w, member
}

// forMode runs a test with a push and with a pull member.
func forMode(t *testing.T, test func(*world, *Member)) {
	t.Helper()
	for _, mode := range []clusterv1alpha1.ClusterSyncMode{push, pull} {
		t.Run(string(mode), func(t *testing.T) { test(shop(t, mode)) })
	}
}

// The fact is in execution.Controller.Reconcile and syncToClusters: Dispatching is
// written first, Applied after the member answered.
func TestAttemptWritesDispatchingThenApplied(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		key := w.sends(configMap("one"), "m1")
		w.does("sees the creation of Work", key.Name)
		w.does("/execution", key.Name, "reads the Work")
		w.does("/execution", key.Name, "writes Dispatching")
		w.says(key, dispatching)
		w.runs(member, "")
		w.attempts(key, "applies")
		w.runs(member, "one")
		w.says(key, dispatching)
		w.attempts(key, "writes Applied")
		w.says(key, dispatching, applied)
	})
}

// The fact is in execution.Controller.updateAppliedCondition: a True over a True writes
// nothing, so the conditions do not say which spec was applied.
func TestSecondSuccessWritesNothing(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		key := w.sends(configMap("one"), "m1")
		w.pass(time.Second)
		version := func() string { return w.work(key).ResourceVersion }
		w.changes(key, func(work *workv1alpha1.Work) { setManifest(w.T, work, configMap("two"), 2) })
		before := version()
		w.pass(time.Second)
		w.runs(member, "two")
		if after := version(); after != before {
			w.Errorf("the Work was written: %s", conditionsOf(w.work(key)))
		}
	})
}

// The fact is in execution.Controller.SetupWithManager: only generations wake it.
func TestStatusResetWakesNobody(t *testing.T) {
	forMode(t, func(w *world, _ *Member) {
		key := w.sends(configMap("one"), "m1")
		w.pass(time.Second)
		w.resets(key)
		w.pass(time.Minute)
		w.says(key)
		w.changes(key, func(work *workv1alpha1.Work) { work.Spec.SuspendDispatching = ptr.To(false) })
		w.pass(time.Second)
		w.says(key, dispatching, applied)
	})
}

// The fact is in execution.Controller.Reconcile: an attempt that began before a reset
// sets True alone, and the next one adds Dispatching behind it.
func TestAttemptInFlightSetsStaleTrue(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		key := w.sends(configMap("one"), "m1")
		w.pass(time.Second)
		w.changes(key, func(work *workv1alpha1.Work) { setManifest(w.T, work, configMap("two"), 2) })
		w.does("sees the change of Work", key.Name)
		w.does("/execution", key.Name, "reads the Work")
		w.resets(key)
		w.changes(key, func(work *workv1alpha1.Work) { setManifest(w.T, work, configMap("three"), 3) })
		w.attempts(key, "applies", "writes Applied")
		w.runs(member, "two")
		w.says(key, applied)
		w.pass(time.Second)
		w.runs(member, "three")
		w.says(key, applied, dispatching)
	})
}

// The fact is in helper.UpdateStatus: the write of Dispatching replaces the Work that
// the attempt knows, so the attempt applies the spec that the write returned.
func TestAttemptAppliesWhatDispatchingReturned(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		key := w.sends(configMap("one"), "m1")
		w.does("sees the creation of Work", key.Name)
		w.does("/execution", key.Name, "reads the Work")
		w.changes(key, func(work *workv1alpha1.Work) { setManifest(w.T, work, configMap("two"), 2) })
		w.does("/execution", key.Name, "writes Dispatching") // meets a conflict
		w.says(key)
		w.does("sees the change of Work", key.Name)
		w.now = w.now.Add(conflictPause)
		w.does("/execution", key.Name, "writes Dispatching again")
		w.does("/execution", key.Name, "applies")
		w.runs(member, "two")
	})
}

// The fact is in retry.DefaultRetry: a pass meets five conflicts and then fails. The
// work queue retries it after 5 ms.
func TestConflictsEndAnAttempt(t *testing.T) {
	w, _ := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.does("sees the creation of Work", key.Name)
	w.changes(key, func(work *workv1alpha1.Work) { setManifest(w.T, work, configMap("two"), 2) })
	w.does("/execution", key.Name, "reads the Work")
	for range conflictTries {
		w.does("/execution", key.Name, "writes Dispatching")
		w.now = w.now.Add(conflictPause)
	}
	w.does("/execution", key.Name, "reads the Work")
}

// The fact is in execution.Controller.Reconcile: a suspended Work gets its condition and
// nothing else; the old Applied stands.
func TestSuspendedWork(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		key := w.sends(configMap("one"), "m1")
		w.pass(time.Second)
		w.changes(key, func(work *workv1alpha1.Work) {
			work.Spec.SuspendDispatching = ptr.To(true)
			setManifest(w.T, work, configMap("two"), 2)
		})
		w.pass(time.Second)
		w.runs(member, "one")
		w.says(key, "Dispatching=False SuspendDispatching", applied)
		w.must(member.Delete(settingsKey))
		w.pass(time.Second)
		w.runs(member, "")
		w.changes(key, func(work *workv1alpha1.Work) { work.Spec.SuspendDispatching = ptr.To(false) })
		w.pass(time.Second)
		w.runs(member, "two")
		w.says(key, dispatching, applied)
	})
}

// The fact is in execution.Controller.syncToClusters: what the member refuses is in the
// message of Applied.
func TestRefusals(t *testing.T) {
	custom := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "shop", "name": "settings"},
	}}
	foreign := configMap("foreign")
	for name, test := range map[string]struct {
		resource *unstructured.Unstructured
		arrange  func(*Member) error
		want     string
	}{
		"a kind that the member does not serve": {
			resource: custom, want: "Failed to apply all manifests (0/1): the server could not find the requested resource",
		},
		"an object that Karmada does not manage": {
			resource: configMap("one"), arrange: func(m *Member) error { return m.Create(foreign) },
			want: "Failed to apply all manifests (0/1): resource(kind=ConfigMap, shop/settings) already exists in the cluster m1 and the " +
				"work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource",
		},
		"the admission": {
			resource: configMap("one"), arrange: func(m *Member) error {
				m.Refuse = func(string, *unstructured.Unstructured) error { return errors.New("no settings today") }
				return nil
			},
			want: `Failed to apply all manifests (0/1): configmaps "settings" is forbidden: no settings today`,
		},
		"a namespace that is being deleted": {
			resource: configMap("one"), arrange: func(m *Member) error { return m.Delete(namespaceKey("shop")) },
			want: `Failed to apply all manifests (0/1): configmaps "settings" is forbidden: unable to create new content in namespace shop because it is being terminated`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, member := shop(t, push)
			if test.arrange != nil {
				w.must(test.arrange(member))
			}
			key := w.sends(test.resource, "m1")
			w.attempts(key, "reads the Work", "writes Dispatching", "applies", "writes Applied")
			w.says(key, dispatching, failed)
			if got := w.work(key).Status.Conditions[1].Message; got != test.want {
				t.Errorf("message %q, want %q", got, test.want)
			}
		})
	}
}

// The fact is in objectwatcher.allowUpdate: with the annotation, Karmada takes over what
// it does not manage.
func TestOverwrite(t *testing.T) {
	w, member := shop(t, push)
	w.must(member.Create(configMap("foreign")))
	resource := configMap("one")
	resource.SetAnnotations(map[string]string{"work.karmada.io/conflict-resolution": "overwrite"})
	key := w.sends(resource, "m1")
	w.pass(time.Second)
	w.runs(member, "one")
	w.says(key, dispatching, applied)
}

// The fact is in objectwatcher.Create and helper.GetObjectFromCache: an attempt that
// does not see in its cache what an attempt before it created fails for a moment.
func TestStaleCacheFailsAfterCreation(t *testing.T) {
	w, member := shop(t, push)
	other := configMap("other")
	other.SetName("other")
	w.sends(other, "m1")
	w.pass(time.Second) // the cache of ConfigMaps is in use
	key := w.sends(configMap("one"), "m1")
	w.attempts(key, "reads the Work", "writes Dispatching", "applies")
	w.changes(key, func(work *workv1alpha1.Work) { work.Spec.SuspendDispatching = ptr.To(false) })
	w.attempts(key, "writes Applied", "reads the Work", "applies", "writes Applied")
	w.says(key, dispatching, failed)
	if message := w.work(key).Status.Conditions[1].Message; !strings.Contains(message, "already exists") {
		t.Errorf("message %q", message)
	}
	w.pass(time.Second)
	w.says(key, dispatching, applied)
	w.runs(member, "one")
}

// The fact is karmada#6858: in helper.UpdateStatus, a success that reads an old True from
// its cache writes nothing, and the False after it stays.
func TestQuickSuccessAfterFailureIsLost(t *testing.T) {
	w, member := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	member.Refuse = func(string, *unstructured.Unstructured) error { return errors.New("not now") }
	w.changes(key, func(work *workv1alpha1.Work) { setManifest(w.T, work, configMap("two"), 2) })
	w.attempts(key, "reads the Work", "applies", "writes Applied")
	w.says(key, dispatching, failed)
	member.Refuse = nil
	w.now = w.now.Add(time.Second)
	for _, step := range []string{"reads the Work", "applies", "writes Applied"} {
		w.does("/execution", key.Name, step) // the cache still shows the True
	}
	w.pass(5 * time.Minute)
	w.runs(member, "two")
	w.says(key, dispatching, failed)
}

// The fact is in execution.Controller.Reconcile: a cluster that is not Ready gets
// nothing, and its Works are retried with back-off, up to 1000 s. Only a new generation
// is tried at once.
func TestClusterNotReady(t *testing.T) {
	w, member := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	other := configMap("other")
	other.SetName("other")
	quick := w.sends(other, "m1")
	w.pass(time.Second)
	member.Cut()
	w.pass(time.Minute)
	if util.IsClusterReady(&w.cluster("m1").Status) {
		t.Fatal("the cluster is Ready")
	}
	w.changes(key, func(work *workv1alpha1.Work) { setManifest(w.T, work, configMap("two"), 2) })
	w.pass(200 * time.Second)
	w.says(key, dispatching, applied)
	member.Mend()
	w.pass(45 * time.Second)
	if !util.IsClusterReady(&w.cluster("m1").Status) {
		t.Fatal("the cluster is not Ready")
	}
	w.runs(member, "one")
	w.changes(quick, func(work *workv1alpha1.Work) { setManifest(w.T, work, otherOf("two"), 2) })
	w.pass(time.Second)
	if running, _ := member.Runs(configMapKind, "shop", "other"); running.Content != ContentHash(otherOf("two")) {
		t.Error("a new generation waits for the back-off")
	}
	w.pass(200 * time.Second)
	w.runs(member, "two")
}

func otherOf(says string) *unstructured.Unstructured {
	other := configMap(says)
	other.SetName("other")
	return other
}

// The fact is in execution.Controller.syncToClusters: the retries of client-go end without an
// error if that of the attempt is an exceeded deadline.
func TestUnansweredRequestIsASuccess(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		member.Silent = func() bool { return true }
		key := w.sends(configMap("one"), "m1")
		w.pass(31 * time.Second)
		w.says(key, dispatching)
		w.pass(2 * time.Second)
		w.says(key, dispatching, applied)
		w.runs(member, "")
		member.Silent = nil
		w.changes(key, func(work *workv1alpha1.Work) { work.Spec.SuspendDispatching = ptr.To(false) })
		w.pass(time.Second)
		w.runs(member, "one")
	})
}

// An answer that gets lost fails the attempt, whatever the member did. The next one
// finds the object and goes on.
func TestLostAnswers(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		losing := true
		member.LoseAnswer = func() bool { return losing }
		key := w.sends(configMap("one"), "m1")
		w.attempts(key, "reads the Work", "writes Dispatching", "applies", "writes Applied")
		w.runs(member, "one")
		w.says(key, dispatching, failed)
		losing = false
		w.pass(time.Second)
		w.says(key, dispatching, applied)
		losing = true
		work := w.work(key)
		w.must(w.c.Delete(w.ctx, work))
		w.attempts(key, "reads the Work", "deletes from the member")
		w.runs(member, "")
		if w.isGone(work) {
			w.Error("the Work is gone although the answer was lost")
		}
		w.pass(time.Second)
		if !w.isGone(work) {
			w.Error("the Work is still there")
		}
	})
}
