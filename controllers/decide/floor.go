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

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

const (
	// GenerationTime is how long to wait for a report whose generation exceeds the
	// floor. Such a report never comes if the member's API server treats the change
	// as equivalent and keeps what it has.
	GenerationTime = 10 * time.Second
	// reportTime is how long to wait for a report that differs from the previous
	// one, for kinds whose report has no generation. Many changes do not change such
	// a report.
	reportTime = 2 * time.Second

	generationFloor = "generation "
	reportFloor     = "report "
	// passedFloor begins a floor that only counts, for the content after the next: the
	// generation of the template shows which reports are about this content.
	passedFloor = "passed "
)

// workloads are the kinds whose report contains the generation of the member's
// object in addition to that of the template.
var workloads = map[schema.GroupKind]bool{
	{Group: appsv1.GroupName, Kind: "Deployment"}:  true,
	{Group: appsv1.GroupName, Kind: "StatefulSet"}: true,
	{Group: appsv1.GroupName, Kind: "DaemonSet"}:   true,
	{Group: appsv1.GroupName, Kind: "ReplicaSet"}:  true,
}

// NextFloor is the floor for the next content of a Work; empty if the kind needs
// none.
func NextFloor(observed *Observed, live *workv1alpha1.Work, kind schema.GroupVersionKind, hasHealth func() bool) string {
	report := reportOn(live)
	before, unresolved := int64(0), false
	if floor := live.Annotations[propagationv1alpha1.HealthFloorAnnotation]; floor != "" && !isSettled(observed, live) {
		before, unresolved = generationIn(floor)
	}
	if generation, reported := memberGeneration(report); reported {
		template, _ := render.ReportedGeneration(report)
		switch {
		case unresolved && generation <= before:
			// The last write is still to be reported, and counts one more.
			return generationFloor + strconv.FormatInt(before+1, 10)
		case template != render.TemplateGeneration(live):
			return generationFloor + strconv.FormatInt(generation+1, 10)
		}
		return generationFloor + strconv.FormatInt(generation, 10)
	}
	switch {
	case render.TemplateGeneration(live) == 0:
		return ""
	case report == nil && workloads[kind.GroupKind()]:
		// The member may have created the object from the current content of the
		// Work.
		return generationFloor + strconv.FormatInt(before+1, 10)
	case hasHealth():
		return reportFloor + digest(report)
	}
	return ""
}

// PassedFloor is the floor for the next content of a Work if it has another generation of
// the template; empty if the kind needs none. Without it, nothing would count the writes
// between the last report and this one.
func PassedFloor(observed *Observed, live *workv1alpha1.Work, kind schema.GroupVersionKind) string {
	hasHealth := func() bool { return false }
	if generation, counts := generationIn(NextFloor(observed, live, kind, hasHealth)); counts {
		return passedFloor + strconv.FormatInt(generation, 10)
	}
	return ""
}

// Reports reports whether the last report on a Work is on a generation of the template.
func Reports(work *workv1alpha1.Work, generation int64) bool {
	report := reportOn(work)
	if report == nil {
		return false
	}
	reported, found := render.ReportedGeneration(report)
	return found && reported == generation
}

// healthSettles returns for how long the reported health of a Work is not trusted,
// because the report may be about the previous content; 0 if it is trusted.
func healthSettles(observed *Observed, work *workv1alpha1.Work) time.Duration {
	floor, marked := work.Annotations[propagationv1alpha1.HealthFloorAnnotation]
	if !marked || strings.HasPrefix(floor, passedFloor) || exceeds(reportOn(work), floor) || isSettled(observed, work) {
		return 0
	}
	proof, applied := EvidenceOf(work)
	if proof != Confirmed {
		return 0
	}
	bound := reportTime
	if _, counts := generationIn(floor); counts {
		bound = GenerationTime
	}
	return remaining(observed.Now, awaitedSince(observed, work, applied), bound)
}

// awaitedSince is the time since which the controller waits for a report on the
// current content of a confirmed Work: when the status first said so, by the
// controller's own clock, whatever the member's clock says. With many clusters, the
// status may have no such row.
func awaitedSince(observed *Observed, work *workv1alpha1.Work, applied *metav1.Condition) time.Time {
	row := observed.rowBefore(render.ClusterOf(work.Namespace))
	switch {
	case row != nil && row.Applied == metav1.ConditionTrue && row.Revision == render.Revision(work):
		return row.LastTransitionTime.Time
	case row != nil:
		return observed.Now
	case applied.LastTransitionTime.After(observed.Now):
		return time.Time{}
	}
	return applied.LastTransitionTime.Time
}

// isSettled reports whether the status already states the health of the content of a
// Work. What was trusted once stays trusted, even after a restart.
func isSettled(observed *Observed, work *workv1alpha1.Work) bool {
	row := observed.rowBefore(render.ClusterOf(work.Namespace))
	return row != nil && row.Applied == metav1.ConditionTrue && row.Revision == render.Revision(work) &&
		row.Health != propagationv1alpha1.HealthUnknown
}

// exceeds reports whether a report is about content that was written after a floor.
func exceeds(report *workv1alpha1.ManifestStatus, floor string) bool {
	if least, counts := generationIn(floor); counts {
		generation, reported := memberGeneration(report)
		return reported && generation > least
	}
	return reportFloor+digest(report) != floor
}

// generationIn reads the generation in a floor, if that is what it holds.
func generationIn(floor string) (int64, bool) {
	number, found := strings.CutPrefix(floor, generationFloor)
	if !found {
		number, found = strings.CutPrefix(floor, passedFloor)
	}
	generation, err := strconv.ParseInt(number, 10, 64)
	return generation, found && err == nil
}

// reportOn is the cluster's report on a Work; nil if there is none.
func reportOn(work *workv1alpha1.Work) *workv1alpha1.ManifestStatus {
	if len(work.Status.ManifestStatuses) == 0 {
		return nil
	}
	return &work.Status.ManifestStatuses[0]
}

func memberGeneration(report *workv1alpha1.ManifestStatus) (int64, bool) {
	if report == nil {
		return 0, false
	}
	return render.MemberGeneration(report)
}

// digest is a hash of a report.
func digest(report *workv1alpha1.ManifestStatus) string {
	if report == nil {
		return "none"
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s ", report.Health)
	if report.Status != nil {
		sum.Write(report.Status.Raw)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
