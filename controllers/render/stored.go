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
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Canonical returns the part of a resource that members get: pruned and without local
// metadata, but without what Karmada adds.
func Canonical(resource *unstructured.Unstructured, prefixes ...string) (*unstructured.Unstructured, error) {
	object := resource.DeepCopy()
	object.SetAnnotations(withoutLocal(object.GetAnnotations(), prefixes))
	object.SetLabels(withoutLocal(object.GetLabels(), prefixes))
	if err := pruned(object); err != nil {
		return nil, fmt.Errorf("pruning %s %s/%s: %w", resource.GetKind(), resource.GetNamespace(), resource.GetName(), err)
	}
	return object, nil
}

// Encode returns the manifest in a form that Stored can read. It has nothing that differs
// between clusters.
func (m *Manifest) Encode() (json.RawMessage, error) {
	content, err := json.Marshal(m.object.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s/%s: %w", m.object.GetKind(), m.object.GetNamespace(), m.object.GetName(), err)
	}
	return content, nil
}

// Stored reads what Encode has returned.
func Stored(content json.RawMessage) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(content, &object.Object); err != nil {
		return nil, fmt.Errorf("decoding a manifest: %w", err)
	}
	return object, nil
}

// Restored returns the manifest of a stored object, as if it had been rendered from a
// resource with this UID and generation. The manifest takes the object over.
func Restored(object *unstructured.Unstructured, uid types.UID, generation int64) (*Manifest, error) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[workv1alpha2.ResourceTemplateUIDAnnotation] = string(uid)
	delete(annotations, workv1alpha2.ResourceTemplateGenerationAnnotationKey)
	if generation > 0 {
		annotations[workv1alpha2.ResourceTemplateGenerationAnnotationKey] = strconv.FormatInt(generation, 10)
	}
	object.SetAnnotations(annotations)
	return prepared(object)
}

// Held returns the object in a Work that is not compact, without what differs between
// clusters, and the resolution of conflicts in it.
func Held(work *workv1alpha1.Work) (*unstructured.Unstructured, propagationv1alpha1.ConflictResolution, error) {
	if len(work.Spec.Workload.Manifests) != 1 {
		return nil, "", fmt.Errorf("Work %s/%s has %d manifests", work.Namespace, work.Name, len(work.Spec.Workload.Manifests)) //nolint:staticcheck // a name
	}
	object, err := Stored(work.Spec.Workload.Manifests[0].Raw)
	if err != nil {
		return nil, "", err
	}
	annotations, labels := object.GetAnnotations(), object.GetLabels()
	for _, key := range []string{workv1alpha2.WorkNameAnnotation, workv1alpha2.WorkNamespaceAnnotation, workv1alpha2.ManagedAnnotation, workv1alpha2.ManagedLabels} {
		delete(annotations, key)
	}
	delete(labels, workv1alpha2.WorkPermanentIDLabel)
	object.SetAnnotations(annotations)
	object.SetLabels(labels)
	resolution := propagationv1alpha1.ConflictAbort
	if annotations[workv1alpha2.ResourceConflictResolutionAnnotation] == workv1alpha2.ResourceConflictResolutionOverwrite {
		resolution = propagationv1alpha1.ConflictOverwrite
	}
	return object, resolution, nil
}

// OriginOf returns the UID and the generation of the resource that a stored object was
// rendered from; 0 if the kind has no generation.
func OriginOf(object *unstructured.Unstructured) (types.UID, int64) {
	annotations := object.GetAnnotations()
	generation, _ := strconv.ParseInt(annotations[workv1alpha2.ResourceTemplateGenerationAnnotationKey], 10, 64)
	return types.UID(annotations[workv1alpha2.ResourceTemplateUIDAnnotation]), generation
}
