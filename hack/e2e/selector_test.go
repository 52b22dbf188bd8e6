//go:build e2e

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

package e2e

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A cluster that gets the label gets the resource, and a cluster that loses the
// label loses the resource.
func TestClustersAreSelected(t *testing.T) {
	t.Parallel()
	for _, member := range members {
		t.Run(member.Mode, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			label := "example.org/" + ns.Name
			settings := testbed.ConfigMap("settings", "for whoever is labeled")
			ns.Has(settings)
			p := ns.Propagates("settings", settings).With(func(object *DirectPropagation) {
				object.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}}
			}).ToClusters()
			p.Says(propagationv1alpha1.ReasonNoClusterSelected, "no Cluster matches spec.clusterSelector; label one, or correct the selector")
			ns.labels(member, label, "yes")
			p.BecomesReady()
			ns.NowRun(settings, member)

			// The API server does not check the values of labels in a selector.
			wrong := []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpIn, Values: []string{"very far"}}}
			_, mistake := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: wrong})
			p.Changes(func(object *DirectPropagation) { object.Spec.ClusterSelector.MatchExpressions = wrong })
			p.Says(propagationv1alpha1.ReasonClusterSelectorInvalid, "spec.clusterSelector: "+mistake.Error())
			ns.NowRun(settings, member)
			p.Changes(func(object *DirectPropagation) { object.Spec.ClusterSelector.MatchExpressions = nil })
			p.BecomesReady()

			ns.labels(member, label, "no")
			ns.ComeToLack(settings, member)
			p.Says(propagationv1alpha1.ReasonNoClusterSelected, "no Cluster matches spec.clusterSelector; label one, or correct the selector")
		})
	}
}

// labels labels a Cluster until the test ends.
func (ns *Namespace) labels(member *Member, key, value string) {
	ns.T.Helper()
	label := func(ctx context.Context, mutate func(map[string]string)) {
		cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member.Name}}
		err := testbed.Change(ctx, karmada, cluster, func(cluster *clusterv1alpha1.Cluster) {
			if cluster.Labels == nil {
				cluster.Labels = map[string]string{}
			}
			mutate(cluster.Labels)
		})
		if err != nil {
			ns.T.Error(err)
		}
	}
	label(ns.Ctx, func(labels map[string]string) { labels[key] = value })
	ns.T.Cleanup(func() { label(context.Background(), func(labels map[string]string) { delete(labels, key) }) })
}
