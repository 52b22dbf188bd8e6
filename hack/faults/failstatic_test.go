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
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// standing is a namespace in which a ConfigMap and a custom resource are
// propagated everywhere, and of which no Work may ever be deleted.
type standing struct {
	*space
	kind  *apiextensionsv1.CustomResourceDefinition
	began time.Time
	works map[client.ObjectKey]types.UID
}

func newStanding(t *testing.T) *standing {
	t.Helper()
	s := &standing{space: newSpace(t), began: time.Now(), works: map[client.ObjectKey]types.UID{}}
	s.kind = kindOf("faults-"+utilrand.String(5)+".example.org", "Widget")
	s.installs(s.kind, karmada, member1, member2, member3)
	revision, _ := s.says("settings", "one")
	s.propagates("settings", configMap("settings"), "member1", "member2", "member3")
	s.has(custom(s.kind, "widget"))
	s.propagates("widget", custom(s.kind, "widget"), "member1", "member2", "member3")
	s.settled("settings", revision, s.began, patience)
	s.until("widget", s.began, patience, ready(s.revision(custom(s.kind, "widget"))))
	list := &workv1alpha1.WorkList{}
	if err := karmada.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Annotations[propagationv1alpha1.OwnerNamespaceAnnotation] == s.name {
			s.works[client.ObjectKeyFromObject(&list.Items[i])] = list.Items[i].UID
		}
	}
	if len(s.works) != 2*len(members) {
		t.Fatalf("%d Works for 2 resources on %d members", len(s.works), len(members))
	}
	return s
}

// keepsAll checks that every Work is the one that was there in the beginning,
// and that no watch has shown one of them deleted.
func (s *standing) keepsAll() {
	s.t.Helper()
	for key, uid := range s.works {
		work := &workv1alpha1.Work{}
		if err := karmada.Get(s.ctx, key, work); err != nil || work.UID != uid || work.DeletionTimestamp != nil {
			s.t.Errorf("Work %s was deleted: %v, UID %s → %s, deletion %v", key, err, uid, work.UID, work.DeletionTimestamp)
		}
	}
	for _, event := range works.since(s.began) {
		key := client.ObjectKeyFromObject(event.Object)
		if _, ours := s.works[key]; ours && (event.Gone || event.Object.GetDeletionTimestamp() != nil) {
			s.t.Errorf("Work %s was deleted at %v", key, event.At)
		}
	}
}

// membersKeep checks that the members have what they had.
func (s *standing) membersKeep(ctx context.Context) error {
	for _, m := range members {
		if err := m.Get(ctx, client.ObjectKey{Namespace: s.name, Name: "settings"}, &corev1.ConfigMap{}); err != nil {
			return err
		}
		if err := m.Get(ctx, client.ObjectKey{Namespace: s.name, Name: "widget"}, custom(s.kind, "widget")); err != nil {
			return err
		}
	}
	return nil
}

// goesOn checks that all is true again: a change is confirmed everywhere.
func (s *standing) goesOn(fault string, since time.Time) {
	s.t.Helper()
	s.keepsAll()
	revision, _ := s.says("settings", "after the fault")
	confirmed := s.settled("settings", revision, since, 3*time.Minute)
	lasted(s.t, fault+", over → a change confirmed everywhere", confirmed.Sub(since), 90*time.Second)
	s.until("widget", time.Time{}, patience, ready(s.revision(custom(s.kind, "widget"))))
	now := s.latest("widget")
	if err := ready(s.revision(custom(s.kind, "widget")))(now); err != nil {
		s.t.Errorf("the custom resource: %v", err)
	}
	s.keepsAll()
}

// Without the aggregated API server, nobody knows any Cluster. The controller
// is started anew in the middle of that, too.
func TestClusterAPIGone(t *testing.T) {
	s := newStanding(t)
	stops(t, aggregatedServer)
	throughout(t, 20*time.Second, "members keep what they have", s.membersKeep)
	if err := manager.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := manager.start(); err != nil {
		t.Fatal(err)
	}
	throughout(t, 40*time.Second, "members keep what they have", s.membersKeep)
	s.keepsAll()
	back := starts(t, aggregatedServer)
	s.goesOn("the Cluster API gone for a minute, the controller started anew meanwhile", back)
}

// The kind is deleted on the control plane, and with it every object of it.
func TestKindGone(t *testing.T) {
	s := newStanding(t)
	at := time.Now()
	s.uninstalls(s.kind, karmada)
	s.until("widget", at, patience, notReadyFor(propagationv1alpha1.ReasonResourceKindNotFound))
	throughout(t, 10*time.Second, "members keep what they have", s.membersKeep)
	s.keepsAll()
	s.installs(s.kind, karmada)
	s.until("widget", at, patience, notReadyFor(propagationv1alpha1.ReasonResourceNotFound))
	s.has(custom(s.kind, "widget"))
	s.goesOn("the kind deleted and installed again", time.Now())
}

// The resource is deleted on the control plane.
func TestResourceGone(t *testing.T) {
	s := newStanding(t)
	at := time.Now()
	for _, object := range []client.Object{configMap("settings"), custom(s.kind, "widget")} {
		object.SetNamespace(s.name)
		if err := karmada.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		s.until(object.GetName(), at, patience, notReadyFor(propagationv1alpha1.ReasonResourceNotFound))
	}
	throughout(t, 10*time.Second, "members keep what they have", s.membersKeep)
	s.keepsAll()
	s.has(custom(s.kind, "widget"))
	s.says("settings", "made anew")
	s.goesOn("the resource deleted and made anew", time.Now())
}

func notReadyFor(reason string) check {
	return func(object *directPropagation) error {
		if condition := conditionOf(object, propagationv1alpha1.ConditionReady); condition.Status != metav1.ConditionFalse || condition.Reason != reason {
			return fmt.Errorf("Ready is %+v, not for %s", condition, reason)
		}
		return nil
	}
}

// The Karmada API server crashes and is started again some seconds later.
func TestAPIServerRestarts(t *testing.T) { restarts(t, karmadaServer) }

// etcd crashes, under all API servers, and is started again.
func TestEtcdRestarts(t *testing.T) { restarts(t, "etcd") }

func restarts(t *testing.T, process string) {
	t.Helper()
	s := newStanding(t)
	crashes(t, process)
	// Long enough that requests under way fail: there is nothing to wait for but
	// the time itself.
	gone := time.NewTimer(5 * time.Second)
	<-gone.C
	back := starts(t, process)
	// The chronicles must have seen what became of everything before it is judged.
	if _, err := awaits(t.Context(), patience, func(ctx context.Context) error {
		return karmada.List(ctx, &workv1alpha1.WorkList{}, client.Limit(1))
	}); err != nil {
		t.Fatal(err)
	}
	s.goesOn(process+" crashed and was started again", back)
	select {
	case <-manager.ended:
		t.Errorf("the controller's process ended: %v", manager.err)
	default:
	}
}
