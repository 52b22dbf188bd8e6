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
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/karmada-io/karmada/pkg/util/names"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// webOf is a DirectPropagation of Deployment web to the clusters of a spec.
func webOf(namespace, name string, spec propagationv1alpha1.PropagationSpec) *propagationv1alpha1.DirectPropagation {
	spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	return &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

// members is a spec that names clusters.
func members(names ...string) (spec propagationv1alpha1.PropagationSpec) {
	for _, name := range names {
		spec.Clusters = append(spec.Clusters, propagationv1alpha1.TargetCluster{Name: name})
	}
	return spec
}

// Each object is found by everything that it depends on, and by nothing else, even
// after it has changed.
func TestObjectsAreFound(t *testing.T) {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, indexersOf(KeysOf))
	find := lookupIn(indexer)
	for _, err := range []error{
		indexer.Add(webOf("shop", "naming", members("member1", "member2"))),
		indexer.Add(webOf("other", "selecting", propagationv1alpha1.PropagationSpec{ClusterSelector: &metav1.LabelSelector{}})),
		indexer.Update(webOf("shop", "naming", members("member2", "member3"))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]string{
		ClusterKey("member1"):               "",
		ClusterKey("member3"):               "naming",
		ClusterKey("member"):                "",
		SelectsKey:                          "selecting",
		GroupKey("apps"):                    "naming selecting",
		GroupKey(""):                        "",
		ResourceKey("apps", "shop", "web"):  "naming",
		ResourceKey("apps", "other", "web"): "selecting",
		ResourceKey("", "shop", "web"):      "",
		WorkNameKey(names.GenerateWorkName("Deployment", "web", "shop")): "naming",
		WorkNameKey("web"): "",
	} {
		got := []string{}
		found, err := find(key)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range found {
			got = append(got, object.GetName())
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s finds %q, want %q", key, got, want)
		}
	}
}

// A Work outside of the namespaces of clusters has no keys.
func TestWorksOfStrangersAreNotFound(t *testing.T) {
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-56d6c779bb"}}
	render.Claim(work, render.Owner{Kind: "DirectPropagation", Namespace: "shop", Name: "web", UID: "ours"}, render.Target{Cluster: "member1"})
	if keys := KeysOfWork(work); len(keys) > 0 {
		t.Errorf("it is found by %v", keys)
	}
	work.Namespace = "karmada-es-member1"
	if keys := KeysOfWork(work); len(keys) != 3 {
		t.Errorf("a Work of a cluster is found by %v", keys)
	}
}
