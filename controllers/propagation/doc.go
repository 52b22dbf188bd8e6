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

// Package propagation is the controller: it keeps one Work per cluster in the state
// that a propagation object asks for, and reports in the status of the object what
// the clusters have confirmed.
//
//	            ┌──────────── watches.go: triggers ─────────────────────┐
//	            ▼                                                       │
//	get ─► observe.go ─► decide.NewPlan ─► apply.go ─► decide.NewStatus ─► report.go
//	       all reads      pure              all writes   pure              one status write
//	       → Observed     → Plan            → Outcome    → PropagationStatus
//
// Invariants, each with a test:
//
//   - Nothing is deleted because a read failed. A missing resource, a kind that
//     is no longer served or a failed discovery leaves every Work unchanged.
//   - A Work that is not ours is neither written nor deleted. Every write has a
//     resourceVersion, every deletion a UID and a resourceVersion.
//   - A Work is removed from a cluster only after the Work that replaces it
//     there is written.
//   - A failing cluster delays no other cluster.
//   - applied is True only for a revision that the cluster has confirmed
//     (decide/evidence.go says what counts as proof).
//   - A dependency is not withdrawn until the dependencies of every object that
//     could require it are known.
//   - Nothing that is already right is written: not when idle, not after a
//     restart, not when another replica takes over.
//
// Field ownership: of a propagation object, the controller owns the finalizer and
// the status. Of its Works, it owns everything except what Karmada writes, namely
// the conditions and manifest statuses. Its only change to the status of a Work is
// to reset a confirmation before it changes the spec. Of the resource, it writes
// the status, aggregated from what the clusters report.
package propagation
