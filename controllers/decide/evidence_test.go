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
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// TestConfirmationIsNeverFalse lets the controller's decisions and a model of
// Karmada's controllers act on one Work in every order, with caches that lag, attempts
// that fail, reports that are late, content that changes, returns or cannot be read at any
// time, and propagation that is suspended and resumed at any time. At every step, a
// Work that counts as confirmed must be what the member has. When the changes end,
// the last of them must be confirmed.
func TestConfirmationIsNeverFalse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := newWorld()
		t.Repeat(map[string]func(*rapid.T){
			"content changes":           func(t *rapid.T) { world.changesTo(rapid.IntRange(0, len(contents)-1).Draw(t, "content")) },
			"content comes and goes":    func(*rapid.T) { world.unreadable = !world.unreadable },
			"we crash":                  func(*rapid.T) { world.our.crash(world) },
			"contact is lost and found": func(*rapid.T) { world.readySince++ },
			"a user suspends":           func(*rapid.T) { world.suspended = !world.suspended },
			"we see more":               func(*rapid.T) { world.our.advance(world) },
			"we decide":                 func(*rapid.T) { world.our.decide(world) },
			"we write":                  func(*rapid.T) { world.our.write(world) },
			"Karmada sees more":         func(*rapid.T) { world.karmada.advance(world) },
			"Karmada works":             func(t *rapid.T) { world.karmada.step(world, rapid.Bool().Draw(t, "fails")) },
			"Karmada retries":           func(*rapid.T) { world.karmada.queued = true },
			"the object is deleted":     func(*rapid.T) { world.recreator.deleted(world) },
			"Karmada re-creates":        func(*rapid.T) { world.recreator.step(world) },
			"Karmada sees the member":   func(*rapid.T) { world.reporter.advance(world) },
			"Karmada reports":           func(*rapid.T) { world.reporter.step(world) },
			"all comes to rest": func(t *rapid.T) {
				if err := world.settle(); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				if err := world.lie(); err != nil {
					t.Fatal(err)
				}
			},
		})
		if err := world.settle(); err != nil {
			t.Fatal(err)
		}
	})
}

// world is an API server with one Work, a member with one object, and three
// controllers.
type world struct {
	// versions are all versions of the Work; the index is the resourceVersion.
	versions []*workv1alpha1.Work
	// content is the index of what the user wants, and newest the newest generation of
	// the resource so far.
	content int
	newest  int64
	// unreadable: the content is not known for now.
	unreadable bool
	member     string
	readySince int
	// suspended: the user suspends dispatching. released is a version in which the
	// controller has resumed it nevertheless.
	suspended bool
	released  int
	now       time.Time
	our       us
	karmada   karmada
	recreator recreator
	reporter  reporter
}

// contents are what users want of a Deployment: three generations of it, each with two
// different overriders. A rollout may return to any of them.
var contents = func() (manifests []*render.Manifest) {
	for index := range int64(6) {
		template := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "web", "namespace": "shop", "generation": 1 + index/2},
			"spec":     map[string]any{"replicas": index},
		}}
		manifest, err := render.NewManifest(template, "")
		if err != nil {
			panic(err)
		}
		manifests = append(manifests, manifest)
	}
	return manifests
}()

func newWorld() *world {
	w := &world{}
	w.changesTo(0)
	first, err := contents[w.content].NewWork(render.Owner{}, render.Target{Cluster: "member", Newest: w.newest})
	if err != nil {
		panic(err)
	}
	first.Generation = 1
	w.versions = []*workv1alpha1.Work{compacted(first)}
	w.karmada.queued = true
	return w
}

// compacted is a Work as the controller and the model of Karmada see it.
func compacted(work *workv1alpha1.Work) *workv1alpha1.Work {
	if _, err := render.Compact(work); err != nil {
		panic(err)
	}
	return work
}

// changesTo lets the user want something. A generation that was never there before is the
// newest one.
func (w *world) changesTo(content int) {
	w.content = content
	w.newest = max(w.newest, contents[content].TemplateGeneration())
}

func (w *world) desired() string { return contents[w.content].Revision }

func (w *world) latest() int { return len(w.versions) - 1 }

// put stores a new version of the Work if it is based on the latest one.
func (w *world) put(base int, work *workv1alpha1.Work) bool {
	if base != w.latest() {
		return false
	}
	if !equality.Semantic.DeepEqual(work.Spec, w.versions[base].Spec) {
		work.Generation++
	}
	w.versions = append(w.versions, work)
	return true
}

func (w *world) cluster() Cluster {
	return Cluster{Exists: true, Ready: true, ReadySince: fmt.Sprint(w.readySince)}
}

// lie returns what the controller would report although it is not true.
func (w *world) lie() error {
	if w.released > 0 {
		return fmt.Errorf("version %d resumes dispatching, which the user suspends", w.released)
	}
	seen := w.versions[w.our.seen]
	if proof, _ := EvidenceOf(seen); proof == Confirmed && render.Revision(seen) != w.member && !w.recreator.missing {
		return fmt.Errorf("%s counts as confirmed, the member has %q", render.Revision(seen), w.member)
	}
	return nil
}

// settle lets everybody act in turn until nothing changes, and returns what is wrong
// then.
func (w *world) settle() error {
	w.unreadable, w.suspended = false, false
	for range 200 {
		w.our.advance(w)
		w.our.decide(w)
		w.our.write(w)
		w.our.write(w)
		w.karmada.advance(w)
		w.karmada.step(w, false)
		w.recreator.step(w)
		w.reporter.advance(w)
		w.reporter.step(w)
		if err := w.lie(); err != nil {
			return err
		}
	}
	last := w.versions[w.latest()]
	if proof, _ := EvidenceOf(last); proof != Confirmed || w.member != w.desired() {
		return fmt.Errorf("stuck: %s is %s, wanted is %s, the member has %s", render.Revision(last), proof, w.desired(), w.member)
	}
	written := len(w.versions)
	for range 20 {
		w.our.advance(w)
		w.our.decide(w)
		w.our.write(w)
		w.our.write(w)
	}
	if len(w.versions) != written {
		return fmt.Errorf("%d writes although all was right", len(w.versions)-written)
	}
	return nil
}

// us is the controller: it sees its own writes immediately, and others' later.
type us struct {
	seen    int
	base    int
	pending []func(w *world, base int) (*workv1alpha1.Work, bool)
}

// crash forgets what was decided; a new process starts with the latest version.
func (u *us) crash(w *world) { u.pending, u.seen = nil, w.latest() }

func (u *us) advance(w *world) { u.seen = min(u.seen+1, w.latest()) }

func (u *us) decide(w *world) {
	if len(u.pending) > 0 {
		return
	}
	w.now = w.now.Add(time.Second)
	observed := &Observed{
		Now: w.now, Resource: Resource{Revision: w.desired()},
		Clusters: map[string]Cluster{"member": w.cluster()},
	}
	work := w.versions[u.seen]
	target := render.Target{Cluster: "member", ReadySince: w.cluster().ReadySince, Suspend: w.suspended}
	plan := &Plan{}
	if w.unreadable {
		planStanding(observed, plan, target, claimed(work))
	} else if write, needed := planWrite(observed, target, observed.Resource.On("member"), claimed(work)); needed {
		plan.Writes = append(plan.Writes, write)
	}
	for _, write := range plan.Writes {
		u.plans(w, write)
	}
}

// plans queues the requests of a write.
func (u *us) plans(w *world, write Write) {
	u.base = u.seen
	manifest := contents[w.content]
	reset := write.NeedsReset(manifest.TemplateGeneration())
	if reset {
		u.pending = append(u.pending, func(w *world, base int) (*workv1alpha1.Work, bool) {
			removed := w.versions[base].DeepCopy()
			removed.Status.Conditions = ResetConditions(removed, confirmedRevision(removed), time.Unix(0, 0))
			return removed, w.put(base, removed)
		})
	}
	if write.Nudge || write.Update || write.Terms {
		u.pending = append(u.pending, func(w *world, base int) (*workv1alpha1.Work, bool) {
			updated := w.versions[base].DeepCopy()
			switch {
			case write.Terms:
				updated = patchedWith(updated, render.Terms(updated, render.Owner{}, write.Target, write.Confirmed))
			case write.Nudge:
				render.Claim(updated, render.Owner{}, write.Target)
				updated.Spec.SuspendDispatching = render.Nudged(updated)
				maps.Copy(updated.Annotations, write.AllNotes())
				if write.Target.Suspend && !isHeld(updated) {
					w.released = len(w.versions)
				}
			default:
				updated = rewritten(w, write, manifest, updated, reset)
			}
			return updated, w.put(base, updated)
		})
	}
}

// rewritten is a Work into which a manifest is written, after a reset or without one.
func rewritten(w *world, write Write, manifest *render.Manifest, live *workv1alpha1.Work, reset bool) *workv1alpha1.Work {
	target := write.Target
	target.Newest = w.newest
	updated, err := manifest.UpdatedWork(live, render.Owner{}, target, write.Confirmed)
	if err != nil {
		panic(err)
	}
	updated.Status = *live.Status.DeepCopy()
	if write.Reset && !reset {
		updated.Annotations[propagationv1alpha1.ReportProofAnnotation] = ReportProof(manifest.Revision, live, w.now)
	}
	return compacted(updated)
}

// write carries out the next of the decided writes.
func (u *us) write(w *world) {
	if len(u.pending) == 0 {
		return
	}
	if _, ok := u.pending[0](w, u.base); !ok {
		u.pending = nil
		return
	}
	u.pending = u.pending[1:]
	u.base = w.latest()
	u.seen = max(u.seen, u.base)
}

// claimed is a Work with the right metadata, so that decisions are about its
// content.
func claimed(work *workv1alpha1.Work) *workv1alpha1.Work {
	copied := work.DeepCopy()
	render.Claim(copied, render.Owner{}, render.Target{})
	return copied
}

func isHeld(work *workv1alpha1.Work) bool { return ptr.Deref(work.Spec.SuspendDispatching, false) }

func setRevision(work *workv1alpha1.Work, revision string) {
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte("revision " + revision + " 0")}}}
}

// After an outage, Dispatching is as old as the first attempt, which was made without
// contact. That the True comes much later does not mean that the member has not answered.
func TestEvidenceAfterAnOutage(t *testing.T) {
	begins := metav1.Unix(1000, 0)
	for name, tc := range map[string]struct {
		regained, applied int
		want              Evidence
	}{
		"at once":             {100, 101, Confirmed},
		"without an answer":   {100, 132, unanswered},
		"contact before that": {-100, 32, unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			after := func(seconds int) metav1.Time {
				return metav1.NewTime(begins.Add(time.Duration(seconds) * time.Second))
			}
			work := &workv1alpha1.Work{Status: workv1alpha1.WorkStatus{Conditions: []metav1.Condition{
				{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue, LastTransitionTime: begins},
				{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue, LastTransitionTime: after(tc.applied)},
			}}}
			work.Annotations = map[string]string{propagationv1alpha1.ClusterReadySinceAnnotation: after(tc.regained).UTC().Format(time.RFC3339)}
			if got, _ := EvidenceOf(work); got != tc.want {
				t.Errorf("the evidence is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestEvidence(t *testing.T) {
	applied := func(status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: workv1alpha1.WorkApplied, Status: status, LastTransitionTime: metav1.Unix(100, 0)}
	}
	dispatching := metav1.Condition{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Unix(100, 0)}
	suspended := metav1.Condition{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionFalse}
	later := func(condition metav1.Condition, seconds int) metav1.Condition {
		condition.LastTransitionTime = metav1.NewTime(condition.LastTransitionTime.Add(time.Duration(seconds) * time.Second))
		return condition
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		want       Evidence
	}{
		"nothing reported":              {nil, pending},
		"attempt begun":                 {[]metav1.Condition{dispatching}, pending},
		"applied after the attempt":     {[]metav1.Condition{dispatching, applied(metav1.ConditionTrue)}, Confirmed},
		"applied, suspended since":      {[]metav1.Condition{suspended, applied(metav1.ConditionTrue)}, Confirmed},
		"refused":                       {[]metav1.Condition{dispatching, applied(metav1.ConditionFalse)}, Refused},
		"refused by an older attempt":   {[]metav1.Condition{applied(metav1.ConditionFalse)}, Refused},
		"applied by an older attempt":   {[]metav1.Condition{applied(metav1.ConditionTrue)}, premature},
		"older attempt, then a new one": {[]metav1.Condition{applied(metav1.ConditionTrue), dispatching}, ambiguous},
		// The longest time that a member waits for a webhook that it may ignore.
		"applied slowly": {[]metav1.Condition{dispatching, later(applied(metav1.ConditionTrue), 30)}, Confirmed},
		// Karmada reports success if the member does not answer within 32 s.
		"applied without an answer":   {[]metav1.Condition{dispatching, later(applied(metav1.ConditionTrue), 32)}, unanswered},
		"suspended and resumed since": {[]metav1.Condition{later(dispatching, 60), applied(metav1.ConditionTrue)}, Confirmed},
		"suspended for long":          {[]metav1.Condition{suspended, later(applied(metav1.ConditionTrue), 60)}, Confirmed},
		"unknown":                     {[]metav1.Condition{dispatching, applied(metav1.ConditionUnknown)}, pending},
	} {
		t.Run(name, func(t *testing.T) {
			work := &workv1alpha1.Work{Status: workv1alpha1.WorkStatus{Conditions: tc.conditions}}
			if got, _ := EvidenceOf(work); got != tc.want {
				t.Errorf("evidenceOf() = %s, want %s", got, tc.want)
			}
			work.Status.Conditions = ResetConditions(work, confirmedRevision(work), now)
			if got, _ := EvidenceOf(work); got != pending || WantsReset(work) || !attemptMissing(work) {
				t.Errorf("resetConditions() leaves %v", work.Status.Conditions)
			}
			work.Generation++
			if attemptMissing(work) {
				t.Error("a spec written after the reset is attempted without more ado")
			}
		})
	}
}

func TestNudged(t *testing.T) {
	for _, before := range []*bool{nil, ptr.To(false), ptr.To(true)} {
		work := &workv1alpha1.Work{Spec: workv1alpha1.WorkSpec{SuspendDispatching: before}}
		if after := render.Nudged(work); equality.Semantic.DeepEqual(before, after) || ptr.Deref(after, false) {
			t.Errorf("Nudged() = %v for %v, want another value that does not suspend", after, before)
		}
	}
}
