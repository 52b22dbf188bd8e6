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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// observeHolders determines, for each wanted Work that is not ours, whether
// somebody else holds it.
func (r *Reconciler) observeHolders(ctx context.Context, observed *decide.Observed) error {
	known, stale, poll := r.memories.of(observed.Key()).holders(observed.Claim(), observed.Now)
	look := r.newHolderLook(observed)
	look.known, look.stale, look.suspects = known, stale, decide.ConflictsIn(observed.Status)
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

// holderLook is one check of who holds the Works that an object wants.
type holderLook struct {
	r        *Reconciler
	observed *decide.Observed
	// known are the holders that were found last; stale means that they must be
	// read again. suspects are the clusters for which the last status reports a
	// holder.
	known    map[string]string
	stale    bool
	suspects map[string]bool
	// cached are the Works with the wanted name that have our label.
	cached map[types.NamespacedName]*workv1alpha1.Work

	// gone records which owners of Works are gone, so that each owner is read once. Who
	// uses it has sent to reading. It is not a mutex: it is held while the API server
	// answers, and the virtual time of a simulation stands still while somebody waits for
	// a mutex.
	gone    map[render.Owner]bool
	reading chan struct{}
}

func (r *Reconciler) newHolderLook(observed *decide.Observed) *holderLook {
	return &holderLook{r: r, observed: observed, gone: map[render.Owner]bool{}, reading: make(chan struct{}, 1)}
}

// at returns the holders by cluster, and adds Works that are free to the observed
// ones.
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
			key := client.ObjectKeyFromObject(work)
			l.observed.Works[key] = work
			if l.cached[key] == nil {
				// It was read because the last status suspects a holder; the next one does not.
				if err := l.r.ledger.Wrote(l.observed.Owner.UID, work); err != nil {
					return nil, err
				}
			}
		}
	}
	return holders, nil
}

// holderOf returns who holds the wanted Work of a cluster; empty if no holder is
// known. It also returns the Work, compact, if it is free to be adopted as it is:
// because nobody holds it, or because it was written for an earlier object with our
// name. Works without our label are not cached. They are read from the API server,
// only where the last attempt found one, and once per poll.
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

// holder returns who holds a Work; empty if the owner is free to take it.
func (l *holderLook) holder(ctx context.Context, work *workv1alpha1.Work) (string, error) {
	if by := decide.TakenOver(work); by != "" {
		// Users know the policy, not the binding that Karmada created for it.
		return cmp.Or(l.observed.Resource.ClaimedBy, by), nil
	}
	holder, owner := render.OwnerOf(work), l.observed.Owner
	switch {
	case holder.Follows() && !owner.Follows():
		// An object that names the resource takes precedence over a dependency.
		return "", nil
	case holder.Kind == owner.Kind && holder.Namespace == owner.Namespace && holder.Name == owner.Name:
		return "", nil
	case holder.Name == "" && render.Renders(work, l.observed.Resource.UID):
		// It is ours, but has lost the labels and annotations that say so.
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
		// The owner lost its finalizer and left the Work behind.
		return "", nil
	}
	return name, nil
}

// isGone reports whether an owner of Works is really gone. The cache alone may be
// stale.
func (l *holderLook) isGone(ctx context.Context, owner render.Owner) (bool, error) {
	l.reading <- struct{}{}
	defer func() { <-l.reading }()
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
