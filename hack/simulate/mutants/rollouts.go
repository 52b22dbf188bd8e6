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

// inRollouts are defects in how rollouts across clusters are recorded, rendered and
// stored. The decision itself has mutants of its own, in package rollout.
var inRollouts = []Mutant{
	{
		Name:  "Works are written before the status of the rollout that they follow",
		Theme: "stages",
		Edits: one("propagation/rollout.go", "Reconciler.recordRollout",
			`if observed.Rollout.RecordFirst {`, `if false {`),
	},
	{
		Name:  "clusters that wait are rendered with the requested revision",
		Theme: "stages",
		Edits: one("propagation/rollout.go", "Reconciler.followRollout",
			`revisions.On(ctx, assigned.Cluster, assigned.Revision, overlay)`, `revisions.On(ctx, assigned.Cluster, in.UpdateRevision, overlay)`),
	},
	{
		Name:  "the snapshot of a revision is deleted although the recorded status names it",
		Theme: "stages",
		Edits: one("propagation/snapshots.go", "keptRevisions", ``, `return map[string]bool{observed.Resource.Revision: true}`),
	},
	{
		Name:  "snapshots are deleted before the status without a rollout is written",
		Test:  "TestSnapshotsStayUntilTheStatusIsWritten",
		Edits: one("propagation/report.go", "Reconciler.report", `published.hold == 0`, `published.hold >= 0`),
	},
	{
		Name:  "a snapshot is not stored before the Works of its revision",
		Theme: "stages",
		Edits: one("propagation/snapshots.go", "Reconciler.storeSnapshots", ``, `return nil`),
	},
	{
		Name:  "scaling does not reach clusters that wait",
		Theme: "stages",
		Edits: one("propagation/rollout.go", "rolling.overlay",
			`Replicas: cmp.Or(own, k.replicas)`, `Replicas: cmp.Or(own, own)`),
	},
	{
		Name:  "a new version of the resource rewrites the Works of clusters that wait",
		Theme: "stages",
		Edits: one("propagation/rollout.go", "rolling.overlay",
			`requested != "" && assigned == requested`, `requested != ""`),
	},
	{
		Name:  "clusters share the content of one of them when a rollout begins",
		Theme: "stages",
		Edits: one("customize/revisions.go", "Customizer.Adopt",
			`variants[what], snapshot.Renderings[variant] = variant, rendering`,
			`variants[what], snapshot.Renderings["all"] = "all", rendering; _ = variant`),
	},
	{
		Name:  "commands are followed again and again",
		Theme: "stages",
		Edits: one("rollout/api.go", "Status.API",
			`Handled: propagationv1alpha1.RolloutCommands(s.Handled)`, `Handled: propagationv1alpha1.RolloutCommands{}`),
	},
	{
		Name:  "a cluster that runs another revision than the requested one counts as done",
		Theme: "stages",
		Edits: one("decide/rollout.go", "Observed.inRollout",
			`assigned.Revision == o.Rollout.Status.UpdateRevision || current.Applied != metav1.ConditionTrue`, `true`),
	},
	{
		Name:  "a revision that somebody has deleted counts as stored",
		Theme: "staged fleets",
		Edits: one("propagation/snapshots.go", "Reconciler.loadSnapshot",
			`r.lost(object, known, name) // somebody has deleted it`, ``),
	},
}
