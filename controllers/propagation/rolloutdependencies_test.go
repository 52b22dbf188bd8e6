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

package propagation

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// failingReader cannot read revisions.
type failingReader struct {
	client.Reader
	fails *bool
}

func (f failingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, is := object.(*propagationv1alpha1.PropagationRevision); is && *f.fails {
		return errors.New("timeout")
	}
	return f.Reader.Get(ctx, key, object, options...)
}

// mounts has the resource need a ConfigMap.
func (s *stage) mounts(name string) {
	s.t.Helper()
	deployment := &appsv1.Deployment{}
	if err := s.server.Get(s.t.Context(), web, deployment); err != nil {
		s.t.Fatal(err)
	}
	deployment.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}}}
	if err := s.server.Update(s.t.Context(), deployment); err != nil {
		s.t.Fatal(err)
	}
}

// followsTo are the clusters to which a ConfigMap follows the object.
func (s *stage) followsTo(name string) (clusters []string) {
	if object := s.requirements.Object(types.NamespacedName{Namespace: "shop", Name: "v1/ConfigMap/" + name}); object != nil {
		for _, cluster := range object.Spec.Clusters {
			clusters = append(clusters, cluster.Name)
		}
	}
	return clusters
}

// While a revision cannot be read, its dependencies stay.
func TestReadFailureWithdrawsNoDependency(t *testing.T) {
	s := newStage(t, nil)
	fails := false
	s.Live = failingReader{s.Live, &fails}
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.PropagateDeps = ptr.To(true) })
	s.mounts("one")
	s.goesOn()
	s.mounts("two")
	s.settle(t)
	s.KeepTemplateStatus = true
	reads := 0
	watched(t, s.bench, &reads)
	s.settle(t)
	// It is the turn of the second cluster, while PropagationRevisions cannot be read.
	fails = true
	s.confirmUnlessSuspended()
	for range 4 {
		_ = s.reconcile(t)
	}
	if got := s.followsTo("two"); len(got) == 0 {
		t.Errorf("because a read failed, ConfigMap two is withdrawn from member1, which runs the revision that needs it")
	}
}

// The same after somebody has deleted the revision, for a new process.
func TestDeletedRevisionWithdrawsNoDependency(t *testing.T) {
	s := newStage(t, nil)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.PropagateDeps = ptr.To(true) })
	s.mounts("one")
	s.goesOn()
	first := s.rollout().CurrentRevision
	s.mounts("two")
	s.settle(t)
	s.deleteRevision(first)
	s.restarts()
	for range 3 {
		_ = s.reconcile(t)
	}
	if got := s.followsTo("one"); len(got) != 2 {
		t.Errorf("ConfigMap one follows only to %v", got)
	}
}

// Dependencies follow only decisions that are recorded.
func TestDependenciesFollowWhatIsRecorded(t *testing.T) {
	s := newStage(t, nil)
	s.changes(func(object *propagationv1alpha1.DirectPropagation) { object.Spec.PropagateDeps = ptr.To(true) })
	s.mounts("one")
	s.goesOn()
	s.mounts("two")
	s.refuse = func(write string) error {
		if strings.Contains(write, "update status of DirectPropagation") {
			return apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("changed"))
		}
		return nil
	}
	_ = s.reconcile(t)
	if got := s.followsTo("two"); len(got) > 0 {
		t.Errorf("ConfigMap two follows to %v, although the status that begins the turn is not recorded", got)
	}
}
