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

package rollout

import (
	"fmt"
	"strings"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// followCommands follows the commands of users, each once. The status remembers them, so
// that removing one revokes nothing. Stopping goes before continuing.
func (d *decision) followCommands() {
	asked, handled := &d.in.Commands, &d.next.Handled
	if isNew(asked.Resume, &handled.Resume) {
		d.next.Paused = false
	}
	if isNew(asked.Pause, &handled.Pause) {
		d.next.Paused = true
	}
	if stage, revision, _ := strings.Cut(asked.Approve, "@"); d.isForUpdate(revision) && isNew(asked.Approve, &handled.Approve) {
		d.approve(stage)
	}
	retries := d.isForUpdate(asked.Retry) && isNew(asked.Retry, &handled.Retry)
	if d.isForUpdate(asked.Abort) && isNew(asked.Abort, &handled.Abort) {
		d.abort()
	} else if retries {
		d.retry()
	}
}

// before returns the commands that are older than the first status. They were meant for an
// earlier rollout, apart from a pause that nothing ends.
func (c Commands) before() Commands {
	if c.Resume == "" {
		c.Pause = ""
	}
	return c
}

// isNew reports whether a command is another one than the last one that was handled, and
// remembers it.
func isNew(command string, handled *string) bool {
	if command == "" || command == *handled {
		return false
	}
	*handled = command
	return true
}

// isForUpdate reports whether a command is about the update revision. One that is not
// may be about a revision that the controller has not seen yet.
func (d *decision) isForUpdate(command string) bool {
	revision, _, _ := strings.Cut(command, "/")
	return revision != "" && revision == d.next.UpdateRevision
}

func (d *decision) approve(name string) {
	for i := range d.stages {
		if d.stages[i].Name == name && d.next.Phase == Progressing {
			d.stages[i].ApprovedRevision = d.next.UpdateRevision
			return
		}
	}
	d.reject("approve: no rollout of this revision is in progress, or it has no stage " + name)
}

func (d *decision) retry() {
	switch d.next.Phase {
	case Failed, RollingBack, RolledBack:
		d.next.FailedRevision, d.next.Failure = "", nil
		d.startOver()
	case StateLost:
		d.beginWith(d.commonRevision())
	default:
		d.reject("retry: revision " + d.next.UpdateRevision + " has not failed")
	}
}

func (d *decision) abort() {
	switch d.next.Phase {
	case Progressing:
		d.stop(nil, true)
		d.event(propagationv1alpha1.EventRolloutAborted, fmt.Sprintf("the rollout of revision %s was aborted", d.next.UpdateRevision))
	case Failed:
		d.stop(d.next.Failure, true)
	default:
		d.reject("abort: no rollout of this revision is in progress")
	}
}
