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

package propagation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
)

const (
	// verbPropagate is the verb that an account needs on a Cluster.
	verbPropagate = "propagate"
	// verbGet is the verb that it needs on the resource.
	verbGet = "get"
	// allowedFor is how long an allowed answer is cached. A permission that is
	// revoked stops new revisions within this time.
	allowedFor = time.Minute
	// deniedFor is how long a denied answer is cached, and therefore how often the
	// question is asked again. It is short, because somebody who grants a
	// permission waits for the effect.
	deniedFor = 10 * time.Second
	// reviewPace is the minimum time for which denied answers are cached, per
	// cluster that had to be reviewed by name. It limits the load of one object on
	// the API server to 50 reviews per second, however many clusters the object
	// names.
	reviewPace = 20 * time.Millisecond
	// maxAnswers limits the memory for cached answers to about 8 MB.
	maxAnswers = 1 << 14
)

// question asks whether an account may do something. It is comparable.
type question struct {
	account                  types.NamespacedName
	verb                     string
	group, version, resource string
	namespace, name          string
}

// answer is the API server's answer to a question.
type answer struct {
	allowed bool
	until   time.Time
}

// reviews asks the API server what service accounts may do, and caches the answers.
// All reconcilers share it.
type reviews struct {
	client  client.Client
	clock   clock.PassiveClock
	answers *cache.LRUExpireCache
}

func newReviews(client client.Client, clock clock.PassiveClock) *reviews {
	return &reviews{client: client, clock: clock, answers: cache.NewLRUExpireCacheWithClock(maxAnswers, clock)}
}

// ask returns nil if the account may do what is asked about, and otherwise the
// reason why not. A denied answer is cached for the given time.
func (r *reviews) ask(ctx context.Context, asked question, denied time.Duration) *decide.Denial {
	stored, _ := r.answers.Get(asked)
	known, _ := stored.(answer)
	if !known.until.After(r.clock.Now()) {
		review := asked.review()
		if err := r.client.Create(ctx, review); err != nil {
			return asked.unanswered(err)
		}
		keep := allowedFor
		if !review.Status.Allowed {
			keep = denied
		}
		known = answer{allowed: review.Status.Allowed, until: r.clock.Now().Add(keep)}
		r.answers.Add(asked, known, keep)
	}
	if known.allowed {
		return nil
	}
	return asked.denied(max(soon, known.until.Sub(r.clock.Now())))
}

// review returns the question as an API object. Neither the account's token nor the
// account itself is needed: permissions are granted to its name.
func (q question) review() *authorizationv1.SubjectAccessReview {
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + q.account.Namespace + ":" + q.account.Name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + q.account.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: q.verb, Group: q.group, Version: q.version, Resource: q.resource, Namespace: q.namespace, Name: q.name,
		},
	}}
}

// String describes the permission, for example: get on secrets "db".
func (q question) String() string {
	what := schema.GroupResource{Group: q.group, Resource: q.resource}
	return fmt.Sprintf("%s on %s %q", q.verb, what, q.name)
}

// denied names the missing permission first, because long messages are truncated.
func (q question) denied(wait time.Duration) *decide.Denial {
	role := "a ClusterRole and a ClusterRoleBinding"
	if q.namespace != "" {
		role = "a Role and a RoleBinding"
	}
	return &decide.Denial{
		Reason:  propagationv1alpha1.ReasonForbidden,
		Message: fmt.Sprintf("ServiceAccount %s lacks the permission %s; grant it with %s", q.account, q, role),
		Get:     q.verb == verbGet,
		Wait:    wait,
	}
}

func (q question) unanswered(err error) *decide.Denial {
	message := fmt.Sprintf("asking whether ServiceAccount %s has the permission %s: %v", q.account, q, err)
	return &decide.Denial{Reason: propagationv1alpha1.ReasonReviewFailed, Message: message, Get: q.verb == verbGet, Err: errors.New(message)}
}

// accountOf returns the service account that an object acts for; the zero value if
// the object acts with the permissions of the controller.
func (r *Reconciler) accountOf(object cached.Object) types.NamespacedName {
	if object.GetNamespace() == "" {
		return types.NamespacedName{}
	}
	name := cmp.Or(object.GetSpec().ServiceAccountName, r.DefaultServiceAccount)
	if name == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: name}
}

// grantedRevisions are the revisions that were granted to an object, by cluster. A
// revision that was granted once stays granted, because a repair writes nothing
// new. Only the reconcile of the object uses it, and an object has one reconcile at
// a time.
type grantedRevisions struct {
	uid       types.UID
	revisions map[string]string
}

// observePermissions determines which clusters must not receive anything new. It
// asks for a review only where something new would be sent: for a resource that
// changed, or a cluster that was added.
func (r *Reconciler) observePermissions(ctx context.Context, object cached.Object, observed *decide.Observed) {
	key := client.ObjectKeyFromObject(object)
	whose := r.owners().vouchers(object)
	if whose == nil {
		r.memories.of(key).granted = grantedRevisions{}
		return
	}
	granted := r.grantsOf(key, object.GetUID())
	maps.DeleteFunc(granted, func(cluster, _ string) bool { return !observed.MayHave(cluster) })
	if observed.Resource.Problem != nil {
		r.concealProblem(ctx, observed, whose)
		return
	}
	open := observed.Unreviewed(granted)
	observed.Denials = r.review(ctx, observed, open, whose)
	for _, cluster := range open {
		if _, denied := observed.Denials[cluster]; !denied {
			granted[cluster] = observed.Resource.On(cluster).Revision
		}
	}
	if observed.Barred() {
		// The names of the dependencies are part of what the account may not read.
		observed.Resource.Dependencies = nil
	}
}

// grantsOf returns the revisions that were granted to an object, by cluster.
func (r *Reconciler) grantsOf(key types.NamespacedName, uid types.UID) map[string]string {
	known := &r.memories.of(key).granted
	if known.uid != uid {
		*known = grantedRevisions{uid: uid, revisions: map[string]string{}}
	}
	return known.revisions
}

// review returns the clusters that must not receive anything new, with the reasons.
// One account that may send the resource to a cluster is enough.
func (r *Reconciler) review(ctx context.Context, observed *decide.Observed, clusters []string, whose dependency.Vouchers) map[string]decide.Denial {
	denials, asked := map[string]decide.Denial{}, map[types.NamespacedName][]string{}
	for _, cluster := range clusters {
		accounts, trusted := whose(cluster)
		if trusted {
			continue
		}
		denials[cluster] = decide.Denial{Reason: propagationv1alpha1.ReasonApplying, Message: "the objects that need this resource have just changed; checking their service accounts", Wait: soon}
		for _, account := range accounts {
			asked[account] = append(asked[account], cluster)
		}
	}
	for i, account := range slices.SortedFunc(maps.Keys(asked), decide.CompareKeys) {
		open := slices.DeleteFunc(asked[account], func(cluster string) bool { _, denied := denials[cluster]; return !denied })
		found := r.reviewAccount(ctx, observed, account, open)
		for _, cluster := range open {
			switch denial, denied := found[cluster]; {
			case !denied:
				delete(denials, cluster)
			case i == 0 || denials[cluster].Reason == propagationv1alpha1.ReasonApplying:
				denials[cluster] = denial
			}
		}
	}
	return denials
}

// reviewAccount reviews one account: whether it may get the resource, then whether
// it may propagate to all clusters, and only if it may not, whether it may
// propagate to each cluster in question.
func (r *Reconciler) reviewAccount(ctx context.Context, observed *decide.Observed, account types.NamespacedName, clusters []string) map[string]decide.Denial {
	if len(clusters) == 0 {
		return nil
	}
	if denial := r.reviewGet(ctx, observed, account); denial != nil {
		return forAll(clusters, denial)
	}
	propagate := question{
		account: account, verb: verbPropagate, group: clusterv1alpha1.GroupName, version: clusterv1alpha1.GroupVersion.Version, resource: "clusters",
	}
	denied := max(deniedFor, time.Duration(len(clusters))*reviewPace)
	denial := r.reviews.ask(ctx, propagate, denied)
	if denial == nil || denial.Err != nil {
		return forAll(clusters, denial)
	}
	found := make([]*decide.Denial, len(clusters))
	r.parallel(len(clusters), func(i int) {
		one := propagate
		one.name = clusters[i]
		found[i] = r.reviews.ask(ctx, one, denied)
	})
	denials := map[string]decide.Denial{}
	for i, denial := range found {
		if denial != nil {
			denials[clusters[i]] = *denial
		}
	}
	return denials
}

func forAll(clusters []string, denial *decide.Denial) map[string]decide.Denial {
	if denial == nil {
		return nil
	}
	denials := make(map[string]decide.Denial, len(clusters))
	for _, cluster := range clusters {
		denials[cluster] = *denial
	}
	return denials
}

// reviewGet asks whether an account may get the resource of an object.
func (r *Reconciler) reviewGet(ctx context.Context, observed *decide.Observed, account types.NamespacedName) *decide.Denial {
	reference := observed.Spec.Resource
	gvk := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
	get := question{account: account, verb: verbGet, group: gvk.Group, version: gvk.Version, resource: reference.Kind, namespace: observed.Owner.Namespace, name: reference.Name}
	mapping, err := r.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return get.unanswered(err)
	}
	get.resource = mapping.Resource.Resource
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		get.namespace = ""
	}
	return r.reviews.ask(ctx, get, deniedFor)
}

// concealProblem replaces a problem that an account may not know about with the
// permission that the account lacks.
func (r *Reconciler) concealProblem(ctx context.Context, observed *decide.Observed, whose dependency.Vouchers) {
	if !decide.ReasonNamed(observed.Resource.Problem.Reason).Revealing {
		return
	}
	asked := map[types.NamespacedName]bool{}
	for _, target := range observed.Targets {
		accounts, trusted := whose(target.Cluster)
		if trusted {
			return
		}
		for _, account := range accounts {
			asked[account] = true
		}
	}
	var denial *decide.Denial
	for _, account := range slices.SortedFunc(maps.Keys(asked), decide.CompareKeys) {
		if denial = r.reviewGet(ctx, observed, account); denial == nil {
			return
		}
	}
	if denial != nil {
		observed.Resource.Problem = &decide.Problem{Reason: denial.Reason, Message: denial.Message, Poll: denial.Wait, Err: denial.Err}
	}
}
