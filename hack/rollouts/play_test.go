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
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// inStages is a rollout to the canary, the ring, and then everything else.
func inStages() *propagationv1alpha1.Rollout {
	return &propagationv1alpha1.Rollout{
		Stages: []propagationv1alpha1.RolloutStage{
			{Name: "canary", ClusterNames: []string{member1.Name}},
			{Name: "ring", ClusterNames: []string{member2.Name, member3.Name}},
		},
		MaxConcurrency:  ptr.To(intstr.FromInt32(1)),
		MinReadySeconds: ptr.To[int32](1), ProgressDeadlineSeconds: ptr.To[int32](15),
	}
}

// play is a resource that is rolled out.
type play struct {
	*testbed.Propagation
	ns        *Namespace
	t         *testing.T
	resource  client.Object
	reference propagationv1alpha1.ResourceReference
	began     time.Time
}

// rollsOut creates a resource and rolls its first revision out to all members.
func (ns *Namespace) rollsOut(resource client.Object, tune func(*propagationv1alpha1.Rollout), where ...*Member) *play {
	ns.T.Helper()
	made := ns.begins(resource, tune, where...)
	made.is(propagationv1alpha1.RolloutPhaseCompleted)
	made.mustBeReadyWithin(15)
	return made
}

// begins creates a resource with a rollout to all members.
func (ns *Namespace) begins(resource client.Object, tune func(*propagationv1alpha1.Rollout), where ...*Member) *play {
	ns.T.Helper()
	ns.Has(resource)
	began := time.Now()
	if len(where) == 0 {
		where = members
	}
	p := ns.Propagates(resource.GetName(), resource).With(func(object *DirectPropagation) {
		object.Spec.Rollout = inStages()
		if tune != nil {
			tune(object.Spec.Rollout)
		}
		// A member that has just been started again may need longer.
		object.Spec.Rollout.ProgressDeadlineSeconds = ptr.To[int32](300)
	}).To(where...)
	return &play{Propagation: p, ns: ns, t: ns.T, resource: resource, reference: testbed.ReferenceTo(resource), began: began}
}

// mustBeReadyWithin sets the deadline of each cluster.
func (p *play) mustBeReadyWithin(seconds int32) {
	p.t.Helper()
	p.Changes(func(object *DirectPropagation) { object.Spec.Rollout.ProgressDeadlineSeconds = &seconds })
}

// is waits until the rollout has a phase, and returns the object.
func (p *play) is(phase propagationv1alpha1.RolloutPhase) *DirectPropagation {
	p.t.Helper()
	return p.becomes("has a rollout that is "+string(phase), func(status *propagationv1alpha1.RolloutStatus) bool { return status.Phase == phase })
}

// becomes waits until the status of the rollout is as expected, for the current spec.
func (p *play) becomes(what string, expected func(*propagationv1alpha1.RolloutStatus) bool) *DirectPropagation {
	p.t.Helper()
	return p.Becomes(what, func(object *DirectPropagation) error {
		if object.Status.Rollout == nil || ptr.Deref(object.Status.ObservedGeneration, 0) != object.Generation || !expected(object.Status.Rollout) {
			return fmt.Errorf("it is %s", describe(object.Status.Rollout))
		}
		return nil
	})
}

// completes waits until a revision other than the given one is complete, and returns it.
func (p *play) completes(before string) string {
	p.t.Helper()
	object := p.becomes("has completed a rollout", func(status *propagationv1alpha1.RolloutStatus) bool {
		return status.Phase == propagationv1alpha1.RolloutPhaseCompleted && status.CurrentRevision != before && status.CurrentRevision == status.UpdateRevision
	})
	return object.Status.Rollout.CurrentRevision
}

// current is the current revision.
func (p *play) current() string { return p.Latest().Status.Rollout.CurrentRevision }

// says changes the resource: what a ConfigMap says, or the image of a Deployment.
func (p *play) says(what string) {
	p.t.Helper()
	p.changes(func(object client.Object) {
		switch object := object.(type) {
		case *corev1.ConfigMap:
			object.Data = map[string]string{"says": what}
		case *appsv1.Deployment:
			object.Spec.Template.Spec.Containers[0].Image = what
			object.Spec.Template.Spec.NodeSelector = nil
		}
	})
}

// breaks changes a Deployment so that its Pods cannot start.
func (p *play) breaks() {
	p.t.Helper()
	p.changes(func(object client.Object) {
		deployment, _ := object.(*appsv1.Deployment)
		deployment.Spec.Template.Spec.NodeSelector = map[string]string{"role": "missing"}
	})
}

func (p *play) changes(mutate func(client.Object)) {
	p.t.Helper()
	if err := testbed.Change(p.ns.Ctx, karmada, p.resource, mutate); err != nil {
		p.t.Fatal(err)
	}
}

// run waits until members run what the resource is now.
func (p *play) run(where ...*Member) {
	p.t.Helper()
	p.ns.ComeToRun(p.resource, where...)
}

// generations are the generations of the Works of members.
func (p *play) generations(where ...*Member) map[string]int64 {
	p.t.Helper()
	generations := map[string]int64{}
	for _, member := range where {
		work, err := p.ns.Work(p.ns.Ctx, p.resource, member)
		if err != nil {
			p.t.Fatal(err)
		}
		generations[member.Name] = work.Generation
	}
	return generations
}

// isOrderly checks the whole history.
func (p *play) isOrderly() {
	p.t.Helper()
	changes := isOrderly(p.t, history(p.t, p.Propagation, p.reference, p.began))
	p.t.Logf("checked %d changes of revisions", changes)
	if changes == 0 {
		p.t.Error("no cluster has changed its revision, so the test proves nothing")
	}
}

// commands annotates the object.
func (p *play) commands(annotation, value string) {
	p.t.Helper()
	p.Changes(func(object *DirectPropagation) { metav1.SetMetaDataAnnotation(&object.ObjectMeta, annotation, value) })
}

// membersRun returns an error unless members have a Deployment with an image.
func (p *play) membersRun(ctx context.Context, image string, where ...*Member) error {
	for _, member := range where {
		found, err := member.Find(ctx, p.resource)
		if err != nil {
			return err
		}
		deployment, _ := found.(*appsv1.Deployment)
		if got := deployment.Spec.Template.Spec.Containers[0].Image; got != image || len(deployment.Spec.Template.Spec.NodeSelector) > 0 {
			return fmt.Errorf("%s runs %s, %v", member, got, deployment.Spec.Template.Spec.NodeSelector)
		}
	}
	return nil
}
