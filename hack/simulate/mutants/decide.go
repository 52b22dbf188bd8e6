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

// inDecide are defects in what proves something, and in what the status says.
var inDecide = []Mutant{
	{
		Name:  "a taint withdraws what a cluster has",
		Theme: "taints",
		Edits: one("decide/selection.go", "Observed.Select", `if !stays[name] && !lost(name) {`, `if !stays[name] || !lost(name) {`),
	},
	{
		Name:  "what is about to be written again does not stay on a tainted cluster",
		Theme: "taints",
		Test:  "TestTaintsKeepClustersOut",
		Edits: one("decide/selection.go", "Observed.staying", `if row := &o.Status.Clusters[i]; row.Revision != ""`, `if row := &o.Status.Clusters[i]; row.Revision == "none"`),
	},
	{
		Name:  "a cluster that is left out counts for Ready",
		Theme: "taints",
		Edits: one("decide/status.go", "StatusAndRows", `status.Conditions = conditionsOf(observed, rows[:targets], rows[targets:])`,
			"status.Conditions = conditionsOf(observed, append(slices.Clone(rows[:targets]), leftOutRows(observed, rows[targets:])...), rows[targets:])"),
	},
	{
		Name:  "a process believes an older cache than that of its predecessor",
		Theme: "successors",
		Test:  "TestSuccessorWithAnOldObject",
		Edits: one("propagation/observe.go", "Reconciler.succeeds", `len(observed.Works) == 0 {`, `len(observed.Works) == 0 || r.Live != nil {`),
	},
	{
		Name:  "more attempts are asked for while Karmada has many others to make",
		Theme: "silence",
		Test:  "TestOverdueReport",
		Edits: one("decide/reported.go", "Observed.patience", `return time.Duration(o.Unreported) * reportCost`, `return 0`),
	},
	{
		Name:  "a row goes back to an earlier revision when Karmada has created the object again",
		Theme: "races",
		Test:  "TestRevisionStaysAfterAnotherAttempt",
		Edits: one("decide/evidence.go", "Observed.confirmedOn", `if row != nil && `, `if row == nil && `),
	},
	{
		Name:  "an attempt before a loss of contact proves what is reported after it",
		Theme: "silence",
		Test:  "TestAttemptBeforeContactWasLost",
		Edits: one("decide/evidence.go", "mayRunOn", ``, "\nreturn false\n"),
	},
	{
		Name:  "a Work without an answer from its cluster is deleted at once",
		Theme: "races",
		Test:  "TestRemovalOfWhatFailed",
		Edits: one("decide/removal.go", "Observed.settles", ` || isWithoutAnswer(applied.Message)`, ``),
	},
	{
		Name:  "a Work to preserve holds a leaving cluster",
		Theme: "leaving",
		Test:  "TestWorkHoldsALeavingCluster",
		Edits: one("decide/plan.go", "planLeaving", ``, "\nreturn\n"),
	},
	{
		Name:  "a Deployment is available whatever its clusters report",
		Theme: "rollouts",
		Edits: one("decide/deployment.go", "progress.isAvailable", `.AvailableReplicas >= `, `.AvailableReplicas+1000 >= `),
	},
	{
		Name:  "a Deployment without progress never fails",
		Theme: "rollouts",
		Test:  "TestDeploymentMissesItsDeadline",
		Edits: one("decide/deployment.go", "progress.await", `return last.LastUpdateTime.Add(allowed)`, `return time.Time{}`),
	},
	{
		Name:  "a Deployment is complete although a cluster has no Work of it",
		Theme: "rollouts",
		Test:  "TestDeploymentOnLateClusters",
		Edits: one("decide/deployment.go", "progress.behind", `behind := slices.Clone(p.Missing)`, `var behind []string`),
	},
	{
		Name:  "a Deployment is never complete",
		Theme: "rollouts",
		Edits: one("decide/deployment.go", "progress.judge", `len(behind) == 0:`, `len(behind) < 0:`),
	},
	{
		Name:  "a True of an attempt at an older spec proves the current one",
		Theme: "races",
		Edits: one("decide/evidence.go", "EvidenceOf", `case dispatched < 0:`, `case false:`),
	},
	{
		Name:  "a True proves the current spec although it is unknown which attempt set it",
		Theme: "races",
		Edits: one("decide/evidence.go", "EvidenceOf", `case dispatched > applied:`, `case false:`),
	},
	{
		Name:  "an attempt that the member has not answered counts as a success",
		Theme: "silence",
		Edits: one("decide/evidence.go", "tookTooLong", `return !began.IsZero() && applied.LastTransitionTime.Sub(began) >= answerTime`, `_ = began`+"\nreturn false"),
	},
	{
		Name:  "when contact was lost counts as when it was regained",
		Theme: "silence",
		Test:  "TestLossOfContactIsNoContact",
		Edits: one("decide/observed.go", "Cluster.readySince", `if !c.Ready {`, `if false {`),
	},
	{
		Name:  "a True over one that proves nothing keeps its time",
		Theme: "silence",
		Test:  "TestNewPlan",
		Edits: one("decide/write.go", "prove", `write.Reset = write.Nudge && proof == recreated`, ``),
	},
	{
		Name:  "when an attempt began is forgotten when dispatching is suspended",
		Theme: "silence",
		Test:  "TestAttemptThatEndsSuspended",
		Edits: one("decide/evidence.go", "attemptingSince", `return began.UTC().Format(time.RFC3339)`, `_ = began`+"\nreturn \"\""),
	},
	{
		Name:  "the conditions of the last attempt stay when the content changes",
		Edits: one("decide/evidence.go", "WantsReset", ``, "\nreturn false\n"),
	},
	{
		Name:  "a reset leaves the condition Dispatching",
		Theme: "races",
		Edits: one("decide/evidence.go", "ResetConditions",
			`case workv1alpha1.WorkApplied, workv1alpha1.WorkDispatching, `, `case workv1alpha1.WorkApplied, `),
	},
	{
		Name:  "a reset that no spec followed is not repaired",
		Theme: "races",
		Why:   "Karmada attempts nothing, so the row stays Applying",
		Edits: one("decide/evidence.go", "attemptMissing", ``, "\nreturn false\n"),
	},
	{
		Name:  "a report on any generation proves a Work that was written without a reset",
		Theme: "rollouts",
		Edits: one("decide/reported.go", "reported", `reports && generation == render.TemplateGeneration(work)`, `reports && generation > 0`),
	},
	{
		Name:  "a Work is written without a reset although its generation stays",
		Theme: "rollouts",
		Edits: one("decide/reported.go", "willBeReported", `generation > render.HighestGeneration(work)`, `generation >= render.HighestGeneration(work)`),
	},
	{
		Name:  "a Work is written without a reset although its cluster has had that generation before",
		Theme: "stages",
		Test:  "TestReportsBeforeAReturn",
		Edits: one("decide/reported.go", "willBeReported", `generation > render.HighestGeneration(work)`, `generation > render.TemplateGeneration(work)`),
	},
	{
		Name:  "health that was reported for an older generation counts",
		Theme: "rollouts",
		Edits: one("decide/evidence.go", "healthOf",
			`reported && generation != render.TemplateGeneration(work)`, `reported && generation < 0`),
	},
	{
		Name:  "the health floor does not count a change that is still to be reported",
		Theme: "rollouts",
		Edits: one("decide/floor.go", "NextFloor",
			`strconv.FormatInt(generation+1, 10)`, `strconv.FormatInt(generation, 10)`),
	},
	{
		Name:  "a new template ends the count of writes that are still to be reported",
		Theme: "rollouts",
		Test:  "TestHealthAfterReplicasChange",
		Edits: one("decide/floor.go", "PassedFloor", `return passedFloor + strconv.FormatInt(generation, 10)`, `_ = generation`),
	},
	{
		Name:  "a report at the health floor counts as one above it",
		Theme: "rollouts",
		Edits: one("decide/floor.go", "exceeds", `generation > least`, `generation >= least`),
	},
	{
		Name:  "health of the previous revision settles that of the current one",
		Theme: "rollouts",
		Edits: one("decide/floor.go", "isSettled",
			`row.Revision == render.Revision(work) &&`, ``),
	},
	{
		Name:  "the detail of Unhealthy swaps available and desired replicas",
		Theme: "rollouts",
		Edits: one("decide/health.go", "scaledAilment",
			`fmt.Sprintf("%d of %d replicas available", report.AvailableReplicas, wanted)`, `fmt.Sprintf("%d of %d replicas available", wanted, report.AvailableReplicas)`),
	},
	{
		Name:  "a cluster that cannot be reached has a row as if it could",
		Theme: "outages",
		Edits: one("decide/rows.go", "rowOf", `case !cluster.Ready:`, `case false:`),
	},
	{
		Name: "a row is True for an older revision of the resource",
		Edits: one("decide/rows.go", "workRow",
			`render.Revision(work) != observed.Resource.On(name).Revision`, `render.Revision(work) == ""`),
	},
	{
		Name: "the transition time of a row moves although nothing has changed",
		Why:  "each reconcile writes the status",
		Edits: one("decide/rows.go", "bounded",
			`rows[i].LastTransitionTime = old.LastTransitionTime`, `rows[i].LastTransitionTime = metav1.NewTime(observed.Now).Rfc3339Copy()`),
	},
	{
		Name:  "a cluster that is still to be cleaned up has no row",
		Theme: "outages",
		Edits: one("decide/rows.go", "removalRows",
			`!observed.Targeted(name) && name != last`, `!observed.Targeted(name) && name == last`),
	},
	{
		Name: "an object is Ready although clusters report it unhealthy",
		Edits: one("decide/status.go", "verdict",
			` && row.Health == propagationv1alpha1.HealthHealthy`, ``),
	},
	{
		Name:  "an object is Ready as soon as one cluster is",
		Edits: one("decide/status.go", "verdict", `len(trouble) == 0 &&`, `len(trouble) < len(targets) &&`),
	},
	{
		Name:  "an object stays Ready while its resource cannot be read",
		Theme: "watches",
		Edits: one("decide/status.go", "verdict",
			`problem := observed.Resource.Problem; problem != nil {`, `problem := observed.Resource.Problem; problem != nil && problem.Err == nil {`),
	},
	{
		Name:  "clusters are withdrawn because the caches are of different ages",
		Theme: "staged fleets",
		Test:  "TestCachesOfDifferentAges",
		Edits: one("decide/observed.go", "Observed.Withdraws", `return true`, `continue`),
	},
	{
		Name:  "an object without any selected cluster is Ready",
		Theme: "selectors",
		Edits: one("decide/status.go", "verdict", `len(targets) == 0`, `len(targets) < 0`),
	},
	{
		Name:  "the summary counts a failed cluster as pending",
		Theme: "refusals",
		Edits: one("decide/status.go", "summarize", `failed++`, `pending++`),
	},
	{
		Name:  "Stalled stays after the mistake is corrected",
		Theme: "selectors",
		Edits: one("decide/status.go", "conditionsOf", `if !stalled {`, `if false {`),
	},
	{
		Name: "the status names the generation before",
		Edits: one("decide/status.go", "StatusAndRows",
			`ptr.To(observed.Generation)`, `ptr.To(max(1, observed.Generation-1))`),
	},
	{
		Name:  "each attempt counts as the first one",
		Theme: "refusals",
		Why:   "the time between attempts does not grow",
		Edits: one("decide/retry.go", "retryNotes",
			`notes := map[string]string{propagationv1alpha1.AttemptsAnnotation: last.next(observed.Now)}`,
			`notes := map[string]string{propagationv1alpha1.AttemptsAnnotation: (attempts{}).next(observed.Now)}`),
	},
	{
		Name:  "a resource that does not exist counts as one that cannot be read",
		Theme: "watches",
		Why:   "the row says Applying forever",
		Edits: one("decide/rows.go", "absentRow",
			`problem.Reason == propagationv1alpha1.ReasonResourceNotFound ||`, ``),
	},
}

// inPlans are defects in what is done.
var inPlans = []Mutant{
	{
		Name:  "an object gets no finalizer",
		Edits: one("decide/plan.go", "NewPlan", `plan.AddFinalizer = !observed.HasFinalizer`, ``),
	},
	{
		Name:  "a Work is written for a cluster that is being unregistered",
		Theme: "leaving",
		Edits: one("decide/plan.go", "planTarget", `!cluster.Exists || cluster.Terminating`, `!cluster.Exists`),
	},
	{
		Name:  "a refused write is not made after its delay",
		Theme: "webhooks",
		Edits: one("decide/setback.go", "Observed.refused",
			`setback.Until.After(o.Now)`, `!setback.Until.After(o.Now)`),
	},
	{
		Name: "a Work that somebody else has deleted is not restored",
		Edits: one("decide/plan.go", "restores",
			`return max(0, at.Add(restoreDelay).Sub(observed.Now))`, "_ = at\nreturn restoreDelay"),
	},
	{
		Name:  "the old object goes before the Work of the new one exists",
		Theme: "selectors",
		Why:   "if the new resource does not exist, the cluster has neither",
		Edits: one("decide/removal.go", "mayGo",
			`return observed.Works[wanted] != nil ||`, `return wanted.Name != "" ||`),
	},
	{
		Name:  "a Work is removed before the one that replaces it is written",
		Theme: "webhooks",
		Edits: one("propagation/apply.go", "Reconciler.carryOut",
			`if result.Unwritten[removal.Cluster] {`, `if false {`),
	},
	{
		Name:  "the finalizer goes while clusters are still being cleaned up",
		Theme: "outages",
		Edits: one("decide/removal.go", "planDeletion",
			`if !reachable && (!unreachable || observed.Abandon) {`, `if reachable || !unreachable || observed.Abandon {`),
	},
	{
		Name:  "a cluster that cannot be reached is abandoned although nobody asked for it",
		Theme: "outages",
		Edits: one("decide/removal.go", "planDeletion",
			`(!unreachable || observed.Abandon)`, `(!unreachable || unreachable)`),
	},
	{
		Name:  "a Work is deleted before Karmada can see its object",
		Theme: "races",
		Why:   "Karmada releases the Work, and the object stays on the member",
		Edits: one("decide/removal.go", "Observed.settles", ``, "\nreturn 0\n"),
	},
	{
		Name:  "the Work decides what stays on the member, although the spec has changed",
		Theme: "vanishing",
		Edits: one("decide/removal.go", "planRemoval",
			`if preserve != ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) {`, `if false {`),
	},
	{
		Name: "a withdrawn object stays if it should go, and goes if it should stay",
		Edits: one("decide/removal.go", "Observed.Keeps",
			`return ptr.Deref(o.Spec.PreserveResourcesOnDeletion, false)`, `return !ptr.Deref(o.Spec.PreserveResourcesOnDeletion, false)`),
	},
	{
		Name:  "a deletion is not nudged when its cluster is reachable again",
		Theme: "outages",
		Edits: one("decide/removal.go", "planEnd", `if contactRegained(state, work) {`, `if false {`),
	},
	{
		Name:  "a preserved Work whose deletion hangs is never released",
		Theme: "hanging",
		Edits: one("decide/removal.go", "planEnd",
			`plan.remove(observed, Removal{Cluster: cluster, Work: work, Release: true, Why: DeletionHangs})`, ``),
	},
	{
		Name:  "a Work is restored at once while its cluster is being unregistered",
		Theme: "leaving",
		Why:   "karmadactl unregister gives up unless it finds no Works",
		Edits: one("decide/write.go", "planWork",
			`case work == nil && restores(observed, target.Cluster) > 0:`, `case false:`),
	},
	{
		Name:  "only a new revision changes an existing Work",
		Why:   "suspending, preserving and lost labels have no effect",
		Edits: one("decide/write.go", "planWrite", `case deviates(work, observed.Owner, target):`, `case false:`),
	},
	{
		Name:  "suspending has no effect while the resource is missing or cannot be read",
		Theme: "watches",
		Edits: one("decide/plan.go", "planTarget", "false)\n\t\t}\n\t\tplanStanding(observed, plan, target, work)", "false)\n\t\t}"),
	},
	{
		Name:  "a True of an older attempt is never resolved",
		Theme: "races",
		Edits: one("decide/write.go", "prove", `case proof == premature:`, `case false:`),
	},
	{
		Name:  "a True of an unknown attempt is never resolved",
		Theme: "races",
		Edits: one("decide/write.go", "prove", `case isUnproven(proof):`, `case false:`),
	},
	{
		Name:  "a nudge ends a suspension",
		Theme: "outages",
		Edits: one("decide/write.go", "prove", `case ptr.Deref(work.Spec.SuspendDispatching, false):`, `case false:`),
	},
	{
		Name:  "an unproven True ends a suspension",
		Theme: "races",
		Why:   "the cluster gets what the user holds back",
		Edits: one("decide/write.go", "wantProof", `write.Nudge = !ptr.Deref(work.Spec.SuspendDispatching, false)`, `write.Nudge = true`),
	},
	{
		Name:  "a Work is not nudged when its cluster is reachable again",
		Theme: "outages",
		Edits: one("decide/write.go", "wantsNudge",
			`case proof != Confirmed && contactRegained(observed.Clusters[target.Cluster], work):`, `case false:`),
	},
	{
		Name:  "suspending does not reach an existing Work",
		Theme: "dependencies",
		Edits: one("decide/write.go", "deviatesInTerms",
			`ptr.Deref(work.Spec.SuspendDispatching, false) != target.Suspend ||`, `false ||`),
	},
	{
		Name:  "a re-created resource is deleted on the members although they accept it",
		Theme: "renewal",
		Edits: one("decide/write.go", "wantsReplacement", ` && isRefusedAsInvalid(observed.Now, work)`, ``),
	},
	{
		Name:  "the Work of the resource named before stays",
		Theme: "selectors",
		Edits: one("decide/observed.go", "Observed.surplus",
			`!o.Targeted(cluster) || o.WorkKey(cluster) != key`, `!o.Targeted(cluster)`),
	},
	{
		Name:  "a cluster that is both named and selected is a target twice",
		Theme: "selectors",
		Edits: one("decide/observed.go", "Observed.Target",
			`if o.TargetSet[name] {`, `if false {`),
	},
	{
		Name:  "the suspension of single clusters is ignored",
		Theme: "twins",
		Edits: one("decide/observed.go", "Observed.Target", ` || suspended[name]`, ``),
	},
	{
		Name:  "a cluster whose readiness is unknown counts as ready",
		Theme: "outages",
		Edits: one("decide/observed.go", "StateOf",
			`ready.Status == metav1.ConditionTrue`, `ready.Status != metav1.ConditionFalse`),
	},
	{
		Name: "a Work that a policy has taken over counts as our own",
		Edits: one("decide/holder.go", "TakenOver",
			`if work.Labels[kind.label] != "" {`, `if work.Labels[kind.label] == "none" {`),
	},
}
