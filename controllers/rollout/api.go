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

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// StrategyOf returns what the API means by spec.rollout; nil if it is not set.
func StrategyOf(spec *propagationv1alpha1.Rollout) *Strategy {
	if spec == nil {
		return nil
	}
	strategy := &Strategy{
		MaxConcurrency: spec.MaxConcurrency, MaxFailures: spec.MaxFailures,
		MinReadySeconds: spec.MinReadySeconds, SoakSeconds: ptr.Deref(spec.SoakSeconds, 0), ProgressDeadlineSeconds: spec.ProgressDeadlineSeconds,
		OnFailure: spec.OnFailure, Paused: ptr.Deref(spec.Paused, false),
	}
	for i := range spec.Stages {
		s := &spec.Stages[i]
		strategy.Stages = append(strategy.Stages, Stage{
			Name: s.Name, ClusterNames: s.ClusterNames, ClusterSelector: (*metav1.LabelSelector)(s.ClusterSelector),
			MaxConcurrency: s.MaxConcurrency, SoakSeconds: s.SoakSeconds, Approval: s.Approval,
		})
	}
	return strategy
}

// StatusOf returns what the API has recorded; nil if nothing is.
func StatusOf(recorded *propagationv1alpha1.RolloutStatus) *Status {
	if recorded == nil {
		return nil
	}
	status := &Status{
		Phase: recorded.Phase, Reason: recorded.Reason,
		CurrentRevision: recorded.CurrentRevision, UpdateRevision: recorded.UpdateRevision, FailedRevision: recorded.FailedRevision,
		Paused: ptr.Deref(recorded.Paused, false), Stage: recorded.Stage, Handled: Commands(recorded.Handled),
	}
	if failure := recorded.Failure; failure != nil {
		status.Failure = &Failure{Stage: failure.Stage, Clusters: ptr.Deref(failure.Clusters, 0), ClusterNames: slices.Clone(failure.ClusterNames)}
	}
	for i := range recorded.Stages {
		status.Stages = append(status.Stages, stageOfAPI(&recorded.Stages[i]))
	}
	for i := range recorded.Turns {
		t := &recorded.Turns[i]
		status.Turns = append(status.Turns, Turn{
			Revision: t.Revision, Kind: t.Kind, StartedAt: t.StartedAt, HealthySince: t.HealthySince.DeepCopy(), StoppedAt: t.StoppedAt.DeepCopy(), WithheldSince: t.WithheldSince.DeepCopy(),
			Failed: ptr.Deref(t.Failed, false), ClusterNames: slices.Clone(t.ClusterNames),
		})
	}
	return status
}

func stageOfAPI(s *propagationv1alpha1.RolloutStageStatus) StageStatus {
	return StageStatus{
		Name: s.Name, Clusters: ptr.Deref(s.Clusters, 0), Updated: ptr.Deref(s.Updated, 0), Ready: ptr.Deref(s.Ready, 0),
		Failed: ptr.Deref(s.Failed, 0), Deferred: ptr.Deref(s.Deferred, 0),
		MaxConcurrency: ptr.Deref(s.MaxConcurrency, 0), MaxFailures: ptr.Deref(s.MaxFailures, 0), ResolvedFor: ptr.Deref(s.ResolvedFor, 0),
		StartedAt: s.StartedAt.DeepCopy(), ReadySince: s.ReadySince.DeepCopy(), ApprovedRevision: s.ApprovedRevision, PassedAt: s.PassedAt.DeepCopy(),
	}
}

// API returns the status as the API records it; nil if there is none.
func (s *Status) API() *propagationv1alpha1.RolloutStatus {
	if s == nil {
		return nil
	}
	status := &propagationv1alpha1.RolloutStatus{
		Phase: s.Phase, Progress: s.progress(), Reason: s.Reason,
		CurrentRevision: s.CurrentRevision, UpdateRevision: s.UpdateRevision, FailedRevision: s.FailedRevision,
		Paused: ifTrue(s.Paused), Stage: s.Stage, Handled: propagationv1alpha1.RolloutCommands(s.Handled),
	}
	if s.Failure != nil {
		status.Failure = &propagationv1alpha1.RolloutFailure{Stage: s.Failure.Stage, Clusters: ptr.To(s.Failure.Clusters), ClusterNames: slices.Clone(s.Failure.ClusterNames)}
	}
	for i := range s.Stages {
		status.Stages = append(status.Stages, s.Stages[i].api())
	}
	for i := range s.Turns {
		t := &s.Turns[i]
		status.Turns = append(status.Turns, propagationv1alpha1.RolloutTurn{
			Revision: t.Revision, Kind: t.Kind, StartedAt: t.StartedAt, HealthySince: t.HealthySince.DeepCopy(), StoppedAt: t.StoppedAt.DeepCopy(), WithheldSince: t.WithheldSince.DeepCopy(),
			Failed: ifTrue(t.Failed), ClusterNames: slices.Clone(t.ClusterNames),
		})
	}
	return status
}

func (s *StageStatus) api() propagationv1alpha1.RolloutStageStatus {
	return propagationv1alpha1.RolloutStageStatus{
		Name: s.Name, Clusters: ptr.To(s.Clusters), Updated: ptr.To(s.Updated), Ready: ptr.To(s.Ready), Failed: ptr.To(s.Failed), Deferred: ptr.To(s.Deferred),
		MaxConcurrency: ptr.To(s.MaxConcurrency), MaxFailures: ptr.To(s.MaxFailures), ResolvedFor: ptr.To(s.ResolvedFor),
		StartedAt: s.StartedAt.DeepCopy(), ReadySince: s.ReadySince.DeepCopy(), ApprovedRevision: s.ApprovedRevision, PassedAt: s.PassedAt.DeepCopy(),
	}
}

func ifTrue(value bool) *bool {
	if !value {
		return nil
	}
	return &value
}

// progress shows where the rollout is, for a column of kubectl get.
func (s *Status) progress() string {
	if s.Phase == Progressing {
		for i := range s.Stages {
			if stage := &s.Stages[i]; stage.Name == s.Stage {
				return fmt.Sprintf("%s %d/%d", stage.Name, stage.Ready, stage.Clusters)
			}
		}
	}
	return string(s.Phase)
}

// CommandsOf returns the commands in the annotations of an object.
func CommandsOf(annotations map[string]string) Commands {
	return Commands{
		Approve: command(annotations[propagationv1alpha1.RolloutApproveAnnotation]),
		Retry:   command(annotations[propagationv1alpha1.RolloutRetryAnnotation]),
		Abort:   command(annotations[propagationv1alpha1.RolloutAbortAnnotation]),
		Pause:   command(annotations[propagationv1alpha1.RolloutPauseAnnotation]),
		Resume:  command(annotations[propagationv1alpha1.RolloutResumeAnnotation]),
	}
}

// command is what counts of the value of an annotation. A longer one could not be
// remembered in the status.
func command(value string) string {
	value = strings.TrimSpace(value)
	if len(value) <= propagationv1alpha1.MaxCommandLength {
		return value
	}
	end := propagationv1alpha1.MaxCommandLength
	for !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end]
}
