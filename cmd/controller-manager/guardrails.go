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
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// controllerUsers is the list in guardrails.yaml of the users that the controller
// may have.
const controllerUsers = "['system:serviceaccount:karmada-system:karmada-direct']"

func newInstallGuardrailsCommand(options *options) *cobra.Command {
	timeout := time.Minute
	var users []string
	command := &cobra.Command{
		Use:   "install-guardrails",
		Short: "Install or upgrade the admission policies on the Karmada API server",
		Long: `Applies admission policies to the Karmada API server with server-side apply. They
enforce what RBAC alone cannot: only the controller marks Works and saves
revisions; users who name a Secret must be allowed to get it, and users who name
RBAC objects must be allowed to bind or escalate them; approving rollouts and
abandoning clusters require separate verbs. Running the command again changes
nothing. The Karmada API server must be Kubernetes 1.30 or newer.`,
		Example: `  controller-manager install-guardrails --kubeconfig karmada.kubeconfig`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if len(users) == 0 {
				users = []string{accountUser(options.leaseNamespace)}
			}
			objects, err := guardrailObjects(users)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			return options.applyAll(ctx, objects, command.OutOrStdout())
		},
	}
	command.Flags().StringSliceVar(&users, "controller-users", nil,
		"Users that the controller may have on the Karmada API server. The default is only its ServiceAccount.")
	addNamespaceFlag(command, options)
	command.Flags().DurationVar(&timeout, "timeout", timeout, "How long to retry.")
	return command
}

// accountUser is the user name of the controller's ServiceAccount.
func accountUser(namespace string) string {
	return "system:serviceaccount:" + namespace + ":" + account
}

// guardrailObjects are the admission policies for a controller that has one of
// the given users.
func guardrailObjects(users []string) ([]*unstructured.Unstructured, error) {
	data, err := installed.ReadFile("install/guardrails.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the embedded manifests: %w", err)
	}
	quoted := make([]string, 0, len(users))
	for _, user := range users {
		quoted = append(quoted, strconv.QuoteToASCII(user))
	}
	objects, err := decodeAll(data)
	if err != nil {
		return nil, fmt.Errorf("decoding the embedded manifest guardrails: %w", err)
	}
	for _, object := range objects {
		replaceStrings(object.Object, controllerUsers, "["+strings.Join(quoted, ", ")+"]")
	}
	return objects, nil
}

// replaceStrings replaces a part of every string below a value.
func replaceStrings(value any, part, by string) any {
	switch value := value.(type) {
	case string:
		return strings.ReplaceAll(value, part, by)
	case map[string]any:
		for key, below := range value {
			value[key] = replaceStrings(below, part, by)
		}
	case []any:
		for i, below := range value {
			value[i] = replaceStrings(below, part, by)
		}
	}
	return value
}
