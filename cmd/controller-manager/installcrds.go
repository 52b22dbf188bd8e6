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
	"io"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/apis"
)

func newInstallCommand(options *options) *cobra.Command {
	timeout := time.Minute
	command := &cobra.Command{
		Use:   "install-crds",
		Short: "Install or upgrade the CustomResourceDefinitions on the Karmada API server",
		Long: `Applies the CustomResourceDefinitions of this version to the Karmada API server
with server-side apply, and waits until they are served. Running the command again
changes nothing. CustomResourceDefinitions of a newer release stay as they are, so
that a rollback loses no stored data. They belong on the Karmada API server, never
on its host cluster.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			server, err := options.connect()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			return installCRDs(ctx, server, command.OutOrStdout())
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", timeout, "How long to wait until the CustomResourceDefinitions are served.")
	return command
}

// installCRDs applies the embedded CRDs and waits until each is served.
func installCRDs(ctx context.Context, server client.Client, out io.Writer) error {
	crds, err := apis.CRDs()
	if err != nil {
		return fmt.Errorf("reading the embedded CustomResourceDefinitions: %w", err)
	}
	for _, crd := range crds {
		newer, err := installedByNewer(ctx, server, crd.Name)
		if err != nil {
			return err
		}
		if newer != "" {
			fmt.Fprintf(out, "customresourcedefinition.apiextensions.k8s.io/%s left as the newer %s has installed it\n", crd.Name, newer)
			continue
		}
		metav1.SetMetaDataAnnotation(&crd.ObjectMeta, installedByAnnotation, version)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			return fmt.Errorf("converting CustomResourceDefinition %s: %w", crd.Name, err)
		}
		// Status belongs to the API server; applying an empty one would claim it.
		delete(content, "status")
		if err := applyObject(ctx, server, &unstructured.Unstructured{Object: content}, out); err != nil {
			return err
		}
		if err := awaitEstablished(ctx, server, crd.Name); err != nil {
			return err
		}
	}
	return nil
}

// installedByAnnotation records which version has installed a CRD.
const installedByAnnotation = "propagation.karmada-direct.io/installed-by"

// installedByNewer returns the release that has installed a CRD, if it is newer
// than this one. A build between two releases counts as the first of them.
func installedByNewer(ctx context.Context, server client.Client, name string) (string, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := server.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	by := crd.Annotations[installedByAnnotation]
	if isNewerRelease(by, version) {
		return by, nil
	}
	return "", nil
}

// isNewerRelease compares versions in the format of `git describe`. A string that
// is not a version, such as that of a manual build, is neither newer nor older.
func isNewerRelease(a, b string) bool {
	newer, err := utilversion.ParseGeneric(a)
	older, errOther := utilversion.ParseGeneric(b)
	return err == nil && errOther == nil && older.LessThan(newer)
}

func awaitEstablished(ctx context.Context, server client.Client, name string) error {
	const interval = 100 * time.Millisecond
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := server.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return false, fmt.Errorf("reading it: %w", err)
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until CustomResourceDefinition %s is served: %w", name, err)
	}
	return nil
}
