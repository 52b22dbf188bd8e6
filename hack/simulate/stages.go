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

package simulate

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
)

// changeStaged changes an object that has a rollout, if there is one, or else any.
func (u *users) changeStaged(ctx context.Context, how func(object cached.Object, spec *propagationv1alpha1.PropagationSpec) string) (string, error) {
	staged := u.staged()
	if len(staged) == 0 {
		return u.changeNamed(ctx, oneOf(u.w.choices, propagationNames), how)
	}
	return u.changeNamed(ctx, oneOf(u.w.choices, staged).GetName(), how)
}

// staged are the objects that have a rollout, or a status of one.
func (u *users) staged() []cached.Object {
	found := []cached.Object{}
	for _, title := range sortedNames(u.w.truth.desired.objects) {
		if object := u.w.truth.desired.objects[title]; object.GetSpec().Rollout != nil || object.GetStatus().Rollout != nil {
			found = append(found, object)
		}
	}
	return found
}

// setRollout gives an object a rollout, or another one. Every object that has one names
// all clusters, mostly.
func (u *users) setRollout(ctx context.Context) (string, error) {
	return u.changeNamed(ctx, oneOf(u.w.choices, propagationNames), func(object cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		if spec.Rollout == nil && object.GetNamespace() != "" && u.w.choices.oneIn(2) {
			spec.Resource = resources[1]
		}
		if u.w.choices.oneIn(2) {
			spec.Clusters = nameEvery(spec.Clusters)
		}
		spec.Rollout = u.aRollout()
		return "rollout is " + describeRollout(spec.Rollout)
	})
}

// nameEvery adds the clusters that a list lacks.
func nameEvery(clusters []propagationv1alpha1.TargetCluster) []propagationv1alpha1.TargetCluster {
	for _, name := range memberNames {
		if !slices.ContainsFunc(clusters, func(target propagationv1alpha1.TargetCluster) bool { return target.Name == name }) {
			clusters = append(clusters, propagationv1alpha1.TargetCluster{Name: name})
		}
	}
	return clusters
}

// aRollout chooses how changes reach the clusters.
func (u *users) aRollout() *propagationv1alpha1.Rollout {
	choices := u.w.choices
	made := &propagationv1alpha1.Rollout{
		MaxConcurrency:          ptr.To(oneOf(choices, []intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%"), intstr.FromString("100%")})),
		MaxFailures:             ptr.To(oneOf(choices, []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromString("50%")})),
		MinReadySeconds:         ptr.To(oneOf(choices, []int32{0, 2, 10})),
		SoakSeconds:             ptr.To(oneOf(choices, []int32{0, 0, 20})),
		ProgressDeadlineSeconds: ptr.To(oneOf(choices, []int32{15, 30, 60})),
		OnFailure:               oneOf(choices, []propagationv1alpha1.RolloutFailurePolicy{propagationv1alpha1.RolloutFailurePause, propagationv1alpha1.RolloutFailureRollback}),
	}
	if choices.oneIn(8) {
		made.Paused = ptr.To(true)
	}
	for i := range choices.below(3) {
		made.Stages = append(made.Stages, u.aStage([]string{"canary", "second"}[i]))
	}
	return made
}

// aStage chooses the clusters of a stage.
func (u *users) aStage(name string) propagationv1alpha1.RolloutStage {
	choices := u.w.choices
	stage := propagationv1alpha1.RolloutStage{Name: name}
	if choices.oneIn(3) {
		stage.ClusterSelector = &propagationv1alpha1.StageSelector{MatchLabels: map[string]string{"zone": oneOf(choices, zones)}}
	} else {
		stage.ClusterNames = []string{oneOf(choices, memberNames)}
	}
	if choices.oneIn(4) {
		stage.Approval = propagationv1alpha1.RolloutApprovalRequired
	}
	if choices.oneIn(4) {
		stage.SoakSeconds = ptr.To[int32](5)
	}
	return stage
}

func describeRollout(of *propagationv1alpha1.Rollout) string {
	told := fmt.Sprintf("%s at once, %s may fail, ready after %d s, soaks %d s, within %d s, on failure %s, paused: %t",
		of.MaxConcurrency, of.MaxFailures, *of.MinReadySeconds, *of.SoakSeconds, *of.ProgressDeadlineSeconds, of.OnFailure, ptr.Deref(of.Paused, false))
	for i := range of.Stages {
		stage := &of.Stages[i]
		told += fmt.Sprintf("; %s: %v", stage.Name, stage.ClusterNames)
		if stage.ClusterSelector != nil {
			told += fmt.Sprint(" ", stage.ClusterSelector.MatchLabels)
		}
		told += " " + string(stage.Approval)
	}
	return told
}

// removeRollout has an object propagate at once again.
func (u *users) removeRollout(ctx context.Context) (string, error) {
	return u.changeStaged(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.Rollout = nil
		return "no rollout"
	})
}

// changeStagedResource changes a resource that is rolled out.
func (u *users) changeStagedResource(ctx context.Context) (string, error) {
	staged := u.staged()
	if len(staged) == 0 {
		return u.changeResource(ctx)
	}
	key := keyOfResource(oneOf(u.w.choices, staged))
	err := u.changeAt(ctx, key)
	return fmt.Sprintf("changes %s to number %d", key, u.count), err
}

// revertStaged gives a resource that is rolled out the content back that it had before.
func (u *users) revertStaged(ctx context.Context) (string, error) {
	staged := u.staged()
	if len(staged) == 0 {
		return "", nil
	}
	key := keyOfResource(oneOf(u.w.choices, staged))
	had := u.w.truth.desired.resources[key]
	if len(had) < 2 || had[len(had)-1] == nil {
		return "", nil
	}
	before := had[max(0, len(had)-2-u.w.choices.below(3))]
	if before == nil {
		return "", nil
	}
	object := objectAt(key)
	err := u.changed(ctx, object, func() error {
		for _, field := range []string{"spec", "data", "rules", "immutable"} {
			delete(object.Object, field)
			if content, found := before.DeepCopy().Object[field]; found {
				object.Object[field] = content
			}
		}
		object.SetAnnotations(before.GetAnnotations())
		return nil
	})
	return fmt.Sprintf("gives %s a content back that it had", key), err
}

// scaleStaged changes the replicas of the Deployment.
func (u *users) scaleStaged(ctx context.Context) (string, error) {
	object, replicas := objectAt(keyNamed(resources[1], namespace)), int64(1+u.w.choices.below(4))
	err := u.changed(ctx, object, func() error {
		return unstructured.SetNestedField(object.Object, replicas, "spec", "replicas")
	})
	return fmt.Sprintf("scales the Deployment to %d", replicas), err
}
