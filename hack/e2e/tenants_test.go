//go:build e2e

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

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

const deployer = "deployer"

// asDeployer makes an object act for the tenant's account.
func asDeployer(object *DirectPropagation) { object.Spec.ServiceAccountName = deployer }

// An account propagates what it may get to the clusters that it may propagate to,
// and one review covers all clusters.
func TestTenantPropagates(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.mayGet("configmaps")
	ns.mayPropagate()
	settings := testbed.ConfigMap("settings", "one")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).With(asDeployer).To(members...)
	p.BecomesReady()
	if diff := cmp.Diff([]string{"get configmaps/settings", "propagate clusters"}, ns.reviews()); diff != "" {
		t.Errorf("reviews (-want +got):\n%s", diff)
	}
}

// A cluster without permission gets nothing until the permission is granted, and the
// other cluster is not affected.
func TestTenantIsConfinedToClusters(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.mayGet("configmaps")
	ns.mayPropagate(member1.Name)
	settings := testbed.ConfigMap("settings", "one")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).With(asDeployer).To(member1, member2)
	p.RowSays(member2.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonForbidden,
		fmt.Sprintf("ServiceAccount %s/%s lacks the permission propagate on clusters.cluster.karmada.io %q; grant it with a ClusterRole and a ClusterRoleBinding", ns.Name, deployer, member2.Name))
	ns.ComeToRun(settings, member1)
	ns.nowLack(settings, member2)
	ns.mayPropagate(member1.Name, member2.Name)
	p.BecomesReady()
}

// When a permission is revoked, the members keep what they run, and the Work is
// still restored. A change is not propagated until the permission is granted again.
func TestTenantLosesPermission(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	role := ns.mayGet("configmaps")
	ns.mayPropagate()
	settings := testbed.ConfigMap("settings", "one")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).With(asDeployer).To(member1, member2)
	p.BecomesReady()
	if err := karmada.Delete(ns.Ctx, role); err != nil {
		t.Fatal(err)
	}
	running := ns.changesUntilForbidden(p)

	// The resource is back to what the members run: nothing new is propagated, and
	// everything is repaired.
	testbed.Changes(ns.Namespace, settings, testbed.Saying(running))
	p.BecomesReady()
	ns.workIsRestored(settings, member1)
	p.BecomesReady()

	testbed.Changes(ns.Namespace, settings, testbed.Saying("forbidden"))
	for _, member := range []*Member{member1, member2} {
		p.RowSays(member.Name, metav1.ConditionFalse, propagationv1alpha1.ReasonForbidden,
			fmt.Sprintf("ServiceAccount %s/%s lacks the permission get on configmaps %q; grant it with a Role and a RoleBinding", ns.Name, deployer, settings.Name))
	}
	kept := testbed.ConfigMap("settings", running)
	kept.Namespace = ns.Name
	ns.NowRun(kept, member1, member2)
	role.SetResourceVersion("")
	role.SetUID("")
	if err := karmada.Create(ns.Ctx, role); err != nil {
		t.Fatal(err)
	}
	p.BecomesReady()
	ns.NowRun(settings, member1, member2)
}

// changesUntilForbidden changes the settings until a change is not propagated,
// because the controller caches reviews for a minute. It returns the content that
// the members still run.
func (ns *Namespace) changesUntilForbidden(p *Propagation) string {
	ns.T.Helper()
	settings, running, began := testbed.ConfigMap("settings", ""), "one", time.Now()
	settings.Namespace = ns.Name
	for n := 0; time.Since(began) < testbed.Patience; n++ {
		says := fmt.Sprintf("change %d", n)
		testbed.Changes(ns.Namespace, settings, testbed.Saying(says))
		revision, forbidden := ns.Revision(settings), false
		p.Becomes("is Ready or forbidden", func(object *DirectPropagation) error {
			forbidden = slices.ContainsFunc(object.Status.Clusters, func(row propagationv1alpha1.ClusterStatus) bool {
				return row.Reason == propagationv1alpha1.ReasonForbidden
			})
			if forbidden {
				return nil
			}
			return testbed.IsReady(object, object.Generation, revision)
		})
		if forbidden {
			return running
		}
		running = says
	}
	ns.T.Fatalf("%v after the permission was revoked, changes are still propagated", testbed.Patience)
	return ""
}

// nowLack checks, without waiting, that members do not have a resource.
func (ns *Namespace) nowLack(resource client.Object, where ...*Member) {
	ns.T.Helper()
	ns.Now("the members lack it", func(ctx context.Context) error { return testbed.Lack(ctx, resource, where...) })
}

// reviews returns the reviews that were requested for accounts of the namespace.
func (ns *Namespace) reviews() []string {
	asked := []string{}
	for _, call := range bed.Audit.Since(time.Time{}, func(c testbed.Write) bool { return c.Resource == "subjectaccessreviews" && c.Namespace == ns.Name }) {
		asked = append(asked, call.Name)
	}
	return asked
}

// mayGet allows the account to get all resources of a kind, and returns the role.
func (ns *Namespace) mayGet(resource string) client.Object {
	ns.T.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "reads"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "reads"}, Subjects: ns.deployers(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	for _, object := range []client.Object{role, binding} {
		if err := karmada.Create(ns.Ctx, object); err != nil {
			ns.T.Fatal(err)
		}
	}
	ns.awaitAllowed(&authorizationv1.ResourceAttributes{Verb: "get", Resource: resource, Namespace: ns.Name})
	return role
}

// awaitAllowed waits until a granted role takes effect.
func (ns *Namespace) awaitAllowed(action *authorizationv1.ResourceAttributes) {
	ns.T.Helper()
	ns.Eventually("the API server allows "+action.Verb, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + ns.Name + ":" + deployer, ResourceAttributes: action,
		}}
		if err := karmada.Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return errors.New("it is not allowed")
		}
		return nil
	})
}

// mayPropagate allows the account to propagate to the named clusters, or to all if
// none is named. It replaces earlier permissions.
func (ns *Namespace) mayPropagate(clusters ...string) {
	ns.T.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
	rules := []rbacv1.PolicyRule{{
		APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters"}, ResourceNames: clusters, Verbs: []string{"propagate"},
	}}
	if err := karmada.Get(ns.Ctx, client.ObjectKeyFromObject(role), role); err == nil {
		testbed.Changes(ns.Namespace, role, func(role *rbacv1.ClusterRole) { role.Rules = rules })
		return
	}
	role.Rules = rules
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns.Name}, Subjects: ns.deployers(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	for _, object := range []client.Object{role, binding} {
		if err := karmada.Create(ns.Ctx, object); err != nil {
			ns.T.Fatal(err)
		}
		ns.T.Cleanup(func() {
			if err := karmada.Delete(context.Background(), object); err != nil {
				ns.T.Errorf("deleting %s: %v", object.GetName(), err)
			}
		})
	}
	name := ""
	if len(clusters) > 0 {
		name = clusters[0]
	}
	ns.awaitAllowed(&authorizationv1.ResourceAttributes{Verb: "propagate", Group: clusterv1alpha1.GroupName, Resource: "clusters", Name: name})
}

func (ns *Namespace) deployers() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns.Name, Name: deployer}}
}
