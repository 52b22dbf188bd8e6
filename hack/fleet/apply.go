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
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	namespaces       = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps       = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets          = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	services         = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	nodes            = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	crds             = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices      = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	mutatingHooks    = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	validatingHooks  = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	clusterRoles     = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	clusterRoleBinds = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
	clusters         = schema.GroupVersionResource{Group: "cluster.karmada.io", Version: "v1alpha1", Resource: "clusters"}
	appProjects      = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "appprojects"}
	works            = schema.GroupVersionResource{Group: "work.karmada.io", Version: "v1alpha1", Resource: "works"}
)

// resources maps the kinds that a fleet installs to their resources. Discovery would
// be slower, and it is incomplete while a server is starting.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":                      namespaces,
	"ConfigMap":                      configMaps,
	"Secret":                         secrets,
	"Service":                        services,
	"Node":                           nodes,
	"CustomResourceDefinition":       crds,
	"APIService":                     apiServices,
	"MutatingWebhookConfiguration":   mutatingHooks,
	"ValidatingWebhookConfiguration": validatingHooks,
	"ClusterRole":                    clusterRoles,
	"ClusterRoleBinding":             clusterRoleBinds,
	"AppProject":                     appProjects,
}

// client returns an admin client of Karmada or of a member.
func (s *State) client(plane string) (dynamic.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig(plane))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", plane, err)
	}
	config.QPS = -1 // no other client needs the servers
	config.UserAgent = "karmada-direct-fleet"
	return dynamic.NewForConfig(config)
}

// apply creates or updates objects with server-side apply.
func apply(ctx context.Context, client dynamic.Interface, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		gvr, known := resources[object.GetKind()]
		if !known {
			return fmt.Errorf("applying %s %s: fleets do not install this kind", object.GetKind(), object.GetName())
		}
		data, err := object.MarshalJSON()
		if err != nil {
			return err
		}
		force := true
		_, err = client.Resource(gvr).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: "fleet", Force: &force})
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// decode parses the objects of a YAML file.
func decode(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 { // a file may begin with a separator
			objects = append(objects, object)
		}
	}
}

// condition returns the status and message of a condition of an object.
func condition(object *unstructured.Unstructured, kind string) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		fields, ok := c.(map[string]any)
		if ok && fields["type"] == kind {
			status, _ = fields["status"].(string)
			message, _ = fields["message"].(string)
			return status, message
		}
	}
	return "", ""
}

// awaitCondition waits until a condition of an object is True.
func awaitCondition(ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource, name, kind string) error {
	last := "no response"
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		object, err := client.Resource(gvr).Get(ctx, name, metav1.GetOptions{})
		status, message := "", fmt.Sprint(err)
		if err == nil {
			status, message = condition(object, kind)
		}
		last = fmt.Sprintf("%s=%q %s", kind, status, message)
		return status == "True", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s %s to be %s (%s): %w", gvr.Resource, name, kind, last, err)
	}
	return nil
}

// awaitGone waits until an object does not exist.
func awaitGone(ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource, name string) error {
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(gvr).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s %s to be deleted: %w", gvr.Resource, name, err)
	}
	return nil
}

func poll(ctx context.Context, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 2*pollInterval, readyTimeout, true, done)
}
