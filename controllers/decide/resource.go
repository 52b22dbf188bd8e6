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

package decide

import (
	"fmt"
	"time"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Resource is the state of the named resource.
type Resource struct {
	// Problem explains why there is no manifest; nil if there is one.
	Problem *Problem
	// UID and Version are those of the resource.
	UID     types.UID
	Version string
	// Generation is the generation of the resource; 0 if the kind has none.
	Generation int64
	// Revision is the revision of the manifest that the clusters share.
	Revision string
	// Renderings are, by cluster, what it gets instead.
	Renderings map[string]*Rendering
	// Dependencies are the dependencies of the resource.
	Dependencies []configv1alpha1.DependentObjectReference
	// ClaimedBy names the policy that has claimed the resource.
	ClaimedBy string
	// Poll is how often to look again because the kind cannot be watched at the
	// moment; 0 for never.
	Poll time.Duration
}

// On is what a cluster should get.
func (r *Resource) On(cluster string) Rendering {
	shared := r.Renderings[cluster]
	if shared == nil {
		return Rendering{Revision: r.Revision}
	}
	special := *shared
	if special.Field != "" {
		special.Message = fmt.Sprintf("spec.clusters, %s of %s: %s", special.Field, cluster, special.Message)
	}
	return special
}

// Problem explains why nothing can be rendered.
type Problem struct {
	Reason  string
	Message string
	// Stalled: a user must fix it.
	Stalled bool
	// Poll is how often to look again if no watch shows a change; 0 for never.
	Poll time.Duration
	// Err is a temporary failure, to be retried with back-off.
	Err error
}

// Rendering describes what a cluster should get. It has no content: the manifest is
// rendered again when it is written.
type Rendering struct {
	// Variant names what is rendered; empty for what all clusters share.
	Variant string
	// Revision is the revision of the manifest.
	Revision string
	// Overrides records the override policies that were applied.
	Overrides map[string]string
	// Resolution is the conflict resolution that belongs to the revision; empty for that
	// of the spec.
	Resolution propagationv1alpha1.ConflictResolution
	// Held: the cluster must not have a Work yet. Reason and Message say why.
	Held bool
	// Reason and Message explain why the cluster cannot get the resource; empty if
	// it can.
	Reason, Message string
	// Field is the field of spec.clusters that the message is about; empty for none.
	Field string
	// Retry is when a temporary failure is tried again; the zero time for never.
	Retry time.Time
}

// IsDue reports whether a failure is to be tried again.
func (r *Rendering) IsDue(now time.Time) bool {
	return r != nil && !r.Retry.IsZero() && !now.Before(r.Retry)
}
