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
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authorizationv1 "k8s.io/api/authorization/v1"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// memberNames are the clusters: the last is a pull cluster.
var memberNames = []string{"member1", "member2", "member3"}

func modeOf(member string) clusterv1alpha1.ClusterSyncMode {
	if member == memberNames[len(memberNames)-1] {
		return clusterv1alpha1.Pull
	}
	return clusterv1alpha1.Push
}

// addMember adds a member that serves what users propagate.
func (w *World) addMember(name string) {
	member := w.karmada.AddMember(name, modeOf(name))
	member.Serve(widgetKind)
	member.Serve(clusterRoleKind)
	member.Serve(toyKind)
}

// newCluster is the Cluster of a member when it joins.
func newCluster(name string) *clusterv1alpha1.Cluster {
	cluster := karmada.NewCluster(name, modeOf(name))
	cluster.Labels = map[string]string{"zone": zones[0]}
	return cluster
}

// relabel moves a cluster to another zone.
func (u *users) relabel(ctx context.Context) (string, error) {
	cluster := &clusterv1alpha1.Cluster{}
	cluster.Name = oneOf(u.w.choices, memberNames)
	if err := u.w.plane.Get(ctx, keyOf(cluster), cluster); err != nil {
		return "relabels " + cluster.Name, err //nolint:wrapcheck // act wraps it
	}
	cluster.Labels = map[string]string{"zone": oneOf(u.w.choices, zones)}
	return fmt.Sprintf("moves %s to %s", cluster.Name, cluster.Labels["zone"]), u.w.plane.Update(ctx, cluster) //nolint:wrapcheck // act wraps it
}

// isUnregistering reports whether karmadactl runs, which deletes the Works of a pull cluster
// again and again.
func (w *World) isUnregistering(name string) bool {
	done, _ := w.karmada.CommandResult(name)
	return !done
}

// leaveCluster begins to unregister a cluster.
func (u *users) leaveCluster(ctx context.Context) (string, error) {
	name := oneOf(u.w.choices, memberNames)
	if done, _ := u.w.karmada.CommandResult(name); !done || !u.w.choices.oneIn(2) {
		return "", nil
	}
	if err := u.w.plane.Get(ctx, client.ObjectKey{Name: name}, &clusterv1alpha1.Cluster{}); err != nil {
		return "unregisters " + name, err //nolint:wrapcheck // act wraps it
	}
	if modeOf(name) == clusterv1alpha1.Pull {
		u.w.karmada.Unregister(name)
		return "unregisters " + name, nil
	}
	force := u.w.choices.oneIn(2)
	u.w.karmada.Unjoin(name, force)
	return fmt.Sprintf("unjoins %s, by force: %t", name, force), nil
}

// joinCluster registers a cluster again.
func (u *users) joinCluster(ctx context.Context) (string, error) {
	for _, name := range memberNames {
		if done, _ := u.w.karmada.CommandResult(name); !done {
			continue
		}
		if err := u.w.plane.Create(ctx, newCluster(name)); err == nil {
			return "registers " + name + " again", nil
		} else if !isRefusal(err) {
			return "", err //nolint:wrapcheck // act wraps it
		}
	}
	return "", nil
}

// permit grants a permission to the service account, or takes it away.
func (u *users) permit(context.Context) (string, error) {
	name := ""
	if chosen := u.w.choices.below(len(memberNames) + 1); chosen > 0 {
		name = memberNames[chosen-1]
	}
	u.grants[name] = !u.grants[name]
	u.revoked[name] = time.Now()
	return fmt.Sprintf("grants %s the permission on %q: %t", accountName, name, u.grants[name]), nil
}

// review answers a SubjectAccessReview.
func (u *users) review(review *unstructured.Unstructured) error {
	asked := into(review, &authorizationv1.SubjectAccessReview{})
	allowed := true
	if asked.Spec.User == "system:serviceaccount:"+namespace+":"+accountName && asked.Spec.ResourceAttributes != nil {
		allowed = u.grants[""]
		if asked.Spec.ResourceAttributes.Verb == "propagate" {
			name := asked.Spec.ResourceAttributes.Name
			allowed = u.mayPropagate(name)
		}
	}
	return unstructured.SetNestedField(review.Object, allowed, "status", "allowed")
}

// mayPropagate reports whether the service account may propagate to a cluster; if the
// name is empty, to all.
func (u *users) mayPropagate(name string) bool {
	if name != "" {
		return u.grants[name]
	}
	for _, member := range memberNames {
		if !u.grants[member] {
			return false
		}
	}
	return true
}

// aCopy returns an object on a member.
func (u *users) aCopy() (*karmada.Member, karmada.Key, bool) {
	member := u.w.karmada.Member(oneOf(u.w.choices, memberNames))
	keys := []karmada.Key{}
	for _, key := range member.Keys() {
		if isPropagated(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, karmada.Key{}, false
	}
	return member, oneOf(u.w.choices, keys), true
}

func (u *users) editOnMember(context.Context) (string, error) {
	member, key, found := u.aCopy()
	if !found {
		return "", nil
	}
	return fmt.Sprintf("edits %s on %s", key, member.Name), member.Edit(key, func(object *unstructured.Unstructured) {
		if _, numbered := object.GetAnnotations()["number"]; object.GetKind() == team.Kind && !numbered {
			return // Karmada keeps annotations that only the member's object has
		}
		_ = u.filled(object) // an object of another kind stays as it is
	})
}

func (u *users) deleteOnMember(context.Context) (string, error) {
	member, key, found := u.aCopy()
	if !found {
		return "", nil
	}
	return fmt.Sprintf("deletes %s on %s", key, member.Name), member.Delete(key)
}

// createOnMember creates an object on a member that Karmada does not manage.
func (u *users) createOnMember(context.Context) (string, error) {
	member, object := u.w.karmada.Member(oneOf(u.w.choices, memberNames)), u.aResource()
	if err := u.filled(object); err != nil {
		return "", err //nolint:wrapcheck // a bug of the simulation
	}
	what := fmt.Sprintf("creates %s on %s", karmada.KeyOf(object), member.Name)
	return what, member.Create(object) //nolint:wrapcheck // act wraps it
}

// serveOnMember has a member begin or stop to serve a kind.
func (u *users) serveOnMember(context.Context) (string, error) {
	member := u.w.karmada.Member(oneOf(u.w.choices, memberNames))
	if member.Serves(widgetKind.GroupVersionKind) {
		member.StopServing(widgetKind.GroupVersionKind)
		return member.Name + " no longer serves Widgets", nil
	}
	member.Serve(widgetKind)
	return member.Name + " serves Widgets again", nil
}

// cutMember severs the connection to a member, or restores it.
func (u *users) cutMember(context.Context) (string, error) {
	u.w.cut()
	return "", nil
}

// silenceMember has a member answer only some of Karmada's requests, or all of them again.
// Karmada may notice that the member is not well, or not.
func (u *users) silenceMember(context.Context) (string, error) {
	member := u.w.karmada.Member(oneOf(u.w.choices, memberNames))
	if member.Silent != nil {
		member.Silent = nil
		member.SetHealthy(true)
		return member.Name + " answers again", nil
	}
	member.SetHealthy(!u.w.choices.oneIn(3))
	member.Silent = func() bool { return u.w.choices.oneIn(2) }
	return member.Name + " does not always answer", nil
}

// setClock sets the clock of a member.
func (u *users) setClock(context.Context) (string, error) {
	u.w.setClock()
	return "", nil
}
