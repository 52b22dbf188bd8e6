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
	"fmt"
	"maps"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// observeHolders finds out, for each wanted Work that is not ours, whether
// somebody else holds it.
func (r *Reconciler) observeHolders(ctx context.Context, observed *decide.Observed) error {
	known, stale, poll := r.memories.of(observed.Key()).holders(observed.Claim(), observed.Now)
	look := &holderLook{r: r, observed: observed, known: known, stale: stale, suspects: decide.ConflictsIn(observed.Status), gone: map[render.Owner]bool{}}
	observed.ConflictPoll = poll
	clusters := []string{}
	for _, target := range observed.Targets {
		if observed.Work(target.Cluster) != nil || !observed.Clusters[target.Cluster].Exists {
			continue
		}
		if at := r.ledger.Lost(observed.WorkKey(target.Cluster)); !at.IsZero() {
			observed.Lost[target.Cluster] = at
		}
		clusters = append(clusters, target.Cluster)
	}
	if len(clusters) > 0 {
		var err error
		if look.cached, err = r.worksOf(cached.WorkNameKey(observed.WorkKey(clusters[0]).Name)); err != nil {
			return err
		}
	}
	holders, err := look.at(ctx, clusters)
	if err != nil {
		return err
	}
	if stale {
		r.memories.of(observed.Key()).foundHolders(observed.Claim(), maps.Clone(holders), observed.Now)
	}
	for _, cluster := range clusters {
		if holder := cmp.Or(holders[cluster], observed.Resource.ClaimedBy); holder != "" && observed.Work(cluster) == nil {
			observed.Holders[cluster] = holder
		}
	}
	return nil
}

// holderLook is one look at the holders of the Works that an object wants.
type holderLook struct {
	r        *Reconciler
	observed *decide.Observed
	// known are the holders that were found last, and stale that they are to be
	// read again; suspects are the clusters on which the last status tells of one.
	known    map[string]string
	stale    bool
	suspects map[string]bool
	// cached are the Works of the wanted name that have our label.
	cached map[types.NamespacedName]*workv1alpha1.Work

	mu sync.Mutex
	// gone says of owners of Works whether they are gone, so that each is read once.
	gone map[render.Owner]bool
}

// at returns the holders by cluster, and adds Works that are free to the observed.
func (l *holderLook) at(ctx context.Context, clusters []string) (map[string]string, error) {
	found, works, errs := make([]string, len(clusters)), make([]*workv1alpha1.Work, len(clusters)), make([]error, len(clusters))
	look := func(i int) { found[i], works[i], errs[i] = l.holderOf(ctx, clusters[i]) }
	if len(l.suspects)+len(l.known) > 0 {
		l.r.parallel(len(clusters), look)
	} else {
		for i := range clusters {
			look(i)
		}
	}
	holders := map[string]string{}
	for i, work := range works {
		switch {
		case errs[i] != nil:
			return nil, errs[i]
		case found[i] != "":
			holders[clusters[i]] = found[i]
		case work != nil:
			l.observed.Works[client.ObjectKeyFromObject(work)] = work
		}
	}
	return holders, nil
}

// holderOf says who holds the wanted Work of a cluster; empty when nobody is
// known to. It returns the Work, compact, when it is free to be taken up as it
// is: nobody's, or our own of an earlier life. Works without our label are not
// cached: they are read live, only where the last attempt met one, and once per
// poll.
func (l *holderLook) holderOf(ctx context.Context, cluster string) (string, *workv1alpha1.Work, error) {
	key := l.observed.WorkKey(cluster)
	work := l.cached[key]
	switch {
	case work != nil:
	case !l.suspects[cluster] && l.known[cluster] == "":
		return "", nil, nil
	case !l.stale && l.known[cluster] != "":
		return l.known[cluster], nil, nil
	default:
		work = &workv1alpha1.Work{}
		if err := l.r.Live.Get(ctx, key, work); apierrors.IsNotFound(err) {
			return "", nil, nil
		} else if err != nil {
			return "", nil, fmt.Errorf("reading Work %s: %w", key, err)
		}
	}
	holder, err := l.holder(ctx, work)
	if err != nil || holder != "" {
		return holder, nil, err
	}
	compact, err := render.Compact(work.DeepCopy())
	if err != nil {
		return "", nil, fmt.Errorf("reading Work %s: %w", key, err)
	}
	free, _ := compact.(*workv1alpha1.Work)
	return "", free, nil
}

// holder says who holds a Work; empty when it is free for the owner to take.
func (l *holderLook) holder(ctx context.Context, work *workv1alpha1.Work) (string, error) {
	if by := decide.TakenOver(work); by != "" {
		// A user knows the policy, not the binding that Karmada made for it.
		return cmp.Or(l.observed.Resource.ClaimedBy, by), nil
	}
	holder, owner := render.OwnerOf(work), l.observed.Owner
	switch {
	case holder.Follows() && !owner.Follows():
		// Who names a resource goes before those whom it only follows.
		return "", nil
	case holder.Kind == owner.Kind && holder.Namespace == owner.Namespace && holder.Name == owner.Name:
		return "", nil
	case holder.Name == "" && render.Renders(work, l.observed.Resource.UID):
		// Ours, with all that says so stripped off its metadata.
		return "", nil
	case holder.Name == "":
		return decide.UnknownHolder, nil
	}
	name := fmt.Sprintf("%s %s", holder.Kind, names.NamespacedKey(holder.Namespace, holder.Name))
	gone, err := l.isGone(ctx, holder)
	if err != nil {
		return "", fmt.Errorf("reading %s, which holds Work %s/%s: %w", name, work.Namespace, work.Name, err)
	}
	if gone {
		// It left the Work behind, by losing its finalizer.
		return "", nil
	}
	return name, nil
}

// isGone reports whether an owner of Works is gone: not only from the cache,
// which may be late.
func (l *holderLook) isGone(ctx context.Context, owner render.Owner) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gone, known := l.gone[owner]; known {
		return gone, nil
	}
	object := l.r.newOf(owner.Kind)
	if object == nil {
		return false, nil
	}
	key := types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}
	err := l.r.Client.Get(ctx, key, object)
	if err != nil || object.GetUID() != owner.UID {
		object = l.r.newOf(owner.Kind)
		err = l.r.Live.Get(ctx, key, object)
	}
	if client.IgnoreNotFound(err) != nil {
		return false, err //nolint:wrapcheck // the caller says what was read
	}
	l.gone[owner] = err != nil || object.GetUID() != owner.UID
	return l.gone[owner], nil
}
