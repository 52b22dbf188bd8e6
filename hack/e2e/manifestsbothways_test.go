//go:build e2e && e2e_manifests

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

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// policies select what is in the batch: one policy for what is in the namespace, and one
// for what is not.
func (b *batch) policies() (inside *policyv1alpha1.PropagationPolicy, outside *policyv1alpha1.ClusterPropagationPolicy) {
	placement := policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: testbed.NamesOf(members)}}
	inside = &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns.Name, Name: "batch"}}
	outside = &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: b.ns.Name}}
	inside.Spec.Placement, outside.Spec.Placement = placement, placement
	for _, resource := range b.objects {
		selector := policyv1alpha1.ResourceSelector{
			APIVersion: resource.GetAPIVersion(), Kind: resource.GetKind(), Namespace: resource.GetNamespace(), Name: resource.GetName(),
		}
		if resource.GetNamespace() == "" {
			outside.Spec.ResourceSelectors = append(outside.Spec.ResourceSelectors, selector)
		} else {
			inside.Spec.ResourceSelectors = append(inside.Spec.ResourceSelectors, selector)
		}
	}
	return inside, outside
}

func (b *batch) goesByPolicy() {
	inside, outside := b.policies()
	for _, policy := range []client.Object{outside, inside} {
		if err := karmada.Create(b.ns.Ctx, policy); err != nil {
			b.t.Fatal(err)
		}
		// Unless the test comes to the end, no one else deletes it.
		b.t.Cleanup(func() {
			if err := karmada.Delete(context.Background(), policy); client.IgnoreNotFound(err) != nil {
				b.t.Error(err)
			}
		})
	}
	b.ns.Within(manifestPatience, "each member has each resource", func(ctx context.Context) error {
		for _, member := range members {
			for _, resource := range b.objects {
				if _, err := member.Find(ctx, resource); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// policiesEnd deletes the policies. That leaves everything where it is, so the members
// lose what is deleted on the control plane.
func (b *batch) policiesEnd() {
	inside, outside := b.policies()
	for _, policy := range []client.Object{outside, inside} {
		if err := karmada.Delete(b.ns.Ctx, policy); err != nil {
			b.t.Error(err)
		}
	}
}

// clean deletes everything on the control plane, and waits until the members have nothing.
func (b *batch) clean() {
	b.ns.Ctx = context.Background() // that of the test has ended
	for i := len(b.objects) - 1; i >= 0; i-- {
		if err := karmada.Delete(b.ns.Ctx, b.directly(b.objects[i])); client.IgnoreNotFound(err) != nil {
			b.t.Error(err)
		}
		if err := karmada.Delete(b.ns.Ctx, b.objects[i]); client.IgnoreNotFound(err) != nil {
			b.t.Error(err)
		}
	}
	b.ns.Within(manifestPatience, "nothing is left on the members", b.isNowhere)
}

// ran returns what the members run, without what each API server fills in for itself.
func (b *batch) ran(t *testing.T, how string) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, member := range members {
		for _, resource := range b.objects {
			key := fmt.Sprintf("%s %s on %s", resource.GetKind(), resource.GetName(), member.Name)
			have, err := member.Find(b.ns.Ctx, resource)
			if err != nil {
				t.Errorf("%s: %v", how, err)
				continue
			}
			found[key], _ = have.(*unstructured.Unstructured)
		}
	}
	return found
}

// local are the fields that a member sets, different ones each time.
var local = [][]string{
	{"status"},
	{"metadata", "uid"},
	{"metadata", "resourceVersion"},
	{"metadata", "creationTimestamp"},
	{"metadata", "generation"},
	{"metadata", "managedFields"},
	{"spec", "clusterIP"},
	{"spec", "clusterIPs"},
	{"spec", "volumeName"},
	{"spec", "claimRef"},
	{"spec", "nodeName"},
}

// localWords are words that are different each time, in annotations and in names: UIDs,
// and the token that each Pod gets.
var localWords = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|kube-api-access-[0-9a-z]{5}`)

// ways are the prefixes of labels and annotations that say which way an object has come.
var ways = []string{"work.karmada.io/", "propagationpolicy.karmada.io/", "clusterpropagationpolicy.karmada.io/", "policy.karmada.io/", "propagation.karmada-direct.io/", "resourcebinding.karmada.io/", "clusterresourcebinding.karmada.io/", "resourcetemplate.karmada.io/"}

// differenceOf compares what a member has run both ways.
func differenceOf(one, other *unstructured.Unstructured) string {
	if one == nil || other == nil {
		return "it is missing"
	}
	return cmp.Diff(leveled(one), leveled(other))
}

// leveled returns an object without what is different each time.
func leveled(object *unstructured.Unstructured) any {
	object = object.DeepCopy()
	for _, field := range local {
		unstructured.RemoveNestedField(object.Object, field...)
	}
	for _, marks := range [][]string{{"metadata", "labels"}, {"metadata", "annotations"}} {
		values, _, _ := unstructured.NestedStringMap(object.Object, marks...)
		for key := range values {
			for _, way := range ways {
				if strings.HasPrefix(key, way) {
					delete(values, key)
				}
			}
		}
		unstructured.RemoveNestedField(object.Object, marks...)
		if len(values) > 0 {
			_ = unstructured.SetNestedStringMap(object.Object, values, marks...)
		}
	}
	return worded(object.Object)
}

// worded replaces the words that are different each time, and node ports.
func worded(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		delete(typed, "nodePort")
		for key, inner := range typed {
			typed[key] = worded(inner)
		}
	case []any:
		for i, inner := range typed {
			typed[i] = worded(inner)
		}
	case string:
		return localWords.ReplaceAllString(typed, "LOCAL")
	}
	return value
}
