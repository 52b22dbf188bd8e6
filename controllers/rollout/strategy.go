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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Strategy defines how a change reaches the clusters.
type Strategy struct {
	// Stages are the stages, in order. Clusters that belong to none of them form a last
	// stage, "default".
	Stages []Stage
	// MaxConcurrency is the maximum number of clusters of a stage whose turn is in
	// progress: a number, or a percentage of the clusters of the stage, rounded down.
	// It is at least 1. The default is 100%.
	MaxConcurrency *intstr.IntOrString
	// MaxFailures is the number of clusters of a stage that may fail: a number, or a
	// percentage of the clusters of the stage, rounded down. The default is 0.
	MaxFailures *intstr.IntOrString
	// MinReadySeconds is how long a cluster must have been healthy since it confirmed
	// the revision. The default is 10.
	MinReadySeconds *int32
	// SoakSeconds is how long a whole stage must have been good before the next one
	// begins. The default is 0.
	SoakSeconds int32
	// ProgressDeadlineSeconds is how long a turn may take. The default is 600.
	ProgressDeadlineSeconds *int32
	// OnFailure defines what happens when more clusters of a stage fail than
	// MaxFailures allows. The default is Pause.
	OnFailure FailurePolicy
	// Paused: nothing starts, neither forward nor back.
	Paused bool
}

// Stage is a group of clusters. A cluster belongs to the first stage that names or
// selects it.
type Stage struct {
	Name            string
	ClusterNames    []string
	ClusterSelector *metav1.LabelSelector
	// MaxConcurrency overrides that of the strategy.
	MaxConcurrency *intstr.IntOrString
	// SoakSeconds overrides that of the strategy.
	SoakSeconds *int32
	// Approval: Required means that somebody must approve the stage for the revision
	// before it counts as passed.
	Approval Approval
}

// FailurePolicy defines what happens when too many clusters fail.
type FailurePolicy = propagationv1alpha1.RolloutFailurePolicy

const (
	// FailurePause starts nothing more.
	FailurePause = propagationv1alpha1.RolloutFailurePause
	// FailureRollback returns the clusters to the current revision.
	FailureRollback = propagationv1alpha1.RolloutFailureRollback
)

// Approval defines whether a stage needs an approval.
type Approval = propagationv1alpha1.RolloutApproval

// ApprovalRequired means that a stage needs an approval.
const ApprovalRequired = propagationv1alpha1.RolloutApprovalRequired

// DefaultStage is the name of the stage of all clusters that belong to no other one.
const DefaultStage = propagationv1alpha1.RolloutDefaultStage

const (
	defaultMinReadySeconds         = 10
	defaultProgressDeadlineSeconds = 600
)

// stageIndex finds the stage of a cluster.
type stageIndex struct {
	// named is the first stage that names a cluster.
	named     map[string]int
	selectors []labels.Selector
}

func newStageIndex(stages []Stage) (*stageIndex, error) {
	index := &stageIndex{named: map[string]int{}, selectors: make([]labels.Selector, len(stages))}
	for i := range stages {
		for _, name := range stages[i].ClusterNames {
			if _, found := index.named[name]; !found {
				index.named[name] = i
			}
		}
		// nil selects nothing.
		selector, err := metav1.LabelSelectorAsSelector(stages[i].ClusterSelector)
		if err != nil {
			return nil, fmt.Errorf("stage %s: clusterSelector: %w", stages[i].Name, err)
		}
		index.selectors[i] = selector
	}
	return index, nil
}

// of returns the index of the first stage that names or selects a cluster, or one more
// than the last index if there is none.
func (s *stageIndex) of(cluster *Cluster) int {
	last, found := s.named[cluster.Name]
	if !found {
		last = len(s.selectors)
	}
	for i, selector := range s.selectors[:last] {
		if selector.Matches(labels.Set(cluster.Labels)) {
			return i
		}
	}
	return last
}

// resolve returns how many clusters out of a total a number or percentage stands for,
// rounded down.
func resolve(value *intstr.IntOrString, fallback intstr.IntOrString, total int32) (int32, error) {
	if value == nil {
		value = &fallback
	}
	resolved, err := intstr.GetScaledValueFromIntOrPercent(value, int(total), false)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", value.String(), err)
	}
	return int32(max(0, min(resolved, int(total)))), nil //nolint:gosec // between 0 and the total
}
