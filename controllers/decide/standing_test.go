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
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// barriers keep new content from a cluster.
var barriers = map[string]sceneOption{
	"the resource is missing":   problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound}),
	"its kind is gone":          problem(Problem{Reason: propagationv1alpha1.ReasonResourceKindNotFound, Stalled: true}),
	"it cannot be read":         problem(Problem{Reason: propagationv1alpha1.ReasonResourceReadFailed, Err: errors.New("slow")}),
	"it must not be propagated": problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotPropagatable, Stalled: true}),
	"the account is denied": func(o *Observed) {
		o.Denials = map[string]Denial{"member1": {Reason: propagationv1alpha1.ReasonForbidden}}
	},
	"its overrides fail": func(o *Observed) {
		o.Resource.Renderings = map[string]*Rendering{"member1": {Reason: propagationv1alpha1.ReasonOverrideFailed}}
	},
}

type standingCase struct {
	options []sceneOption
	want    []string
}

// standing are Works that get no new content, and what is done to each.
func standing() map[string]standingCase {
	const setTerms = "set the terms on member1"
	another := "0 u0 " + elsewhere
	foreign := func(work *workv1alpha1.Work) { work.Labels[propagationv1alpha1.OwnerUIDLabel] = "theirs" }
	unmarked := func(work *workv1alpha1.Work) { delete(work.Annotations, propagationv1alpha1.OwnerNameAnnotation) }
	unguarded := func(work *workv1alpha1.Work) { work.Finalizers = nil }
	overwriting := func(o *Observed) { o.Spec.ConflictResolution = propagationv1alpha1.ConflictOverwrite }
	return map[string]standingCase{
		"all is right":                      {[]sceneOption{on("member1", isConfirmed)}, nil},
		"no Work":                           {[]sceneOption{suspended}, nil},
		"suspension begins":                 {[]sceneOption{suspended, on("member1", isConfirmed)}, []string{setTerms}},
		"suspension ends":                   {[]sceneOption{on("member1", isConfirmed, isSuspended)}, []string{setTerms}},
		"preservation begins":               {[]sceneOption{preserving, on("member1", isConfirmed)}, []string{setTerms}},
		"preservation ends":                 {[]sceneOption{on("member1", isConfirmed, preserve)}, []string{setTerms}},
		"the name of the owner was removed": {[]sceneOption{on("member1", isConfirmed, unmarked)}, []string{setTerms}},
		"Karmada's finalizer was removed":   {[]sceneOption{on("member1", isConfirmed, unguarded)}, []string{setTerms}},
		"another conflict resolution":       {[]sceneOption{overwriting, on("member1", isConfirmed)}, nil},
		"an older revision, suspended":      {[]sceneOption{suspended, on("member1", revision(older))}, []string{setTerms}},
		"edited":                            {[]sceneOption{on("member1", isConfirmed, wrote(older))}, []string{"reset member1"}},
		"edited, no longer True":            {[]sceneOption{on("member1", isRefused, wrote(older))}, nil},
		"edited, suspended":                 {[]sceneOption{suspended, on("member1", isConfirmed, wrote(older))}, []string{"reset and " + setTerms}},
		"another object, suspended":         {[]sceneOption{on("member1", isSuspended, conditions(), payload(another))}, nil},
		"another object, contact regained":  {[]sceneOption{on("member1", payload(another)), cluster("member1", regained)}, nil},
		"another object, suspension begins": {[]sceneOption{suspended, on("member1", isConfirmed, payload(another))}, []string{setTerms}},
		"its deletion hangs":                {[]sceneOption{on("member1", isConfirmed, preserve, terminating(now.Add(-time.Minute)))}, []string{"nudge the deletion on member1", "look again in 3s"}},
		"of somebody else":                  {[]sceneOption{suspended, on("member1", isConfirmed, foreign)}, nil},
		"being deleted":                     {[]sceneOption{suspended, on("member1", isConfirmed, terminating(now))}, nil},
		"cluster terminating":               {[]sceneOption{suspended, on("member1"), cluster("member1", Cluster{Exists: true, Ready: true, Terminating: true})}, nil},
		"no contact, suspended":             {[]sceneOption{suspended, on("member1", isConfirmed), cluster("member1", lost)}, []string{setTerms}},
		"contact regained":                  {[]sceneOption{on("member1"), cluster("member1", regained)}, []string{"nudge member1"}},
		"contact regained, edited":          {[]sceneOption{on("member1", wrote(older)), cluster("member1", regained)}, nil},
		"reset, and then nothing written":   {[]sceneOption{on("member1", conditions(ResetConditions(&workv1alpha1.Work{}, "", now)...))}, []string{"nudge member1"}},
		"a True of an older attempt":        {[]sceneOption{on("member1", conditions(applied))}, []string{"reset member1"}},
		"a True of an unknown attempt":      {[]sceneOption{on("member1", conditions(applied, dispatched))}, []string{"reset and nudge member1"}},
		"such a True, suspension begins":    {[]sceneOption{suspended, on("member1", conditions(applied, dispatched))}, []string{"reset and " + setTerms}},
		"such a True, suspension ends":      {[]sceneOption{on("member1", isSuspended, isUnanswered)}, []string{"reset and " + setTerms}},
	}
}

// TestWhatNeedsNoContentIsDone: while a cluster gets no new content, for whatever reason,
// suspension, preservation and the marks of the owner still reach its Work, and Karmada is
// still asked to attempt it. Its content stays.
func TestWhatNeedsNoContentIsDone(t *testing.T) {
	for name, tc := range standing() {
		for cause, option := range barriers {
			t.Run(cause+", "+name, func(t *testing.T) {
				plan := NewPlan(scene(one, append([]sceneOption{option}, tc.options...)...))
				if diff := cmp.Diff(tc.want, steps(plan)); diff != "" {
					t.Errorf("NewPlan() (-want +got):\n%s", diff)
				}
				if plan.NeedsManifest() {
					t.Error("the plan needs the content")
				}
			})
		}
	}
}

// TestTermsKeepWhatIsProven: terms that are written without content are as good as those
// that are written with it, and do not change what the Work proves.
func TestTermsKeepWhatIsProven(t *testing.T) {
	for name, change := range map[string]func(*workv1alpha1.Work){
		"confirmed": isConfirmed, "refused": isRefused, "premature": conditions(applied), "pending": func(*workv1alpha1.Work) {},
	} {
		t.Run(name, func(t *testing.T) {
			work := liveWork(scene(one), "member1", "web", change)
			before, _ := EvidenceOf(work)
			known := confirmedRevision(work)
			target := render.Target{Cluster: "member1", Suspend: true, Preserve: true, ReadySince: since}
			patched := patchedWith(work, render.Terms(work, owner, target, known))
			if after, _ := EvidenceOf(patched); after != before || confirmedRevision(patched) != known {
				t.Errorf("%s with %q before, %s with %q after", before, known, after, confirmedRevision(patched))
			}
			if deviates(patched, owner, target) || render.Revision(patched) != render.Revision(work) {
				t.Errorf("the terms are not set: %+v", patched)
			}
			if back := patchedWith(patched, render.Terms(patched, owner, render.Target{Cluster: "member1"}, known)); deviates(back, owner, render.Target{Cluster: "member1"}) {
				t.Errorf("the terms are not taken back: %+v", back)
			}
		})
	}
}

// patchedWith applies a merge patch to a compact Work, whose manifest is not JSON and stays
// as it is. It panics if that cannot be done.
func patchedWith(work *workv1alpha1.Work, patch map[string]any) *workv1alpha1.Work {
	plain, patched := work.DeepCopy(), &workv1alpha1.Work{}
	plain.Spec.Workload.Manifests = nil
	document, err := json.Marshal(plain)
	change, unclear := json.Marshal(patch)
	merged, unfit := jsonpatch.MergePatch(document, change)
	if err := errors.Join(err, unclear, unfit, json.Unmarshal(merged, patched)); err != nil {
		panic(err)
	}
	patched.Spec.Workload.Manifests = work.Spec.Workload.Manifests
	return patched
}

// TestRefusedTermsAreTold: a row that explains why there is no new content also says that
// what needs none could not be written.
func TestRefusedTermsAreTold(t *testing.T) {
	refused := &Outcome{Failures: map[string]error{"member1": errors.New("denied by a webhook")}}
	for cause, option := range barriers {
		t.Run(cause, func(t *testing.T) {
			rows := NewStatus(scene(one, option, suspended, on("member1", isConfirmed)), refused).Clusters
			if !strings.Contains(rows[0].Message, "denied by a webhook") {
				t.Errorf("the row says %q", rows[0].Message)
			}
		})
	}
}

// While what a cluster should get cannot be kept for a rollout, it gets what needs no content,
// keeps what it has, and loses only what is being deleted already.
func TestHoldBack(t *testing.T) {
	held := func(options ...sceneOption) []string {
		observed := scene(one, options...)
		plan := NewPlan(observed)
		plan.HoldBack(observed, "revision", errors.New("exceeded quota"), time.Second, func(string) bool { return true })
		if plan.HeldBack["member1"] == nil {
			t.Error("the row does not say that something is held back")
		}
		return steps(plan)
	}
	wait := "look again in 1s"
	before := func(observed *Observed) {
		work := liveWork(observed, "member1", "old", isConfirmed, isHealthy)
		observed.Works[types.NamespacedName{Namespace: work.Namespace, Name: work.Name}] = work
	}
	for name, tc := range map[string]struct {
		options []sceneOption
		want    []string
	}{
		"an older revision":                {[]sceneOption{on("member1", isConfirmed, revision(older))}, []string{wait}},
		"an older one, suspension begins":  {[]sceneOption{suspended, on("member1", isConfirmed, revision(older))}, []string{"set the terms on member1", wait}},
		"no Work":                          {nil, []string{wait}},
		"another object of that name":      {[]sceneOption{on("member1", isConfirmed, isHealthy, payload("0 u1 "+elsewhere))}, []string{wait}},
		"a resource that was named before": {[]sceneOption{before}, []string{wait}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, held(tc.options...)); diff != "" {
				t.Errorf("the plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestResourceChangesHands: when another resource is named, the old one stays
// on a cluster until the new one is about to be written there.
func TestResourceChangesHands(t *testing.T) {
	renamed := func(o *Observed) { o.Spec.Resource.Name = "shop" }
	old := on("member1", isConfirmed, isHealthy)
	for name, tc := range map[string]struct {
		observed *Observed
		want     []string
	}{
		"the new one can be written": {scene([]string{"member1"}, old, renamed), []string{"create member1", "delete member1"}},
		"the new one is missing":     {scene([]string{"member1"}, old, renamed, problem(Problem{})), nil},
		"somebody holds the new one": {scene([]string{"member1"}, old, renamed, func(o *Observed) { o.Holders["member1"] = "somebody" }), []string{"look again in 3s"}},
		"the cluster leaves, and the deletion of the old one hangs": {
			scene([]string{"member1"}, on("member1", preserve, withFinalizer, terminating(now.Add(-time.Minute))), renamed, func(o *Observed) { o.Holders["member1"] = "somebody" },
				cluster("member1", Cluster{Exists: true, Ready: true, Terminating: true, ReadySince: since})),
			[]string{"nudge the deletion on member1", "look again in 3s"},
		},
		"the cluster leaves, and the deletion of the old one may not hang": {
			scene([]string{"member1"}, on("member1", preserve, withFinalizer, terminating(now.Add(-5*time.Second))), renamed, func(o *Observed) { o.Holders["member1"] = "somebody" },
				cluster("member1", Cluster{Exists: true, Ready: true, Terminating: true, ReadySince: since})),
			[]string{"look again in 3s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, steps(NewPlan(tc.observed))); diff != "" {
				t.Errorf("NewPlan() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStandingAfterARollout: the resource cannot be read, and the object has no rollout anymore.
// Why a Work is suspended is not known; the rest of it is.
func TestStandingAfterARollout(t *testing.T) {
	rolled := func(o *Observed) {
		o.Status = &propagationv1alpha1.PropagationStatus{Rollout: &propagationv1alpha1.RolloutStatus{}}
	}
	for name, tc := range map[string]struct {
		change sceneOption
		want   []string
	}{
		"suspended":                      {on("member1", isConfirmed, isSuspended), nil},
		"not suspended":                  {on("member1", isConfirmed), nil},
		"suspended, preservation begins": {func(o *Observed) { preserving(o); on("member1", isConfirmed, isSuspended)(o) }, []string{"set the terms on member1"}},
		"suspension begins":              {func(o *Observed) { suspended(o); on("member1", isConfirmed)(o) }, []string{"set the terms on member1"}},
		"its deletion hangs":             {on("member1", isConfirmed, preserve, withFinalizer, terminating(now.Add(-time.Minute))), []string{"nudge the deletion on member1", "look again in 3s"}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := NewPlan(scene([]string{"member1"}, rolled, tc.change, barriers["it cannot be read"]))
			if diff := cmp.Diff(tc.want, steps(plan)); diff != "" {
				t.Errorf("NewPlan() (-want +got):\n%s", diff)
			}
			for _, write := range plan.Writes {
				if !write.Target.Suspend {
					t.Error("it is no longer suspended")
				}
			}
		})
	}
}
