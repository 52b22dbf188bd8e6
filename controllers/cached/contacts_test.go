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
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
)

// When contact was lost is known only if it was seen.
func TestContacts(t *testing.T) {
	at := func(status metav1.ConditionStatus, minute int) *clusterv1alpha1.Cluster {
		return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}, Status: clusterv1alpha1.ClusterStatus{Conditions: []metav1.Condition{
			{Type: clusterv1alpha1.ClusterConditionReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(time.Duration(minute) * time.Minute))},
		}}}
	}
	ready := func(minute int) *clusterv1alpha1.Cluster { return at(metav1.ConditionTrue, minute) }
	lost := func(minute int) *clusterv1alpha1.Cluster { return at(metav1.ConditionUnknown, minute) }
	const unknown = 0
	for name, tc := range map[string]struct {
		seen []*clusterv1alpha1.Cluster
		now  *clusterv1alpha1.Cluster
		want int
	}{
		"lost and regained":                {[]*clusterv1alpha1.Cluster{ready(1), lost(2), ready(3)}, ready(3), 2},
		"seen again since":                 {[]*clusterv1alpha1.Cluster{lost(2), ready(3), ready(3)}, ready(3), 2},
		"lost twice":                       {[]*clusterv1alpha1.Cluster{lost(2), ready(3), lost(4), ready(5)}, ready(5), 4},
		"lost now":                         {[]*clusterv1alpha1.Cluster{ready(1), lost(2)}, lost(2), 2},
		"seen since it was regained":       {[]*clusterv1alpha1.Cluster{ready(3)}, ready(3), unknown},
		"the loss was not seen":            {[]*clusterv1alpha1.Cluster{lost(2), ready(3), ready(5)}, ready(5), unknown},
		"the watch is behind the cache":    {[]*clusterv1alpha1.Cluster{lost(2), ready(3)}, ready(5), unknown},
		"the watch is behind, by the loss": {[]*clusterv1alpha1.Cluster{ready(1)}, lost(2), unknown},
		"never seen":                       {nil, ready(3), unknown},
		"without a condition":              {[]*clusterv1alpha1.Cluster{{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}}, &clusterv1alpha1.Cluster{}, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			contacts := &Contacts{}
			for _, cluster := range tc.seen {
				contacts.Saw(cluster)
			}
			want := time.Time{}
			if tc.want != unknown {
				want = now.Add(time.Duration(tc.want) * time.Minute)
			}
			if got := contacts.LostAt(tc.now); !got.Equal(want) {
				t.Errorf("lost at %s, want %s", got, want)
			}
		})
	}
}
