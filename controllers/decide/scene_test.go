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
	"strings"
	"time"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// The scene: DirectPropagation shop/web propagates Deployment web to clusters.
var (
	now   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	owner = render.Owner{Kind: "DirectPropagation", Namespace: "shop", Name: "web", UID: "ours"}
)

const (
	current = "c0ffee"
	older   = "0ddba11"
	since   = "2026-01-01T10:00:00Z"
)

var readyCluster = Cluster{Exists: true, Ready: true, ReadySince: since, API: clusterv1alpha1.APIEnabled}

// sceneOption changes a scene.
type sceneOption func(*Observed)

// scene observes shop/web, which names the given clusters, all Ready and
// without a Work.
func scene(clusters []string, options ...sceneOption) *Observed {
	spec := &propagationv1alpha1.PropagationSpec{
		Resource:           propagationv1alpha1.ResourceReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		ConflictResolution: propagationv1alpha1.ConflictAbort,
	}
	observed := &Observed{
		Now: now, Owner: owner, Generation: 1, Spec: spec, HasFinalizer: true,
		Status:   &propagationv1alpha1.PropagationStatus{},
		Resource: Resource{Revision: current},
		Clusters: map[string]Cluster{}, Holders: map[string]string{},
		Works: map[types.NamespacedName]*workv1alpha1.Work{}, ConflictPoll: 3 * time.Second,
	}
	for _, name := range clusters {
		spec.Clusters = append(spec.Clusters, propagationv1alpha1.TargetCluster{Name: name})
		observed.Clusters[name] = readyCluster
	}
	for _, option := range options {
		option(observed)
	}
	if !observed.Deleting {
		observed.Target()
	}
	return observed
}

// on puts a Work of the resource on a cluster.
func on(cluster string, change ...func(*workv1alpha1.Work)) sceneOption {
	return func(observed *Observed) {
		work := liveWork(observed, cluster, "web", change...)
		observed.Works[types.NamespacedName{Namespace: work.Namespace, Name: work.Name}] = work
	}
}

func liveWork(observed *Observed, cluster, resource string, change ...func(*workv1alpha1.Work)) *workv1alpha1.Work {
	key := render.WorkKey(cluster, observed.Spec.Resource.Kind, owner.Namespace, resource)
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: types.UID("uid-" + cluster + resource),
		CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
	}}
	render.Claim(work, owner, render.Target{Cluster: cluster, ReadySince: since})
	setRevision(work, current)
	for _, apply := range change {
		apply(work)
	}
	return work
}

func cluster(name string, state Cluster) sceneOption {
	return func(observed *Observed) { observed.Clusters[name] = state }
}

func problem(problem Problem) sceneOption {
	return func(observed *Observed) { observed.Resource = Resource{Problem: &problem} }
}

func deleting(observed *Observed) { observed.Deleting = true }

func preserving(observed *Observed) { observed.Spec.PreserveResourcesOnDeletion = ptr.To(true) }

func suspended(observed *Observed) { observed.Spec.Suspension.Dispatching = ptr.To(true) }

// Changes of a live Work.
func revision(revision string) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) { setRevision(work, revision) }
}

func conditions(conditions ...metav1.Condition) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) { work.Status.Conditions = conditions }
}

func reports(health workv1alpha1.ResourceHealth) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) {
		work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Health: health}}
	}
}

func terminating(at time.Time) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) { work.DeletionTimestamp = ptr.To(metav1.NewTime(at)) }
}

func annotated(key, value string) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) { work.Annotations[key] = value }
}

// attempted notes new attempts on a Work.
func attempted(count int, at time.Time) func(*workv1alpha1.Work) {
	return annotated(propagationv1alpha1.AttemptsAnnotation, attempts{count: count - 1}.next(at))
}

func refusedAt(at time.Time) func(*workv1alpha1.Work) {
	return conditions(dispatched, conditionAt(failed, at))
}

// wasReset resets what Karmada reports, some time ago.
func wasReset(ago time.Duration) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) {
		work.Status.Conditions = ResetConditions(work, confirmedRevision(work), now.Add(-ago))
		work.Generation++ // the write that follows
	}
}

// alsoRefused has the cluster refuse what it gets next.
func alsoRefused(work *workv1alpha1.Work) {
	work.Status.Conditions = append(work.Status.Conditions, dispatched, failed)
}

func conditionAt(condition metav1.Condition, at time.Time) metav1.Condition {
	condition.LastTransitionTime = metav1.NewTime(at)
	return condition
}

// payload replaces what a compact Work keeps of its manifest after the revision: the
// generation and the UID of the template, and the identity with its flags.
func payload(words string) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) {
		work.Spec.Workload.Manifests[0].Raw = []byte("revision " + current + " " + words)
	}
}

// ofUID is a template with a UID, and a revision that depends on it.
func ofUID(uid types.UID) sceneOption {
	return func(observed *Observed) {
		observed.Resource.UID = uid
		if uid == "u1" {
			observed.Resource.Revision = older
		}
	}
}

func asking(retry string) sceneOption { return func(observed *Observed) { observed.Retry = retry } }

// setback is a write that the API server has refused.
func setback(slot, what string, until time.Time) sceneOption {
	return func(observed *Observed) {
		observed.Setbacks = map[string]Setback{slot: {What: what, Until: until, Err: errors.New("not welcome")}}
	}
}

var (
	dispatched = metav1.Condition{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue}
	held       = metav1.Condition{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionFalse}
	applied    = metav1.Condition{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}
	failed     = metav1.Condition{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionFalse, Message: "denied by quota", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}

	isConfirmed = conditions(dispatched, applied)
	isRefused   = conditions(dispatched, failed)
	// isUnanswered is what Karmada reports a minute after an attempt without an answer.
	isUnanswered = conditions(conditionAt(dispatched, now.Add(-92*time.Second)), conditionAt(applied, now.Add(-time.Minute)))
	isHealthy    = reports(workv1alpha1.ResourceHealthy)
	isRecreated  = conditions(dispatched, metav1.Condition{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue, Reason: reasonRecreated})
	isInvalid    = conditions(dispatched, metav1.Condition{
		Type: workv1alpha1.WorkApplied, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
		Message: `Failed to apply all manifests (0/1): Deployment.apps "web" is invalid: spec.selector: Invalid value: field is immutable`,
	})
)

// steps describes a plan in words, without the reasons.
func steps(plan *Plan) []string {
	var words []string
	for _, step := range plan.Steps() {
		step, _, _ = strings.Cut(step, " (")
		words = append(words, step)
	}
	return words
}

// here is the identity of the named Deployment, elsewhere that of one in another group.
var (
	here      = render.Identity(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web")
	elsewhere = render.Identity(schema.GroupKind{Group: "example.org", Kind: "Deployment"}, "web")
)
