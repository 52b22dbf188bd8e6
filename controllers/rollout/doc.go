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

// Package rollout decides which cluster may get which revision of a resource, and
// when. It is pure: Decide gets what is observed, the recorded status and the time, and
// returns the new status, an assignment for each cluster, and what to report.
//
// A rollout brings the clusters from one revision to the next, stage by stage. The
// status has three revisions:
//
//   - the update revision is the one that the user requests;
//   - the current revision is the last one whose rollout is complete;
//   - the failed revision is not tried again before somebody requests it.
//
// A phase says what happens to the clusters:
//
//	Progressing   they get the update revision, stage by stage
//	Completed     they have it; clusters that come late get it too
//	Failed        too many have failed: nothing more starts
//	RollingBack   they return to the current revision
//	RolledBack    they have returned; clusters that come late do so too
//	Reverting     the user has requested the current revision again, and they return
//	StateLost     the status is lost, and every cluster keeps what it has
//
// A cluster changes its revision in a turn. While the turn is in progress, it takes one
// of the slots of the cluster's stage, of which there are maxConcurrency. It ends when
// the cluster has confirmed the revision and has been healthy for minReadySeconds. If
// that does not happen before the deadline, the cluster has failed, and its turn remains
// in the status, without a slot.
//
// The status has no record of clusters whose turn is over. A cluster without a turn is
// done if its Work has the update revision and the cluster has confirmed it.
//
// What is assigned to a cluster depends on nothing but the status and the cluster's
// Work (assign.go). The caller therefore must record the status first, guarded by its
// resourceVersion, and then write Works. If it is interrupted between the two, the next
// one continues where it was.
//
// decide.go has the steps of a decision, in order.
package rollout
