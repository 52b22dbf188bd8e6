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
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// rows follows the DirectPropagations of a namespace and shows each change of a row
// when it happens.
type rows struct {
	out   *printer
	table table
	// expected maps DirectPropagations to what must become of them.
	expected map[string]goal

	shown   map[string]string
	settled map[string]bool
	last    map[string]*propagationv1alpha1.DirectPropagation
}

// goal is what must become of a DirectPropagation.
type goal struct {
	// name completes "is", for example Ready.
	name string
	// condition is the type of the condition that explains it.
	condition string
	reached   func(*propagationv1alpha1.DirectPropagation) bool
}

// table is how rows are shown.
type table struct {
	header string
	row    func(*propagationv1alpha1.DirectPropagation, *propagationv1alpha1.ClusterStatus) string
}

// confirmations shows what each cluster has confirmed.
var confirmations = table{
	header: fmt.Sprintf("%-11s %-9s %-8s %-14s %s", "OBJECT", "CLUSTER", "APPLIED", "REASON", "CONFIRMED REVISION"),
	row: func(object *propagationv1alpha1.DirectPropagation, row *propagationv1alpha1.ClusterStatus) string {
		return fmt.Sprintf("%-11s %-9s %-8s %-14s %s", object.Name, row.Name, row.Applied, row.Reason, row.Revision)
	},
}

// readyAt is the goal that every cluster has confirmed a revision.
func readyAt(revision string) goal {
	return goal{name: "Ready", condition: propagationv1alpha1.ConditionReady, reached: func(object *propagationv1alpha1.DirectPropagation) bool {
		return isSettled(object, revision)
	}}
}

// patience is the time limit for reaching a goal.
const patience = 2 * time.Minute

// awaitGoals shows rows until the expected goals are reached.
func awaitGoals(ctx context.Context, server client.WithWatch, out *printer, shown table, expected map[string]goal) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not reached after %v", patience))
	defer cancel()
	r := &rows{
		out: out, table: shown, expected: expected,
		shown: map[string]string{}, settled: map[string]bool{}, last: map[string]*propagationv1alpha1.DirectPropagation{},
	}
	out.line("%7s  %s", "AFTER", shown.header)
	for !r.done() {
		if err := r.follow(ctx, server); err != nil {
			return fmt.Errorf("%w\n%s", err, r.describe())
		}
	}
	return nil
}

// follow lists and watches until everything is settled or the API server ends the
// watch, as it does occasionally.
func (r *rows) follow(ctx context.Context, server client.WithWatch) error {
	list := &propagationv1alpha1.DirectPropagationList{}
	if err := server.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing the DirectPropagations: %w", err)
	}
	for i := range list.Items {
		r.see(&list.Items[i])
	}
	if r.done() {
		return nil
	}
	watch, err := server.Watch(ctx, list, client.InNamespace(namespace), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("watching the DirectPropagations: %w", err)
	}
	defer watch.Stop()
	for !r.done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event, open := <-watch.ResultChan():
			if !open {
				return nil
			}
			if object, ok := event.Object.(*propagationv1alpha1.DirectPropagation); ok {
				r.see(object)
			}
		}
	}
	return nil
}

// see shows what has changed in an object.
func (r *rows) see(object *propagationv1alpha1.DirectPropagation) {
	expected, ours := r.expected[object.Name]
	if !ours || r.settled[object.Name] {
		return
	}
	r.last[object.Name] = object
	clusters := slices.Clone(object.Status.Clusters)
	slices.SortFunc(clusters, func(a, b propagationv1alpha1.ClusterStatus) int { return strings.Compare(a.Name, b.Name) })
	for i := range clusters {
		row := &clusters[i]
		text := r.table.row(object, row)
		if key := object.Name + "/" + row.Name; r.shown[key] != text {
			r.shown[key] = text
			r.out.line("%s  %s", r.out.since(), text)
		}
	}
	if expected.reached(object) {
		r.settled[object.Name] = true
		because := meta.FindStatusCondition(object.Status.Conditions, expected.condition)
		r.out.line("%s  %s is %s: %s", r.out.since(), object.Name, expected.name, because.Message)
	}
}

// isSettled reports whether an object is Ready at a revision. Ready alone is not
// enough: until the controller has seen a change of the resource, Ready describes
// the previous state of the resource.
func isSettled(object *propagationv1alpha1.DirectPropagation, revision string) bool {
	return ptr.Deref(object.Status.ObservedGeneration, -1) == object.Generation &&
		meta.IsStatusConditionTrue(object.Status.Conditions, propagationv1alpha1.ConditionReady) &&
		!slices.ContainsFunc(object.Status.Clusters, func(row propagationv1alpha1.ClusterStatus) bool { return row.Revision != revision })
}

func (r *rows) done() bool { return len(r.settled) == len(r.expected) }

// describe lists what is missing.
func (r *rows) describe() string {
	lines := []string{}
	for _, name := range slices.Sorted(maps.Keys(r.expected)) {
		object := r.last[name]
		switch {
		case r.settled[name]:
		case object == nil:
			lines = append(lines, fmt.Sprintf("DirectPropagation %s/%s does not exist", namespace, name))
		case len(object.Status.Conditions) == 0:
			lines = append(lines, fmt.Sprintf("DirectPropagation %s/%s: the controller has not seen it", namespace, name))
		default:
			lines = append(lines, fmt.Sprintf("DirectPropagation %s/%s is not %s:", namespace, name, r.expected[name].name))
			for _, condition := range object.Status.Conditions {
				lines = append(lines, fmt.Sprintf("  %s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
			}
		}
	}
	return strings.Join(lines, "\n")
}

var errUntrue = errors.New("the status does not match the cluster")
