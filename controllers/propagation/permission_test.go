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
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// The questions about the account of a tenant, and the Works of its object.
const (
	tenant       = "system:serviceaccount:shop:tenant: "
	getsWeb      = tenant + "get deployments.apps shop/web"
	toAll        = tenant + "propagate clusters.cluster.karmada.io"
	toMember1    = toAll + " /member1"
	toMember2    = toAll + " /member2"
	workOnFirst  = "Work karmada-es-member1/web-56d6c779bb"
	workOnSecond = "Work karmada-es-member2/web-56d6c779bb"
)

func TestAccountOf(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace, named, fallback, want string
	}{
		"neither":                {"shop", "", "", "/"},
		"named":                  {"shop", "tenant", "", "shop/tenant"},
		"default":                {"shop", "", "default", "shop/default"},
		"named takes precedence": {"shop", "tenant", "default", "shop/tenant"},
		"cluster-scoped object":  {"", "", "default", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			object := webPropagation()
			object.Namespace, object.Spec.ServiceAccountName = tc.namespace, tc.named
			r := &Reconciler{DefaultServiceAccount: tc.fallback}
			if got := r.accountOf(object).String(); got != tc.want {
				t.Errorf("account %s, want %s", got, tc.want)
			}
		})
	}
}

// TestNoReviewsWithoutAccount: reviews cost nothing if no account is named.
func TestNoReviewsWithoutAccount(t *testing.T) {
	b := newBench(t, aShop()...)
	live(t, b)
	if len(b.asked) > 0 {
		t.Errorf("asked %v", b.asked)
	}
}

// TestReviewsAreCounted: a new revision takes two reviews, and everything else
// takes none.
func TestReviewsAreCounted(t *testing.T) {
	b := newTenancy(t, getsWeb, toAll)
	b.expect(t, "on create", []string{getsWeb, toAll}, []string{"create " + workOnFirst, "create " + workOnSecond})
	b.confirm(t)
	b.expect(t, "on confirmation", nil, nil)
	b.grant(getsWeb, toAll)
	b.expect(t, "when idle", nil, nil)
	b.restart()
	b.expect(t, "after a restart", nil, nil)
	b.changeImage(t, "nginx:2")
	b.expect(t, "on update", []string{getsWeb, toAll},
		[]string{"patch status of " + workOnFirst, "update " + workOnFirst, "patch status of " + workOnSecond, "update " + workOnSecond})
	b.confirm(t)
	b.changeImage(t, "nginx:3")
	b.expect(t, "on an update within a minute", nil,
		[]string{"patch status of " + workOnFirst, "update " + workOnFirst, "patch status of " + workOnSecond, "update " + workOnSecond})
}

// TestManyClustersTakeTwoReviews: one for the resource, and one for all clusters.
func TestManyClustersTakeTwoReviews(t *testing.T) {
	b := newTenancy(t, getsWeb, toAll)
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("member%d", i)
	}
	observed := observedOn(names...)
	b.observePermissions(t.Context(), b.propagation(t), observed)
	if diff := cmp.Diff([]string{getsWeb, toAll}, b.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if writes := len(decide.NewPlan(observed).Writes); writes != len(names) {
		t.Errorf("%d writes, want %d", writes, len(names))
	}
}

// TestForbiddenCluster: a cluster without permission gets nothing, and the others
// are not affected.
func TestForbiddenCluster(t *testing.T) {
	b := newTenancy(t, getsWeb, toMember1)
	b.expect(t, "on create", []string{getsWeb, toAll, toMember1, toMember2}, []string{"create " + workOnFirst})
	b.confirm(t)
	b.settle(t)
	b.expectRows(t, "one cluster is forbidden", "member2 False Forbidden", "member1 True Applied")
	const want = `ServiceAccount shop/tenant lacks the permission propagate on clusters.cluster.karmada.io "member2"; grant it with a ClusterRole and a ClusterRoleBinding`
	if got := b.propagation(t).Status.Clusters[0].Message; got != want {
		t.Errorf("message %q,\nwant %q", got, want)
	}
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > deniedFor {
		t.Errorf("requeued after %v (%v), want at most %v", result.RequeueAfter, err, deniedFor)
	}
	b.grant(getsWeb, toAll)
	b.asked, b.writes = nil, nil
	b.expect(t, "when it is granted", []string{getsWeb, toAll}, []string{"create " + workOnSecond})
}

// TestForbiddenResource: an account that may not get the resource sends it nowhere.
func TestForbiddenResource(t *testing.T) {
	b := newTenancy(t, toAll)
	b.expect(t, "on create", []string{getsWeb}, nil)
	b.expectRows(t, "the resource is forbidden", "member1 False Forbidden", "member2 False Forbidden")
	const want = `ServiceAccount shop/tenant lacks the permission get on deployments.apps "web"; grant it with a Role and a RoleBinding`
	if got := b.propagation(t).Status.Clusters[0].Message; got != want {
		t.Errorf("message %q,\nwant %q", got, want)
	}
}

// TestWhatRunsStays: after all permissions are lost, what clusters run is not
// withdrawn and is still repaired, but nothing new is sent.
func TestWhatRunsStays(t *testing.T) {
	for name, restart := range map[string]bool{"the same process": false, "another process": true} {
		t.Run(name, func(t *testing.T) {
			b := newTenancy(t, getsWeb, toAll)
			b.settle(t)
			b.confirm(t)
			b.settle(t)
			b.grant()
			b.asked, b.writes = nil, nil
			if restart {
				b.restart()
			}
			b.delete(t, "member1")
			b.expect(t, "a Work is deleted", nil, []string{"create " + workOnFirst})
			b.confirm(t)
			b.settle(t)
			b.edit(t, "member2")
			if restart {
				b.restart()
			}
			b.expect(t, "a Work is edited", nil, []string{"patch status of " + workOnSecond, "update " + workOnSecond})
			b.confirm(t)
			b.settle(t)
			before := b.propagation(t).Status.Clusters[0].Revision

			b.changeImage(t, "nginx:2")
			b.expect(t, "the resource changes", []string{getsWeb}, nil)
			b.expectRows(t, "the resource changes", "member1 False Forbidden", "member2 False Forbidden")
			if got := b.propagation(t).Status.Clusters[0].Revision; got != before {
				t.Errorf("revision %q, want %q, which runs", got, before)
			}
			b.changeImage(t, "nginx:1")
			b.expect(t, "the resource again matches what runs", nil, nil)
			b.changeImage(t, "nginx:2")
			b.settle(t)
			b.grant(getsWeb, toAll)
			b.asked = nil
			b.expect(t, "permissions are granted", []string{getsWeb, toAll},
				[]string{"patch status of " + workOnFirst, "update " + workOnFirst, "patch status of " + workOnSecond, "update " + workOnSecond})
		})
	}
}

// TestWithdrawingNeedsNoPermission: clusters are cleaned up without a review.
func TestWithdrawingNeedsNoPermission(t *testing.T) {
	b := newTenancy(t, getsWeb, toAll)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	b.grant()
	b.asked, b.writes = nil, nil
	object := b.propagation(t)
	object.Generation++
	object.Spec.Clusters = object.Spec.Clusters[:1]
	if err := b.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.expect(t, "a cluster is removed", nil, []string{"delete " + workOnSecond})
	b.delete(t, "member2")
	b.restart()
	b.settle(t)
	object = b.propagation(t)
	object.Generation++
	object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: "member2"})
	if err := b.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.expect(t, "it is added again", []string{getsWeb}, nil)
	b.expectRows(t, "it is added again", "member2 False Forbidden", "member1 True Applied")
	if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	b.dropFinalizers(t)
	b.settle(t)
	if left := b.works(t); len(left) > 0 {
		t.Errorf("%d Works are left", len(left))
	}
}

// TestAnotherOwnersWorkIsNoGrant: a Work that an earlier object left behind is
// adopted only with permission, even if its content is the same.
func TestAnotherOwnersWorkIsNoGrant(t *testing.T) {
	b := newTenancy(t, getsWeb, toAll)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	for _, work := range b.works(t) {
		work.Labels[propagationv1alpha1.OwnerUIDLabel] = "earlier"
		if err := b.server.Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
	object := b.propagation(t)
	object.Status = propagationv1alpha1.PropagationStatus{}
	if err := b.server.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.grant(toAll)
	b.restart()
	b.asked, b.writes = nil, nil
	b.expect(t, "without permission", []string{getsWeb}, nil)
	b.grant(getsWeb, toAll)
	b.expect(t, "with permission", []string{getsWeb, toAll}, []string{"update " + workOnFirst, "update " + workOnSecond})
}

// TestReviewFails: a failure of the API server is not a denial.
func TestReviewFails(t *testing.T) {
	for name, fails := range map[string]string{"the resource": getsWeb, "all clusters": toAll, "one cluster": toMember2} {
		t.Run(name, func(t *testing.T) {
			b := newTenancy(t, getsWeb, toMember1, toMember2)
			watched(t, b.bench, new(int))
			b.may = func(permission string) (bool, error) {
				if permission == fails {
					return false, apierrors.NewTimeoutError("slow", 1)
				}
				return b.rights[permission], nil
			}
			if err := b.reconcile(t); err == nil || !strings.Contains(err.Error(), "slow") {
				t.Fatalf("no back-off: error %v", err)
			}
			row := b.propagation(t).Status.Clusters[0]
			if row.Applied != metav1.ConditionUnknown || row.Reason != propagationv1alpha1.ReasonReviewFailed || !strings.Contains(row.Message, "slow") {
				t.Errorf("row %+v", row)
			}
			b.may = func(permission string) (bool, error) { return b.rights[permission], nil }
			b.settle(t)
			if works := len(b.works(t)); works != 2 {
				t.Errorf("%d Works when the server answers again, want 2", works)
			}
		})
	}
}

// TestProblemsAreConcealed: an account that may not get a resource does not learn
// whether the resource exists.
func TestProblemsAreConcealed(t *testing.T) {
	b := newTenancy(t, toAll)
	if err := b.server.Delete(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	expect := func(want string) {
		t.Helper()
		if ready := meta.FindStatusCondition(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady); ready.Reason != want {
			t.Errorf("Ready: %s: %s, want %s", ready.Reason, ready.Message, want)
		}
	}
	expect(propagationv1alpha1.ReasonForbidden)
	b.expectRows(t, "the resource is forbidden", "member1 False Forbidden", "member2 False Forbidden")
	b.grant(getsWeb, toAll)
	b.settle(t)
	expect(propagationv1alpha1.ReasonResourceNotFound)
}

// TestAnswersAreCached: answers are cached for a while, allowed ones longer than
// denied ones.
func TestAnswersAreCached(t *testing.T) {
	b := newTenancy(t)
	asked := question{account: types.NamespacedName{Namespace: "shop", Name: "tenant"}, verb: verbPropagate, group: clusterv1alpha1.GroupName, resource: "clusters"}
	at := func(after time.Duration, allowed bool, questions int) {
		t.Helper()
		b.clock.SetTime(b.clock.Now().Add(after))
		b.asked = nil
		denial := b.reviews.ask(t.Context(), asked, deniedFor)
		if (denial == nil) != allowed || len(b.asked) != questions {
			t.Errorf("denial %v after %v, asked %v; want allowed %t with %d questions", denial, after, b.asked, allowed, questions)
		}
	}
	at(0, false, 1)
	b.rights[toAll] = true
	at(deniedFor-time.Second, false, 0)
	at(time.Second, true, 1)
	delete(b.rights, toAll)
	at(allowedFor-time.Second, true, 0)
	at(time.Second, false, 1)
}

// TestManyDeniedClustersAreReviewedSlowly: 5,000 denied clusters cost at most 50
// reviews per second.
func TestManyDeniedClustersAreReviewedSlowly(t *testing.T) {
	b := newTenancy(t, getsWeb)
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("member%d", i)
	}
	observed := observedOn(names...)
	b.observePermissions(t.Context(), b.propagation(t), observed)
	if asked := len(b.asked); asked != 2+len(names) {
		t.Errorf("asked %d times, want %d", asked, 2+len(names))
	}
	plan := decide.NewPlan(observed)
	if len(plan.Writes) > 0 || plan.Wait < 100*time.Second {
		t.Errorf("%d writes, and the next reviews after %v", len(plan.Writes), plan.Wait)
	}
	b.asked = nil
	b.observePermissions(t.Context(), b.propagation(t), observedOn(names...))
	if len(b.asked) > 0 {
		t.Errorf("asked %d times again", len(b.asked))
	}
}

// needsSettings is what an object requires that acts for an account.
func needsSettings(account types.NamespacedName, clusters ...string) dependency.Requirement {
	wanted := map[string]bool{}
	for _, cluster := range clusters {
		wanted[cluster] = false
	}
	return dependency.Requirement{Dependencies: []types.NamespacedName{settings}, Clusters: wanted, Account: account}
}

const (
	alice = "system:serviceaccount:shop:alice: "
	bob   = "system:serviceaccount:shop:bob: "
)

var (
	noAccount = types.NamespacedName{}
	ofAlice   = types.NamespacedName{Namespace: "shop", Name: "alice"}
	ofBob     = types.NamespacedName{Namespace: "shop", Name: "bob"}
)

// vouchersCases are what two objects require, the rights of their accounts, and whose
// rights are missing on which cluster.
var vouchersCases = map[string]struct {
	first, second dependency.Requirement
	rights        []string
	want          map[string]string
}{
	"nobody has an account": {
		first: needsSettings(noAccount, "a"), second: needsSettings(noAccount, "b"),
	},
	"one has none, which is enough on its own clusters": {
		first: needsSettings(noAccount, "a"), second: needsSettings(ofBob, "a", "b"),
		want: map[string]string{"b": "ServiceAccount shop/bob"},
	},
	"each for its own clusters": {
		first: needsSettings(ofAlice, "a"), second: needsSettings(ofBob, "b"),
		rights: []string{alice + "get configmaps. shop/settings", alice + "propagate clusters.cluster.karmada.io"},
		want:   map[string]string{"b": "ServiceAccount shop/bob"},
	},
	"one may get it, the other may propagate": {
		first: needsSettings(ofAlice, "a"), second: needsSettings(ofBob, "a"),
		rights: []string{alice + "get configmaps. shop/settings", bob + "propagate clusters.cluster.karmada.io"},
		want:   map[string]string{"a": "ServiceAccount shop/alice"},
	},
	"the second may": {
		first: needsSettings(ofAlice, "a"), second: needsSettings(ofBob, "a"),
		rights: []string{bob + "get configmaps. shop/settings", bob + "propagate clusters.cluster.karmada.io"},
	},
}

// TestVouchersOfADependency: on each cluster, one account of the objects that
// require the dependency is enough, and an object without an account may do
// everything.
func TestVouchersOfADependency(t *testing.T) {
	for name, tc := range vouchersCases {
		t.Run(name, func(t *testing.T) {
			b := newTenancy(t, tc.rights...)
			b.Kind = render.DependencyKind
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
			b.Mapper = mapper
			b.requirements.Set(oneObject, tc.first)
			b.requirements.Set(anotherObject, tc.second)
			observed := observedOn("a", "b")
			observed.Spec.Resource = dependency.Reference(settings)
			observed.Spec.Clusters = slices.DeleteFunc(observed.Spec.Clusters, func(target propagationv1alpha1.TargetCluster) bool {
				_, first := tc.first.Clusters[target.Name]
				_, second := tc.second.Clusters[target.Name]
				return !first && !second
			})
			observed.Target()
			b.observePermissions(t.Context(), b.requirements.Object(settings), observed)
			if got, want := slices.Sorted(maps.Keys(observed.Denials)), slices.Sorted(maps.Keys(tc.want)); !slices.Equal(got, want) {
				t.Fatalf("denied on %v, want %v", got, want)
			}
			for cluster, denial := range observed.Denials {
				if !strings.HasPrefix(denial.Message, tc.want[cluster]) {
					t.Errorf("%s: %s", cluster, denial.Message)
				}
			}
		})
	}
}
