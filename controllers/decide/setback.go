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

package decide

import (
	"errors"
	"fmt"
	"time"
)

// ErrChanged means that the API server accepted a write but stored something else.
// It will do so the next time, too.
var ErrChanged = errors.New("something changes the Work while it is written, mostly a mutating webhook of the Karmada API server; exclude Works, or the namespaces karmada-es-*, from it")

// Setback is a write that the API server has refused.
type Setback struct {
	// What should have been written. It does not hold back anything else.
	What string
	// Until is when it is tried again.
	Until time.Time
	Err   error
	// Count is how many times in a row it was refused.
	Count int
}

// refused returns the refusal because of which a write is not tried yet.
func (o *Observed) refused(slot, what string) (Setback, bool) {
	setback, found := o.Setbacks[slot]
	return setback, found && setback.What == what && setback.Until.After(o.Now)
}

// What distinguishes writes that may have different results.
func (w *Write) What(observed *Observed) string {
	return fmt.Sprint("write ", w.Rendering.Revision, " ", observed.Resource.UID, " ", observed.Generation)
}

// What distinguishes removals that may have different results.
func (r *Removal) What() string { return "remove " + string(r.Work.UID) }

// Slot is the key of the setbacks of writes for a cluster.
func (w *Write) Slot() string { return w.Target.Cluster }

// Slot is the key of the setbacks of a removal. A cluster may have several Works to
// remove in addition to one to write, and each can be refused separately.
func (r *Removal) Slot() string { return r.Cluster + "/" + string(r.Work.UID) }
