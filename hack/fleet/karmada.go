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
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const systemNamespace = "karmada-system"

// karmadaTasks returns the tasks that install objects into the Karmada API server.
func (s *State) karmadaTasks() []task {
	return []task{
		{name: stepCRDs, needs: []string{karmadaContext}, run: s.installCRDs},
		{name: stepClusterAPI, needs: []string{programKarmadaAggregated}, run: s.installClusterAPI},
		{name: stepWebhooks, needs: []string{programKarmadaWebhook, stepCRDs}, run: s.installWebhooks},
	}
}

// installCRDs installs Karmada's CRDs with their conversion webhooks, and Karmada's
// roles.
func (s *State) installCRDs(ctx context.Context) error {
	client, err := s.client(groupKarmada)
	if err != nil {
		return err
	}
	if err := apply(ctx, client, object("v1", "Namespace", "", systemNamespace, nil)); err != nil {
		return err
	}
	definitions, err := s.manifests("charts/karmada/_crds/bases")
	if err != nil {
		return err
	}
	patches, err := s.manifests("charts/karmada/_crds/patches")
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		for _, patch := range patches {
			if patch.GetName() == definition.GetName() {
				conversion, _, _ := unstructured.NestedMap(patch.Object, "spec", "conversion")
				if err := unstructured.SetNestedMap(definition.Object, conversion, "spec", "conversion"); err != nil {
					return err
				}
			}
		}
	}
	roles, err := s.manifests("artifacts/deploy/admin-clusterrole-aggregation.yaml", "artifacts/deploy/cluster-proxy-admin-rbac.yaml")
	if err != nil {
		return err
	}
	if err := apply(ctx, client, roles...); err != nil {
		return err
	}
	tasks := make([]task, len(definitions))
	for i, definition := range definitions {
		tasks[i] = task{name: definition.GetName(), run: func(ctx context.Context) error {
			if err := apply(ctx, client, definition); err != nil {
				return err
			}
			return awaitCondition(ctx, client, crds, definition.GetName(), "Established")
		}}
	}
	return runTasks(ctx, tasks)
}

// installClusterAPI makes the Karmada API server forward requests for
// cluster.karmada.io to karmada-aggregated-apiserver, and waits until it does.
func (s *State) installClusterAPI(ctx context.Context) error {
	client, err := s.client(groupKarmada)
	if err != nil {
		return err
	}
	ca, err := s.caBundle()
	if err != nil {
		return err
	}
	port := int64(s.process(programKarmadaAggregated).Port)
	err = apply(ctx, client,
		object("v1", "Namespace", "", systemNamespace, nil),
		object("v1", "Service", systemNamespace, aggregatedService, map[string]any{
			"type":         "ExternalName",
			"externalName": "localhost",
		}),
		object("apiregistration.k8s.io/v1", "APIService", "", "v1alpha1.cluster.karmada.io", map[string]any{
			"group":                "cluster.karmada.io",
			"version":              "v1alpha1",
			"groupPriorityMinimum": int64(2000),
			"versionPriority":      int64(10),
			"caBundle":             ca,
			"service":              map[string]any{"namespace": systemNamespace, "name": aggregatedService, "port": port},
		}),
	)
	if err != nil {
		return err
	}
	if err := awaitCondition(ctx, client, apiServices, "v1alpha1.cluster.karmada.io", "Available"); err != nil {
		return err
	}
	// The APIService is Available shortly before requests are forwarded.
	return poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(clusters).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

func (s *State) installWebhooks(ctx context.Context) error {
	client, err := s.client(groupKarmada)
	if err != nil {
		return err
	}
	configurations, err := s.manifests("artifacts/deploy/webhook-configuration.yaml")
	if err != nil {
		return err
	}
	return apply(ctx, client, configurations...)
}

// manifests reads Karmada's own manifests. They refer to karmada-webhook as a
// Service, which is replaced with this fleet's address.
func (s *State) manifests(paths ...string) ([]*unstructured.Unstructured, error) {
	ca, err := s.caBundle()
	if err != nil {
		return nil, err
	}
	webhook := address(s.process(programKarmadaWebhook).Port)
	local := strings.NewReplacer(
		"karmada-webhook.karmada-system.svc:443", webhook,
		"{{name}}.{{namespace}}.svc:443", webhook,
		"{{caBundle}}", ca,
	)
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(s.Manifests, path), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			decoded, err := decode([]byte(local.Replace(string(data))))
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			objects = append(objects, decoded...)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading Karmada's manifests: %w", err)
		}
	}
	return objects, nil
}

// caBundle returns Karmada's CA in the encoding that API objects use.
func (s *State) caBundle() (string, error) {
	ca, err := os.ReadFile(filepath.Join(s.Dir, "pki", groupKarmada, "ca.crt"))
	if err != nil {
		return "", fmt.Errorf("reading Karmada's CA: %w", err)
	}
	return base64.StdEncoding.EncodeToString(ca), nil
}

// object returns an API object. A nil spec is left out.
func object(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	content := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	if spec != nil {
		content["spec"] = spec
	}
	return &unstructured.Unstructured{Object: content}
}
