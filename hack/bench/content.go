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

package main

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// content is the kind of the resources of a load.
type content struct {
	apiVersion, kind string
	// make returns a resource of about 1 KiB.
	make func(metadata metav1.ObjectMeta, revision string) client.Object
	// revision is the field that changes in an update.
	revision []string
	// reported: a member's report proves that it has a new generation, so the
	// controller writes an update without a reset.
	reported bool
}

var filling = strings.Repeat("x", 1024)

var configMaps = content{
	apiVersion: "v1", kind: "ConfigMap", revision: []string{"data", "revision"},
	make: func(metadata metav1.ObjectMeta, revision string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metadata, Data: map[string]string{"revision": revision, "filling": filling}}
	},
}

var deployments = content{
	apiVersion: "apps/v1", kind: "Deployment", revision: []string{"spec", "template", "metadata", "annotations", "revision"}, reported: true,
	make: func(metadata metav1.ObjectMeta, revision string) client.Object {
		object := &appsv1.Deployment{ObjectMeta: metadata}
		object.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": metadata.Name}}
		object.Spec.Template.Labels = object.Spec.Selector.MatchLabels
		object.Spec.Template.Annotations = map[string]string{"revision": revision, "filling": filling}
		object.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.org/app"}}
		return object
	},
}

// patch is a merge patch to another revision.
func (c *content) patch(revision int) client.Patch {
	open := ""
	for _, name := range c.revision {
		open += fmt.Sprintf("{%q:", name)
	}
	patch := open + strconv.Quote(strconv.Itoa(revision)) + strings.Repeat("}", len(c.revision))
	return client.RawPatch("application/merge-patch+json", []byte(patch))
}

// revisionOf returns the revision of a resource; empty if it has none.
func (c *content) revisionOf(object *unstructured.Unstructured) string {
	revision, _, _ := unstructured.NestedString(object.Object, c.revision...)
	return revision
}

// emptyList returns a list of the kind without items.
func (c *content) emptyList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(c.apiVersion)
	list.SetKind(c.kind + "List")
	return list
}

// empty returns a resource with nothing but its kind and its metadata.
func (c *content) empty(namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(c.apiVersion)
	object.SetKind(c.kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}
