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
	"cmp"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Whichever of the objects that name a Deployment looks, the same clusters are missing.
// Otherwise, each would overwrite the status that the other has just written.
func TestObjectsAgreeOnMissingClusters(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	first := b.propagation(t)
	second := first.DeepCopy()
	second.Name, second.UID, second.ResourceVersion = "other", "other", ""
	if err := b.server.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	for object, reasons := range map[*propagationv1alpha1.DirectPropagation]map[string]string{
		first: {
			"member1": propagationv1alpha1.ReasonApplied, "member7": propagationv1alpha1.ReasonRemovalBlocked,
			"member8": propagationv1alpha1.ReasonWaiting, "member9": propagationv1alpha1.ReasonClusterTainted, "member2": propagationv1alpha1.ReasonWriteFailed,
			"member5": propagationv1alpha1.ReasonWriteFailed,
		},
		second: {"member3": propagationv1alpha1.ReasonConflict, "member6": propagationv1alpha1.ReasonRemoving},
	} {
		object.Status.Clusters = nil
		for cluster, reason := range reasons {
			object.Status.Clusters = append(object.Status.Clusters, propagationv1alpha1.ClusterStatus{Name: cluster, Reason: reason})
		}
		if err := b.server.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range []cached.Object{first, second} {
		observed := b.begin(object)
		observed.Resource.UID = types.UID("web")
		collected, err := b.reports(object, observed)
		if err != nil {
			t.Fatal(err)
		}
		collected.works = map[string]*workv1alpha1.Work{"member1": {}}
		if got := b.missing(object, observed, collected); !slices.Equal(got, []string{"member2", "member3", "member8"}) {
			t.Errorf("%s: %v are missing, want member2, which is named, member3 and member8", object.GetName(), got)
		}
	}
}

// A cluster that loses a resource does not keep its status from being complete, however long
// that takes. Karmada's aggregation knows the resource to be complete only if each cluster
// has reported the same generation.
func TestClustersThatLoseAResourceDoNotCount(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	object := b.propagation(t)
	another := object.DeepCopy()
	another.Name, another.UID, another.ResourceVersion = "other", "other", ""
	for name, tc := range map[string]struct {
		owner, kind, reason             string
		names, selects, deleted, counts bool
	}{
		"named":                                  {owner: "web", names: true, counts: true},
		"not named, and not removed yet":         {owner: "web", reason: propagationv1alpha1.ReasonApplied},
		"selected":                               {owner: "web", selects: true, reason: propagationv1alpha1.ReasonApplied, counts: true},
		"no longer selected":                     {owner: "web", selects: true, reason: propagationv1alpha1.ReasonRemoving},
		"named by another object":                {owner: "other", names: true, counts: true},
		"no longer named by another object":      {owner: "other"},
		"named by another object that goes":      {owner: "other", names: true, deleted: true},
		"of an object that names something else": {owner: "third", names: true},
		"what follows an object":                 {owner: "third", kind: render.DependencyKind, counts: true},
	} {
		t.Run(name, func(t *testing.T) {
			owner, other := object.DeepCopy(), another.DeepCopy()
			for _, naming := range []*propagationv1alpha1.DirectPropagation{owner, other} {
				naming.Status.Clusters = []propagationv1alpha1.ClusterStatus{{Name: "member3", Reason: tc.reason}}
				naming.Spec.Clusters = []propagationv1alpha1.TargetCluster{{Name: "member1"}}
				if tc.names {
					naming.Spec.Clusters = append(naming.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: "member3"})
				}
				if tc.selects {
					naming.Spec.ClusterSelector = &metav1.LabelSelector{}
				}
			}
			if tc.deleted {
				other.DeletionTimestamp = ptr.To(metav1.NewTime(now))
			}
			b.objects = func(string) ([]client.Object, error) { return []client.Object{owner, other}, nil }
			work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-member3", Name: "web"}}
			render.Claim(work, render.Owner{Kind: cmp.Or(tc.kind, "DirectPropagation"), Namespace: "shop", Name: tc.owner, UID: "any"}, render.Target{Cluster: "member3"})
			if counts := !b.departures(owner, b.begin(owner))(work); counts != tc.counts {
				t.Errorf("it counts: %t, want %t", counts, tc.counts)
			}
		})
	}
}
