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
	"errors"
	"maps"
	"slices"
	"time"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Denial explains why nothing new may be propagated to a cluster.
type Denial struct {
	Reason  string
	Message string
	// Get means that the account may not get the resource, or that it is not known
	// whether it may.
	Get bool
	// Wait is when to ask again; 0 if a back-off decides.
	Wait time.Duration
	// Err is set if the question could not be asked.
	Err error
}

// applied is the value in a row: False only if the denial is certain.
func (d *Denial) applied() metav1.ConditionStatus {
	if d.Reason == propagationv1alpha1.ReasonForbidden {
		return metav1.ConditionFalse
	}
	return metav1.ConditionUnknown
}

// Barred reports whether nothing new is propagated because the account may not get
// the resource.
func (o *Observed) Barred() bool {
	for _, denial := range o.Denials {
		if denial.Get {
			return true
		}
	}
	return false
}

// FollowersUnknown reports whether the dependencies of the resource cannot be known.
// A resource that may not be read and runs nowhere has none, and neither has one that was
// never propagated: an account without permissions, or a typo, must not block the
// withdrawals of others.
func (o *Observed) FollowersUnknown() bool {
	problem := o.Resource.Problem
	forbidden := problem != nil && problem.Reason == propagationv1alpha1.ReasonForbidden
	for _, denial := range o.Denials {
		forbidden = forbidden || denial.Get && denial.Err == nil
	}
	switch {
	case o.Rollout != nil && o.Rollout.FollowersUnknown:
		return true
	case problem == nil && !o.Barred():
		return false
	case len(o.Works) > 0:
		return true
	case problem != nil && problem.Err == nil && !o.HasFinalizer:
		return false
	}
	return !forbidden
}

// MayHave reports whether the object propagates, or could propagate, the resource to
// a cluster. Any other cluster starts over when it comes back.
func (o *Observed) MayHave(cluster string) bool {
	state := o.Clusters[cluster]
	return o.Targeted(cluster) && state.Exists && !state.Terminating && o.Holders[cluster] == ""
}

// Unreviewed returns the clusters that would get something that has not been granted
// before, and records what needs no review.
func (o *Observed) Unreviewed(granted map[string]string) []string {
	confirmed := o.confirmedBefore()
	open := []string{}
	for _, target := range o.Targets {
		cluster := target.Cluster
		if !o.MayHave(cluster) || o.Work(cluster) == nil && o.Clusters[cluster].API == clusterv1alpha1.APIDisabled {
			continue
		}
		revision := o.Resource.On(cluster).Revision
		switch {
		case revision == "":
			open = append(open, cluster)
		case granted[cluster] == revision:
		case o.holds(o.Work(cluster), revision), confirmed[cluster] == revision:
			granted[cluster] = revision
		default:
			open = append(open, cluster)
		}
	}
	return open
}

// holds reports whether a Work of the object already holds a revision. A Work that
// another object left behind does not count.
func (o *Observed) holds(work *workv1alpha1.Work, revision string) bool {
	return work != nil && render.OwnerOf(work).UID == o.Owner.UID && render.Revision(work) == revision
}

// confirmedBefore returns, by cluster, the last confirmed revision in the status. It
// outlives the process and the Work. A cluster that was about to lose the resource
// starts over.
func (o *Observed) confirmedBefore() map[string]string {
	confirmed := make(map[string]string, len(o.Status.Clusters))
	for i := range o.Status.Clusters {
		if row := &o.Status.Clusters[i]; row.Revision != "" && !ReasonNamed(row.Reason).departing {
			confirmed[row.Name] = row.Revision
		}
	}
	return confirmed
}

// ReviewFailure returns why questions could not be asked; nil if all could.
func ReviewFailure(observed *Observed) error {
	failures := map[string]error{}
	for _, denial := range observed.Denials {
		if denial.Err != nil {
			failures[denial.Message] = denial.Err
		}
	}
	errs := make([]error, 0, len(failures))
	for _, message := range slices.Sorted(maps.Keys(failures)) {
		errs = append(errs, failures[message])
	}
	return errors.Join(errs...)
}
