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
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// patience is how long anything that must happen may take, on a busy machine.
// Where how long it takes is the point, a test measures it.
const patience = 2 * time.Minute

// glance is the pause between two looks at what cannot be watched.
const glance = 50 * time.Millisecond

// awaits looks closely until check returns nil, and returns its last
// complaint when it never does.
func awaits(ctx context.Context, what string, check func(context.Context) error) error {
	var complaint error
	err := wait.PollUntilContextTimeout(ctx, glance, patience, true, func(ctx context.Context) (bool, error) {
		if err := manager.fault(); err != nil {
			return false, err
		}
		if err := check(ctx); err != nil {
			if ctx.Err() == nil {
				complaint = err
			}
			return false, nil
		}
		return true, nil
	})
	switch {
	case err == nil:
		return nil
	case wait.Interrupted(err):
		return fmt.Errorf("waited %v until %s: %w", patience, what, complaint)
	default:
		return fmt.Errorf("waiting until %s: %w", what, errors.Join(err, complaint))
	}
}

// eventually waits until check returns nil. When it never does, it shows all
// that is known of the namespace.
func (ns *Namespace) eventually(what string, check func(context.Context) error) {
	ns.t.Helper()
	if err := awaits(ns.ctx, what, check); err != nil {
		ns.t.Fatalf("%v\n%s", err, ns.dump())
	}
}

// throughout checks without a pause, for as long as is said, that something
// stays as it is.
func (ns *Namespace) throughout(duration time.Duration, what string, check func(context.Context) error) {
	ns.t.Helper()
	err := wait.PollUntilContextTimeout(ns.ctx, glance, duration, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if ctx.Err() != nil {
			return false, nil // what was cut off says nothing
		}
		return false, err
	})
	if !wait.Interrupted(err) {
		ns.t.Fatalf("for %v, %s: %v\n%s", duration, what, err, ns.dump())
	}
}

// now checks at once: what is claimed to have happened already is not waited
// for.
func (ns *Namespace) now(what string, check func(context.Context) error) {
	ns.t.Helper()
	if err := check(ns.ctx); err != nil {
		ns.t.Fatalf("%s: %v\n%s", what, err, ns.dump())
	}
}

// inParallel runs a function for 0 … count-1 at once, and joins what went
// wrong.
func inParallel(count int, run func(int) error) error {
	failures := make([]error, count)
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() { failures[i] = run(i) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// failed are the tests that failed: what they print is long, and the last lines
// of a run are what is read first.
var failed failures

type failures struct {
	mu    sync.Mutex
	names []string
}

// note takes down a test, if it has failed.
func (f *failures) note(t *testing.T) {
	if !t.Failed() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = append(f.names, t.Name())
}

func (f *failures) tell(out io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.names {
		fmt.Fprintf(out, "e2e: failed: %s; search this output for \"--- FAIL: %s\"\n", name, name)
	}
}

// dump shows all that is known of a namespace: the objects with their status,
// their Works, what the controller wrote and what it logged.
func (ns *Namespace) dump() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out := &strings.Builder{}
	list := &propagationv1alpha1.DirectPropagationList{}
	if err := karmada.List(ctx, list, client.InNamespace(ns.Name)); err != nil {
		fmt.Fprintf(out, "listing the DirectPropagations: %v\n", err)
	}
	for i := range list.Items {
		list.Items[i].ManagedFields = nil
		fmt.Fprintf(out, "---- DirectPropagation %s\n%s", list.Items[i].Name, asYAML(&list.Items[i]))
	}
	ns.dumpWorks(ctx, out)
	written := auditing.since(0, ns.isOurs)
	fmt.Fprintf(out, "---- the controller's last writes for namespace %s, of %d\n", ns.Name, len(written))
	for _, call := range written[max(0, len(written)-30):] {
		fmt.Fprintln(out, call)
	}
	fmt.Fprintf(out, "---- the controller's log on namespace %s, its last lines\n%s\n", ns.Name, manager.tail(ns.Name, 30))
	return out.String()
}

func (ns *Namespace) dumpWorks(ctx context.Context, out *strings.Builder) {
	for _, member := range members {
		for _, name := range ns.workNames() {
			work := &workv1alpha1.Work{}
			key := client.ObjectKey{Namespace: names.GenerateExecutionSpaceName(member.Name), Name: name}
			if err := karmada.Get(ctx, key, work); err != nil {
				fmt.Fprintf(out, "---- Work %s: %v\n", key, err)
				continue
			}
			work.ManagedFields = nil
			fmt.Fprintf(out, "---- Work %s\n%s", key, asYAML(work))
		}
	}
}

func asYAML(object any) string {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err.Error() + "\n"
	}
	return string(text)
}

// listing prints calls one below the other.
func listing(calls []call) string {
	lines := make([]string, 0, len(calls))
	for _, call := range calls {
		lines = append(lines, "  "+call.String())
	}
	return strings.Join(lines, "\n")
}
