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
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// contentFinalizer holds a namespace of the fake API server until it is empty.
const contentFinalizer = "test/content"

// world is a simulated Karmada on a fake API server, and a clock.
type world struct {
	*testing.T
	ctx context.Context //nolint:containedctx // the life of the test
	c   client.Client
	k   *Karmada
	now time.Time
	// writes counts the writes to the API server.
	writes, uids int
	// choose picks one of so many actions.
	choose func(int) int
	story  []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, ctx: t.Context(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), choose: func(int) int { return 0 }}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1alpha1.Install, workv1alpha1.Install, workv1alpha2.Install,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	base := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&workv1alpha1.Work{}, &clusterv1alpha1.Cluster{}).Build()
	w.c = interceptor.NewClient(base, interceptor.Funcs{Create: w.create, Update: w.update, Delete: w.delete, SubResourceUpdate: w.updateStatus})
	w.k = New(w.c, Options{Now: func() time.Time { return w.now }, Revision: func(string) int64 { return int64(w.writes) }, Finalize: func(ctx context.Context, c client.Client, namespace *corev1.Namespace) error {
		controllerutil.RemoveFinalizer(namespace, contentFinalizer)
		return c.Update(ctx, namespace)
	}})
	return w
}

// at replaces how the world chooses among actions.
func (w *world) at(seed uint64) *world {
	w.choose = rand.New(rand.NewPCG(seed, 0)).IntN
	return w
}

// create does what an API server with Karmada's webhook does to a new object.
func (w *world) create(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
	w.uids++
	object.SetUID(types.UID(fmt.Sprintf("uid-%d", w.uids)))
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(w.now))
	switch typed := object.(type) {
	case *workv1alpha1.Work:
		if err := Admit(typed, fmt.Sprintf("id-%d", w.uids)); err != nil {
			return err
		}
		if err := c.Get(ctx, types.NamespacedName{Name: typed.Namespace}, &corev1.Namespace{}); err != nil {
			return err
		}
	case *corev1.Namespace:
		controllerutil.AddFinalizer(typed, contentFinalizer)
	}
	w.writes++
	return c.Create(ctx, object, options...)
}

// update counts generations.
func (w *world) update(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
	if work, ok := object.(*workv1alpha1.Work); ok {
		if err := Admit(work, "late"); err != nil {
			return err
		}
	}
	stored, _ := object.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, keyOf(object), stored); err != nil {
		return err
	}
	generation := stored.GetGeneration()
	if !equality.Semantic.DeepEqual(specOfAny(w.T, object), specOfAny(w.T, stored)) {
		generation++
	}
	object.SetGeneration(generation)
	w.writes++
	return c.Update(ctx, object, options...)
}

func (w *world) delete(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
	w.writes++
	return c.Delete(ctx, object, options...)
}

func (w *world) updateStatus(ctx context.Context, c client.Client, subresource string, object client.Object, options ...client.SubResourceUpdateOption) error {
	w.writes++
	return c.SubResource(subresource).Update(ctx, object, options...)
}

func specOfAny(t *testing.T, object client.Object) any {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	delete(content, "metadata")
	delete(content, "status")
	return content
}

// must fails the test on an error.
func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%v\n%s", err, strings.Join(w.story, "\n"))
	}
}

func (w *world) actions() []Action {
	w.Helper()
	actions, err := w.k.Actions(w.ctx)
	w.must(err)
	for i := 1; i < len(actions); i++ {
		if actions[i-1].Name >= actions[i].Name {
			w.Fatalf("actions are not unique or not sorted: %s, %s", actions[i-1].Name, actions[i].Name)
		}
	}
	return actions
}

// take does one action, which may do one write at most.
func (w *world) take(action Action) {
	w.Helper()
	before := w.writes
	err := action.Do(w.ctx)
	w.story = append(w.story, fmt.Sprintf("%s %s (%v)", w.now.Format("15:04:05.000"), action.Name, err))
	if w.writes > before+1 {
		w.Fatalf("%s did %d writes", action.Name, w.writes-before)
	}
}

// find returns the first action whose name contains all words.
func (w *world) find(words ...string) (Action, bool) {
	w.Helper()
	for _, action := range w.actions() {
		all := true
		for _, word := range words {
			all = all && strings.Contains(action.Name, word)
		}
		if all {
			return action, true
		}
	}
	return Action{}, false
}

// does takes the action whose name contains all words.
func (w *world) does(words ...string) {
	w.Helper()
	action, ok := w.find(words...)
	if !ok {
		var possible []string
		for _, other := range w.actions() {
			possible = append(possible, other.Name)
		}
		w.Fatalf("nobody can: %v; possible:\n%s\nstory:\n%s", words, strings.Join(possible, "\n"), strings.Join(w.story, "\n"))
	}
	w.take(action)
}

// catchUp lets the controllers of members see all that happened to a Work.
func (w *world) catchUp(key types.NamespacedName) {
	w.Helper()
	for {
		action, ok := w.find(" sees the ", key.String())
		if !ok {
			return
		}
		w.take(action)
	}
}

// attempts takes steps of the execution controller at a Work, each with a cache that is
// up to date.
func (w *world) attempts(key types.NamespacedName, steps ...string) {
	w.Helper()
	for _, step := range steps {
		w.catchUp(key)
		w.does("/execution", key.Name, step)
	}
}

// cannot checks that no action has all words in its name.
func (w *world) cannot(words ...string) {
	w.Helper()
	if action, ok := w.find(words...); ok {
		w.Fatalf("somebody can: %s", action.Name)
	}
}

// rest takes all actions until none is possible at this moment.
func (w *world) rest() {
	w.Helper()
	for range 5000 {
		actions := w.actions()
		if len(actions) == 0 {
			return
		}
		w.take(actions[w.choose(len(actions))])
	}
	w.Fatalf("no rest after 5000 actions:\n%s", strings.Join(w.story[len(w.story)-40:], "\n"))
}

// pass lets everybody act for a time.
func (w *world) pass(duration time.Duration) {
	w.Helper()
	end := w.now.Add(duration)
	for {
		w.rest()
		next, ok := w.k.NextDeadline()
		if !ok || next.After(end) {
			w.now = end
			return
		}
		w.now = next
	}
}

// joined adds a member, and waits until it is Ready.
func (w *world) joined(name string, mode clusterv1alpha1.ClusterSyncMode) *Member {
	w.Helper()
	member := w.k.AddMember(name, mode)
	w.must(w.c.Create(w.ctx, NewCluster(name, mode)))
	w.pass(time.Second)
	if !util.IsClusterReady(&w.cluster(name).Status) {
		w.Fatalf("%s is not Ready:\n%s", name, strings.Join(w.story, "\n"))
	}
	return member
}

func (w *world) cluster(name string) *clusterv1alpha1.Cluster {
	w.Helper()
	cluster := &clusterv1alpha1.Cluster{}
	w.must(w.c.Get(w.ctx, types.NamespacedName{Name: name}, cluster))
	return cluster
}

// namespace makes a namespace on the control plane, which Karmada synchronizes.
func (w *world) namespace(name string) {
	w.Helper()
	w.must(w.c.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	w.pass(time.Second)
}

var configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// configMap is a resource for Works.
func configMap(says string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": "settings"},
		"data": map[string]any{"says": says},
	}}
}

// deployment is a workload for Works.
func deployment(image string) *unstructured.Unstructured {
	labels := map[string]any{"app": "web"}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec": map[string]any{
			"replicas": int64(2), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"containers": []any{map[string]any{"name": "web", "image": image}},
			}},
		},
	}}
}

// workOf renders the Work of a resource as a careful writer of Works does.
func workOf(t testing.TB, resource *unstructured.Unstructured, cluster string) *workv1alpha1.Work {
	t.Helper()
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace:  names.GenerateExecutionSpaceName(cluster),
		Name:       names.GenerateWorkName(resource.GetKind(), resource.GetName(), resource.GetNamespace()),
		Finalizers: []string{util.ExecutionControllerFinalizer},
	}}
	setManifest(t, work, resource, 1)
	return work
}

func setManifest(t testing.TB, work *workv1alpha1.Work, resource *unstructured.Unstructured, generation int) {
	t.Helper()
	manifest := resource.DeepCopy()
	util.MergeLabel(manifest, util.ManagedByKarmadaLabel, util.ManagedByKarmadaLabelValue)
	util.MergeAnnotation(manifest, workv1alpha2.WorkNameAnnotation, work.Name)
	util.MergeAnnotation(manifest, workv1alpha2.WorkNamespaceAnnotation, work.Namespace)
	util.MergeAnnotation(manifest, workv1alpha2.ResourceTemplateGenerationAnnotationKey, fmt.Sprint(generation))
	raw, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
}

// sends creates the Work of a resource.
func (w *world) sends(resource *unstructured.Unstructured, cluster string) types.NamespacedName {
	w.Helper()
	work := workOf(w.T, resource, cluster)
	w.must(w.c.Create(w.ctx, work))
	return keyOf(work)
}

func (w *world) work(key types.NamespacedName) *workv1alpha1.Work {
	w.Helper()
	work := &workv1alpha1.Work{}
	w.must(w.c.Get(w.ctx, key, work))
	return work
}

// changes updates a Work.
func (w *world) changes(key types.NamespacedName, change func(*workv1alpha1.Work)) {
	w.Helper()
	work := w.work(key)
	change(work)
	w.must(w.c.Update(w.ctx, work))
}

// resets removes the conditions of a Work.
func (w *world) resets(key types.NamespacedName) {
	w.Helper()
	work := w.work(key)
	work.Status.Conditions = nil
	w.must(w.c.Status().Update(w.ctx, work))
}

// conditionsOf lists the conditions of a Work, in order.
func conditionsOf(work *workv1alpha1.Work) string {
	var said []string
	for _, condition := range work.Status.Conditions {
		said = append(said, fmt.Sprintf("%s=%s %s", condition.Type, condition.Status, condition.Reason))
	}
	return strings.Join(said, ", ")
}

const (
	dispatching = "Dispatching=True Dispatching"
	applied     = "Applied=True AppliedSuccessful"
	failed      = "Applied=False AppliedFailed"
)

// says checks the conditions of a Work.
func (w *world) says(key types.NamespacedName, want ...string) {
	w.Helper()
	if got := conditionsOf(w.work(key)); got != strings.Join(want, ", ") {
		w.Fatalf("conditions of %s: %q, want %q\n%s", key, got, want, strings.Join(w.story[max(0, len(w.story)-60):], "\n"))
	}
}

// says returns what the member's ConfigMap of the tests says; empty if it is not there.
func says(member *Member) string {
	running, ok := member.Runs(configMapKind, "shop", "settings")
	if !ok {
		return ""
	}
	said, _, _ := unstructured.NestedString(running.Object.Object, "data", "says")
	return said
}

// runs checks what the member's ConfigMap says.
func (w *world) runs(member *Member, want string) {
	w.Helper()
	if got := says(member); got != want {
		w.Fatalf("%s says %q, want %q\n%s", member.Name, got, want, strings.Join(w.story[max(0, len(w.story)-60):], "\n"))
	}
}

var settingsKey = Key{GroupVersionKind: configMapKind, Namespace: "shop", Name: "settings"}

// keyOfKind is the key of an object in the namespace of the tests.
func keyOfKind(kind schema.GroupVersionKind, name string) Key {
	return Key{GroupVersionKind: kind, Namespace: "shop", Name: name}
}

// last returns the end of a story.
func last(story []string, lines int) string {
	return strings.Join(story[max(0, len(story)-lines):], "\n")
}
