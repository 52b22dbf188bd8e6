//go:build e2e && e2e_karmada

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
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	model "github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// The simulation of hack/simulate relies on a model of Karmada. Here, the real one goes
// through the histories that the model goes through in its own tests, and must show the
// same.
func TestKarmadaIsAsItsModel(t *testing.T) {
	t.Parallel()
	ns, widget := newNamespace(t), testbed.NewKind(model.WidgetGroup, model.WidgetKind)
	ns.Serves(widget, karmada)
	t.Cleanup(func() { ns.Uninstalls(widget, karmada) })
	for _, trace := range model.Traces() {
		if trace.Disturbs {
			continue
		}
		for _, member := range members {
			t.Run(member.Name+": "+trace.Name, func(t *testing.T) {
				t.Parallel()
				newStage(t, member).plays(&trace)
			})
		}
	}
}

// These histories stop a member or remove its cluster. No other test runs meanwhile: this
// one is not parallel, and the parallel ones wait for it.
func TestKarmadaIsAsItsModelWithoutAMember(t *testing.T) {
	for _, member := range members {
		t.Run(member.Name, func(t *testing.T) {
			t.Parallel() // with the other member only
			for _, trace := range model.Traces() {
				if trace.Disturbs {
					t.Run(trace.Name, func(t *testing.T) { newStage(t, member).plays(&trace) })
				}
			}
		})
	}
}

// stage is a member of the fleet, with a namespace that a trace may delete.
type stage struct {
	*testing.T
	member    *Member
	namespace string
	// cut and gone say what has to be restored.
	cut, gone bool
}

func newStage(t *testing.T, member *Member) *stage {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "model-"}}
	if err := karmada.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, member: member, namespace: namespace.Name}
	t.Cleanup(s.leave)
	if err := s.awaitNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitNamespace waits until Karmada has made the namespace on the member.
func (s *stage) awaitNamespace(ctx context.Context) error {
	return s.Eventually(ctx, "the member has the namespace", func(ctx context.Context) error {
		return s.member.Get(ctx, client.ObjectKey{Name: s.namespace}, &corev1.Namespace{})
	})
}

// plays plays a trace.
func (s *stage) plays(trace *model.Trace) {
	s.Helper()
	if err := trace.Play(s.Context(), s); err != nil {
		s.Fatalf("Karmada differs from its model: %v\n%s", err, s.works())
	}
}

// works lists the Works of the namespace.
func (s *stage) works() string {
	list, found := &workv1alpha1.WorkList{}, ""
	if err := karmada.List(context.Background(), list, client.InNamespace(names.GenerateExecutionSpaceName(s.member.Name))); err != nil {
		return err.Error()
	}
	for i := range list.Items {
		if s.concerns(&list.Items[i]) {
			found += testbed.YAML(&list.Items[i])
		}
	}
	return found
}

// concerns reports whether a Work holds something of the namespace.
func (s *stage) concerns(work *workv1alpha1.Work) bool {
	for _, manifest := range work.Spec.Workload.Manifests {
		if bytes.Contains(manifest.Raw, []byte(fmt.Sprintf(`"namespace":%q`, s.namespace))) {
			return true
		}
	}
	return false
}

// leave restores the fleet, and removes what a trace left that failed.
func (s *stage) leave() {
	ctx := context.Background() // the test's own is done
	if s.cut {
		s.check(s.Mend(ctx))
	}
	if s.gone {
		s.check(s.Join(ctx))
	}
	list := &workv1alpha1.WorkList{}
	s.check(karmada.List(ctx, list, client.InNamespace(names.GenerateExecutionSpaceName(s.member.Name))))
	for i := range list.Items {
		if s.concerns(&list.Items[i]) {
			s.check(client.IgnoreNotFound(karmada.Delete(ctx, &list.Items[i])))
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.check(client.IgnoreNotFound(karmada.Delete(ctx, namespace)))
	s.check(s.Eventually(ctx, "the namespace is gone", func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(namespace), namespace.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s is still there (reading it: %w)", s.namespace, err)
		}
		return nil
	}))
}

// check fails the test on an error of its end.
func (s *stage) check(err error) {
	s.Helper()
	if err != nil {
		s.Error(err)
	}
}

func (*stage) ControlPlane() client.Client { return karmada }
func (s *stage) Member() model.Members     { return s.member }
func (s *stage) Cluster() string           { return s.member.Name }
func (s *stage) Namespace() string         { return s.namespace }

// Bind creates a policy for a template. Karmada's detector and scheduler do the rest.
func (s *stage) Bind(ctx context.Context, template *unstructured.Unstructured) error {
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: template.GetName()}}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{
		APIVersion: template.GetAPIVersion(), Kind: template.GetKind(), Name: template.GetName(),
	}}
	policy.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: []string{s.member.Name}}
	return karmada.Create(ctx, policy)
}

// process is what connects the member with Karmada: its API server, or its agent.
func (s *stage) process() string {
	if s.member.Mode == "pull" {
		return s.member.Name + "-karmada-agent"
	}
	return s.member.Name + "-kube-apiserver"
}

// Cut stops that process.
func (s *stage) Cut(ctx context.Context) error {
	s.cut = true
	return s.fleetDoes(ctx, "stop", s.process())
}

// Mend starts it.
func (s *stage) Mend(ctx context.Context) error {
	s.cut = false
	return s.fleetDoes(ctx, "start", s.process())
}

// Leave removes the cluster from Karmada.
func (s *stage) Leave(ctx context.Context) error {
	s.gone = true
	return s.fleetDoes(ctx, "unjoin", s.member.Name)
}

// Join registers the cluster again, and waits until it has the namespace.
func (s *stage) Join(ctx context.Context) error {
	s.gone = false
	if err := s.fleetDoes(ctx, "join", s.member.Name); err != nil {
		return err
	}
	return s.awaitNamespace(ctx)
}

// fleetDoes runs a command of the fleet program.
func (*stage) fleetDoes(ctx context.Context, arguments ...string) error {
	output := &bytes.Buffer{}
	if err := bed.Fleet.Run(ctx, output, arguments...); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

// Eventually waits for what a trace expects. After an outage, Karmada's back-off may take
// a few minutes.
func (*stage) Eventually(ctx context.Context, what string, check func(context.Context) error) error {
	_, err := bed.AwaitFor(ctx, 5*time.Minute, what, check)
	return err
}
