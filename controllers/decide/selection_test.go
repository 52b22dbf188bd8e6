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
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// A selector does not add clusters with a taint that is not tolerated. What has the resource,
// or is named, stays.
func TestTaintsKeepClustersOut(t *testing.T) {
	cordoned := corev1.Taint{Key: "cluster.karmada.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}
	for name, tc := range map[string]struct {
		taint   corev1.Taint
		options []sceneOption
		out     bool
		lost    bool
	}{
		"cordoned":                 {cordoned, nil, true, false},
		"to be evicted":            {corev1.Taint{Key: "a", Value: "b", Effect: corev1.TaintEffectNoExecute}, nil, true, false},
		"not preferred":            {corev1.Taint{Key: "a", Effect: corev1.TaintEffectPreferNoSchedule}, nil, false, false},
		"without contact":          {corev1.Taint{Key: "cluster.karmada.io/not-ready", Effect: corev1.TaintEffectNoSchedule}, nil, false, false},
		"without contact for long": {corev1.Taint{Key: "cluster.karmada.io/unreachable", Effect: corev1.TaintEffectNoExecute}, nil, false, false},
		"tolerated":                {cordoned, []sceneOption{tolerating(propagationv1alpha1.ClusterToleration{Key: cordoned.Key, Operator: corev1.TolerationOpExists})}, false, false},
		"with another value": {
			corev1.Taint{Key: "a", Value: "b", Effect: corev1.TaintEffectNoSchedule}, []sceneOption{tolerating(propagationv1alpha1.ClusterToleration{Key: "a", Value: "c"})}, true, false,
		},
		"named": {cordoned, []sceneOption{func(observed *Observed) {
			observed.Spec.Clusters = []propagationv1alpha1.TargetCluster{{Name: "member2"}}
		}}, false, false},
		"has the resource":                  {cordoned, []sceneOption{on("member2")}, false, false},
		"is losing it":                      {cordoned, []sceneOption{on("member2", terminating(now))}, true, false},
		"had it until the Work was deleted": {cordoned, []sceneOption{rowBefore(propagationv1alpha1.ReasonApplying, current)}, false, false},
		"had it until it was withdrawn":     {cordoned, []sceneOption{rowBefore(propagationv1alpha1.ReasonRemoving, current)}, true, false},
		"lost it a moment ago":              {cordoned, nil, false, true},
		"never had it":                      {cordoned, []sceneOption{rowBefore(propagationv1alpha1.ReasonApplying, "")}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			observed := scene(nil, tc.options...)
			observed.Clusters = map[string]Cluster{"member1": readyCluster, "member2": readyCluster}
			observed.Select([]string{"member2", "member1"}, func(cluster string) []corev1.Taint {
				return map[string][]corev1.Taint{"member2": {tc.taint}}[cluster]
			}, func(string) bool { return tc.lost })
			want := []string{"member1", "member2"}
			if tc.out {
				want = want[:1]
			}
			if diff := cmp.Diff(want, observed.Selected); diff != "" {
				t.Errorf("selected (-want +got):\n%s", diff)
			}
			if left := slices.Collect(maps.Keys(observed.LeftOut)); len(left) != 2-len(want) {
				t.Errorf("left out: %v", left)
			}
		})
	}
}

func tolerating(toleration propagationv1alpha1.ClusterToleration) sceneOption {
	return func(observed *Observed) {
		observed.Spec.ClusterTolerations = []propagationv1alpha1.ClusterToleration{toleration}
	}
}

// rowBefore gives a cluster a row in the status.
func rowBefore(reason, revision string) sceneOption {
	return func(observed *Observed) {
		observed.Status.Clusters = []propagationv1alpha1.ClusterStatus{{Name: "member2", Applied: metav1.ConditionUnknown, Reason: reason, Revision: revision}}
	}
}

// A cluster that is left out has a row that says so, counts nowhere, and does not keep the
// object from being Ready.
func TestStatusOfClustersThatAreLeftOut(t *testing.T) {
	observed := scene(one, on("member1", conditions(dispatched, applied), reports("Healthy"), generation(0)), rowBefore(propagationv1alpha1.ReasonClusterTainted, ""))
	observed.LeftOut = map[string]string{"member2": "a=b:NoSchedule"}
	status := statusOf(observed, Outcome{})
	if said := status.Conditions[0]; said.Status != metav1.ConditionTrue || !strings.HasSuffix(said.Message, "; 1 selected cluster is left out because of a taint") {
		t.Errorf("Ready: %+v", said)
	}
	if status.Summary.Progress != "1/1" || *status.Summary.Failed != 0 {
		t.Errorf("summary: %+v", status.Summary)
	}
	row := status.Clusters[slices.IndexFunc(status.Clusters, func(row propagationv1alpha1.ClusterStatus) bool { return row.Name == "member2" })]
	if row.Applied != metav1.ConditionFalse || row.Reason != propagationv1alpha1.ReasonClusterTainted ||
		row.Message != "the cluster has the taint a=b:NoSchedule, which spec.clusterTolerations does not tolerate" {
		t.Errorf("row: %+v", row)
	}
	none := scene(nil)
	none.LeftOut = observed.LeftOut
	if said := statusOf(none, Outcome{}).Conditions[0]; said.Reason != propagationv1alpha1.ReasonNoClusterSelected || !strings.Contains(said.Message, "member2; remove the taint") {
		t.Errorf("Ready if all are left out: %+v", said)
	}
}

// The row of a cluster without a Work says what the cluster confirmed last, so that a taint
// does not keep the Work from being written again.
func TestRowRemembersWhatAClusterHas(t *testing.T) {
	for name, tc := range map[string]struct {
		before sceneOption
		want   string
	}{
		"deleted by somebody": {rowBefore(propagationv1alpha1.ReasonApplied, current), current},
		"for the second time": {rowBefore(propagationv1alpha1.ReasonApplying, current), current},
		"withdrawn before":    {rowBefore(propagationv1alpha1.ReasonRemoving, current), ""},
		"left out before":     {rowBefore(propagationv1alpha1.ReasonClusterTainted, current), ""},
	} {
		t.Run(name, func(t *testing.T) {
			observed := scene([]string{"member2"}, tc.before)
			observed.Status.ObservedGeneration = &observed.Generation
			if row := statusOf(observed, Outcome{}).Clusters[0]; row.Revision != tc.want {
				t.Errorf("the row is %+v, want revision %q", row, tc.want)
			}
		})
	}
}
