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

package decide

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// karmada is the execution controller of Karmada v1.18, step by step.
type karmada struct {
	seen   int
	queued bool
	phase  phase
	tries  int
	work   *workv1alpha1.Work
	result metav1.ConditionStatus
}

type phase int

const (
	idle phase = iota
	dispatching
	applying
	recording
)

// advance lets the cache see one more version; a new generation is queued.
func (k *karmada) advance(w *world) {
	if k.seen == w.latest() {
		return
	}
	k.seen++
	if w.versions[k.seen].Generation != w.versions[k.seen-1].Generation {
		k.queued = true
	}
}

// step continues the current attempt, or begins one.
func (k *karmada) step(w *world, fails bool) {
	switch k.phase {
	case idle:
		if k.queued {
			k.queued = false
			k.work, k.phase, k.tries = w.versions[k.seen], dispatching, 0
		}
	case dispatching:
		status := metav1.ConditionTrue
		if isHeld(k.work) {
			status = metav1.ConditionFalse
		}
		if meta.IsStatusConditionPresentAndEqual(k.work.Status.Conditions, workv1alpha1.WorkDispatching, status) {
			k.phase = applying
			return
		}
		k.record(w, metav1.Condition{Type: workv1alpha1.WorkDispatching, Status: status}, applying)
	case applying:
		if isHeld(k.work) {
			k.phase = idle
			return
		}
		k.result = metav1.ConditionFalse
		if !fails {
			w.reporter.changed(w, k.work)
			w.recreator.missing = false
			k.result = metav1.ConditionTrue
		}
		k.phase, k.tries = recording, 0
	case recording:
		k.record(w, metav1.Condition{Type: workv1alpha1.WorkApplied, Status: k.result, Reason: "Attempted"}, idle)
		if k.phase == idle && k.result == metav1.ConditionFalse {
			k.queued = true
		}
	}
}

// record writes a condition as Karmada does: based on its cache, not at all if the
// cache already has it, and up to five times on a conflict.
func (k *karmada) record(w *world, condition metav1.Condition, next phase) {
	cached := w.versions[k.seen].DeepCopy()
	meta.SetStatusCondition(&cached.Status.Conditions, condition)
	same := slices.EqualFunc(cached.Status.Conditions, w.versions[k.seen].Status.Conditions, func(a, b metav1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
	})
	if same || w.put(k.seen, cached) {
		k.work, k.phase = cached, next
		return
	}
	if k.tries++; k.tries == 5 {
		k.phase, k.queued = idle, true
	}
}

// recreator is the work status controller of Karmada v1.18, as far as it re-creates
// what is deleted on the member. It reads the same cache as the execution controller.
type recreator struct {
	missing bool
	phase   phase
	work    *workv1alpha1.Work
}

// deleted removes the object from the member.
func (r *recreator) deleted(w *world) {
	if r.phase != idle || w.member == "" {
		return
	}
	if r.missing, r.work = true, w.versions[w.karmada.seen]; !isHeld(r.work) {
		r.phase = applying
	}
}

// step creates the object from the Work that was read when it was deleted, unless it
// exists, and records that in any case.
func (r *recreator) step(w *world) {
	switch r.phase {
	case applying:
		if r.missing {
			r.missing = false
			w.reporter.changed(w, r.work)
		}
		r.phase = recording
	case recording:
		cached := w.versions[w.karmada.seen].DeepCopy()
		meta.SetStatusCondition(&cached.Status.Conditions, metav1.Condition{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue, Reason: reasonRecreated})
		if w.put(w.karmada.seen, cached) {
			r.phase = idle
		}
	}
}

// reporter is the work status controller of Karmada v1.18, as far as it reports what it
// sees on the member: every object in turn, after any time.
type reporter struct {
	// objects are the generations of the resource that the object on the member was made
	// from, in order, and seen is how many of them the cache has seen.
	objects []int64
	seen    int
	phase   phase
	read    int64
}

// changed puts what a Work holds onto the member.
func (r *reporter) changed(w *world, work *workv1alpha1.Work) {
	w.member = render.Revision(work)
	r.objects = append(r.objects, render.TemplateGeneration(work))
}

// advance lets the cache see the next object.
func (r *reporter) advance(*world) { r.seen = min(r.seen+1, len(r.objects)) }

// step reads the object, or reports what was read.
func (r *reporter) step(w *world) {
	switch {
	case r.seen == 0:
	case r.phase == idle:
		r.read, r.phase = r.objects[r.seen-1], recording
	default:
		// It reads the Work again if it was changed meanwhile.
		work := w.versions[w.latest()].DeepCopy()
		report := fmt.Sprintf(`{"resourceTemplateGeneration":%d}`, r.read)
		work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Status: &runtime.RawExtension{Raw: []byte(report)}}}
		if !equality.Semantic.DeepEqual(work.Status, w.versions[w.latest()].Status) {
			w.put(w.latest(), work)
		}
		r.phase = idle
	}
}
