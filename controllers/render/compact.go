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

package render

import (
	"encoding/json"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
)

// compactPrefix begins a compacted payload. It is no JSON, so that a compact
// Work that somebody tries to write is refused before it leaves the process.
const compactPrefix = "revision "

// Compact is a cache transform: it replaces the manifest of a Work by its
// revision and drops what is never read, so that neither payloads nor Secrets
// sit in memory. Anything but a Work passes unchanged.
func Compact(object any) (any, error) {
	work, ok := object.(*workv1alpha1.Work)
	if !ok || isCompact(work) {
		return object, nil
	}
	work.ManagedFields = nil
	revision, generation := "", ""
	if len(work.Spec.Workload.Manifests) == 1 {
		// A manifest that cannot be read has no revision and so is never right.
		revision, generation, _ = inspect(work.Spec.Workload.Manifests[0].Raw,
			work.Namespace, work.Name, work.Labels[workv1alpha2.WorkPermanentIDLabel])
	}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{
		RawExtension: runtime.RawExtension{Raw: []byte(compactPrefix + revision + " " + generation)},
	}}
	for i := range work.Status.ManifestStatuses {
		compactStatus(&work.Status.ManifestStatuses[i])
	}
	return work, nil
}

// Revision is the revision of the manifest of a compact Work; empty when the
// Work holds anything but one readable manifest.
func Revision(work *workv1alpha1.Work) string {
	revision, _ := compacted(work)
	return revision
}

// TemplateGeneration is the generation of the resource that the manifest of a
// compact Work was rendered from; 0 when the kind counts none.
func TemplateGeneration(work *workv1alpha1.Work) int64 {
	_, generation := compacted(work)
	parsed, _ := strconv.ParseInt(generation, 10, 64)
	return parsed
}

// ReportedGeneration is the generation of the resource that the member's
// status speaks of, and whether the kind reports one: Deployment, ReplicaSet,
// DaemonSet and StatefulSet do.
func ReportedGeneration(status *workv1alpha1.ManifestStatus) (int64, bool) {
	if status.Status == nil {
		return 0, false
	}
	var reported struct {
		ResourceTemplateGeneration *int64 `json:"resourceTemplateGeneration"`
	}
	if err := json.Unmarshal(status.Status.Raw, &reported); err != nil || reported.ResourceTemplateGeneration == nil {
		return 0, false
	}
	return *reported.ResourceTemplateGeneration, true
}

func compactStatus(status *workv1alpha1.ManifestStatus) {
	generation, reported := ReportedGeneration(status)
	status.Status = nil
	if reported {
		status.Status = &runtime.RawExtension{
			Raw: []byte(`{"resourceTemplateGeneration":` + strconv.FormatInt(generation, 10) + `}`),
		}
	}
}

func isCompact(work *workv1alpha1.Work) bool {
	manifests := work.Spec.Workload.Manifests
	return len(manifests) == 1 && strings.HasPrefix(string(manifests[0].Raw), compactPrefix)
}

func compacted(work *workv1alpha1.Work) (revision, generation string) {
	if !isCompact(work) {
		return "", ""
	}
	payload := string(work.Spec.Workload.Manifests[0].Raw[len(compactPrefix):])
	revision, generation, _ = strings.Cut(payload, " ")
	return revision, generation
}
