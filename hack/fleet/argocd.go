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
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// argoCDNamespace is the namespace of Argo CD's settings and Applications. Argo CD's
// own manifests use the same name.
const argoCDNamespace = "argocd"

// argoCDTasks returns the task that prepares the host cluster for Argo CD, as its
// own manifests would, and registers Karmada with it.
func (s *State) argoCDTasks() []task {
	if !s.ArgoCD {
		return nil
	}
	return []task{{name: stepArgoCD, needs: []string{plane{name: groupHost}.apiServer()}, run: s.installArgoCD}}
}

func (s *State) installArgoCD(ctx context.Context) error {
	client, err := s.client(groupHost)
	if err != nil {
		return err
	}
	if err := s.installArgoCDKinds(ctx, client); err != nil {
		return err
	}
	cluster, err := s.argoCDCluster()
	if err != nil {
		return err
	}
	project := object("argoproj.io/v1alpha1", "AppProject", argoCDNamespace, "default", map[string]any{
		"sourceRepos":              []any{"*"},
		"destinations":             []any{map[string]any{"server": "*", "namespace": "*"}},
		"clusterResourceWhitelist": []any{map[string]any{"group": "*", "kind": "*"}},
	})
	if err := apply(ctx, client, object("v1", "Namespace", "", argoCDNamespace, nil), project, cluster); err != nil {
		return err
	}
	// Users may change these, so existing ones are not overwritten.
	for _, settings := range []*unstructured.Unstructured{
		argoCDSettings("ConfigMap", "argocd-cm"),
		argoCDSettings("ConfigMap", "argocd-rbac-cm"),
		argoCDSettings("Secret", "argocd-secret"),
	} {
		if err := createMissing(ctx, client, settings); err != nil {
			return err
		}
	}
	return nil
}

// installArgoCDKinds installs the CRDs of Argo CD and waits until they are
// established.
func (s *State) installArgoCDKinds(ctx context.Context, client dynamic.Interface) error {
	for _, path := range argoCDRecipes[0].manifests {
		data, err := os.ReadFile(filepath.Join(s.ArgoCDBuild.Manifests, path))
		if err != nil {
			return fmt.Errorf("reading Argo CD's manifests: %w", err)
		}
		definitions, err := decode(data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, definition := range definitions {
			if err := apply(ctx, client, definition); err != nil {
				return err
			}
			if err := awaitCondition(ctx, client, crds, definition.GetName(), "Established"); err != nil {
				return err
			}
		}
	}
	return nil
}

// argoCDSettings returns an object from which Argo CD reads its settings. The Secret
// holds the key for signing user sessions.
func argoCDSettings(kind, name string) *unstructured.Unstructured {
	settings := object("v1", kind, argoCDNamespace, name, nil)
	settings.SetLabels(map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "argocd"})
	if kind == "Secret" {
		settings.Object["stringData"] = map[string]any{"server.secretkey": rand.Text()}
	}
	return settings
}

// argoCDCluster returns the Secret that registers Karmada as a cluster of Argo CD.
func (s *State) argoCDCluster() (*unstructured.Unstructured, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig(groupKarmada))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", groupKarmada, err)
	}
	access, err := json.Marshal(map[string]any{"tlsClientConfig": map[string]any{
		"caData": config.CAData, "certData": config.CertData, "keyData": config.KeyData,
	}})
	if err != nil {
		return nil, err
	}
	secret := object("v1", "Secret", argoCDNamespace, "cluster-"+groupKarmada, nil)
	secret.SetLabels(map[string]string{"argocd.argoproj.io/secret-type": "cluster"})
	secret.Object["stringData"] = map[string]any{"name": groupKarmada, "server": config.Host, "config": string(access)}
	return secret, nil
}

func createMissing(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	_, err := client.Resource(resources[object.GetKind()]).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
