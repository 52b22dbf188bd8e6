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
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// A selector does not add a cordoned cluster. A cluster that has the resource keeps it and
// gets changes, one that is named gets it, and a taint can be tolerated. Other tests with
// selectors run before or after this one.
func TestCordonedClusters(t *testing.T) { //nolint:paralleltest // a taint concerns all selectors
	ns := newNamespace(t)
	t.Cleanup(func() { karmadactl(t, "uncordon", member2.Name) })
	karmadactl(t, "cordon", member2.Name)
	everywhere := func(object *DirectPropagation) { object.Spec.ClusterSelector = &metav1.LabelSelector{} }
	settings := testbed.ConfigMap("settings", "for whoever is selected")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).With(everywhere).ToClusters()
	ready := p.BecomesReady()
	if row := testbed.RowOf(ready, member2.Name); row.Reason != propagationv1alpha1.ReasonClusterTainted || row.Applied != metav1.ConditionFalse {
		t.Errorf("the row of the cordoned cluster is %+v", row)
	}
	ns.NowRun(settings, member1)
	ns.ComeToLack(settings, member2)

	p.Changes(func(object *DirectPropagation) {
		object.Spec.ClusterTolerations = []propagationv1alpha1.ClusterToleration{{Key: "cluster.karmada.io/unschedulable", Operator: corev1.TolerationOpExists}}
	})
	ns.ComeToRun(settings, members...)
	p.Changes(func(object *DirectPropagation) { object.Spec.ClusterTolerations = nil })
	if err := testbed.Change(ns.Ctx, karmada, settings, func(settings *corev1.ConfigMap) { settings.Data["says"] = "changed" }); err != nil {
		t.Fatal(err)
	}
	ns.ComeToRun(settings, members...)
	p.BecomesReady()

	named := testbed.ConfigMap("named", "for whoever is named")
	ns.Has(named)
	ns.Propagates("named", named).To(members...).BecomesReady()
	ns.NowRun(named, members...)

	other := testbed.ConfigMap("other", "for whoever is selected")
	ns.Has(other)
	last := ns.Propagates("other", other).With(everywhere).ToClusters()
	last.BecomesReady()
	karmadactl(t, "uncordon", member2.Name)
	ns.ComeToRun(other, members...)
	last.BecomesReady()
}

// karmadactl runs a command that must succeed, also after the test's context is done.
func karmadactl(t *testing.T, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), bed.Fleet.Tool("karmadactl"), append(arguments, "--kubeconfig", bed.Fleet.Kubeconfig("karmada"))...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, output)
	}
}
