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

package cached

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// LedgerTTL limits how long a write counts that the cache never shows: an object
// that was created and deleted between two lists is never shown. After it, a Work that
// the cache cannot show is read again.
const LedgerTTL = 30 * time.Second

// Ledger holds what this process has written until the cache shows it, so that no
// decision is based on data that is older than the process's own writes. Without it,
// every burst of events would repeat writes.
type Ledger struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	works map[types.UID]map[types.NamespacedName]ledgerEntry
	// objects are propagation objects as returned by their last write.
	objects map[types.NamespacedName]Object
	// deletions are Works of this kind that this process has deleted.
	deletions map[types.UID]bool
	// losses are Works of this kind that somebody else has deleted, with the time of
	// the deletion.
	losses map[types.NamespacedName]time.Time
	ends   ends
}

// ends are the resourceVersions at which Works vanished from the cache. An answer about one may
// arrive after that, and others than its owner may have read it. They are kept for LedgerTTL to
// twice that time, in two maps, so that dropping them costs nothing.
type ends struct {
	recent, older map[types.UID]string
	since         time.Time
}

// add records an end.
func (e *ends) add(work client.Object, now time.Time) {
	e.expire(now)
	if e.recent == nil {
		e.recent, e.since = map[types.UID]string{}, now
	}
	e.recent[work.GetUID()] = work.GetResourceVersion()
}

// expire drops what is too old.
func (e *ends) expire(now time.Time) {
	if (e.recent != nil || e.older != nil) && now.Sub(e.since) > LedgerTTL {
		e.recent, e.older, e.since = nil, e.recent, now
	}
}

// precededBy reports whether a Work was written before its end.
func (e *ends) precededBy(work client.Object) bool {
	version, ended := e.recent[work.GetUID()]
	if !ended {
		version, ended = e.older[work.GetUID()]
	}
	order, err := resourceversion.CompareResourceVersion(work.GetResourceVersion(), version)
	return ended && err == nil && order < 0
}

type ledgerEntry struct {
	work *workv1alpha1.Work
	at   time.Time
}

// NewLedger returns an empty Ledger.
func NewLedger(passive clock.PassiveClock) *Ledger {
	return &Ledger{
		clock:   passive,
		works:   map[types.UID]map[types.NamespacedName]ledgerEntry{},
		objects: map[types.NamespacedName]Object{},

		deletions: map[types.UID]bool{},
		losses:    map[types.NamespacedName]time.Time{},
	}
}

// Deleted records a Work that this process is about to delete.
func (l *Ledger) Deleted(owner types.UID, work *workv1alpha1.Work) error {
	left := work.DeepCopy()
	left.DeletionTimestamp = ptr.To(metav1.NewTime(l.clock.Now()))
	if err := l.Wrote(owner, left); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deletions[work.UID] = true
	return nil
}

// Wrote records a successful write: the Work as the API server returned it.
func (l *Ledger) Wrote(owner types.UID, work *workv1alpha1.Work) error {
	if _, err := render.Compact(work); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.works[owner] == nil {
		l.works[owner] = map[types.NamespacedName]ledgerEntry{}
	}
	l.works[owner][client.ObjectKeyFromObject(work)] = ledgerEntry{work: work, at: l.clock.Now()}
	return nil
}

// Amend updates cached Works to what was written, and forgets writes that the cache
// shows. It returns the old ones that the cache does not show, in order, because it is far
// behind, or because the Works have lost the label of the cached ones: only the API server
// knows what has become of those.
func (l *Ledger) Amend(owner types.UID, works map[types.NamespacedName]*workv1alpha1.Work) (doubtful []*workv1alpha1.Work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends.expire(l.clock.Now())
	for key, entry := range l.works[owner] {
		isOld := l.clock.Since(entry.at) > LedgerTTL
		isDoubtful := isOld && works[key] == nil
		if isOld && !isDoubtful || caughtUp(works[key], entry.work) || l.ends.precededBy(entry.work) {
			l.remove(owner, key)
			continue
		}
		works[key] = entry.work
		if isDoubtful {
			doubtful = append(doubtful, entry.work)
		}
	}
	slices.SortFunc(doubtful, func(a, b *workv1alpha1.Work) int { return strings.Compare(a.Namespace, b.Namespace) })
	return doubtful
}

// isLabeled reports whether a Work has the label of the cached ones.
func isLabeled(work *workv1alpha1.Work) bool {
	_, found := work.Labels[propagationv1alpha1.OwnerUIDLabel]
	return found
}

// Forget forgets what was written to a Work.
func (l *Ledger) Forget(owner types.UID, work client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(owner, work)
}

// Pending reports whether the cache does not show all writes yet.
func (l *Ledger) Pending(owner types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.works[owner]) > 0
}

// maxLosses is how many losses are kept before expired ones are dropped.
const maxLosses = 1000

// NotDeleted takes back what Deleted has recorded after the deletion has failed. If it
// may have succeeded all the same, the Work still counts as deleted by this process
// when it vanishes. One that the cache cannot show is read again.
func (l *Ledger) NotDeleted(owner types.UID, work client.Object, perhaps bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(work)
	if entry, found := l.works[owner][key]; found && entry.work.UID == work.GetUID() && !isLabeled(entry.work) {
		kept := entry.work.DeepCopy()
		kept.DeletionTimestamp = nil
		l.works[owner][key] = ledgerEntry{work: kept}
	} else {
		l.drop(owner, work)
	}
	if !perhaps {
		delete(l.deletions, work.GetUID())
	}
}

// drop drops what was written to a Work.
func (l *Ledger) drop(owner types.UID, work client.Object) {
	key := client.ObjectKeyFromObject(work)
	if entry, found := l.works[owner][key]; found && entry.work.UID == work.GetUID() {
		l.remove(owner, key)
	}
}

// remove removes an entry, and the map of an owner that has none left.
func (l *Ledger) remove(owner types.UID, key types.NamespacedName) {
	if delete(l.works[owner], key); len(l.works[owner]) == 0 {
		delete(l.works, owner)
	}
}

// Ended records at which version a Work has vanished from the cache, whoever it belongs to.
// What any owner has recorded of it before is no longer valid.
func (l *Ledger) Ended(work client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends.add(work, l.clock.Now())
}

// Gone records that a Work has vanished from the cache: what was written to it, for
// any of the given owners, is no longer valid.
func (l *Ledger) Gone(work client.Object, owners ...types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, owner := range owners {
		l.drop(owner, work)
	}
	key := client.ObjectKeyFromObject(work)
	if l.deletions[work.GetUID()] {
		delete(l.deletions, work.GetUID())
		return
	}
	if len(l.losses) >= maxLosses {
		maps.DeleteFunc(l.losses, func(_ types.NamespacedName, at time.Time) bool { return l.clock.Since(at) > LedgerTTL })
	}
	l.losses[key] = l.clock.Now()
}

// Disown drops what was written to a Work that now has another owner.
func (l *Ledger) Disown(owner types.UID, work client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(work)
	if entry, found := l.works[owner][key]; found && isNewer(work, entry.work) {
		l.remove(owner, key)
	}
}

// Lost returns when somebody else deleted a Work; the zero time if nobody has
// recently.
func (l *Ledger) Lost(key types.NamespacedName) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.losses[key]
}

// caughtUp reports whether the cache shows a write. A missing Work may not have
// arrived yet; Gone records that it is gone.
func caughtUp(cached, written *workv1alpha1.Work) bool {
	if cached == nil {
		return false
	}
	if cached.UID != written.UID {
		// Another Work with the same name: the younger one is the one that exists.
		return isNewer(cached, written)
	}
	if written.DeletionTimestamp != nil {
		return cached.DeletionTimestamp != nil
	}
	return cached.ResourceVersion == written.ResourceVersion || isNewer(cached, written)
}

// isNewer reports whether a was written after b.
func isNewer(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err != nil || order > 0
}

// WroteObject records a successful write of a propagation object: the object as the
// API server returned it.
func (l *Ledger) WroteObject(object Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects[client.ObjectKeyFromObject(object)] = object
}

// Newest returns the newer of a cached propagation object and what was
// written to it.
func (l *Ledger) Newest(cached Object) Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(cached)
	written, found := l.objects[key]
	if !found {
		return cached
	}
	if written.GetUID() == cached.GetUID() && isNewer(written, cached) {
		copied, _ := written.DeepCopyObject().(Object)
		return copied
	}
	delete(l.objects, key)
	return cached
}

// Shown drops what was written to a propagation object once the cache shows it, so
// that idle objects take no memory here.
func (l *Ledger) Shown(cached client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(cached)
	if written, found := l.objects[key]; found && !isNewer(written, cached) {
		delete(l.objects, key)
	}
}

// ForgetObject drops what was written to a propagation object.
func (l *Ledger) ForgetObject(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.objects, key)
}
