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
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// installed are the manifests that belong on the Karmada API server, in addition
// to the CRDs.
//
//go:embed install/controller.yaml install/propagated.yaml install/account.yaml install/users.yaml install/guardrails.yaml
var installed embed.FS

const (
	// account is the name of the controller's ServiceAccount on the Karmada API
	// server, and of its roles.
	account = "karmada-direct"
	// propagatedRole is the ClusterRole that lists the kinds to propagate.
	propagatedRole = "karmada-direct-propagated"
)

// connect returns a client for the Karmada API server.
func (o *options) connect() (client.Client, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	server, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the Karmada API server %s: %w", config.Host, err)
	}
	return server, nil
}

func newInstallRBACCommand(options *options) *cobra.Command {
	timeout := time.Minute
	rights := propagatedRights{AggregateStatus: true}
	command := &cobra.Command{
		Use:   "install-rbac",
		Short: "Install or upgrade the roles on the Karmada API server",
		Long: `Applies the ServiceAccount karmada-direct, the roles that the controller needs,
additions to the roles view, edit and admin, and a FlowSchema for the lease to the
Karmada API server with server-side apply. Running the command again changes nothing. These objects
belong on the Karmada API server, never on its host cluster.

Without --propagated, the controller may read the kinds of Kubernetes that users
usually propagate. Each ClusterRole with the label
rbac.karmada-direct.io/aggregate-to-propagated=true adds more kinds.`,
		Example: `  # Propagate only Deployments and ConfigMaps:
  controller-manager install-rbac --kubeconfig karmada.kubeconfig --propagated=deployments.apps,configmaps`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			objects, err := rbacObjects(options.leaseNamespace, rights)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			return options.applyAll(ctx, objects, command.OutOrStdout())
		},
	}
	command.Flags().StringSliceVar(&rights.Kinds, "propagated", nil,
		`Kinds that the controller may propagate, as RESOURCE.GROUP: "deployments.apps", "configmaps", "*.apps". `+
			`"*.*" means all kinds, including every subresource. The default is the usual kinds of Kubernetes.`)
	command.Flags().BoolVar(&rights.AggregateStatus, "aggregate-status", rights.AggregateStatus,
		"Allow the controller to write the status of what it propagates. Set it to false if the controller runs with --aggregate-status=false.")
	addNamespaceFlag(command, options)
	command.Flags().DurationVar(&timeout, "timeout", timeout, "How long to retry.")
	return command
}

func addNamespaceFlag(command *cobra.Command, options *options) {
	command.Flags().StringVar(&options.leaseNamespace, "namespace", options.leaseNamespace,
		"Namespace of the controller's ServiceAccount and of its lease, on the Karmada API server.")
}

// applyAll writes objects to the Karmada API server with server-side apply.
func (o *options) applyAll(ctx context.Context, objects []*unstructured.Unstructured, out io.Writer) error {
	server, err := o.connect()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := applyObject(ctx, server, object, out); err != nil {
			return err
		}
	}
	return nil
}

// applyObject writes an object with server-side apply.
func applyObject(ctx context.Context, server client.Client, object *unstructured.Unstructured, out io.Writer) error {
	kind := object.GroupVersionKind()
	applied := client.ApplyConfigurationFromUnstructured(object)
	if err := server.Apply(ctx, applied, client.FieldOwner("karmada-direct"), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %s: %w", kind.Kind, object.GetName(), err)
	}
	named := strings.TrimSuffix(strings.ToLower(kind.Kind)+"."+kind.Group, ".")
	fmt.Fprintf(out, "%s/%s serverside-applied\n", named, object.GetName())
	return nil
}

// propagatedRights are the permissions of the controller on what it propagates.
type propagatedRights struct {
	// Kinds are the kinds that it may read, as RESOURCE.GROUP; if empty, the default
	// list.
	Kinds []string
	// AggregateStatus allows it to write their status.
	AggregateStatus bool
}

// rbacObjects are the ServiceAccount and the roles of a controller in a
// namespace.
func rbacObjects(namespace string, rights propagatedRights) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	// The account comes after the roles that it is bound to.
	for _, name := range []string{"controller", "propagated", "account", "users"} {
		data, err := installed.ReadFile("install/" + name + ".yaml")
		if err != nil {
			return nil, fmt.Errorf("reading the embedded manifests: %w", err)
		}
		decoded, err := decodeAll(data)
		if err != nil {
			return nil, fmt.Errorf("decoding the embedded manifest %s: %w", name, err)
		}
		objects = append(objects, decoded...)
	}
	for _, object := range objects {
		place(object, namespace)
		if object.GetName() == propagatedRole && object.GetKind() == "ClusterRole" {
			if err := rights.apply(object); err != nil {
				return nil, err
			}
		}
	}
	return objects, nil
}

func decodeAll(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data))
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// place puts an object, and the subjects that it names, into a namespace.
func place(object *unstructured.Unstructured, namespace string) {
	if object.GetNamespace() != "" {
		object.SetNamespace(namespace)
	}
	subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
	for _, subject := range subjects {
		if subject, ok := subject.(map[string]any); ok {
			subject["namespace"] = namespace
		}
	}
	if subjects != nil {
		object.Object["subjects"] = subjects
	}
	if object.GetKind() == "FlowSchema" {
		placeFlow(object, namespace)
	}
}

// placeFlow puts the accounts and the resources of a FlowSchema into a namespace.
func placeFlow(object *unstructured.Unstructured, namespace string) {
	rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "rules")
	for _, rule := range rules {
		rule, _ := rule.(map[string]any)
		subjects, _, _ := unstructured.NestedSlice(rule, "subjects")
		for _, subject := range subjects {
			if subject, ok := subject.(map[string]any); ok {
				_ = unstructured.SetNestedField(subject, namespace, "serviceAccount", "namespace") // the account is a map
			}
		}
		rule["subjects"] = subjects
		resources, _, _ := unstructured.NestedSlice(rule, "resourceRules")
		for _, resource := range resources {
			if resource, ok := resource.(map[string]any); ok {
				resource["namespaces"] = []any{namespace}
			}
		}
		rule["resourceRules"] = resources
	}
	_ = unstructured.SetNestedSlice(object.Object, rules, "spec", "rules") // spec is a map
}

// apply sets the rules of the role for what is propagated.
func (p propagatedRights) apply(role *unstructured.Unstructured) error {
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	if err != nil {
		return fmt.Errorf("reading the rules of ClusterRole %s: %w", role.GetName(), err)
	}
	if len(p.Kinds) > 0 {
		if rules, err = rulesFor(p.Kinds); err != nil {
			return err
		}
	}
	if !p.AggregateStatus {
		rules = slices.DeleteFunc(rules, func(rule any) bool { return strings.Contains(fmt.Sprint(rule), "/status") })
	}
	role.Object["rules"] = rules
	return nil
}

// rulesFor are the rules for kinds, one per API group to read them, and one to
// write their status.
func rulesFor(kinds []string) ([]any, error) {
	resources := map[string][]any{}
	for _, kind := range kinds {
		parsed := schema.ParseGroupResource(kind)
		if parsed.Resource == "" {
			return nil, fmt.Errorf("--propagated: %q names no resource; want RESOURCE.GROUP, as in deployments.apps", kind)
		}
		resources[parsed.Group] = append(resources[parsed.Group], parsed.Resource)
	}
	var reading, writing []any
	for _, group := range slices.Sorted(maps.Keys(resources)) {
		var status []any
		for _, resource := range resources[group] {
			status = append(status, fmt.Sprint(resource)+"/status")
		}
		reading = append(reading, ruleOf(group, resources[group], "get", "list", "watch"))
		writing = append(writing, ruleOf(group, status, "update"))
	}
	return append(reading, writing...), nil
}

func ruleOf(group string, resources []any, verbs ...any) map[string]any {
	return map[string]any{"apiGroups": []any{group}, "resources": resources, "verbs": verbs}
}
