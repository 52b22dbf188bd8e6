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
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// staged creates a ConfigMap, and a DirectPropagation that rolls it out to member1 and then to
// member2.
func (r *reasons) staged(name, says string, rollout *propagationv1alpha1.Rollout) {
	r.T.Helper()
	r.Writes(name, says)
	rollout.Stages = []propagationv1alpha1.RolloutStage{{Name: "canary", ClusterNames: []string{"member1"}}}
	rollout.MinReadySeconds = ptr.To[int32](0)
	object := &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Spec.Resource = testbed.Reference("v1", "ConfigMap", name)
	object.Spec.Clusters = testbed.Targets("member1", "member2")
	object.Spec.Rollout = rollout
	r.Makes(object)
}

// isAt waits until the rollout of an object has a phase, and returns its update revision.
func (r *reasons) isAt(name string, phase propagationv1alpha1.RolloutPhase) string {
	r.T.Helper()
	return r.reaches(name, string(phase), func(rollout *propagationv1alpha1.RolloutStatus) bool { return rollout.Phase == phase })
}

// isAnother waits until the update revision of an object is another one, and returns it.
func (r *reasons) isAnother(name, than string) string {
	r.T.Helper()
	return r.reaches(name, "another revision", func(rollout *propagationv1alpha1.RolloutStatus) bool { return rollout.UpdateRevision != than })
}

func (r *reasons) reaches(name, what string, has func(*propagationv1alpha1.RolloutStatus) bool) (update string) {
	r.T.Helper()
	r.Eventually("the rollout of "+name+" has reached: "+what, func(ctx context.Context) error {
		object := &DirectPropagation{}
		if err := karmada.Get(ctx, r.Key(name), object); err != nil {
			return err
		}
		if object.Status.Rollout == nil || !has(object.Status.Rollout) {
			return fmt.Errorf("it is %+v", object.Status.Rollout)
		}
		update = object.Status.Rollout.UpdateRevision
		return nil
	})
	return update
}

// commands gives an object an annotation.
func (r *reasons) commands(name, annotation, value string) {
	r.Propagation(name).Changes(func(object *DirectPropagation) {
		object.Annotations = map[string]string{annotation: value}
	})
}

// records waits for an Event.
func (r *reasons) records(name, reason, by string) {
	r.T.Helper()
	r.told[reason] = telling{by: by, where: "Event", message: r.neutral(r.Event(name, reason))}
}

// rollingOut causes what is told of a rollout that nothing goes wrong with.
func (r *reasons) rollingOut() {
	r.staged("staged", "one", &propagationv1alpha1.Rollout{})
	first := r.isAt("staged", propagationv1alpha1.RolloutPhaseCompleted)
	r.Propagation("staged").Changes(func(object *DirectPropagation) {
		object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	})
	r.Writes("staged", "two")
	second := r.isAnother("staged", first)
	r.tells("staged", propagationv1alpha1.ReasonRolloutAwaitingApproval, "a stage with `approval: Required`, and nobody approves")
	r.tells("staged", propagationv1alpha1.ReasonWaiting, "the same, on a cluster of the next stage")
	r.records("staged", propagationv1alpha1.EventRolloutStarted, "a change of the resource")
	r.records("staged", propagationv1alpha1.EventStageStarted, "a change of the resource")
	r.records("staged", propagationv1alpha1.EventApprovalRequired, "a stage with `approval: Required`")
	r.commands("staged", propagationv1alpha1.RolloutApproveAnnotation, "elsewhere@"+second)
	r.records("staged", propagationv1alpha1.EventCommandRejected, "an approval of a stage that does not exist")
	r.Propagation("staged").Changes(func(object *DirectPropagation) { object.Spec.Rollout.Paused = ptr.To(true) })
	r.tells("staged", propagationv1alpha1.ReasonRolloutPaused, "`rollout.paused: true` during a rollout")
	r.Propagation("staged").Changes(func(object *DirectPropagation) { object.Spec.Rollout.Paused = nil })
	r.commands("staged", propagationv1alpha1.RolloutApproveAnnotation, "canary@"+second)
	r.isAt("staged", propagationv1alpha1.RolloutPhaseCompleted)
	r.records("staged", propagationv1alpha1.EventStageCompleted, "an approval")
	r.records("staged", propagationv1alpha1.EventRolloutCompleted, "an approval of the last stage that needs one")

	r.Propagation("staged").Changes(func(object *DirectPropagation) {
		object.Spec.Rollout.Stages[0].Approval, object.Spec.Rollout.SoakSeconds = "", ptr.To[int32](600)
	})
	r.Writes("staged", "three")
	third := r.isAnother("staged", second)
	r.tells("staged", propagationv1alpha1.ReasonRolloutSoaking, "`soakSeconds: 600`, and the first stage is ready")
	r.Writes("staged", "four")
	fourth := r.isAnother("staged", third)
	r.records("staged", propagationv1alpha1.EventRolloutSuperseded, "another change during a rollout")
	r.Propagation("staged").Changes(func(object *DirectPropagation) {
		object.Spec.Rollout.OnFailure = propagationv1alpha1.RolloutFailureRollback
	})
	r.commands("staged", propagationv1alpha1.RolloutAbortAnnotation, fourth)
	r.records("staged", propagationv1alpha1.EventRolloutAborted, "the annotation rollout-abort")
}

// rollingBack causes what is told of rollouts that fail. A policy of member1 refuses some
// content, and later the way back.
func (r *reasons) rollingBack() {
	r.forbids(member1, "!has(object.data) || object.data['says'] != 'bad' && (object.data['says'] != 'good' || oldObject == null || oldObject.data['says'] != 'worse')")
	r.staged("failing", "good", &propagationv1alpha1.Rollout{ProgressDeadlineSeconds: ptr.To[int32](5)})
	first := r.isAt("failing", propagationv1alpha1.RolloutPhaseCompleted)
	r.Writes("failing", "bad")
	second := r.isAnother("failing", first)
	r.tells("failing", propagationv1alpha1.ReasonRolloutProgressing, "a change of the resource that the first cluster refuses")
	r.tells("failing", propagationv1alpha1.ReasonRolloutFailed, "the same, after `progressDeadlineSeconds`, with `onFailure: Pause`")
	r.records("failing", propagationv1alpha1.EventClusterFailed, "a cluster that refuses a revision until its deadline")
	r.Propagation("failing").Changes(func(object *DirectPropagation) {
		object.Spec.Rollout.OnFailure = propagationv1alpha1.RolloutFailureRollback
	})
	r.tells("failing", propagationv1alpha1.ReasonRolloutRollingBack, "the same, with `onFailure: Rollback`")
	r.tells("failing", propagationv1alpha1.ReasonRolledBack, "the same, when the clusters have the revision before")

	r.Propagation("failing").Changes(func(object *DirectPropagation) { object.Spec.Rollout.SoakSeconds = ptr.To[int32](600) })
	r.Writes("failing", "worse")
	third := r.isAnother("failing", second)
	r.tells("failing", propagationv1alpha1.ReasonRolloutSoaking, "`soakSeconds: 600`, and the first stage is ready")
	r.commands("failing", propagationv1alpha1.RolloutAbortAnnotation, third)
	r.tells("failing", propagationv1alpha1.ReasonRollbackFailed, "a rollback that a cluster refuses until its deadline")
}

// losing takes away what a rollout needs.
func (r *reasons) losing() {
	r.staged("lost", "one", &propagationv1alpha1.Rollout{})
	first := r.isAt("lost", propagationv1alpha1.RolloutPhaseCompleted)
	r.Propagation("lost").Changes(func(object *DirectPropagation) { object.Spec.Rollout.SoakSeconds = ptr.To[int32](600) })
	r.Writes("lost", "two")
	r.isAnother("lost", first)
	r.tells("lost", propagationv1alpha1.ReasonRolloutSoaking, "`soakSeconds: 600`, and the first stage is ready")
	revision := &propagationv1alpha1.PropagationRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Name, Name: string(r.Propagation("lost").Latest().UID) + "-" + first,
	}}
	if err := karmada.Delete(r.Ctx, revision); err != nil {
		r.T.Fatal(err)
	}
	waiting, err := r.Work(r.Ctx, testbed.ConfigMap("lost", ""), member2)
	if err != nil {
		r.T.Fatal(err)
	}
	if err := karmada.Delete(r.Ctx, waiting); err != nil {
		r.T.Fatal(err)
	}
	r.tells("lost", propagationv1alpha1.ReasonRevisionUnreadable, "the PropagationRevision of a cluster that waits deleted, and its Work")

	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"rollout":null}}`))
	r.Eventually("the status of the rollout is lost", func(ctx context.Context) error {
		return karmada.Status().Patch(ctx, &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "lost"}}, patch)
	})
	r.tells("lost", propagationv1alpha1.ReasonRolloutStateLost, "`status.rollout` removed")

	noise := make([]byte, 500<<10)
	if _, err := rand.Read(noise); err != nil {
		r.T.Fatal(err)
	}
	r.Has(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"noise": base64.StdEncoding.EncodeToString(noise)}})
	object := &DirectPropagation{ObjectMeta: metav1.ObjectMeta{Name: "large"}}
	object.Spec.Resource = testbed.Reference("v1", "ConfigMap", "large")
	object.Spec.Clusters = testbed.Targets("member1", "member2", "member3")
	for i, site := range []string{`"one"`, `"two"`} {
		object.Spec.Clusters[i].Overriders = &policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
			Path: "/data/site", Operator: policyv1alpha1.OverriderOpAdd, Value: apiextensionsv1.JSON{Raw: []byte(site)},
		}}}
	}
	object.Spec.Rollout = &propagationv1alpha1.Rollout{Stages: []propagationv1alpha1.RolloutStage{{Name: "canary", ClusterNames: []string{"member1"}}}}
	r.Makes(object)
	r.tells("large", propagationv1alpha1.ReasonRevisionTooLarge, "a ConfigMap of 670 KiB with other overriders on each of three clusters")
}

// forbids lets a control plane admit only ConfigMaps of this namespace for which an expression
// is true.
func (r *reasons) forbids(plane *testbed.Member, expression string) {
	r.T.Helper()
	name := "faults-" + utilrand.String(5)
	configMaps := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
	r.made(plane, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    ptr.To(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{configMaps}},
			MatchConditions:  []admissionregistrationv1.MatchCondition{{Name: "here", Expression: fmt.Sprintf("request.namespace == %q", r.Name)}},
			Validations:      []admissionregistrationv1.Validation{{Expression: expression, Message: "this content is not welcome"}},
		},
	})
	r.made(plane, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
	r.Eventually("the policy takes effect", func(ctx context.Context) error {
		probe := r.configMap("probe")
		probe.Data = map[string]string{"says": "bad"}
		if err := plane.Create(ctx, probe, client.DryRunAll); err == nil || client.IgnoreNotFound(err) == nil {
			return errors.New("it is not enforced yet, or there is no namespace")
		}
		return nil
	})
}
