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

// argoCDNamespace is where Argo CD keeps its settings and Applications, the name
// that its own manifests use.
const argoCDNamespace = "argocd"

// argoCDTasks install into the host cluster what Argo CD finds there when its
// own manifests have been applied, and make Karmada known to it.
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
	// These are for users to change: what is there stays.
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

// installArgoCDKinds installs the kinds of Argo CD, and waits until they are served.
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

// argoCDSettings is an object that Argo CD reads its settings from. The Secret
// holds the key that it would sign its users' sessions with.
func argoCDSettings(kind, name string) *unstructured.Unstructured {
	settings := object("v1", kind, argoCDNamespace, name, nil)
	settings.SetLabels(map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "argocd"})
	if kind == "Secret" {
		settings.Object["stringData"] = map[string]any{"server.secretkey": rand.Text()}
	}
	return settings
}

// argoCDCluster is how Argo CD is told of a cluster, here of Karmada.
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
