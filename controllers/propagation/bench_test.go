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

package propagation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

// now is the time of tests with a fixed clock.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// described returns a row as text.
func described(row propagationv1alpha1.ClusterStatus) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s: %s", row.Name, row.Applied, row.Health, row.Reason, row.Revision, row.Message))
}

// observedOn returns an observation of shop/web, which names clusters that are all
// Ready and have no Work.
func observedOn(clusters ...string) *decide.Observed {
	observed := &decide.Observed{
		Now: now, Owner: render.Owner{Kind: "DirectPropagation", Namespace: web.Namespace, Name: web.Name, UID: "ours"}, Generation: 1,
		Spec:     &propagationv1alpha1.PropagationSpec{Resource: propagationv1alpha1.ResourceReference{APIVersion: "apps/v1", Kind: "Deployment", Name: web.Name}},
		Status:   &propagationv1alpha1.PropagationStatus{},
		Resource: decide.Resource{UID: "template", Revision: "c0ffee"}, Clusters: map[string]decide.Cluster{},
	}
	for _, name := range clusters {
		observed.Spec.Clusters = append(observed.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: name})
		observed.Clusters[name] = decide.Cluster{Exists: true, Ready: true, API: clusterv1alpha1.APIEnabled}
	}
	observed.Target()
	return observed
}

// bench is a reconciler in front of a fake API server that can refuse writes.
type bench struct {
	*Reconciler
	// server is the API server as others see it: nothing is counted or refused.
	server client.WithWatch
	events *events.FakeRecorder
	// writes are the writes that reached the API server: "create Work
	// karmada-es-member1/…".
	writes []string
	// refuse, if set, is called before each write.
	refuse func(write string) error
	// loses, if set, reports whether the answer to a write is lost.
	loses func(write string) bool
	// asked are the permissions that were asked for. may decides the answer:
	// allowed, denied, or an error of the server. If may is not set, no review is
	// expected.
	asked []string
	may   func(permission string) (bool, error)
	mu    sync.Mutex
}

func newBench(t testing.TB, objects ...client.Object) *bench {
	t.Helper()
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, clusterv1alpha1.Install, policyv1alpha1.Install, workv1alpha1.Install, propagationv1alpha1.AddToScheme,
	} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	b := &bench{events: events.NewFakeRecorder(100)}
	b.server = fake.NewClientBuilder().WithScheme(kinds).WithRESTMapper(mapper).
		WithStatusSubresource(&workv1alpha1.Work{}, &propagationv1alpha1.DirectPropagation{}).
		WithObjects(objects...).Build()
	b.Reconciler = &Reconciler{
		Kind: "DirectPropagation", Client: compacting{interceptor.NewClient(b.server, b.interceptor())}, Live: b.server, Mapper: mapper,
		Kinds: cached.NewKinds(mapper, served(), clock.RealClock{}, func(meta.RESTMapper) (client.Client, error) {
			return interceptor.NewClient(b.server, b.interceptor()), nil
		}),
		Interpreter: &customize.Interpreter{ResourceInterpreter: nativeInterpreter{native.NewDefaultInterpreter()}},
		Resources:   cached.NewWatches(t.Context(), metadatafake.NewSimpleMetadataClient(kinds), func(schema.GroupVersionResource, types.NamespacedName, bool) {}, nobody),
		Recorder:    b.events, Clock: clock.RealClock{},
		writers: make(chan struct{}, 1), ledger: cached.NewLedger(clock.RealClock{}), gauges: newGauges("DirectPropagation"), requirements: dependency.NewRequirements(), backlog: &backlog{},
	}
	b.Customizer = customize.New(b.Client, b.Interpreter, nil)
	b.reviews = newReviews(b.Client, clock.RealClock{})
	b.looksUp(t)
	return b
}

// looksUp lets the reconciler find cached Works and objects.
func (b *bench) looksUp(t testing.TB) {
	t.Helper()
	b.Reconciler.works = func(key string) ([]client.Object, error) {
		list, found := &workv1alpha1.WorkList{}, []client.Object{}
		err := b.Client.List(t.Context(), list)
		for i := range list.Items {
			if work := &list.Items[i]; work.Labels[propagationv1alpha1.OwnerUIDLabel] != "" && slices.Contains(cached.KeysOfWork(work), key) {
				found = append(found, work)
			}
		}
		return found, err
	}
	b.objects = func(key string) ([]client.Object, error) {
		list, found := &propagationv1alpha1.DirectPropagationList{}, []client.Object{}
		err := b.Client.List(t.Context(), list)
		for i := range list.Items {
			if slices.Contains(cached.KeysOf(&list.Items[i]), key) {
				found = append(found, &list.Items[i])
			}
		}
		return found, err
	}
}

func nobody(schema.GroupVersionResource, types.NamespacedName) {}

// served returns a discovery client that knows Deployments and Namespaces.
func served() *discoveryfake.FakeDiscovery {
	return &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true},
			{Name: "deployments/scale", Kind: "Scale", Namespaced: true},
		}},
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "namespaces", SingularName: "namespace", Kind: "Namespace"}}},
	}}}
}

// nativeInterpreter is the part of Karmada's interpreter that needs no server.
type nativeInterpreter struct{ *native.DefaultInterpreter }

func (nativeInterpreter) Start(context.Context) error { return nil }

// compacting reads Works as the manager's cache holds them.
type compacting struct{ client.WithWatch }

func (c compacting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := c.WithWatch.List(ctx, list, options...); err != nil {
		return err //nolint:wrapcheck // a test double passes errors through
	}
	works, ok := list.(*workv1alpha1.WorkList)
	if !ok {
		return nil
	}
	for i := range works.Items {
		if _, err := render.Compact(&works.Items[i]); err != nil {
			return err //nolint:wrapcheck // a test double passes errors through
		}
	}
	return nil
}

func (c compacting) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := c.WithWatch.Get(ctx, key, object, options...); err != nil {
		return err //nolint:wrapcheck // a test double passes errors through
	}
	if work, ok := object.(*workv1alpha1.Work); ok {
		if work.Labels[propagationv1alpha1.OwnerUIDLabel] == "" {
			return apierrors.NewNotFound(workv1alpha1.Resource("works"), key.Name)
		}
		_, err := render.Compact(work)
		return err //nolint:wrapcheck // a test double passes errors through
	}
	return nil
}

// guard records a write, unless refuse refuses it.
func (b *bench) guard(verb string, object client.Object, write func() error) error {
	what := fmt.Sprintf("%s %s %s/%s", verb, strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1alpha1."), object.GetNamespace(), object.GetName())
	if b.refuse != nil {
		if err := b.refuse(what); err != nil {
			return err
		}
	}
	b.writes = append(b.writes, what)
	err := write()
	if err == nil && b.loses != nil && b.loses(what) {
		return apierrors.NewTimeoutError("the answer is lost", 1)
	}
	return err
}

// count increments the generation of a Work, which the fake API server does not do.
func (b *bench) count(ctx context.Context, object client.Object) {
	stored := &workv1alpha1.Work{}
	work, ok := object.(*workv1alpha1.Work)
	if ok && b.server.Get(ctx, client.ObjectKeyFromObject(work), stored) == nil && !equality.Semantic.DeepEqual(work.Spec, stored.Spec) {
		work.Generation = stored.Generation + 1
	}
}

// answer answers a SubjectAccessReview with may.
func (b *bench) answer(review *authorizationv1.SubjectAccessReview) error {
	action := review.Spec.ResourceAttributes
	what := strings.TrimRight(fmt.Sprintf("%s: %s %s.%s %s/%s", review.Spec.User, action.Verb, action.Resource, action.Group, action.Namespace, action.Name), "/ ")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, what)
	if b.may == nil {
		return fmt.Errorf("unexpected review: %s", what)
	}
	var err error
	review.Status.Allowed, err = b.may(what)
	return err
}

func (b *bench) interceptor() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if review, ok := object.(*authorizationv1.SubjectAccessReview); ok {
				return b.answer(review)
			}
			return b.guard("create", object, func() error { return c.Create(ctx, object, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			b.count(ctx, object)
			return b.guard("update", object, func() error { return c.Update(ctx, object, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return b.guard("patch", object, func() error { return errors.Join(c.Patch(ctx, object, patch, options...), b.counts(ctx, object)) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return b.guard("delete", object, func() error {
				if err := c.Delete(ctx, object, options...); err != nil {
					return err
				}
				return b.ends(ctx, object)
			})
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			return b.guard("update "+name+" of", object, func() error { return c.SubResource(name).Update(ctx, object, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return b.guard("patch "+name+" of", object, func() error { return c.SubResource(name).Patch(ctx, object, patch, options...) })
		},
	}
}

// counts counts a write to a Work as a change, as the API server does if the spec differs.
func (b *bench) counts(ctx context.Context, object client.Object) error {
	if work, ok := object.(*workv1alpha1.Work); ok && work.ResourceVersion != "" {
		work.Generation++
		return b.server.Update(ctx, work)
	}
	return nil
}

// ends counts the deletion of an object that stays for now as a change, as the API server does.
func (b *bench) ends(ctx context.Context, object client.Object) error {
	ending, _ := object.DeepCopyObject().(client.Object)
	if err := b.server.Get(ctx, client.ObjectKeyFromObject(object), ending); err != nil {
		return client.IgnoreNotFound(err)
	}
	ending.SetGeneration(ending.GetGeneration() + 1)
	return b.server.Update(ctx, ending)
}

// reconcile reconciles shop/web once.
func (b *bench) reconcile(t *testing.T) error {
	t.Helper()
	_, err := b.Reconciler.reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	return err
}

// settle reconciles until there are no more writes.
func (b *bench) settle(t testing.TB) {
	t.Helper()
	for range 20 {
		before := len(b.writes)
		_, err := b.Reconciler.reconcile(t.Context(), ctrl.Request{NamespacedName: web})
		refused := b.memories.of(web).refused()
		if err == nil && b.memories.of(web).beaten == 0 && len(refused) == 0 && len(b.writes) == before {
			return
		}
		for cluster, setback := range refused {
			setback.Until = time.Time{}
			b.memories.of(web).setbacks[cluster] = setback
		}
		// Do not wait for status writes that are held back.
		b.memories.of(web).statusWritten = time.Time{}
	}
	t.Fatalf("still writing after 20 reconciles; the last writes: %v", b.writes[len(b.writes)-3:])
}

// confirm makes every Work confirmed and healthy.
func (b *bench) confirm(t *testing.T) {
	t.Helper()
	for _, work := range b.works(t) {
		confirmWork(t, b, work, workv1alpha1.ResourceHealthy)
	}
	b.writes = nil
}

// confirmWork lets a cluster confirm what a Work holds, and report its health.
func confirmWork(t *testing.T, b *bench, work workv1alpha1.Work, health workv1alpha1.ResourceHealth) {
	t.Helper()
	work.Status.Conditions = []metav1.Condition{
		{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue, Reason: "Dispatching", LastTransitionTime: metav1.Now()},
		{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AppliedSuccessful", LastTransitionTime: metav1.Now()},
	}
	work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Health: health}}
	if err := b.server.Status().Update(t.Context(), &work); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) works(t *testing.T) []workv1alpha1.Work {
	t.Helper()
	list := &workv1alpha1.WorkList{}
	if err := b.server.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (b *bench) propagation(t *testing.T) *propagationv1alpha1.DirectPropagation {
	t.Helper()
	object := &propagationv1alpha1.DirectPropagation{}
	if err := b.server.Get(t.Context(), web, object); err != nil {
		t.Fatal(err)
	}
	return object
}

func (b *bench) changeImage(t *testing.T, image string) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := b.server.Get(t.Context(), web, deployment); err != nil {
		t.Fatal(err)
	}
	deployment.Spec.Template.Spec.Containers[0].Image = image
	if err := b.server.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	b.writes = nil
}

func webDeployment() *appsv1.Deployment {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: "deployment"}}
	deployment.Spec.Replicas = ptr.To[int32](1)
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:1"}}
	return deployment
}

func webPropagation() *propagationv1alpha1.DirectPropagation {
	object := &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: "ours", Generation: 1}}
	object.Spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	object.Spec.Clusters = []propagationv1alpha1.TargetCluster{{Name: "member1"}, {Name: "member2"}}
	return object
}

func memberCluster(name string) *clusterv1alpha1.Cluster {
	member := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	member.Status.Conditions = []metav1.Condition{{
		Type: clusterv1alpha1.ClusterConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
	}}
	return member
}

func aShop() []client.Object {
	return []client.Object{webDeployment(), webPropagation(), memberCluster("member1"), memberCluster("member2")}
}

// dropFinalizers removes the finalizers of Works that are being deleted, as Karmada
// does.
func (b *bench) dropFinalizers(t *testing.T) {
	t.Helper()
	for _, work := range b.works(t) {
		if work.DeletionTimestamp == nil {
			t.Errorf("Work %s is not being deleted", work.Namespace)
			continue
		}
		work.Finalizers = nil
		if err := b.server.Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
		b.ledger.Gone(&work, "ours")
	}
}
