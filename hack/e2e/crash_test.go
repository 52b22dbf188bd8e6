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
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// operation is a user operation during which the controller is killed.
type operation struct {
	name string
	// writes is the minimum number of writes that the controller needs for it.
	writes int
	// from is the state in which the operation begins, and to is the state in which it
	// ends.
	from, to lane
}

var operations = []operation{
	{"create", 4, lane{}, lane{clusters: testbed.NamesOf(members), says: "version 1"}},
	{"change", 5, lane{clusters: testbed.NamesOf(members), says: "version 1"}, lane{clusters: testbed.NamesOf(members), says: "version 2"}},
	{"add a cluster", 2, lane{clusters: testbed.NamesOf(members[:1]), says: "version 1"}, lane{clusters: testbed.NamesOf(members), says: "version 1"}},
	{"remove the push cluster", 2, lane{clusters: testbed.NamesOf(members), says: "version 1"}, lane{clusters: testbed.NamesOf(members[1:]), says: "version 1"}},
	{"remove the pull cluster", 2, lane{clusters: testbed.NamesOf(members), says: "version 1"}, lane{clusters: testbed.NamesOf(members[:1]), says: "version 1"}},
	{"delete", 3, lane{clusters: testbed.NamesOf(members), says: "version 1"}, lane{says: "version 1"}},
}

// The controller is killed at every write of an operation: the write reaches the API
// server, but the response is lost. After a restart, the controller completes the
// operation, whichever write it was.
func TestKilledAtEveryWrite(t *testing.T) {
	for _, operation := range operations {
		t.Run(operation.name, func(t *testing.T) {
			ns := newNamespace(t)
			at := 0
			for ns.survivesKill(operation, at) {
				at++
			}
			if at <= operation.writes {
				t.Errorf("the controller was killed at only %d writes, want at least %d", at-1, operation.writes)
			}
			t.Logf("killed before any write, and at each of %d", at-1)
		})
	}
}

// survivesKill kills the controller at the n-th write of an operation, or before the
// operation if n is 0. It reports whether the operation had that many writes.
func (ns *Namespace) survivesKill(operation operation, at int) bool {
	ns.T.Helper()
	state := operation.from.named(ns, fmt.Sprintf("settings-%d", at))
	if err := state.brings(ns.Ctx); err != nil {
		ns.T.Fatal(err)
	}
	ns.Eventually("the operation can begin", state.isReached)
	aim := operation.to.named(ns, state.name)
	fired := true
	if at == 0 {
		bed.Controller.Kill()
		if err := aim.brings(ns.Ctx); err != nil {
			ns.T.Fatal(err)
		}
	} else {
		sprung := bed.Audit.Set(&testbed.Trap{At: at, Forward: true, Spring: bed.Controller.Kill})
		if err := aim.brings(ns.Ctx); err != nil {
			ns.T.Fatal(err)
		}
		ns.Eventually("the controller is killed, or the operation is over", func(ctx context.Context) error {
			select {
			case <-sprung:
				return nil
			default:
				return aim.isReached(ctx)
			}
		})
		if fired = bed.Audit.Disarm(); fired {
			<-sprung
		}
	}
	if fired {
		if err := bed.Controller.Start(); err != nil {
			ns.T.Fatal(err)
		}
	}
	ns.Eventually(fmt.Sprintf("%q is complete after a kill at write %d", operation.name, at), aim.isReached)
	return fired
}

// The controller is killed at random times while users change, move, delete and
// recreate objects, and they continue while it is dead.
func TestKilledAtRandomMoments(t *testing.T) {
	const lanes, rounds = 8, 8
	ns := newNamespace(t)
	numbers := bed.Seeded(t)
	states := make([]lane, lanes)
	for i := range states {
		states[i] = lane{clusters: testbed.NamesOf(members), says: "version 0"}.named(ns, fmt.Sprintf("settings-%d", i))
		if err := states[i].brings(ns.Ctx); err != nil {
			t.Fatal(err)
		}
	}
	for round := 1; round <= rounds; round++ {
		for i := range states {
			states[i] = states[i].next(numbers, round)
		}
		pause := time.Duration(numbers.IntN(1500)) * time.Millisecond
		killed := make(chan struct{})
		time.AfterFunc(pause, func() {
			bed.Controller.Kill()
			close(killed)
		})
		err := testbed.InParallel(lanes, func(i int) error { return states[i].brings(ns.Ctx) })
		<-killed
		if err = errors.Join(err, bed.Controller.Start()); err != nil {
			t.Fatal(err)
		}
		for i := range states {
			ns.Eventually(fmt.Sprintf("%s is reached in round %d, after a kill at %v", states[i], round, pause), states[i].isReached)
		}
	}
}

// lane is a ConfigMap and the DirectPropagation of the same name, as a user wants
// them.
type lane struct {
	ns       *Namespace
	name     string
	clusters []string // empty: no DirectPropagation
	says     string   // empty: leave the ConfigMap alone
}

func (l lane) named(ns *Namespace, name string) lane {
	l.ns, l.name = ns, name
	ns.NoteWork(testbed.Reference("v1", "ConfigMap", name))
	return l
}

func (l lane) String() string { return fmt.Sprintf("%s saying %q on %v", l.name, l.says, l.clusters) }

// next returns what the user wants next.
func (l lane) next(numbers *rand.Rand, round int) lane {
	switch numbers.IntN(4) {
	case 0, 1:
		l.says = fmt.Sprintf("version %d", round)
	case 2:
		l.clusters = [][]string{{"member1"}, {"member2"}, {"member1", "member2"}}[numbers.IntN(3)]
	case 3:
		if len(l.clusters) > 0 {
			l.clusters = nil
		} else {
			l.clusters = testbed.NamesOf(members)
		}
	}
	return l
}

func (l lane) settings() *corev1.ConfigMap {
	settings := testbed.ConfigMap(l.name, l.says)
	settings.Namespace = l.ns.Name
	return settings
}

func (l lane) object() *DirectPropagation {
	return testbed.NewDirectPropagation(l.ns.Name, l.name, testbed.ReferenceTo(l.settings()), l.clusters...)
}

// brings writes what the user wants to the control plane.
func (l lane) brings(ctx context.Context) error {
	if l.says != "" {
		if err := put(ctx, l.settings(), testbed.Saying(l.says)); err != nil {
			return err
		}
	}
	if len(l.clusters) == 0 {
		return client.IgnoreNotFound(karmada.Delete(ctx, l.object()))
	}
	return put(ctx, l.object(), func(object *DirectPropagation) { object.Spec.Clusters = testbed.Targets(l.clusters...) })
}

// put creates an object or, if it already exists, changes it.
func put[T client.Object](ctx context.Context, object T, mutate func(T)) error {
	err := karmada.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return testbed.Change(ctx, karmada, object, mutate)
	}
	if err != nil {
		return fmt.Errorf("creating %s: %w", testbed.Describe(object), err)
	}
	return nil
}

// isReached returns an error unless the control plane and every member are as the
// user wants them.
func (l lane) isReached(ctx context.Context) error {
	if err := l.isReported(ctx); err != nil {
		return err
	}
	settings := l.settings()
	for _, member := range members {
		if slices.Contains(l.clusters, member.Name) {
			if err := member.Runs(ctx, settings); err != nil {
				return err
			}
			continue
		}
		if err := member.Lacks(ctx, settings); err != nil {
			return err
		}
		if _, err := l.ns.Work(ctx, settings, member); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Work for %s still exists (reading it: %v)", member, err)
		}
	}
	return nil
}

func (l lane) isReported(ctx context.Context) error {
	object := l.object()
	err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object)
	if len(l.clusters) == 0 {
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("DirectPropagation %s still exists (reading it: %v)", l.name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading DirectPropagation %s: %w", l.name, err)
	}
	resource, err := l.ns.ResourceOf(ctx, object)
	if err != nil {
		return err
	}
	revision, err := testbed.RevisionOf(propagationv1alpha1.ConflictAbort, resource)
	if err != nil {
		return err
	}
	if err := testbed.IsReady(object, object.Generation, revision); err != nil {
		return err
	}
	if len(object.Status.Clusters) != len(l.clusters) || slices.ContainsFunc(object.Status.Conditions, isTrouble) {
		return fmt.Errorf("the status is not final: %+v", object.Status)
	}
	return nil
}

// isTrouble reports whether a condition is one of those that exist only while
// something remains to be done.
func isTrouble(condition metav1.Condition) bool { return condition.Type != "Ready" }
