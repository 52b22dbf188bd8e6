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

	"github.com/karmada-direct/karmada-direct/controllers/legible/legibletest"

	"github.com/google/go-cmp/cmp"
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
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

// now is the time of tests whose clock stands.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// described writes a row down in words.
func described(row propagationv1alpha1.ClusterStatus) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s: %s", row.Name, row.Applied, row.Health, row.Reason, row.Revision, row.Message))
}

// observedOn observes shop/web, which names clusters that are all Ready and have no
// Work.
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
	// writes are what reached the API server: "create Work karmada-es-member1/…".
	writes []string
	// refuse, if set, is asked before each write.
	refuse func(write string) error
	// asked are the permissions that were asked for, and may answers: allowed, or
	// an error of the server. Without it, nobody may be asked.
	asked []string
	may   func(permission string) (bool, error)
	mu    sync.Mutex
}

func newBench(t *testing.T, objects ...client.Object) *bench {
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
		writers: make(chan struct{}, 1), ledger: cached.NewLedger(clock.RealClock{}), gauges: newGauges("DirectPropagation"), requirements: dependency.NewRequirements(),
	}
	b.Customizer = customize.New(b.Client, b.Interpreter, nil)
	b.reviews = newReviews(b.Client, clock.RealClock{})
	b.Reconciler.works = func(key string) ([]client.Object, error) {
		list, found := &workv1alpha1.WorkList{}, []client.Object{}
		err := b.Client.List(t.Context(), list)
		for i := range list.Items {
			if work := &list.Items[i]; slices.Contains(cached.KeysOfWork(work), key) {
				found = append(found, work)
			}
		}
		return found, err
	}
	return b
}

func nobody(schema.GroupVersionResource, types.NamespacedName) {}

// served is a discovery that knows Deployments and Namespaces.
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

// guard writes down a write and lets refuse decide on it.
func (b *bench) guard(verb string, object client.Object, write func() error) error {
	what := fmt.Sprintf("%s %s %s/%s", verb, strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1alpha1."), object.GetNamespace(), object.GetName())
	if b.refuse != nil {
		if err := b.refuse(what); err != nil {
			return err
		}
	}
	b.writes = append(b.writes, what)
	return write()
}

// count keeps the generation of a Work, which the fake API server does not.
func (b *bench) count(ctx context.Context, object client.Object) {
	stored := &workv1alpha1.Work{}
	work, ok := object.(*workv1alpha1.Work)
	if ok && b.server.Get(ctx, client.ObjectKeyFromObject(work), stored) == nil && !equality.Semantic.DeepEqual(work.Spec, stored.Spec) {
		work.Generation = stored.Generation + 1
	}
}

// answer answers a SubjectAccessReview as may does.
func (b *bench) answer(review *authorizationv1.SubjectAccessReview) error {
	action := review.Spec.ResourceAttributes
	what := strings.TrimRight(fmt.Sprintf("%s: %s %s.%s %s/%s", review.Spec.User, action.Verb, action.Resource, action.Group, action.Namespace, action.Name), "/ ")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, what)
	if b.may == nil {
		return fmt.Errorf("nobody may be asked whether %s", what)
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
			return b.guard("patch", object, func() error { return c.Patch(ctx, object, patch, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return b.guard("delete", object, func() error { return c.Delete(ctx, object, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			return b.guard("update "+name+" of", object, func() error { return c.SubResource(name).Update(ctx, object, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return b.guard("patch "+name+" of", object, func() error { return c.SubResource(name).Patch(ctx, object, patch, options...) })
		},
	}
}

// reconcile reconciles shop/web once.
func (b *bench) reconcile(t *testing.T) error {
	t.Helper()
	_, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	return err
}

// settle reconciles until nothing is written any more.
func (b *bench) settle(t *testing.T) {
	t.Helper()
	for range 20 {
		before := len(b.writes)
		_, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
		refused := b.memories.of(web).refused()
		if err == nil && b.memories.of(web).beaten == 0 && len(refused) == 0 && len(b.writes) == before {
			return
		}
		for cluster, setback := range refused {
			setback.Until = time.Time{}
			b.memories.of(web).setbacks[cluster] = setback
		}
		// What is held back to gather status writes is not waited for here.
		b.memories.of(web).statusWritten = time.Time{}
	}
	t.Fatalf("still writing after 20 reconciles, the last: %v", b.writes[len(b.writes)-3:])
}

// confirm lets every Work be confirmed and reported healthy.
func (b *bench) confirm(t *testing.T) {
	t.Helper()
	for _, work := range b.works(t) {
		work.Status.Conditions = []metav1.Condition{
			{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue, Reason: "Dispatching", LastTransitionTime: metav1.Now()},
			{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AppliedSuccessful", LastTransitionTime: metav1.Now()},
		}
		work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Health: workv1alpha1.ResourceHealthy}}
		if err := b.server.Status().Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
	b.writes = nil
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

// TestWritesAreCounted: not one write more than it takes.
func TestWritesAreCounted(t *testing.T) {
	b := newBench(t, aShop()...)
	const work1, work2 = "Work karmada-es-member1/web-56d6c779bb", "Work karmada-es-member2/web-56d6c779bb"
	expect := func(what string, want ...string) {
		t.Helper()
		b.settle(t)
		if diff := cmp.Diff(want, b.writes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		b.writes = nil
	}
	expect("on create", "patch DirectPropagation shop/web", "create "+work1, "create "+work2, "update status of DirectPropagation shop/web")
	b.confirm(t)
	expect("on confirmation", "update status of DirectPropagation shop/web")
	if !meta.IsStatusConditionTrue(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady) {
		t.Errorf("not Ready: %+v", b.propagation(t).Status)
	}
	expect("when idle")

	b.changeImage(t, "nginx:2")
	expect("on update", "patch status of "+work1, "update "+work1, "patch status of "+work2, "update "+work2, "update status of DirectPropagation shop/web")
	b.confirm(t)
	expect("on confirmation of the update", "update status of DirectPropagation shop/web")

	b.memories.of(web).forgetResource()
	b.ledger = cached.NewLedger(clock.RealClock{})
	expect("after a restart")
}

// TestAnyWriteMayFail lets the n-th write of a life fail, for every n: all is
// put right afterwards, and nothing is left behind.
func TestAnyWriteMayFail(t *testing.T) {
	failures := map[string]error{
		"refused":  apierrors.NewForbidden(workv1alpha1.Resource("works"), "x", errors.New("quota")),
		"conflict": apierrors.NewConflict(workv1alpha1.Resource("works"), "x", errors.New("changed")),
		"timeout":  apierrors.NewTimeoutError("slow", 1),
	}
	for kind, failure := range failures {
		for n := range 14 {
			t.Run(fmt.Sprintf("%s, write %d", kind, n), func(t *testing.T) {
				b := newBench(t, aShop()...)
				count := 0
				b.refuse = func(string) error {
					if count++; count == n+1 {
						return failure
					}
					return nil
				}
				live(t, b)
			})
		}
	}
}

// TestRefusedUpdateKeepsTheConfirmedRevision: the status of a Work is reset and
// the write that follows is refused. The row still says what the cluster runs,
// also after a restart, and the revision is on the Work once the write passes.
func TestRefusedUpdateKeepsTheConfirmedRevision(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	before := b.rowOf(t, "member1").Revision
	b.refuse = func(write string) error {
		if write == "update Work karmada-es-member1/web-56d6c779bb" {
			return apierrors.NewForbidden(workv1alpha1.Resource("works"), "web-56d6c779bb", errors.New("refused by a policy"))
		}
		return nil
	}
	for _, image := range []string{"nginx:2", "nginx:3"} {
		b.changeImage(t, image)
		b.memories.of(web).forgetResource()
		b.ledger = cached.NewLedger(clock.RealClock{})
		for range 2 {
			b.memories.of(web).statusWritten = time.Time{}
			_ = b.reconcile(t) // whether a refused write is an error does not matter here
		}
		if row := b.rowOf(t, "member1"); row.Reason != propagationv1alpha1.ReasonWriteFailed || row.Revision != before {
			t.Errorf("row with %s: %s at %q, want %s at %q", image, row.Reason, row.Revision, propagationv1alpha1.ReasonWriteFailed, before)
		}
	}
	b.refuse = nil
	b.settle(t)
	if got := b.workOn(t, "member1").Annotations[propagationv1alpha1.ConfirmedRevisionAnnotation]; got != before {
		t.Errorf("revision on the Work: %q, want %q", got, before)
	}
	if got := b.rowOf(t, "member1").Revision; got != before {
		t.Errorf("revision of the row: %q, want %q", got, before)
	}
}

// TestGoneBeforeTheFinalizer: an object that is deleted before it has our
// finalizer gets no Works, for nobody would remove them.
func TestGoneBeforeTheFinalizer(t *testing.T) {
	b := newBench(t, aShop()...)
	b.refuse = func(write string) error {
		if write == "patch DirectPropagation shop/web" {
			return apierrors.NewNotFound(propagationv1alpha1.Resource("directpropagations"), "web")
		}
		return nil
	}
	if err := b.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if works := b.works(t); len(works) > 0 {
		t.Errorf("%d Works without an owner", len(works))
	}
}

// TestVanishedObjectIsSweptAfter: an object that went although it had our
// finalizer leaves nothing behind, once this process has seen it go.
func TestVanishedObjectIsSweptAfter(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	object := b.propagation(t)
	object.Finalizers = nil
	if err := b.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := b.server.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	for _, work := range b.works(t) {
		if work.DeletionTimestamp != nil {
			t.Errorf("Work %s is deleted although nobody saw its owner go", work.Namespace)
		}
	}
	b.vanished.Store(web, time.Now())
	b.settle(t)
	b.dropFinalizers(t)
	if left := b.works(t); len(left) > 0 {
		t.Errorf("%d Works are left", len(left))
	}
}

// TestNextLifeCleansUp: an object that is made again and deleted before it has
// taken up the Works of its earlier life removes them all the same.
func TestNextLifeCleansUp(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	for _, work := range b.works(t) {
		work.Labels[propagationv1alpha1.OwnerUIDLabel] = "earlier"
		if err := b.server.Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	b.dropFinalizers(t)
	b.settle(t)
	if err := b.server.Get(t.Context(), web, webPropagation()); !apierrors.IsNotFound(err) {
		t.Errorf("the object is left: %v", err)
	}
}

// live goes through a life: create, change, withdraw, delete.
func live(t *testing.T, b *bench) {
	t.Helper()
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	b.changeImage(t, "nginx:2")
	b.settle(t)
	for _, work := range b.works(t) {
		if decide.WantsReset(&work) {
			t.Errorf("Work %s still says that the old content is applied", work.Namespace)
		}
		if !strings.Contains(string(work.Spec.Workload.Manifests[0].Raw), "nginx:2") {
			t.Errorf("Work %s has the old content", work.Namespace)
		}
	}
	b.confirm(t)
	b.settle(t)
	if !meta.IsStatusConditionTrue(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady) {
		t.Errorf("not Ready in the end: %+v", b.propagation(t).Status.Conditions)
	}
	if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	b.dropFinalizers(t)
	b.settle(t)
	if left := b.works(t); len(left) > 0 {
		t.Errorf("%d Works are left", len(left))
	}
	if err := b.server.Get(t.Context(), web, webPropagation()); !apierrors.IsNotFound(err) {
		t.Errorf("the object is left: %v", err)
	}
}

// dropFinalizers does what Karmada does with a Work that is being deleted.
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
		b.ledger.Gone("ours", &work)
	}
}

// TestPreservedWorkIsReleased: Karmada waits for ever for an object that is to
// stay on the member and is not there; the Work is let go then.
func TestPreservedWorkIsReleased(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	object := b.propagation(t)
	object.Spec.PreserveResourcesOnDeletion = ptr.To(true)
	if err := b.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if err := b.server.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if works := b.works(t); len(works) != 2 {
		t.Fatalf("%d Works: Karmada gets its time first", len(works))
	}
	after := func(duration time.Duration) {
		t.Helper()
		b.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(duration))
		for range 2 {
			b.ledger = cached.NewLedger(b.Clock)
			b.settle(t)
		}
	}
	after(time.Minute)
	if works := b.works(t); len(works) != 2 {
		t.Fatalf("%d Works: the clock of the API server alone must not tell how long Karmada has had", len(works))
	}
	after(2 * time.Minute)
	if works := b.works(t); len(works) != 0 {
		t.Errorf("%d Works are held forever", len(works))
	}
	if err := b.server.Get(t.Context(), web, webPropagation()); !apierrors.IsNotFound(err) {
		t.Errorf("the object is left: %v", err)
	}
}

// TestForeignWorksAreNotTouched: a Work of the same name that is somebody
// else's is neither written nor deleted, whatever happens to ours.
func TestForeignWorksAreNotTouched(t *testing.T) {
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		holder              string
	}{
		"a policy's": {
			map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "x"},
			map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotationKey: "shop", workv1alpha2.ResourceBindingNameAnnotationKey: "web-deployment"},
			"ResourceBinding shop/web-deployment",
		},
		"Karmada's own": {nil, nil, "Karmada or another controller"},
		"ours, with the label of a quota of Karmada": {
			map[string]string{propagationv1alpha1.OwnerUIDLabel: "ours", "federatedresourcequota.karmada.io/name": "x"}, nil, "Karmada or another controller",
		},
		"another DirectPropagation's": {
			map[string]string{propagationv1alpha1.OwnerUIDLabel: "theirs"},
			map[string]string{propagationv1alpha1.OwnerKindAnnotation: "DirectPropagation", propagationv1alpha1.OwnerNamespaceAnnotation: "shop", propagationv1alpha1.OwnerNameAnnotation: "other"},
			"DirectPropagation shop/other",
		},
		"ours, taken over by a policy": {
			map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "x", propagationv1alpha1.OwnerUIDLabel: "ours"},
			map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotationKey: "shop", workv1alpha2.ResourceBindingNameAnnotationKey: "web-deployment"},
			"ResourceBinding shop/web-deployment",
		},
	} {
		t.Run(name, func(t *testing.T) {
			foreign := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
				Namespace: "karmada-es-member1", Name: "web-56d6c779bb", UID: "foreign", Labels: tc.labels, Annotations: tc.annotations,
			}}
			other := webPropagation()
			other.Name, other.UID = "other", "theirs"
			b := newBench(t, append(aShop(), foreign, other)...)
			b.settle(t)
			if row := b.propagation(t).Status.Clusters[0]; row.Reason != propagationv1alpha1.ReasonConflict || !strings.Contains(row.Message, tc.holder) {
				t.Errorf("the row must name %s: %s", tc.holder, described(row))
			}
			b.writes = nil
			b.settle(t)
			if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
				t.Fatal(err)
			}
			b.settle(t)
			if slices.ContainsFunc(b.writes, func(write string) bool { return strings.Contains(write, "karmada-es-member1") }) {
				t.Errorf("the foreign Work was touched: %v", b.writes)
			}
			if left := b.works(t); left[0].UID != "foreign" || left[0].DeletionTimestamp != nil {
				t.Errorf("the foreign Work is not as it was: %+v", left[0].ObjectMeta)
			}
		})
	}
}

// TestOrphansAreTakenUp: a Work whose owner lost its finalizer and is gone, or
// was made again under the same name, is nobody's.
func TestOrphansAreTakenUp(t *testing.T) {
	for name, ownerName := range map[string]string{"of an owner that is gone": "other", "of an earlier life": "web"} {
		t.Run(name, func(t *testing.T) {
			orphan := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
				Namespace: "karmada-es-member1", Name: "web-56d6c779bb", UID: "orphan",
				Labels: map[string]string{propagationv1alpha1.OwnerUIDLabel: "dead"},
				Annotations: map[string]string{
					propagationv1alpha1.OwnerKindAnnotation: "DirectPropagation", propagationv1alpha1.OwnerNamespaceAnnotation: "shop", propagationv1alpha1.OwnerNameAnnotation: ownerName,
				},
			}}
			b := newBench(t, append(aShop(), orphan)...)
			b.settle(t)
			taken := b.works(t)[0]
			if taken.UID != "orphan" || taken.Labels[propagationv1alpha1.OwnerUIDLabel] != "ours" || len(taken.Finalizers) != 1 {
				t.Errorf("not taken up: %+v", taken.ObjectMeta)
			}
		})
	}
}

// TestStrippedWorkIsTakenUp: a Work of ours with nothing left but its content is
// still known by that.
func TestStrippedWorkIsTakenUp(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	work := b.works(t)[0]
	work.Labels, work.Annotations, work.Finalizers = nil, nil, nil
	if err := b.server.Update(t.Context(), &work); err != nil {
		t.Fatal(err)
	}
	b.ledger = cached.NewLedger(clock.RealClock{})
	b.settle(t)
	taken := b.works(t)[0]
	if taken.UID != work.UID || taken.Labels[propagationv1alpha1.OwnerUIDLabel] != "ours" || len(taken.Finalizers) != 1 {
		t.Errorf("not taken up: %+v", taken.ObjectMeta)
	}
}

// TestEventsTellTroubleOnly: what goes well costs no Event.
func TestEventsTellTroubleOnly(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	if len(b.events.Events) != 0 {
		t.Errorf("an Event although all went well: %s", <-b.events.Events)
	}
	if err := b.server.Delete(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	if got, want := <-b.events.Events, "Warning ResourceNotFound Deployment shop/web does not exist in the Karmada control plane"; got != want {
		t.Errorf("Event %q, want %q", got, want)
	}
	if len(b.works(t)) != 2 {
		t.Error("a missing resource must delete nothing")
	}
	if err := b.server.Create(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	if got := <-b.events.Events; !strings.HasPrefix(got, "Normal Propagated ") {
		t.Errorf("Event %q, want the end of the trouble", got)
	}
}

func TestStatusWritesAreGathered(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.memories.of(web).statusWritten = time.Now()
	works := b.works(t)
	works[0].Status.Conditions = []metav1.Condition{{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue, Reason: "x"}, {Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue, Reason: "x"}}
	if err := b.server.Status().Update(t.Context(), &works[0]); err != nil {
		t.Fatal(err)
	}
	b.writes = nil
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	if err != nil || len(b.writes) > 0 || result.RequeueAfter <= 0 || result.RequeueAfter > statusInterval {
		t.Errorf("one of two rows changed: %v written, again in %v, %v", b.writes, result.RequeueAfter, err)
	}
	b.confirm(t)
	if err := b.reconcile(t); err != nil || len(b.writes) != 1 {
		t.Errorf("Ready changed: %v written, %v", b.writes, err)
	}
}

// Replicas come one by one. The row counts them, is not new for that, and is not
// written each time.
func TestDetailIsWrittenSeldom(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	available := func(count int) {
		t.Helper()
		for _, work := range b.works(t) {
			work.Status.ManifestStatuses[0] = workv1alpha1.ManifestStatus{
				Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Kind: "Deployment"}, Health: workv1alpha1.ResourceUnhealthy,
				Status: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"replicas":100,"updatedReplicas":100,"availableReplicas":%d}`, count)},
			}
			if err := b.server.Status().Update(t.Context(), &work); err != nil {
				t.Fatal(err)
			}
		}
	}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	b.Clock = clock
	available(0)
	b.settle(t)
	began := b.propagation(t).Status
	b.memories.of(web).statusWritten = clock.Now()
	b.writes = nil
	const perSecond, seconds = 10, 9
	for step := range perSecond * seconds {
		available(step + 1)
		if err := b.reconcile(t); err != nil {
			t.Fatal(err)
		}
		clock.SetTime(clock.Now().Add(time.Second / perSecond))
	}
	statusWrites := func() (count int) {
		for _, write := range b.writes {
			if write == "update status of DirectPropagation shop/web" {
				count++
			}
		}
		return count
	}
	if got, want := statusWrites(), seconds/int(detailInterval/time.Second); got != want {
		t.Errorf("%d changes in %d s: %d writes of the status, want %d", perSecond*seconds, seconds, got, want)
	}
	clock.SetTime(clock.Now().Add(detailInterval))
	b.settle(t)
	row := b.rowOf(t, "member1")
	if want := "the cluster runs the current revision and reports it not healthy: 90 of 100 replicas available"; row.Message != want {
		t.Errorf("message %q, want %q", row.Message, want)
	}
	if !row.LastTransitionTime.Equal(&began.Clusters[0].LastTransitionTime) {
		t.Errorf("the row is of %s, was of %s", row.LastTransitionTime, began.Clusters[0].LastTransitionTime)
	}
	ready := meta.FindStatusCondition(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady)
	if !strings.HasSuffix(ready.Message, "90 of 100 replicas available") || !ready.LastTransitionTime.Equal(&meta.FindStatusCondition(began.Conditions, propagationv1alpha1.ConditionReady).LastTransitionTime) {
		t.Errorf("Ready is %+v, was %+v", ready, began.Conditions)
	}
	b.confirm(t)
	if err := b.reconcile(t); err != nil || statusWrites() != 1 {
		t.Errorf("healthy: %v written, %v; want the status at once", b.writes, err)
	}
}

// A first status waits a second for what clusters answer, and no longer. Nothing
// else does that would correct what was said before.
func TestStatusWaitsForTheFirstAnswer(t *testing.T) {
	statusWrite := "update status of DirectPropagation shop/web"
	look := func(t *testing.T, b *bench) ctrl.Result {
		t.Helper()
		b.writes = nil
		result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	t.Run("they answer", func(t *testing.T) {
		b := newBench(t, aShop()...)
		result := look(t, b)
		if slices.Contains(b.writes, statusWrite) || result.RequeueAfter <= 0 || result.RequeueAfter > statusInterval || ptr.Deref(result.Priority, 0) != priorityReport {
			t.Errorf("%v written, again in %v with priority %d; want no status yet", b.writes, result.RequeueAfter, ptr.Deref(result.Priority, 0))
		}
		b.confirm(t)
		look(t, b)
		if want := []string{statusWrite}; !slices.Equal(b.writes, want) {
			t.Errorf("confirmed: %v written, want %v", b.writes, want)
		}
	})
	t.Run("they do not", func(t *testing.T) {
		b := newBench(t, aShop()...)
		look(t, b)
		b.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(statusInterval))
		look(t, b)
		if want := []string{statusWrite}; !slices.Equal(b.writes, want) {
			t.Errorf("after a second: %v written, want %v", b.writes, want)
		}
	})
	t.Run("nothing can be sent", func(t *testing.T) {
		b := newBench(t, aShop()...)
		if err := b.server.Delete(t.Context(), webDeployment()); err != nil {
			t.Fatal(err)
		}
		look(t, b)
		if !slices.Contains(b.writes, statusWrite) {
			t.Errorf("%v written, want the status at once", b.writes)
		}
	})
	t.Run("they are not healthy yet", func(t *testing.T) {
		b := newBench(t, aShop()...)
		look(t, b)
		b.confirm(t)
		for _, work := range b.works(t) {
			work.Status.ManifestStatuses[0].Health = workv1alpha1.ResourceUnhealthy
			if err := b.server.Status().Update(t.Context(), &work); err != nil {
				t.Fatal(err)
			}
		}
		if look(t, b); len(b.writes) > 0 {
			t.Errorf("%v written, want no status yet", b.writes)
		}
	})
	t.Run("what was said before is false now", func(t *testing.T) {
		b := newBench(t, aShop()...)
		b.settle(t)
		b.confirm(t)
		b.settle(t)
		for _, work := range b.works(t) {
			work.Finalizers = append(work.Finalizers, "example.com/holds-it")
			if err := b.server.Update(t.Context(), &work); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.server.Delete(t.Context(), b.propagation(t)); err != nil {
			t.Fatal(err)
		}
		if look(t, b); !slices.Contains(b.writes, statusWrite) {
			t.Errorf("deleted: %v written, want the status at once", b.writes)
		}
	})
}

// An Event that is too long is refused by the API.
func TestEventsAreLegible(t *testing.T) {
	b := newBench(t, aShop()...)
	recorder := events.NewFakeRecorder(1)
	b.Recorder = recorder
	b.event(b.propagation(t), "Reason", "\x1b[31m"+strings.Repeat("long\n", 1000))
	legibletest.Check(t, "Event", strings.TrimPrefix(<-recorder.Events, "Warning Reason "), legible.MaxNote)
}
