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
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Each object is found by all that it depends on, and by nothing else, also
// after it has changed.
func TestObjectsAreFound(t *testing.T) {
	object := func(namespace, name string, spec propagationv1alpha1.PropagationSpec) *propagationv1alpha1.DirectPropagation {
		spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		return &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	}
	members := func(names ...string) (spec propagationv1alpha1.PropagationSpec) {
		for _, name := range names {
			spec.Clusters = append(spec.Clusters, propagationv1alpha1.TargetCluster{Name: name})
		}
		return spec
	}
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, indexersOf(keysOf))
	r := &Reconciler{Kind: "DirectPropagation", objects: lookupIn(indexer)}
	for _, err := range []error{
		indexer.Add(object("shop", "naming", members("member1", "member2"))),
		indexer.Add(object("other", "selecting", propagationv1alpha1.PropagationSpec{ClusterSelector: &metav1.LabelSelector{}})),
		indexer.Update(object("shop", "naming", members("member2", "member3"))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]string{
		clusterKey("member1"):               "",
		clusterKey("member3"):               "naming",
		clusterKey("member"):                "",
		selectsKey:                          "selecting",
		groupKey("apps"):                    "naming selecting",
		groupKey(""):                        "",
		resourceKey("apps", "shop", "web"):  "naming",
		resourceKey("apps", "other", "web"): "selecting",
		resourceKey("", "shop", "web"):      "",
		workNameKey(names.GenerateWorkName("Deployment", "web", "shop")): "naming",
		workNameKey("web"): "",
	} {
		got := []string{}
		for _, request := range r.owners().with(t.Context(), key) {
			got = append(got, request.Name)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s finds %q, want %q", key, got, want)
		}
	}
}
