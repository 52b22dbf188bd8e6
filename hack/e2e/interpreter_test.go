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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

const (
	luaHealth = `function InterpretHealth(observedObj)
  return observedObj.spec.good == true
end`
	luaReplicas = `function ReviseReplica(desiredObj, desiredReplica)
  desiredObj.spec.count = desiredReplica
  return desiredObj
end`
)

// What a user teaches Karmada about a kind also applies to DirectPropagations:
// health and replicas with Lua.
func TestCustomInterpreter(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	group := "e2e-" + rand.String(5) + ".example.org"
	kind := testbed.NewKind(group, "Widget")
	for _, plane := range []client.Client{karmada, member1.Client, member2.Client} {
		ns.Installs(kind, plane)
	}
	t.Cleanup(func() { ns.Uninstalls(kind, karmada, member1.Client, member2.Client) })
	customization := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
	customization.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: group + "/v1", Kind: "Widget"}
	customization.Spec.Customizations.HealthInterpretation = &configv1alpha1.HealthInterpretation{LuaScript: luaHealth}
	customization.Spec.Customizations.ReplicaRevision = &configv1alpha1.ReplicaRevision{LuaScript: luaReplicas}
	if err := karmada.Create(ns.Ctx, customization); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := karmada.Delete(context.Background(), customization); err != nil {
			t.Error(err)
		}
	})
	widget := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"count": int64(1), "good": false})
	ns.Has(widget)
	p := ns.Propagates("widget", widget).With(func(object *DirectPropagation) {
		object.Spec.Clusters[1].Replicas = ptr.To[int32](7)
	}).To(members...)
	for i, member := range members {
		p.RowSays(member.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonUnhealthy, "the cluster runs the current revision and reports it not healthy")
		have := widget.DeepCopy()
		if err := member.Get(ns.Ctx, client.ObjectKeyFromObject(widget), have); err != nil {
			t.Fatal(err)
		}
		count, _, err := unstructured.NestedInt64(have.Object, "spec", "count")
		if want := []int64{1, 7}[i]; err != nil || count != want {
			t.Errorf("%s: count %d (%v), want %d", member, count, err, want)
		}
	}
	testbed.Changes(ns.Namespace, widget, func(widget *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(widget.Object, true, "spec", "good"); err != nil {
			t.Error(err)
		}
	})
	p.EveryRowSays("has two healthy rows", propagationv1alpha1.ReasonApplied)
	// Delete it while the kind still exists. If the kind is gone from a member, Karmada
	// may never finish the deletion of a Work.
	p.IsDeleted()
}
