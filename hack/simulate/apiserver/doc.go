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

// Package apiserver simulates a Kubernetes API server in memory, at the level of HTTP.
// Clients of client-go and controller-runtime run on it unchanged: typed, dynamic,
// metadata and discovery clients, caches, leader election, Events.
//
// Somebody else decides what happens when. A request of a client that uses Transport
// is a Call in Pending until it is served, refused or dropped. Each watch is a Stream
// whose events wait until they are delivered, or until it is cut or expires. Client
// and Immediate are for those who take part in the simulation themselves: they are
// answered at once. The server starts no goroutines, reads no clock but Options.Now,
// and chooses nothing at random, so the same calls in the same order lead to the same
// answers, down to the UIDs. Only the order of Pending and Streams may be relied on,
// not the order in which requests came.
//
// In a synctest bubble, discovery is answered at once, because libraries ask for it
// while they hold locks, and a goroutine that waits for a lock keeps synctest.Wait from
// returning. Before the first bubble, set k8s.io/apimachinery/pkg/util/runtime's
// ErrorHandlers to nil: one of them compares times of the process with those of the
// bubble, which begin in the year 2000, and sleeps for decades.
//
// TestAnswersLikeKubeAPIServer compares the answers to more than 120 requests and the
// events of seven watches with those of a kube-apiserver. These differences are known:
//
//   - Managed fields are not kept. A write that would change nothing else has no effect.
//     Server-side apply is refused with 415.
//   - Built-in kinds get the defaults of the scheme, if any, and none of the validation
//     beyond metadata and types. Their names follow one rule, but for Namespaces and
//     RBAC. A status update changes nothing but the status. The stringData of Secrets
//     stays. Pods go at once. The two kinds of Events are stored separately.
//   - Updates never create objects, not even Leases.
//   - A CRD is established at once. All its versions show the same content; there are no
//     conversion webhooks. When it is deleted, its objects are deleted in the same moment.
//     CRDs that contradict each other or themselves are not refused, apart from schemas
//     that are not structural.
//   - When a CRD changes, watches of its kind end. The API server also ends them, but
//     later.
//   - A Namespace that is being deleted waits for FinishNamespace. Nobody collects
//     garbage; finalizers for foreground and orphaning deletion wait for an actor.
//   - Lists ignore limit and return everything. Watches ignore timeoutSeconds, which
//     clients choose at random; they end only if somebody ends them. Bookmarks come only
//     from Stream.Bookmark, apart from the one after the initial events.
//   - Fields other than metadata.name and metadata.namespace cannot be selected.
//   - Where the API server reports several violations of a schema in the order of a map,
//     they are sorted here.
//   - Everybody may do everything, apart from what Deny names. Answers are JSON, without
//     warnings; there are no tables, no OpenAPI, and no subresources but status.
package apiserver
