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
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native/prune"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// localPrefixes are the prefixes of the keys of labels and annotations that tools
// put on an object only for the control plane. On a member, they would be wrong:
// another Argo CD there would consider the object its own and prune it, and the
// claim of a policy only concerns the control plane.
var localPrefixes = []string{
	"argocd.argoproj.io/",
	"kubectl.kubernetes.io/last-applied-configuration",
	"propagationpolicy.karmada.io/",
	"clusterpropagationpolicy.karmada.io/",
}

// Manifest is a resource prepared for members: pruned, without local metadata, with
// Karmada's labels and annotations.
type Manifest struct {
	object   *unstructured.Unstructured
	workName string

	// Revision is the content hash of the manifest, the same on every cluster.
	Revision string
}

// NewManifest builds a manifest from a resource in the control plane, after any
// overrides. It omits labels and annotations that begin with one of the prefixes, in
// addition to those that are never propagated. It does not change the resource. It
// returns an error if the resource does not have the structure of its kind.
func NewManifest(resource *unstructured.Unstructured, conflictResolution propagationv1alpha1.ConflictResolution, prefixes ...string) (*Manifest, error) {
	object := resource.DeepCopy()
	annotations := withoutLocal(object.GetAnnotations(), prefixes)
	annotations[workv1alpha2.ResourceTemplateUIDAnnotation] = string(resource.GetUID())
	annotations[workv1alpha2.ResourceConflictResolutionAnnotation] = resolutionValue(conflictResolution)
	if generation := resource.GetGeneration(); generation > 0 {
		// Without it, Karmada never collects the status of Deployments and similar
		// kinds.
		annotations[workv1alpha2.ResourceTemplateGenerationAnnotationKey] = strconv.FormatInt(generation, 10)
	}
	labels := withoutLocal(object.GetLabels(), prefixes)
	labels[util.ManagedByKarmadaLabel] = util.ManagedByKarmadaLabelValue
	object.SetAnnotations(annotations)
	object.SetLabels(labels)
	if _, structured := object.Object["metadata"].(map[string]any); !structured {
		return nil, fmt.Errorf("metadata of %s is %v, which is not an object", resource.GetKind(), object.Object["metadata"])
	}

	if err := pruned(object); err != nil {
		return nil, fmt.Errorf("pruning %s %s/%s: %w", resource.GetKind(), resource.GetNamespace(), resource.GetName(), err)
	}
	return prepared(object)
}

// prepared returns the manifest of an object that is ready for members.
func prepared(object *unstructured.Unstructured) (*Manifest, error) {
	manifest := &Manifest{object: object, workName: names.GenerateWorkName(object.GetKind(), object.GetName(), object.GetNamespace())}
	payload, err := manifest.payload("", "")
	if err != nil {
		return nil, err
	}
	found, err := inspect(payload, "", "", "")
	manifest.Revision = found.revision
	return manifest, err
}

// pruned removes from an object what has no meaning on a member. Karmada's function
// panics if a field is not as usual, for example for a ServiceAccount with a secret
// that has no name, which the API server accepts.
func pruned(object *unstructured.Unstructured) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("Karmada cannot read it: %v", cause) //nolint:staticcheck // a name
		}
	}()
	return prune.RemoveIrrelevantFields(object, prune.RemoveJobTTLSeconds) //nolint:wrapcheck // the caller says what is pruned
}

// Kind is the kind of the object.
func (m *Manifest) Kind() schema.GroupVersionKind { return m.object.GroupVersionKind() }

// TemplateGeneration is the generation of the resource; 0 if the kind has none.
func (m *Manifest) TemplateGeneration() int64 {
	generation, _ := strconv.ParseInt(m.object.GetAnnotations()[workv1alpha2.ResourceTemplateGenerationAnnotationKey], 10, 64)
	return generation
}

// HasContentOf reports whether a payload has the same content as the manifest, apart
// from metadata and status, which do not change the generation. It is false for a
// payload that cannot be read.
func (m *Manifest) HasContentOf(payload []byte) bool {
	var other map[string]json.RawMessage
	if json.Unmarshal(payload, &other) != nil {
		return false
	}
	for _, content := range []string{"metadata", "status"} {
		delete(other, content)
	}
	compared := 0
	for key, value := range m.object.Object {
		if key == "metadata" || key == "status" {
			continue
		}
		if !isEncoded(value, other[key]) {
			return false
		}
		compared++
	}
	return compared == len(other)
}

// isEncoded reports whether JSON encodes a value, in any order of keys.
func isEncoded(value any, encoded json.RawMessage) bool {
	own, err := json.Marshal(value)
	if err != nil || bytes.Equal(own, encoded) {
		return err == nil
	}
	var decoded any
	if utiljson.Unmarshal(encoded, &decoded) != nil {
		return false
	}
	other, err := json.Marshal(decoded)
	return err == nil && bytes.Equal(own, other)
}

// payload is the manifest in the Work of one cluster.
func (m *Manifest) payload(workNamespace, permanentID string) ([]byte, error) {
	// Only labels and annotations differ between clusters. The copies share
	// everything else, which is never changed.
	object := &unstructured.Unstructured{Object: maps.Clone(m.object.Object)}
	metadata, _ := m.object.Object["metadata"].(map[string]any)
	object.Object["metadata"] = maps.Clone(metadata)
	annotations, labels := object.GetAnnotations(), object.GetLabels()
	annotations[workv1alpha2.WorkNameAnnotation] = m.workName
	annotations[workv1alpha2.WorkNamespaceAnnotation] = workNamespace
	labels[workv1alpha2.WorkPermanentIDLabel] = permanentID
	object.SetAnnotations(annotations)
	object.SetLabels(labels)
	util.RecordManagedAnnotations(object)
	util.RecordManagedLabels(object)

	payload, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s/%s: %w", m.object.GetKind(), m.object.GetNamespace(), m.object.GetName(), err)
	}
	return payload, nil
}

// inspection is what can be read from a payload.
type inspection struct {
	// revision is the content hash. generation and uid are those of the template.
	revision, generation, uid string
	// identity names the object. flags has one letter for each property that it has.
	identity, flags string
	// replicas is the number of replicas in the object; empty if it has none.
	replicas string
}

const (
	// flagIrreplaceable marks an object that holds data or other objects.
	flagIrreplaceable = "!"
	// flagRewritten marks a manifest that a controller of Karmada has put into the Work.
	flagRewritten = "~"
	// flagNamespace marks a Namespace.
	flagNamespace = "n"
)

// words is the inspection in the form that a compact Work keeps.
func (i inspection) words() string {
	// The annotations of a manifest that somebody has edited may have spaces in their
	// values. No generation or UID has a question mark.
	one := func(word string) string { return strings.ReplaceAll(word, " ", "?") }
	words := []string{i.revision, one(i.generation), one(i.uid), i.identity + i.flags}
	if i.replicas != "" {
		words = append(words, i.replicas)
	}
	return strings.Join(words, " ")
}

// inspect reads a payload. The revision ignores the labels and annotations that name
// the Work if they are right, so that it is the same on every cluster. It includes
// them if they are wrong, so that the difference shows.
func inspect(payload []byte, workNamespace, workName, permanentID string) (inspection, error) {
	var content map[string]any
	if err := utiljson.Unmarshal(payload, &content); err != nil {
		return inspection{}, fmt.Errorf("decoding a manifest: %w", err)
	}
	metadata, _ := content["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	found := identify(content, annotations)
	omit(annotations, workv1alpha2.WorkNamespaceAnnotation, workNamespace)
	omit(labels, workv1alpha2.WorkPermanentIDLabel, permanentID)
	if workName != "" {
		omit(annotations, workv1alpha2.WorkNameAnnotation, workName)
	} else {
		delete(annotations, workv1alpha2.WorkNameAnnotation)
	}
	canonical, err := json.Marshal(content)
	if err != nil {
		return inspection{}, fmt.Errorf("encoding a manifest: %w", err)
	}
	sum := sha256.Sum256(canonical)
	found.revision = hex.EncodeToString(sum[:revisionBytes])
	return found, nil
}

// identify determines which object a payload is, and its properties.
func identify(content, annotations map[string]any) inspection {
	object := &unstructured.Unstructured{Object: content}
	found := inspection{identity: Identity(object.GroupVersionKind().GroupKind(), object.GetName())}
	found.generation, _ = annotations[workv1alpha2.ResourceTemplateGenerationAnnotationKey].(string)
	found.uid, _ = annotations[workv1alpha2.ResourceTemplateUIDAnnotation].(string)
	if replicas, there, err := unstructured.NestedInt64(content, "spec", "replicas"); there && err == nil {
		found.replicas = strconv.FormatInt(replicas, 10)
	}
	if isIrreplaceable(object) {
		found.flags += flagIrreplaceable
	}
	if kind := object.GroupVersionKind().GroupKind(); kind == namespaceKind {
		found.flags += flagNamespace
	}
	if isRewritten(annotations) {
		found.flags += flagRewritten
	}
	return found
}

// isRewritten reports whether a controller of Karmada built a manifest for its own
// purposes. Manifests that Karmada builds for a binding, and manifests of this
// package, say how conflicts are resolved; no others do.
func isRewritten(annotations map[string]any) bool {
	_, named := annotations[workv1alpha2.WorkNameAnnotation]
	_, rendered := annotations[workv1alpha2.ResourceTemplateUIDAnnotation]
	_, resolved := annotations[workv1alpha2.ResourceConflictResolutionAnnotation]
	return named && rendered && !resolved
}

func omit(values map[string]any, key, expected string) {
	if values[key] == expected {
		delete(values, key)
	}
}

func withoutLocal(values map[string]string, prefixes []string) map[string]string {
	kept := make(map[string]string, len(values)+4)
	for key, value := range values {
		if !hasPrefix(key, localPrefixes) && !hasPrefix(key, prefixes) {
			kept[key] = value
		}
	}
	return kept
}

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// resolutionValue is the value of Karmada's annotation for a resolution.
func resolutionValue(resolution propagationv1alpha1.ConflictResolution) string {
	if resolution == propagationv1alpha1.ConflictOverwrite {
		return workv1alpha2.ResourceConflictResolutionOverwrite
	}
	return workv1alpha2.ResourceConflictResolutionAbort
}
