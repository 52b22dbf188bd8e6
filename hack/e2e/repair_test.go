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

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// What somebody deletes or edits on a member is restored.
func TestMemberIsRepaired(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings, web := testbed.ConfigMap("settings", "as it should be"), testbed.Deployment("web", "web:1", 1)
	ns.Has(settings)
	ns.Has(web)
	propagations := []*Propagation{
		ns.Propagates("settings", settings).To(member1, member2),
		ns.Propagates("web", web).To(member1, member2),
	}
	for _, p := range propagations {
		p.BecomesReady()
	}
	for _, member := range members {
		for _, resource := range []client.Object{settings, web} {
			before := ns.onMember(member, resource)
			if err := member.Delete(ns.Ctx, before); err != nil {
				t.Fatalf("%s: deleting %s: %v", member, testbed.Describe(resource), err)
			}
			ns.Eventually(fmt.Sprintf("%s has %s again", member, testbed.Describe(resource)), func(ctx context.Context) error {
				after, err := member.Find(ctx, resource)
				if err == nil && after.GetUID() == before.GetUID() {
					return errors.New("it is still the old one")
				}
				return errors.Join(err, member.Runs(ctx, resource))
			})
		}
		tampersOnMember(ns, member, settings.DeepCopy(), testbed.Saying("something else"))
		tampersOnMember(ns, member, web.DeepCopy(), func(web *appsv1.Deployment) {
			web.Spec.Template.Spec.Containers[0].Image = "something:else"
		})
	}
	ns.ComeToRun(settings, members...)
	ns.ComeToRun(web, members...)
	for _, p := range propagations {
		p.BecomesReady()
	}
}

// tampering is a change that somebody can make to a Work.
type tampering struct {
	name string
	with func(*workv1alpha1.Work)
}

var tamperings = []tampering{
	{"the content", func(work *workv1alpha1.Work) {
		manifest := &work.Spec.Workload.Manifests[0]
		manifest.Raw = []byte(strings.ReplaceAll(string(manifest.Raw), "as it should be", "something else"))
	}},
	{"an extra manifest", func(work *workv1alpha1.Work) {
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, work.Spec.Workload.Manifests[0])
	}},
	{"suspended", func(work *workv1alpha1.Work) { work.Spec.SuspendDispatching = ptr.To(true) }},
	{"preserving", func(work *workv1alpha1.Work) { work.Spec.PreserveResourcesOnDeletion = ptr.To(true) }},
	{"no finalizer", func(work *workv1alpha1.Work) { work.Finalizers = nil }},
	{"no labels", func(work *workv1alpha1.Work) { work.Labels = nil }},
	{"no annotations", func(work *workv1alpha1.Work) { work.Annotations = nil }},
	{"only the content left", func(work *workv1alpha1.Work) {
		work.Labels, work.Annotations, work.Finalizers = nil, nil, nil
	}},
	{"the name of another owner", func(work *workv1alpha1.Work) {
		work.Annotations[propagationv1alpha1.OwnerNameAnnotation] = "somebody-else"
	}},
	{"the UID of another owner", func(work *workv1alpha1.Work) {
		work.Labels[propagationv1alpha1.OwnerUIDLabel] = "00000000-0000-0000-0000-000000000000"
	}},
}

// Every change to a Work is undone, and the member runs what it should.
func TestWorkIsRepaired(t *testing.T) {
	t.Parallel()
	for _, tampering := range tamperings {
		t.Run(tampering.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			settings := testbed.ConfigMap("settings", "as it should be")
			ns.Has(settings)
			p := ns.Propagates("settings", settings).To(member1, member2)
			p.BecomesReady()
			for _, member := range members {
				before, err := ns.Work(ns.Ctx, settings, member)
				if err != nil {
					t.Fatal(err)
				}
				if err := testbed.Change(ns.Ctx, karmada, before.DeepCopy(), tampering.with); err != nil {
					t.Fatal(err)
				}
				ns.isRepaired(settings, member, before)
				p.BecomesReady()
			}
		})
	}
}

// A deleted Work is recreated.
func TestWorkIsRecreated(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", "as it should be")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).To(member1, member2)
	p.BecomesReady()
	for _, member := range members {
		ns.workIsRestored(settings, member)
		ns.ComeToRun(settings, member)
		p.BecomesReady()
	}
}

// workIsRestored deletes the Work of a resource and waits until it is recreated.
func (ns *Namespace) workIsRestored(resource client.Object, member *Member) {
	ns.T.Helper()
	before, err := ns.Work(ns.Ctx, resource, member)
	if err != nil {
		ns.T.Fatal(err)
	}
	if err := karmada.Delete(ns.Ctx, before.DeepCopy()); err != nil {
		ns.T.Fatal(err)
	}
	ns.Eventually("there is a new Work", func(ctx context.Context) error {
		after, err := ns.Work(ctx, resource, member)
		if err == nil && after.UID == before.UID {
			return errors.New("it is still the old one")
		}
		return err
	})
}

// isRepaired waits until a Work is as it was before, and the member too.
func (ns *Namespace) isRepaired(resource client.Object, member *Member, before *workv1alpha1.Work) {
	ns.T.Helper()
	ns.Eventually("the Work on "+member.Name+" is as it was", func(ctx context.Context) error {
		after, err := ns.Work(ctx, resource, member)
		if err != nil {
			return err
		}
		if difference := cmp.Diff(essence(before), essence(after)); difference != "" {
			return fmt.Errorf("it differs (-before +after):\n%s", difference)
		}
		return nil
	})
	ns.ComeToRun(resource, member)
}

// essence returns the parts of a Work that must be restored. Karmada assigns the
// permanent ID, which may differ afterwards.
func essence(work *workv1alpha1.Work) any {
	kept := work.DeepCopy()
	permanentID := kept.Labels[workv1alpha2.WorkPermanentIDLabel]
	delete(kept.Labels, workv1alpha2.WorkPermanentIDLabel)
	delete(kept.Annotations, propagationv1alpha1.ConfirmedRevisionAnnotation)
	delete(kept.Annotations, propagationv1alpha1.ClusterReadySinceAnnotation)
	manifests := make([]string, 0, 1)
	for _, manifest := range kept.Spec.Workload.Manifests {
		manifests = append(manifests, strings.ReplaceAll(string(manifest.Raw), permanentID, "permanent-id"))
	}
	return map[string]any{
		"labels": kept.Labels, "annotations": kept.Annotations, "finalizers": kept.Finalizers, "manifests": manifests,
		"suspended": ptr.Deref(kept.Spec.SuspendDispatching, false), "preserving": ptr.Deref(kept.Spec.PreserveResourcesOnDeletion, false),
		"deleting": kept.DeletionTimestamp != nil,
	}
}

// onMember reads a member's object.
func (ns *Namespace) onMember(member *Member, resource client.Object) client.Object {
	ns.T.Helper()
	found, err := member.Find(ns.Ctx, resource)
	if err != nil {
		ns.T.Fatal(err)
	}
	return found
}

// tampersOnMember edits a member's object directly and waits until Karmada has
// reverted the edit.
func tampersOnMember[T client.Object](ns *Namespace, member *Member, resource T, mutate func(T)) {
	ns.T.Helper()
	wanted, _ := resource.DeepCopyObject().(client.Object)
	if err := testbed.Change(ns.Ctx, member.Client, resource, mutate); err != nil {
		ns.T.Fatal(err)
	}
	ns.ComeToRun(wanted, member)
}
