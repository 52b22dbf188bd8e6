//go:build faults

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

package faults

import (
	"context"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// standing is a namespace whose ConfigMap and custom resource are propagated to all
// members, and whose Works must never be deleted.
type standing struct {
	*Namespace
	kind  *apiextensionsv1.CustomResourceDefinition
	began time.Time
	works map[client.ObjectKey]types.UID
}

func newStanding(t *testing.T) *standing {
	t.Helper()
	ns := &standing{Namespace: newNamespace(t), began: time.Now(), works: map[client.ObjectKey]types.UID{}}
	ns.kind = testbed.NewKind("faults-"+utilrand.String(5)+".example.org", "Widget")
	ns.installs(ns.kind, karmada, member1, member2, member3)
	revision, _ := ns.Writes("settings", "one")
	ns.Propagates("settings", testbed.ConfigMap("settings", "")).ToClusters("member1", "member2", "member3")
	ns.Has(testbed.ObjectOf(ns.kind, "widget"))
	ns.Propagates("widget", testbed.ObjectOf(ns.kind, "widget")).ToClusters("member1", "member2", "member3")
	ns.Propagation("settings").Settles(revision, ns.began)
	ns.Propagation("widget").Until(ns.began, testbed.ReadyWith(ns.Revision(testbed.ObjectOf(ns.kind, "widget"))))
	list := &workv1alpha1.WorkList{}
	if err := karmada.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Annotations[propagationv1alpha1.OwnerNamespaceAnnotation] == ns.Name {
			ns.works[client.ObjectKeyFromObject(&list.Items[i])] = list.Items[i].UID
		}
	}
	if len(ns.works) != 2*len(members) {
		t.Fatalf("there are %d Works for 2 resources on %d members", len(ns.works), len(members))
	}
	return ns
}

// keepsAll checks that every Work still exists with its original UID, and that the
// watch has not shown a deletion.
func (ns *standing) keepsAll() {
	ns.T.Helper()
	for key, uid := range ns.works {
		work := &workv1alpha1.Work{}
		if err := karmada.Get(ns.Ctx, key, work); err != nil || work.UID != uid || work.DeletionTimestamp != nil {
			ns.T.Errorf("Work %s was deleted: %v, UID %s → %s, deletion %v", key, err, uid, work.UID, work.DeletionTimestamp)
		}
	}
	for _, event := range works.Since(ns.began) {
		key := client.ObjectKeyFromObject(event.Object)
		if _, ours := ns.works[key]; ours && (event.Gone || event.Object.GetDeletionTimestamp() != nil) {
			ns.T.Errorf("Work %s was deleted at %v", key, event.At)
		}
	}
}

// membersKeep returns an error unless the members still have both resources.
func (ns *standing) membersKeep(ctx context.Context) error {
	for _, m := range members {
		if err := m.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "settings"}, &corev1.ConfigMap{}); err != nil {
			return err
		}
		if err := m.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "widget"}, testbed.ObjectOf(ns.kind, "widget")); err != nil {
			return err
		}
	}
	return nil
}

// goesOn checks that everything works again: a change is confirmed everywhere.
func (ns *standing) goesOn(fault string, since time.Time) {
	ns.T.Helper()
	ns.keepsAll()
	revision, _ := ns.Writes("settings", "after the fault")
	confirmed := ns.Propagation("settings").SettlesWithin(revision, since, 3*time.Minute)
	lasted(ns.T, fault+", over → a change confirmed everywhere", confirmed.Sub(since), 90*time.Second)
	// While the API server starts, it may be too slow to say whether it serves the kind.
	ns.Eventually("the custom resource is Ready", func(context.Context) error {
		return testbed.ReadyWith(ns.Revision(testbed.ObjectOf(ns.kind, "widget")))(ns.Propagation("widget").Latest())
	})
	ns.keepsAll()
}

// Without the aggregated API server, the Cluster API is not available. The
// controller is restarted in the meantime.
func TestClusterAPIGone(t *testing.T) {
	ns := newStanding(t)
	stops(t, aggregatedServer)
	ns.Throughout(20*time.Second, "members keep what they have", ns.membersKeep)
	if err := bed.Controller.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := bed.Controller.Start(); err != nil {
		t.Fatal(err)
	}
	ns.Throughout(40*time.Second, "members keep what they have", ns.membersKeep)
	ns.keepsAll()
	back := starts(t, aggregatedServer)
	ns.goesOn("the Cluster API gone for a minute, the controller started anew meanwhile", back)
}

// The kind is deleted on the control plane, and with it all its objects.
func TestKindGone(t *testing.T) {
	ns := newStanding(t)
	at := time.Now()
	ns.Uninstalls(ns.kind, karmada)
	ns.Propagation("widget").Until(at, testbed.NotReadyFor(propagationv1alpha1.ReasonResourceKindNotFound))
	ns.Throughout(10*time.Second, "members keep what they have", ns.membersKeep)
	ns.keepsAll()
	ns.installs(ns.kind, karmada)
	ns.Propagation("widget").Until(at, testbed.NotReadyFor(propagationv1alpha1.ReasonResourceNotFound))
	ns.Has(testbed.ObjectOf(ns.kind, "widget"))
	ns.goesOn("the kind deleted and installed again", time.Now())
}

// The resources are deleted on the control plane.
func TestResourceGone(t *testing.T) {
	ns := newStanding(t)
	at := time.Now()
	for _, object := range []client.Object{testbed.ConfigMap("settings", ""), testbed.ObjectOf(ns.kind, "widget")} {
		object.SetNamespace(ns.Name)
		if err := karmada.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		ns.Propagation(object.GetName()).Until(at, testbed.NotReadyFor(propagationv1alpha1.ReasonResourceNotFound))
	}
	ns.Throughout(10*time.Second, "members keep what they have", ns.membersKeep)
	ns.keepsAll()
	ns.Has(testbed.ObjectOf(ns.kind, "widget"))
	ns.Writes("settings", "made anew")
	ns.goesOn("the resource deleted and made anew", time.Now())
}

// The Karmada API server crashes and is restarted a few seconds later.
func TestAPIServerRestarts(t *testing.T) { restarts(t, karmadaServer) }

// etcd, which all API servers use, crashes and is restarted.
func TestEtcdRestarts(t *testing.T) { restarts(t, "etcd") }

func restarts(t *testing.T, process string) {
	t.Helper()
	ns := newStanding(t)
	crashes(t, process)
	// Wait long enough for pending requests to fail. There is no state to wait for.
	gone := time.NewTimer(5 * time.Second)
	<-gone.C
	back := starts(t, process)
	// The recorders must have seen every change before the results are judged.
	if err := bed.Await(t.Context(), "the Karmada API server lists Works", func(ctx context.Context) error {
		return karmada.List(ctx, &workv1alpha1.WorkList{}, client.Limit(1))
	}); err != nil {
		t.Fatal(err)
	}
	ns.goesOn(process+" crashed and was started again", back)
	if err := bed.Controller.Fault(); err != nil {
		t.Error(err)
	}
}
