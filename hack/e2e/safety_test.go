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
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// settled is how long nothing must happen before a test believes that nothing will.
const settled = 5 * time.Second

// propagatesClusterWide makes a ClusterDirectPropagation to all members, which
// goes when the test ends.
func (ns *Namespace) propagatesClusterWide(reference propagationv1alpha1.ResourceReference) *propagationv1alpha1.ClusterDirectPropagation {
	ns.T.Helper()
	object := &propagationv1alpha1.ClusterDirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Name: ns.Name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: reference, Clusters: testbed.Targets(testbed.NamesOf(members)...)},
	}
	if err := karmada.Create(ns.Ctx, object); err != nil {
		ns.T.Fatal(err)
	}
	ns.T.Cleanup(func() { clusterPropagationGoes(ns.T, object) })
	return object
}

// conflictsEverywhere waits until every row of a ClusterDirectPropagation says that
// somebody else holds the resource.
func (ns *Namespace) conflictsEverywhere(object *propagationv1alpha1.ClusterDirectPropagation) {
	ns.T.Helper()
	ns.Eventually("every row tells of a conflict", func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if len(object.Status.Clusters) != len(members) {
			return fmt.Errorf("%d rows", len(object.Status.Clusters))
		}
		for _, row := range object.Status.Clusters {
			if row.Reason != propagationv1alpha1.ReasonConflict {
				return fmt.Errorf("%s: %s: %s", row.Name, row.Reason, row.Message)
			}
		}
		return nil
	})
}

// A Namespace that Karmada synchronizes is Karmada's. An object that names it
// says so, and takes nothing with it when it goes.
func TestNamespaceThatKarmadaSynchronizes(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	treasure := testbed.ConfigMap("treasure", "made on the member")
	treasure.Namespace = ns.Name
	for _, member := range members {
		if err := member.Create(ns.Ctx, treasure.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	object := ns.propagatesClusterWide(testbed.Reference("v1", "Namespace", ns.Name))
	ns.conflictsEverywhere(object)
	clusterPropagationGoes(t, object)
	ns.staysOnMembers(treasure)
}

// staysOnMembers checks that an object that was made on the members stays there,
// and removes it.
func (ns *Namespace) staysOnMembers(object client.Object) {
	ns.T.Helper()
	ns.Throughout(settled, "the members keep "+testbed.Describe(object), func(ctx context.Context) error {
		for _, member := range members {
			found, err := member.Find(ctx, object)
			if err != nil || found == nil || found.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s: %v: %w", member, found, err)
			}
		}
		return nil
	})
	for _, member := range members {
		if err := member.Delete(ns.Ctx, object.DeepCopyObject().(client.Object)); err != nil {
			ns.T.Error(err)
		}
	}
}

// A Namespace that Karmada begins to synchronize after it was propagated is
// Karmada's from then on.
func TestNamespaceThatKarmadaTakesOver(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	name := ns.Name + "-own"
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"}}}
	if err := karmada.Create(ns.Ctx, own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = karmada.Delete(context.Background(), own) })
	object := ns.propagatesClusterWide(testbed.Reference("v1", "Namespace", name))
	ns.Eventually("the Namespace is propagated", func(ctx context.Context) error { return clusterIsReady(ctx, object) })
	treasure := testbed.ConfigMap("treasure", "made on the member")
	treasure.Namespace = name
	for _, member := range members {
		if err := member.Create(ns.Ctx, treasure.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	if err := testbed.Change(ns.Ctx, karmada, own, func(own *corev1.Namespace) { own.Labels = map[string]string{"taken": "over"} }); err != nil {
		t.Fatal(err)
	}
	ns.conflictsEverywhere(object)
	clusterPropagationGoes(t, object)
	ns.staysOnMembers(treasure)
}

// A tenant's Work that bears the marks of somebody else's object concerns no
// cluster, and does not hold that object up.
func TestStrangersWork(t *testing.T) {
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
		t.Errorf("the stranger's Work adds %d rows", diff)
	}
	p.IsDeleted()
	ns.ComeToLack(settings, members...)
}

// refusesWorksOf has the API server refuse to create and to update the Works of a
// namespace on a member, as long as the test takes.
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
			return fmt.Errorf("a Work is answered by: %w", err)
		}
		return nil
	})
}

// refusing is a policy that refuses to write the Works for which an expression is
// true.
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

// A cluster whose Works the API server refuses holds up neither the withdrawal
// from another cluster nor what that one gets; and it catches up by itself.
func TestOneClusterHoldsNobodyUp(t *testing.T) {
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

// Two kinds of one name have the same Work. When the object names the other one,
// the first is withdrawn.
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
	// Without its kind, Karmada would never end the deletion of a Work.
	p.IsDeleted()
	ns.ComeToLack(second, members...)
}

// Names that differ in case only have the same Work, too.
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
				if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == want {
					return fmt.Errorf("%s: Role %s: %w", member, name, err)
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

func job(name, image string) *batchv1.Job {
	made := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "job", Image: image}}}
	return made
}

// A resource that is deleted and created anew reaches members that cannot change
// the one into the other.
func TestResourceIsCreatedAnew(t *testing.T) {
	t.Parallel()
	immutable := testbed.ConfigMap("settings", "old")
	immutable.Immutable = ptr.To(true)
	other := testbed.Deployment("web", "nginx:2", 1)
	other.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"other": "selector"}}
	other.Spec.Template.Labels = map[string]string{"other": "selector"}
	another := testbed.ConfigMap("settings", "new")
	another.Immutable = ptr.To(true)
	for name, tc := range map[string]struct{ before, after client.Object }{
		"Job":        {job("run", "busybox:1"), job("run", "busybox:2")},
		"ConfigMap":  {immutable, another},
		"Deployment": {testbed.Deployment("web", "nginx:1", 1), other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			ns.Has(tc.before)
			p := ns.Propagates("it", tc.before).With(func(object *DirectPropagation) { object.Spec.AggregateStatus = ptr.To(false) }).To(members...)
			ns.Eventually("the members have the old one", ns.haveUIDsOf(tc.before, nil))
			old := ns.uidsOf(tc.before)
			ns.Loses(tc.before)
			ns.Eventually("it is gone", func(ctx context.Context) error {
				err := karmada.Get(ctx, types.NamespacedName{Namespace: ns.Name, Name: tc.before.GetName()}, tc.before.DeepCopyObject().(client.Object))
				if apierrors.IsNotFound(err) {
					return nil
				}
				return errors.Join(errors.New("it is there"), err)
			})
			ns.Has(tc.after)
			said := make(chan bool, 1)
			p.OnEveryState(func(object *DirectPropagation) {
				for _, row := range object.Status.Clusters {
					if strings.Contains(row.Message, "created anew") {
						select {
						case said <- true:
						default:
						}
					}
				}
			})
			ns.Eventually("the members have another one", ns.haveUIDsOf(tc.after, old))
			ns.ComeToRun(tc.after, members...)
			ns.Eventually("a row has said so", func(context.Context) error {
				select {
				case <-said:
					return nil
				default:
					return errors.New("none has")
				}
			})
		})
	}
}

func (ns *Namespace) uidsOf(object client.Object) map[string]types.UID {
	uids := map[string]types.UID{}
	for _, member := range members {
		uids[member.Name] = ns.onMember(member, object).GetUID()
	}
	return uids
}

// haveUIDsOf checks that the members have an object, and that it is none of those.
func (ns *Namespace) haveUIDsOf(object client.Object, not map[string]types.UID) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, member := range members {
			found, err := member.Find(ctx, object)
			if err != nil || found == nil {
				return fmt.Errorf("%s: %v: %w", member, found, err)
			}
			if found.GetUID() == not[member.Name] {
				return fmt.Errorf("%s has the old one", member)
			}
		}
		return nil
	}
}

// What holds data is not replaced. The row says what to do.
func TestDataIsNotReplaced(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	database := func(service string) *appsv1.StatefulSet {
		made := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "database"}}
		labels := map[string]string{"app": "database"}
		made.Spec.ServiceName, made.Spec.Replicas = service, ptr.To[int32](1)
		made.Spec.Selector, made.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
		made.Spec.Template.Spec.Containers = []corev1.Container{{Name: "database", Image: "postgres:1"}}
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		made.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
		return made
	}
	before := database("one")
	ns.Has(before)
	p := ns.Propagates("database", before).With(func(object *DirectPropagation) { object.Spec.AggregateStatus = ptr.To(false) }).To(members...)
	ns.Eventually("the members have it", ns.haveUIDsOf(before, nil))
	old := ns.uidsOf(before)
	ns.Loses(before)
	ns.Eventually("it is gone", func(ctx context.Context) error {
		err := karmada.Get(ctx, types.NamespacedName{Namespace: ns.Name, Name: "database"}, &appsv1.StatefulSet{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	ns.Has(database("two"))
	p.Becomes("says that it is not replaced", func(object *DirectPropagation) error {
		for _, member := range members {
			if row := testbed.RowOf(object, member.Name); row.Reason != propagationv1alpha1.ReasonApplyFailed || !strings.Contains(row.Message, "not replaced") {
				return fmt.Errorf("%s: %+v", member, row)
			}
		}
		return nil
	})
	ns.Throughout(settled, "the members keep what they have", func(context.Context) error {
		for name, uid := range ns.uidsOf(before) {
			if uid != old[name] {
				return fmt.Errorf("%s has another one", name)
			}
		}
		return nil
	})
}

// A refusal is retried after seconds, and at once on request.
func TestRefusalIsRetried(t *testing.T) {
	t.Parallel()
	for name, requests := range map[string]bool{"by itself": false, "on request": true} {
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
			awaitsRows(p, "both members refuse", propagationv1alpha1.ReasonApplyFailed)
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
