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

// ErrChanged says that the API server took a write and kept something else. It
// will the next time, too.
var ErrChanged = errors.New("something changes the Work while it is written, mostly a mutating webhook of the Karmada API server; exclude Works, or the namespaces karmada-es-*, from it")

// Setback is a write for a cluster that the API server has refused.
type Setback struct {
	// What was to be written; anything else is not held back by it.
	What string
	// Until is when it is tried again.
	Until time.Time
	Err   error
	// Count is how often in a row it was refused.
	Count int
}

// What tells writes apart that may fare differently.
func (w *Write) What(observed *Observed) string {
	return fmt.Sprint("write ", w.Rendering.Revision, " ", observed.Resource.UID, " ", observed.Generation)
}

// What tells removals apart that may fare differently.
func (r *Removal) What() string { return "remove " + string(r.Work.UID) }

// Slot is what the setbacks of writes for a cluster are kept under.
func (w *Write) Slot() string { return w.Target.Cluster }

// Slot is what the setbacks of a removal are kept under. A cluster may have several
// Works to remove, beside one to write, and each is refused for itself.
func (r *Removal) Slot() string { return r.Cluster + "/" + string(r.Work.UID) }
