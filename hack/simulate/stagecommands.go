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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
)

// annotated gives an object one more annotation.
func annotated(object cached.Object, name, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = value
	object.SetAnnotations(annotations)
}

// command gives a command to a rollout, mostly a sensible one.
func (u *users) command(ctx context.Context) (string, error) {
	if len(u.staged()) == 0 {
		return u.setRollout(ctx)
	}
	return u.changeStaged(ctx, func(object cached.Object, _ *propagationv1alpha1.PropagationSpec) string {
		u.count++
		status := object.GetStatus().Rollout
		if status == nil {
			status = &propagationv1alpha1.RolloutStatus{UpdateRevision: "none", Stage: "canary"}
		}
		revision, stage := status.UpdateRevision, status.Stage
		if u.w.choices.oneIn(6) {
			revision = oneOf(u.w.choices, []string{status.CurrentRevision, "0123456789abcdef", ""})
		}
		if stage == "" || u.w.choices.oneIn(6) {
			stage = oneOf(u.w.choices, []string{"canary", "second", propagationv1alpha1.RolloutDefaultStage})
		}
		name, value := u.aCommand(status, stage, revision)
		annotated(object, name, value)
		return fmt.Sprintf("%s is %s", name, value)
	})
}

// aCommand chooses a command that may make sense.
func (u *users) aCommand(status *propagationv1alpha1.RolloutStatus, stage, revision string) (name, value string) {
	again := fmt.Sprintf("%s/%d", revision, u.count)
	switch chosen := u.w.choices.below(10); {
	case status.FailedRevision != "" && chosen < 5:
		return propagationv1alpha1.RolloutRetryAnnotation, again
	case chosen < 6:
		return propagationv1alpha1.RolloutApproveAnnotation, stage + "@" + again
	case chosen < 7:
		return propagationv1alpha1.RolloutAbortAnnotation, again
	case chosen < 8:
		return propagationv1alpha1.RolloutPauseAnnotation, fmt.Sprint(u.count)
	default:
		return propagationv1alpha1.RolloutResumeAnnotation, fmt.Sprint(u.count)
	}
}

// withdrawCommands removes all annotations, as tools may that apply a manifest.
func (u *users) withdrawCommands(ctx context.Context) (string, error) {
	return u.changeStaged(ctx, func(object cached.Object, _ *propagationv1alpha1.PropagationSpec) string {
		object.SetAnnotations(nil)
		return "no annotations"
	})
}

// breakRevision has an administrator delete a PropagationRevision, or replace it by one
// that means something else.
func (u *users) breakRevision(ctx context.Context) (string, error) {
	list := &propagationv1alpha1.PropagationRevisionList{}
	if err := u.w.plane.List(ctx, list); err != nil || len(list.Items) == 0 || !u.w.choices.oneIn(3) {
		return "", err //nolint:wrapcheck // act wraps it
	}
	chosen := list.Items[u.w.choices.below(len(list.Items))].DeepCopy()
	what := "deletes PropagationRevision " + chosen.Name
	if err := u.w.plane.Delete(ctx, chosen); err != nil || u.w.choices.oneIn(2) {
		return what, err //nolint:wrapcheck // act wraps it
	}
	chosen.ObjectMeta = metav1.ObjectMeta{Namespace: chosen.Namespace, Name: chosen.Name, Labels: chosen.Labels, OwnerReferences: chosen.OwnerReferences}
	chosen.Data = append(chosen.Data, 0)
	return what + ", and creates another one in its place", u.w.plane.Create(ctx, chosen) //nolint:wrapcheck // act wraps it
}

// takeOverStale has a new process begin with objects as they were some time ago, as the
// watch cache of an API server may show them.
func (u *users) takeOverStale(ctx context.Context) (string, error) {
	u.w.outdated = max(1, u.w.server.ResourceVersion()-int64(10*u.w.choices.below(30)))
	return "has a new process begin with outdated objects", u.w.crash(ctx)
}

// endRollouts removes all rollouts. What has failed needs a retry before it is released.
func (u *users) endRollouts(ctx context.Context) (string, error) {
	ended := 0
	for _, object := range u.staged() {
		fresh := anObject(object.GetName())
		if err := u.w.plane.Get(ctx, client.ObjectKeyFromObject(fresh), fresh); err != nil {
			continue // it has just ended
		}
		fresh.GetSpec().Rollout = nil
		if status := fresh.GetStatus().Rollout; status != nil && status.FailedRevision != "" {
			u.count++
			annotated(fresh, propagationv1alpha1.RolloutRetryAnnotation, fmt.Sprintf("%s/%d", status.FailedRevision, u.count))
		}
		ended++
		if err := u.w.plane.Update(ctx, fresh); err != nil {
			return "ends the rollout of " + titleOf(fresh), err //nolint:wrapcheck // act wraps it
		}
	}
	if ended == 0 {
		return "", nil
	}
	return fmt.Sprintf("ends the rollouts of %d objects", ended), nil
}
