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
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// refusesWorksOf makes the API server refuse to create or update certain Works for a
// member until the test ends.
func (ns *Namespace) refusesWorksOf(member *Member, workName string) {
	ns.T.Helper()
	policy, binding := refusing(ns.Name, fmt.Sprintf("request.namespace == %q && request.name.startsWith(%q)", names.GenerateExecutionSpaceName(member.Name), workName), "no Works for "+member.Name)
	for _, object := range []client.Object{policy, binding} {
		if err := karmada.Create(ns.Ctx, object); err != nil {
			ns.T.Fatal(err)
		}
		ns.T.Cleanup(func() { _ = karmada.Delete(context.Background(), object) })
	}
	ns.Eventually("the API server knows the policy", func(ctx context.Context) error {
		probe := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: names.GenerateExecutionSpaceName(member.Name), Name: workName + "-probe"}}
		if err := karmada.Create(ctx, probe, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "no Works for") {
			return fmt.Errorf("a Work is not refused, but: %w", err)
		}
		return nil
	})
}

// refusing returns a policy that refuses writes of the Works for which an expression
// is true.
func refusing(name, which, message string) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"work.karmada.io"}, APIVersions: []string{"*"}, Resources: []string{"works"}},
			},
		}}},
		Validations: []admissionregistrationv1.Validation{{Expression: "!(" + which + ")", Message: message}},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	binding.Spec = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}
	return policy, binding
}

// A cluster whose Works the API server refuses does not delay other clusters,
// neither for updates nor for the withdrawal of a resource. It catches up on its
// own.
func TestFailingClusterDelaysNoOther(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", "old")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).To(members...)
	p.BecomesReady()
	work, err := ns.Work(ns.Ctx, settings, member1)
	if err != nil {
		t.Fatal(err)
	}
	ns.refusesWorksOf(member1, work.Name)
	testbed.Changes(ns.Namespace, settings, testbed.Saying("new"))
	ns.ComeToRun(settings, member2)
	p.Becomes("says that member1's Work is refused", func(object *DirectPropagation) error {
		if row := testbed.RowOf(object, member1.Name); row.Reason != propagationv1alpha1.ReasonWriteFailed || !strings.Contains(row.Message, "no Works for") {
			return fmt.Errorf("its row is %+v", row)
		}
		return nil
	})
	p.MovesTo(member1)
	ns.ComeToLack(settings, member2)

	policy, binding := refusing(ns.Name, "", "")
	for _, object := range []client.Object{binding, policy} {
		if err := karmada.Delete(ns.Ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	p.BecomesReady()
}

// A refusal is retried after a few seconds, or immediately on request.
func TestRefusalIsRetried(t *testing.T) {
	t.Parallel()
	for name, requests := range map[string]bool{"automatically": false, "on request": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			settings := testbed.ConfigMap("settings", "the control plane's")
			foreign := testbed.ConfigMap("settings", "the member's own")
			foreign.Namespace = ns.Name
			for _, member := range members {
				if err := member.Create(ns.Ctx, foreign.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			ns.Has(settings)
			p := ns.Propagates("settings", settings).To(members...)
			p.EveryRowSays("both members refuse", propagationv1alpha1.ReasonApplyFailed)
			for _, member := range members {
				if err := member.Delete(ns.Ctx, foreign.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			if requests {
				p.Changes(func(object *DirectPropagation) {
					object.Annotations = map[string]string{propagationv1alpha1.RetryAnnotation: "now"}
				})
			}
			p.BecomesReady()
		})
	}
}
