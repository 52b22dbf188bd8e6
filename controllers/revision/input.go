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

package revision

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Input is what a user asks for: everything that makes a revision another one.
type Input struct {
	// Resource is the resource without what the API server and controllers set.
	Resource json.RawMessage `json:"resource"`
	// Origin is where the resource was read. It makes no other revision.
	Origin Origin `json:"origin"`
	// Resolution is the conflict resolution.
	Resolution propagationv1alpha1.ConflictResolution `json:"resolution,omitempty"`
	// Overriders are, by cluster, those of the spec.
	Overriders map[string]*policyv1alpha1.Overriders `json:"overriders,omitempty"`
	// Policies are the override policies that select the resource, in the order of
	// their names.
	Policies []Policy `json:"policies,omitempty"`
}

// Origin is the identity and the generation of a resource.
type Origin struct {
	UID        types.UID `json:"uid,omitempty"`
	Generation int64     `json:"generation,omitempty"`
}

// Policy is an OverridePolicy, or a ClusterOverridePolicy if it has no namespace.
type Policy struct {
	Namespace string                      `json:"namespace,omitempty"`
	Name      string                      `json:"name"`
	Spec      policyv1alpha1.OverrideSpec `json:"spec"`
}

// serverFields are the metadata that the API server and controllers set, and what kubectl
// notes for itself.
var serverFields = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink",
}

// lastApplied is the annotation in which kubectl keeps another copy of the resource.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Bare encodes a resource without its status and without what the API server and
// controllers set.
func Bare(resource *unstructured.Unstructured) (json.RawMessage, error) {
	bare := maps.Clone(resource.Object)
	delete(bare, "status")
	metadata, _ := bare["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range serverFields {
		delete(metadata, field)
	}
	if annotations, found := metadata["annotations"].(map[string]any); found {
		annotations = maps.Clone(annotations)
		delete(annotations, lastApplied)
		metadata["annotations"] = annotations
	}
	bare["metadata"] = metadata
	content, err := json.Marshal(bare)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s/%s: %w", resource.GetKind(), resource.GetNamespace(), resource.GetName(), err)
	}
	return content, nil
}

// Template returns the resource as it was read.
func (i *Input) Template() (*unstructured.Unstructured, error) {
	template := &unstructured.Unstructured{}
	// It keeps integers what they are, which the standard library does not.
	if err := utiljson.Unmarshal(i.Resource, &template.Object); err != nil {
		return nil, fmt.Errorf("decoding the resource of a revision: %w", err)
	}
	template.SetUID(i.Origin.UID)
	if i.Origin.Generation > 0 {
		template.SetGeneration(i.Origin.Generation)
	}
	return template, nil
}

// Hash identifies what a user asks for. canonical is the resource in a form without
// replicas and without what stays in the control plane. Only the overriders of the given
// clusters count.
func (i *Input) Hash(canonical map[string]any, counts func(cluster string) bool) (string, error) {
	overriders := maps.Clone(i.Overriders)
	maps.DeleteFunc(overriders, func(cluster string, _ *policyv1alpha1.Overriders) bool { return !counts(cluster) })
	return hashOf(struct {
		Resource   map[string]any
		Resolution propagationv1alpha1.ConflictResolution
		Overriders map[string]*policyv1alpha1.Overriders `json:",omitempty"`
		Policies   []Policy                              `json:",omitempty"`
	}{canonical, i.Resolution, overriders, i.Policies})
}

// hashOf is a short hash of the JSON of a value.
func hashOf(value any) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", err //nolint:wrapcheck // the caller says what is encoded
	}
	return named(digest(content)), nil
}

// named shortens a digest to a name that begins with a letter: YAML would read one without
// letters, or with a single e, as a number.
func named(digest string) string {
	first := digest[0]
	if first <= '9' {
		first = 'a' + (first-'0')%6
	}
	return string(first) + digest[1:revisionLength]
}

// revisionLength is the length of the name of a revision.
const revisionLength = 16

// Sorted returns the policies in the order of their names.
func Sorted(policies []Policy) []Policy {
	slices.SortFunc(policies, comparePolicies)
	return policies
}
