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
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// FuzzClusters: a compact Cluster gives the same decisions as the whole one, whatever
// other Clusters share its list of kinds.
func FuzzClusters(f *testing.F) {
	for _, cluster := range []string{
		`{"metadata":{"name":"member1","labels":{"site":"far"}},"spec":{"region":"r","zones":["a","b"],"provider":"p"},"status":{"apiEnablements":[{"groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment"}]}],"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		`{"status":{"apiEnablements":[{"groupVersion":"apps/v1"}],"conditions":[{"type":"CompleteAPIEnablements","status":"False"},{"type":"Ready","status":"Unknown","reason":"R","message":"m"}]}}`,
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"resourceModels":[{"grade":1}]}}`, `{}`,
	} {
		f.Add([]byte(cluster), []byte(`{"status":{"apiEnablements":[{"groupVersion":"apps/v1","resources":[{"name":"deploymentsDeployment","kind":""}]}]}}`), "apps/v1", "Deployment")
	}
	f.Fuzz(func(t *testing.T, one, other []byte, apiVersion, kind string) {
		clusters := NewClusters()
		for _, written := range [][]byte{one, other, one} {
			whole, compact := &clusterv1alpha1.Cluster{}, &clusterv1alpha1.Cluster{}
			if json.Unmarshal(written, whole) != nil || json.Unmarshal(written, compact) != nil {
				t.Skip("no Cluster")
			}
			if _, err := clusters.Compact(compact); err != nil {
				t.Fatal(err)
			}
			gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
			if diff := cmp.Diff(decide.StateOf(whole, true, gvk), decide.StateOf(compact, true, gvk)); diff != "" {
				t.Errorf("state (-whole +compact):\n%s", diff)
			}
			if want, got := customize.AttributesOf(whole), customize.AttributesOf(compact); want != got {
				t.Errorf("attributes %q, of the whole Cluster %q", got, want)
			}
		}
	})
}
