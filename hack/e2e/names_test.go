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

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// Two kinds with the same name need the same Work. When the object changes from one
// to the other, the first resource is withdrawn.
func TestAnotherGroupIsNamed(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	word := rand.String(5)
	widgets := map[string]client.Object{}
	for _, group := range []string{"one-" + word + ".example.org", "two-" + word + ".example.org"} {
		kind := testbed.NewKind(group, "Widget")
		ns.Installs(kind, karmada)
		for _, member := range members {
			ns.Installs(kind, member.Client)
		}
		t.Cleanup(func() { ns.Uninstalls(kind, karmada, member1.Client, member2.Client) })
		widget := testbed.Custom(group+"/v1", "Widget", "widget", map[string]any{"size": group})
		ns.Has(widget)
		widgets[group[:3]] = widget
	}
	first, second := widgets["one"], widgets["two"]
	p := ns.Propagates("widget", first).To(members...)
	p.BecomesReady()
	p.Changes(func(object *DirectPropagation) { object.Spec.Resource = testbed.ReferenceTo(second) })
	ns.ComeToRun(second, members...)
	ns.ComeToLack(first, members...)
	p.BecomesReady()
	// Without the kind, Karmada would never finish the deletion of a Work.
	p.IsDeleted()
	ns.ComeToLack(second, members...)
}

// Resources whose names differ only in case also need the same Work.
func TestCaseOfNameChanges(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	upper, lower := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "Reader"}}, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	ns.Has(upper)
	ns.Has(lower)
	reference := testbed.Reference("rbac.authorization.k8s.io/v1", "Role", "Reader")
	p := ns.PropagatesReference("reader", reference).To(members...)
	has := func(name string, want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, member := range members {
				err := member.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, &rbacv1.Role{})
				if client.IgnoreNotFound(err) != nil {
					return err
				}
				if found := err == nil; found != want {
					return fmt.Errorf("%s has Role %s: %t", member, name, found)
				}
			}
			return nil
		}
	}
	ns.Eventually("the members have Reader", has("Reader", true))
	p.Changes(func(object *DirectPropagation) { object.Spec.Resource.Name = "reader" })
	ns.Eventually("the members have reader", has("reader", true))
	ns.Eventually("the members lack Reader", has("Reader", false))
}
