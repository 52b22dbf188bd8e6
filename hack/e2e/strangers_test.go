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
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A tenant's Work with the labels and annotations of somebody else's object affects
// no cluster, and does not block the deletion of that object.
func TestForgedWork(t *testing.T) {
	t.Parallel()
	ns, stranger := newNamespace(t), newNamespace(t)
	settings := testbed.ConfigMap("settings", "not the stranger's")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).To(members...)
	object := p.BecomesReady()
	ours, err := ns.Work(ns.Ctx, settings, member1)
	if err != nil {
		t.Fatal(err)
	}
	foreign := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: stranger.Name, Name: ours.Name, Finalizers: []string{"example.org/stay"}}}
	foreign.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: ours.Spec.Workload.Manifests[0].Raw}}}
	if err := karmada.Create(ns.Ctx, foreign); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = testbed.Change(context.Background(), karmada, foreign, func(work *workv1alpha1.Work) { work.Finalizers = nil })
	})
	if err := karmada.Delete(ns.Ctx, foreign.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := testbed.Change(ns.Ctx, karmada, foreign, func(work *workv1alpha1.Work) {
		work.Labels, work.Annotations = ours.Labels, ours.Annotations
	}); err != nil {
		t.Fatal(err)
	}
	ns.staysQuiet(settled)
	if diff := len(p.Latest().Status.Clusters) - len(object.Status.Clusters); diff != 0 {
		t.Errorf("the forged Work adds %d rows", diff)
	}
	p.IsDeleted()
	ns.ComeToLack(settings, members...)
}
