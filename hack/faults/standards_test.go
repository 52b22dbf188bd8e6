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
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// standards are objects that together set every field of the API, and that nobody
// changes.
type standards struct {
	ns   *Namespace
	all  []*testbed.Propagation
	wide *propagationv1alpha1.ClusterDirectPropagation
	// works are the names of their Works.
	works []string
}

// portrait is what must not change of an object.
type portrait struct {
	Labels, Annotations map[string]string
	Finalizers          []string
	Generation          int64
	Spec                propagationv1alpha1.PropagationSpec
	Status              propagationv1alpha1.PropagationStatus
}

func newStandards(t *testing.T, ns *Namespace) *standards {
	t.Helper()
	s := &standards{ns: ns}
	s.hasAccount("deployer")
	for _, name := range []string{"overwritten", "acting", "everywhere", "needed"} {
		ns.Writes(name, "always the same")
		s.notes(testbed.Reference("v1", "ConfigMap", name))
	}
	web := testbed.Deployment("web", "web:1", 3)
	web.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "needed"}}}}
	ns.Has(web)
	s.notes(testbed.ReferenceTo(web))
	for name, tune := range map[string]func(*propagationv1alpha1.PropagationSpec){
		"overwritten": overwrites, "acting": acts, "everywhere": selects, "web": scales,
	} {
		object := testbed.NewDirectPropagation(ns.Name, name, testbed.Reference("v1", "ConfigMap", name), "member1", "member2")
		if name == "web" {
			object.Spec.Resource = testbed.ReferenceTo(web)
		}
		tune(&object.Spec)
		s.all = append(s.all, ns.Makes(object))
	}
	s.hasKind()
	for _, p := range s.all {
		p.Becomes("is settled", isSettled)
	}
	return s
}

func overwrites(spec *propagationv1alpha1.PropagationSpec) {
	spec.ConflictResolution, spec.PreserveResourcesOnDeletion = propagationv1alpha1.ConflictOverwrite, ptr.To(false)
	spec.Suspension.Dispatching = ptr.To(false)
	spec.Clusters[0].Overriders = &policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
		{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"site": "one"}},
	}}
}

func acts(spec *propagationv1alpha1.PropagationSpec) {
	spec.ServiceAccountName = "deployer"
	spec.Suspension.DispatchingOnClusters.ClusterNames = []string{"member3"}
}

func selects(spec *propagationv1alpha1.PropagationSpec) {
	spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "no-such-label", Operator: metav1.LabelSelectorOpDoesNotExist}}}
}

func scales(spec *propagationv1alpha1.PropagationSpec) {
	spec.PropagateDeps, spec.AggregateStatus = ptr.To(true), ptr.To(true)
	spec.Clusters[0].Replicas, spec.Clusters[1].Replicas = ptr.To[int32](1), ptr.To[int32](2)
}

// isSettled returns an error unless an object is Ready and all its rows are healthy.
func isSettled(object *DirectPropagation) error {
	status := &object.Status
	if ptr.Deref(status.ObservedGeneration, -1) != object.Generation || len(status.Clusters) < len(object.Spec.Clusters) {
		return errors.New("the status is older than the spec")
	}
	for i := range status.Clusters {
		if row := &status.Clusters[i]; row.Applied != metav1.ConditionTrue || row.Health != propagationv1alpha1.HealthHealthy {
			return fmt.Errorf("the row of %s is %+v", row.Name, row)
		}
	}
	return readyEverywhere(object)
}

// hasAccount creates an account that may read ConfigMaps and propagate to all clusters.
func (s *standards) hasAccount(name string) {
	s.ns.T.Helper()
	meta := metav1.ObjectMeta{Name: name}
	s.ns.Has(&corev1.ServiceAccount{ObjectMeta: meta})
	made, wide := metav1.ObjectMeta{Namespace: s.ns.Name, Name: name}, metav1.ObjectMeta{Name: s.ns.Name}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.ns.Name, Name: name}}
	everywhere := &rbacv1.ClusterRole{ObjectMeta: wide, Rules: []rbacv1.PolicyRule{{APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters"}, Verbs: []string{"propagate"}}}}
	bound := &rbacv1.ClusterRoleBinding{ObjectMeta: wide, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: wide.Name}, Subjects: subjects}
	s.ns.T.Cleanup(func() {
		if err := errors.Join(karmada.Delete(context.Background(), everywhere), karmada.Delete(context.Background(), bound)); err != nil {
			s.ns.T.Error(err)
		}
	})
	err := errors.Join(
		karmada.Create(s.ns.Ctx, everywhere),
		karmada.Create(s.ns.Ctx, bound),
		karmada.Create(s.ns.Ctx, &rbacv1.Role{ObjectMeta: made, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}}),
		karmada.Create(s.ns.Ctx, &rbacv1.RoleBinding{
			ObjectMeta: made, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: subjects,
		}),
	)
	if err != nil {
		s.ns.T.Fatal(err)
	}
}

// hasKind propagates a CRD, which is cluster-scoped.
func (s *standards) hasKind() {
	t := s.ns.T
	t.Helper()
	kind := testbed.NewKind("upgrade.example.org", "Standard")
	s.ns.installs(kind, karmada)
	s.wide = &propagationv1alpha1.ClusterDirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Name: kind.Name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: testbed.Reference(apiextensionsv1.SchemeGroupVersion.String(), "CustomResourceDefinition", kind.Name), Clusters: testbed.Targets("member1", "member2")},
	}
	s.works = append(s.works, names.GenerateWorkName("CustomResourceDefinition", kind.Name, ""))
	if err := karmada.Create(s.ns.Ctx, s.wide); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := bed.AwaitFor(context.Background(), testbed.Patience, s.wide.Name+" is gone", func(ctx context.Context) error {
			if err := karmada.Delete(ctx, s.wide.DeepCopy()); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it still exists: %v", err)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	s.ns.Eventually("the CRD is propagated", func(ctx context.Context) error {
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(s.wide), s.wide); err != nil {
			return err
		}
		return isSettled(&DirectPropagation{ObjectMeta: s.wide.ObjectMeta, Spec: s.wide.Spec, Status: s.wide.Status})
	})
}

func (s *standards) notes(resource propagationv1alpha1.ResourceReference) {
	s.ns.NoteWork(resource)
	s.works = append(s.works, names.GenerateWorkName(resource.Kind, resource.Name, s.ns.Name))
}

// portraits reads the current state of all objects.
func (s *standards) portraits() map[string]portrait {
	s.ns.T.Helper()
	wide := s.wide.DeepCopy()
	if err := karmada.Get(s.ns.Ctx, client.ObjectKeyFromObject(wide), wide); err != nil {
		s.ns.T.Fatal(err)
	}
	found := map[string]portrait{wide.Name: portraitOf(&wide.ObjectMeta, &wide.Spec, &wide.Status)}
	for _, p := range s.all {
		object := &DirectPropagation{}
		if err := karmada.Get(s.ns.Ctx, s.ns.Key(p.Name), object); err != nil {
			s.ns.T.Fatal(err)
		}
		found[p.Name] = portraitOf(&object.ObjectMeta, &object.Spec, &object.Status)
	}
	return found
}

func portraitOf(meta *metav1.ObjectMeta, spec *propagationv1alpha1.PropagationSpec, status *propagationv1alpha1.PropagationStatus) portrait {
	return portrait{Labels: meta.Labels, Annotations: meta.Annotations, Finalizers: meta.Finalizers, Generation: meta.Generation, Spec: *spec, Status: *status}
}

// writes returns what editions have written to the objects, their resources and their
// Works since a moment.
func (s *standards) writes(since time.Time, editions ...*edition) []testbed.Write {
	written := []testbed.Write{}
	for _, e := range editions {
		written = append(written, e.replica.audit.Since(since, func(w testbed.Write) bool {
			return w.Status < http.StatusMultipleChoices && w.Resource != "subjectaccessreviews" && s.has(w)
		})...)
	}
	return written
}

func (s *standards) has(w testbed.Write) bool {
	own := func(p *testbed.Propagation) bool { return w.Namespace == s.ns.Name && w.Name == p.Name }
	return w.Name == s.wide.Name || slices.Contains(s.works, w.Name) || slices.ContainsFunc(s.all, own)
}
