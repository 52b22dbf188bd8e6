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
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// users are the people who use the control plane and the members. What they do, they do
// at once.
type users struct {
	w *World
	// count numbers what they change, so that no two changes are the same.
	count int
	// grants are the permissions of the service account: on clusters, and, under the
	// empty name, to read.
	grants map[string]bool
	// plural and scope are what the definition of Widgets says.
	plural string
	scope  apiextensionsv1.ResourceScope
	// refused are the clusters for which a webhook refuses all that the controller writes.
	refused map[string]bool
	// altered are those for which it changes what the controller writes, and denied the
	// members whose admission denies what users propagate.
	altered, denied map[string]bool
	// revoked is since when the service account lacks a permission, as in grants.
	revoked map[string]time.Time
}

func newUsers(w *World) *users {
	u := &users{w: w, plural: widgetKind.Plural, scope: apiextensionsv1.NamespaceScoped, grants: map[string]bool{"": true}, refused: map[string]bool{}, altered: map[string]bool{}, denied: map[string]bool{}, revoked: map[string]time.Time{}}
	for _, name := range memberNames {
		u.grants[name] = true
	}
	return u
}

// operation is something that users do. It returns what that was; empty if there was
// nothing to do.
type operation func(*users, context.Context) (string, error)

// basics are the operations that each world has, others the groups of which each world has
// some. What is listed several times is done more often.
var (
	basics = []operation{
		(*users).changeResource, (*users).changeResource, (*users).createPropagation, (*users).changeClusters, (*users).createResource,
	}
	others = [][]operation{
		{(*users).selectClusters, (*users).relabel}, {(*users).selectClusters, (*users).leaveCluster, (*users).joinCluster, (*users).joinCluster},
		{(*users).leaveCluster, (*users).joinCluster, (*users).joinCluster}, {(*users).renameResource, (*users).mistake}, {(*users).renameResource, (*users).deleteResource},
		{(*users).suspend}, {(*users).suspendSome, (*users).editWork}, {(*users).suspend, (*users).cutMember}, {(*users).preserve, (*users).deletePropagation},
		{(*users).preserve, (*users).cutMember}, {(*users).deletePropagation, (*users).cutMember}, {(*users).cutMember, (*users).cutMember}, {(*users).setClock},
		{(*users).customize}, {(*users).override}, {(*users).changePolicy}, {(*users).followDependencies, (*users).mount}, {(*users).actFor, (*users).permit},
		{(*users).createOnMember, (*users).changeResolution}, {(*users).createOnMember, (*users).deleteOnMember, (*users).requestRetry}, {(*users).aggregate},
		{(*users).deletePropagation}, {(*users).deleteResource}, {(*users).stripFinalizer}, {(*users).mistake},
		{(*users).changeNamespace, (*users).changeNamespace},
		{(*users).redefine, (*users).changeVersion, (*users).changeVersion}, {(*users).breakWorkloads}, {(*users).hinder, (*users).unhinder},
		{(*users).removeKind, (*users).restoreKind, (*users).restoreKind}, {(*users).serveOnMember},
		{(*users).bind, (*users).unbind}, {(*users).createForeignWork, (*users).deleteForeignWork}, {(*users).bind, (*users).unbind, (*users).deletePropagation},
		{(*users).editWork}, {(*users).deleteWork}, {(*users).editOnMember}, {(*users).deleteOnMember},
		{(*users).refuseWrites, (*users).refuseWrites, (*users).changeClusters}, {(*users).setRollout, (*users).command, (*users).command, (*users).removeRollout},
		{(*users).silenceMember},
	}
)

// habits are what is usual in a world. Worlds differ in them, because few kinds of
// operations and faults, each met often, find more than all of them, each met once.
type habits struct {
	// operations are what users do.
	operations []operation
	// faults: requests, watches and processes fail.
	faults bool
	// round is after how many steps all becomes quiet.
	round int
	// outages: members that are cut off stay so when all becomes quiet.
	outages bool
	// themed: users have one theme after the other, each for a round, beginning with the
	// first. faulty says whether there are faults then, unless the theme has none.
	themed, faulty bool
	first          int
	theme          string
}

// chooseHabits chooses what is usual.
func chooseHabits(choices *choices) habits {
	h := habits{operations: slices.Clone(basics)}
	for _, group := range others {
		if choices.oneIn(5) {
			h.operations = append(h.operations, group...)
		}
	}
	h.faults = !choices.oneIn(3)
	h.round = oneOf(choices, []int{60, 200, 1000})
	h.outages = choices.oneIn(2)
	h.themed, h.first = choices.oneIn(2) || choices.theme != "", choices.below(len(themes))
	if h.themed {
		h.round, h.faulty = themedRound, h.faults
	}
	return h
}

// themedRound is after how many steps all becomes quiet in a world with themes.
const themedRound = 60

// act does something.
func (u *users) act(ctx context.Context) error {
	return u.perform(ctx, oneOf(u.w.choices, u.w.habits.operations))
}

// perform does something.
func (u *users) perform(ctx context.Context, do operation) error {
	done, err := do(u, ctx)
	if isRefusal(err) {
		u.w.tell("a user fails: %s: %v", done, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("a user: %w", err)
	}
	if done != "" {
		u.w.tell("a user %s", done)
	}
	return nil
}

// isRefusal reports whether an error is one that users meet.
func isRefusal(err error) bool {
	for _, is := range []func(error) bool{
		apierrors.IsConflict, apierrors.IsNotFound, apierrors.IsAlreadyExists, apierrors.IsInvalid, apierrors.IsForbidden,
		apierrors.IsInternalError, meta.IsNoMatchError,
	} {
		if is(err) {
			return true
		}
	}
	return false
}

const namespace = "shop"

func keyOf(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

// some chooses at least one cluster.
func (u *users) some() []string {
	first := u.w.choices.below(len(memberNames))
	clusters := []string{memberNames[first]}
	for i, name := range memberNames {
		if i != first && u.w.choices.oneIn(2) {
			clusters = append(clusters, name)
		}
	}
	return clusters
}
