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
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
)

// oldestKarmada is the oldest minor version of Karmada that is tested.
const oldestKarmada = "1.16"

// neededOfWorks are the fields of a Work whose loss would break what the controller
// promises: an API server silently drops fields that it does not know. Without the last
// one, an object that should stay on a cluster would be deleted there.
var neededOfWorks = [][]string{
	{"spec", "workload", "manifests"},
	{"spec", "suspendDispatching"},
	{"spec", "preserveResourcesOnDeletion"},
	{"status", "conditions"},
	{"status", "manifestStatuses"},
}

// checkKarmada returns an error if the Works of an API server lack a field that the
// controller needs. The versions of Karmada's components cannot be read from the API
// server, and what counts is what it stores.
func checkKarmada(ctx context.Context, config *rest.Config) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	server, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("creating a client of the API server %s: %w", config.Host, err)
	}
	name := "works." + workv1alpha1.GroupVersion.Group
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	// The role permits to list definitions, not to get one.
	err = awaitAnswer(ctx, config, apiextensionsv1.SchemeGroupVersion, func(ctx context.Context) error {
		return server.List(ctx, definitions, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)})
	})
	if apierrors.IsForbidden(err) {
		// The controller waits for all permissions that it lacks, and says so.
		klog.FromContext(ctx).Info("Not checking the version of Karmada: not permitted to list CustomResourceDefinitions", "server", config.Host)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the definition of Works from the API server %s: %w", config.Host, err)
	}
	for i := range definitions.Items {
		if missing := missingField(&definitions.Items[i]); missing != "" {
			return fmt.Errorf("the API server %s has a version of Karmada that is too old: its Works have no field %s; upgrade Karmada to %s or newer",
				config.Host, missing, oldestKarmada)
		}
	}
	return nil
}

// missingField returns the first field that the definition of Works lacks; empty if it
// has all.
func missingField(works *apiextensionsv1.CustomResourceDefinition) string {
	version := slices.IndexFunc(works.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == workv1alpha1.GroupVersion.Version
	})
	if version < 0 || works.Spec.Versions[version].Schema == nil {
		return "" // not served, or not pruned
	}
	for _, path := range neededOfWorks {
		if !hasField(works.Spec.Versions[version].Schema.OpenAPIV3Schema, path) {
			return strings.Join(path, ".")
		}
	}
	return ""
}

// hasField reports whether an API server stores a field.
func hasField(schema *apiextensionsv1.JSONSchemaProps, path []string) bool {
	for _, name := range path {
		if schema == nil || ptr.Deref(schema.XPreserveUnknownFields, false) {
			return true
		}
		property, found := schema.Properties[name]
		if !found {
			return false
		}
		schema = &property
	}
	return true
}
