//go:build integration

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
	"context"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

var readingVerbs = []string{"get", "list", "watch"}

// TestVersionIsNoLongerServed: a version that is no longer served cannot be read.
// The controller does not learn what is changed through another version.
func TestVersionIsNoLongerServed(t *testing.T) {
	p := newPlane(t)
	crd := p.gadgets()
	p.mayPropagate(crd.Spec.Group, "gadgets", readingVerbs...)
	v1, v2 := crd.Spec.Group+"/v1", crd.Spec.Group+"/v2"
	p.hasGadget(v1, "small")
	p.propagates(v1, "Gadget", "one")
	p.ready(metav1.ConditionTrue, propagationv1alpha1.ReasonPropagated)

	p.serves(crd, false)
	message := p.ready(metav1.ConditionFalse, propagationv1alpha1.ReasonResourceKindNotFound)
	p.becomes(v2, "large")
	if want := `does not serve kind "Gadget" in "` + v1 + `"`; !strings.Contains(message, want) || !strings.Contains(message, "name a version that is served") {
		t.Errorf("Ready says %q, want it to say %q and a remedy", message, want)
	}
	p.sends("small")

	p.serves(crd, true)
	p.ready(metav1.ConditionTrue, propagationv1alpha1.ReasonPropagated)
	p.sends("large")
}

// TestPermissionIsLost: without permission to watch a kind, the status says nothing
// about its objects that may no longer be true. A watch that continues still shows
// the truth.
func TestPermissionIsLost(t *testing.T) {
	p := newPlane(t)
	crd := p.gadgets()
	p.mayPropagate(crd.Spec.Group, "gadgets", readingVerbs...)
	v1 := crd.Spec.Group + "/v1"
	p.hasGadget(v1, "small")
	p.propagates(v1, "Gadget", "one")
	p.ready(metav1.ConditionTrue, propagationv1alpha1.ReasonPropagated)

	denied := func(verb string) {
		t.Helper()
		message := p.ready(metav1.ConditionUnknown, propagationv1alpha1.ReasonResourceReadFailed)
		if want := "the controller may not " + verb + " gadgets." + crd.Spec.Group + "; grant it get, list and watch"; !strings.Contains(message, want) {
			t.Errorf("Ready says %q, want it to say %q", message, want)
		}
	}
	// The API server does not end running watches when it would no longer allow new
	// ones.
	p.mayPropagate(crd.Spec.Group, "gadgets")
	p.becomes(v1, "medium")
	denied("get")
	p.sends("small")
	p.mayPropagate(crd.Spec.Group, "gadgets", readingVerbs...)
	p.ready(metav1.ConditionTrue, propagationv1alpha1.ReasonPropagated)
	p.sends("medium")

	// It ends them when the definition changes.
	p.mayPropagate(crd.Spec.Group, "gadgets", "get")
	p.changes(crd, func(spec *apiextensionsv1.CustomResourceDefinitionSpec) { spec.Names.ShortNames = []string{"gd"} })
	denied("list")
	p.becomes(v1, "large")
	p.sends("medium")
	p.mayPropagate(crd.Spec.Group, "gadgets", readingVerbs...)
	p.ready(metav1.ConditionTrue, propagationv1alpha1.ReasonPropagated)
	p.sends("large")
}

// TestDefinitionIsRecreatedDifferently: a CustomResourceDefinition is recreated
// with another scope, and then with another plural. The controller follows the new
// definition.
func TestDefinitionIsRecreatedDifferently(t *testing.T) {
	p := newPlane(t)
	crd := p.gadgets()
	p.mayPropagate(crd.Spec.Group, "*", readingVerbs...)
	v1 := crd.Spec.Group + "/v1"
	p.hasGadget(v1, "small")
	p.propagates(v1, "Gadget", "one")
	p.ready(metav1.ConditionTrue, propagationv1alpha1.ReasonPropagated)

	again := func(change func(*apiextensionsv1.CustomResourceDefinition)) {
		t.Helper()
		p.removes(crd)
		crd = &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}, Spec: crd.Spec}
		change(crd)
		p.installs(crd)
	}
	again(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Scope = apiextensionsv1.ClusterScoped })
	p.ready(metav1.ConditionFalse, propagationv1alpha1.ReasonResourceScopeMismatch)
	p.sends("small")

	again(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Scope = apiextensionsv1.NamespaceScoped })
	p.ready(metav1.ConditionFalse, propagationv1alpha1.ReasonResourceNotFound)
	p.hasGadget(v1, "medium")
	p.ready(metav1.ConditionTrue, propagationv1alpha1.ReasonPropagated)
	p.sends("medium")

	again(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Name = "gadgetry." + crd.Spec.Group
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgetry", Kind: "Gadget"}
	})
	p.ready(metav1.ConditionFalse, propagationv1alpha1.ReasonResourceNotFound)
	p.hasGadget(v1, "large")
	p.ready(metav1.ConditionTrue, propagationv1alpha1.ReasonPropagated)
	p.becomes(v1, "huge")
	p.sends("huge")
}

func gadget(apiVersion, name, size string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size}}}
	made.SetAPIVersion(apiVersion)
	made.SetKind("Gadget")
	made.SetNamespace("shop")
	made.SetName(name)
	return made
}

// fresh returns a client that has not cached anything about kinds.
func (p *plane) fresh() client.Client {
	p.t.Helper()
	fresh, err := client.New(p.config, client.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	return fresh
}

// theGadget is the name of the one Gadget of a test, and of the DirectPropagation
// that names it.
const theGadget = "one"

func (p *plane) hasGadget(apiVersion, size string) {
	p.t.Helper()
	if err := p.fresh().Create(p.t.Context(), gadget(apiVersion, theGadget, size)); err != nil {
		p.t.Fatal(err)
	}
}

// becomes changes a Gadget.
func (p *plane) becomes(apiVersion, size string) {
	p.t.Helper()
	p.eventually("the Gadget is "+size, func(ctx context.Context) error {
		changed := gadget(apiVersion, theGadget, size)
		found := changed.DeepCopy()
		server := p.fresh()
		if err := server.Get(ctx, client.ObjectKeyFromObject(found), found); err != nil {
			return err
		}
		changed.SetResourceVersion(found.GetResourceVersion())
		return server.Update(ctx, changed)
	})
}

// serves starts or stops serving version v1 of a definition.
func (p *plane) serves(crd *apiextensionsv1.CustomResourceDefinition, served bool) {
	p.t.Helper()
	p.changes(crd, func(spec *apiextensionsv1.CustomResourceDefinitionSpec) {
		for i := range spec.Versions {
			version := &spec.Versions[i]
			version.Served = version.Name != "v1" || served
		}
	})
}

func (p *plane) changes(crd *apiextensionsv1.CustomResourceDefinition, change func(*apiextensionsv1.CustomResourceDefinitionSpec)) {
	p.t.Helper()
	p.eventually(crd.Name+" is changed", func(ctx context.Context) error {
		found := &apiextensionsv1.CustomResourceDefinition{}
		if err := p.Get(ctx, client.ObjectKeyFromObject(crd), found); err != nil {
			return err
		}
		change(&found.Spec)
		return p.Update(ctx, found)
	})
}
