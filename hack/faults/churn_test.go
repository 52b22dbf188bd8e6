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
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

const (
	churnLanes  = 20
	churnCycles = 5
	churnKinds  = 5
	// haste is the maximum time between the creation of an object and its deletion.
	haste = 200 * time.Millisecond
)

// Objects are deleted 0 to 200 ms after their creation, a hundred times, including
// objects that are the first of their kind on the members. Nothing may be left on
// any member, neither immediately nor later.
func TestCreateAndDeleteInHaste(t *testing.T) {
	ns := newNamespace(t)
	seeds := bed.Seeded(t)
	kinds := ns.hasKinds(churnKinds)
	began := time.Now()
	var lanes sync.WaitGroup
	failures := make([]error, churnLanes+churnKinds)
	for lane := range churnLanes {
		random := rand.New(rand.NewPCG(seeds.Uint64(), uint64(lane)))
		lanes.Go(func() {
			for cycle := range churnCycles {
				object := testbed.ConfigMap(fmt.Sprintf("lane-%d", lane), "")
				object.Data = map[string]string{"cycle": strconv.Itoa(cycle)}
				failures[lane] = errors.Join(failures[lane], ns.cycle(object, random))
			}
		})
	}
	for i, kind := range kinds {
		random := rand.New(rand.NewPCG(seeds.Uint64(), uint64(churnLanes+i)))
		lanes.Go(func() { failures[churnLanes+i] = ns.cycle(testbed.ObjectOf(kind, "first"), random) })
	}
	lanes.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatalf("%v\n%s", err, ns.Dump())
	}
	measured(t, fmt.Sprintf("%d objects deleted 0–%v after they were created", churnLanes*churnCycles+churnKinds, haste), ns.reached(began), "nothing left on any member")
	ns.Throughout(10*time.Second, "nothing is left on members", func(ctx context.Context) error { return ns.isBare(ctx, kinds) })
}

// cycle creates a resource and its DirectPropagation, deletes the DirectPropagation
// after a random delay, waits until it is gone, and deletes the resource.
func (ns *Namespace) cycle(resource client.Object, random *rand.Rand) error {
	resource.SetNamespace(ns.Name)
	if err := karmada.Create(ns.Ctx, resource); err != nil {
		return fmt.Errorf("creating %s: %w", resource.GetName(), err)
	}
	name := fmt.Sprintf("%s-%s", resource.GetName(), utilrand.String(5))
	object := &DirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: testbed.ReferenceTo(resource), Clusters: testbed.Targets("member1", "member2")},
	}
	if err := karmada.Create(ns.Ctx, object); err != nil {
		return fmt.Errorf("creating DirectPropagation %s: %w", name, err)
	}
	pause := time.NewTimer(time.Duration(random.Int64N(int64(haste))))
	<-pause.C // this delay is what the test varies
	if err := karmada.Delete(ns.Ctx, object); err != nil {
		return fmt.Errorf("deleting DirectPropagation %s: %w", name, err)
	}
	if err := bed.Await(ns.Ctx, "DirectPropagation "+name+" is gone", func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it still exists"), err)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("DirectPropagation %s is not deleted: %w", name, err)
	}
	return karmada.Delete(ns.Ctx, resource)
}

// reached describes how far the objects got before they were deleted.
func (ns *Namespace) reached(since time.Time) string {
	written, confirmed := map[string]bool{}, map[string]bool{}
	for _, event := range works.Since(since) {
		work, _ := event.Object.(*workv1alpha1.Work)
		if work.Annotations[propagationv1alpha1.OwnerNamespaceAnnotation] != ns.Name {
			continue
		}
		written[string(work.UID)] = true
		for _, condition := range work.Status.Conditions {
			confirmed[string(work.UID)] = confirmed[string(work.UID)] || condition.Type == workv1alpha1.WorkApplied && condition.Status == metav1.ConditionTrue
		}
	}
	count := 0
	for _, yes := range confirmed {
		if yes {
			count++
		}
	}
	if count < churnLanes {
		ns.T.Errorf("only %d of %d Works reached a member, so the test proves little", count, len(written))
	}
	return fmt.Sprintf("%d Works were written, %d reached their member first", len(written), count)
}

// hasKinds installs kinds everywhere and waits until Karmada knows that the members
// serve them. The members have never had an object of these kinds.
func (ns *Namespace) hasKinds(count int) []*apiextensionsv1.CustomResourceDefinition {
	ns.T.Helper()
	kinds := []*apiextensionsv1.CustomResourceDefinition{}
	group := "faults-" + utilrand.String(5) + ".example.org"
	for i := range count {
		kinds = append(kinds, testbed.NewKind(group, fmt.Sprintf("Widget%d", i)))
	}
	for _, kind := range kinds {
		ns.installs(kind, karmada, member1, member2, member3)
	}
	for _, m := range members {
		ns.Eventually("Karmada knows what "+m.Name+" serves", func(context.Context) error {
			cluster, ok := clusters.Latest(client.ObjectKey{Name: m.Name}).(*clusterv1alpha1.Cluster)
			if !ok {
				return fmt.Errorf("there is no Cluster %s", m.Name)
			}
			for _, kind := range kinds {
				if cluster.APIEnablement(testbed.KindOf(kind)) != clusterv1alpha1.APIEnabled {
					return fmt.Errorf("Karmada does not know that %s serves %s", m.Name, kind.Name)
				}
			}
			return nil
		})
	}
	return kinds
}

// isBare returns an error if a member still has something that was propagated.
func (ns *Namespace) isBare(ctx context.Context, kinds []*apiextensionsv1.CustomResourceDefinition) error {
	for _, m := range members {
		left := &corev1.ConfigMapList{}
		if err := m.List(ctx, left, client.InNamespace(ns.Name)); err != nil {
			return err
		}
		for _, item := range left.Items {
			if item.Name != "kube-root-ca.crt" {
				return fmt.Errorf("%s: ConfigMap %s is left", m.Name, item.Name)
			}
		}
		for _, kind := range kinds {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(testbed.KindOf(kind))
			if err := m.List(ctx, list, client.InNamespace(ns.Name)); err != nil {
				return err
			}
			if len(list.Items) > 0 {
				return fmt.Errorf("%s: %s %s is left", m.Name, kind.Spec.Names.Kind, list.Items[0].GetName())
			}
		}
	}
	return nil
}
