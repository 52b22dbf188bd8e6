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
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// crowd is the number of objects of a tenant that brings many at once.
const crowd = 200

// A tenant creates hundreds of objects at once. Another one creates a single object
// afterwards, and does not wait for the hundreds.
func TestNamespaceWithManyObjectsDelaysNoOther(t *testing.T) {
	large, small := newNamespace(t), newNamespace(t)
	began := time.Now()
	err := testbed.InParallel(crowd, func(i int) error {
		resource := testbed.ConfigMap(fmt.Sprintf("many-%d", i), "")
		resource.Namespace = large.Name
		if err := karmada.Create(large.Ctx, resource); err != nil {
			return fmt.Errorf("creating %s: %w", resource.Name, err)
		}
		object := testbed.NewDirectPropagation(large.Name, resource.Name, testbed.ReferenceTo(resource), testbed.NamesOf(members)...)
		large.NoteWork(object.Spec.Resource)
		return karmada.Create(large.Ctx, object)
	})
	if err != nil {
		t.Fatal(err)
	}
	small.Writes("one", "hello")
	one := small.Propagates("one", testbed.ConfigMap("one", "")).ToClusters("member1", "member2", "member3")
	// How long the API server takes to create the object is not the controller's.
	asked := time.Now()
	small.Eventually("the Works of the single object are written", func(context.Context) error {
		if count := len(small.worksCreated(began)); count < len(members) {
			return fmt.Errorf("%d of %d are", count, len(members))
		}
		return nil
	})
	created := small.worksCreated(began)[len(members)-1]
	before, all := 0, len(members)*crowd
	for _, at := range large.worksCreated(began) {
		switch {
		case at.Before(asked):
			all--
		case at.Before(created):
			before++
		}
	}
	const limit = 100 // what was begun, and a few steps
	measured(t, fmt.Sprintf("Works of a tenant with %d objects that were written before the Works of another tenant's single object", crowd),
		fmt.Sprintf("%d of %d, %v", before, all, created.Sub(asked).Round(time.Millisecond)), fmt.Sprintf("≤ %d", limit))
	if before > limit || all < 2*limit {
		t.Errorf("the single object waited for %d Works of %d that others waited for, want at most %d", before, all, limit)
	}
	one.Settles(small.Revision(testbed.ConfigMap("one", "")), began)
}

// worksCreated returns when the Works of the namespace were created, in order.
func (ns *Namespace) worksCreated(since time.Time) []time.Time {
	moments, seen := []time.Time{}, map[types.UID]bool{}
	for _, sighting := range works.Since(since) {
		work, isWork := sighting.Object.(*workv1alpha1.Work)
		if isWork && !seen[work.UID] && work.Annotations[propagationv1alpha1.OwnerNamespaceAnnotation] == ns.Name {
			seen[work.UID] = true
			moments = append(moments, sighting.At)
		}
	}
	return moments
}
