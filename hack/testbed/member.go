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

package testbed

import (
	"context"
	"fmt"
	"reflect"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Member is a member cluster of the fleet.
type Member struct {
	Name string
	// Mode is push or pull.
	Mode string
	// Client is a client of the member's API server once the fleet is up.
	client.Client
}

func (m *Member) String() string { return m.Name + " (" + m.Mode + ")" }

// Runs returns an error unless the member has the resource with the given content.
func (m *Member) Runs(ctx context.Context, resource client.Object) error {
	have, err := m.Find(ctx, resource)
	if err != nil {
		return err
	}
	if difference := cmp.Diff(content(resource), content(have)); difference != "" {
		return fmt.Errorf("%s: %s differs (-want +got):\n%s", m, Describe(resource), difference)
	}
	return nil
}

// Lacks returns an error unless the resource does not exist on the member.
func (m *Member) Lacks(ctx context.Context, resource client.Object) error {
	have, err := m.Find(ctx, resource)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case have.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s: %s is being deleted, but is not gone", m, Describe(resource))
	default:
		return fmt.Errorf("%s still has %s", m, Describe(resource))
	}
}

// Find reads the member's object that corresponds to a resource.
func (m *Member) Find(ctx context.Context, resource client.Object) (client.Object, error) {
	have := newLike(resource)
	if err := m.Get(ctx, client.ObjectKeyFromObject(resource), have); err != nil {
		return nil, fmt.Errorf("%s: reading %s: %w", m, Describe(resource), err)
	}
	return have, nil
}

// newLike returns an empty object of the same kind. Decoding into an object that is
// not empty can leave old fields in it.
func newLike(object client.Object) client.Object {
	if generic, ok := object.(*unstructured.Unstructured); ok {
		empty := &unstructured.Unstructured{}
		empty.SetGroupVersionKind(generic.GroupVersionKind())
		return empty
	}
	empty, _ := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	return empty
}

// content returns the fields of a resource that matter to users, without those that
// a cluster adds.
func content(resource client.Object) any {
	switch typed := resource.(type) {
	case *corev1.ConfigMap:
		return typed.Data
	case *corev1.Secret:
		return typed.Data
	case *appsv1.Deployment:
		return map[string]any{
			"image": typed.Spec.Template.Spec.Containers[0].Image, "replicas": *typed.Spec.Replicas,
			"nodes": typed.Spec.Template.Spec.NodeSelector,
		}
	case *batchv1.Job:
		return typed.Spec.Template.Spec.Containers[0].Image
	case *rbacv1.RoleBinding:
		return typed.RoleRef
	case *unstructured.Unstructured:
		return typed.Object["spec"]
	default:
		panic(fmt.Sprintf("no content is defined for %T", resource))
	}
}

// IsAvailable returns an error unless a member's Deployment has as many updated
// replicas as it wants, and at least as many available ones. An old replica that is
// still terminating does not count against it. Karmada defines health in the same
// way.
func IsAvailable(deployment *appsv1.Deployment) error {
	status, want := &deployment.Status, *deployment.Spec.Replicas
	if status.ObservedGeneration != deployment.Generation || status.UpdatedReplicas != want || status.AvailableReplicas < want {
		return fmt.Errorf("Deployment %s/%s of generation %d: observed generation %d, %d updated, %d available, %d wanted",
			deployment.Namespace, deployment.Name, deployment.Generation, status.ObservedGeneration, status.UpdatedReplicas, status.AvailableReplicas, want)
	}
	for _, condition := range status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("Deployment %s/%s is not Available", deployment.Namespace, deployment.Name)
}
