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

// Package propagation is the controller: it keeps one Work per cluster equal
// to what a propagation object asks for, and its status equal to what the
// clusters have confirmed.
//
//	            ┌──────────── watches.go: what wakes it ────────────────┐
//	            ▼                                                       │
//	get ─► observe.go ─► decide.NewPlan ─► apply.go ─► decide.NewStatus ─► report.go
//	       all reads      pure              all writes   pure              one status write
//	       → Observed     → Plan            → Outcome    → PropagationStatus
//
// Invariants, each with a test:
//
//   - Nothing is deleted because a read failed. A missing resource, a vanished
//     kind or a failing discovery leaves every Work as it is.
//   - A Work that is not ours is neither written nor deleted. Every write
//     carries a resourceVersion, every deletion a UID and a resourceVersion.
//   - A Work is removed from a cluster only after the Work that replaces it
//     there is written.
//   - Trouble with one cluster delays no other.
//   - applied is True only for a revision that the cluster has confirmed
//     (decide/evidence.go says what counts as proof).
//   - What follows a resource is not withdrawn before it is known, of every
//     object, what it requires.
//   - What is already right is not written: not when idle, not after a restart,
//     not when another replica takes over.
//
// Who owns which field: of a propagation object the controller owns the
// finalizer and the status; of its Works all but what Karmada writes, namely
// the conditions and manifest statuses. The one thing it does to a Work's
// status is to take back a confirmation before it changes the spec. Of the
// resource it writes the status, aggregated from what the clusters report.
package propagation
