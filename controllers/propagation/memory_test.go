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
	"sync"
	"testing"
	"time"
)

// TestConflictsAreCheckedLessOften: the longer a conflict lasts, the less often it
// is checked. If its subject changes, it is a new conflict.
func TestConflictsAreCheckedLessOften(t *testing.T) {
	known := &memory{}
	held := map[string]string{"member1": "somebody"}
	known.foundHolders("a", held, now)
	for after, want := range map[time.Duration]time.Duration{0: minConflictPoll, time.Minute: 6 * time.Second, time.Hour: maxConflictPoll} {
		if _, _, poll := known.holders("a", now.Add(after)); poll != want {
			t.Errorf("after %v: a check every %v, want %v", after, poll, want)
		}
	}
	known.foundHolders("a", held, now.Add(time.Hour))
	if holders, stale, _ := known.holders("a", now.Add(time.Hour+time.Minute)); stale || holders["member1"] != "somebody" {
		t.Errorf("a minute after the check: %v, stale: %t", holders, stale)
	}
	if _, stale, poll := known.holders("b", now.Add(time.Hour+time.Minute)); !stale || poll != minConflictPoll {
		t.Errorf("a changed object: stale: %t, a check every %v", stale, poll)
	}
	known.foundHolders("a", nil, now)
	if known.conflict != nil {
		t.Errorf("a conflict that is over is remembered: %v", known.conflict)
	}
}

// TestHoldersAreAddedConcurrently: concurrent writes for many clusters may each
// find a Work that somebody else holds.
func TestHoldersAreAddedConcurrently(t *testing.T) {
	const clusters = 100
	now, known := time.Now(), &memory{}
	var group sync.WaitGroup
	for i := range clusters {
		group.Go(func() { known.metHolder("claim", fmt.Sprintf("member%d", i), "somebody", now) })
	}
	group.Wait()
	if holders, _, _ := known.holders("claim", now); len(holders) != clusters {
		t.Errorf("%d of %d holders are known", len(holders), clusters)
	}
}

func TestManyReportsAreBatched(t *testing.T) {
	known := &memory{}
	for size, want := range map[int]time.Duration{0: 0, 100: 0, 1000: 8 * time.Millisecond, 5000: 40 * time.Millisecond} {
		known.resized(size)
		if pause := known.pause(); pause != want {
			t.Errorf("%d clusters: a pause of %v, want %v", size, pause, want)
		}
	}
}
