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

package cached

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
)

// serving is a Cluster that serves some kinds of a group.
func serving(kinds ...string) *clusterv1alpha1.Cluster {
	enablement := clusterv1alpha1.APIEnablement{GroupVersion: "example.org/v1"}
	for _, kind := range kinds {
		enablement.Resources = append(enablement.Resources, clusterv1alpha1.APIResource{Name: kind + "s", Kind: kind})
	}
	return &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "member1", Labels: map[string]string{"site": "far"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Spec:       clusterv1alpha1.ClusterSpec{Provider: "p", ResourceModels: []clusterv1alpha1.ResourceModel{{Grade: 1}}},
		Status: clusterv1alpha1.ClusterStatus{
			Conditions:      []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionReady, Status: metav1.ConditionTrue}},
			NodeSummary:     &clusterv1alpha1.NodeSummary{TotalNum: 3},
			ResourceSummary: &clusterv1alpha1.ResourceSummary{},
			APIEnablements:  []clusterv1alpha1.APIEnablement{enablement},
		},
	}
}

func compactCluster(t *testing.T, clusters *Clusters, cluster *clusterv1alpha1.Cluster) *clusterv1alpha1.Cluster {
	t.Helper()
	compact, err := clusters.Compact(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return compact.(*clusterv1alpha1.Cluster) //nolint:forcetypeassert // Compact returns what it gets
}

// What decisions rest on stays, and equal lists of kinds are one list.
func TestCompactCluster(t *testing.T) {
	clusters := NewClusters()
	want := serving("Widget", "Gadget")
	want.ManagedFields, want.Spec.ResourceModels, want.Status.NodeSummary, want.Status.ResourceSummary = nil, nil, nil, nil
	one, same := compactCluster(t, clusters, serving("Widget", "Gadget")), compactCluster(t, clusters, serving("Widget", "Gadget"))
	if diff := cmp.Diff(want, one); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if &one.Status.APIEnablements[0] != &same.Status.APIEnablements[0] {
		t.Error("equal lists are in memory twice")
	}
	other := compactCluster(t, clusters, serving("Widget"))
	if diff := cmp.Diff(serving("Widget").Status.APIEnablements, other.Status.APIEnablements); diff != "" {
		t.Errorf("another list (-want +got):\n%s", diff)
	}
	if compactCluster(t, clusters, &clusterv1alpha1.Cluster{}).Status.APIEnablements != nil {
		t.Error("a cluster that serves nothing serves something")
	}
}

// However different clusters are, what is shared is bounded.
func TestSharedListsAreBounded(t *testing.T) {
	clusters := NewClusters()
	for i := range 3 * maxEnablements {
		compactCluster(t, clusters, serving(fmt.Sprintf("Kind%d", i)))
	}
	if len(clusters.known) > maxEnablements {
		t.Errorf("%d lists are kept", len(clusters.known))
	}
}
