//go:build integration

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

package main

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

func onlyTheControllerSavesRevisions(t *testing.T, g *guarded) {
	controller, tenant := g.person(controllerUser), g.person("forger")
	for _, verb := range []string{"create", "update", "delete"} {
		tenant.may(verb, "propagation.karmada-direct.io", "propagationrevisions", anyResource)
	}
	controller.may("create", "propagation.karmada-direct.io", "propagationrevisions", anyResource)
	revision := &propagationv1alpha1.PropagationRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, GenerateName: "web-"},
		Owner:      propagationv1alpha1.RevisionOwner{Kind: "DirectPropagation", Name: "web", UID: "1"}, Revision: "18bb57c0aa064257",
		Resource: propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "ConfigMap", Name: "web"},
		Digest:   strings.Repeat("0", 64), Data: []byte("content"),
	}
	for _, other := range []*person{tenant, g.person("root-forges", "system:masters")} {
		forbidden(t, other.name, other.Create(t.Context(), revision.DeepCopy()), `only the controller may create PropagationRevisions; user "`+other.name+`"`)
	}
	allowed(t, "the controller", controller.Create(t.Context(), revision))
	revision.Labels = map[string]string{"backup": "true"}
	allowed(t, "an update of the metadata", tenant.Update(t.Context(), revision))
	allowed(t, "deletion, as by garbage collection", tenant.Delete(t.Context(), revision))
}

func approvalsCannotBeAvoided(t *testing.T, g *guarded) {
	editor, approver := g.editor("avoids-approvals"), g.editor("approves")
	approver.may("approve", "propagation.karmada-direct.io", "directpropagations", anyResource)
	const message = `spec.rollout.stages require an approval: to change them, user "avoids-approvals" needs the permission to approve directpropagations.propagation.karmada-direct.io "`
	object := propagationOf("v1", "ConfigMap", "settings")
	stages := []propagationv1alpha1.RolloutStage{{Name: "canary", ClusterNames: []string{"member1"}}}
	object.Spec.Rollout = &propagationv1alpha1.Rollout{Stages: stages}
	allowed(t, "a rollout without approvals", editor.Create(t.Context(), object))
	object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	allowed(t, "an approval is required", editor.Update(t.Context(), object))
	object.Spec.Rollout.Paused = ptr.To(true)
	allowed(t, "a pause", editor.Update(t.Context(), object))
	object.Labels = map[string]string{"team": "shop"}
	allowed(t, "a label", editor.Update(t.Context(), object))
	for name, change := range map[string]func(*propagationv1alpha1.Rollout){
		"no approval":   func(r *propagationv1alpha1.Rollout) { r.Stages[0].Approval = "" },
		"no stages":     func(r *propagationv1alpha1.Rollout) { r.Stages = nil },
		"another stage": func(r *propagationv1alpha1.Rollout) { r.Stages[0].Name = "first" },
		"a stage before": func(r *propagationv1alpha1.Rollout) {
			r.Stages = append([]propagationv1alpha1.RolloutStage{{Name: "all", ClusterSelector: &propagationv1alpha1.StageSelector{}}}, r.Stages...)
		},
		"other clusters": func(r *propagationv1alpha1.Rollout) { r.Stages[0].ClusterNames = []string{"member2"} },
		"a shorter soak": func(r *propagationv1alpha1.Rollout) { r.Stages[0].SoakSeconds = ptr.To[int32](0) },
		"more at a time": func(r *propagationv1alpha1.Rollout) { r.Stages[0].MaxConcurrency = ptr.To(intstr.FromInt32(9)) },
	} {
		changed := object.DeepCopy()
		change(changed.Spec.Rollout)
		forbidden(t, name, editor.Update(t.Context(), changed.DeepCopy()), message)
		allowed(t, name+", by who may approve", approver.Update(t.Context(), changed, client.DryRunAll))
	}
	removed := object.DeepCopy()
	removed.Spec.Rollout = nil
	forbidden(t, "no rollout", editor.Update(t.Context(), removed), message)
}

// manyStages is the largest rollout.
func manyStages() *propagationv1alpha1.Rollout {
	rollout := &propagationv1alpha1.Rollout{}
	for i := range 20 {
		stage := propagationv1alpha1.RolloutStage{Name: fmt.Sprintf("stage-%d", i), Approval: propagationv1alpha1.RolloutApprovalRequired}
		for j := range 2000 {
			stage.ClusterNames = append(stage.ClusterNames, fmt.Sprintf("member-%d", j))
		}
		rollout.Stages = append(rollout.Stages, stage)
	}
	return rollout
}
