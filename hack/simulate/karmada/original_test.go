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

package karmada

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	original "github.com/karmada-io/karmada/pkg/controllers/execution"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/fedinformer/genericmanager"
	"github.com/karmada-io/karmada/pkg/util/objectwatcher"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // Karmada's own code reports every error
	os.Exit(m.Run())
}

// widgetKind is a kind that the control plane knows, and the member does not serve.
var widgetKind = Custom("example.org", "v1", "Widget", "widgets")

// mapper is the RESTMapper of the control plane.
func mapper() meta.RESTMapper {
	known := meta.NewDefaultRESTMapper(nil)
	for _, kind := range append(builtIn(), widgetKind) {
		scope := meta.RESTScopeRoot
		if kind.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		known.AddSpecific(kind.GroupVersionKind, kind.GroupVersion().WithResource(kind.Plural), kind.GroupVersion().WithResource(kind.Kind), scope)
	}
	return known
}

// dynamicMember is a simulated member behind the interface of the dynamic client, as far
// as Karmada uses it.
type dynamicMember struct {
	dynamic.Interface
	member *Member
}

// Resource finds the kind of a resource.
func (d *dynamicMember) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	found := &dynamicObjects{member: d.member}
	for _, kind := range append(builtIn(), widgetKind) {
		if kind.GroupVersion().WithResource(kind.Plural) == resource {
			found.kind = kind.GroupVersionKind
		}
	}
	return found
}

type dynamicObjects struct {
	dynamic.NamespaceableResourceInterface
	member    *Member
	kind      schema.GroupVersionKind
	namespace string
}

// Namespace narrows the objects down.
func (d *dynamicObjects) Namespace(namespace string) dynamic.ResourceInterface {
	return &dynamicObjects{member: d.member, kind: d.kind, namespace: namespace}
}

func (d *dynamicObjects) key(name string) Key {
	return Key{GroupVersionKind: d.kind, Namespace: d.namespace, Name: name}
}

// Get is a GET request.
func (d *dynamicObjects) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	if d.member.cut {
		return nil, refused("Get", d.member.Name)
	}
	return d.member.get(d.key(name))
}

// Create is a POST request.
func (d *dynamicObjects) Create(_ context.Context, object *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string) (*unstructured.Unstructured, error) {
	return d.member.create(object)
}

// Update is a PUT request.
func (d *dynamicObjects) Update(_ context.Context, object *unstructured.Unstructured, _ metav1.UpdateOptions, _ ...string) (*unstructured.Unstructured, error) {
	return d.member.update(object)
}

// Delete is a DELETE request.
func (d *dynamicObjects) Delete(_ context.Context, name string, _ metav1.DeleteOptions, _ ...string) error {
	return d.member.remove(d.key(name), doom{cause: Withdrawn})
}

// nativeInterpreter is Karmada's interpreter without what users may add.
type nativeInterpreter struct{ *native.DefaultInterpreter }

// Start has nothing to wait for.
func (nativeInterpreter) Start(context.Context) error { return nil }

// originalController is Karmada's own execution controller, with its own object watcher,
// for the member of a world.
func originalController(w *world, member *Member) *original.Controller {
	manager, api := genericmanager.GetInstance(), &dynamicMember{member: member}
	manager.Stop(member.Name)
	manager.ForCluster(member.Name, api, 0)
	newClient := func(cluster string, _ client.Client, _ *util.ClientOption) (*util.DynamicClusterClient, error) {
		return &util.DynamicClusterClient{ClusterName: cluster, DynamicClientSet: api}, nil
	}
	return &original.Controller{
		Client: w.c, EventRecorder: &record.FakeRecorder{}, RESTMapper: mapper(), InformerManager: manager,
		ObjectWatcher: objectwatcher.NewObjectWatcher(w.c, mapper(), newClient, nil, nativeInterpreter{native.NewDefaultInterpreter()}),
	}
}

// side is a world with one member, and how its execution controller handles a Work.
type side struct {
	*world
	member *Member
	key    types.NamespacedName
	settle func()
}

// originalSide is a world in which Karmada's own code handles the Work: whenever the Work
// has a new generation, and again after an error.
func originalSide(t *testing.T) *side {
	w, member := shop(t, push)
	s, controller := &side{world: w, member: member}, originalController(w, member)
	handled, failing := "", false
	s.settle = func() {
		for range 3 {
			work := &workv1alpha1.Work{}
			if w.c.Get(w.ctx, s.key, work) != nil {
				return
			}
			state := fmt.Sprint(work.UID, work.Generation, work.DeletionTimestamp)
			if state == handled && !failing {
				return
			}
			_, err := controller.Reconcile(w.ctx, reconcile.Request{NamespacedName: s.key})
			handled, failing = state, err != nil
		}
	}
	return s
}

// modelSide is a world in which the model handles the Work. No cache of the member is in
// use, as is true of the other side.
func modelSide(t *testing.T) *side {
	w, member := shop(t, push)
	w.k.manager.informers[member.Name].kinds = map[schema.GroupVersionKind]*informer{}
	s := &side{world: w, member: member}
	s.settle = func() {
		w.now = w.now.Add(time.Hour) // any back-off is over
		for {
			if action, ok := w.find("karmada-controller-manager sees"); ok {
				w.take(action)
			} else if action, ok := w.find("/execution"); ok {
				w.take(action)
			} else if at, ok := w.k.NextDeadline(); ok && at.Sub(w.now) < 20*time.Millisecond {
				w.now = at
			} else {
				return
			}
		}
	}
	return s
}

// state is what a writer of Works and a user of the member see.
func (s *side) state(object Key) map[string]any {
	s.Helper()
	state := map[string]any{}
	work := &workv1alpha1.Work{}
	switch err := s.c.Get(s.ctx, s.key, work); {
	case err == nil:
		state["conditions"], state["finalizers"], state["generation"] = work.Status.Conditions, work.Finalizers, work.Generation
	case !apierrors.IsNotFound(err):
		s.Fatal(err)
	}
	if there := s.member.objects[object]; there != nil {
		timeless := there.DeepCopy()
		state["terminating"] = there.GetDeletionTimestamp() != nil
		timeless.SetCreationTimestamp(metav1.Time{})
		timeless.SetDeletionTimestamp(nil)
		state["object"] = timeless.Object
	}
	return state
}

// The model of the execution controller does what the original does, in every history of
// the table.
func TestExecutionIsAsTheOriginal(t *testing.T) {
	for name, test := range histories() {
		t.Run(name, func(t *testing.T) {
			sides := []*side{originalSide(t), modelSide(t)}
			compare := func(when string) {
				t.Helper()
				for _, s := range sides {
					s.settle()
				}
				object := KeyOf(test.resource)
				difference := cmp.Diff(sides[0].state(object), sides[1].state(object), cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime"))
				if difference != "" {
					t.Errorf("%s (-original +model):\n%s", when, difference)
				}
			}
			for _, s := range sides {
				for _, prepare := range test.before {
					operations[prepare](s)
				}
				s.key = s.sends(test.resource, s.member.Name)
			}
			compare("created")
			for _, operation := range strings.Fields(test.then) {
				for _, s := range sides {
					operations[operation](s)
				}
				compare(operation)
			}
		})
	}
}
