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
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// isInvalid changes a Work as if the cluster had refused it as invalid an hour ago.
func isInvalid(work *workv1alpha1.Work) {
	work.Status.Conditions = []metav1.Condition{
		{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue},
		{
			Type: workv1alpha1.WorkApplied, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
			Message: `Deployment.apps "web" is invalid: spec.selector: Invalid value: field is immutable`,
		},
	}
}

// liveReads records the reads that bypass the cache.
type liveReads struct {
	client.Reader

	reads []string
}

func (l *liveReads) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	l.reads = append(l.reads, fmt.Sprintf("%T %s", object, key))
	return l.Reader.Get(ctx, key, object, options...) //nolint:wrapcheck // a test double passes errors through
}

// TestHoldersAreReadOncePerPoll: a Work that somebody else holds is read once per
// poll, however often the object is reconciled.
func TestHoldersAreReadOncePerPoll(t *testing.T) {
	foreign := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-member1", Name: "web-56d6c779bb", UID: "foreign"}}
	b := newBench(t, append(aShop(), foreign)...)
	passive := clocktesting.NewFakePassiveClock(time.Now())
	b.Clock = passive
	b.settle(t)
	works := &liveReads{Reader: b.Live}
	b.Live = works
	count := func() int {
		b.settle(t)
		b.settle(t)
		reads := slices.DeleteFunc(works.reads, func(read string) bool { return !strings.HasPrefix(read, "*v1alpha1.Work ") })
		works.reads = nil
		return len(reads)
	}
	if reads := count(); reads > 0 {
		t.Errorf("%d reads within a poll", reads)
	}
	passive.SetTime(passive.Now().Add(2 * maxConflictPoll))
	if reads := count(); reads != 1 {
		t.Errorf("%d reads in the next poll, want 1", reads)
	}
}

// TestTakeoverBeforeDeletion: a Work that the binding of a policy takes over just
// before its deletion is not deleted, although its UID is the same.
func TestTakeoverBeforeDeletion(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	b.refuse = func(write string) error {
		if !strings.HasPrefix(write, "delete") {
			return nil
		}
		for _, work := range b.works(t) {
			work.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] = "theirs"
			if err := b.server.Update(t.Context(), &work); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	}
	if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	works := b.works(t)
	if len(works) != 2 || works[0].DeletionTimestamp != nil || works[1].DeletionTimestamp != nil {
		t.Errorf("a Work of the policy was deleted: %+v", works)
	}
}

// TestDeletionDoesNotWaitForCache: a Work that changes before its deletion, because
// Karmada reports on it, is deleted anyway, without waiting for the cache.
func TestDeletionDoesNotWaitForCache(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	reported := map[string]bool{}
	b.refuse = func(write string) error {
		if !strings.HasPrefix(write, "delete") || reported[write] {
			return nil
		}
		reported[write] = true
		for _, work := range b.works(t) {
			work.Annotations["reported"] = write
			if err := b.server.Update(t.Context(), &work); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	}
	if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
		t.Fatal(err)
	}
	b.writes = nil
	if err := b.reconcile(t); err != nil {
		t.Fatal(err)
	}
	for _, work := range b.works(t) {
		if work.DeletionTimestamp == nil {
			t.Errorf("Work %s is not deleted", work.Namespace)
		}
	}
	if attempts := words(b.writes, "delete"); attempts != 4 {
		t.Errorf("%d attempts for two Works, each of which has changed once, want 4: %q", attempts, b.writes)
	}
}

// TestRewrittenWorkIsGivenUp: a Work that another controller of Karmada writes to
// is no longer ours, even if only the manifest shows it.
func TestRewrittenWorkIsGivenUp(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	for _, work := range b.works(t) {
		manifest := &unstructured.Unstructured{}
		if err := manifest.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
			t.Fatal(err)
		}
		annotations := manifest.GetAnnotations()
		delete(annotations, workv1alpha2.ResourceConflictResolutionAnnotation)
		manifest.SetAnnotations(annotations)
		work.Spec.Workload.Manifests[0].Raw, _ = manifest.MarshalJSON()
		if err := b.server.Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
	b.writes = nil
	b.settle(t)
	if row := b.propagation(t).Status.Clusters[0]; row.Reason != propagationv1alpha1.ReasonConflict {
		t.Errorf("the row says %s", described(row))
	}
	if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if slices.ContainsFunc(b.writes, func(write string) bool { return strings.Contains(write, "Work") }) {
		t.Errorf("a Work that Karmada has taken over was touched: %v", b.writes)
	}
}

// TestChangedResourceIsNotReplaced: a resource that has only changed has not been
// recreated: if the cluster refuses the change, nothing is deleted.
func TestChangedResourceIsNotReplaced(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	b.changeImage(t, "nginx:2")
	b.settle(t)
	work := b.workOn(t, "member1")
	if value, found := work.Annotations[propagationv1alpha1.SupersedesAnnotation]; found {
		t.Errorf("after a change, the Work supersedes %q", value)
	}
	isInvalid(work)
	if err := b.server.Status().Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if slices.ContainsFunc(b.writes, func(write string) bool { return strings.HasPrefix(write, "delete") }) {
		t.Errorf("deleted: %v", b.writes)
	}
}

// TestConfirmedResourceIsNotReplaced: once a cluster has confirmed a recreated
// resource, its object is no longer replaced, whatever makes the cluster refuse it.
func TestConfirmedResourceIsNotReplaced(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	anew := webDeployment()
	if err := b.server.Delete(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	anew.UID = "anew"
	if err := b.server.Create(t.Context(), anew); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if supersedes, _ := render.Supersedes(b.workOn(t, "member1")); !supersedes {
		t.Fatal("the Work does not say that the cluster may have the old object")
	}
	b.confirm(t)
	b.settle(t)
	b.writes = nil
	b.settle(t)
	if len(b.writes) > 0 {
		t.Errorf("written although nothing has changed: %v", b.writes)
	}
	work := b.workOn(t, "member1")
	isInvalid(work)
	if err := b.server.Status().Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if after := b.workOn(t, "member1"); after == nil || after.UID != work.UID || after.DeletionTimestamp != nil {
		t.Error("the object was replaced although the cluster had confirmed the resource")
	}
	if slices.ContainsFunc(b.writes, func(write string) bool { return strings.HasPrefix(write, "delete") }) {
		t.Errorf("deleted: %v", b.writes)
	}
}

// TestEmptiedWorkOfNamespace: a Work that has changed since it was observed is
// checked again, whatever it contains.
func TestEmptiedWorkOfNamespace(t *testing.T) {
	b := newBench(t)
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-member1", Name: "shop"}}
	if err := b.server.Create(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{work.ResourceVersion, "older"} {
		work.ResourceVersion = version
		if _, err := b.synchronizedNamespace(t.Context(), work); !saysLookAgain(err) {
			t.Errorf("with resourceVersion %s: %v, want a conflict", version, err)
		}
	}
}

// foreignWorks are the labels and annotations of Works that others hold, and how a
// row names the holder.
var foreignWorks = map[string]struct {
	labels, annotations map[string]string
	holder              string
}{
	"a policy's": {
		map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "x"},
		map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotationKey: "shop", workv1alpha2.ResourceBindingNameAnnotationKey: "web-deployment"},
		"ResourceBinding shop/web-deployment",
	},
	"Karmada's own": {nil, nil, "Karmada or another controller"},
	"ours, with the label of a quota of Karmada": {
		map[string]string{propagationv1alpha1.OwnerUIDLabel: "ours", "federatedresourcequota.karmada.io/name": "x"}, nil, "Karmada or another controller",
	},
	"another DirectPropagation's": {
		map[string]string{propagationv1alpha1.OwnerUIDLabel: "theirs"},
		map[string]string{propagationv1alpha1.OwnerKindAnnotation: "DirectPropagation", propagationv1alpha1.OwnerNamespaceAnnotation: "shop", propagationv1alpha1.OwnerNameAnnotation: "other"},
		"DirectPropagation shop/other",
	},
	"ours, taken over by a policy": {
		map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "x", propagationv1alpha1.OwnerUIDLabel: "ours"},
		map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotationKey: "shop", workv1alpha2.ResourceBindingNameAnnotationKey: "web-deployment"},
		"ResourceBinding shop/web-deployment",
	},
}

// TestForeignWorksAreNotTouched: a Work of the same name that belongs to somebody
// else is neither written nor deleted, whatever happens to ours.
func TestForeignWorksAreNotTouched(t *testing.T) {
	for name, tc := range foreignWorks {
		t.Run(name, func(t *testing.T) {
			foreign := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
				Namespace: "karmada-es-member1", Name: "web-56d6c779bb", UID: "foreign", Labels: tc.labels, Annotations: tc.annotations,
			}}
			other := webPropagation()
			other.Name, other.UID = "other", "theirs"
			b := newBench(t, append(aShop(), foreign, other)...)
			b.settle(t)
			if row := b.propagation(t).Status.Clusters[0]; row.Reason != propagationv1alpha1.ReasonConflict || !strings.Contains(row.Message, tc.holder) {
				t.Errorf("the row must name %s: %s", tc.holder, described(row))
			}
			b.writes = nil
			b.settle(t)
			if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
				t.Fatal(err)
			}
			b.settle(t)
			if slices.ContainsFunc(b.writes, func(write string) bool { return strings.Contains(write, "karmada-es-member1") }) {
				t.Errorf("the foreign Work was touched: %v", b.writes)
			}
			if left := b.works(t); left[0].UID != "foreign" || left[0].DeletionTimestamp != nil {
				t.Errorf("the foreign Work has changed: %+v", left[0].ObjectMeta)
			}
		})
	}
}
