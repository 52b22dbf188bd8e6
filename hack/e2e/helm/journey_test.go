//go:build e2e_helm

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

package helm

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// traveler is a ConfigMap that is propagated to all members.
type traveler struct {
	t         *testing.T
	namespace string
}

const settings = "settings"

// creates creates the ConfigMap and its DirectPropagation, and waits until both
// members have confirmed it.
func creates(t *testing.T, says string) *traveler {
	t.Helper()
	j := &traveler{t: t, namespace: "helm-" + rand.String(5)}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: j.namespace}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: settings}, Data: map[string]string{"says": says}}
	for _, object := range []client.Object{namespace, config, j.propagation()} {
		if err := karmada.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	j.confirmed(says)
	return j
}

func (j *traveler) propagation() *propagationv1alpha1.DirectPropagation {
	return &propagationv1alpha1.DirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: settings},
		Spec: propagationv1alpha1.PropagationSpec{
			Resource: propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "ConfigMap", Name: settings},
			Clusters: []propagationv1alpha1.TargetCluster{{Name: "member1"}, {Name: "member2"}},
		},
	}
}

// changes changes the ConfigMap and waits until both members have confirmed it.
func (j *traveler) changes(says string) {
	j.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"says":%q}}`, says))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: settings}}
	if err := karmada.Patch(j.t.Context(), config, patch); err != nil {
		j.t.Fatal(err)
	}
	j.confirmed(says)
}

// confirmed waits until the members have the content and the status confirms it.
func (j *traveler) confirmed(says string) {
	j.t.Helper()
	eventually(j.t, "the members have content "+says, func(ctx context.Context) error { return j.told(ctx, says) })
	eventually(j.t, "it is Ready", func(ctx context.Context) error {
		object := j.propagation()
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != object.Generation {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
}

// told returns an error unless all members have the content.
func (j *traveler) told(ctx context.Context, says string) error {
	for _, member := range members {
		config := &corev1.ConfigMap{}
		if err := member.Get(ctx, client.ObjectKey{Namespace: j.namespace, Name: settings}, config); err != nil {
			return fmt.Errorf("%s: %w", member.Name, err)
		}
		if config.Data["says"] != says {
			return fmt.Errorf("%s says %q", member.Name, config.Data["says"])
		}
	}
	return nil
}

// deletes deletes the DirectPropagation and waits until nothing is left of it.
func (j *traveler) deletes() {
	j.t.Helper()
	if err := karmada.Delete(j.t.Context(), j.propagation()); err != nil {
		j.t.Fatal(err)
	}
	eventually(j.t, "nothing is left", func(ctx context.Context) error {
		object := j.propagation()
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the DirectPropagation still exists (%v)", err)
		}
		for _, member := range members {
			if err := member.Get(ctx, client.ObjectKey{Namespace: j.namespace, Name: settings}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s still has the ConfigMap (%v)", member.Name, err)
			}
		}
		return nil
	})
}

// works returns the generations of the object's Works, which change when somebody
// writes them.
func (j *traveler) works() map[string]int64 {
	j.t.Helper()
	versions := map[string]int64{}
	for _, member := range members {
		works := &workv1alpha1.WorkList{}
		if err := karmada.List(j.t.Context(), works, client.InNamespace("karmada-es-"+member.Name)); err != nil {
			j.t.Fatal(err)
		}
		for _, work := range works.Items {
			if work.Annotations[propagationv1alpha1.OwnerNamespaceAnnotation] == j.namespace {
				versions[member.Name+"/"+work.Name] = work.Generation
			}
		}
	}
	if len(versions) != len(members) {
		j.t.Fatalf("found the Works %v", versions)
	}
	return versions
}

// theWholeJourney does what a user does, from creating the objects to deleting them.
func theWholeJourney(t *testing.T) {
	t.Helper()
	j := creates(t, "hello")
	j.changes("good day")
	j.deletes()
}
