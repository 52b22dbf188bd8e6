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

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// place is an object on a member.
type place struct {
	member string
	key    karmada.Key
}

// desire is what users want now, as they wrote it last.
type desire struct {
	// objects are the DirectPropagations and ClusterDirectPropagations.
	objects map[string]cached.Object
	// clusters are the labels of the Clusters that exist and are not being removed.
	clusters map[string]labels.Set
	// tainted are those that somebody has tainted.
	tainted map[string]bool
	// resources are all contents that each resource has had; the last is nil if it is
	// gone.
	resources map[karmada.Key][]*unstructured.Unstructured
	// policies are all specs that each override policy has had; nil if it is gone.
	policies map[string][]*policyv1alpha1.OverrideSpec
}

func newDesire() *desire {
	return &desire{
		objects: map[string]cached.Object{}, clusters: map[string]labels.Set{}, tainted: map[string]bool{},
		resources: map[karmada.Key][]*unstructured.Unstructured{}, policies: map[string][]*policyv1alpha1.OverrideSpec{},
	}
}

// titleOf names an object in messages and as a key.
func titleOf(object cached.Object) string {
	if object.GetNamespace() == "" {
		return "ClusterDirectPropagation " + object.GetName()
	}
	return "DirectPropagation " + object.GetName()
}

// theDependencies is the owner of what follows a resource.
const theDependencies = "dependencies"

func keyNamed(reference propagationv1alpha1.ResourceReference, namespace string) karmada.Key {
	return karmada.Key{
		GroupVersionKind: schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind), Namespace: namespace, Name: reference.Name,
	}
}

// keyOfResource is the key of the resource that an object names.
func keyOfResource(object cached.Object) karmada.Key {
	return keyNamed(object.GetSpec().Resource, object.GetNamespace())
}

// targets are the clusters that an object names or selects.
func (d *desire) targets(object cached.Object) []propagationv1alpha1.TargetCluster {
	spec := object.GetSpec()
	targets := slices.Clone(spec.Clusters)
	if spec.ClusterSelector == nil {
		return targets
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.ClusterSelector)
	if err != nil {
		return targets
	}
	for _, name := range sortedNames(d.clusters) {
		named := slices.ContainsFunc(targets, func(target propagationv1alpha1.TargetCluster) bool { return target.Name == name })
		if !named && selector.Matches(d.clusters[name]) {
			targets = append(targets, propagationv1alpha1.TargetCluster{Name: name})
		}
	}
	return targets
}

// latest is a resource as it is now; nil if there is none.
func (d *desire) latest(key karmada.Key) *unstructured.Unstructured {
	if had := d.resources[key]; len(had) > 0 {
		return had[len(had)-1]
	}
	return nil
}

// followers are what an object propagates besides its resource. What followed a
// resource that is gone stays.
func (d *desire) followers(object cached.Object) []karmada.Key {
	if !ptr.Deref(object.GetSpec().PropagateDeps, false) {
		return nil
	}
	had := d.resources[keyOfResource(object)]
	for i := range had {
		if resource := had[len(had)-1-i]; resource != nil {
			return mounted(resource)
		}
	}
	return nil
}

// mounted are the ConfigMaps that the Pods of a workload mount.
func mounted(resource *unstructured.Unstructured) []karmada.Key {
	volumes, _, _ := unstructured.NestedSlice(resource.Object, "spec", "template", "spec", "volumes")
	keys := []karmada.Key{}
	for _, volume := range volumes {
		fields, _ := volume.(map[string]any)
		name, found, _ := unstructured.NestedString(fields, "configMap", "name")
		if found {
			reference := propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "ConfigMap", Name: name}
			keys = append(keys, keyNamed(reference, resource.GetNamespace()))
		}
	}
	return keys
}

// wants is what should be where, and for whom.
func (d *desire) wants() map[place]map[string]bool {
	wanted := map[place]map[string]bool{}
	add := func(cluster string, key karmada.Key, owner string) {
		where := place{member: cluster, key: key}
		if wanted[where] == nil {
			wanted[where] = map[string]bool{}
		}
		wanted[where][owner] = true
	}
	for title, object := range d.objects {
		if object.GetDeletionTimestamp() != nil {
			continue
		}
		for _, target := range d.targets(object) {
			add(target.Name, keyOfResource(object), title)
			for _, key := range d.followers(object) {
				add(target.Name, key, theDependencies)
			}
		}
	}
	return wanted
}

func sortedNames[V any](of map[string]V) []string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// customized returns what a cluster should get of a resource: with its replicas, then
// with a policy, then with its overriders.
func customized(resource *unstructured.Unstructured, target propagationv1alpha1.TargetCluster, policy *policyv1alpha1.OverrideSpec) *unstructured.Unstructured {
	content := resource.DeepCopy()
	if target.Replicas != nil {
		_ = unstructured.SetNestedField(content.Object, int64(*target.Replicas), "spec", "replicas") // the spec is a map
	}
	if policy != nil && selects(policy, content) {
		for _, rule := range policy.OverrideRules {
			if slices.Contains(rule.TargetCluster.ClusterNames, target.Name) {
				annotate(content, &rule.Overriders)
			}
		}
	}
	if target.Overriders != nil {
		annotate(content, target.Overriders)
	}
	return content
}

func selects(policy *policyv1alpha1.OverrideSpec, resource *unstructured.Unstructured) bool {
	return slices.ContainsFunc(policy.ResourceSelectors, func(selector policyv1alpha1.ResourceSelector) bool {
		return selector.Kind == resource.GetKind() && (selector.Name == "" || selector.Name == resource.GetName())
	})
}

// annotate applies overriders. Users of the simulation add annotations, and labels.
func annotate(content *unstructured.Unstructured, overriders *policyv1alpha1.Overriders) {
	annotations, marks := content.GetAnnotations(), content.GetLabels()
	for _, overrider := range overriders.AnnotationsOverrider {
		annotations = labels.Merge(annotations, overrider.Value)
	}
	for _, overrider := range overriders.LabelsOverrider {
		marks = labels.Merge(marks, overrider.Value)
	}
	content.SetAnnotations(annotations)
	content.SetLabels(marks)
}
