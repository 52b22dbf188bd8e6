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

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

func job(name, image string) *batchv1.Job {
	made := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "job", Image: image}}}
	return made
}

// A resource that is deleted and recreated reaches members that cannot change the
// old object into the new one.
func TestResourceIsRecreated(t *testing.T) {
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
			ns.Propagates("it", tc.before).With(func(object *DirectPropagation) { object.Spec.AggregateStatus = ptr.To(false) }).To(members...)
			ns.Eventually("the members have the old one", ns.haveUIDsOf(tc.before, nil))
			old := ns.uidsOf(tc.before)
			ns.losesForGood(tc.before)
			ns.Has(tc.after)
			ns.Eventually("the members have another one", ns.haveUIDsOf(tc.after, old))
			ns.ComeToRun(tc.after, members...)
		})
	}
}

// losesForGood deletes a resource from the control plane and waits until it is gone.
func (ns *Namespace) losesForGood(resource client.Object) {
	ns.T.Helper()
	ns.Loses(resource)
	ns.Eventually("it is gone", func(ctx context.Context) error {
		err := karmada.Get(ctx, ns.Key(resource.GetName()), resource.DeepCopyObject().(client.Object))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it still exists"), err)
	})
}

func (ns *Namespace) uidsOf(object client.Object) map[string]types.UID {
	uids := map[string]types.UID{}
	for _, member := range members {
		uids[member.Name] = ns.onMember(member, object).GetUID()
	}
	return uids
}

// haveUIDsOf returns a check that the members have an object with a UID other than
// the given one.
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

// Objects that hold data are not replaced. The row says what to do.
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
	ns.losesForGood(before)
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
