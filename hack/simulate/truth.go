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

package simulate

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// place is an object on a member.
type place struct {
	member string
	key    karmada.Key
}

// sight is what was at a place, or what a Work held, from a step on.
type sight struct {
	step    int
	content string
}

// truth knows what really happened, and checks what the controller does and says
// against it.
type truth struct {
	w *World
	// contents are the contents that a revision stands for.
	contents map[string]string
	// ran is what members had; an empty content for nothing.
	ran map[place][]sight
	// sent is, by Work, which revision it held.
	sent map[types.NamespacedName][]sight
	// named is, by DirectPropagation, what it wants where.
	named map[types.NamespacedName]map[place]bool
	// withdrawn are the places from which somebody took an object: a user, or Karmada.
	withdrawn map[place]bool
	// seen is how many deletions of each member were checked.
	seen map[string]int
	// violations are what must not happen and did.
	violations []*violation
}

func newTruth(w *World) *truth {
	return &truth{
		w: w, contents: map[string]string{}, ran: map[place][]sight{}, sent: map[types.NamespacedName][]sight{},
		named: map[types.NamespacedName]map[place]bool{}, withdrawn: map[place]bool{}, seen: map[string]int{},
	}
}

func (t *truth) violated(invariant, format string, arguments ...any) {
	found := violated(invariant, format, arguments...)
	t.violations = append(t.violations, found)
	t.w.tell("VIOLATION: %s", found.what)
}

// wrote checks a write to the API server.
func (t *truth) wrote(write apiserver.Write) {
	switch write.Resource {
	case "works":
		t.wroteWork(write)
	case "directpropagations":
		t.wrotePropagation(write)
	}
}

func asWork(object *unstructured.Unstructured) *workv1alpha1.Work {
	if object == nil {
		return nil
	}
	work := &workv1alpha1.Work{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, work); err != nil {
		panic(err) // a bug of the simulation
	}
	return work
}

// wroteWork checks that the controller writes no Work of others, and learns which
// content is sent under which revision.
func (t *truth) wroteWork(write apiserver.Write) {
	before, after := asWork(write.Before), asWork(write.After)
	byController := strings.HasPrefix(write.Client, theController)
	if byController && before != nil && !isOurs(before) {
		t.violated("foreign Work written", "the controller has written Work %s/%s of somebody else", write.Namespace, write.Name)
	}
	if before != nil && !byController && (after == nil || after.DeletionTimestamp != nil || !isOurs(after)) {
		t.withdraw(before)
	}
	if after != nil && len(after.Spec.Workload.Manifests) == 1 {
		t.learn(after, byController)
	}
}

// learn records what a Work holds, and which content the controller sends under which
// revision.
func (t *truth) learn(after *workv1alpha1.Work, byController bool) {
	manifest := &unstructured.Unstructured{}
	if err := manifest.UnmarshalJSON(after.Spec.Workload.Manifests[0].Raw); err != nil {
		panic(err) // a bug of the simulation
	}
	content := karmada.ContentHash(manifest)
	if _, err := render.Compact(after); err != nil {
		panic(err) // a bug of the simulation
	}
	revision, key := render.Revision(after), types.NamespacedName{Namespace: after.Namespace, Name: after.Name}
	if sent := t.sent[key]; len(sent) == 0 || sent[len(sent)-1].content != revision {
		t.sent[key] = append(sent, sight{step: t.w.steps, content: revision})
	}
	if byController {
		t.contents[revision] = content
	}
}

// isOurs reports whether a Work has the marks of an owner and none of a policy.
func isOurs(work *workv1alpha1.Work) bool {
	return work.Labels[propagationv1alpha1.OwnerUIDLabel] != "" && metav1.GetControllerOf(work) == nil
}

// withdraw records that what a Work holds may leave its member.
func (t *truth) withdraw(work *workv1alpha1.Work) {
	if len(work.Spec.Workload.Manifests) != 1 {
		return
	}
	manifest := &unstructured.Unstructured{}
	if err := manifest.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		return // it was edited
	}
	t.withdrawn[place{member: render.ClusterOf(work.Namespace), key: karmada.KeyOf(manifest)}] = true
}

func asPropagation(object *unstructured.Unstructured) *propagationv1alpha1.DirectPropagation {
	propagation := &propagationv1alpha1.DirectPropagation{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, propagation); err != nil {
		panic(err) // a bug of the simulation
	}
	return propagation
}

// wrotePropagation records which objects each member should have, and checks the status.
func (t *truth) wrotePropagation(write apiserver.Write) {
	key, wants := types.NamespacedName{Namespace: write.Namespace, Name: write.Name}, map[place]bool{}
	if write.After != nil {
		propagation := asPropagation(write.After)
		if write.Subresource == "status" {
			t.judge(propagation)
		}
		if propagation.DeletionTimestamp == nil {
			wants = wantedBy(propagation)
		}
	}
	for where := range t.named[key] {
		if !wants[where] {
			t.withdrawn[where] = true
		}
	}
	t.named[key] = wants
}

func wantedBy(propagation *propagationv1alpha1.DirectPropagation) map[place]bool {
	wants := map[place]bool{}
	for _, cluster := range propagation.Spec.Clusters {
		wants[place{member: cluster.Name, key: keyNamed(propagation.Spec.Resource, propagation.Namespace)}] = true
	}
	return wants
}

func keyNamed(reference propagationv1alpha1.ResourceReference, namespace string) karmada.Key {
	return karmada.Key{
		GroupVersionKind: schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind), Namespace: namespace, Name: reference.Name,
	}
}

// judge checks that a status says nothing that is not true.
func (t *truth) judge(propagation *propagationv1alpha1.DirectPropagation) {
	status := &propagation.Status
	if status.ObservedGeneration == nil || *status.ObservedGeneration != propagation.Generation {
		return // it is about another spec
	}
	trueRows := 0
	for i := range status.Clusters {
		row := &status.Clusters[i]
		if row.Applied != metav1.ConditionTrue {
			continue
		}
		trueRows++
		if why := t.disproves(propagation, row); why != "" {
			t.violated("a row lies", "DirectPropagation %s says that %s has applied revision %s, but %s", propagation.Name, row.Name, row.Revision, why)
		}
	}
	for _, condition := range status.Conditions {
		if condition.Type == propagationv1alpha1.ConditionReady && condition.Status == metav1.ConditionTrue && trueRows != len(propagation.Spec.Clusters) {
			t.violated("Ready lies", "DirectPropagation %s is Ready, but only %d of %d rows are True", propagation.Name, trueRows, len(propagation.Spec.Clusters))
		}
	}
}

// disproves returns why a row that is True is not true; empty if it is: the member had
// the content of the revision when the Work that holds it was written, or later.
func (t *truth) disproves(propagation *propagationv1alpha1.DirectPropagation, row *propagationv1alpha1.ClusterStatus) string {
	reference := propagation.Spec.Resource
	sent := t.sent[render.WorkKey(row.Name, reference.Kind, propagation.Namespace, reference.Name)]
	last := slices.IndexFunc(sent, func(s sight) bool { return s.content == row.Revision })
	if last < 0 {
		return "no Work ever held it"
	}
	for i, s := range sent {
		if s.content == row.Revision {
			last = i
		}
	}
	want, since := t.contents[row.Revision], sent[last].step
	if ran := t.ran[place{member: row.Name, key: keyNamed(reference, propagation.Namespace)}]; !hadSince(ran, want, since) {
		return fmt.Sprintf("the member has not had it since step %d, when its Work was written: it had %v", since, ran[max(0, len(ran)-3):])
	}
	return ""
}

// hadSince reports whether a content was there at a step or later.
func hadSince(ran []sight, content string, step int) bool {
	for i, s := range ran {
		ended := i+1 < len(ran) && ran[i+1].step <= step
		if s.content == content && !ended {
			return true
		}
	}
	return false
}

// look checks the members, and returns an error if something has happened that must not.
func (t *truth) look() error {
	for _, name := range memberNames {
		member := t.w.karmada.Member(name)
		t.lookAt(member)
		deletions := member.Deletions()
		for _, deletion := range deletions[t.seen[name]:] {
			if where := (place{member: name, key: deletion.Key}); deletion.Cause == karmada.Withdrawn && !t.withdrawn[where] {
				t.violated("something is lost", "%s was deleted on %s, because of Work %s, although nobody withdrew it", deletion.Key, name, deletion.Work)
			}
		}
		t.seen[name] = len(deletions)
	}
	if len(t.violations) > 0 {
		return t.violations[0]
	}
	return nil
}

// lookAt records what a member has.
func (t *truth) lookAt(member *karmada.Member) {
	there := map[place]bool{}
	for _, key := range member.Keys() {
		where := place{member: member.Name, key: key}
		there[where] = true
		running, _ := member.Runs(key.GroupVersionKind, key.Namespace, key.Name)
		t.record(where, running.Content)
	}
	for where := range t.ran {
		if where.member == member.Name && !there[where] {
			t.record(where, "")
		}
	}
}

func (t *truth) record(where place, content string) {
	if ran := t.ran[where]; len(ran) == 0 || ran[len(ran)-1].content != content {
		t.ran[where] = append(ran, sight{step: t.w.steps, content: content})
	}
}
