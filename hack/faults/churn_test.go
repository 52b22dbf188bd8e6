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
	"os"
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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

const (
	churnLanes  = 20
	churnCycles = 5
	churnKinds  = 5
	// haste is how long after its creation an object is deleted at most.
	haste = 200 * time.Millisecond
)

// Objects are deleted 0 to 200 ms after they were created, a hundred times, and
// the first object of some kinds on the members too. Nothing may be left on
// any member, at once or later.
func TestCreateAndDeleteInHaste(t *testing.T) {
	s := newSpace(t)
	seed := churnSeed()
	t.Logf("FAULTS_SEED=%d", seed)
	kinds := s.hasKinds(churnKinds)
	began := time.Now()
	var lanes sync.WaitGroup
	failures := make([]error, churnLanes+churnKinds)
	for lane := range churnLanes {
		random := rand.New(rand.NewPCG(seed, uint64(lane)))
		lanes.Go(func() {
			for cycle := range churnCycles {
				object := configMap(fmt.Sprintf("lane-%d", lane))
				object.Data = map[string]string{"cycle": strconv.Itoa(cycle)}
				failures[lane] = errors.Join(failures[lane], s.cycle(object, random))
			}
		})
	}
	for i, kind := range kinds {
		random := rand.New(rand.NewPCG(seed, uint64(churnLanes+i)))
		lanes.Go(func() { failures[churnLanes+i] = s.cycle(custom(kind, "first"), random) })
	}
	lanes.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatalf("%v\n%s", err, s.dump())
	}
	measured(t, fmt.Sprintf("%d objects deleted 0–%v after they were created", churnLanes*churnCycles+churnKinds, haste), s.reached(began), "nothing left on any member")
	throughout(t, 10*time.Second, "nothing is left on members", func(ctx context.Context) error { return s.isBare(ctx, kinds) })
}

// cycle creates a resource and a DirectPropagation of it, deletes it after a
// pause, and waits until it is gone.
func (s *space) cycle(resource client.Object, random *rand.Rand) error {
	resource.SetNamespace(s.name)
	if err := karmada.Create(s.ctx, resource); err != nil {
		return fmt.Errorf("creating %s: %w", resource.GetName(), err)
	}
	name := fmt.Sprintf("%s-%s", resource.GetName(), utilrand.String(5))
	object := &directPropagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: referenceTo(resource), Clusters: targets("member1", "member2")},
	}
	if err := karmada.Create(s.ctx, object); err != nil {
		return fmt.Errorf("creating DirectPropagation %s: %w", name, err)
	}
	pause := time.NewTimer(time.Duration(random.Int64N(int64(haste))))
	<-pause.C // the pause is what is tried here
	if err := karmada.Delete(s.ctx, object); err != nil {
		return fmt.Errorf("deleting DirectPropagation %s: %w", name, err)
	}
	if _, err := awaits(s.ctx, patience, func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("DirectPropagation %s does not go: %w", name, err)
	}
	return karmada.Delete(s.ctx, resource)
}

// reached tells how far objects came before they were deleted.
func (s *space) reached(since time.Time) string {
	written, confirmed := map[string]bool{}, map[string]bool{}
	for _, event := range works.since(since) {
		work, _ := event.Object.(*workv1alpha1.Work)
		if work.Annotations[propagationv1alpha1.OwnerNamespaceAnnotation] != s.name {
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
		s.t.Errorf("only %d of %d Works reached a member: the test proves little", count, len(written))
	}
	return fmt.Sprintf("%d Works were written, %d reached their member first", len(written), count)
}

// hasKinds installs kinds everywhere, and waits until Karmada knows that the
// members serve them. No object of them has ever been on a member.
func (s *space) hasKinds(count int) []*apiextensionsv1.CustomResourceDefinition {
	s.t.Helper()
	kinds := []*apiextensionsv1.CustomResourceDefinition{}
	group := "faults-" + utilrand.String(5) + ".example.org"
	for i := range count {
		kinds = append(kinds, kindOf(group, fmt.Sprintf("Widget%d", i)))
	}
	for _, kind := range kinds {
		s.installs(kind, karmada, member1, member2, member3)
	}
	for _, m := range members {
		_, err := clusters.await(s.ctx, time.Time{}, patience, func(seen) error {
			cluster, _ := clusters.now(client.ObjectKey{Name: m.Name}).(*clusterv1alpha1.Cluster)
			for _, kind := range kinds {
				if cluster.APIEnablement(gvkOf(kind)) != clusterv1alpha1.APIEnabled {
					return fmt.Errorf("Karmada does not know that %s serves %s", m.Name, kind.Name)
				}
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return kinds
}

// isBare tells what is on a member of what was propagated.
func (s *space) isBare(ctx context.Context, kinds []*apiextensionsv1.CustomResourceDefinition) error {
	for _, m := range members {
		left := &corev1.ConfigMapList{}
		if err := m.List(ctx, left, client.InNamespace(s.name)); err != nil {
			return err
		}
		for _, item := range left.Items {
			if item.Name != "kube-root-ca.crt" {
				return fmt.Errorf("%s: ConfigMap %s is left", m.Name, item.Name)
			}
		}
		for _, kind := range kinds {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvkOf(kind))
			if err := m.List(ctx, list, client.InNamespace(s.name)); err != nil {
				return err
			}
			if len(list.Items) > 0 {
				return fmt.Errorf("%s: %s %s is left", m.Name, kind.Spec.Names.Kind, list.Items[0].GetName())
			}
		}
	}
	return nil
}

func churnSeed() uint64 {
	if seed, err := strconv.ParseUint(os.Getenv("FAULTS_SEED"), 10, 64); err == nil {
		return seed
	}
	return rand.Uint64()
}

// kindOf builds a CustomResourceDefinition.
func kindOf(group, kind string) *apiextensionsv1.CustomResourceDefinition {
	plural := fmt.Sprintf("%ss", lower(kind))
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: lower(kind), Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}
