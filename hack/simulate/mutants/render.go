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

// inRender are defects in what a Work looks like, and in what is read from one.
var inRender = []Mutant{
	{
		Name: "the revision of a Work depends on its cluster",
		Why:  "no Work ever has the revision that it should have",
		Edits: one("render/manifest.go", "inspect",
			`omit(annotations, workv1alpha2.WorkNamespaceAnnotation, workNamespace)`, ``),
	},
	{
		Name: "the revision does not cover the data of a ConfigMap",
		Why:  "changes are never sent",
		Edits: one("render/manifest.go", "inspect",
			`canonical, err := json.Marshal(content)`, "delete(content, \"data\")\ncanonical, err := json.Marshal(content)"),
	},
	{
		Name:  "a manifest that a controller of Karmada has put into a Work counts as our own",
		Theme: "namespaces",
		Edits: one("render/manifest.go", "isRewritten", `return named && rendered && !resolved`, `return named && rendered && !resolved && !named`),
	},
	{
		Name:  "a Work does not note that its resource was re-created",
		Theme: "renewal",
		Why:   "the immutable object of the deleted resource is never replaced",
		Edits: one("render/work.go", "Manifest.supersede", `case string(before) != now:`, `case now == "":`),
	},
	{
		Name:  "a Work does not say that its object stays when it is deleted",
		Edits: one("render/work.go", "Manifest.fill", `if target.Preserve {`, `if false {`),
	},
	{
		Name: "a Work loses Karmada's finalizer",
		Why:  "Karmada does not notice that it is deleted, and the object stays",
		Edits: []Edit{
			{"render/work.go", "withFinalizer", `if slices.Contains(finalizers, util.ExecutionControllerFinalizer) {`, `if true {`},
			{"render/work.go", "IsOwned", ` &&
		slices.Contains(work.Finalizers, util.ExecutionControllerFinalizer)`, ``},
		},
	},
	{
		Name:  "a Work keeps the owner that an earlier object with the same name was",
		Theme: "vanishing",
		Edits: one("render/work.go", "IsOwned",
			`work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(owner.UID)`, `work.Name != ""`),
	},
	{
		Name: "a manifest does not name the generation of its resource",
		Why:  "Karmada never collects the status of workloads",
		Edits: one("render/manifest.go", "NewManifest",
			`generation > 0 {`, `generation < 0 {`),
	},
	{
		Name: "labels and annotations of the control plane travel",
		Test: "TestWhatStaysInTheControlPlane",
		Edits: one("render/manifest.go", "withoutLocal",
			`!hasPrefix(key, localPrefixes) && `, ``),
	},
	{
		Name: "objects that Karmada does not manage are overwritten although nobody asked for it",
		Edits: one("render/manifest.go", "resolutionValue",
			`resolution == propagationv1alpha1.ConflictOverwrite`, `resolution != propagationv1alpha1.ConflictOverwrite`),
	},
	{
		Name:  "two kinds with the same name in two groups are the same object",
		Theme: "twins",
		Edits: one("render/identity.go", "Identity",
			`kind.Group + "/" + kind.Kind`, `kind.Kind`),
	},
	{
		Name: "a status that is too large loses the generation that it is about",
		Test: "TestCutStatusKeepsBothGenerations",
		Edits: one("render/compact.go", "cutStatus",
			`kept["resourceTemplateGeneration"] = generation`, `_ = generation`),
	},
}
