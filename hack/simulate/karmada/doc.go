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

// Package karmada simulates Karmada v1.18.2 and its member clusters, as a writer of Works
// sees them. It knows nothing of the controller that writes the Works, nor of the API
// server that stores them: it acts through a client.Client.
//
// Nothing runs by itself, and nothing waits. A scheduler asks Karmada.Actions what the
// actors can do now, lets one of them do it, and asks again. An action does at most one
// write, so everything that can happen between two writes of a real controller can happen
// here. Karmada.NextDeadline says when the next retry, poll or timeout is due; the
// scheduler moves the clock. The same choices always make the same history.
//
//	karmada.go         Karmada: members, processes, Actions, NextDeadline
//	controller.go      controllers, whose passes are cut into steps; queue.go: back-off
//	journal.go         what has changed on the control plane, and who has seen how much
//	process.go         karmada-controller-manager and karmada-agent: caches and queues
//	status.go          writes of a status that meet conflicts
//	execution.go       the execution controller; withdrawal.go: when a Work is deleted
//	workstatus.go      the work status controller
//	objectwatcher.go   how both write to members; informers.go: what they cache of them
//	clusterstatus.go   whether a member is Ready; monitor.go: when its agent is silent
//	cluster.go         a Cluster comes and goes, and its execution namespace
//	namespacesync.go   Namespaces are sent to all members
//	binding.go         the Works of a policy; scheduler.go: clusters that leave
//	creation.go        how both of them write a Work
//	collector.go       namespaces are emptied, and what has no owner is deleted
//	commands.go        karmadactl unjoin and unregister
//	member.go          a member; memberapi.go: its API server; kinds.go, workload.go
//	objects.go         the webhook for Works; Clusters and bindings as Karmada makes them
//	trace.go           histories for the model and a real Karmada; operations.go, traces.go
//
// Each function that models one of Karmada names it. What Karmada exports and is pure is
// used as it is: names, constants, pruning, retention, status and health of the native
// interpreter, and CreateOrUpdateWork. Tests hold each fact and name its source. Traces
// are played on the model here and on a real Karmada in hack/e2e.
//
// # Simplifications
//
// Of the control plane:
//   - A view sees every change of a kind in order, one at a time. It does not skip changes,
//     except those between two calls of Actions, and never sees one twice: there is no
//     periodic resync. The views of different kinds are independent.
//   - Any key that is due may be handled next. Karmada prefers what is not from an initial
//     list.
//   - Pauses have no jitter.
//   - The detector and the scheduler are reduced to NewBinding and to the removal of
//     clusters that leave. Override policies, graceful eviction, dependencies, Jobs with
//     divided completions and MultiClusterServices are absent.
//   - The namespace sync controller handles one cluster after the other, not all at once.
//   - Leases are kept in memory. Events, metrics and taint managers are absent.
//   - karmadactl does what concerns Clusters and Works, not what concerns credentials.
//
// Of members:
//   - The interpreter is the native one. Third-party rules, customizations and webhooks of
//     users are absent.
//   - A request to a member that is cut off fails at once.
//   - A list of an informer is atomic. While it waits for its cache, the real work status
//     controller blocks all readers of the caches of that cluster for up to two minutes;
//     here, it blocks nobody.
//   - The member's API server fills in no defaults and checks no schema. It knows the
//     fields that are immutable in workloads, Jobs, ConfigMaps and Secrets, and no others.
//   - Rollouts take three steps. Pods, Jobs that finish, volumes and nodes are absent. What
//     an object owns on the member is not deleted with it.
//   - The agent of a pull member does not register its Cluster by itself, see NewCluster.
package karmada
