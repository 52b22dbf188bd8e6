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
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// now is the time of tests with a fixed clock.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func versioned(uid, version string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: "karmada-es-member1", Name: "web", UID: types.UID(uid), ResourceVersion: version,
		Labels: map[string]string{propagationv1alpha1.OwnerUIDLabel: "owner"},
	}}
}

// stripped is the Work of UID a without the label of the cached ones.
func stripped(version string) *workv1alpha1.Work {
	work := versioned("a", version)
	work.Labels = nil
	return work
}

// deletion is the Work of UID a while it is being deleted.
func deletion(version string) *workv1alpha1.Work {
	work := versioned("a", version)
	work.DeletionTimestamp = ptr.To(metav1.Now())
	return work
}

// ledgerCases are writes, what the cache then shows, and what counts.
var ledgerCases = map[string]struct {
	written, cached *workv1alpha1.Work
	later           time.Duration
	gone            *workv1alpha1.Work
	want            string
	pending         bool
	doubtful        bool
}{
	"created, not shown":           {written: versioned("a", "10"), want: "10", pending: true},
	"updated, not shown":           {written: versioned("a", "10"), cached: versioned("a", "9"), want: "10", pending: true},
	"shown":                        {written: versioned("a", "10"), cached: versioned("a", "10"), want: "10"},
	"overtaken":                    {written: versioned("a", "10"), cached: versioned("a", "11"), want: "11"},
	"longer numbers are newer":     {written: versioned("a", "99"), cached: versioned("a", "100"), want: "100"},
	"replaced by another":          {written: versioned("a", "10"), cached: versioned("b", "11"), want: "11"},
	"replaces another":             {written: versioned("b", "11"), cached: versioned("a", "10"), want: "11", pending: true},
	"deletion not shown":           {written: deletion("10"), cached: versioned("a", "10"), want: "10 deleting", pending: true},
	"deletion overtaken by status": {written: deletion("10"), cached: versioned("a", "11"), want: "10 deleting", pending: true},
	"deletion shown":               {written: deletion("10"), cached: deletion("11"), want: "11 deleting"},
	"gone":                         {written: deletion("10"), gone: versioned("a", "12"), want: ""},
	"another is gone":              {written: versioned("b", "13"), gone: versioned("a", "12"), want: "13", pending: true},
	"not shown for long":           {written: versioned("a", "10"), later: time.Minute, want: "10", pending: true, doubtful: true},
	"cannot be shown":              {written: stripped("10"), later: time.Minute, want: "10", pending: true, doubtful: true},
	"cannot be shown, and is new":  {written: stripped("10"), later: time.Second, want: "10", pending: true},
	"shown with its label again":   {written: stripped("10"), cached: versioned("a", "11"), later: time.Minute, want: "11"},
}

// TestLedger: what was written counts until the cache shows it, and no longer.
func TestLedger(t *testing.T) {
	key := types.NamespacedName{Namespace: "karmada-es-member1", Name: "web"}
	for name, tc := range ledgerCases {
		t.Run(name, func(t *testing.T) {
			passive := clocktesting.NewFakePassiveClock(now)
			ledger := NewLedger(passive)
			if err := ledger.Wrote("owner", tc.written); err != nil {
				t.Fatal(err)
			}
			if tc.gone != nil {
				ledger.Gone(tc.gone, "owner")
			}
			passive.SetTime(now.Add(tc.later))
			works := map[types.NamespacedName]*workv1alpha1.Work{}
			if tc.cached != nil {
				works[key] = tc.cached
			}
			doubtful := ledger.Amend("owner", works)
			got := ""
			if work := works[key]; work != nil {
				got = work.ResourceVersion
				if work.DeletionTimestamp != nil {
					got += " deleting"
				}
			}
			if (len(doubtful) > 0) != tc.doubtful {
				t.Errorf("to be read again: %v", doubtful)
			}
			if got != tc.want || ledger.Pending("owner") != tc.pending {
				t.Errorf("amend() gives %q, pending %t; want %q, %t", got, ledger.Pending("owner"), tc.want, tc.pending)
			}
		})
	}
}

// Only what this process deletes is its own deletion: a nudge of a deletion that
// somebody else has started is not.
func TestLossesAreOfOthers(t *testing.T) {
	leaving := versioned("a", "10")
	leaving.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	for name, tc := range map[string]struct {
		write func(*Ledger) error
		lost  bool
	}{
		"deleted by this process":                  {func(l *Ledger) error { return l.Deleted("owner", versioned("a", "9")) }, false},
		"deleted without an answer":                {notDeleted(true), false},
		"deleted by somebody else after a refusal": {notDeleted(false), true},
		"deleted by somebody else":                 {func(*Ledger) error { return nil }, true},
		"deleted by somebody else, and written to": {func(l *Ledger) error { return l.Wrote("owner", leaving) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := NewLedger(clocktesting.NewFakePassiveClock(now))
			if err := tc.write(ledger); err != nil {
				t.Fatal(err)
			}
			ledger.Gone(leaving, "owner")
			if lost := !ledger.Lost(client.ObjectKeyFromObject(leaving)).IsZero(); lost != tc.lost {
				t.Errorf("lost is %t, want %t", lost, tc.lost)
			}
		})
	}
}

// notDeleted is a deletion that fails, perhaps after it has taken effect.
func notDeleted(perhaps bool) func(*Ledger) error {
	return func(l *Ledger) error {
		work := versioned("a", "9")
		if err := l.Deleted("owner", work); err != nil {
			return err
		}
		if l.NotDeleted("owner", work, perhaps); l.Pending("owner") {
			return errors.New("the deletion still counts")
		}
		return nil
	}
}

// What was written under another owner is dropped with the Work, too.
func TestGoneConcernsAllOwners(t *testing.T) {
	ledger := NewLedger(clocktesting.NewFakePassiveClock(now))
	if err := ledger.Deleted("vanished", versioned("a", "9")); err != nil {
		t.Fatal(err)
	}
	if ledger.Gone(versioned("a", "10"), "owner", "vanished"); ledger.Pending("vanished") {
		t.Error("a Work that is gone is still pending")
	}
	if len(ledger.works) != 0 {
		t.Errorf("left: %v", ledger.works)
	}
}

// What is read or written before a Work vanishes does not count after that, also if the
// answer arrives later, or another owner has asked.
func TestAnswerAfterTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		written *workv1alpha1.Work
		later   time.Duration
		counts  bool
	}{
		"written before the end":          {versioned("a", "10"), 0, false},
		"written before, answered late":   {deletion("10"), LedgerTTL + time.Second, false},
		"another Work with the same name": {versioned("b", "10"), 0, true},
		"written since it lost its label": {versioned("a", "13"), 0, true},
		"after the end is forgotten":      {versioned("a", "10"), 2*LedgerTTL + 5*time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			passive := clocktesting.NewFakePassiveClock(now)
			ledger := NewLedger(passive)
			ledger.Ended(versioned("a", "12"))
			for at := time.Duration(0); at <= tc.later; at += time.Second {
				passive.SetTime(now.Add(at))
				ledger.Ended(versioned("c", "13"))
			}
			if err := ledger.Wrote("another owner", tc.written); err != nil {
				t.Fatal(err)
			}
			works := map[types.NamespacedName]*workv1alpha1.Work{}
			if ledger.Amend("another owner", works); (len(works) > 0) != tc.counts || ledger.Pending("another owner") != tc.counts {
				t.Errorf("it counts: %v, want %t", works, tc.counts)
			}
		})
	}
}

func TestLedgerOfObjects(t *testing.T) {
	at := func(version string) Object {
		object := &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "ours"}}
		object.ResourceVersion = version
		return object
	}
	ledger := NewLedger(clocktesting.NewFakePassiveClock(now))
	ledger.WroteObject(at("10"))
	if got := ledger.Newest(at("9")).GetResourceVersion(); got != "10" {
		t.Errorf("newest() gives %s although 10 was written", got)
	}
	ledger.Shown(at("9"))
	if got := ledger.Newest(at("9")).GetResourceVersion(); got != "10" {
		t.Errorf("newest() gives %s although the cache has not shown 10", got)
	}
	ledger.Shown(at("10"))
	if len(ledger.objects) != 0 {
		t.Error("what the cache shows must not be kept twice")
	}
	if got := ledger.Newest(at("11")).GetResourceVersion(); got != "11" {
		t.Errorf("newest() gives %s", got)
	}
}
