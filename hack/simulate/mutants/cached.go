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

package main

// inCached are defects in what is known without asking the API server.
var inCached = []Mutant{
	{
		Name:  "after a conflict, a Work is deleted that Karmada has just applied",
		Theme: "races",
		Test:  "TestDeletionOfWhatWasJustApplied",
		Edits: one("propagation/removals.go", "Reconciler.deleteOurs", ` || observed.MustSettle(cluster, current)`, ``),
	},
	{
		Name:  "clusters that lose a Deployment keep it from being complete",
		Theme: "webhooks",
		Test:  "TestClustersThatLoseAResourceDoNotCount",
		Edits: one("propagation/template.go", "Reconciler.reports", ` || departs(work)`, ` || departs(work) && work.UID == "none"`),
	},
	{
		Name:  "a resource that its watch has not shown yet is not read again",
		Theme: "watches",
		Test:  "TestResourceThatItsWatchNeverShows",
		Edits: one("propagation/resource.go", "Reconciler.untilShown", `return decide.Sooner(poll, min(max(now.Sub(memory.unseen.since), unseenPoll), unseenMost))`, `return poll`),
	},
	{
		Name:  "what another owner has read of a Work counts after its end",
		Theme: "races",
		Test:  "TestAnswerAfterTheEnd",
		Edits: one("cached/ledger.go", "Ledger.Amend", ` || l.ends.precededBy(entry.work)`, ``),
	},
	{
		Name:  "the controller forgets what it has written until its cache shows it",
		Theme: "races",
		Why:   "writes are repeated, and lose to what was written before",
		Edits: one("cached/ledger.go", "Ledger.Amend", `works[key] = entry.work`, ``),
	},
	{
		Name:  "a Work that the cache does not show yet counts as shown",
		Theme: "races",
		Why:   "it is created again",
		Edits: one("cached/ledger.go", "caughtUp", "if cached == nil {\n\t\treturn false", "if cached == nil {\n\t\treturn true"),
	},
	{
		Name:  "a write that the cache never shows counts forever",
		Edits: one("cached/ledger.go", "Ledger.Amend", `isOld && !isDoubtful || `, ``),
	},
	{
		Name:  "a Work that the cache cannot show is forgotten",
		Theme: "webhooks",
		Test:  "TestStrippedWorkThatCannotBeWritten",
		Edits: one("cached/ledger.go", "Ledger.Amend", `isOld && !isDoubtful || `, `isOld || `),
	},
	{
		Name:  "the older of two versions wins",
		Theme: "races",
		Edits: one("cached/ledger.go", "isNewer", `order > 0`, `order < 0`),
	},
	{
		Name:  "an answer about kinds counts although a change has not settled",
		Theme: "kinds",
		Edits: one("cached/kinds.go", "servedVersion.fresh",
			`s.at.After(changed.Add(kindsSettle))`, `s.at.After(changed)`),
	},
	{
		Name:  "the client keeps the old mapping of a kind",
		Theme: "kinds",
		Edits: one("cached/kinds.go", "Kinds.learn", `k.client = nil`, ``),
	},
	{
		Name: "a subresource is taken for its resource",
		Edits: one("cached/kinds.go", "Kinds.ask",
			`strings.Contains(resource.Name, "/")`, `strings.Contains(resource.Name, "//")`),
	},
	{
		Name:  "the watch of a kind that nobody names anymore goes on",
		Theme: "kinds",
		Why:   "it leaks",
		Edits: one("cached/kindwatches.go", "Watches.Track", `r.release(user)`, ``),
	},
	{
		Name:  "the watch of a kind ends while another object names it",
		Theme: "kinds",
		Edits: one("cached/kindwatches.go", "Watches.release", `watch.users == 0`, `watch.users <= 1`),
	},
	{
		Name:  "a changed resource counts as unchanged",
		Theme: "races",
		Edits: one("cached/kindwatches.go", "Watches.Unchanged",
			` && metadata.ResourceVersion == version`, ``),
	},
	{
		Name:  "nobody is woken when the watch of a kind fails",
		Theme: "watches",
		Edits: one("cached/kindwatches.go", "Watches.failed", `if first {`, `if first && false {`),
	},
	{
		Name:  "nobody is woken when the watch of a kind works again",
		Theme: "watches",
		Edits: one("cached/kindwatches.go", "Watches.works", `if kind.told {`, `if false {`),
	},
	{
		Name:  "nobody is woken when a resource is deleted",
		Theme: "watches",
		Edits: one("cached/kindwatches.go", "Watches.start",
			`DeleteFunc: func(object any) { r.tell(resource, object, false) },`, ``),
	},
	{
		Name:  "Works are found by the UID of their owner only",
		Theme: "strangers",
		Why:   "a re-created object does not find the Works of its predecessor",
		Edits: one("cached/keys.go", "KeysOfWork", `OwnerKey(owner), `, ``),
	},
	{
		Name:  "Works are found by the name of their owner only",
		Theme: "strangers",
		Why:   "somebody may remove the annotations that name it",
		Edits: one("cached/keys.go", "KeysOfWork", `OwnerUIDKey(owner.UID), `, ``),
	},
	{
		Name:  "an object that selects clusters is not woken when one joins",
		Theme: "selectors",
		Edits: one("cached/keys.go", "KeysOf", `if spec.ClusterSelector != nil {`, `if false {`),
	},
	{
		Name:  "an object is not woken when its kind changes",
		Theme: "kinds",
		Edits: one("cached/keys.go", "KeysOf", `GroupKey(group), `, ``),
	},
	{
		Name:  "every cluster counts as serving what the first one serves",
		Theme: "kinds",
		Edits: []Edit{
			{"cached/clusters.go", "Clusters.hash", ``, "\nreturn uint64(len(enablements[:0]))\n"},
			{"cached/clusters.go", "Clusters.shared", `found && slices.EqualFunc(known, enablements, equalEnablement)`, `found`},
		},
	},
}
