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
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
)

// isGone reports whether a Work is gone.
func (w *world) isGone(work *workv1alpha1.Work) bool {
	w.Helper()
	return apierrors.IsNotFound(w.c.Get(w.ctx, keyOf(work), &workv1alpha1.Work{}))
}

// The facts are in execution.Controller.handleWorkDelete and objectwatcher.Delete.
func TestWithdrawal(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		key := w.sends(configMap("one"), "m1")
		w.pass(time.Second)
		work := w.work(key)
		w.must(w.c.Delete(w.ctx, work))
		w.does("sees the change of Work", key.Name)
		w.does("/execution", key.Name, "reads the Work")
		w.does("/execution", key.Name, "deletes from the member")
		w.runs(member, "")
		if w.isGone(work) {
			w.Fatal("the Work is gone before the finalizer was dropped")
		}
		w.does("/execution", key.Name, "drops the finalizer")
		if !w.isGone(work) {
			w.Fatal("the Work is still there")
		}
		deletions := member.Deletions()
		if len(deletions) != 1 || deletions[0].Cause != Withdrawn || deletions[0].Work != key || deletions[0].Key != settingsKey {
			w.Errorf("deletions: %+v", deletions)
		}
	})
}

// The fact is in objectwatcher.Delete: what the cache does not show is left behind.
func TestWithdrawalWithStaleCacheLeavesTheObject(t *testing.T) {
	w, member := shop(t, push)
	w.sends(otherOf("one"), "m1")
	w.pass(time.Second)
	key := w.sends(configMap("one"), "m1")
	w.attempts(key, "reads the Work", "writes Dispatching", "applies", "writes Applied")
	work := w.work(key)
	w.must(w.c.Delete(w.ctx, work))
	w.attempts(key, "reads the Work", "deletes from the member", "drops the finalizer")
	w.pass(time.Minute)
	if !w.isGone(work) {
		t.Error("the Work is still there")
	}
	w.runs(member, "one")
}

// The fact is in execution.Controller.handleWorkDelete: the deletion waits for a cluster
// that is not Ready, unless the cluster is terminating.
func TestWithdrawalFromClusterNotReady(t *testing.T) {
	w, member := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	member.Cut()
	w.pass(time.Minute)
	work := w.work(key)
	w.must(w.c.Delete(w.ctx, work))
	w.pass(5 * time.Minute)
	if w.isGone(work) {
		t.Fatal("the Work of a cluster that is not Ready is gone")
	}
	w.must(w.c.Delete(w.ctx, w.cluster("m1")))
	w.pass(20 * time.Minute)
	if !w.isGone(work) {
		t.Error("the Work of a terminating cluster is still there")
	}
	w.runs(member, "one")
}

// The fact is in execution.Controller.cleanupPolicyClaimMetadata: the object stays,
// without Karmada's marks.
func TestPreserve(t *testing.T) {
	forMode(t, func(w *world, member *Member) {
		key := w.sends(configMap("one"), "m1")
		w.pass(time.Second)
		w.changes(key, func(work *workv1alpha1.Work) { work.Spec.PreserveResourcesOnDeletion = ptr.To(true) })
		w.pass(time.Second)
		work := w.work(key)
		w.must(w.c.Delete(w.ctx, work))
		w.pass(time.Second)
		if !w.isGone(work) {
			w.Error("the Work is still there")
		}
		running, _ := member.Runs(configMapKind, "shop", "settings")
		if running.Object == nil || isManaged(running.Object) || len(running.Object.GetAnnotations()) > 0 {
			w.Errorf("the member has %v", running.Object)
		}
	})
}

// The fact is in execution.Controller.cleanupPolicyClaimMetadata: an object that is not
// there, or not managed, holds the Work up forever.
func TestPreserveWhatIsNotThere(t *testing.T) {
	for name, arrange := range map[string]func(*world, *Member){
		"missing": func(w *world, m *Member) {
			m.Refuse = func(string, *unstructured.Unstructured) error { return errors.New("not now") }
			w.must(m.Delete(settingsKey))
		},
		"not managed": func(w *world, m *Member) {
			w.must(m.Edit(settingsKey, func(object *unstructured.Unstructured) { object.SetLabels(nil) }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, member := shop(t, push)
			key := w.sends(configMap("one"), "m1")
			w.pass(time.Second)
			w.changes(key, func(work *workv1alpha1.Work) { work.Spec.PreserveResourcesOnDeletion = ptr.To(true) })
			w.pass(time.Second)
			arrange(w, member)
			work := w.work(key)
			w.must(w.c.Delete(w.ctx, work))
			w.pass(time.Hour)
			if w.isGone(work) {
				t.Error("the Work is gone")
			}
		})
	}
}

// The facts are in execution.Controller.handleWorkDelete and removeFinalizer: an attempt
// that unmarks the object, and then meets a conflict at the Work, holds the Work up
// forever. That takes no more than a cache that is behind the attempt before.
func TestPreserveAfterAConflict(t *testing.T) {
	w, member := shop(t, push)
	key := w.sends(configMap("one"), "m1")
	w.pass(time.Second)
	w.resets(key)
	w.changes(key, func(work *workv1alpha1.Work) { work.Spec.PreserveResourcesOnDeletion = ptr.To(true) })
	w.attempts(key, "reads the Work", "writes Dispatching", "applies")
	work := w.work(key)
	w.must(w.c.Delete(w.ctx, work))
	w.attempts(key, "writes Applied")
	for _, step := range []string{"reads the Work", "unmarks the object", "drops the finalizer"} {
		w.does("/execution", key.Name, step) // the cache lacks the write of Applied
	}
	w.pass(time.Hour)
	if w.isGone(work) {
		t.Error("the Work is gone")
	}
	running, _ := member.Runs(configMapKind, "shop", "settings")
	if running.Object == nil || isManaged(running.Object) {
		t.Errorf("the member has %v", running.Object)
	}
}

// The facts are in objectwatcher.Delete and helper.GetObjectFromCache: the deletion of a
// Work ends after its kind is gone from the member, whether the cache has seen that or
// not. It does not end if the control plane does not know the kind.
func TestWithdrawalOfAKindThatIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		seen, unknown, ends bool
	}{
		"seen by the cache":            {seen: true, ends: true},
		"not seen by the cache":        {ends: true},
		"unknown to the control plane": {seen: true, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, member := shop(t, push)
			kind := Custom("example.org", "v1", "Widget", "widgets")
			unknown := false
			w.k.options.Known = func(asked schema.GroupVersionKind) error {
				if unknown && asked == kind.GroupVersionKind {
					return &meta.NoKindMatchError{GroupKind: asked.GroupKind(), SearchedVersions: []string{asked.Version}}
				}
				return nil
			}
			member.Serve(kind)
			widget := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": "large"}}}
			widget.SetGroupVersionKind(kind.GroupVersionKind)
			widget.SetNamespace("shop")
			widget.SetName("one")
			key := w.sends(widget, "m1")
			w.pass(time.Second)
			w.says(key, dispatching, applied)
			member.StopServing(kind.GroupVersionKind)
			if test.seen {
				w.does("/informer m1", "Widget", "sees")
			}
			unknown = test.unknown
			work := w.work(key)
			w.must(w.c.Delete(w.ctx, work))
			w.attempts(key, "reads the Work", "deletes from the member")
			if test.ends {
				w.attempts(key, "drops the finalizer")
			}
			w.pass(time.Hour)
			if gone := w.isGone(work); gone != test.ends {
				t.Errorf("the Work is gone: %v", gone)
			}
		})
	}
}
