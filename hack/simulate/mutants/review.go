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

// reviewed are the defects that a review and tests on a fleet found in an early version
// of the controller.
var reviewed = []Mutant{
	{
		Name:  "a Namespace that Karmada synchronizes is taken over, and deleted on the members with the object",
		Theme: "namespaces",
		Edits: []Edit{
			{"decide/holder.go", "TakenOver", `controller != nil {`, `controller != nil && controller.Kind != "Namespace" {`},
			{"decide/holder.go", "TakenOver", `if render.IsRewritten(work) {`, `if false {`},
			{"decide/holder.go", "ClaimOf", `&& IsSynchronized(resource)`, `&& false`},
			{"render/work.go", "Renders", `manifest.Annotations[workv1alpha2.ResourceConflictResolutionAnnotation] != "" &&`, ``},
			{"propagation/removals.go", "Reconciler.remove", `if render.HoldsNamespace(removal.Work) {`, `if false {`},
		},
	},
	{
		Name:  "the Work of a Namespace that Karmada synchronizes is deleted rather than handed over",
		Theme: "namespaces",
		Why:   "the Namespace is deleted on the member with everything in it",
		Edits: one("propagation/removals.go", "Reconciler.remove",
			`if render.HoldsNamespace(removal.Work) {`, `if false {`),
	},
	{
		Name:  "a resource counts as unchanged while its watch fails",
		Theme: "watches",
		Edits: one("cached/kindwatches.go", "Watches.Unchanged",
			`watch.failure == nil && r.clock.Since(watch.recovered) > watchRecovery`, `watch.informer != nil`),
	},
	{
		Name:  "a kind keeps the version, scope and plural that it once had",
		Theme: "kinds",
		Edits: one("cached/kinds.go", "Kinds.Changed",
			`k.changed[group] = k.clock.Now()`, ``),
	},
	{
		Name:  "without permission to watch a kind, the last state counts as the current one",
		Theme: "watches",
		Edits: []Edit{
			{"propagation/resource.go", "Reconciler.watchState", ``, "\nreturn 0, nil\n"},
			{"cached/kindwatches.go", "Watches.Unchanged", `watch.failure == nil && `, ``},
		},
	},
	{
		Name:  "a Work outside of the execution namespaces blocks the deletion of an object",
		Theme: "strangers",
		Edits: one("cached/keys.go", "KeysOfWork",
			`if !render.IsExecutionSpace(work.GetNamespace()) {`, `if false {`),
	},
	{
		Name:  "a Work is released from the finalizers of others, too",
		Theme: "hanging",
		Edits: one("propagation/removals.go", "Reconciler.release",
			`return finalizer == util.ExecutionControllerFinalizer`, `return finalizer != ""`),
	},
	{
		Name:  "a write that is refused for one cluster holds up the removals on all",
		Theme: "webhooks",
		Edits: one("propagation/apply.go", "Reconciler.carryOut",
			`if result.Unwritten[removal.Cluster] {`, `if len(result.Unwritten)+len(plan.HeldBack) > 0 {`),
	},
	{
		Name:  "a refused write takes away all timers of the object",
		Theme: "webhooks",
		Edits: one("propagation/report.go", "Reconciler.next",
			`problem := observed.Resource.Problem`,
			"for _, err := range result.Failures {\nreturn ctrl.Result{}, err\n}\nproblem := observed.Resource.Problem"),
	},
	{
		Name:  "the object named before stays if its Work has the same name",
		Theme: "twins",
		Why:   "kinds with the same name in two groups, and names that differ only in case, have the same Work",
		Edits: one("decide/write.go", "Observed.holdsAnother", ``, "\nreturn false\n"),
	},
	{
		Name:  "overriders change what grants permissions",
		Test:  "TestGuardedKinds",
		Edits: one("customize/guarded.go", "guarded", ``, "\nreturn \"\"\n"),
	},
	{
		Name:  "a re-created resource never replaces the immutable object on the member",
		Theme: "renewal",
		Edits: one("decide/write.go", "wantsReplacement", ``, "\nreturn false\n"),
	},
	{
		Name:  "an object that holds data is deleted in order to replace it",
		Theme: "renewal",
		Edits: one("render/identity.go", "isIrreplaceable", ``, "\nreturn false\n"),
	},
	{
		Name:  "a Work that somebody has just taken over is deleted",
		Theme: "takeover",
		Why:   "a binding of a policy takes over a Work without changing its UID",
		Edits: one("propagation/removals.go", "Reconciler.deleteOurs",
			`client.Preconditions{UID: &work.UID, ResourceVersion: &work.ResourceVersion}`, `client.Preconditions{UID: &work.UID}`),
	},
	{
		Name:  "health counts although it was reported on the previous content",
		Theme: "rollouts",
		Edits: one("decide/floor.go", "healthSettles", ``, "\nreturn 0\n"),
	},
	{
		Name:  "a clock that is ahead by an hour delays the controller by an hour",
		Theme: "refusals",
		Edits: one("decide/retry.go", "remaining", `if left > 2*duration {`, `if false {`),
	},
	{
		Name:  "a preserved Work is released while its cluster cannot be reached",
		Theme: "outages",
		Why:   "Karmada's marks stay on the object, and a later object takes it over",
		Edits: one("decide/removal.go", "planEnd",
			`!state.Exists || !state.Ready {`, `!state.Exists {`),
	},
	{
		Name:  "a nudge does not change a Work that is suspended",
		Test:  "TestNudged",
		Edits: one("render/work.go", "Nudged", `return nil`, "if *work.Spec.SuspendDispatching {\nreturn work.Spec.SuspendDispatching\n}\nreturn nil"),
	},
	{
		Name:  "what a cluster refuses is never tried again",
		Theme: "refusals",
		Edits: one("decide/retry.go", "retryIn",
			`proof != Refused && proof != recreated`, `proof != recreated`),
	},
	{
		Name:  "the request of a user to try again is ignored",
		Theme: "refusals",
		Edits: one("decide/retry.go", "isRequested", ``, "\nreturn false\n"),
	},
	{
		Name:  "what a cluster refuses is tried again every few seconds forever",
		Theme: "refusals",
		Edits: one("decide/retry.go", "retryIn",
			`retryDelays[min(last.count, len(retryDelays)-1)]`, `retryDelays[0]`),
	},
	{
		Name:  "a True that Karmada's work status controller sets proves the current revision",
		Theme: "races",
		Edits: one("decide/evidence.go", "EvidenceOf",
			`case condition.Reason == reasonRecreated:`, `case false:`),
	},
	{
		Name:  "a rejected update after a reset loses the confirmed revision",
		Theme: "webhooks",
		Edits: one("decide/evidence.go", "notedRevision",
			`if reset != nil && reset.ObservedGeneration == work.Generation {`, `if reset != nil && false {`),
	},
	{
		Name:  "Overwrite that one object asks for spreads to the clusters of another",
		Theme: "dependencies",
		Edits: []Edit{
			{"dependency/object.go", "specOfDependency", `if overwriting > 0 && overwriting == len(asked) {`, `if overwriting > 0 {`},
			{"dependency/object.go", "specOfDependency", `return spec, asked`, `return spec, nil`},
		},
	},
	{
		Name: "a dependency in another namespace is propagated",
		Test: "TestAnObjectReachesItsOwnNamespace",
		Edits: one("dependency/followers.go", "OutOfReach",
			`case owner.Namespace == "" || owner.Namespace == dependency.Namespace:`, `case dependency.Name != "":`),
	},
	{
		Name:  "a Work that a webhook changes is written again and again",
		Theme: "webhooks",
		Edits: one("propagation/works.go", "Reconciler.asWritten",
			`return decide.ErrChanged`, `return nil`),
	},
	{
		Name:  "a row says Unhealthy without a detail",
		Theme: "rollouts",
		Edits: one("decide/health.go", "notHealthy",
			`detail != "" {`, `len(detail) > len(message)*100 {`),
	},
	{
		Name:  "a row quotes a refusal of a cluster without naming the remedy",
		Theme: "refusals",
		Edits: one("decide/refusals.go", "remedied", `groups == nil`, `len(groups) < 1000`),
	},
	{
		Name:  "an account propagates what it may not get",
		Theme: "permissions",
		Edits: one("propagation/permission.go", "Reconciler.reviewGet",
			`return r.reviews.ask(ctx, get, deniedFor)`, `return nil`),
	},
	{
		Name:  "what runs already is not repaired after a permission was revoked",
		Theme: "permissions",
		Edits: one("decide/denial.go", "Observed.Unreviewed",
			`case o.holds(o.Work(cluster), revision), confirmed[cluster] == revision:`, `case confirmed == nil:`),
	},
	{
		Name:  "control characters of a member reach the status",
		Theme: "refusals",
		Edits: one("legible/legible.go", "Text", ``, "\nreturn message\n"),
	},
	{
		Name: "what is remembered of an object for metrics outlives it",
		Test: "TestTimersOfGoneWorksAreRemoved",
		Why:  "it leaks",
		Edits: one("propagation/metrics.go", "gauges.forget",
			`delete(g.awaited, key)`, ``),
	},
}

// secondReview are the defects that a second review found, after the first ones had been
// fixed.
var secondReview = []Mutant{
	{
		Name:  "a conflict ends the removal of what a vanished object left behind",
		Theme: "vanishing",
		Edits: one("propagation/controller.go", "Reconciler.sweep",
			`next := decide.Sooner(decide.Sooner(plan.Wait, r.due(key, result)), r.unsettled(observed, result))`, "next := plan.Wait\n_ = result"),
	},
	{
		Name: "the ledger keeps what was deleted for a vanished object",
		Test: "TestGoneWorkConcernsItsOwner",
		Why:  "until it expires, a Work that is gone counts as one that is being deleted",
		Edits: one("propagation/watches.go", "Reconciler.onWork",
			`r.ledger.Gone(deleted.Object, owner.UID, vanished)`, "_ = vanished\nr.ledger.Gone(deleted.Object, owner.UID)"),
	},
	{
		Name:  "a Work is replaced although its cluster has accepted it meanwhile",
		Theme: "renewal",
		Edits: one("propagation/removals.go", "Reconciler.deleteOurs",
			` || why == decide.Replaced`, ``),
	},
	{
		Name: "the Work of a Namespace is deleted at a version that nobody has looked at",
		Test: "TestNamespaceIsObservedAgainAfterAConflict",
		Edits: one("propagation/removals.go", "Reconciler.remove",
			`if _, err := render.Compact(written); err != nil {`, `if err := error(nil); err != nil {`),
	},
	{
		Name:  "a deletion whose answer is lost counts as somebody else's",
		Theme: "races",
		Why:   "the Work is restored only after a delay",
		Edits: one("propagation/removals.go", "mayHaveSucceeded", ``, "\nreturn false\n"),
	},
	{
		Name: "after an outage, a kind is not looked up although it has changed",
		Test: "TestGroupThatChangesIsAskedAfterAFailure",
		Edits: one("cached/kinds.go", "Kinds.RESTMapping",
			`now.Before(served.until) && !changed.After(served.failed)`, `now.Before(served.until)`),
	},
	{
		Name: "a failing aggregation takes away all timers of the object",
		Test: "TestFailedAggregationKeepsTheTimers",
		Edits: one("propagation/report.go", "Reconciler.report",
			`return next, err`, "if r.memories.of(key).aggregation.failures > 0 {\nreturn ctrl.Result{}, errors.New(\"aggregation\")\n}\nreturn next, err"),
	},
}
