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

package apis_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	applyv1alpha1 "github.com/karmada-direct/karmada-direct/apis/client/applyconfiguration/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/apis/client/clientset/versioned/fake"
	"github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// TestFakeClientset applies clusters from two sides, as two teams might. The
// fake can merge them only if the generated clients know the schema.
func TestFakeClientset(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset().PropagationV1alpha1().DirectPropagations("shop")
	apply := func(manager, cluster string) *v1alpha1.DirectPropagation {
		t.Helper()
		object, err := client.Apply(t.Context(), applyv1alpha1.DirectPropagation("web", "shop").WithSpec(applyv1alpha1.PropagationSpec().
			WithResource(applyv1alpha1.ResourceReference().WithAPIVersion("apps/v1").WithKind("Deployment").WithName("web")).
			WithClusters(applyv1alpha1.TargetCluster().WithName(cluster)),
		), metav1.ApplyOptions{FieldManager: manager})
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
	apply("one", "member1")
	object := apply("other", "member2")

	want := []v1alpha1.TargetCluster{{Name: "member1"}, {Name: "member2"}}
	if diff := cmp.Diff(want, object.Spec.Clusters); diff != "" {
		t.Errorf("clusters that two managers applied (-want +got):\n%s", diff)
	}
	extracted, err := applyv1alpha1.ExtractDirectPropagation(object, "other")
	if err != nil {
		t.Fatal(err)
	}
	if got := *extracted.Spec.Clusters[0].Name; got != "member2" || len(extracted.Spec.Clusters) != 1 {
		t.Errorf("manager other has applied %d clusters, the first is %s", len(extracted.Spec.Clusters), got)
	}
}

// TestFakeClientsetMergesStages applies stages from two sides, with a number and with a
// percentage: the fake must know which fields can be either, and the key of the list.
func TestFakeClientsetMergesStages(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset().PropagationV1alpha1().DirectPropagations("shop")
	var object *v1alpha1.DirectPropagation
	for _, stage := range []*applyv1alpha1.RolloutStageApplyConfiguration{
		applyv1alpha1.RolloutStage().WithName("canary").WithClusterNames("member1").WithMaxConcurrency(intstr.FromInt32(1)),
		applyv1alpha1.RolloutStage().WithName("rest").WithMaxConcurrency(intstr.FromString("25%")).
			WithClusterSelector(applyv1alpha1.StageSelector().WithMatchLabels(map[string]string{"ring": "rest"})),
	} {
		var err error
		object, err = client.Apply(t.Context(), applyv1alpha1.DirectPropagation("web", "shop").WithSpec(applyv1alpha1.PropagationSpec().
			WithRollout(applyv1alpha1.Rollout().WithStages(stage)),
		), metav1.ApplyOptions{FieldManager: *stage.Name})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []v1alpha1.RolloutStage{
		{Name: "canary", ClusterNames: []string{"member1"}, MaxConcurrency: ptr.To(intstr.FromInt32(1))},
		{Name: "rest", MaxConcurrency: ptr.To(intstr.FromString("25%")), ClusterSelector: &v1alpha1.StageSelector{MatchLabels: map[string]string{"ring": "rest"}}},
	}
	if diff := cmp.Diff(want, object.Spec.Rollout.Stages); diff != "" {
		t.Errorf("stages that two managers applied (-want +got):\n%s", diff)
	}
}
