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
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// The controller's process ends, in peace or not, and another one takes over:
// nothing is written that is right already, by none of them.
func TestNewProcessWritesNothing(t *testing.T) {
	ns := newNamespace(t)
	usual := manager
	t.Cleanup(func() {
		err := manager.terminate()
		manager = usual
		if err = errors.Join(err, usual.start()); err != nil {
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
			if err := manager.terminate(); err != nil {
				return fmt.Errorf("ending the controller: %w", err)
			}
			return manager.start()
		}},
		{"after SIGKILL", func() error {
			manager.kill()
			return manager.start()
		}},
		{"with leader election, after SIGTERM", leaderHandsOver},
	}
	for _, takeover := range takeovers {
		t.Run(takeover.name, func(t *testing.T) {
			canary := newNamespace(t)
			mark := auditing.mark()
			if err := takeover.over(); err != nil {
				t.Fatal(err)
			}
			// Queues are worked off in their order: when this one is Ready, all that
			// was there before it has been looked at.
			settings := configMap("settings", "is anybody there?")
			canary.Has(settings)
			canary.Propagates("settings", settings).To(member1, member2).BecomesReady()
			stranger := func(c call) bool { return !canary.isOurs(c) }
			ns.throughout(10*time.Second, "nothing is written", func(context.Context) error { return noneOf(auditing.since(mark, stranger)) })
		})
	}
}

// leaderHandsOver has two replicas run, of which the first, that holds the
// lease, is ended.
func leaderHandsOver() error {
	if err := manager.terminate(); err != nil {
		return fmt.Errorf("ending the controller: %w", err)
	}
	if err := manager.start("--leader-elect=true"); err != nil {
		return err
	}
	first := manager
	if err := first.awaitLog("successfully acquired lease"); err != nil {
		return err
	}
	second := &controller{program: first.program, kubeconfig: first.kubeconfig, logs: filepath.Join(filepath.Dir(first.logs), "controller-2.log")}
	if err := second.start("--leader-elect=true"); err != nil {
		return err
	}
	manager = second
	if err := second.awaitLog("attempting to acquire leader lease"); err != nil {
		return err
	}
	return first.terminate()
}

// Two minutes go by, while others are busy around it: nothing is written.
func TestIdleWritesNothing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.hasOneOfEach()
	ns.staysQuiet(2 * time.Minute)
}

// hasOneOfEach makes a DirectPropagation in each state that lasts.
func (ns *Namespace) hasOneOfEach() {
	ns.t.Helper()
	settings, web, stuck := configMap("settings", "healthy"), deployment("web", "web:1", 2), deployment("stuck", "stuck:1", 1)
	stuck.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "none"}
	suspended := configMap("suspended", "before")
	for _, resource := range []*corev1.ConfigMap{settings, suspended} {
		ns.Has(resource)
	}
	for _, resource := range []*appsv1.Deployment{web, stuck} {
		ns.Has(resource)
	}
	ns.Propagates("settings", settings).To(member1, member2).BecomesReady()
	ns.Propagates("web", web).To(member1, member2).BecomesReady()
	ns.Propagates("stuck", stuck).To(member1, member2).isBecause(propagationv1alpha1.ReasonUnhealthy)
	ns.Propagates("rival", settings).To(member1, member2).isBecause(propagationv1alpha1.ReasonConflict)
	ns.Propagates("missing", configMap("missing", "")).To(member1, member2).isBecause(propagationv1alpha1.ReasonResourceNotFound)
	ns.PropagatesReference("kind", reference("example.org/v1", "Web", "web")).To(member1).isBecause(propagationv1alpha1.ReasonResourceKindNotFound)
	ns.PropagatesReference("scope", reference("v1", "Namespace", "web")).To(member1).isBecause(propagationv1alpha1.ReasonResourceScopeMismatch)
	ns.PropagatesReference("lease", reference("coordination.k8s.io/v1", "Lease", "web")).To(member1).isBecause(propagationv1alpha1.ReasonResourceNotPropagatable)
	nobody := configMap("nobody", "for nobody")
	ns.Has(nobody)
	ns.Propagates("nobody", nobody).ToClusters("nobody", "member1").isBecause(propagationv1alpha1.ReasonClusterNotFound)
	p := ns.Propagates("suspended", suspended).To(member1, member2)
	p.BecomesReady()
	p.Changes(func(object *DirectPropagation) { object.Spec.Suspension.Dispatching = ptr.To(true) })
	// The two are watched apart: a change made at once might still travel.
	p.awaitsRows("is suspended", propagationv1alpha1.ReasonSuspended)
	changes(ns, suspended, saying("after"))
	p.isBecause(propagationv1alpha1.ReasonSuspended)
}

// What it takes to carry out what users do: exactly so many writes of Works,
// at most three of the object, and one status more for each further second
// that members take.
func TestWritesAreCounted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := configMap("settings", "version 1")
	ns.Has(settings)
	var p *Propagation
	steps := []struct {
		name string
		do   func()
		want map[string]int
	}{
		{"create", func() { p = ns.Propagates("settings", settings).To(member1, member2) }, map[string]int{"create works": 2}},
		{"change the content", func() { changes(ns, settings, saying("version 2")) }, map[string]int{"patch works/status": 2, "update works": 2}},
		{"change a label", func() { changes(ns, settings, labeled("color", "green")) }, map[string]int{"patch works/status": 2, "update works": 2}},
		{"change what stays here", func() { changes(ns, settings, annotated(corev1.LastAppliedConfigAnnotation, "{}")) }, map[string]int{}},
		{"label the object itself", func() {
			p.Changes(func(object *DirectPropagation) { object.Labels = map[string]string{"color": "green"} })
		}, map[string]int{}},
		{"remove a cluster", func() { p.MovesTo(member2) }, map[string]int{"delete works": 1}},
		{"add a cluster", func() { p.MovesTo(member1, member2) }, map[string]int{"create works": 1}},
		{"suspend", func() { p.suspends(true) }, map[string]int{"update works": 2}},
		{"resume", func() { p.suspends(false) }, map[string]int{"update works": 2}},
	}
	for _, step := range steps {
		mark := auditing.mark()
		step.do()
		p.BecomesReady()
		ns.comesToRest()
		ns.tookWrites(step.name, auditing.since(mark, ns.isOurs), step.want)
	}
	mark := auditing.mark()
	p.IsDeleted()
	ns.comesToRest()
	ns.tookWrites("delete", auditing.since(mark, ns.isOurs), map[string]int{"delete works": 2})
}

// tookWrites compares what was written with what may have been.
func (ns *Namespace) tookWrites(what string, written []call, want map[string]int) {
	ns.t.Helper()
	got, ofObject := map[string]int{}, 0
	for _, call := range written {
		switch call.Resource {
		case "directpropagations", "directpropagations/status":
			ofObject++
		default:
			got[call.Verb+" "+call.Resource]++
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		ns.t.Errorf("to %s took %v, want %v:\n%s", what, got, want, listing(written))
	}
	most := 0
	if len(want) > 0 {
		most = 3 + int(written[len(written)-1].At.Sub(written[0].At)/time.Second)
	}
	if ofObject > most {
		ns.t.Errorf("to %s took %d writes of the object, want %d at most:\n%s", what, ofObject, most, listing(written))
	}
}

func labeled(key, value string) func(*corev1.ConfigMap) {
	return func(settings *corev1.ConfigMap) { settings.Labels = map[string]string{key: value} }
}

func annotated(key, value string) func(*corev1.ConfigMap) {
	return func(settings *corev1.ConfigMap) { settings.Annotations = map[string]string{key: value} }
}

func (p *Propagation) suspends(suspended bool) {
	p.ns.t.Helper()
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
