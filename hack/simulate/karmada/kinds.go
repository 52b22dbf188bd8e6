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

package karmada

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind that a member serves.
type Kind struct {
	schema.GroupVersionKind
	// Plural is the name of the resource in paths and in the APIEnablements of a
	// Cluster.
	Plural     string
	Namespaced bool
	// Generations reports whether the API server counts generations. It does so for
	// workloads and custom resources, and not for ConfigMaps, Secrets and Services.
	Generations bool
}

// Custom returns a namespaced kind of a CustomResourceDefinition.
func Custom(group, version, kind, plural string) Kind {
	return Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Plural: plural, Namespaced: true, Generations: true}
}

// Key names an object of a member.
type Key struct {
	schema.GroupVersionKind
	Namespace, Name string
}

func (k Key) String() string {
	if k.Namespace == "" {
		return kindName(k.GroupVersionKind) + " " + k.Name
	}
	return fmt.Sprintf("%s %s/%s", kindName(k.GroupVersionKind), k.Namespace, k.Name)
}

func kindName(kind schema.GroupVersionKind) string {
	apiVersion, name := kind.ToAPIVersionAndKind()
	return apiVersion + "/" + name
}

// KeyOf returns the key of an object.
func KeyOf(object *unstructured.Unstructured) Key {
	return Key{GroupVersionKind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
}

var (
	namespaceKind   = corev1.SchemeGroupVersion.WithKind("Namespace")
	deploymentKind  = appsv1.SchemeGroupVersion.WithKind("Deployment")
	statefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	daemonSetKind   = appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	replicaSetKind  = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	serviceKind     = corev1.SchemeGroupVersion.WithKind("Service")
	jobKind         = batchv1.SchemeGroupVersion.WithKind("Job")
)

// namespaceKey is the key of a Namespace of a member.
func namespaceKey(name string) Key { return Key{GroupVersionKind: namespaceKind, Name: name} }

// builtIn are the kinds that every member serves.
func builtIn() []Kind {
	plain := func(plural, kind string) Kind {
		return Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind(kind), Plural: plural, Namespaced: true}
	}
	workload := func(plural string, kind schema.GroupVersionKind) Kind {
		return Kind{GroupVersionKind: kind, Plural: plural, Namespaced: true, Generations: true}
	}
	return []Kind{
		{GroupVersionKind: namespaceKind, Plural: "namespaces"},
		plain("configmaps", "ConfigMap"),
		plain("secrets", "Secret"),
		plain("serviceaccounts", "ServiceAccount"),
		plain("services", "Service"),
		workload("daemonsets", daemonSetKind),
		workload("deployments", deploymentKind),
		workload("replicasets", replicaSetKind),
		workload("statefulsets", statefulSetKind),
		workload("jobs", jobKind),
	}
}
