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

// Denial is why nothing new may travel to a cluster.
type Denial struct {
	Reason  string
	Message string
	// Get says that it is the resource that the account may not get, or is not
	// known to be allowed to.
	Get bool
	// Wait is when to ask again; 0 when a back-off decides.
	Wait time.Duration
	// Err is set when the question could not be asked.
	Err error
}

// applied is what a row says: False only for what is known.
func (d *Denial) applied() metav1.ConditionStatus {
	if d.Reason == propagationv1alpha1.ReasonForbidden {
		return metav1.ConditionFalse
	}
	return metav1.ConditionUnknown
}

// Barred reports whether something new does not travel because the account may
// not get the resource.
func (o *Observed) Barred() bool {
	for _, denial := range o.Denials {
		if denial.Get {
			return true
		}
	}
	return false
}

// FollowersUnknown reports whether it cannot be known what follows the
// resource. Nothing follows one that may not be read and runs nowhere: an
// account without permissions must not hold up what others withdraw.
func (o *Observed) FollowersUnknown() bool {
	problem := o.Resource.Problem
	forbidden := problem != nil && problem.Reason == propagationv1alpha1.ReasonForbidden
	for _, denial := range o.Denials {
		forbidden = forbidden || denial.Get && denial.Err == nil
	}
	return (problem != nil || o.Barred()) && (!forbidden || len(o.Works) > 0)
}

// MayHave reports whether a cluster is one to which the object sends, or could
// send, the resource. Any other starts anew when it comes back.
func (o *Observed) MayHave(cluster string) bool {
	state := o.Clusters[cluster]
	return o.Targeted(cluster) && state.Exists && !state.Terminating && o.Holders[cluster] == ""
}

// Unreviewed returns the clusters to which something would travel that was not
// granted before, and takes down what needs no review.
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

// holds reports whether a Work of the object holds a revision already. The Work
// that another object left behind does not count.
func (o *Observed) holds(work *workv1alpha1.Work, revision string) bool {
	return work != nil && render.OwnerOf(work).UID == o.Owner.UID && render.Revision(work) == revision
}

// confirmedBefore returns, by cluster, the revision that the status says was
// confirmed last. It outlives the process, and the Work. A cluster that was
// about to lose the resource starts anew.
func (o *Observed) confirmedBefore() map[string]string {
	confirmed := make(map[string]string, len(o.Status.Clusters))
	for i := range o.Status.Clusters {
		if row := &o.Status.Clusters[i]; row.Revision != "" && !ReasonNamed(row.Reason).departing {
			confirmed[row.Name] = row.Revision
		}
	}
	return confirmed
}

// ReviewFailure returns why questions could not be asked; nil when all were.
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
