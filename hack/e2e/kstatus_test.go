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
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// verdict returns the status that kstatus computes for an object, as Flux and others
// do.
func verdict(object client.Object) (*status.Result, error) {
	gvk, err := apiutil.GVKForObject(object, testbed.Scheme)
	if err != nil {
		return nil, fmt.Errorf("the kind of %s: %w", object.GetName(), err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", object.GetName(), err)
	}
	generic := &unstructured.Unstructured{Object: content}
	generic.SetGroupVersionKind(gvk)
	return status.Compute(generic)
}

// judges waits until kstatus computes a status for the object.
func judges(p *Propagation, want status.Status) {
	p.NS.T.Helper()
	p.Becomes(fmt.Sprintf("is %s to kstatus", want), func(object *DirectPropagation) error {
		got, err := verdict(object)
		if err != nil {
			return err
		}
		if got.Status != want {
			return fmt.Errorf("it is %s: %s", got.Status, got.Message)
		}
		return nil
	})
}

// kstatus considers an object finished only when every cluster has confirmed it: not
// when the object is new or changed, and not while a cluster is missing. It
// considers it failed when its author must fix it.
func TestKstatus(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", "hello")
	p := ns.Propagates("settings", settings).To(member1)
	early := takenForFinished(p)
	judges(p, status.InProgressStatus) // the resource does not exist
	ns.Has(settings)
	judges(p, status.CurrentStatus)
	ns.NowRun(settings, member1)

	p.Changes(func(object *DirectPropagation) {
		object.Spec.Clusters = testbed.Targets("member1", "member2", "nowhere")
	})
	judges(p, status.InProgressStatus)
	ns.ComeToRun(settings, members...)
	judges(p, status.InProgressStatus) // one cluster is missing, which may be temporary
	p.MovesTo(members...)
	judges(p, status.CurrentStatus)

	p.Changes(func(object *DirectPropagation) { object.Spec.Resource.Kind = "ConfgMap" })
	judges(p, status.FailedStatus)
	p.Changes(func(object *DirectPropagation) { object.Spec.Resource.Kind = "ConfigMap" })
	judges(p, status.CurrentStatus)

	isTerminating(ns, p, settings)
	if states := early(); len(states) > 0 {
		t.Errorf("kstatus considered these finished:\n%s", slices.Concat(states))
	}
}

// isTerminating deletes an object while a finalizer on a member blocks the deletion.
func isTerminating(ns *Namespace, p *Propagation, settings *corev1.ConfigMap) {
	ns.T.Helper()
	held := &corev1.ConfigMap{}
	held.Namespace, held.Name = ns.Name, settings.Name
	holdUp := func(config *corev1.ConfigMap) { config.Finalizers = []string{"example.org/held"} }
	if err := testbed.Change(ns.Ctx, member1.Client, held, holdUp); err != nil {
		ns.T.Fatal(err)
	}
	if err := karmada.Delete(ns.Ctx, p.Latest()); err != nil {
		ns.T.Fatal(err)
	}
	judges(p, status.TerminatingStatus)
	letGo := func(config *corev1.ConfigMap) { config.Finalizers = nil }
	if err := testbed.Change(ns.Ctx, member1.Client, held, letGo); err != nil {
		ns.T.Fatal(err)
	}
	p.IsGone()
	ns.ComeToLack(settings, members...)
}

// takenForFinished checks every state of an object. The returned function lists the
// states that kstatus considered finished too early.
func takenForFinished(p *Propagation) func() []string {
	var mu sync.Mutex
	early := []string{}
	p.OnEveryState(func(object *DirectPropagation) {
		got, err := verdict(object)
		if err == nil && got.Status != status.CurrentStatus {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		// Current is right only if all clusters are healthy for this generation.
		if err != nil || !isConfirmed(object) {
			early = append(early, fmt.Sprintf("generation %d, version %s: %+v, %v", object.Generation, object.ResourceVersion, got, err))
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(early)
	}
}

func isConfirmed(object *DirectPropagation) bool {
	summary := object.Status.Summary
	if summary == nil || summary.Healthy == nil || summary.Clusters == nil {
		return false
	}
	return *object.Status.ObservedGeneration == object.Generation && *summary.Healthy == *summary.Clusters && int(*summary.Clusters) == len(object.Spec.Clusters)
}
