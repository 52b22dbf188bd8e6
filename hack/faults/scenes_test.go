//go:build faults

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

package faults

import (
	"context"
	"errors"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// wants creates a DirectPropagation of a resource that need not exist.
func (r *reasons) wants(name string, resource propagationv1alpha1.ResourceReference, clusters ...string) {
	r.T.Helper()
	r.Makes(&DirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: resource, Clusters: testbed.Targets(clusters...)},
	})
}

// made creates an object on a control plane. It is deleted when the scene ends.
func (r *reasons) made(plane client.Client, object client.Object) {
	r.T.Helper()
	if err := plane.Create(r.Ctx, object); err != nil {
		r.T.Fatalf("creating %s: %v", object.GetName(), err)
	}
	r.T.Cleanup(func() {
		if err := plane.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			r.T.Errorf("deleting %s: %v", object.GetName(), err)
		}
	})
}

func (r *reasons) inOrder() {
	r.Writes("web", "all is well")
	r.Propagates("web", testbed.ConfigMap("web", "")).ToClusters("member1", "member2")
	r.tells("web", propagationv1alpha1.ReasonApplied, "a ConfigMap propagated to two clusters")
	_, object := r.Propagation("web").First(time.Time{}, testbed.Patience, func(object *DirectPropagation) error {
		if testbed.ConditionOf(object, propagationv1alpha1.ConditionReady).Reason != propagationv1alpha1.ReasonPropagated {
			return errors.New("it is not Ready")
		}
		return nil
	})
	ready := testbed.ConditionOf(object, propagationv1alpha1.ConditionReady)
	r.told[propagationv1alpha1.ReasonPropagated] = telling{by: "a ConfigMap propagated to two clusters", where: "Ready " + string(ready.Status), message: r.neutral(ready.Message)}

	r.Propagation("web").Changes(func(object *DirectPropagation) { object.Spec.Suspension.Dispatching = ptr.To(true) })
	r.tells("web", propagationv1alpha1.ReasonSuspended, "`suspension.dispatching: true` on an object that is Ready")
}

func (r *reasons) mistakes() {
	r.Writes("private", "not for everybody")
	r.Makes(&DirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Name: "private"},
		Spec: propagationv1alpha1.PropagationSpec{
			Resource: testbed.Reference("v1", "ConfigMap", "private"), Clusters: testbed.Targets("member1"), ServiceAccountName: "nobody",
		},
	})
	r.tells("private", propagationv1alpha1.ReasonForbidden, "a service account named that may do nothing")
	r.wants("missing", testbed.Reference("v1", "ConfigMap", "missing"), "member1")
	r.tells("missing", propagationv1alpha1.ReasonResourceNotFound, "a ConfigMap named that does not exist")
	r.wants("misspelled", testbed.Reference("v1", "ConfigMop", "web"), "member1")
	r.tells("misspelled", propagationv1alpha1.ReasonResourceKindNotFound, "a kind named that nobody serves")
	r.wants("wide", testbed.Reference("rbac.authorization.k8s.io/v1", "ClusterRole", "web"), "member1")
	r.tells("wide", propagationv1alpha1.ReasonResourceScopeMismatch, "a ClusterRole named by a DirectPropagation")
	r.wants("stationary", testbed.Reference("coordination.k8s.io/v1", "Lease", "web"), "member1")
	r.tells("stationary", propagationv1alpha1.ReasonResourceNotPropagatable, "a Lease named")
	r.wants("nowhere", testbed.Reference("v1", "ConfigMap", "web"), "nowhere")
	r.Writes("web-nowhere", "for nobody")
	r.Propagation("nowhere").Changes(func(object *DirectPropagation) { object.Spec.Resource.Name = "web-nowhere" })
	r.tells("nowhere", propagationv1alpha1.ReasonClusterNotFound, "a cluster named that nobody registered")

	reserved := &reasons{Namespace: &Namespace{bed.ExistingNamespace(r.T, "kube-public")}, told: r.told}
	name := "faults-" + utilrand.String(5)
	reserved.wants(name, testbed.Reference("v1", "ConfigMap", "web"), "member1")
	r.T.Cleanup(func() {
		reserved.Ctx = context.Background()
		reserved.Propagation(name).Goes(reserved.Propagation(name).Deletes())
	})
	reserved.tells(name, propagationv1alpha1.ReasonNamespaceReserved, "a DirectPropagation in namespace kube-public")
	told := r.told[propagationv1alpha1.ReasonNamespaceReserved]
	told.message = testbed.ConditionOf(reserved.Propagation(name).Latest(), propagationv1alpha1.ConditionReady).Message
	r.told[propagationv1alpha1.ReasonNamespaceReserved] = told
}

// readsThatFail registers an API whose server does not exist.
func (r *reasons) readsThatFail() {
	group := "faults-" + utilrand.String(5) + ".example.org"
	service := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": group, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "insecureSkipTLSVerify": true,
		"service": map[string]any{"namespace": r.Name, "name": "nobody", "port": int64(443)},
	}}}
	service.SetAPIVersion("apiregistration.k8s.io/v1")
	service.SetKind("APIService")
	service.SetName("v1." + group)
	r.made(karmada, service)
	r.wants("unreadable", testbed.Reference(group+"/v1", "Widget", "web"), "member1")
	r.tells("unreadable", propagationv1alpha1.ReasonResourceReadFailed, "a kind of an aggregated API whose server does not answer")
}

// shapeless installs a kind called Job that is not a batch Job. When Karmada prunes
// an object, it looks only at the name of the kind.
func (r *reasons) shapeless() {
	kind := testbed.NewKind("faults-"+utilrand.String(5)+".example.org", "Job")
	r.installs(kind, karmada)
	job := testbed.ObjectOf(kind, "web")
	job.Object["spec"] = "not what a Job has"
	r.Has(job)
	r.Propagates("shapeless", job).ToClusters("member1")
	r.tells("shapeless", propagationv1alpha1.ReasonRenderFailed, "a custom kind named Job, whose object has not the shape of a Job")
}

func (r *reasons) refusing() {
	theirs := r.configMap("taken")
	r.made(member1, theirs)
	r.Writes("taken", "ours")
	r.Propagates("taken", testbed.ConfigMap("taken", "")).ToClusters("member1")
	r.tells("taken", propagationv1alpha1.ReasonApplyFailed, "an object of the name that exists on the cluster, `conflictResolution: Abort`")
}

func (r *reasons) kinds() {
	kind := testbed.NewKind("faults-"+utilrand.String(5)+".example.org", "Widget")
	r.installs(kind, karmada)
	r.Has(testbed.ObjectOf(kind, "widget"))
	r.Propagates("widget", testbed.ObjectOf(kind, "widget")).ToClusters("member1")
	r.tells("widget", propagationv1alpha1.ReasonAPINotEnabled, "a CustomResourceDefinition that the control plane has and the cluster has not")
}

func (r *reasons) health() {
	labels := map[string]string{"app": "unschedulable"}
	r.Has(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "unschedulable"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}, NodeSelector: map[string]string{"no": "node"}},
			},
		},
	})
	r.Propagates("unschedulable", &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "unschedulable"}}).ToClusters("member1")
	r.tells("unschedulable", propagationv1alpha1.ReasonUnhealthy, "a Deployment whose Pods fit on no node of the cluster")

	kind := testbed.NewKind("faults-"+utilrand.String(5)+".example.org", "Gadget")
	r.installs(kind, karmada, member1)
	gvk := testbed.KindOf(kind)
	r.made(karmada, &configv1alpha1.ResourceInterpreterCustomization{
		ObjectMeta: metav1.ObjectMeta{Name: "faults-" + utilrand.String(5)},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target: configv1alpha1.CustomizationTarget{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
			Customizations: configv1alpha1.CustomizationRules{
				HealthInterpretation: &configv1alpha1.HealthInterpretation{
					LuaScript: "function InterpretHealth(observedObj)\n  return observedObj.nothing.here\nend\n",
				},
				StatusReflection: &configv1alpha1.StatusReflection{
					LuaScript: "function ReflectStatus(observedObj)\n  return {phase = \"Fine\"}\nend\n",
				},
				StatusAggregation: &configv1alpha1.StatusAggregation{
					LuaScript: "function AggregateStatus(desiredObj, items)\n  return desiredObj.nothing.here\nend\n",
				},
			},
		},
	})
	r.Has(testbed.ObjectOf(kind, "gadget"))
	r.Propagates("gadget", testbed.ObjectOf(kind, "gadget")).ToClusters("member1")
	r.tells("gadget", propagationv1alpha1.ReasonHealthUnknown, "a ResourceInterpreterCustomization whose health script fails")
	r.told[propagationv1alpha1.EventAggregateStatusFailed] = telling{
		by: "a ResourceInterpreterCustomization whose statusAggregation script fails", where: "Event",
		message: r.neutral(r.Event("gadget", propagationv1alpha1.EventAggregateStatusFailed)),
	}
	// Without the kind, Karmada would never finish the removal from the member.
	at := r.Propagation("gadget").Deletes()
	r.Propagation("gadget").Goes(at)
}

// differences causes the reasons of overrides and selectors that do not work.
func (r *reasons) differences() {
	r.Writes("overridden", "nothing to override")
	object := &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Name: "overridden"}}
	object.Spec.Resource = testbed.Reference("v1", "ConfigMap", "overridden")
	object.Spec.Clusters = testbed.Targets("member1", "member2")
	object.Spec.Clusters[0].Overriders = &policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
		Path: "/data/nothing", Operator: policyv1alpha1.OverriderOpReplace, Value: apiextensionsv1.JSON{Raw: []byte(`"x"`)},
	}}}
	r.Makes(object)
	r.tells("overridden", propagationv1alpha1.ReasonOverrideFailed, "an overrider that replaces what is not there")

	r.Writes("selected", "for nobody")
	object = &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Name: "selected"}}
	object.Spec.Resource = testbed.Reference("v1", "ConfigMap", "selected")
	object.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "nowhere"}}
	r.Makes(object)
	r.tells("selected", propagationv1alpha1.ReasonNoClusterSelected, "a selector that no Cluster matches")
	r.Propagation("selected").Changes(func(object *DirectPropagation) {
		object.Spec.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "site", Operator: metav1.LabelSelectorOpIn, Values: []string{"very far"}}}
	})
	r.tells("selected", propagationv1alpha1.ReasonClusterSelectorInvalid, "a selector with a value that no label can have")
	r.taints("member3", func(cluster *clusterv1alpha1.Cluster) {
		cluster.Spec.Taints = append(cluster.Spec.Taints, corev1.Taint{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule})
	})
	r.Propagation("selected").Changes(func(object *DirectPropagation) { object.Spec.ClusterSelector = &metav1.LabelSelector{} })
	r.tells("selected", propagationv1alpha1.ReasonClusterTainted, "a selector that matches a Cluster with a taint")
	r.taints("member3", func(cluster *clusterv1alpha1.Cluster) {
		cluster.Spec.Taints = slices.DeleteFunc(cluster.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "maintenance" })
	})
}

func (r *reasons) taints(name string, change func(*clusterv1alpha1.Cluster)) {
	r.T.Helper()
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := testbed.Change(r.Ctx, karmada, cluster, change); err != nil {
		r.T.Fatal(err)
	}
}

func (r *reasons) others() {
	revision, began := r.Writes("shared", "wanted twice")
	r.Propagates("holder", testbed.ConfigMap("shared", "")).ToClusters("member1")
	r.Propagation("holder").Until(began, testbed.ReadyWith(revision))
	r.Propagates("claimant", testbed.ConfigMap("shared", "")).ToClusters("member1")
	r.tells("claimant", propagationv1alpha1.ReasonConflict, "a second DirectPropagation of the same ConfigMap to the same cluster")
	at := r.Propagation("claimant").Deletes()
	r.Propagation("claimant").Goes(at)
}

// writesThatFail makes the Karmada API server refuse some Works.
func (r *reasons) writesThatFail() {
	name := "faults-" + utilrand.String(5)
	works := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"work.karmada.io"}, APIVersions: []string{"*"}, Resources: []string{"works"}},
	}}
	r.made(karmada, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    ptr.To(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{works}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "!object.metadata.name.startsWith('refused')", Message: "this Work is not welcome",
			}},
		},
	})
	r.made(karmada, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
	r.Writes("refused", "not welcome")
	// A policy takes effect shortly after it is created. Until then, Works are
	// admitted.
	r.Eventually("the policy takes effect", func(ctx context.Context) error {
		probe := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"workload": map[string]any{"manifests": []any{}}}}}
		probe.SetAPIVersion("work.karmada.io/v1alpha1")
		probe.SetKind("Work")
		probe.SetNamespace("karmada-es-member1")
		probe.SetName("refused-probe")
		if err := karmada.Create(ctx, probe, client.DryRunAll); err == nil {
			return errors.New("a Work is admitted")
		}
		return nil
	})
	r.Propagates("refused", testbed.ConfigMap("refused", "")).ToClusters("member1")
	r.tells("refused", propagationv1alpha1.ReasonWriteFailed, "a ValidatingAdmissionPolicy of the Karmada API server that refuses the Work")
}

// reviewsThatFail revokes the controller's permission to create
// SubjectAccessReviews.
func (r *reasons) reviewsThatFail() {
	role := &rbacv1.ClusterRole{}
	if err := karmada.Get(r.Ctx, client.ObjectKey{Name: "karmada-direct"}, role); err != nil {
		r.T.Fatal(err)
	}
	whole := role.DeepCopy()
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "subjectaccessreviews")
	})
	if err := karmada.Update(r.Ctx, role); err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() {
		whole.ResourceVersion = ""
		if err := karmada.Update(context.Background(), whole); err != nil {
			r.T.Error(err)
		}
	})
	r.Writes("unasked", "nobody can say")
	r.Makes(&DirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Name: "unasked"},
		Spec: propagationv1alpha1.PropagationSpec{
			Resource: testbed.Reference("v1", "ConfigMap", "unasked"), Clusters: testbed.Targets("member1"), ServiceAccountName: "somebody",
		},
	})
	r.tells("unasked", propagationv1alpha1.ReasonReviewFailed, "a service account named, and the controller may not create SubjectAccessReviews")
}

// nobodyApplies stops Karmada's controllers.
func (r *reasons) nobodyApplies() {
	revision, began := r.Writes("waiting", "one")
	r.Propagates("waiting", testbed.ConfigMap("waiting", "")).ToClusters("member1")
	r.Propagation("waiting").Until(began, testbed.ReadyWith(revision))
	stops(r.T, karmadaControllers)
	_, changed := r.Writes("waiting", "two")
	r.tellsSince(changed, "waiting", propagationv1alpha1.ReasonApplying, "karmada-controller-manager stopped, the resource changed")
	r.Propagation("waiting").Deletes()
	r.tells("waiting", propagationv1alpha1.ReasonRemoving, "karmada-controller-manager stopped, the object deleted")
	r.tells("waiting", propagationv1alpha1.ReasonDeleting, "karmada-controller-manager stopped, the object deleted")
	starts(r.T, karmadaControllers)
	r.Propagation("waiting").Goes(began)
}

// leaving unregisters a Cluster that has no real cluster, while a finalizer holds
// it.
func (r *reasons) leaving() {
	const hold = "faults.example.org/hold"
	name := "leaving-" + utilrand.String(5)
	cluster := &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{hold}},
		Spec:       clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull},
	}
	r.made(karmada, cluster)
	r.T.Cleanup(func() {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := karmada.Patch(context.Background(), cluster, patch); client.IgnoreNotFound(err) != nil {
			r.T.Error(err)
		}
	})
	r.Writes("leaving", "for a cluster that goes")
	r.Propagates("leaving", testbed.ConfigMap("leaving", "")).ToClusters(name)
	if err := karmada.Delete(r.Ctx, cluster.DeepCopy()); err != nil {
		r.T.Fatal(err)
	}
	r.tells("leaving", propagationv1alpha1.ReasonClusterTerminating, "a Cluster deleted that a finalizer still holds")
}

// gone makes a member crash.
func (r *reasons) gone() {
	revision, began := r.Writes("lonely", "one")
	r.Propagates("lonely", testbed.ConfigMap("lonely", "")).ToClusters("member3")
	r.Propagation("lonely").Until(began, testbed.ReadyWith(revision))
	stopped := crashes(r.T, "member3")
	readiness(r.T, "member3", stopped, testbed.Patience, false)
	r.tells("lonely", propagationv1alpha1.ReasonClusterNotReady, "all processes of a push member stopped")
	r.Propagation("lonely").Deletes()
	r.tells("lonely", propagationv1alpha1.ReasonRemovalBlocked, "all processes of a push member stopped, the object deleted")
	at := r.Propagation("lonely").Changes(func(object *DirectPropagation) {
		object.Annotations = map[string]string{propagationv1alpha1.AbandonUnreachableAnnotation: "true"}
	})
	r.Propagation("lonely").Goes(at)
	r.told[propagationv1alpha1.EventClustersAbandoned] = telling{
		by: "the annotation abandon-unreachable on an object that is being deleted while a member is gone", where: "Event",
		message: r.neutral(r.Event("lonely", propagationv1alpha1.EventClustersAbandoned)),
	}
}
