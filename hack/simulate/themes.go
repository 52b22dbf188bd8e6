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

package simulate

import "slices"

// theme is what users do for a while: few things that belong together. Much of what may go
// wrong shows only if they meet again and again.
type theme struct {
	name       string
	operations []operation
	// outages: members that are cut off stay so when all becomes quiet.
	outages bool
	// calm: no requests, watches or processes fail.
	calm bool
}

// themes are all themes. A world that has themes has one after the other.
var themes = []theme{
	{name: "kinds", operations: []operation{(*users).nameWidget, (*users).redefine, (*users).redefineAndRestart, (*users).changeVersion, (*users).serveOnMember}},
	{name: "strangers", operations: []operation{(*users).createStrayWork, (*users).deletePropagation, (*users).stripMarks, (*users).editWork, (*users).deleteWork, (*users).stripFinalizer}},
	{name: "hanging", operations: []operation{(*users).hang, (*users).hang, (*users).guardWork, (*users).preserve, (*users).deletePropagation}},
	{name: "refusals", operations: []operation{(*users).disown, (*users).disown, (*users).clearMember, (*users).requestRetry, (*users).denyOnMember, (*users).disownOnFastClock}, calm: true},
	{name: "webhooks", operations: []operation{(*users).refuseWrites, (*users).refuseAndMove, (*users).refuseAndMove, (*users).refuseAndDelete, (*users).alterWrites, (*users).disown, (*users).clearMember, (*users).editWork}, calm: true},
	{name: "aggregation", operations: []operation{(*users).breakStatus, (*users).breakStatus, (*users).disown, (*users).disown, (*users).clearMember}, calm: true},
	{name: "rollouts", operations: []operation{(*users).nameDeployment, (*users).scale, (*users).scaleAtOnce, (*users).scaleAtOnce, (*users).rollOut, (*users).rollOut, (*users).breakWorkloads}},
	{name: "stages", operations: []operation{
		(*users).setRollout, (*users).setRollout, (*users).changeStagedResource, (*users).changeStagedResource, (*users).changeStagedResource, (*users).revertStaged, (*users).revertStaged,
		(*users).command, (*users).command, (*users).command, (*users).scaleStaged, (*users).removeRollout, (*users).breakWorkloads, (*users).override, (*users).editWork,
		(*users).deleteWork, (*users).relabel, (*users).restartController, (*users).takeOverStale, (*users).withdrawCommands,
	}},
	{name: "staged fleets", operations: []operation{
		(*users).setRollout, (*users).setRollout, (*users).changeStagedResource, (*users).changeStagedResource, (*users).command, (*users).command, (*users).cutMember, (*users).denyOnMember,
		(*users).leaveCluster, (*users).joinCluster, (*users).joinCluster, (*users).relabel, (*users).selectClusters, (*users).suspendSome, (*users).breakWorkloads, (*users).breakRevision,
		(*users).changePolicy, (*users).customize,
	}},
	{name: "renewal", operations: []operation{(*users).renew, (*users).renew, (*users).renew, (*users).yieldToRenewal, (*users).nameRenewed}},
	{name: "takeover", operations: []operation{(*users).takeOver, (*users).takeOver, (*users).bind, (*users).unbind, (*users).unbind}},
	{name: "permissions", operations: []operation{(*users).actFor, (*users).permit, (*users).permit, (*users).editWork, (*users).deleteWork, (*users).restartController, (*users).suspend}},
	{name: "vanishing", operations: []operation{(*users).vanish, (*users).vanish, (*users).preserve, (*users).refuseWrites}},
	{name: "namespaces", operations: []operation{(*users).changeNamespace, (*users).changeNamespace, (*users).changeNamespace, (*users).preserve, (*users).flipNamespace}},
	{name: "dependencies", operations: []operation{(*users).share, (*users).share, (*users).changeResolution, (*users).preserve, (*users).suspend, (*users).mount, (*users).mount}},
	{name: "outages", operations: []operation{(*users).cutMember, (*users).cutMember, (*users).withdrawUnreachable, (*users).suspend, (*users).preserve, (*users).deletePropagation}, outages: true},
	{name: "silence", operations: []operation{
		(*users).silenceMember, (*users).silenceMember, (*users).changeResource, (*users).changeResource, (*users).suspend, (*users).revert, (*users).editWork, (*users).requestRetry, (*users).override,
		(*users).cutMember, (*users).cutMember,
	}},
	{name: "races", operations: []operation{(*users).recreateStale, (*users).changeAndDelete, (*users).revert, (*users).dieAndRevert, (*users).loseDeletion, (*users).deleteWork, (*users).editOnMember, (*users).suspendDuringAttempt}},
	{name: "successors", operations: []operation{
		(*users).takeOverStale, (*users).takeOverStale, (*users).changeClusters, (*users).changeClusters, (*users).renameResource, (*users).preserve, (*users).selectClusters, (*users).relabel, (*users).share, (*users).mount,
	}},
	{name: "selectors", operations: []operation{(*users).selectClusters, (*users).selectClusters, (*users).relabel, (*users).mistake, (*users).correct, (*users).correct}},
	{name: "taints", operations: []operation{
		(*users).selectClusters, (*users).selectClusters, (*users).relabel, (*users).taint, (*users).taint, (*users).taint, (*users).tolerate, (*users).deleteWork, (*users).leaveCluster, (*users).joinCluster,
		(*users).restartController,
	}},
	{name: "watches", operations: []operation{(*users).hinder, (*users).unhinder, (*users).deleteResource, (*users).renameResource, (*users).suspend, (*users).preserve}},
	{name: "leaving", operations: []operation{(*users).leaveCluster, (*users).leaveCluster, (*users).joinCluster, (*users).joinCluster, (*users).cutMember, (*users).deletePropagation}},
	{name: "twins", operations: []operation{(*users).nameTwin, (*users).nameTwin, (*users).changeTwin, (*users).preserve, (*users).suspendSome}},
}

// themeNamed returns the theme with a name, and whether there is one.
func themeNamed(name string) (theme, bool) {
	at := slices.IndexFunc(themes, func(t theme) bool { return t.name == name })
	if at < 0 {
		return theme{}, false
	}
	return themes[at], true
}

// begins has a world take up a theme: the one that was asked for, or else the next one.
func (w *World) begins(round int) {
	if !w.habits.themed {
		return
	}
	chosen, asked := themeNamed(w.choices.theme)
	if !asked {
		chosen = themes[(w.habits.first+round)%len(themes)]
	}
	w.habits.theme, w.habits.outages = chosen.name, chosen.outages
	w.habits.faults = w.habits.faulty && !chosen.calm
	w.habits.operations = slices.Clone(basics)
	for range 3 {
		w.habits.operations = append(w.habits.operations, chosen.operations...)
	}
	w.tell("users turn to %s", chosen.name)
}
