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

package decide

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Select sets which of the clusters that match the selector are targets. A cluster with a
// taint that is not tolerated is left out, as by Karmada's scheduler, unless it has the
// resource already or the spec names it. lost reports whether somebody has just deleted the
// Work of a cluster.
func (o *Observed) Select(matching []string, taintsOf func(cluster string) []corev1.Taint, lost func(cluster string) bool) {
	o.Selected, o.LeftOut = make([]string, 0, len(matching)), nil
	var stays map[string]bool
	for _, name := range matching {
		taint, tainted := o.untolerated(taintsOf(name))
		if tainted {
			if stays == nil {
				stays = o.staying()
			}
			if !stays[name] && !lost(name) {
				if o.LeftOut == nil {
					o.LeftOut = map[string]string{}
				}
				o.LeftOut[name] = taint.ToString()
				continue
			}
		}
		o.Selected = append(o.Selected, name)
	}
	slices.Sort(o.Selected)
}

// staying are the clusters that taints do not concern: those that the spec names, and those
// that have the resource.
func (o *Observed) staying() map[string]bool {
	stays := map[string]bool{}
	for i := range o.Spec.Clusters {
		stays[o.Spec.Clusters[i].Name] = true
	}
	for key, work := range o.Works {
		if work.DeletionTimestamp == nil {
			stays[render.ClusterOf(key.Namespace)] = true
		}
	}
	// Somebody may have deleted the Work, or it is about to be replaced.
	for i := range o.Status.Clusters {
		if row := &o.Status.Clusters[i]; row.Revision != "" && !ReasonNamed(row.Reason).departing {
			stays[row.Name] = true
		}
	}
	return stays
}

// untolerated returns the first taint that keeps a cluster from being selected.
func (o *Observed) untolerated(taints []corev1.Taint) (corev1.Taint, bool) {
	tolerations := make([]corev1.Toleration, len(o.Spec.ClusterTolerations))
	for i := range o.Spec.ClusterTolerations {
		asked := &o.Spec.ClusterTolerations[i]
		tolerations[i] = corev1.Toleration{Key: asked.Key, Operator: asked.Operator, Value: asked.Value, Effect: asked.Effect}
	}
	// Only operators that compare, which the API does not have, log anything.
	return v1helper.FindMatchingUntoleratedTaint(logr.Discard(), taints, tolerations, keepsOut, false)
}

// keepsOut reports whether a taint keeps clusters from being selected. While Karmada has no
// contact with a cluster, its row says so, and its Work waits.
func keepsOut(taint *corev1.Taint) bool {
	return (taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute) &&
		taint.Key != clusterv1alpha1.TaintClusterNotReady && taint.Key != clusterv1alpha1.TaintClusterUnreachable
}

// leftOutRows are the rows of clusters that are left out because of a taint, and have none
// yet.
func leftOutRows(observed *Observed, rows []propagationv1alpha1.ClusterStatus) []propagationv1alpha1.ClusterStatus {
	var added []propagationv1alpha1.ClusterStatus
	for _, name := range slices.Sorted(maps.Keys(observed.LeftOut)) {
		if !slices.ContainsFunc(rows, func(row propagationv1alpha1.ClusterStatus) bool { return row.Name == name }) {
			added = append(added, row(name, metav1.ConditionFalse, propagationv1alpha1.ReasonClusterTainted,
				fmt.Sprintf("the cluster has the taint %s, which spec.clusterTolerations does not tolerate", observed.LeftOut[name])))
		}
	}
	return added
}
