//go:build rollouts

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

package rollouts

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A third revision during the rollout of the second starts over at the first stage. If it
// fails, the first revision is restored.
func TestThirdRevision(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	p := ns.rollsOut(testbed.Deployment("web", "web:1", 1), func(spec *propagationv1alpha1.Rollout) {
		spec.OnFailure = propagationv1alpha1.RolloutFailureRollback
	})
	p.Changes(func(object *DirectPropagation) {
		object.Spec.Rollout.Stages[1].Approval = propagationv1alpha1.RolloutApprovalRequired
	})
	first := p.current()
	p.says("web:2")
	second := p.becomes("awaits the approval of the ring", func(status *propagationv1alpha1.RolloutStatus) bool {
		return status.UpdateRevision != first && status.Stage == "ring" && status.Reason == propagationv1alpha1.ReasonRolloutAwaitingApproval
	}).Status.Rollout.UpdateRevision
	p.breaks()
	object := p.is(propagationv1alpha1.RolloutPhaseRolledBack)
	if got := object.Status.Rollout.CurrentRevision; got != first || object.Status.Rollout.FailedRevision == second {
		t.Errorf("the rollout is %s; the first revision is %s, the second %s", describe(object.Status.Rollout), first, second)
	}
	ns.Eventually("every member runs the first revision", func(ctx context.Context) error { return p.membersRun(ctx, "web:1", members...) })
	p.isOrderly()
}

// A return to the current revision needs no soak and no approval.
func TestRevert(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	p := ns.rollsOut(testbed.ConfigMap("settings", "1"), nil)
	p.Changes(func(object *DirectPropagation) {
		object.Spec.Rollout.Stages[1].Approval = propagationv1alpha1.RolloutApprovalRequired
	})
	first := p.current()
	p.says("2")
	p.becomes("awaits the approval of the ring", func(status *propagationv1alpha1.RolloutStatus) bool {
		return status.Stage == "ring" && status.Reason == propagationv1alpha1.ReasonRolloutAwaitingApproval
	})
	p.says("1")
	p.becomes("has returned", func(status *propagationv1alpha1.RolloutStatus) bool {
		return status.Phase == propagationv1alpha1.RolloutPhaseCompleted && status.CurrentRevision == first && status.UpdateRevision == first
	})
	p.run(members...)
	p.isOrderly()
}

// What somebody deletes on a cluster that waits, or its Work, comes back with the revision
// that the cluster has.
func TestDeletedWhileWaiting(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	p := ns.rollsOut(testbed.ConfigMap("settings", "1"), nil)
	first := p.current()
	p.Changes(func(object *DirectPropagation) {
		object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	})
	p.says("2")
	p.becomes("awaits an approval", func(status *propagationv1alpha1.RolloutStatus) bool {
		return status.UpdateRevision != first && status.Reason == propagationv1alpha1.ReasonRolloutAwaitingApproval
	})
	before, err := member5.Find(ns.Ctx, p.resource)
	if err != nil {
		t.Fatal(err)
	}
	if err := member5.Delete(ns.Ctx, before); err != nil {
		t.Fatal(err)
	}
	work, err := ns.Work(ns.Ctx, p.resource, member4)
	if err != nil {
		t.Fatal(err)
	}
	if err := karmada.Delete(ns.Ctx, work); err != nil {
		t.Fatal(err)
	}
	ns.Eventually("the Work is created again", func(ctx context.Context) error {
		again, err := ns.Work(ctx, p.resource, member4)
		if err == nil && again.UID == work.UID {
			return errors.New("it is still the old one")
		}
		return client.IgnoreNotFound(err)
	})
	for _, member := range []*Member{member4, member5} {
		ns.Eventually(member.Name+" has the first revision again", func(ctx context.Context) error {
			found, err := member.Find(ctx, p.resource)
			if err == nil && found.GetUID() == before.GetUID() {
				return errors.New("it is still the old one")
			}
			if apierrors.IsNotFound(err) {
				return err
			}
			return errors.Join(err, member.Runs(ctx, p.before()))
		})
	}
	p.isOrderly()
}

// loses deletes an object on a member, and waits until it is there again.
func (ns *Namespace) loses(member *Member, object client.Object) {
	ns.T.Helper()
	before, err := member.Find(ns.Ctx, object)
	if err != nil {
		ns.T.Fatal(err)
	}
	if err := member.Delete(ns.Ctx, before); err != nil {
		ns.T.Fatal(err)
	}
	ns.Eventually(testbed.Describe(object)+" is on "+member.Name+" again", func(ctx context.Context) error {
		found, err := member.Find(ctx, object)
		if err == nil && found.GetUID() == before.GetUID() {
			return errors.New("it is still the old one")
		}
		return err
	})
}

// A dependency comes with the revision that needs it, and what a cluster that waits needs
// comes back if somebody deletes it there.
func TestDependenciesOfClustersThatWait(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	old, added := testbed.ConfigMap("old", "1"), testbed.ConfigMap("added", "1")
	for _, resource := range []client.Object{old, added} {
		ns.Has(resource)
		ns.NoteWork(testbed.ReferenceTo(resource))
	}
	web := testbed.Deployment("web", "web:1", 1)
	needs := func(name string) {
		web.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}
	}
	needs(old.Name)
	p := ns.rollsOut(web, nil)
	p.Changes(func(object *DirectPropagation) {
		object.Spec.PropagateDeps = ptr.To(true)
		object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	})
	ns.ComeToRun(old, members...)
	first := p.current()
	p.changes(func(client.Object) { needs(added.Name) })
	second := p.becomes("awaits an approval", func(status *propagationv1alpha1.RolloutStatus) bool {
		return status.UpdateRevision != first && status.Reason == propagationv1alpha1.ReasonRolloutAwaitingApproval
	}).Status.Rollout.UpdateRevision
	ns.ComeToRun(added, member1)
	ns.NowRun(old, members...) // the canary may have to return
	ns.loses(member5, old)
	for _, member := range members[1:] {
		ns.Now(member.Name+" lacks what only the second revision needs", func(ctx context.Context) error { return member.Lacks(ctx, added) })
	}
	p.commands(propagationv1alpha1.RolloutApproveAnnotation, "canary@"+second)
	p.completes(first)
	ns.ComeToRun(added, members...)
	ns.ComeToLack(old, members...)
	p.isOrderly()
}

// kubectl rollout status ends with an error after a failure, and Argo CD's health check of a
// Deployment, which looks at the same, too.
func TestRolloutStatusEnds(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	p := ns.rollsOut(testbed.Deployment("web", "web:1", 1), nil)
	p.breaks()
	p.is(propagationv1alpha1.RolloutPhaseFailed)
	ctx, cancel := context.WithTimeout(ns.Ctx, time.Minute)
	defer cancel()
	kubectl := exec.CommandContext(ctx, bed.Fleet.Tool("kubectl"), "--kubeconfig", bed.Fleet.Kubeconfig("karmada"), "--namespace", ns.Name, "rollout", "status", "deployment/web")
	output, err := kubectl.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "exceeded its progress deadline") {
		t.Errorf("kubectl rollout status: %v\n%s", err, output)
	}
	p.commands(propagationv1alpha1.RolloutAbortAnnotation, p.Latest().Status.Rollout.UpdateRevision)
	p.is(propagationv1alpha1.RolloutPhaseRolledBack)
	ns.Eventually("every member runs the first revision", func(ctx context.Context) error { return p.membersRun(ctx, "web:1", members...) })
}
