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

package decide

import "fmt"

// Why is the reason of a write or a removal. It stands in the log as the reason;
// docs/logging.md explains each.
type Why string

// Reasons of writes.
const (
	WorkMissing          Why = "WorkMissing"
	RevisionDiffers      Why = "RevisionDiffers"
	TermsDiffer          Why = "TermsDiffer"
	StaleConfirmation    Why = "StaleConfirmation"
	UnprovenConfirmation Why = "UnprovenConfirmation"
	AttemptMissing       Why = "AttemptMissing"
	ContactRegained      Why = "ContactRegained"
	RetryDue             Why = "RetryDue"
	RetryRequested       Why = "RetryRequested"
	NewLifeConfirmed     Why = "NewLifeConfirmed"
)

// Reasons of removals. A removal may also have ContactRegained.
const (
	ObjectDeleted    Why = "ObjectDeleted"
	ClusterNotNamed  Why = "ClusterNotNamed"
	ResourceNotNamed Why = "ResourceNotNamed"
	Replaced         Why = "Replaced"
	DeletionHangs    Why = "DeletionHangs"
)

// Steps describes the plan, a step at a time: "update member1 (RevisionDiffers)".
func (p *Plan) Steps() []string {
	var steps []string
	if p.AddFinalizer {
		steps = append(steps, "add the finalizer")
	}
	for i := range p.Writes {
		steps = append(steps, p.Writes[i].String())
	}
	for i := range p.Removals {
		steps = append(steps, p.Removals[i].String())
	}
	if p.RemoveFinalizer {
		steps = append(steps, "remove the finalizer")
	}
	for _, name := range p.Abandoned {
		steps = append(steps, "abandon "+name)
	}
	if p.Wait > 0 {
		steps = append(steps, "look again in "+p.Wait.String())
	}
	return steps
}

// String describes the write: "reset and update member1 (RevisionDiffers)".
func (w *Write) String() string {
	verb := "update"
	switch {
	case w.Live == nil:
		verb = "create"
	case w.Reset && w.Nudge:
		verb = "reset and nudge"
	case w.Reset && w.Update && reportsInTime(w.Live):
		verb = "update, perhaps after a reset,"
	case w.Reset && w.Update:
		verb = "reset and update"
	case w.Reset && w.Terms:
		verb = "reset and set the terms on"
	case w.Reset:
		verb = "reset"
	case w.Terms:
		verb = "set the terms on"
	case w.Nudge:
		verb = "nudge"
	case w.Superseded:
		verb = "mark superseded on"
	}
	return fmt.Sprintf("%s %s (%s)", verb, w.Target.Cluster, w.Why)
}

// String describes the removal: "delete member1 (ObjectDeleted)".
func (r *Removal) String() string {
	verb := "delete"
	switch {
	case r.Nudge:
		verb = "nudge the deletion on"
	case r.Release:
		verb = "release"
	}
	if r.Preserve != nil {
		verb = fmt.Sprintf("preserve=%t and %s", *r.Preserve, verb)
	}
	return fmt.Sprintf("%s %s (%s)", verb, r.Cluster, r.Why)
}
