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
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
)

// lags has the caches show the Clusters, or the object, as they are now. It returns a
// function that ends that.
func (b *bench) lags(t *testing.T, clusters, object bool) (catchUp func()) {
	t.Helper()
	before, list := b.propagation(t), &clusterv1alpha1.ClusterList{}
	if err := b.server.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	funcs := b.interceptor()
	funcs.List = func(ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
		shown, ok := into.(*clusterv1alpha1.ClusterList)
		if !ok || !clusters {
			return c.List(ctx, into, options...)
		}
		asked := (&client.ListOptions{}).ApplyOptions(options)
		for i := range list.Items {
			if asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(list.Items[i].Labels)) {
				shown.Items = append(shown.Items, list.Items[i])
			}
		}
		return nil
	}
	funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
		if shown, ok := into.(*propagationv1alpha1.DirectPropagation); ok && object {
			before.DeepCopyInto(shown)
			return nil
		}
		return c.Get(ctx, key, into, options...)
	}
	current := b.Client
	b.Client = compacting{interceptor.NewClient(b.server, funcs)}
	return func() { b.Client = current }
}

// A user moves a cluster and what selects it. Neither order of the two changes withdraws
// anything, whichever of them the caches show first.
func TestCachesOfDifferentAges(t *testing.T) {
	for name, lagging := range map[string]struct{ clusters, object bool }{
		"the Clusters are older": {clusters: true},
		"the object is older":    {object: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := selecting(t)
			b.confirm(t)
			b.settle(t)
			b.relabel(t, "member2", map[string]string{"site": "near"})
			catchUp := b.lags(t, lagging.clusters, lagging.object)
			b.relabel(t, "member3", map[string]string{"site": "near"})
			object := b.propagation(t)
			object.Generation++
			object.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "near"}}
			if err := b.server.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				_ = b.reconcile(t)
			}
			if b.workOn(t, "member3").DeletionTimestamp != nil {
				t.Error("the cluster is withdrawn")
			}
			catchUp()
			b.settle(t)
			b.worksAreOn(t, "member1", "member2", "member3")
			b.relabel(t, "member3", nil)
			b.settle(t)
			b.worksAreOn(t, "member1", "member2")
		})
	}
}

// A process takes over while its cache shows the object as it was before the previous one
// wrote its Works. It withdraws nothing that the object names.
func TestSuccessorWithAnOldObject(t *testing.T) {
	for name, change := range map[string]func(spec *propagationv1alpha1.PropagationSpec){
		"a cluster was added": func(spec *propagationv1alpha1.PropagationSpec) {
			spec.Clusters = append(spec.Clusters, propagationv1alpha1.TargetCluster{Name: "member2"})
		},
		"another resource was named": func(spec *propagationv1alpha1.PropagationSpec) { spec.Resource.Name = "web2" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, aShop()...)
			b.hasAnother(t, "web2")
			settles := func() {
				b.settle(t)
				b.confirm(t)
				b.settle(t)
			}
			b.change(t, func(spec *propagationv1alpha1.PropagationSpec) { spec.Clusters = spec.Clusters[:1] })
			settles()
			catchUp := b.lags(t, false, true)
			behind := b.Client
			catchUp()
			b.change(t, change)
			settles()
			wanted := b.works(t)

			b.memories.forget(web)
			b.ledger = cached.NewLedger(clock.RealClock{})
			b.Client = behind
			for range 3 {
				_ = b.reconcile(t)
			}
			for i := range wanted {
				left := &workv1alpha1.Work{}
				if err := b.server.Get(t.Context(), client.ObjectKeyFromObject(&wanted[i]), left); err != nil || left.Generation != wanted[i].Generation || left.DeletionTimestamp.IsZero() != wanted[i].DeletionTimestamp.IsZero() {
					t.Errorf("Work %s/%s was changed or withdrawn: %v", wanted[i].Namespace, wanted[i].Name, err)
				}
			}
			catchUp()
			b.writes = nil
			b.settle(t)
			if len(b.writes) > 0 {
				t.Errorf("writes of what was right: %v", b.writes)
			}
		})
	}
}

// hasAnother creates a copy of the resource.
func (b *bench) hasAnother(t *testing.T, name string) {
	t.Helper()
	other := &appsv1.Deployment{}
	if err := b.server.Get(t.Context(), web, other); err != nil {
		t.Fatal(err)
	}
	other.Name, other.UID, other.ResourceVersion = name, types.UID(name), ""
	if err := b.server.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
}

// betweenReads calls happen once, after the first read of a client that succeeds.
type betweenReads struct {
	client.Reader
	happen func()
}

func (r *betweenReads) happened() {
	happen := r.happen
	if r.happen = nil; happen != nil {
		happen()
	}
}

func (r *betweenReads) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	defer r.happened()
	return r.Reader.Get(ctx, key, object, options...)
}

func (r *betweenReads) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	defer r.happened()
	return r.Reader.List(ctx, list, options...)
}

// A user moves a cluster, and what selects it, while another cluster is being withdrawn. At
// no time is the cluster that moves not selected.
func TestClusterMovesWhileAnotherIsWithdrawn(t *testing.T) {
	b := selecting(t)
	b.relabel(t, "member2", map[string]string{"site": "far"})
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	b.relabel(t, "member2", nil)
	catchUp := b.lags(t, true, true)
	b.Live = &betweenReads{Reader: b.server, happen: func() {
		near := map[string]string{"site": "near"}
		object := b.propagation(t)
		object.Generation++
		object.Spec.ClusterSelector.MatchLabels = near
		if err := b.server.Update(t.Context(), object); err != nil {
			t.Error(err)
		}
		b.relabel(t, "member3", near)
	}}
	_ = b.reconcile(t)
	if b.workOn(t, "member3").DeletionTimestamp != nil {
		t.Error("the cluster is withdrawn")
	}
	catchUp()
	b.settle(t)
	b.worksAreOn(t, "member1", "member3")
}

// While the API server refuses to delete the Work of a cluster, the Clusters are not listed
// again each time another cluster reports.
func TestRefusedRemovalListsNoClusters(t *testing.T) {
	b := selecting(t)
	b.confirm(t)
	b.settle(t)
	b.refuse = func(write string) error {
		if strings.HasPrefix(write, "delete Work") {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "works"}, "web", errors.New("a webhook denies it"))
		}
		return nil
	}
	passive := clocktesting.NewFakePassiveClock(time.Now())
	b.Clock, b.ledger = passive, cached.NewLedger(passive)
	b.relabel(t, "member3", nil)
	lists := 0
	b.Live = listCounter{b.server, "ClusterList", &lists}
	for range 10 {
		_ = b.reconcile(t)
	}
	if row := b.rowOf(t, "member3"); lists != 1 || row.Reason != propagationv1alpha1.ReasonWriteFailed {
		t.Errorf("%d lists; the row: %s", lists, described(row))
	}
	b.refuse = nil
	passive.SetTime(passive.Now().Add(time.Minute))
	b.settle(t)
	b.worksAreOn(t, "member1")
}

// The status that is written last is the one that counts, even if the answer to a write was
// lost, and the cache shows for a while what was there before.
func TestStatusOfALostAnswer(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	catchUp := b.lags(t, false, true)
	b.hasContact(t, "member1", metav1.ConditionFalse)
	b.loses = func(write string) bool { return write == "update status of DirectPropagation shop/web" }
	_ = b.reconcile(t)
	b.loses = nil
	if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonClusterNotReady {
		t.Fatalf("the row: %s", described(row))
	}
	b.hasContact(t, "member1", metav1.ConditionTrue)
	for range 3 {
		b.memories.of(web).statusWritten = time.Time{}
		_ = b.reconcile(t)
	}
	if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonApplied {
		t.Errorf("the row: %s", described(row))
	}
	catchUp()
}

// The same if it is the status that records a rollout, and the user takes the change back.
func TestRolloutOfALostAnswer(t *testing.T) {
	s := newStage(t, nil)
	catchUp := s.lags(t, false, true)
	s.changeImage(t, "nginx:2")
	s.loses = func(write string) bool { return write == "update status of DirectPropagation shop/web" }
	if err := s.reconcile(t); err == nil {
		t.Fatal("no status is written")
	}
	s.loses = nil
	if s.rollout().Phase == propagationv1alpha1.RolloutPhaseCompleted {
		t.Fatalf("no rollout is recorded: %+v", s.rollout())
	}
	s.changeImage(t, "nginx:1")
	for range 3 {
		_ = s.reconcile(t)
	}
	if s.rollout().Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Errorf("still recorded: %+v", s.rollout())
	}
	catchUp()
	s.goesOn()
	s.images("nginx:1", "nginx:1")
}

// hasContact changes whether Karmada has contact with a cluster.
func (b *bench) hasContact(t *testing.T, name string, status metav1.ConditionStatus) {
	t.Helper()
	cluster := memberCluster(name)
	if err := b.server.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: clusterv1alpha1.ClusterConditionReady, Status: status, Reason: "Test"})
	if err := b.server.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
}

// Nothing is known about who requires a dependency while the cache shows less than the API
// server had when the process asked first. What is created later does not count.
func TestRequirersOfAnOldCache(t *testing.T) {
	b := newBench(t, aShop()...)
	create := func(name string) *propagationv1alpha1.DirectPropagation {
		object := b.propagation(t)
		object.Name, object.UID, object.ResourceVersion = name, types.UID(name), ""
		if err := b.server.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	early := create("early")
	current, shown := b.Client, &propagationv1alpha1.DirectPropagationList{Items: []propagationv1alpha1.DirectPropagation{*b.propagation(t)}}
	b.Client = interceptor.NewClient(b.server, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			if list, ok := into.(*propagationv1alpha1.DirectPropagationList); ok {
				shown.DeepCopyInto(list)
				return nil
			}
			return c.List(ctx, into, options...)
		},
	})
	awaits := func(want bool) {
		t.Helper()
		if err := b.expectRequirers(t.Context()); saysLookAgain(err) != want || !want && err != nil {
			t.Errorf("the error is %v", err)
		}
	}
	awaits(true)
	create("late")
	older := *early.DeepCopy()
	older.Generation--
	shown.Items = append(shown.Items, older)
	awaits(true)
	shown.Items[1] = *early
	awaits(false)

	// One that is deleted before the cache shows it is not awaited forever.
	b.stored, shown.Items = storedObjects{}, shown.Items[:1]
	b.requirements.Listed.Store(false)
	awaits(true)
	for _, name := range []string{"early", "late"} {
		if err := b.server.Delete(t.Context(), &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	awaits(false)
	b.Client = current
}
