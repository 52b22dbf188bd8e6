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
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// unhealthy is the beginning of the message of an unhealthy row.
const unhealthy = "the cluster runs the current revision and reports it not healthy: "

// A row quotes what the member reports about an unhealthy object. When the report
// changes, the row changes, but Ready keeps its transition time.
func TestRowSaysWhyItIsNotHealthy(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := testbed.Deployment("web", "web:1", 3)
	web.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "none"}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.StorageClassName = ptr.To("none")
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	entry := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "entry"}}
	entry.Spec.Type = corev1.ServiceTypeLoadBalancer
	entry.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	propagations := map[string]*Propagation{}
	for _, object := range []client.Object{web, claim, entry} {
		ns.Has(object)
		propagations[object.GetName()] = ns.Propagates(object.GetName(), object).To(member1)
	}
	says := func(name, detail string) *DirectPropagation {
		t.Helper()
		return propagations[name].RowSays(member1.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonUnhealthy, unhealthy+detail)
	}
	says("data", "claim is Pending")
	says("entry", "no load balancer address yet")
	before := says("web", "0 of 3 replicas available")
	propagations["web"].Says(propagationv1alpha1.ReasonUnhealthy, "0 of 1 clusters ready; member1: "+unhealthy+"0 of 3 replicas available")

	propagations["web"].Changes(func(object *DirectPropagation) { object.Spec.Clusters[0].Replicas = ptr.To[int32](5) })
	after := says("web", "0 of 5 replicas available")
	if got, want := readySince(after), readySince(before); got != want {
		t.Errorf("Ready has been False since %s, want %s", got, want)
	}
}

func readySince(object *DirectPropagation) string {
	for _, condition := range object.Status.Conditions {
		if condition.Type == propagationv1alpha1.ConditionReady {
			return condition.LastTransitionTime.String()
		}
	}
	return fmt.Sprintf("never: %+v", object.Status.Conditions)
}

// A row names the remedy for an object that already exists on the member, and the
// remedy works.
func TestRowNamesTheRemedy(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings, foreign := testbed.ConfigMap("settings", "the control plane's"), testbed.ConfigMap("settings", "the member's own")
	foreign.Namespace = ns.Name
	if err := member1.Create(ns.Ctx, foreign); err != nil {
		t.Fatal(err)
	}
	ns.Has(settings)
	p := ns.Propagates("settings", settings).To(member1)
	p.RowSays(member1.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonApplyFailed,
		"the cluster already has a ConfigMap settings that Karmada does not manage; to take it over, set spec.conflictResolution: Overwrite")
	p.Changes(func(object *DirectPropagation) {
		object.Spec.ConflictResolution = propagationv1alpha1.ConflictOverwrite
	})
	p.BecomesReady()
}
