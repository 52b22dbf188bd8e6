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
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karmada-io/karmada/pkg/util"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
)

// compactPrefix begins a compacted payload. It is not JSON, so that an attempt to
// write a compact Work fails before it leaves the process.
const compactPrefix = "revision "

// Compact is a cache transform: it replaces the manifest of a Work with its revision
// and drops what is never read, so that neither payloads nor Secrets stay in memory.
// Anything but a Work is returned unchanged.
func Compact(object any) (any, error) {
	work, ok := object.(*workv1alpha1.Work)
	if !ok || isCompact(work) {
		return object, nil
	}
	work.ManagedFields = nil
	found := inspection{}
	if len(work.Spec.Workload.Manifests) == 1 {
		// A manifest that cannot be read has no revision, and is therefore never
		// right.
		found, _ = inspect(work.Spec.Workload.Manifests[0].Raw,
			work.Namespace, work.Name, work.Labels[workv1alpha2.WorkPermanentIDLabel])
	}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{
		RawExtension: runtime.RawExtension{Raw: []byte(compactPrefix + found.words())},
	}}
	for i := range work.Status.ManifestStatuses {
		compactStatus(&work.Status.ManifestStatuses[i])
	}
	share(work)
	return work, nil
}

// share interns strings that many Works have in common, and makes slices no longer
// than necessary. Decoding allocates each string separately, but there are few names
// of clusters, conditions and labels, and all Works of an owner have its name and
// UID.
func share(work *workv1alpha1.Work) {
	Intern(&work.Kind, &work.APIVersion, &work.Namespace, &work.Name)
	for _, words := range []map[string]string{work.Labels, work.Annotations} {
		for key, value := range words {
			Intern(&key, &value)
			words[key] = value // the map stores the new key, too
		}
	}
	work.Finalizers = slices.Clone(work.Finalizers)
	for i := range work.Finalizers {
		Intern(&work.Finalizers[i])
	}
	work.Status.Conditions = slices.Clone(work.Status.Conditions)
	for i := range work.Status.Conditions {
		condition := &work.Status.Conditions[i]
		Intern(&condition.Type, &condition.Reason, &condition.Message)
	}
	work.Status.ManifestStatuses = slices.Clone(work.Status.ManifestStatuses)
	for i := range work.Status.ManifestStatuses {
		identifier := &work.Status.ManifestStatuses[i].Identifier
		Intern(&identifier.Group, &identifier.Version, &identifier.Kind, &identifier.Resource, &identifier.Namespace, &identifier.Name)
	}
}

// Intern makes equal strings share memory, as long as any of them is kept.
func Intern(words ...*string) {
	for _, word := range words {
		*word = unique.Make(*word).Value()
	}
}

// Revision is the revision of the manifest of a compact Work; empty if the Work
// holds anything but one readable manifest.
func Revision(work *workv1alpha1.Work) string { return compacted(work, 0) }

// revisionBytes is how many bytes of the hash a revision has, in hexadecimal.
const revisionBytes = 8

// IsRevision reports whether a text has the form of a revision.
func IsRevision(text string) bool {
	return text != "" && len(text) <= 2*revisionBytes && strings.Trim(text, "0123456789abcdef") == ""
}

// TemplateUID is the UID of the resource that the manifest of a compact Work
// was rendered from.
func TemplateUID(work *workv1alpha1.Work) types.UID { return types.UID(compacted(work, 2)) }

// IdentityOf is the identity of the object that a compact Work holds, in the form of
// Identity; empty if the Work holds anything but one readable manifest.
func IdentityOf(work *workv1alpha1.Work) string {
	word := compacted(work, 3)
	return word[:min(len(word), identityLength)]
}

// IsIrreplaceable reports whether the object in a compact Work must not be deleted
// and re-created, because it holds data or other objects.
func IsIrreplaceable(work *workv1alpha1.Work) bool {
	return hasFlag(work, flagIrreplaceable)
}

// HoldsNamespace reports whether a compact Work holds a Namespace.
func HoldsNamespace(work *workv1alpha1.Work) bool { return hasFlag(work, flagNamespace) }

func hasFlag(work *workv1alpha1.Work, flag string) bool {
	return strings.Contains(compacted(work, 3)[len(IdentityOf(work)):], flag)
}

// IsRewritten reports whether a controller of Karmada has written its own manifest
// into a Work, compact or not. Karmada's namespace synchronization, for example,
// writes into every Work with the name that it derives, and leaves no other trace.
func IsRewritten(work *workv1alpha1.Work) bool {
	if isCompact(work) {
		return hasFlag(work, flagRewritten)
	}
	if len(work.Spec.Workload.Manifests) != 1 {
		return false
	}
	found, err := inspect(work.Spec.Workload.Manifests[0].Raw, "", "", "")
	return err == nil && strings.Contains(found.flags, flagRewritten)
}

// TemplateGeneration is the generation of the resource that the manifest of a
// compact Work was rendered from; 0 if the kind has none.
func TemplateGeneration(work *workv1alpha1.Work) int64 {
	parsed, _ := strconv.ParseInt(compacted(work, 1), 10, 64)
	return parsed
}

// Replicas is the number of replicas in the manifest of a compact Work, and whether
// it has that field.
func Replicas(work *workv1alpha1.Work) (int64, bool) {
	parsed, err := strconv.ParseInt(compacted(work, 4), 10, 64)
	return parsed, err == nil
}

// ReportedGeneration is the generation of the resource in the member's status, and
// whether the kind reports one. Deployment, ReplicaSet, DaemonSet and StatefulSet
// do.
func ReportedGeneration(status *workv1alpha1.ManifestStatus) (int64, bool) {
	reported := generations(status)
	if reported.ResourceTemplateGeneration == nil {
		return 0, false
	}
	return *reported.ResourceTemplateGeneration, true
}

// MemberGeneration is the generation of the member's own object in the member's
// status, and whether the kind reports one. The same kinds do.
func MemberGeneration(status *workv1alpha1.ManifestStatus) (int64, bool) {
	reported := generations(status)
	if reported.Generation == nil {
		return 0, false
	}
	return *reported.Generation, true
}

// UnavailableReplicas is the number of replicas of a Deployment that are not available; 0
// for other kinds, whose status may mean something else by that name.
func UnavailableReplicas(status *workv1alpha1.ManifestStatus) int64 {
	if status.Identifier.Group != appsv1.GroupName || status.Identifier.Kind != util.DeploymentKind {
		return 0
	}
	return generations(status).UnavailableReplicas
}

// reportedGenerations are what Karmada adds to the status of workloads.
type reportedGenerations struct {
	Generation                 *int64 `json:"generation,omitempty"`
	ResourceTemplateGeneration *int64 `json:"resourceTemplateGeneration,omitempty"`
	// UnavailableReplicas counts for Deployments only.
	UnavailableReplicas int64 `json:"unavailableReplicas,omitempty"`
}

// generations reads the generations in a status; none if it cannot be read.
func generations(status *workv1alpha1.ManifestStatus) reportedGenerations {
	var reported reportedGenerations
	if status.Status == nil || json.Unmarshal(status.Status.Raw, &reported) != nil {
		return reportedGenerations{}
	}
	return reported
}

// maxStatus is the maximum size, in bytes, of a reported status that is kept. The
// status of a workload takes a few hundred bytes.
const maxStatus = 2 << 10

// cutKey is the key of the hash in a status that was too large to keep.
const cutKey = "propagation.karmada-direct.io/cut"

// IsCut reports whether Compact has dropped the status of a manifest, or kept only
// an excerpt.
func IsCut(status *workv1alpha1.ManifestStatus) bool {
	return status.Status != nil && bytes.Contains(status.Status.Raw, []byte(cutKey))
}

func compactStatus(status *workv1alpha1.ManifestStatus) {
	if status.Status == nil || len(status.Status.Raw) <= maxStatus {
		return
	}
	sum := sha256.Sum256(status.Status.Raw)
	cut := map[string]any{}
	if status.Health == workv1alpha1.ResourceUnhealthy {
		cut = excerpt(status.Status.Raw)
	}
	raw := cutStatus(status, cut, hex.EncodeToString(sum[:8]))
	if len(raw) > maxStatus {
		raw = cutStatus(status, map[string]any{}, hex.EncodeToString(sum[:8]))
	}
	status.Status = &runtime.RawExtension{Raw: raw}
}

// cutStatus adds the hash and the generations to the excerpt of a status.
func cutStatus(status *workv1alpha1.ManifestStatus, kept map[string]any, sum string) []byte {
	// Only generations that can be read from the whole status count. Field names of
	// JSON may differ in case.
	maps.DeleteFunc(kept, func(key string, _ any) bool {
		return strings.EqualFold(key, "generation") || strings.EqualFold(key, "resourceTemplateGeneration")
	})
	kept[cutKey] = sum
	if generation, reported := ReportedGeneration(status); reported {
		kept["resourceTemplateGeneration"] = generation
	}
	if generation, reported := MemberGeneration(status); reported {
		kept["generation"] = generation
	}
	raw, _ := json.Marshal(kept) // decoded values, strings and numbers can always be encoded
	return raw
}

func isCompact(work *workv1alpha1.Work) bool {
	manifests := work.Spec.Workload.Manifests
	return len(manifests) == 1 && bytes.HasPrefix(manifests[0].Raw, []byte(compactPrefix))
}

// compacted returns one of the words of a compact payload: the revision, the
// template's generation, its UID, the identity of the object with its flags, its
// replicas.
func compacted(work *workv1alpha1.Work, word int) string {
	if !isCompact(work) {
		return ""
	}
	rest := work.Spec.Workload.Manifests[0].Raw[len(compactPrefix):]
	for range word {
		_, rest, _ = bytes.Cut(rest, []byte{' '})
	}
	found, _, _ := bytes.Cut(rest, []byte{' '})
	return string(found)
}
