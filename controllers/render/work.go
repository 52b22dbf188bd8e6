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
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Owner is the object that a Work belongs to.
type Owner struct {
	Kind      string
	Namespace string
	Name      string
	UID       types.UID
}

// DependencyKind is the kind of the owner of the Works of a dependency. It is not
// stored anywhere: it combines what the objects that require the resource have in
// common. It is reconciled like an object that names the resource and all clusters
// of all objects that require it, so everything that is true of a named resource is
// true of a dependency. It exists as long as an object requires it, and its Works
// preserve it over a restart.
const DependencyKind = "Dependency"

// Key is the namespace and name of the owner.
func (o Owner) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

// Follows reports whether the owner is a dependency. An object that names a resource
// has priority over objects that it only follows.
func (o Owner) Follows() bool { return o.Kind == DependencyKind }

// Target is what is specific to the Work of one cluster.
type Target struct {
	// Cluster is the name of the Karmada Cluster.
	Cluster string
	// ConflictResolution is the value in the spec of the owner.
	ConflictResolution propagationv1alpha1.ConflictResolution
	// Suspend prevents Karmada from applying the manifest.
	Suspend bool
	// Preserve keeps the object on the member when the Work is deleted.
	Preserve bool
	// ReadySince is when the cluster became Ready, RFC 3339.
	ReadySince string
	// Attempting is since when Karmada may have attempted a Work that is suspended, RFC 3339;
	// empty if that does not matter.
	Attempting string
	// Newest is the newest generation of the resource. An earlier Work may have had it.
	Newest int64
	// Overrides records the override policies that were applied for the cluster,
	// as annotations.
	Overrides map[string]string
	// Rollout is the revision that the cluster has been assigned in a rollout, and
	// ConfirmedRollout the one that it confirmed last; empty if there is no rollout.
	Rollout, ConfirmedRollout string
}

// WorkKey is the namespace and name of the Work of a resource on a cluster.
func WorkKey(cluster, kind, namespace, name string) types.NamespacedName {
	return types.NamespacedName{
		Namespace: names.GenerateExecutionSpaceName(cluster),
		Name:      names.GenerateWorkName(kind, name, namespace),
	}
}

// NewWork builds the Work for a cluster that has none yet.
func (m *Manifest) NewWork(owner Owner, target Target) (*workv1alpha1.Work, error) {
	work := &workv1alpha1.Work{}
	work.Name = m.workName
	work.Namespace = names.GenerateExecutionSpaceName(target.Cluster)
	// Karmada's webhook would also set a random one. If it is set here, the manifest
	// can have it from the start, as the webhook requires.
	permanentID := uuid.NewString()
	work.Labels = map[string]string{workv1alpha2.WorkPermanentIDLabel: permanentID}
	Claim(work, owner, target)
	m.setHighest(work, target.Newest)
	return work, m.fill(work, target)
}

// UpdatedWork builds what a live Work should become. Metadata that others have added
// stays. confirmed is the revision that the cluster is known to run, which the Work
// records while the new one is on its way. live may be compact; it is not changed.
func (m *Manifest) UpdatedWork(live *workv1alpha1.Work, owner Owner, target Target, confirmed string) (*workv1alpha1.Work, error) {
	work := &workv1alpha1.Work{ObjectMeta: *live.ObjectMeta.DeepCopy()}
	work.ManagedFields = nil
	work.Spec.SuspendDispatching = live.Spec.SuspendDispatching
	Claim(work, owner, target)
	if confirmed != "" {
		work.Annotations[propagationv1alpha1.ConfirmedRevisionAnnotation] = confirmed
	}
	delete(work.Annotations, propagationv1alpha1.AttemptsAnnotation)
	if Revision(live) != m.Revision {
		delete(work.Annotations, propagationv1alpha1.ReportProofAnnotation)
	}
	m.setHighest(work, max(HighestGeneration(live), target.Newest))
	m.supersede(work, live)
	if work.Labels[workv1alpha2.WorkPermanentIDLabel] == "" {
		work.Labels[workv1alpha2.WorkPermanentIDLabel] = uuid.NewString()
	}
	return work, m.fill(work, target)
}

// setHighest records the highest generation that the cluster may have been sent, unless
// the manifest itself shows it.
func (m *Manifest) setHighest(work *workv1alpha1.Work, highest int64) {
	value := ""
	if highest > m.TemplateGeneration() {
		value = strconv.FormatInt(highest, 10)
	}
	setOrDelete(work.Annotations, propagationv1alpha1.HighestGenerationAnnotation, value)
}

// HighestGeneration is the highest generation of the resource that the cluster of a
// compact Work may have been sent, or has reported; 0 if the kind has none. An edited
// annotation counts as far as it can be read.
func HighestGeneration(work *workv1alpha1.Work) int64 {
	highest, _ := strconv.ParseInt(work.Annotations[propagationv1alpha1.HighestGenerationAnnotation], 10, 64)
	highest = max(highest, TemplateGeneration(work))
	for i := range work.Status.ManifestStatuses {
		reported, _ := ReportedGeneration(&work.Status.ManifestStatuses[i])
		highest = max(highest, reported)
	}
	return highest
}

// supersede notes on a Work that the cluster may still have the object of a deleted
// resource with the same name, until the cluster has confirmed the new one.
func (m *Manifest) supersede(work, live *workv1alpha1.Work) {
	before, confirmed := TemplateUID(live), work.Annotations[propagationv1alpha1.ConfirmedRevisionAnnotation]
	now := m.object.GetAnnotations()[workv1alpha2.ResourceTemplateUIDAnnotation]
	switch {
	case before == "":
		// It is unknown what the Work held.
	case string(before) != now:
		value := string(before)
		if IsIrreplaceable(live) || strings.HasSuffix(work.Annotations[propagationv1alpha1.SupersedesAnnotation], flagIrreplaceable) {
			value += flagIrreplaceable
		}
		work.Annotations[propagationv1alpha1.SupersedesAnnotation] = value
	case confirmed == Revision(live):
		delete(work.Annotations, propagationv1alpha1.SupersedesAnnotation)
	}
}

// Supersedes reports whether the cluster may have the object of a deleted
// predecessor of the resource in a compact Work, and whether that object may be
// deleted in order to create the new one.
func Supersedes(work *workv1alpha1.Work) (supersedes, replaceable bool) {
	value := work.Annotations[propagationv1alpha1.SupersedesAnnotation]
	if value == "" || strings.TrimSuffix(value, flagIrreplaceable) == string(TemplateUID(work)) {
		return false, false
	}
	return true, !strings.HasSuffix(value, flagIrreplaceable) && !IsIrreplaceable(work)
}

// fill sets the spec of a Work.
func (m *Manifest) fill(work *workv1alpha1.Work, target Target) error {
	payload, err := m.payload(work.Namespace, work.Labels[workv1alpha2.WorkPermanentIDLabel])
	if err != nil {
		return err
	}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: payload}}}
	work.Annotations[propagationv1alpha1.RevisionAnnotation] = m.Revision
	if target.Suspend || ptr.Deref(work.Spec.SuspendDispatching, false) {
		// nil and false mean the same. The value only changes if the suspension
		// itself changes.
		work.Spec.SuspendDispatching = &target.Suspend
	}
	if target.Preserve {
		work.Spec.PreserveResourcesOnDeletion = ptr.To(true)
	}
	return nil
}

// IsEdited reports whether somebody has changed the manifest in a compact Work since the
// controller wrote it. It is false for a Work that an earlier version wrote.
func IsEdited(work *workv1alpha1.Work) bool {
	wrote := work.Annotations[propagationv1alpha1.RevisionAnnotation]
	return wrote != "" && wrote != Revision(work)
}

// Nudged is a value of suspendDispatching that differs from that of a Work and does
// not suspend it. Only a new generation makes Karmada attempt a Work again while it
// backs off, and nil and false mean the same.
func Nudged(work *workv1alpha1.Work) *bool {
	if work.Spec.SuspendDispatching == nil {
		return ptr.To(false)
	}
	return nil
}

// Terms is a merge patch that brings a live Work to what its owner specifies apart from
// the manifest, which stays as it is, as does what describes it. confirmed is the revision
// that the cluster is known to run. live may be compact; it is not changed.
func Terms(live *workv1alpha1.Work, owner Owner, target Target, confirmed string) map[string]any {
	spec, annotations := map[string]any{}, map[string]any{}
	if ptr.Deref(live.Spec.SuspendDispatching, false) != target.Suspend {
		spec["suspendDispatching"] = target.Suspend
	}
	switch preserves := ptr.Deref(live.Spec.PreserveResourcesOnDeletion, false); {
	case target.Preserve && !preserves:
		spec["preserveResourcesOnDeletion"] = true
	case preserves && !target.Preserve:
		spec["preserveResourcesOnDeletion"] = nil
	}
	for key, value := range ownerAnnotations(owner) {
		annotations[key] = value
	}
	if confirmed != "" {
		annotations[propagationv1alpha1.ConfirmedRevisionAnnotation] = confirmed
	}
	if target.Attempting != live.Annotations[propagationv1alpha1.AttemptingSinceAnnotation] {
		annotations[propagationv1alpha1.AttemptingSinceAnnotation] = nil
		if target.Attempting != "" {
			annotations[propagationv1alpha1.AttemptingSinceAnnotation] = target.Attempting
		}
	}
	if len(spec) > 0 {
		// Karmada attempts the Work again because of the new spec.
		annotations[propagationv1alpha1.AttemptsAnnotation] = nil
		if target.ReadySince != "" {
			annotations[propagationv1alpha1.ClusterReadySinceAnnotation] = target.ReadySince
		}
	}
	return map[string]any{
		"metadata": map[string]any{
			"resourceVersion": live.ResourceVersion, "annotations": annotations, "finalizers": withFinalizer(live.Finalizers),
			"labels": map[string]any{propagationv1alpha1.OwnerUIDLabel: string(owner.UID)},
		},
		"spec": spec,
	}
}

// withFinalizer returns finalizers with that of Karmada's execution controller.
func withFinalizer(finalizers []string) []string {
	if slices.Contains(finalizers, util.ExecutionControllerFinalizer) {
		return finalizers
	}
	return append(slices.Clone(finalizers), util.ExecutionControllerFinalizer)
}

// Claim sets the metadata of a Work.
func Claim(work *workv1alpha1.Work, owner Owner, target Target) {
	if work.Labels == nil {
		work.Labels = map[string]string{}
	}
	if work.Annotations == nil {
		work.Annotations = map[string]string{}
	}
	for _, key := range overrideRecords {
		delete(work.Annotations, key)
	}
	maps.Copy(work.Annotations, ownerAnnotations(owner))
	work.Annotations[workv1alpha2.ResourceConflictResolutionAnnotation] = resolutionValue(target.ConflictResolution)
	maps.Copy(work.Annotations, target.Overrides)
	if target.ReadySince != "" {
		work.Annotations[propagationv1alpha1.ClusterReadySinceAnnotation] = target.ReadySince
	}
	setOrDelete(work.Annotations, propagationv1alpha1.AttemptingSinceAnnotation, target.Attempting)
	setOrDelete(work.Annotations, propagationv1alpha1.RolloutRevisionAnnotation, target.Rollout)
	setOrDelete(work.Annotations, propagationv1alpha1.ConfirmedRolloutRevisionAnnotation, target.ConfirmedRollout)
	work.Labels[propagationv1alpha1.OwnerUIDLabel] = string(owner.UID)
	work.Finalizers = withFinalizer(work.Finalizers)
}

func setOrDelete(values map[string]string, key, value string) {
	if value == "" {
		delete(values, key)
		return
	}
	values[key] = value
}

// IsClaimed reports whether the metadata of a Work is what Claim would set. The time
// since which the cluster is Ready does not count, because it changes by itself.
func IsClaimed(work *workv1alpha1.Work, owner Owner, target Target) bool {
	for _, key := range overrideRecords {
		if work.Annotations[key] != target.Overrides[key] {
			return false
		}
	}
	return work.Annotations[workv1alpha2.ResourceConflictResolutionAnnotation] == resolutionValue(target.ConflictResolution) && IsOwned(work, owner)
}

// IsOwned reports whether a Work has the marks of its owner. Unlike the rest of what Claim
// sets, they do not depend on the manifest.
func IsOwned(work *workv1alpha1.Work, owner Owner) bool {
	for key, value := range ownerAnnotations(owner) {
		if work.Annotations[key] != value {
			return false
		}
	}
	return work.Labels[propagationv1alpha1.OwnerUIDLabel] == string(owner.UID) &&
		slices.Contains(work.Finalizers, util.ExecutionControllerFinalizer)
}

// overrideRecords are the annotations that record, as on Karmada's own Works, which
// override policies were applied.
var overrideRecords = []string{util.AppliedOverrides, util.AppliedClusterOverrides}

// Overrides are the annotations of a Work that record which override policies were
// applied.
func Overrides(work metav1.Object) map[string]string {
	found := map[string]string{}
	for _, key := range overrideRecords {
		if record := work.GetAnnotations()[key]; record != "" {
			found[key] = record
		}
	}
	return found
}

func ownerAnnotations(owner Owner) map[string]string {
	annotations := map[string]string{
		propagationv1alpha1.OwnerKindAnnotation: owner.Kind,
		propagationv1alpha1.OwnerNameAnnotation: owner.Name,
	}
	if owner.Namespace != "" {
		annotations[propagationv1alpha1.OwnerNamespaceAnnotation] = owner.Namespace
	}
	return annotations
}

// OwnerOf reads the owner of a Work from its metadata; the zero Owner if the
// metadata does not name one.
func OwnerOf(work metav1.Object) Owner {
	annotations := work.GetAnnotations()
	return Owner{
		Kind:      annotations[propagationv1alpha1.OwnerKindAnnotation],
		Namespace: annotations[propagationv1alpha1.OwnerNamespaceAnnotation],
		Name:      annotations[propagationv1alpha1.OwnerNameAnnotation],
		UID:       types.UID(work.GetLabels()[propagationv1alpha1.OwnerUIDLabel]),
	}
}

// Renders reports whether a Work that is not compact holds what NewManifest, and
// nothing else, builds from the resource with this UID. A policy's binding marks the
// manifest too, and manifests that Karmada builds for its own purposes lack the
// annotation about conflicts.
func Renders(work *workv1alpha1.Work, resource types.UID) bool {
	if len(work.Spec.Workload.Manifests) != 1 {
		return false
	}
	manifest := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, manifest); err != nil {
		return false
	}
	return resource != "" &&
		manifest.Annotations[workv1alpha2.ResourceTemplateUIDAnnotation] == string(resource) &&
		manifest.Annotations[workv1alpha2.ResourceConflictResolutionAnnotation] != "" &&
		manifest.Annotations[workv1alpha2.WorkNamespaceAnnotation] == work.Namespace &&
		manifest.Annotations[workv1alpha2.WorkNameAnnotation] == work.Name &&
		manifest.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] == "" &&
		manifest.Labels[workv1alpha2.ClusterResourceBindingPermanentIDLabel] == ""
}

// IsExecutionSpace reports whether a namespace is the execution namespace of a
// cluster.
func IsExecutionSpace(namespace string) bool {
	return strings.HasPrefix(namespace, names.ExecutionSpacePrefix)
}

// ClusterOf is the cluster of an execution namespace.
func ClusterOf(namespace string) string {
	return strings.TrimPrefix(namespace, names.ExecutionSpacePrefix)
}

// GroupOf is the API group of an apiVersion.
func GroupOf(apiVersion string) string {
	return schema.FromAPIVersionAndKind(apiVersion, "").Group
}
