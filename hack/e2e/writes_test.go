//go:build e2e

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

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// The controller process ends, cleanly or not, and another one takes over. Neither
// process writes what is already right.
func TestNewProcessWritesNothing(t *testing.T) {
	ns := newNamespace(t)
	usual := bed.Controller
	t.Cleanup(func() {
		err := bed.Controller.Terminate()
		bed.Controller = usual
		if err = errors.Join(err, usual.Start()); err != nil {
			t.Error(err)
		}
	})
	ns.hasOneOfEach()
	ns.comesToRest()
	takeovers := []struct {
		name string
		over func() error
	}{
		{"after SIGTERM", func() error {
			if err := bed.Controller.Terminate(); err != nil {
				return fmt.Errorf("stopping the controller: %w", err)
			}
			return bed.Controller.Start()
		}},
		{"after SIGKILL", func() error {
			bed.Controller.Kill()
			return bed.Controller.Start()
		}},
		{"with leader election, after SIGTERM", leaderHandsOver},
	}
	for _, takeover := range takeovers {
		t.Run(takeover.name, func(t *testing.T) {
			canary := newNamespace(t)
			mark := time.Now()
			if err := takeover.over(); err != nil {
				t.Fatal(err)
			}
			// The queue is processed in order: when this object is Ready, everything that
			// existed before has been reconciled.
			settings := testbed.ConfigMap("settings", "is anybody there?")
			canary.Has(settings)
			canary.Propagates("settings", settings).To(member1, member2).BecomesReady()
			stranger := func(c testbed.Write) bool { return !canary.IsOurs(c) }
			ns.Throughout(10*time.Second, "nothing is written", func(context.Context) error { return noneOf(bed.Audit.Since(mark, stranger)) })
		})
	}
}

// leaderHandsOver runs two replicas and stops the first one, which is the leader.
func leaderHandsOver() error {
	first := bed.Controller
	if err := first.Terminate(); err != nil {
		return fmt.Errorf("stopping the controller: %w", err)
	}
	if err := first.Start("--leader-elect=true"); err != nil {
		return err
	}
	if err := first.AwaitLog("successfully acquired lease"); err != nil {
		return err
	}
	second, err := bed.NewController("controller-2", bed.Audit)
	if err != nil {
		return err
	}
	if err := second.Start("--leader-elect=true"); err != nil {
		return err
	}
	bed.Controller = second
	if err := second.AwaitLog("attempting to acquire leader lease"); err != nil {
		return err
	}
	return first.Terminate()
}

// For two minutes, while other tests are busy, nothing is written for the namespace.
func TestIdleWritesNothing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.hasOneOfEach()
	ns.staysQuiet(2 * time.Minute)
}

// hasOneOfEach creates a DirectPropagation in each state that can last.
func (ns *Namespace) hasOneOfEach() {
	ns.T.Helper()
	settings, web, stuck := testbed.ConfigMap("settings", "healthy"), testbed.Deployment("web", "web:1", 2), testbed.Deployment("stuck", "stuck:1", 1)
	stuck.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "none"}
	suspended := testbed.ConfigMap("suspended", "before")
	for _, resource := range []*corev1.ConfigMap{settings, suspended} {
		ns.Has(resource)
	}
	for _, resource := range []*appsv1.Deployment{web, stuck} {
		ns.Has(resource)
	}
	ns.Propagates("settings", settings).To(member1, member2).BecomesReady()
	ns.Propagates("web", web).To(member1, member2).BecomesReady()
	ns.Propagates("stuck", stuck).To(member1, member2).IsBecause(propagationv1alpha1.ReasonUnhealthy)
	ns.Propagates("rival", settings).To(member1, member2).IsBecause(propagationv1alpha1.ReasonConflict)
	ns.Propagates("missing", testbed.ConfigMap("missing", "")).To(member1, member2).IsBecause(propagationv1alpha1.ReasonResourceNotFound)
	ns.PropagatesReference("kind", testbed.Reference("example.org/v1", "Web", "web")).To(member1).IsBecause(propagationv1alpha1.ReasonResourceKindNotFound)
	ns.PropagatesReference("scope", testbed.Reference("v1", "Namespace", "web")).To(member1).IsBecause(propagationv1alpha1.ReasonResourceScopeMismatch)
	ns.PropagatesReference("lease", testbed.Reference("coordination.k8s.io/v1", "Lease", "web")).To(member1).IsBecause(propagationv1alpha1.ReasonResourceNotPropagatable)
	nobody := testbed.ConfigMap("nobody", "for nobody")
	ns.Has(nobody)
	ns.Propagates("nobody", nobody).ToClusters("nobody", "member1").IsBecause(propagationv1alpha1.ReasonClusterNotFound)
	p := ns.Propagates("suspended", suspended).To(member1, member2)
	p.BecomesReady()
	p.Changes(func(object *DirectPropagation) { object.Spec.Suspension.Dispatching = ptr.To(true) })
	// The two objects are watched separately: a change made immediately could still be
	// propagated.
	p.EveryRowSays("is suspended", propagationv1alpha1.ReasonSuspended)
	testbed.Changes(ns.Namespace, suspended, testbed.Saying("after"))
	p.IsBecause(propagationv1alpha1.ReasonSuspended)
}

// Each operation of a user takes exactly so many writes of Works, at most three
// writes of the object, and one more status write for each additional second.
func TestWritesAreCounted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", "version 1")
	ns.Has(settings)
	var p *Propagation
	steps := []struct {
		name string
		do   func()
		want map[string]int
	}{
		{"create", func() { p = ns.Propagates("settings", settings).To(member1, member2) }, map[string]int{"create works": 2}},
		{"change the content", func() { testbed.Changes(ns.Namespace, settings, testbed.Saying("version 2")) }, map[string]int{"patch works/status": 2, "update works": 2}},
		{"change a label", func() { testbed.Changes(ns.Namespace, settings, labeled("color", "green")) }, map[string]int{"patch works/status": 2, "update works": 2}},
		{"change what stays in the control plane", func() { testbed.Changes(ns.Namespace, settings, annotated(corev1.LastAppliedConfigAnnotation, "{}")) }, map[string]int{}},
		{"label the object itself", func() {
			p.Changes(func(object *DirectPropagation) { object.Labels = map[string]string{"color": "green"} })
		}, map[string]int{}},
		{"remove a cluster", func() { p.MovesTo(member2) }, map[string]int{"delete works": 1}},
		{"add a cluster", func() { p.MovesTo(member1, member2) }, map[string]int{"create works": 1}},
		{"suspend", func() { suspends(p, true) }, map[string]int{"update works": 2}},
		{"resume", func() { suspends(p, false) }, map[string]int{"update works": 2}},
	}
	for _, step := range steps {
		mark := time.Now()
		step.do()
		p.BecomesReady()
		ns.comesToRest()
		ns.tookWrites(step.name, bed.Audit.Since(mark, ns.IsOurs), step.want)
	}
	mark := time.Now()
	p.IsDeleted()
	ns.comesToRest()
	ns.tookWrites("delete", bed.Audit.Since(mark, ns.IsOurs), map[string]int{"delete works": 2})
}

// A change of the spec of a Deployment needs no reset, because the reports of the members prove
// that they have it. A change of its labels does, because its generation stays the same.
func TestWritesOfADeploymentAreCounted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := testbed.Deployment("web", "nginx:1", 1)
	ns.Has(web)
	p := ns.Propagates("web", web).To(member1, member2)
	p.BecomesReady()
	ns.comesToRest()
	imaged := func(image string) func(*appsv1.Deployment) {
		return func(web *appsv1.Deployment) { web.Spec.Template.Spec.Containers[0].Image = image }
	}
	for _, step := range []struct {
		name   string
		change func(*appsv1.Deployment)
		want   map[string]int
	}{
		{"change the image", imaged("nginx:2"), map[string]int{"update works": 2}},
		{"change it again", imaged("nginx:3"), map[string]int{"update works": 2}},
		{"change a label", func(web *appsv1.Deployment) { web.Labels = map[string]string{"color": "green"} }, map[string]int{"patch works/status": 2, "update works": 2}},
		{"change the image after that", imaged("nginx:4"), map[string]int{"update works": 2}},
	} {
		mark := time.Now()
		testbed.Changes(ns.Namespace, web, step.change)
		p.BecomesReady()
		ns.comesToRest()
		ns.tookWrites(step.name, bed.Audit.Since(mark, func(write testbed.Write) bool {
			return ns.IsOurs(write) && write.Resource != "events" && !strings.HasPrefix(write.Resource, "deployments") // its health changes, and its status is aggregated
		}), step.want)
	}
}

// tookWrites compares the writes with the permitted ones.
func (ns *Namespace) tookWrites(what string, written []testbed.Write, want map[string]int) {
	ns.T.Helper()
	got, ofObject, rejected := map[string]int{}, 0, 0
	for _, call := range written {
		switch {
		case call.Resource == "directpropagations", call.Resource == "directpropagations/status":
			ofObject++
		case call.Status == http.StatusConflict:
			// Karmada reported on the Work at the same moment.
			rejected++
		default:
			got[call.Verb+" "+call.Resource]++
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		ns.T.Errorf("to %s took %v, want %v:\n%s", what, got, want, testbed.Listing(written))
	}
	if rejected > 2 {
		ns.T.Errorf("to %s, %d writes were rejected, more than one for each Work:\n%s", what, rejected, testbed.Listing(written))
	}
	most := 0
	if len(want) > 0 {
		most = 3 + int(written[len(written)-1].At.Sub(written[0].At)/time.Second)
	}
	if ofObject > most {
		ns.T.Errorf("to %s took %d writes of the object, want %d at most:\n%s", what, ofObject, most, testbed.Listing(written))
	}
}

func labeled(key, value string) func(*corev1.ConfigMap) {
	return func(settings *corev1.ConfigMap) { settings.Labels = map[string]string{key: value} }
}

func annotated(key, value string) func(*corev1.ConfigMap) {
	return func(settings *corev1.ConfigMap) { settings.Annotations = map[string]string{key: value} }
}

func suspends(p *Propagation, suspended bool) {
	p.NS.T.Helper()
	p.Changes(func(object *DirectPropagation) { object.Spec.Suspension.Dispatching = ptr.To(suspended) })
	reason := propagationv1alpha1.ReasonApplied
	if suspended {
		reason = propagationv1alpha1.ReasonSuspended
	}
	p.Becomes("has rows that say "+reason, func(object *DirectPropagation) error {
		for _, row := range object.Status.Clusters {
			if row.Reason != reason {
				return fmt.Errorf("the row of %s says %s", row.Name, row.Reason)
			}
		}
		return nil
	})
}
