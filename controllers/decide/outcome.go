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
	"time"
)

// Outcome is the result of carrying out a plan, by cluster.
type Outcome struct {
	// Failures are the writes that the API server refused.
	Failures map[string]error
	// Holders is, by cluster, who holds a Work that should have been created.
	Holders map[string]string
	// Homeless means that a cluster has no execution namespace yet.
	Homeless bool
	// Retry means that something was not as observed: look again immediately.
	Retry bool
	// Due is when the first of the refused writes is tried again; the zero time if
	// none was refused.
	Due time.Time
	// Unwritten are the clusters whose Write was not made.
	Unwritten map[string]bool
	// Interrupted means that it was somebody else's turn before all of the plan was
	// carried out: continue soon.
	Interrupted bool
}
