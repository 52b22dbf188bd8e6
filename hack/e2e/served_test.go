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
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// The control plane stops serving the version that an object names, and the resource
// is changed through another version. The object is Stalled, because the controller
// cannot see the resource, and the members keep what they have. When the version is
// served again, the change arrives.
func TestVersionIsNoLongerServed(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	group := "e2e-" + rand.String(5) + ".example.org"
	kind := testbed.NewKind(group, "Widget")
	second := *kind.Spec.Versions[0].DeepCopy()
	second.Name, second.Storage = "v2", false
	kind.Spec.Versions = append(kind.Spec.Versions, second)
	t.Cleanup(func() { ns.Uninstalls(kind, karmada, member1.Client, member2.Client) })
	ns.Installs(kind, karmada)
	ns.Installs(kind, member1.Client)
	ns.Installs(kind, member2.Client)
	widget := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"size": "small"})
	ns.Has(widget)
	p := ns.Propagates("widget", widget).To(member1, member2)
	p.BecomesReady()
	before := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"size": "small"})
	before.SetNamespace(ns.Name)

	servesV1 := func(served bool) {
		t.Helper()
		testbed.Changes(ns.Namespace, kind.DeepCopy(), func(kind *apiextensionsv1.CustomResourceDefinition) { kind.Spec.Versions[0].Served = served })
	}
	servesV1(false)
	unknown := fmt.Sprintf("spec.resource: the Karmada API server does not serve kind %q in %q; check the spelling, name a version that is served, or install its CustomResourceDefinition there", "Widget", group+"/v1")
	isStalled(t, p.Says(propagationv1alpha1.ReasonResourceKindNotFound, unknown), propagationv1alpha1.ReasonResourceKindNotFound, unknown)
	otherwise := testbed.Custom(group+"/v2", "Widget", "widget", nil)
	otherwise.SetNamespace(ns.Name)
	testbed.Changes(ns.Namespace, otherwise, func(widget *unstructured.Unstructured) {
		widget.Object["spec"] = map[string]any{"size": "large"}
	})
	ns.Throughout(5*time.Second, "the members keep what they have", func(ctx context.Context) error { return testbed.Run(ctx, before, members...) })

	servesV1(true)
	after := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"size": "large"})
	after.SetNamespace(ns.Name)
	ns.ComeToRun(after, members...)
	p.BecomesReady()
	// Without the kind, Karmada would never finish the deletion of a Work.
	p.IsDeleted()
	ns.ComeToLack(after, members...)
}
