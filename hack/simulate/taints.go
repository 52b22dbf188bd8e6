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

package simulate

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// maintenance is the taint that users put on clusters.
var maintenance = corev1.Taint{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}

func isOfUser(taint corev1.Taint) bool { return taint.Key == maintenance.Key }

// taint taints a cluster, or takes the taint off.
func (u *users) taint(ctx context.Context) (string, error) {
	cluster := &clusterv1alpha1.Cluster{}
	cluster.Name = oneOf(u.w.choices, memberNames)
	if err := u.w.plane.Get(ctx, keyOf(cluster), cluster); err != nil {
		return "taints " + cluster.Name, err //nolint:wrapcheck // act wraps it
	}
	what := "taints " + cluster.Name
	if slices.ContainsFunc(cluster.Spec.Taints, isOfUser) {
		what = "takes the taint off " + cluster.Name
		cluster.Spec.Taints = slices.DeleteFunc(cluster.Spec.Taints, isOfUser)
	} else {
		cluster.Spec.Taints = append(cluster.Spec.Taints, maintenance)
	}
	return what, u.w.plane.Update(ctx, cluster) //nolint:wrapcheck // act wraps it
}

// tolerate has an object with a selector tolerate the taint, or not.
func (u *users) tolerate(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		if len(spec.ClusterTolerations) > 0 || spec.ClusterSelector == nil {
			spec.ClusterTolerations = nil
			return "tolerates no taint"
		}
		spec.ClusterTolerations = []propagationv1alpha1.ClusterToleration{{Key: maintenance.Key}}
		return "tolerates the taint"
	})
}

// isLeftOut reports whether an object leaves a cluster out because of a taint, and may: the
// cluster has no Work of it.
func (w *World) isLeftOut(object cached.Object, cluster string) bool {
	spec, key := object.GetSpec(), keyOfResource(object)
	row := statusRow(object, cluster)
	named := slices.ContainsFunc(spec.Clusters, func(target propagationv1alpha1.TargetCluster) bool { return target.Name == cluster })
	held := w.truth.works[render.WorkKey(cluster, key.Kind, key.Namespace, key.Name)]
	has := held != nil && held.work.DeletionTimestamp == nil && isOurs(held.work) && ownerOf(held.work) == titleOf(object)
	return row != nil && row.Reason == propagationv1alpha1.ReasonClusterTainted && row.Applied == "False" && row.Message ==
		fmt.Sprintf("the cluster has the taint %s, which spec.clusterTolerations does not tolerate", maintenance.ToString()) &&
		w.truth.desired.tainted[cluster] && !named && len(spec.ClusterTolerations) == 0 && !has
}

// meetsTaints reports whether taints may concern an object: what it has led to depends on
// whether it or the taint came first.
func (w *World) meetsTaints(object cached.Object) bool {
	return object.GetSpec().ClusterSelector != nil && slices.ContainsFunc(memberNames, func(name string) bool { return w.truth.desired.tainted[name] })
}
