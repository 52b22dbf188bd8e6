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

package testbed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// shared is the state of a namespace that a test shares with its subtests.
type shared struct {
	mu sync.Mutex
	// works holds the names of all Works that they may have caused.
	works map[string]bool
	// stops end the readers of the recorder.
	stops []func()
}

// NoteWork records that the test may cause Works of a resource.
func (ns *Namespace) NoteWork(resource propagationv1alpha1.ResourceReference) {
	ns.shared.mu.Lock()
	defer ns.shared.mu.Unlock()
	ns.shared.works[names.GenerateWorkName(resource.Kind, resource.Name, ns.Name)] = true
}

func (ns *Namespace) workNames() []string {
	ns.shared.mu.Lock()
	defer ns.shared.mu.Unlock()
	return slices.Sorted(maps.Keys(ns.shared.works))
}

// IsOurs reports whether a write of the controller belongs to this namespace.
func (ns *Namespace) IsOurs(written Write) bool {
	ns.shared.mu.Lock()
	defer ns.shared.mu.Unlock()
	return written.Namespace == ns.Name || ns.shared.works[written.Name]
}

func (ns *Namespace) onLeave(stop func()) {
	ns.shared.mu.Lock()
	defer ns.shared.mu.Unlock()
	ns.shared.stops = append(ns.shared.stops, stop)
}

// leave deletes what the test created and checks that nothing is left: no object on
// a member, no Work, and nothing held by a finalizer.
func (ns *Namespace) leave() {
	ns.Ctx = context.Background() // the test's own context is done
	defer func() {
		for _, stop := range ns.shared.stops {
			stop()
		}
	}()
	defer ns.Bed.failed.note(ns.T)
	if ns.T.Failed() && ns.Bed.Keep() {
		return
	}
	if err := ns.Bed.Karmada.DeleteAllOf(ns.Ctx, &propagationv1alpha1.DirectPropagation{}, client.InNamespace(ns.Name)); err != nil {
		ns.T.Errorf("deleting the DirectPropagations: %v", err)
	}
	if err := ns.Bed.Await(ns.Ctx, "nothing is left", ns.IsClean); err != nil {
		ns.T.Errorf("%v\n%s", err, ns.Dump())
	}
	if err := ns.Bed.Karmada.Delete(ns.Ctx, ns.object()); err != nil {
		ns.T.Errorf("deleting namespace %s: %v", ns.Name, err)
	}
}

// IsClean returns an error that names what the test has left on a control plane, or
// nil.
func (ns *Namespace) IsClean(ctx context.Context) error {
	list := &propagationv1alpha1.DirectPropagationList{}
	if err := ns.Bed.Karmada.List(ctx, list, client.InNamespace(ns.Name)); err != nil {
		return fmt.Errorf("listing DirectPropagations: %w", err)
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("%d DirectPropagations are left, the first: %s", len(list.Items), list.Items[0].Name)
	}
	revisions := &propagationv1alpha1.PropagationRevisionList{}
	// An earlier version does not have the kind.
	if err := ns.Bed.Karmada.List(ctx, revisions, client.InNamespace(ns.Name)); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("listing PropagationRevisions: %w", err)
	}
	if len(revisions.Items) > 0 {
		return fmt.Errorf("%d PropagationRevisions are left, the first: %s", len(revisions.Items), revisions.Items[0].Name)
	}
	for _, member := range ns.Bed.Options.Members {
		for _, name := range ns.workNames() {
			key := client.ObjectKey{Namespace: names.GenerateExecutionSpaceName(member.Name), Name: name}
			if err := ns.Bed.Karmada.Get(ctx, key, &workv1alpha1.Work{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("a Work is left: %s (reading it: %v)%s", key, err, ns.traceOf(name))
			}
		}
		if err := ns.isBare(ctx, member); err != nil {
			return err
		}
	}
	return nil
}

// traceOf lists what the controller wrote to a Work, and to the DirectPropagation
// with the same name as the resource in it.
func (ns *Namespace) traceOf(work string) string {
	if ns.Bed.Audit == nil {
		return ""
	}
	owner := work[:strings.LastIndex(work, "-")]
	return "; the controller wrote to it, and to the DirectPropagation of the same name:\n" + Listing(ns.Bed.Audit.Since(time.Time{}, func(w Write) bool {
		return w.Name == work || w.Name == owner && w.Namespace == ns.Name
	}))
}

// isBare returns an error if a member still has an object of the kinds that tests
// propagate.
func (ns *Namespace) isBare(ctx context.Context, member *Member) error {
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.SecretList{}, &appsv1.DeploymentList{}} {
		if err := member.List(ctx, list, client.InNamespace(ns.Name)); err != nil {
			return fmt.Errorf("%s: listing what is left: %w", member, err)
		}
		for _, item := range ItemsOf(list) {
			if item.GetName() != "kube-root-ca.crt" {
				return fmt.Errorf("%s: %s is left", member, Describe(item))
			}
		}
	}
	return nil
}
