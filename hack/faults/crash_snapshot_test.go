//go:build faults

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

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// uncertain are the fields that no two runs have in common.
var uncertain = []string{
	"uid", "resourceVersion", "creationTimestamp", "managedFields", "lastTransitionTime", "lastUpdateTime", "deletionTimestamp",
}

// identities are UIDs, revisions, and hashes that identify dependencies. Only where the same one occurs matters.
var identities = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b|\b[0-9a-f]{16}\b`)

// snapshot describes everything that follows from a wish: the object, the status of its
// resource, the Works, and what the members run. Names and identities are the same for
// each case.
func (c *crashing) snapshot(ctx context.Context, w wish) (string, error) {
	parts := map[string]client.Object{"object": w.object(), "resource": w.resource()}
	wanted := []client.Object{w.resource()}
	if w.kind == deployments {
		wanted = append(wanted, w.configuration())
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if err := describe(ctx, &text, name, karmada, parts[name]); err != nil {
			return "", err
		}
	}
	for _, resource := range wanted {
		for _, member := range targets {
			what := fmt.Sprintf("%T for %s", resource, member.Name)
			key := c.ns.WorkKey(testbed.ReferenceTo(resource), member.Name)
			work := &workv1alpha1.Work{}
			work.Namespace, work.Name = key.Namespace, key.Name
			if err := describe(ctx, &text, "Work of "+what, karmada, work); err != nil {
				return "", err
			}
			if err := describe(ctx, &text, what, member.Client, resource); err != nil {
				return "", err
			}
		}
	}
	return leveled(text.String(), w.name), nil
}

// describe writes what there is, without the fields that no two runs have in common, and
// without what only tells how it came to be.
func describe(ctx context.Context, text *strings.Builder, name string, where client.Client, object client.Object) error {
	object, _ = object.DeepCopyObject().(client.Object)
	err := where.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		fmt.Fprintf(text, "%s: nothing\n", name)
		return nil
	}
	if err != nil {
		return err
	}
	work, isWork := object.(*workv1alpha1.Work)
	if isWork {
		withoutHistory(work)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	switch {
	case isWork:
		withoutChangesIn(content)
	case where != karmada:
		withoutChanges(mapIn(content, "metadata"), mapIn(content, "status"))
	}
	strip(content)
	plain, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(text, "%s: %s\n", name, plain)
	return nil
}

// strip removes the uncertain fields, and sorts conditions, which are in the order in
// which they were first set.
func strip(value any) {
	switch typed := value.(type) {
	case map[string]any:
		for _, field := range uncertain {
			delete(typed, field)
		}
		for _, inner := range typed {
			strip(inner)
		}
		if conditions, ok := typed["conditions"].([]any); ok {
			slices.SortFunc(conditions, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	case []any:
		for _, inner := range typed {
			strip(inner)
		}
	}
}

// leveled replaces names and identities.
func leveled(text, name string) string {
	text = regexp.MustCompile(regexp.QuoteMeta(name)+`(-configuration)?-[0-9a-z]{5,10}\b`).ReplaceAllString(text, "NAME$1-HASH")
	text = strings.ReplaceAll(text, name, "NAME")
	known := map[string]string{}
	return identities.ReplaceAllStringFunc(text, func(identity string) string {
		if known[identity] == "" {
			known[identity] = fmt.Sprintf("identity-%d", len(known)+1)
		}
		return known[identity]
	})
}
